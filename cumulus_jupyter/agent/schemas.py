"""Any JSON schema as one that every model's server takes for a tool: sound, and with an object at its top."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

__all__ = ["VALUE", "is_wrapped", "object_schema", "sound"]

VALUE = "value"
"""The parameter that stands for the arguments where a schema's root is no object."""

_DEEPEST = 4
"""References within references that are followed at the top: alternatives that refer to one another are a maze."""

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = (
    *("additionalProperties", "items", "not", "if", "then", "else", "contains", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
_REFUSED_AT_TOP = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "$ref", "$schema", "$id")
_TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
_OTHER_TYPES = {
    "dict": "object",
    "list": "array",
    "tuple": "array",
    "str": "string",
    "text": "string",
    "float": "number",
    "double": "number",
    "int": "integer",
    "bool": "boolean",
    "none": "null",
}
_OF_TYPE: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value == int(value),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def object_schema(schema: Any) -> dict[str, Any]:
    """The schema with an object at its top.

    Alternatives at the top become one object whose parameters are those of all of them, required only where each
    alternative requires them. A root that is no object becomes the parameter ``value``.

    Raises
    ------
    ValueError
        For what can't be a schema at all, one without an end included.
    """
    json.dumps(schema, allow_nan=False)  # circles are a ValueError here, and an endless walk below
    if schema is None or schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise ValueError(f"its schema is {type(schema).__name__}, not an object")
    if is_wrapped(schema):
        inner = {key: value for key, value in _moved(schema).items() if key not in ("$schema", "$id")}
        return {"type": "object", "properties": {VALUE: sound(inner, schema)}, "required": [VALUE]}
    whole = sound(schema)
    return _merged(whole, whole, ())


def is_wrapped(schema: dict[str, Any]) -> bool:
    """Whether no object can satisfy the schema's root."""
    return not _may_be_object(schema, schema, ())


def _may_be_object(schema: Any, root: dict[str, Any], seen: tuple[str, ...]) -> bool:
    if not isinstance(schema, dict):
        return schema is not False
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref not in seen and len(seen) < _DEEPEST:
        seen = (*seen, ref)
        if not _may_be_object(_target(ref, root), root, seen):
            return False
    if "properties" in schema:
        return True
    kinds = schema.get("type")
    if kinds is not None and not {"object", "dict", "any", ""} & set(kinds if isinstance(kinds, list) else [kinds]):
        return False
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list) and values and not any(isinstance(value, dict) for value in values):
        return False
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        if isinstance(branches, list) and branches and not any(_may_be_object(b, root, seen) for b in branches):
            return False
    return all(_may_be_object(branch, root, seen) for branch in schema.get("allOf") or ())


def _merged(schema: dict[str, Any], root: dict[str, Any], seen: tuple[str, ...]) -> dict[str, Any]:
    """One object of what the schema says itself, refers to, and combines."""
    merged = {key: value for key, value in schema.items() if key not in _REFUSED_AT_TOP}
    properties = dict(schema.get("properties") or {})
    required = list(schema.get("required") or ())
    told = []
    parts = list(schema.get("allOf") or ())
    if isinstance(ref := schema.get("$ref"), str) and ref not in seen and len(seen) < _DEEPEST:
        seen = (*seen, ref)
        parts.append(_target(ref, root))
    for part in _objects(parts, root, seen):
        _add(properties, part["properties"])
        required += part.get("required", ())
    for key in ("anyOf", "oneOf"):
        branches = _objects(schema.get(key) or [], root, seen)
        for branch in branches:
            _add(properties, branch["properties"])
        if branches:
            told.append(" or ".join("{" + ", ".join(branch["properties"]) + "}" for branch in branches))
            common = set.intersection(*(set(branch.get("required", ())) for branch in branches))
            required += sorted(common)
    if parts or told:
        merged.pop("additionalProperties", None)
    if told:
        note = f"Give the parameters of one of: {'; '.join(told)}."
        merged["description"] = f"{merged['description']} {note}" if merged.get("description") else note
    merged.pop("required", None)
    merged |= {"type": "object", "properties": properties}
    return {**merged, "required": list(dict.fromkeys(required))} if required else merged


def _objects(parts: list[Any], root: dict[str, Any], seen: tuple[str, ...]) -> list[dict[str, Any]]:
    return [_merged(p, root, seen) for p in parts if isinstance(p, dict) and _may_be_object(p, root, seen)]


def _add(properties: dict[str, Any], more: dict[str, Any]) -> None:
    """Add parameters; one that is there with another schema may be either."""
    for name, schema in more.items():
        if name in properties and properties[name] != schema:
            schema = {"anyOf": [properties[name], schema]}
        properties[name] = schema


def _target(ref: str, root: dict[str, Any]) -> Any:
    """What a reference within the schema leads to; an empty schema, which allows all, where it leads nowhere."""
    at: Any = root
    if not ref.startswith("#"):
        return {}
    for step in ref[1:].split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(at, list) and step.isdigit() and int(step) < len(at):
            at = at[int(step)]
        elif isinstance(at, dict) and step in at:
            at = at[step]
        else:
            return {}
    return at


def _moved(value: Any) -> Any:
    """A schema whose references still lead home where it is the parameter ``value``."""
    if isinstance(value, list):
        return [_moved(item) for item in value]
    if not isinstance(value, dict):
        return value
    moved = {key: _moved(item) for key, item in value.items()}
    if isinstance(ref := moved.get("$ref"), str) and ref.startswith("#"):
        moved["$ref"] = f"#/properties/{VALUE}{ref[1:]}"
    return moved


def sound(schema: Any, root: Any = None) -> Any:
    """The schema without what makes servers refuse it: dialects of older drafts, contradictions, dead references."""
    root = schema if root is None else root
    if not isinstance(schema, dict):
        return schema if isinstance(schema, bool) else {}
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _MAPS:
            kept[key] = {k: _plain(sound(v, root)) for k, v in value.items()} if isinstance(value, dict) else {}
        elif key in _LISTS:
            kept[key] = [_plain(sound(item, root)) for item in value] if isinstance(value, list) else []
        elif key == "items" and isinstance(value, list):  # a tuple, as older drafts wrote it
            kept[key] = {"anyOf": [_plain(sound(item, root)) for item in value]} if value else {}
        elif key in _SINGLE:
            kept[key] = sound(value, root)
        else:
            kept[key] = value
    for key in _LISTS:
        if kept.get(key) == []:
            del kept[key]
    _mend_type(kept)
    _mend_rest(kept, root)
    return kept


def _plain(schema: Any) -> Any:
    """A schema object: some servers take no ``true`` where one is meant."""
    return {} if schema is True else {"not": {}} if schema is False else schema


def _mend_type(kept: dict[str, Any]) -> None:
    """Types by their names in JSON schema, and only values of these types."""
    if "type" in kept:
        given = kept["type"] if isinstance(kept["type"], list) else [kept["type"]]
        named = [str(kind).lower() for kind in given]
        kinds = [
            kind if kind in _TYPES else _OTHER_TYPES[kind] for kind in named if kind in _TYPES | _OTHER_TYPES.keys()
        ]
        if len(kinds) < len(given) or not kinds:
            del kept["type"]  # "any" is any
        else:
            kept["type"] = kinds if isinstance(kept["type"], list) else kinds[0]
    values = kept.get("enum")
    if "enum" in kept and (not isinstance(values, list) or not values):
        del kept["enum"]
    elif values and (wanted := kept.get("type")):
        wanted = wanted if isinstance(wanted, list) else [wanted]
        fitting = [value for value in values if any(_OF_TYPE[kind](value) for kind in wanted)]
        if fitting:
            kept["enum"] = fitting
        else:  # the two contradict each other: the values say more
            del kept["type"]
    array = kept.get("type") == "array" or "array" in (kept.get("type") or ())
    if array and "items" not in kept:
        kept["items"] = {}


def _mend_rest(kept: dict[str, Any], root: Any) -> None:
    required = kept.get("required")
    if "required" in kept:
        names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        kept["required"] = list(dict.fromkeys(names))
        if not names:
            del kept["required"]
    for key, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(kept.get(key), bool) and kept.pop(key) and bound in kept:  # draft 4
            kept[key] = kept.pop(bound)
    if "$ref" in kept:
        ref = kept["$ref"]
        local = isinstance(ref, str) and (ref == "#" or (ref.startswith("#/") and _target(ref, root) != {}))
        inner = isinstance(ref, str) and ref.startswith(f"#/properties/{VALUE}")
        if not (local or inner):
            del kept["$ref"]
            kept.setdefault("description", f"(a {str(ref).rpartition('/')[2]})")
