"""A panel as plain text for terminals and as Markdown for exports."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any

from .panels_html import is_numeric, link_place

__all__ = ["panel_markdown", "panel_text"]

Node = dict[str, Any]
_MARKS = {"success": "✓", "warning": "!", "danger": "✗", "info": "i"}
_WIDEST = 110
"""Columns of a table as text; a wider one is told row by row."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#$~&])")
_LINE_START = re.compile(r"^(\s*)([-+=]|\d+[.)])", re.MULTILINE)


# Plain text ------------------------------------------------------------------------------------------------------


def panel_text(data: Node) -> str:
    """The panel as lines; its summary first where nothing in it says the same."""
    body = _lines(data["root"])
    summary = data["summary"].strip()
    return "\n".join(body if any(summary in line for line in body[:1]) else [summary, *body])


def _lines(nodes: list[Node]) -> list[str]:
    return [line for node in nodes for line in _TEXT[node["component"]](node)]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]


def _card(node: Node) -> list[str]:
    inside = _lines(node["children"])
    return [node["title"], *_indented(inside)] if node.get("title") else inside


def _badge(node: Node) -> list[str]:
    mark = _MARKS.get(node["status"], "")
    return [f"[{mark} {node['label']}]" if mark else f"[{node['label']}]"]


def _key_value(node: Node) -> list[str]:
    widest = min(max(_width(item["label"]) for item in node["items"]), 30)
    return [f"{_padded(item['label'], widest)}  {item['value']}" for item in node["items"]]


def _table(node: Node) -> list[str]:
    rows = [[" ".join(cell.split()) for cell in row] for row in (node["columns"], *node["rows"])]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    if sum(widths) + 2 * len(widths) > _WIDEST:
        head, *body = rows
        return [" · ".join(f"{name}: {cell}" for name, cell in zip(head, row, strict=True)) for row in body]
    right = [is_numeric(column[1:]) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(_padded, row, widths, right)).rstrip() for row in rows]
    return [lines[0], "  ".join("─" * width for width in widths), *lines[1:]]


def _width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def _padded(text: str, width: int, right: bool = False) -> str:
    space = " " * max(width - _width(text), 0)
    return space + text if right else text + space


def _alert(node: Node) -> list[str]:
    title = f"{node['title']}: " if node.get("title") else ""
    return f"{_MARKS[node['variant']]} {title}{node['body']}".splitlines()


def _link(node: Node) -> list[str]:
    return [f"{node['label']}: {node['href']}"]


def _input(node: Node) -> list[str]:
    value = node.get("value")
    return [f"{node.get('label') or node['variable']}: {'–' if value is None else value}"]


def _output(node: Node) -> list[str]:
    return [line for part in node.get("shown", ()) for line in part.get("text", "[image]").splitlines()]


_TEXT: dict[str, Callable[[Node], list[str]]] = {
    "Text": lambda node: node["value"].splitlines(),
    "Heading": lambda node: [node["value"]],
    "Card": _card,
    "Stack": lambda node: _lines(node["children"]),
    "Badge": _badge,
    "KeyValue": _key_value,
    "Table": _table,
    "CodeBlock": lambda node: _indented(node["code"].splitlines()),
    "Alert": _alert,
    "Divider": lambda node: ["─" * 20],
    "Link": _link,
    "Slider": _input,
    "Select": _input,
    "Toggle": _input,
    "TextInput": _input,
    "Button": lambda node: [f"( {node['label']} )"],
    "Output": _output,
}


# Markdown --------------------------------------------------------------------------------------------------------


def panel_markdown(data: Node) -> str:
    """The panel as Markdown in which a model's text is text."""
    return "\n\n".join(_blocks(data["root"])) + "\n"


def _blocks(nodes: list[Node]) -> list[str]:
    return [block for node in nodes for block in _MARKDOWN.get(node["component"], _as_text)(node)]


def _escaped(text: str) -> str:
    return _LINE_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", text)).replace("\n", "  \n")


def _one(text: str) -> str:
    return _escaped(" ".join(text.split()))


def _as_text(node: Node) -> list[str]:
    return ["  \n".join(map(_escaped, lines))] if (lines := _TEXT[node["component"]](node)) else []


def _markdown_card(node: Node) -> list[str]:
    title = [f"**{_one(node['title'])}**"] if node.get("title") else []
    return title + _blocks(node["children"])


def _markdown_table(node: Node) -> list[str]:
    columns, rows = node["columns"], node["rows"]
    rule = ["--:" if is_numeric(row[at] for row in rows) else ":--" for at in range(len(columns))]
    lines = [map(_one, columns), rule, *(map(_one, row) for row in rows)]
    return ["\n".join(f"| {' | '.join(line)} |" for line in lines)]


def _markdown_code(node: Node) -> list[str]:
    longest = max((len(run) for run in re.findall(r"`+", node["code"])), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{node.get('language', '')}\n{node['code']}\n{fence}"]


def _markdown_link(node: Node) -> list[str]:
    if not link_place(node["href"]):
        return _as_text(node)
    return [f"[{_one(node['label'])}](<{node['href'].replace('<', '%3C').replace('>', '%3E')}>)"]


def _markdown_items(node: Node) -> list[str]:
    return ["\n".join(f"- {_one(item['label'])}: {_one(item['value'])}" for item in node["items"])]


def _markdown_alert(node: Node) -> list[str]:
    title = f"**{_one(node['title'])}** " if node.get("title") else ""
    return ["\n".join(f"> {line}" for line in f"{title}{_escaped(node['body'])}".splitlines())]


_MARKDOWN: dict[str, Callable[[Node], list[str]]] = {
    "Card": _markdown_card,
    "Stack": lambda node: _blocks(node["children"]),
    "Heading": lambda node: [f"{'#' * (int(node['level']) + 2)} {_one(node['value'])}"],
    "Badge": lambda node: [f"**{_one(node['label'])}**"],
    "KeyValue": _markdown_items,
    "Table": _markdown_table,
    "CodeBlock": _markdown_code,
    "Alert": _markdown_alert,
    "Divider": lambda node: ["---"],
    "Link": _markdown_link,
}
