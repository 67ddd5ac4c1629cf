"""What real servers refuse in a tool's schema: None, or the words of the refusal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def schema_fault(schema: Any, *, keys: bool) -> str | None:
    """Why a tool with this schema is refused; ``keys`` says that names of parameters must be plain."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        return "schema must be an object with properties"
    if bad := sorted({"anyOf", "oneOf", "allOf", "not", "enum", "$ref"} & schema.keys()):
        return f"schema does not support {', '.join(bad)} at the top level"
    return next(_faults(schema, schema, keys=keys, depth=0), None)


def _faults(schema: Any, root: dict[str, Any], *, keys: bool, depth: int) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield f"{schema!r} is not of type 'object'"
        return
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if any(kind not in TYPES for kind in kinds):
        yield f"{kinds} is not valid under any of the given schemas"
    for value in schema.get("enum", ()) if kinds else ():
        own = "null" if value is None else KINDS[type(value)]
        if own not in kinds and not (own == "integer" and "number" in kinds):
            yield f"enum value {value!r} does not validate against {kinds}"
    if "array" in kinds and not isinstance(schema.get("items"), dict):
        yield "array schema missing items"
    if "enum" in schema and not schema["enum"]:
        yield "enum is empty"
    if not isinstance(schema.get("required", []), list):
        yield "required is not an array"
    if isinstance(schema.get("exclusiveMinimum"), bool) or isinstance(schema.get("exclusiveMaximum"), bool):
        yield "exclusiveMinimum must be a number"
    if "$ref" in schema and not _leads(schema["$ref"], root):
        yield f"reference {schema['$ref']!r} can't be resolved"
    for key in ("properties", "$defs", "definitions"):
        for name, inner in schema.get(key, {}).items():
            if keys and key == "properties" and not PROPERTY.fullmatch(name):
                yield f"Property keys should match pattern {PROPERTY.pattern!r}: {name}"
            yield from _faults(inner, root, keys=keys, depth=depth + 1)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for inner in schema.get(key, ()):
            yield from _faults(inner, root, keys=keys, depth=depth + 1)
    if isinstance(schema.get("items"), dict):
        yield from _faults(schema["items"], root, keys=keys, depth=depth + 1)


def _leads(ref: str, root: Any) -> bool:
    if not ref.startswith("#"):
        return False
    at = root
    for step in ref[1:].split("/")[1:]:
        if not isinstance(at, dict) or step not in at:
            return False
        at = at[step]
    return True
