"""What an output is where our renderer is not: safe HTML and plain text beside the data."""

from __future__ import annotations

import html
import re
from functools import cache
from typing import Any

from ..tools.terminal import plain_text
from .panels_html import panel_html
from .panels_text import panel_markdown, panel_text

__all__ = ["html_twin", "markdown_html", "markdown_twin", "plain_twin", "visible"]

_MARKS = {"ok": "✓", "error": "✗", "running": "●", "waiting": "⏸", "denied": "⊘", "stopped": "■"}
_TODO_MARKS = {"completed": "☑", "in_progress": "▸", "pending": "☐"}
_CONTROLS = re.compile("[\x80-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_QUIET = "opacity:.7;font-size:90%"


def visible(text: str) -> str:
    """The text without terminal escapes and without controls that reorder or hide characters."""
    return _CONTROLS.sub("", plain_text(text))


@cache
def _markdown() -> Any:
    import mistune

    class Renderer(mistune.HTMLRenderer):
        """Escapes HTML, and shows an image's address instead of fetching it."""

        def image(self, text: str, url: str, title: str | None = None) -> str:
            return f"<em>[image: {html.escape(text or url)}]</em>"

        def link(self, text: str, url: str, title: str | None = None) -> str:
            if not re.match(r"https?://|mailto:", url):
                return text
            return f'<a href="{html.escape(url)}" target="_blank" rel="noopener noreferrer">{text}</a>'

    return mistune.create_markdown(
        escape=True, renderer=Renderer(escape=True), plugins=["table", "strikethrough", "task_lists"]
    )


def markdown_html(text: str) -> str:
    """Markdown as HTML in which nothing runs and nothing is fetched."""
    return str(_markdown()(visible(text)))


def plain_twin(data: dict[str, Any]) -> str:
    """A block as text: no ids, no times."""
    kind = data["kind"]
    if kind == "panel":
        return visible(panel_text(data))
    if kind == "agent":
        return _agent_line(data)
    make = {"text": _plain_text, "tool": _plain_tool, "todos": _plain_todos, "status": _plain_status}.get(kind)
    return visible(make(data) if make else _plain_question(data))


def html_twin(data: dict[str, Any]) -> str:
    """A block as HTML for front ends without our renderer, and for exports."""
    kind = data["kind"]
    if kind == "text":
        return markdown_html(data["markdown"])
    if kind == "panel":
        return panel_html(data)
    if kind in ("tool", "agent"):
        line = html.escape(_agent_line(data) if kind == "agent" else _tool_line(data))
        parts = _agent_inside(data) if kind == "agent" else [data["arguments"], data["result"]]
        inner = "\n\n".join(part for part in parts if part)
        images = "".join(f'<img src="{each}" alt="" style="max-width:100%">' for each in _pictures(data))
        return f"<details><summary>{line}</summary><pre>{html.escape(visible(inner))}</pre>{images}</details>"
    text = html.escape(plain_twin(data))
    style = _QUIET if kind in ("status", "todos") else ""
    return f'<div style="white-space:pre-wrap;{style}">{text}</div>' if text else ""


def _pictures(data: dict[str, Any]) -> list[str]:
    return [html.escape(source) for source in data.get("pictures", []) if source.startswith("data:image/")]


def markdown_twin(data: dict[str, Any]) -> dict[str, str]:
    """A panel as Markdown, which is what exports to PDF take; other blocks have none."""
    return {"text/markdown": panel_markdown(data)} if data["kind"] == "panel" else {}


def _plain_text(data: dict[str, Any]) -> str:
    return str(data["markdown"])


def _tool_line(data: dict[str, Any]) -> str:
    note = f" — {data['note']}" if data.get("note") else ""
    window = data.get("window")
    size = f" ({window['shown']:,} of {window['total']:,} characters)" if window else ""
    line = f"{_MARKS[data['status']]} {data['verb']} {data['object']}".rstrip() + note + size
    return visible(line.replace("\n", " "))


def _plain_tool(data: dict[str, Any]) -> str:
    return _tool_line(data)


def _agent_line(data: dict[str, Any]) -> str:
    told = [f"{data['word']}: {data['error']}" if data["error"] else data["word"]]
    told += [f"{data['rounds']} round{'s' if data['rounds'] != 1 else ''}"] if data["rounds"] else []
    told += [data["activity"]] if data["activity"] else []
    return visible(f"{_MARKS[data['status']]} agent {data['name']} — {' · '.join(told)}".replace("\n", " "))


def _agent_inside(data: dict[str, Any]) -> list[str]:
    steps = [f"{_MARKS[step['status']]} {step['text']}" for step in data["steps"]]
    if data["earlier"]:
        steps.insert(0, f"… {data['earlier']} earlier steps")
    return [data["task"], "\n".join(steps), data["text"]]


def _plain_todos(data: dict[str, Any]) -> str:
    return "\n".join(f"{_TODO_MARKS[item['status']]} {item['label']}" for item in data["items"])


def _plain_question(data: dict[str, Any]) -> str:
    if data["outcome"] == "open":
        lines = [data["detail"]] if data.get("detail") else []
        for question in data["questions"]:
            lines.append(f"? {question['header']}: {question['question']}")
            lines += [
                f"  - {o['label']}" + (f" ({o['description']})" if o["description"] else "")
                for o in question["options"]
            ]
        return "\n".join(lines)
    return "\n".join(f"{pair['header']}: {pair['answer']}" for pair in data["answers"])


def _plain_status(data: dict[str, Any]) -> str:
    if data["role"] == "head":
        notice = f" — {data['notice']}" if data.get("notice") else ""
        return f"{data['model']} · {data['host']}{notice}"
    usage = data.get("usage") or {}
    counts = [f"{usage['rounds']} round{'s' if usage['rounds'] != 1 else ''}"] if usage else []
    counts += [f"${usage['cost']:.4f}"] if usage.get("cost") else []
    message = f": {data['message']}" if data.get("message") else ""
    return " · ".join([data["status"].replace("_", " ") + message, *counts])
