"""Thinking in tags at the start of an answer, from a server that has no parser for it."""

from __future__ import annotations

from typing import Any

import pytest

from cumulus_jupyter.agent.events import TextDelta, ThinkingDelta
from cumulus_jupyter.agent.messages import StopReason
from cumulus_jupyter.providers.accumulate import ChatReply

from ..wire.harness import Calls

CASES = {
    "think": ("<think>\nhm, 1 < 2\n</think>\n\nTwo.", "\nhm, 1 < 2\n", "Two."),
    "behind white space": ("\n <think>a</think>b", "a", "b"),
    "long name": ("<thinking>a</think></thinking>b", "a</think>", "b"),
    "empty": ("<think>\n\n</think>\n\nHi", "\n\n", "Hi"),
    "not at the start": ("A <think>b</think>", "", "A <think>b</think>"),
    "almost": ("<thin ice>", "", "<thin ice>"),
    "only a beginning": ("<thi", "", "<thi"),
    "twice": ("<think>a</think><think>b</think>", "a", "<think>b</think>"),
    "no tag": ("  1 < 2", "", "  1 < 2"),
    "tag of another kind": ("<b>bold</b>", "", "<b>bold</b>"),
}


def fold(text: str, size: int, tools: Any = (), finish: str = "stop") -> tuple[str, str, Any]:
    """The thinking and the text that were shown, and the reply."""
    reply = ChatReply({tool.name: tool for tool in tools})
    shown: list[Any] = []
    for at in range(0, len(text), size):
        shown += reply.take({"choices": [{"index": 0, "delta": {"content": text[at : at + size]}}]})
    shown += reply.take({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    reply.doubt()
    rest, whole = reply.end("m", lambda: 1)
    shown += rest
    return *("".join(d.text for d in shown if type(d) is kind) for kind in (ThinkingDelta, TextDelta)), whole


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 1_000])
@pytest.mark.parametrize("name", CASES)
def test_thinking_in_tags_is_no_text(name: str, size: int) -> None:
    """However the pieces are cut, no character is lost, and none is on the wrong side."""
    text, thinking, answer = CASES[name]
    thought, shown, reply = fold(text, size)
    assert (thought, shown, reply.text) == (thinking, answer, answer)
    assert reply.native is None


def test_an_answer_cut_in_its_thinking_has_no_text() -> None:
    """What came is shown as thinking, and the reply is cut, not empty."""
    thought, shown, reply = fold("<think>so long</th", 3, finish="length")
    assert (thought, shown, reply.text, reply.stop) == ("so long</th", "", "", StopReason.LENGTH)


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_a_call_behind_or_inside_of_the_thinking_is_a_call(size: int) -> None:
    """Markup of calls is looked for behind the tags and, where there is no answer, inside of them."""
    tool = Calls().tool("ls", "path")
    call = '<tool_call>{"name": "ls", "arguments": {"path": "."}}</tool_call>'
    for text in (f"<think>a</think>{call}", f"<think>a {call}</think>"):
        _, _, reply = fold(text, size, [tool])
        assert [(c.name, c.arguments) for c in reply.calls] == [("ls", {"path": "."})]
