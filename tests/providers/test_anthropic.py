"""What Anthropic's wire needs and gives: deferral, cache markers, blocks, stop reasons, effort."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import (
    Image,
    Reply,
    Status,
    StopReason,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
)
from cumulus_jupyter.agent.provider import Request
from cumulus_jupyter.agent.tool import Output, Tool

from ..wire.harness import Calls, ask, converse
from ..wire.server import Asked, Turn, prefix_fault
from ..wire.validate import unmarked

CLAUDE = "anthropic/claude-sonnet-5-5"


def searching(calls: Calls, names: list[str]) -> list[Tool]:
    """A ``tool_search`` that fetches what it is asked for, and deferred tools to fetch."""

    async def run(context: Any, arguments: dict[str, Any]) -> Output:
        wanted = arguments["query"].split(",")
        context.transcript.append("fetched", names=wanted)
        return Output(f"schemas of {wanted}", {"fetched": wanted})

    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    search = Tool(name="tool_search", description="Finds tools.", schema=lambda: schema, run=run)
    return [calls.tool("ls", "path"), search, *(calls.tool(name, "x", deferred=True) for name in names)]


def test_deferred_tools_are_referred_to(serve: Any, provider: Any, calls: Calls) -> None:
    """Definitions go along marked as deferred in bytes that never change; a search's result is the references."""
    server = serve(
        Turn(calls=[("tool_search", {"query": "beta"})]),
        Turn(calls=[("beta", {"x": "1"})]),
        Turn("Done."),
        Turn("Again."),
    )
    ran = converse(provider(server, CLAUDE), ["go", "more"], searching(calls, ["alpha", "beta"]))
    assert ran.result.status is Status.DONE
    assert calls.seen == [("beta", {"x": "1"})]
    tools = server.bodies[0]["tools"]
    assert [(t["name"], t.get("defer_loading", False)) for t in tools] == [
        ("ls", False),
        ("tool_search", False),
        ("alpha", True),
        ("beta", True),
    ]
    assert [i for i, t in enumerate(tools) if "cache_control" in t] == [1]
    assert all(body["tools"] == tools and body["system"] == server.bodies[0]["system"] for body in server.bodies)
    result = server.bodies[1]["messages"][-1]["content"][0]
    assert result["content"] == [{"type": "tool_reference", "tool_name": "beta"}]
    assert prefix_fault([asked.body for asked in server.asked]) is None
    assert server.refused == []


@pytest.mark.parametrize(
    "words", ["tools.2.defer_loading: Extra inputs are not permitted", "unexpected type tool_reference"]
)
def test_a_server_without_deferral_gets_fetched_tools_appended(
    words: str, serve: Any, provider: Any, calls: Calls
) -> None:
    """A refusal of deferral turns it off for good: fetched tools stand behind the eager ones, described in text."""

    def strict(asked: Asked) -> Turn:
        text = asked.body.decode()
        if ("defer_loading" in text and "defer" in words) or ("tool_reference" in text and "reference" in words):
            return Turn(status=400, body=json.dumps({"error": {"message": words}}).encode())
        return turns.pop(0)

    turns = [Turn(calls=[("tool_search", {"query": "beta"})]), Turn(calls=[("beta", {"x": "1"})]), Turn("Done.")]
    server = serve(*[strict] * 9)
    ran = converse(provider(server, CLAUDE), ["go"], searching(calls, ["alpha", "beta"]))
    assert (ran.result.status, calls.seen) == (Status.DONE, [("beta", {"x": "1"})])
    last = server.bodies[-1]
    assert [tool["name"] for tool in last["tools"]] == ["ls", "tool_search", "beta"]
    assert "schemas of" in json.dumps(last["messages"])
    assert "defer_loading" not in json.dumps(last)
    assert len(server.asked) == 4


def test_cache_markers_move_and_are_four_at_most(serve: Any, provider: Any, calls: Calls) -> None:
    """System, last eager tool and the last two turns of the user's side are marked, whatever the number of calls."""
    many = [("ls", {"path": str(n)}, f"toolu_{n}") for n in range(12)]
    server = serve(Turn(calls=many), Turn(calls=[("ls", {"path": "x"}, "toolu_x")]), Turn("Done."))
    converse(provider(server, CLAUDE), ["go"], [calls.tool("ls", "path")])
    for body in server.bodies:
        marked = [
            (number, len(message["content"]) - 1 - place)
            for number, message in enumerate(body["messages"])
            for place, block in enumerate(message["content"])
            if "cache_control" in block
        ]
        turns = [number for number, message in enumerate(body["messages"]) if message["role"] == "user"]
        assert marked == [(number, 0) for number in turns[-2:]]
        assert json.dumps(body).count("cache_control") <= 4
    assert server.refused == []


def test_a_server_without_caching_gets_no_markers(serve: Any, provider: Any) -> None:
    """A refusal of cache markers drops them for good."""

    def strict(asked: Asked) -> Turn:
        if b"cache_control" in asked.body:
            return Turn(status=400, body=b'{"error":{"message":"cache_control: Extra inputs are not permitted"}}')
        return Turn("ok")

    server = serve(*[strict] * 9)
    assert converse(provider(server, CLAUDE), ["a", "b"]).result.status is Status.DONE
    assert len(server.asked) == 3


def test_results_failures_pictures_and_notes(serve: Any, provider: Any, calls: Calls) -> None:
    """Failed results are marked, pictures go inside their result, notes with their prompt, texts are never empty."""
    picture = [Image("image/png", "aGk="), "seen"]
    tools = [
        calls.tool("look", result=lambda: Output(picture)),
        calls.tool("fail", result=lambda: Output("no such file", ok=False)),
        calls.tool("silent", result=lambda: ""),
    ]
    server = serve(Turn(calls=[("look", {}), ("fail", {}), ("silent", {}), ("nope", {})]), Turn("ok"))
    converse(provider(server, CLAUDE), ["go"], tools, note="in notebook a.ipynb")
    first, assistant, results = server.bodies[1]["messages"]
    assert [block["text"] for block in first["content"]] == ["go", "in notebook a.ipynb"]
    assert [block["type"] for block in assistant["content"]] == ["tool_use"] * 4
    contents = [(block["content"], block.get("is_error", False)) for block in unmarked(results["content"])]
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert contents[0] == ([{"type": "image", "source": source}, {"type": "text", "text": "seen"}], False)
    assert contents[1] == ("no such file", True)
    assert contents[2] == ("(no output)", False)
    assert contents[3][1]
    assert server.refused == []


def test_a_conversation_is_always_valid(serve: Any, provider: Any) -> None:
    """Prompts behind one another are one message, empty replies are left out, calls without results get some."""
    call = ToolCall("call_1", "ls", {}, "toolu_1")
    messages = [
        UserMessage("a"),
        Reply("", model=CLAUDE),
        UserMessage("b"),
        Reply("x", [call], model=CLAUDE),
        UserMessage("c"),
        ToolResults([call], [ToolResult("call_1", "ls", ["late"])]),
        Reply("y", [call], model=CLAUDE),
    ]
    server = serve(Turn("ok"))
    ask(provider(server, CLAUDE), Request("s", messages, [], [], 100))
    sent = server.bodies[0]["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert [block["text"] for block in sent[0]["content"]] == ["a", "b"]
    assert [block["type"] for block in sent[2]["content"]] == ["tool_result", "text"]
    assert "interrupted" in sent[2]["content"][0]["content"]
    assert server.refused == []


def test_blocks_go_back_as_they_came(serve: Any, provider: Any, calls: Calls) -> None:
    """Redacted thinking, callers, citations and server tools survive the round trip; empty texts do not go back."""
    blocks = [
        {"type": "redacted_thinking", "data": "abc"},
        {"type": "text", "text": ""},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": 1}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
        {"type": "tool_use", "id": "toolu_9", "name": "ls", "input": {"path": "a"}, "caller": {"type": "direct"}},
    ]
    events = [{"type": "message_start", "message": {"usage": {"input_tokens": 1}}}]
    events += [{"type": "content_block_start", "index": i, "content_block": block} for i, block in enumerate(blocks)]
    citation = {"type": "citations_delta", "citation": {"url": "u"}}
    events += [
        {"type": "content_block_start", "index": 5, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 5, "delta": {"type": "text_delta", "text": "so"}},
        {"type": "content_block_delta", "index": 5, "delta": citation},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    server = serve(Turn(body=body), Turn("ok"), check=False)
    converse(provider(server, CLAUDE), ["go"], [calls.tool("ls", "path")])
    assert server.bodies[1]["messages"][1]["content"] == [
        *(block for block in blocks if block != {"type": "text", "text": ""}),
        {"type": "text", "text": "so", "citations": [{"url": "u"}]},
    ]


@pytest.mark.parametrize(
    ("stop", "status", "words"),
    [
        ("end_turn", Status.DONE, ""),
        ("stop_sequence", Status.DONE, ""),
        ("refusal", Status.REFUSED, "declined"),
        ("model_context_window_exceeded", Status.TRUNCATED, "window"),
    ],
)
def test_stop_reasons(stop: str, status: Status, words: str, serve: Any, provider: Any) -> None:
    """Each way to stop ends the run in its own word."""
    ran = converse(provider(serve(Turn("said", stop=stop)), CLAUDE), ["go"])
    assert (ran.result.status, ran.result.text) == (status, "said")
    assert words in (ran.result.error or "")


def test_a_refusal_says_why(serve: Any, provider: Any) -> None:
    """The server's explanation of a refusal reaches the person."""
    delta = {
        "stop_reason": "refusal",
        "stop_details": {"type": "refusal", "category": "bio", "explanation": "Not this."},
    }
    body = f"data: {json.dumps({'type': 'message_delta', 'delta': delta, 'usage': {'output_tokens': 1}})}\n\n".encode()
    ran = converse(provider(serve(Turn(body=body)), CLAUDE), ["go"])
    assert ran.result.status is Status.REFUSED
    assert "Not this." in (ran.result.error or "")


def test_an_empty_input_means_no_arguments_and_half_of_one_is_a_cut_call(serve: Any, provider: Any) -> None:
    """No input at all is {}; input that stops short is None with its text."""
    server = serve(Turn(calls=[("ls", ""), ("ls", '{"path": "a')], stop="max_tokens"))
    _, reply = ask(provider(server, CLAUDE), Request("", [UserMessage("go")], [], [], 100))
    assert [(call.arguments, call.raw) for call in reply.calls] == [({}, ""), (None, '{"path": "a')]
    assert reply.stop is StopReason.LENGTH
    assert [block["input"] for block in reply.native] == [{}, {}]


def test_a_reply_that_was_not_streamed(serve: Any, provider: Any) -> None:
    """A server that answers with the whole message is understood."""
    message = {
        "type": "message",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    deltas, reply = ask(
        provider(serve(Turn(body=json.dumps(message).encode())), CLAUDE), Request("", [UserMessage("go")], [], [], 100)
    )
    assert ([delta.text for delta in deltas], reply.text, reply.usage.input) == (["hm", "Hi"], "Hi", 3)


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        (
            "claude-sonnet-5-5",
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
        ),
        ("claude-haiku-4-5", {"thinking": {"type": "enabled", "budget_tokens": 2_048}}),
    ],
)
def test_effort(model: str, sent: dict[str, Any], serve: Any, provider: Any) -> None:
    """Effort is told as the model takes it, and nothing is told without one; a refusal turns it off."""
    server = serve(Turn("a"), Turn(status=400, body=b'{"error":{"message":"thinking: not supported"}}'), Turn("b"))
    plain = converse(provider(server, f"anthropic/{model}"), ["go"])
    assert plain.result.status is Status.DONE
    assert "thinking" not in server.bodies[0]
    ran = converse(provider(server, f"anthropic/{model}"), ["go"], limits=Limits(effort="low"))
    assert ran.result.status is Status.DONE
    assert {key: server.bodies[1].get(key) for key in sent} == sent
    assert not sent.keys() & server.bodies[2].keys()


def test_a_server_that_takes_no_pictures(serve: Any, provider: Any, calls: Calls) -> None:
    """A refusal of pictures leaves them out from then on, with a word for the model."""

    def blind(asked: Asked) -> Turn:
        if b'"image"' in asked.body:
            return Turn(status=400, body=b'{"error":{"message":"image input is not supported"}}')
        return turns.pop(0)

    turns = [Turn(calls=[("look", {})]), Turn("ok"), Turn("ok")]
    server = serve(*[blind] * 9)
    ran = converse(
        provider(server, CLAUDE), ["a", "b"], [calls.tool("look", result=lambda: Output([Image("image/png", "aGk=")]))]
    )
    assert ran.result.status is Status.DONE
    assert "left out" in json.dumps(server.bodies[-1]["messages"])
    assert len(server.asked) == 4


def test_ids_of_another_model_are_fitted(serve: Any, provider: Any) -> None:
    """Kimi's ids are not what this wire allows; call and result change together."""
    call = ToolCall("functions.ls:0", "ls", {}, "functions.ls:0")
    messages = [
        UserMessage("a"),
        Reply("", [call, ToolCall("functions.ls:1", "ls", {}, "")], model="hf/moonshotai/Kimi-K2"),
        ToolResults([call, ToolCall("functions.ls:1", "ls", {}, "")], [ToolResult("x", "ls", ["r"]), None]),
    ]
    server = serve(Turn("ok"))
    ask(provider(server, CLAUDE), Request("", messages, [], [], 100))
    assert server.refused == []


def test_schemas_without_an_object_at_the_top(serve: Any, provider: Any) -> None:
    """A tool whose schema is empty or a choice is sent with an object."""
    odd = [{}, {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"properties": {"b": {}}}]}, {"type": "object"}]
    tools = [
        Tool(name=f"t{n}", description="d", schema=lambda schema=schema: schema, run=Calls().tool("x").run)
        for n, schema in enumerate(odd)
    ]
    for name in (CLAUDE, "openai/gpt-x"):
        server = serve(Turn("ok"))
        ask(provider(server, name), Request("", [UserMessage("go")], tools, [], 100))
        assert server.refused == []
