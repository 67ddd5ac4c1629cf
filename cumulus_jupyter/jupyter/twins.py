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
_COLOURS = {"ok": "#2e7d32", "done": "#2e7d32", "running": "#1976d2", "error": "#c62828", "failed": "#c62828"}
_ATTENTION = "#b45309"
_QUIET = "opacity:.75;font-size:90%"
_BOX = "margin:4px 0 8px;padding:6px 10px;border-radius:4px;background:rgba(128,128,128,.1);white-space:pre-wrap"
_DIRECTED = re.compile("<(p|ul|ol|h[1-6]|table|blockquote)>")
"""Tags of mistune's, which stand in its output for nothing else: a model's are escaped."""


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
    made = _DIRECTED.sub(r'<\1 dir="auto">', str(_markdown()(visible(text))))
    return made.replace("<pre>", f'<pre dir="ltr" style="{_BOX}">')


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
        return _html_call(data)
    make = {"todos": _html_todos, "question": _html_question, "status": _html_status}[kind]
    lines = [line for line in make(data) if line]
    style = "" if kind == "question" else f' style="{_QUIET}"'
    return f"<div{style}>{'<br>'.join(lines)}</div>" if lines else ""


def _shown(text: str) -> str:
    return html.escape(visible(text)).replace("\n", "<br>")


def _mark(status: str, sign: str) -> str:
    return f'<span style="color:{_COLOURS.get(status, _ATTENTION)}">{sign}</span>'


def _html_call(data: dict[str, Any]) -> str:
    """One line that opens."""
    agent = data["kind"] == "agent"
    line = _agent_line(data) if agent else _tool_line(data)
    sign, _, told = line.partition(" ")
    if not agent and data.get("object_kind") == "code" and (thing := visible(data["object"].replace("\n", " "))):
        verb, _, rest = told.partition(thing)
        told = f"{html.escape(verb)}<code>{html.escape(thing)}</code>{html.escape(rest)}"
    else:
        told = html.escape(told)
    parts = _agent_inside(data) if agent else [data["arguments"], data["result"]]
    inner = "".join(f'<pre style="{_BOX}">{html.escape(visible(part))}</pre>' for part in parts if part)
    images = "".join(f'<img src="{each}" alt="" style="max-width:100%">' for each in _pictures(data))
    summary = f"{_mark(data['status'], sign)} {told}"
    return f'<details style="font-size:90%"><summary>{summary}</summary>{inner}{images}</details>'


def _html_todos(data: dict[str, Any]) -> list[str]:
    tags = {"completed": "s", "in_progress": "b"}
    return [
        f"{_TODO_MARKS[item['status']]} <{tag}>{_shown(item['label'])}</{tag}>"
        for item in data["items"]
        for tag in [tags.get(item["status"], "span")]
    ]


def _html_question(data: dict[str, Any]) -> list[str]:
    if data["outcome"] == "open":
        return [_shown(_plain_question(data))]
    sign = _mark("ok", "✓") if data["outcome"] == "answered" else _mark("", "–")
    return [
        f'{sign} <bdi>{_shown(pair["header"])}</bdi>: <b dir="auto">{_shown(pair["answer"])}</b>'
        for pair in data["answers"]
    ]


def _html_status(data: dict[str, Any]) -> list[str]:
    if data["role"] == "head":
        return [_shown(_plain_status(data))]
    usage = data.get("usage") or {}
    word = f'<b style="color:{_COLOURS.get(data["status"], _ATTENTION)}">{data["status"].replace("_", " ")}</b>'
    told = [_rounds(usage["rounds"])] if usage.get("rounds") else []
    if usage.get("input") or usage.get("output"):
        cached = f"{usage['cached']:,} cached · " if usage.get("cached") else ""
        told.append(f"{usage['input']:,} in · {cached}{usage['output']:,} out")
    told += [f"{usage['seconds']:.1f} s"] if usage.get("seconds") else []
    told += [f"${usage['cost']:.4f}"] if usage.get("cost") else []
    told += [_shown(data["next"])] if data.get("next") else []
    message = [f'<span dir="auto">{_shown(data["message"])}</span>'] if data.get("message") else []
    return [*message, " &nbsp; ".join([word, *told])]


def _rounds(number: int) -> str:
    return f"{number} round{'s' if number != 1 else ''}"


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
    told += [_rounds(data["rounds"])] if data["rounds"] else []
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
    counts = [_rounds(usage["rounds"])] if usage else []
    counts += [f"${usage['cost']:.4f}"] if usage.get("cost") else []
    message = f": {data['message']}" if data.get("message") else ""
    return " · ".join([data["status"].replace("_", " ") + message, *counts])
