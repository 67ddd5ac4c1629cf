"""A panel as HTML in which nothing runs and nothing is fetched: its static twin, and what its widgets are filled with.

Nodes come from a model: each text is escaped, each class and attribute is ours.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .direction import is_right_to_left

__all__ = [
    "Node",
    "card_head",
    "fragment",
    "is_numeric",
    "link_place",
    "panel_classes",
    "panel_html",
    "panel_style",
    "stack_classes",
]

Node = dict[str, Any]
_INLINE = re.compile(r"`([^`\n]+)`|\*\*(?=\S)(.+?)(?<=\S)\*\*")
_NUMBER = re.compile(r"[−+-]?[$€£¥]?\s?\d[\d.,\s  ]*(?:e[+-]?\d+)?\s?[%‰$€£¥]?")
_MARKS = {"success": "✓", "warning": "!", "danger": "✗", "info": "i"}
_PNG = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


@cache
def panel_style() -> str:
    """The style sheet of panels, for front ends without our extension."""
    return Path(__file__).with_name("panels.css").read_text(encoding="utf-8")


def panel_html(data: Node) -> str:
    """A whole panel with its style sheet."""
    return f"<style>{panel_style()}</style>{panel_box(data)}"


def panel_box(data: Node) -> str:
    """A whole panel."""
    label = html.escape(data["summary"])
    return f'<div class="{panel_classes(data)}" role="group" aria-label="{label}">{fragment(data["root"])}</div>'


def panel_classes(data: Node) -> str:
    """The classes of a whole panel; its summary says which way it runs."""
    return "cu-panel cu-rtl" if is_right_to_left(data["summary"]) else "cu-panel"


def fragment(nodes: Iterable[Node]) -> str:
    """Nodes below each other; badges that follow each other share a line."""
    parts = []
    for kind, group in groupby(nodes, key=lambda node: node["component"]):
        drawn = map(_node, group)  # a space between badges, for readers without our styles
        parts.append(f'<div class="cu-p-badges">{" ".join(drawn)}</div>' if kind == "Badge" else "".join(drawn))
    return "".join(parts)


def card_head(node: Node) -> tuple[str, list[Node]]:
    """A card's title line with the badges that lead its children, and the children that are left."""
    children = node["children"]
    count = 0
    while node.get("title") and count < len(children) and children[count]["component"] == "Badge":
        count += 1
    if not node.get("title"):
        return "", children
    badges = " ".join(map(_badge, children[:count]))
    return f'<div class="cu-p-head"><b class="cu-p-title" dir="auto">{_text(node["title"])}</b> {badges}</div>', (
        children[count:]
    )


def _node(node: Node) -> str:
    return _DRAW[node["component"]](node)


def _text(value: str) -> str:
    return html.escape(value)


def _marked(value: str) -> str:
    """Plain text in which `code` and **bold** are set as such."""
    parts, end = [], 0
    for match in _INLINE.finditer(value):
        parts.append(_text(value[end : match.start()]))
        tag, inner = ("code", match[1]) if match[1] else ("b", match[2])
        parts.append(f"<{tag}>{_text(inner)}</{tag}>")
        end = match.end()
    return "".join([*parts, _text(value[end:])])


def _paragraph(node: Node) -> str:
    tone = " cu-p-muted" if node["tone"] == "muted" else ""
    return f'<div class="cu-p-text{tone}" dir="auto">{_marked(node["value"])}</div>'


def _heading(node: Node) -> str:
    level = int(node["level"])
    return f'<h{level + 2} class="cu-p-heading cu-p-h{level}" dir="auto">{_text(node["value"])}</h{level + 2}>'


def _badge(node: Node) -> str:
    mark = _mark(node["status"])
    return (
        f'<span class="cu-p-badge" data-status="{_text(node["status"])}" dir="auto">{mark}{_text(node["label"])}</span>'
    )


def _mark(status: str) -> str:
    sign = _MARKS.get(status, "")
    return f'<span class="cu-p-mark" role="img" aria-label="{_text(status)}">{sign}</span> ' if sign else ""


def _key_value(node: Node) -> str:
    pairs = [(_text(item["label"]), _text(item["value"])) for item in node["items"]]
    rows = [f'<div class="cu-p-pair"><dt dir="auto">{a}</dt><dd dir="auto">{b}</dd></div>' for a, b in pairs]
    return f'<dl class="cu-p-kv">{"".join(rows)}</dl>'


def is_numeric(cells: Iterable[str]) -> bool:
    """Whether a column's cells are numbers, some of them perhaps empty."""
    filled = [cell.strip() for cell in cells if cell.strip() not in ("", "–", "—", "-")]
    return bool(filled) and all(_NUMBER.fullmatch(cell) for cell in filled)


def _table(node: Node) -> str:
    columns, rows = node["columns"], node["rows"]
    number = ' class="cu-p-num" align="right"'
    kinds = [number if is_numeric(row[at] for row in rows) else "" for at in range(len(columns))]
    head = "".join(
        f'<th scope="col"{kind} dir="auto">{_text(name)}</th>' for name, kind in zip(columns, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td{kind} dir="auto">{_text(cell)}</td>' for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for row in rows
    )
    label = _text(f"table: {', '.join(columns)}")
    return (
        f'<div class="cu-p-scroll" tabindex="0" role="region" aria-label="{label}">'
        f'<table class="cu-p-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _code(node: Node) -> str:
    language = node.get("language", "")
    tag = f'<div class="cu-p-language">{_text(language)}</div>' if language else ""
    label = _text(f"code {language}".strip())
    return (
        f'<div class="cu-p-code">{tag}<pre tabindex="0" role="region" aria-label="{label}" dir="ltr">'
        f"<code>{_text(node['code'])}</code></pre></div>"
    )


def _alert(node: Node) -> str:
    title = f'<b class="cu-p-title" dir="auto">{_text(node["title"])}</b>' if node.get("title") else ""
    return (
        f'<div class="cu-p-alert" role="note" data-status="{_text(node["variant"])}">{_mark(node["variant"])}'
        f'<div class="cu-p-said">{title}<div class="cu-p-text" dir="auto">{_marked(node["body"])}</div></div></div>'
    )


def link_place(href: str) -> str:
    """Where a link goes, for the reader: its host, or the mail address; empty where it can't be told for certain."""
    if re.search(r"[\s\\\x00-\x1f\x7f-\x9f]", href):
        return ""
    try:
        parts = urlsplit(href)
        if parts.scheme == "mailto":
            return parts.path
        host = (parts.hostname or "").encode("idna").decode("ascii")
    except (ValueError, UnicodeError):
        return ""
    return host if parts.scheme in ("http", "https") else ""


def _link(node: Node) -> str:
    label, place = _text(node["label"]), link_place(node["href"])
    if not place:
        return f'<div class="cu-p-link" dir="auto">{label} <span class="cu-p-host">{_text(node["href"])}</span></div>'
    return (
        f'<div class="cu-p-link" dir="auto"><a href="{_text(node["href"])}" target="_blank" '
        f'rel="noopener noreferrer" dir="auto">{label}</a> <span class="cu-p-host">{_text(place)} ↗</span></div>'
    )


def _card(node: Node) -> str:
    head, children = card_head(node)
    return f'<div class="cu-p-card">{head}{fragment(children)}</div>'


def _stack(node: Node) -> str:
    horizontal = node["direction"] == "horizontal"
    inside = " ".join(map(_node, node["children"])) if horizontal else fragment(node["children"])
    return f'<div class="{stack_classes(node)}">{inside}</div>'


def stack_classes(node: Node) -> str:
    """The classes of a stack, whose gap is one of three words."""
    name = "cu-p-row" if node["direction"] == "horizontal" else "cu-p-column"
    gap = node["gap"] if node["gap"] in ("sm", "lg") else "md"
    return f"{name} cu-p-gap-{gap}"


# Inputs, as they stood -------------------------------------------------------------------------------------------


def _input(node: Node) -> str:
    name = _text(node.get("label") or node["variable"])
    value = node.get("value")
    shown = {True: "on", False: "off", None: "–"}[value] if isinstance(value, bool | None) else str(value)
    return (
        f'<div class="cu-p-input"><span dir="auto">{name}</span> '
        f'<span class="cu-p-value" dir="auto">{_text(shown)}</span></div>'
    )


def _button(node: Node) -> str:
    return f'<div class="cu-p-input"><span class="cu-p-button" dir="auto">{_text(node["label"])}</span></div>'


def _output(node: Node) -> str:
    parts = []
    for part in node.get("shown", ()):
        if "text" in part:
            parts.append(f'<pre dir="auto">{_text(part["text"])}</pre>')
        elif _PNG.fullmatch(part.get("png", "")):
            parts.append(f'<img alt="output of the panel" src="data:image/png;base64,{part["png"]}">')
    return f'<div class="cu-p-output">{"".join(parts)}</div>'


_DRAW: dict[str, Callable[[Node], str]] = {
    "Text": _paragraph,
    "Heading": _heading,
    "Badge": _badge,
    "KeyValue": _key_value,
    "Table": _table,
    "CodeBlock": _code,
    "Alert": _alert,
    "Divider": lambda node: '<hr class="cu-p-rule">',
    "Link": _link,
    "Card": _card,
    "Stack": _stack,
    "Slider": _input,
    "Select": _input,
    "Toggle": _input,
    "TextInput": _input,
    "Button": _button,
    "Output": _output,
}
