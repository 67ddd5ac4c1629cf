"""Requests grow at their end: byte for byte, and without encoding anything twice."""

from __future__ import annotations

from typing import Any

import pytest

from cumulus_jupyter.agent.messages import Reply, ToolCall, ToolResult, ToolResults, UserMessage
from cumulus_jupyter.agent.provider import Request
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.providers import anthropic_messages, chat_messages, encoding

from ..wire.harness import MODELS, Calls, converse
from ..wire.server import Turn, prefix_fault


@pytest.mark.parametrize("wire", MODELS)
def test_each_request_extends_the_one_before(wire: str, serve: Any, provider: Any, calls: Calls) -> None:
    """Over rounds, runs, thinking and notes, a request begins with the last one's bytes, cache markers apart."""
    turns = [Turn("look", thinking="hm", calls=[("ls", {"path": f"{n}"}, f"id_{n}")]) for n in range(3)]
    server = serve(*turns, Turn("a", thinking="so"), Turn(calls=[("ls", {"path": "z"}), ("nope", {})]), Turn("b"))
    converse(provider(server, MODELS[wire]), ["one", "two"], [calls.tool("ls", "path")], note="a note")
    assert len(server.asked) == 6
    assert prefix_fault([asked.body for asked in server.asked]) is None
    assert server.refused == []


@pytest.mark.parametrize("wire", MODELS)
def test_a_resumed_conversation_sends_the_same_bytes(wire: str, serve: Any, provider: Any, calls: Calls) -> None:
    """A transcript that is loaded again makes the request that the running one would have made."""
    server = serve(Turn("x", thinking="hm", calls=[("ls", {"path": "ü"})]), Turn("y"), Turn("z"), Turn("z"))
    tools = [calls.tool("ls", "path")]
    ran = converse(provider(server, MODELS[wire]), ["one"], tools)
    loaded = Transcript.load(ran.transcript.session, ran.transcript.lines)
    converse(provider(server, MODELS[wire]), ["two"], tools, transcript=ran.transcript)
    converse(provider(server, MODELS[wire]), ["two"], tools, transcript=loaded)
    assert server.asked[2].body == server.asked[3].body


@pytest.mark.parametrize("wire", MODELS)
def test_messages_and_tools_are_encoded_once(
    wire: str, serve: Any, provider: Any, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next round encodes what is new and reuses the bytes of all else."""
    encoded: list[Any] = []
    real = encoding.encode
    for module in (chat_messages, anthropic_messages):
        monkeypatch.setattr(module, "encode", lambda value: encoded.append(value) or real(value))
    server = serve(*[Turn("x", calls=[("ls", {"path": str(n)})]) for n in range(5)], Turn("end"))
    converse(provider(server, MODELS[wire]), ["go"], [calls.tool("ls", "path")])
    kinds = [str(value.get("role") or value.get("type")) for value in encoded]
    assert kinds.count("tool" if wire == "chat" else "tool_result") == 5
    assert sum("input_schema" in value or "function" in value for value in encoded) == 1
    assert kinds.count("user") + kinds.count("text") - kinds.count("assistant") <= 8


@pytest.mark.parametrize("wire", MODELS)
def test_a_changed_list_is_sent_as_it_is(wire: str, serve: Any, provider: Any) -> None:
    """A list that was shortened or had its start replaced is not taken for the grown old one."""
    model = provider(serve(), MODELS[wire])

    def body(messages: list[Any]) -> bytes:
        return model.body(Request("s", messages, [], [], 100))

    messages: list[Any] = [UserMessage("a"), Reply("b"), UserMessage("c")]
    body(messages)
    fresh = provider(serve(), MODELS[wire])
    messages[:2] = [UserMessage("summary")]
    assert body(messages) == fresh.body(Request("s", list(messages), [], [], 100))
    del messages[1:]
    messages.append(UserMessage("d"))
    assert b'"c"' not in body(messages)


@pytest.mark.parametrize("wire", MODELS)
def test_results_that_come_late_are_sent(wire: str, serve: Any, provider: Any) -> None:
    """A group that was sent while a result was missing is encoded anew once it is there."""
    model = provider(serve(), MODELS[wire])
    call = ToolCall("c1", "ls", {}, "c1")
    group = ToolResults([call], [None])
    messages = [UserMessage("a"), Reply("", [call], model=model.name), group]
    assert b"interrupted" in model.body(Request("s", messages, [], [], 100))
    group.results[0] = ToolResult("c1", "ls", ["here"])
    after = model.body(Request("s", messages, [], [], 100))
    assert b"interrupted" not in after
    assert b"here" in after


@pytest.mark.parametrize("wire", MODELS)
def test_body_is_what_stream_sends(wire: str, serve: Any, provider: Any) -> None:
    """``body`` gives the bytes of the request to the last one."""
    server = serve(Turn("ok"))
    model = provider(server, MODELS[wire])
    ran = converse(model, ["go"])
    messages = ran.transcript.messages[:1]
    assert model.body(Request("You are in a test.", messages, [], [], 16_384)) == server.asked[0].body
