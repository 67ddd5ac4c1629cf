"""The scripted model's part in a batch: it fills in a result by the types of its fields, and understands nothing."""

from __future__ import annotations

import re
from typing import Any

from .demo_turn import Turn

__all__ = ["fill"]

_LONGEST = 60


def fill(name: str, schema: dict[str, Any], prompt: str) -> Turn:
    """A call of the tool ``name`` whose arguments fit its schema.

    A choice is the one that stands in the row, else the first; a text is the row's beginning; a number counts its
    words, within its bounds.
    """
    row = re.search(r"<row>\n(.*?)\n</row>", prompt, re.DOTALL)
    text = " ".join((row[1] if row else prompt).split())
    return Turn("", [(name, _value(schema, schema.get("$defs", {}), text))], 0.0)


def _value(schema: dict[str, Any], defs: dict[str, Any], text: str) -> Any:
    if "$ref" in schema:
        return _value(defs.get(schema["$ref"].rpartition("/")[2], {}), defs, text)
    if "anyOf" in schema:
        return _value(schema["anyOf"][0], defs, text)
    if "const" in schema or "enum" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return next((choice for choice in choices if str(choice).casefold() in text.casefold()), choices[0])
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return min(max(len(text.split()), schema.get("minimum", 0)), schema.get("maximum", 1_000_000))
    if kind == "array":
        return [_value(schema.get("items", {}), defs, text)]
    if kind == "object":
        return {key: _value(part, defs, text) for key, part in schema.get("properties", {}).items()}
    return {"boolean": False, "null": None}.get(kind or "", text[:_LONGEST])
