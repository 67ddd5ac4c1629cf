"""Near misses that models make in a panel, put right where they can mean one thing only."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["mend"]

_DEEPEST = 40
_LISTS = {
    "Card": ("children",),
    "Stack": ("children",),
    "KeyValue": ("items",),
    "Table": ("columns", "rows"),
    "Select": ("options",),
}
_NAMES = {"Text": {"text": "value"}, "Table": {"row": "rows", "column": "columns"}}
_TEXTS = {"Text": ("value",), "Heading": ("value",)}


def mend(arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The arguments with near misses put right, and what is worth telling of it."""
    notes: list[str] = []
    mended = {key: value for key, value in arguments.items() if value is not None or key in ("root", "summary")}
    for key in ("root", "live"):
        if key in mended:
            mended[key] = _opened(mended[key], key, key, notes)
    mended["root"] = _nodes(mended["root"], "root", notes, 1) if "root" in mended else None
    if mended["root"] is None:
        del mended["root"]
    return mended, notes


def _opened(value: Any, name: str, path: str, notes: list[str]) -> Any:
    """A list or object that came as JSON text, or wrapped in an object with its own name as the only key."""
    if isinstance(value, str):
        value = _decoded(value, path, notes)
    while isinstance(value, dict) and list(value) == [name]:
        value = value[name]
    return value


def _decoded(text: str, path: str, notes: list[str]) -> Any:
    start = text.lstrip()
    if not start.startswith(("[", "{")):
        return text
    try:
        value, end = json.JSONDecoder().raw_decode(start)
    except (ValueError, RecursionError):
        return text
    if rest := start[end:].strip():
        notes.append(f"{path}: {len(rest):,} characters behind the end of the JSON text were dropped: {rest[:40]!r}")
    return value


def _nodes(value: Any, path: str, notes: list[str], depth: int) -> Any:
    if isinstance(value, dict) and "component" in value:
        value = [value]
    if not isinstance(value, list) or depth > _DEEPEST:
        return value
    return [_node(node, f"{path}[{at}]", notes, depth) for at, node in enumerate(value)]


def _node(node: Any, path: str, notes: list[str], depth: int) -> Any:
    if isinstance(node, str):
        node = _decoded(node, path, notes)
    if not isinstance(node, dict) or not isinstance(kind := node.get("component"), str):
        return node
    node = {key: value for key, value in node.items() if value is not None}
    for wrong, right in _NAMES.get(kind, {}).items():
        if wrong in node and right not in node:
            node[right] = node.pop(wrong)
    for key in _TEXTS.get(kind, ()):
        if key in node:
            node[key] = _text(node[key])
    for key in _LISTS.get(kind, ()):
        if key in node:
            node[key] = _opened(node[key], key, f"{path}.{key}", notes)
    _inside(kind, node, path, notes, depth)
    return node


def _inside(kind: str, node: dict[str, Any], path: str, notes: list[str], depth: int) -> None:
    if "children" in node:
        node["children"] = _nodes(node["children"], f"{path}.children", notes, depth + 1)
    elif kind == "Table":
        if isinstance(node.get("columns"), list):
            node["columns"] = [_text(name) for name in node["columns"]]
        if isinstance(node.get("rows"), list):
            node["rows"] = [_row(row, f"{path}.rows[{at}]", notes) for at, row in enumerate(node["rows"])]
    elif kind == "KeyValue" and isinstance(node.get("items"), list):
        node["items"] = [_pair(item) for item in node["items"]]


def _row(value: Any, path: str, notes: list[str]) -> Any:
    if isinstance(value, str):
        value = _decoded(value, path, notes)
    return [_text(cell) for cell in value] if isinstance(value, list) else value


def _pair(item: Any) -> Any:
    if isinstance(item, list) and len(item) == 2:
        item = {"label": item[0], "value": item[1]}
    if isinstance(item, dict):
        return {key: _text(value) if key in ("label", "value") else value for key, value in item.items()}
    return item


def _text(value: Any) -> Any:
    """A number as its text; anything else as it is."""
    return json.dumps(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
