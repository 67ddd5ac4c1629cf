"""Edits of a notebook's JSON text that leave every other byte as it is.

A notebook is never loaded and dumped again: cells are found in the text, and only the text of what changes is written
anew, in the style of the file (indentation, separators, escapes, line ends, list or string sources). All functions are
pure: they take text and return text.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Document",
    "blank_cell",
    "clear_outputs",
    "delete_cell",
    "insert_cell",
    "move_cell",
    "new_cell",
    "parse",
    "problems",
    "replace_cells",
    "set_kind",
    "set_source",
]

SPACE = re.compile(r"[ \t\r\n]*")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
NON_ASCII_ESCAPE = re.compile(r"\\u(?!00[0-7])[0-9a-fA-F]{4}")
LINES = re.compile(r"[^\n]*\n|[^\n]+")
ESCAPED_LINES = re.compile(r"(?:[^\\]|\\[^n])*+\\n|(?:[^\\]|\\[^n])++")

_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Item:
    """A member of a JSON object, or an element of an array (without a key), and its place in the text."""

    start: int
    value_start: int
    end: int
    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class Document:
    """A notebook's text and where its cells are in it.

    ``start`` and ``end`` enclose the ``cells`` array with its brackets; ``value`` is the notebook as JSON.
    """

    text: str
    start: int
    end: int
    cells: list[Item]
    value: dict[str, Any]
    style: Style


@dataclass(frozen=True, slots=True)
class Style:
    """How JSON is laid out: ``unit`` is one step of indentation (None: all on one line), ``base`` the present one."""

    unit: str | None
    base: str
    comma: str
    colon: str
    eol: str
    ascii: bool

    def dump(self, value: Any, deeper: int = 0) -> str:
        """``value`` as JSON in this style, to be put ``deeper`` steps below the base."""
        comma = self.comma if self.unit is None else ","
        text = json.dumps(value, ensure_ascii=self.ascii, indent=self.unit, separators=(comma, self.colon))
        # UTF-8 has no lone surrogates: they can only stand as escapes.
        text = LONE_SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
        return text.replace("\n", self.eol + self.base + (self.unit or "") * deeper)


def parse(text: str) -> Document:
    """Find the cells of a notebook in its JSON text, in linear time.

    Raises
    ------
    json.JSONDecodeError
        The text is not JSON.
    ValueError
        It is JSON but its top is no object with a list of cells, each an object.
    RecursionError
        It is nested too deeply to be read.
    """
    start = _skip(text, 0)
    if text[start : start + 1] != "{":
        _decode(text, start)
        raise ValueError("its top level is not an object")
    items, end = _walk(text, start, "}", _member_value)
    if (rest := _skip(text, end)) < len(text):
        raise json.JSONDecodeError("Extra data", text, rest)
    members = {item.key: item for item in items}
    cells = members.get("cells")
    if cells is None or text[cells.value_start] != "[":
        raise ValueError("it has no list of `cells`")
    for number, cell in enumerate(cells.value, 1):
        if not isinstance(cell.value, dict):
            raise ValueError(f"its cell {number} is not an object")
    value = {key: item.value for key, item in members.items()}
    value["cells"] = [cell.value for cell in cells.value]
    return Document(text, cells.value_start, cells.end, cells.value, value, _style(text, start, items))


def _skip(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return found.end() if found else at


def _member_value(key: str, text: str, at: int) -> tuple[Any, int]:
    if key == "cells" and text[at : at + 1] == "[":
        return _walk(text, at, "]")
    return _decode(text, at)


def _plain_value(_key: str, text: str, at: int) -> tuple[Any, int]:
    return _decode(text, at)


def _walk(
    text: str, at: int, close: str, value: Callable[[str, str, int], tuple[Any, int]] = _plain_value
) -> tuple[list[Item], int]:
    """The items of the object (``close`` is a brace) or array that opens at ``at``, and the place after it."""
    items: list[Item] = []
    at = _skip(text, at + 1)
    if text[at : at + 1] == close:
        return items, at + 1
    while True:
        start, key = at, ""
        if close == "}":
            key, at = _key(text, at)
        found, end = value(key, text, at)
        items.append(Item(start, at, end, key, found))
        at = _skip(text, end)
        mark = text[at : at + 1]
        if mark == close:
            return items, at + 1
        if mark != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        comma, at = at, _skip(text, at + 1)
        if text[at : at + 1] == close:
            raise json.JSONDecodeError("Trailing comma", text, comma)


def _key(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
    key, at = _decode(text, at)
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
    return key, _skip(text, at + 1)


def _style(text: str, start: int, items: Sequence[Item], eol: str = "", ascii_only: bool | None = None) -> Style:
    """The layout of the object at ``start``; what it can't show (it is on one line, say) is as ``json`` writes it."""
    lead = text[start + 1 : items[0].start] if items else ""
    first = text[items[0].start : items[0].value_start] if items else ""
    colon = first[first.rindex('"') + 1 :] if first and "\n" not in first else ": "
    tail = text[items[-1].end : text.index("}", items[-1].end)] if items else ""
    base, inner = _indentation(tail), _indentation(lead)
    unit = None if inner is None else inner.removeprefix(base or "")
    comma = text[items[0].end : items[1].start] if unit is None and len(items) > 1 else ", "
    if not eol:
        at = text.find("\n")
        eol = "\n" if at < 0 else "\r\n" if text[at - 1 : at] == "\r" else "\n"
    if ascii_only is None:
        ascii_only = text.isascii() and bool(NON_ASCII_ESCAPE.search(text))
    return Style(unit, base or "", comma if "\n" not in comma else ", ", colon, eol, ascii_only)


def _indentation(space: str) -> str | None:
    return space.rpartition("\n")[2] if "\n" in space else None


def replace_cells(doc: Document, texts: Mapping[int, str]) -> str:
    """The notebook with the cells at these indices written as these texts."""
    parts, at = [], 0
    for index in sorted(texts):
        parts += [doc.text[at : doc.cells[index].start], texts[index]]
        at = doc.cells[index].end
    return "".join([*parts, doc.text[at:]])


def insert_cell(doc: Document, index: int, cell: str) -> str:
    """The notebook with the text of a new cell put before the cell that is now at ``index`` (or at the end)."""
    if doc.cells:
        return _insert_item(doc.text, doc.start, doc.cells, index, cell, doc.style.comma)
    style = doc.style
    if style.unit is None:
        return f"{doc.text[: doc.start]}[{cell}]{doc.text[doc.end :]}"
    outer = style.eol + style.base + style.unit
    return f"{doc.text[: doc.start]}[{outer}{style.unit}{cell}{outer}]{doc.text[doc.end :]}"


def delete_cell(doc: Document, index: int) -> str:
    """The notebook without the cell at ``index``."""
    if len(doc.cells) == 1:
        return f"{doc.text[: doc.start]}[]{doc.text[doc.end :]}"
    return _delete_item(doc.text, doc.cells, index)


def move_cell(doc: Document, index: int, to: int) -> str:
    """The notebook with the cell at ``index`` moved, so that it is then at index ``to``; its text stays as it is."""
    low, high = min(index, to), max(index, to)
    order = [*range(low, high + 1)]
    order.insert(to - low, order.pop(index - low))
    parts = [doc.text[: doc.cells[low].start]]
    for place, source in enumerate(order, low):
        parts.append(doc.text[doc.cells[source].start : doc.cells[source].end])
        if place < high:
            parts.append(doc.text[doc.cells[place].end : doc.cells[place + 1].start])
    return "".join([*parts, doc.text[doc.cells[high].end :]])


def _insert_item(text: str, opening: int, items: Sequence[Item], index: int, raw: str, comma: str) -> str:
    """``text`` with ``raw`` as a new item of a container that isn't empty, separated as its items are."""
    if len(items) > 1:
        near = min(max(index - 1, 0), len(items) - 2)
        comma = text[items[near].end : items[near + 1].start]
    elif "\n" in (lead := text[opening + 1 : items[0].start]):
        comma = "," + lead
    if index == 0:
        return text[: items[0].start] + raw + comma + text[items[0].start :]
    return text[: items[index - 1].end] + comma + raw + text[items[index - 1].end :]


def _delete_item(text: str, items: Sequence[Item], index: int) -> str:
    if index + 1 < len(items):
        return text[: items[index].start] + text[items[index + 1].start :]
    return text[: items[index - 1].end] + text[items[index].end :]


def blank_cell(kind: str, source: str, taken: Container[object] | None) -> dict[str, Any]:
    """A cell of this kind; with a fresh id unless ``taken`` is None."""
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": source}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    if taken is not None:
        cell["id"] = secrets.token_hex(4)
        while cell["id"] in taken:
            cell["id"] = secrets.token_hex(4)
    return cell


def new_cell(doc: Document, near: int, kind: str, source: str) -> str:
    """The text of a new cell: key order, layout and form of the source as in the cell at index ``near``."""
    has_ids = doc.value.get("nbformat_minor", 0) >= 5
    cell = blank_cell(kind, source, [item.value.get("id") for item in doc.cells] if has_ids else None)
    if not doc.cells:
        return doc.style.dump({key: cell[key] for key in sorted(cell)} | {"source": _split(source)}, deeper=2)
    nearest = sorted(doc.cells, key=lambda item: abs(item.start - doc.cells[near].start))
    cells = [item.value for item in nearest]
    model = next((other for other in cells if other.get("cell_type") == kind), cells[0])
    order = {} if list(model) == sorted(model) else {key: place for place, key in enumerate(model)}
    # An empty source shows no form: both [] and "" are written by tools that otherwise write lists.
    form: Any = next((other["source"] for other in cells if other.get("source")), [])
    cell["source"] = source if isinstance(form, str) else _split(source)
    keys = sorted(cell, key=lambda key: (order.get(key, len(order)), key))
    return _cell_style(doc, near).dump({key: cell[key] for key in keys})


def _cell_style(doc: Document, index: int) -> Style:
    raw = _cell_text(doc, index)
    items, _ = _walk(raw, 0, "}")
    return _style(raw, 0, items, doc.style.eol, doc.style.ascii) if items else doc.style


def _cell_text(doc: Document, index: int) -> str:
    return doc.text[doc.cells[index].start : doc.cells[index].end]


def set_source(doc: Document, index: int, source: str) -> str:
    """The text of the cell at ``index`` with another source. Lines that stay keep their very bytes."""
    raw, style = _cell_text(doc, index), _cell_style(doc, index)
    items, _ = _walk(raw, 0, "}")
    old = next((item for item in reversed(items) if item.key == "source"), None)
    if old is None:
        return _set_member(raw, "source", _split(source), style)
    text = raw[old.value_start : old.end]
    rewrite = _list_source if isinstance(old.value, list) else _string_source
    return raw[: old.value_start] + rewrite(text, source, style) + raw[old.end :]


def _list_source(text: str, source: str, style: Style) -> str:
    items, end = _walk(text, 0, "]")
    old = [item.value for item in items]
    lines = _split(source, old)
    if not items or not lines:
        return style.dump(lines, deeper=1)
    kept = {item.value: text[item.start : item.end] for item in items if isinstance(item.value, str)}
    lead, tail = text[1 : items[0].start], text[items[-1].end : end - 1]
    comma = "," + lead if "\n" in lead else style.comma
    if len(items) > 1:
        comma = text[items[0].end : items[1].start]
    return "[" + lead + comma.join(kept.get(line) or style.dump(line) for line in lines) + tail + "]"


def _split(source: str, old: Sequence[Any] = ()) -> list[str]:
    """Lines as nbformat splits them; at line feeds only where the old ones were split so."""
    if all(isinstance(line, str) for line in old):
        whole = "".join(old)
        if list(old) != whole.splitlines(keepends=True) and list(old) == LINES.findall(whole):
            return LINES.findall(source)
    return source.splitlines(keepends=True)


def _string_source(text: str, source: str, style: Style) -> str:
    kept = {json.loads(f'"{line}"'): line for line in ESCAPED_LINES.findall(text[1:-1])} if text[:1] == '"' else {}
    return '"' + "".join(kept.get(line) or style.dump(line)[1:-1] for line in LINES.findall(source)) + '"'


def set_kind(doc: Document, index: int, kind: str) -> str:
    """The text of the cell at ``index`` as a cell of another kind, with the keys that this kind must and may have."""
    raw, style = _cell_text(doc, index), _cell_style(doc, index)
    raw = _set_member(raw, "cell_type", kind, style)
    if kind == "code":
        raw = _drop_members(raw, {"attachments"})
        present = doc.cells[index].value
        for key, value in (("execution_count", None), ("outputs", [])):
            raw = raw if key in present else _set_member(raw, key, value, style)
        return raw
    return _drop_members(raw, {"outputs", "execution_count"})


def clear_outputs(doc: Document, index: int) -> str:
    """The text of the code cell at ``index`` without outputs and execution count."""
    raw, style = _cell_text(doc, index), _cell_style(doc, index)
    return _set_member(_set_member(raw, "outputs", [], style), "execution_count", None, style)


def _set_member(raw: str, key: str, value: Any, style: Style) -> str:
    """The object ``raw`` with this member replaced in its place, or added before the first key that sorts behind it."""
    items, _ = _walk(raw, 0, "}")
    for item in reversed(items):
        if item.key == key:
            if item.value == value:
                return raw
            return raw[: item.value_start] + style.dump(value, deeper=1) + raw[item.end :]
    member = f"{style.dump(key)}{style.colon}{style.dump(value, deeper=1)}"
    if not items:
        return "{" + member + "}"
    place = next((at for at, item in enumerate(items) if item.key > key), len(items))
    return _insert_item(raw, 0, items, place, member, style.comma)


def _drop_members(raw: str, keys: set[str]) -> str:
    while True:
        items, _ = _walk(raw, 0, "}")
        place = next((at for at, item in enumerate(items) if item.key in keys), None)
        if place is None:
            return raw
        raw = "{}" if len(items) == 1 else _delete_item(raw, items, place)


def problems(value: Mapping[str, Any]) -> list[str]:
    """What is not valid in a notebook at its declared version: at most one finding a cell, and one above the cells."""
    from nbformat.validator import iter_validate

    minor = value.get("nbformat_minor", 0)
    frame = {"metadata": {}, "nbformat": 4, "nbformat_minor": minor}
    parts = [("the notebook", {**value, "cells": []})]
    parts += [(f"cell {at}", {**frame, "cells": [cell]}) for at, cell in enumerate(value["cells"], 1)]
    found = []
    for name, part in parts:
        error = next(iter(iter_validate(part, version=4, version_minor=minor)), None)
        if error is not None:
            found.append(f"{name}: {_reason(error, minor)}")
    ids = Counter(cell["id"] for cell in value["cells"] if isinstance(cell.get("id"), str))
    return found + [f"id {name[:64]!r}: {count} cells have it" for name, count in ids.items() if count > 1]


def _reason(error: Exception, minor: int) -> str:
    from nbformat.validator import better_validation_error

    with contextlib.suppress(TypeError, AttributeError):
        error = better_validation_error(error, 4, minor)
    return str(getattr(error, "message", error))[:160]
