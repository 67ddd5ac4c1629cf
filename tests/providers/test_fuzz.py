"""Recorded streams, cut at every byte, their pieces lost, repeated or in another order: nothing breaks.

Whatever comes, a run ends in a known way, no call runs with arguments that its model did not write, and no character of
a whole answer is lost.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from cumulus_jupyter.agent.messages import Reply
from cumulus_jupyter.providers.accumulate import ChatReply
from cumulus_jupyter.providers.blocks import BlockReply
from cumulus_jupyter.providers.sse import DamagedStream, EventDecoder, NotAStream, StreamFault

from ..wire.harness import Calls
from ..wire.render import Turn, chat_body, messages_body

TURN = Turn(
    "Grüße 🚀, one < two. ",
    thinking="hm, 考える",
    calls=[("look", {"place": "Köln 🚀"}, "c_1"), ("look", {"place": '{"a": "}"}'}, "c_2"), ("wait", "", "c_3")],
)
WHOLE = [("look", {"place": "Köln 🚀"}), ("look", {"place": '{"a": "}"}'}), ("wait", {})]
LEAKS = {
    "kimi": '<|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{"place": "Köln"}<|tool_call_end|>',
    "qwen": "<tool_call>\n<function=look>\n<parameter=place>\nKöln\n</parameter>\n</function>\n</tool_call>",
    "glm": "<tool_call>look\n<arg_key>place</arg_key>\n<arg_value>Köln</arg_value>\n</tool_call>",
    "hermes": '<tool_call>{"name": "look", "arguments": {"place": "Köln"}}</tool_call>',
    "dsml": '<｜DSML｜invoke name="look"><｜DSML｜parameter name="place" string="true">Köln</｜DSML｜parameter>'
    "</｜DSML｜invoke>",
    "harmony": '<|channel|>commentary to=functions.look<|message|>{"place": "Köln"}<|call|>',
    "think": "<think>Köln?</think>",
}
STREAMS = {"chat": chat_body(TURN), "messages": messages_body(TURN, "sig")}
FILES = ["K2-01", "K2-01-noindex", "K2-03", "K2-06", "K2-08", "K2-12", "K3-01", "K3-01-order", "K3-06", "K3-07"]
TOOLS = {tool.name: tool for tool in (Calls().tool("look", "place"), Calls().tool("wait"), Calls().tool("write_file"))}
FAULTS = (StreamFault, DamagedStream, NotAStream, ValueError, LookupError, AttributeError, TypeError)
"""What the provider turns into an error for the person; anything else would be a crash."""


def fold(pieces: Iterable[bytes], *, chat: bool) -> tuple[str, Reply] | None:
    """What was shown, and the reply; None where the stream is refused as broken or incomplete."""
    decoder, reply = EventDecoder(), ChatReply(TOOLS) if chat else BlockReply()
    shown: list[Any] = []
    try:
        for piece in pieces:
            for event in decoder.feed(piece):
                shown += reply.take(event)
        for event in decoder.finish():
            shown += reply.take(event)
    except FAULTS:
        return None
    if not (reply.finished or decoder.done) or reply.doubt():
        return None
    rest, whole = reply.end("m", lambda: 1)
    shown += rest
    return "".join(d.text for d in shown if type(d).__name__ == "TextDelta"), whole


def said(found: tuple[str, Reply]) -> tuple[Any, ...]:
    shown, reply = found
    return shown, reply.text, [(c.name, c.arguments, c.raw) for c in reply.calls], reply.stop, reply.native


def cuts(body: bytes, *, every: int) -> Iterator[list[bytes]]:
    """The stream in two pieces at each place, then byte by byte."""
    for at in range(1, len(body), every):
        yield [body[:at], body[at:]]
    yield [bytes([byte]) for byte in body]


@pytest.mark.parametrize("wire", STREAMS)
def test_a_cut_at_any_byte_changes_nothing(wire: str) -> None:
    """The same text, calls and blocks come out, no character is lost."""
    body, chat = STREAMS[wire], wire == "chat"
    expected = said(fold([body], chat=chat) or pytest.fail("the whole stream was refused"))
    assert expected[1] == TURN.text
    assert [(name, arguments) for name, arguments, _ in expected[2]] == WHOLE
    for pieces in cuts(body, every=17):
        found = fold(pieces, chat=chat)
        assert found is not None
        assert said(found) == expected


@pytest.mark.parametrize("wire", STREAMS)
def test_an_end_at_any_byte_runs_no_half_call(wire: str) -> None:
    """A stream that ends early is refused, or its reply is the whole one."""
    _end_early(STREAMS[wire], chat=wire == "chat", every=11)


@pytest.mark.parametrize("name", LEAKS)
def test_leaked_markup_survives_any_cut(name: str) -> None:
    """In pieces of any size the same call or thinking is found, and the text around it is whole."""
    text = f"Sure. {LEAKS[name]}" if name != "think" else f"{LEAKS[name]}Sure."
    for size in range(1, len(text)):
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        body = b"".join(_content(part) for part in parts) + _content("", "stop") + b"data: [DONE]\n\n"
        found = fold([body], chat=True)
        assert found is not None
        shown, reply = found
        calls = [("look", {"place": "Köln"})] if name != "think" else []
        assert ([(c.name, c.arguments) for c in reply.calls], shown.strip(), reply.text.strip()) == (
            calls,
            "Sure.",
            "Sure.",
        )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("wire", STREAMS)
def test_events_in_another_order_never_crash(wire: str, seed: int) -> None:
    """Lost, repeated and exchanged events give a reply or a refusal, never an argument that was not written."""
    _shuffle(STREAMS[wire], seed, chat=wire == "chat")


@pytest.mark.long
@pytest.mark.parametrize("file", [*STREAMS, *FILES])
def test_every_recorded_stream_at_every_byte(file: str, case: Any) -> None:
    """Cut in two at each byte, ended at each byte, and its events a thousand times in disorder."""
    body = STREAMS.get(file) or case(f"{file}.sse")
    chat = b'"choices"' in body or b'"error"' in body.split(b"\n")[0] or file == "chat"
    whole = fold([body], chat=chat)
    for pieces in cuts(body, every=1):
        found = fold(pieces, chat=chat)
        assert (found and said(found)) == (whole and said(whole))
    _end_early(body, chat=chat, every=1)
    for seed in range(1_000):
        _shuffle(body, seed, chat=chat)


def _end_early(body: bytes, *, chat: bool, every: int) -> None:
    whole = fold([body], chat=chat)
    texts = [_arguments(call) for call in whole[1].calls] if whole else []
    for at in range(0, len(body), every):
        found = fold([body[:at]], chat=chat)
        if found is not None and whole is not None:
            assert whole[1].text.startswith(found[1].text)
            runnable = [_arguments(call) for call in found[1].calls if call.arguments is not None]
            assert runnable == texts[: len(runnable)]
            if found[1].stop == whole[1].stop:
                assert [_arguments(call) for call in found[1].calls] == texts


def _shuffle(body: bytes, seed: int, *, chat: bool) -> None:
    chance = random.Random(seed)
    events = [part + b"\n\n" for part in body.split(b"\n\n") if part.strip()]
    for _ in range(chance.randint(1, 4)):
        a, b = chance.randrange(len(events)), chance.randrange(len(events))
        change = chance.choice(["lose", "repeat", "swap", "break"])
        if change == "lose" and len(events) > 1:
            del events[a]
        elif change == "repeat":
            events.insert(b, events[a])
        elif change == "swap":
            events[a], events[b] = events[b], events[a]
        else:
            events[a] = events[a][: chance.randint(0, len(events[a]))]
    found = fold(events, chat=chat)
    for call in found[1].calls if found else ():
        assert call.arguments is None or isinstance(call.arguments, dict)
        json.dumps(call.arguments)


def _arguments(call: Any) -> str:
    return json.dumps([call.name, call.arguments, call.raw], sort_keys=True)


def _content(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]}, ensure_ascii=False)}\n\n".encode()
