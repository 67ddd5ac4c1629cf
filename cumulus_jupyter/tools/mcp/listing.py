"""A server's tools as they come over the wire: what can be used is kept, the rest is named with its reason."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Listed", "as_listed", "mended"]


@dataclass(frozen=True, slots=True)
class Listed:
    """One tool of a server; ``title`` is its name for people."""

    name: str
    description: str
    schema: dict[str, Any]
    title: str = ""
    read_only: bool = False


def mended(tools: Iterable[Any], faults: dict[str, str]) -> list[dict[str, Any]]:
    """The entries of a ``tools/list`` result that can be used, in a form that the protocol's own check accepts.

    One bad entry would cost the whole page there. ``faults`` gets, by a tool's name, why it is left out or how it is
    changed. What only a program needs (the schema of results, icons) is taken out, so that no fault in it costs a
    result.
    """
    kept = []
    for number, tool in enumerate(tools, 1):
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not name:
            faults[f"number {number}"] = "is left out: it has no name"
            continue
        schema, reason = _schema(tool.get("inputSchema"))
        if reason:
            faults[name] = f"is left out: {reason}"
            continue
        if change := _changed(schema):
            faults[name] = f"is changed: {change}"
        texts = {key: tool[key] for key in ("title", "description") if isinstance(tool.get(key), str)}
        kept.append({"name": name, **texts, "inputSchema": schema, "annotations": _annotations(tool)})
    return kept


def _annotations(tool: dict[str, Any]) -> dict[str, Any]:
    given = tool.get("annotations")
    given = given if isinstance(given, dict) else {}
    kept: dict[str, Any] = {"readOnlyHint": given.get("readOnlyHint") is True}
    if isinstance(given.get("title"), str):
        kept["title"] = given["title"]
    return kept


def _schema(given: Any) -> tuple[dict[str, Any], str]:
    """The schema of a tool's arguments as one of an object, or the reason why it can't be one."""
    if given is None or given == {}:
        return {"type": "object", "properties": {}}, ""
    if not isinstance(given, dict):
        return {}, "the schema of its arguments is no JSON object"
    kind = given.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        return {}, f"it takes a {kind}, and a tool's arguments are always an object"
    schema = {**copy.deepcopy(given), "type": "object"}
    return schema, _fault(schema)


def _changed(schema: dict[str, Any]) -> str:
    """Take out what no value can fit, in place, and say what of the schema reaches a model in another form."""
    lost = [at for at in _parts(schema) if _contradicts(at)]
    for part in lost:
        del part["type"]
    changes = ["a type that none of its choices has is dropped"] if lost else []
    if {"anyOf", "oneOf", "allOf"} & schema.keys():
        changes.append("the alternatives at the top of its arguments are shown as one object")
    return "; ".join(changes)


def _contradicts(part: dict[str, Any]) -> bool:
    from jsonschema.validators import validator_for

    if not isinstance(part.get("enum"), list) or not isinstance(part.get("type"), str):
        return False
    check = validator_for(part)({"type": part["type"]})
    return bool(part["enum"]) and not any(check.is_valid(value) for value in part["enum"])


def _parts(part: Any) -> Iterator[dict[str, Any]]:
    """All objects within a schema."""
    if isinstance(part, dict):
        yield part
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _parts(value)


def _fault(schema: dict[str, Any]) -> str:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        return f"the schema of its arguments is none: {error.message[:200]}"
    lost = [ref for ref in _references(schema) if not _resolves(schema, ref)]
    return f"the schema of its arguments refers to {lost[0]}, which is not in it" if lost else ""


def _references(schema: dict[str, Any]) -> Iterator[str]:
    return (part["$ref"] for part in _parts(schema) if isinstance(part.get("$ref"), str))


def _resolves(schema: dict[str, Any], ref: str) -> bool:
    """Whether a reference leads somewhere within the schema; by an anchor's name is taken on trust."""
    if not ref.startswith("#"):
        return False
    if not ref.startswith("#/"):
        return True
    at: Any = schema
    for step in ref[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~").replace("%25", "%")
        if isinstance(at, list) and step.isdigit() and int(step) < len(at):
            at = at[int(step)]
        elif isinstance(at, dict) and step in at:
            at = at[step]
        else:
            return False
    return True


def as_listed(tool: Any) -> Listed:
    """A tool of the ``mcp`` package."""
    notes = tool.annotations
    title = tool.title or (notes.title if notes else "") or ""
    return Listed(tool.name, tool.description or "", tool.input_schema, title, bool(notes and notes.read_only_hint))
