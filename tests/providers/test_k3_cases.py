"""Public bug reports about replies cut at the output limit, through the whole engine, and usage (K8-04)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cumulus_jupyter.agent.errors import ProviderError
from cumulus_jupyter.agent.messages import Reply, Status, ToolCall, ToolResult, UserMessage
from cumulus_jupyter.agent.provider import Request
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.providers.accumulate import ChatReply
from cumulus_jupyter.providers.blocks import BlockReply

from ..wire.harness import MODELS, ask, converse
from ..wire.server import Turn

CHAT, CLAUDE = "openai/m-test", "anthropic/claude-test"


def limits(server: Any) -> list[int]:
    return [body.get("max_tokens") or body.get("max_completion_tokens") for body in server.bodies]


@pytest.mark.parametrize("file", ["K3-01", "K3-01-order"])
def test_k3_01_a_cut_call_never_runs(file: str, case: Any, serve: Any, provider: Any, calls: Any) -> None:
    """A call cut by the limit is asked for again with more room, then in smaller parts; nothing is written."""
    server = serve(*[Turn(body=case(f"{file}.sse"))] * 9)
    ran = converse(provider(server, CHAT), ["write it"], [calls.tool("write_file", "path", "text")])
    assert calls.seen == []
    assert ran.result.status is Status.TRUNCATED
    assert len(server.asked) == 4
    first, second, third, _ = limits(server)
    assert (first, second) == (16_384, 32_768)
    assert 65_000 < third <= 65_536  # less what was spent
    assert "cut by the output limit" in server.bodies[3]["messages"][-1]["content"]
    assert server.refused == []


@pytest.mark.parametrize("wire", MODELS)
def test_the_next_prompt_after_a_cut_call_is_valid(wire: str, serve: Any, provider: Any, calls: Any) -> None:
    """A call that was cut each time leaves nothing in the history that a server refuses."""
    stop = "length" if wire == "chat" else "max_tokens"
    cut = Turn("I'll write.", thinking="hm", calls=[("write_file", '{"path": "a')], stop=stop)
    server = serve(*[cut] * 4, Turn("ok"))
    ran = converse(provider(server, MODELS[wire]), ["go", "and now?"], [calls.tool("write_file", "path", "text")])
    assert [result.status for result in ran.results] == [Status.TRUNCATED, Status.DONE]
    assert (calls.seen, server.refused) == ([], [])


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("hidden", ["arguments", "count"])
def test_a_cut_that_the_server_hides(hidden: str, wire: str, serve: Any, provider: Any, calls: Any) -> None:
    """Arguments that stop short, or as many tokens as were asked for, are a cut whatever the finish reason says."""
    text = '{"path": "a", "text": "' if hidden == "arguments" else '{"path": "a", "text": "b"}'
    cut = Turn("I'll write.", calls=[("write_file", text)], usage=(9, 30 if hidden == "arguments" else 16_384))
    whole = Turn(calls=[("write_file", {"path": "a", "text": "b"})])
    server = serve(cut, whole, Turn("Written."))
    ran = converse(provider(server, MODELS[wire]), ["go"], [calls.tool("write_file", "path", "text")])
    assert calls.seen == [("write_file", {"path": "a", "text": "b"})]
    assert (ran.result.status, ran.shown) == (Status.DONE, "Written.")
    assert limits(server)[:2] == [16_384, 32_768]


def test_k3_03_a_stored_broken_call_is_mended(case: Any, serve: Any, provider: Any, calls: Any) -> None:
    """Arguments that are no JSON go out as valid ones, with their result."""
    history = json.loads(case("K3-03.json"))["history"]
    function = history[1]["tool_calls"][0]["function"]
    transcript = Transcript()
    transcript.user(history[0]["content"])
    call = ToolCall("", function["name"], None, history[1]["tool_calls"][0]["id"], function["arguments"])
    stored = transcript.assistant(Reply("", [call], model=CHAT))
    transcript.result(ToolResult(stored.calls[0].id, function["name"], [history[2]["content"]], ok=False))
    transcript.end(Status.DONE)
    for wire, name in MODELS.items():
        server = serve(Turn("Again, smaller."))
        ran = converse(
            provider(server, name), ["go on"], [calls.tool("write_file", "path", "text")], transcript=transcript
        )
        assert (ran.result.status, server.refused, len(server.asked)) == (Status.DONE, [], 1), wire


def test_k3_03_a_400_is_not_sent_again_unchanged(serve: Any, provider: Any) -> None:
    """A refusal that nothing can be done about ends the run at once."""
    server = serve(*[Turn(status=400, body=b'{"error":{"message":"invalid tool call arguments"}}')] * 9)
    ran = converse(provider(server, CHAT), ["go"])
    assert (ran.result.status, len(server.asked)) == (Status.FAILED, 1)


@pytest.mark.parametrize("wire", MODELS)
def test_k3_04_a_limit_that_the_server_names(wire: str, case: Any, serve: Any, provider: Any) -> None:
    """A refused size is lowered to the number in the refusal, kept, and never asked above again."""
    limit = json.loads(case("K3-04.json"))["model_limit"]
    turns = [
        Turn("half of it ", stop="length" if wire == "chat" else "max_tokens", usage=(9, n)) for n in (9_000, 9_000)
    ]
    long = [Turn(thinking="hm", stop=turn.stop, usage=(9, 10)) for turn in turns]
    server = serve(*long, *turns, Turn("and the rest."), ceiling=8_192)
    ran = converse(provider(server, MODELS[wire]), ["go"])
    assert limits(server)[:2] == [16_384, 8_192]
    assert all(asked <= 8_192 for asked in limits(server)[1:])
    assert len(server.refused) == 1
    assert limit > 8_192
    assert ran.shown.count("half of it") <= 1


def test_k3_04_the_real_words(case: Any, serve: Any, provider: Any, calls: Any) -> None:
    """Anthropic's refusal of 70,000 names 64,000: that is what comes next."""
    script = json.loads(case("K3-04.json"))["script"]
    refusal = Turn(
        status=400, body=json.dumps(script[1]["if_request_max_tokens_above"] and script[1]["answer"]["body"]).encode()
    )
    server = serve(refusal, Turn("ok"))
    request = Request("", [UserMessage("go")], [], [], 70_000)
    model = provider(server, "anthropic/claude-sonnet-5-5")
    with pytest.raises(ProviderError) as caught:
        ask(model, request)
    assert (caught.value.ceiling, caught.value.retryable, model.facts.ceiling) == (64_000, False, 64_000)


def test_k3_04_a_higher_rung_after_a_cut(case: Any, serve: Any, provider: Any) -> None:
    """Cut in thinking at one size, the next request asks for more, never the same again."""
    server = serve(Turn(thinking="hm", stop="length"), Turn("Here."))
    ran = converse(provider(server, CHAT), ["go"])
    assert (limits(server), ran.shown) == ([16_384, 32_768], "Here.")


def test_k3_06_a_lone_length(case: Any, serve: Any, provider: Any) -> None:
    """A server that says length of a whole answer: the line is shown once, after one continuation at most."""
    server = serve(*[Turn(body=case("K3-06.sse"))] * 9)
    ran = converse(provider(server, CHAT), ["go"])
    assert (ran.result.status, ran.shown, ran.result.text) == (
        Status.DONE,
        "Saved to out/summary.md.",
        "Saved to out/summary.md.",
    )
    assert len(server.asked) == 2


def test_k3_06_a_continuation_that_starts_again(case: Any, serve: Any, provider: Any) -> None:
    """A continuation that repeats the start is joined without a repeat."""
    server = serve(Turn(body=case("K3-06-cut.sse")), Turn(body=case("K3-06-cont.sse")))
    ran = converse(provider(server, CHAT), ["go"])
    assert ran.shown == ran.result.text == "The three causes are heat, dust and age."


def test_k3_07_a_budget_that_went_to_thinking(case: Any, serve: Any, provider: Any) -> None:
    """Thinking alone is no success: one attempt with more room, then it says where the budget went."""
    server = serve(*[Turn(body=case("K3-07.sse"))] * 9)
    ran = converse(provider(server, CHAT), ["go"])
    assert ran.result.status is Status.TRUNCATED
    assert "thinking" in (ran.result.error or "")
    assert len(server.asked) == 2


def usage_stream(entry: dict[str, Any]) -> bytes:
    if "usage" in entry or entry["provider"] == "no usage at all":
        last = {"choices": [], "usage": entry.get("usage")}
        return (
            'data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\n'
            f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n"
        ).encode()
    start = {"type": "message_start", "message": {"usage": entry["message_start"], "content": []}}
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": entry["message_delta"]}
    return "".join(f"data: {json.dumps(e)}\n\n" for e in (start, text, end, {"type": "message_stop"})).encode()


@pytest.mark.parametrize("number", range(5))
def test_k8_04_cached_tokens_count_once(number: int, case: Any, serve: Any, provider: Any) -> None:
    """Tokens in the context are what the case says, however the server counts; without a count they are estimated."""
    entry = json.loads(case("K8-04.json"))["usages"][number]
    server = serve(Turn(body=usage_stream(entry)))
    name = CLAUDE if "message_start" in entry else CHAT
    _, reply = ask(provider(server, name), Request("", [UserMessage("x" * entry.get("chars_sent", 10))], [], [], 1_000))
    used = reply.usage.input + reply.usage.output
    if isinstance(entry["context_used"], int):
        assert used == entry["context_used"]
        assert reply.usage.cached <= reply.usage.input
    else:
        assert 25_000 < used < 60_000


def test_k8_04_cached_tokens_are_told_apart() -> None:
    """Cached tokens are a part of the input on both wires."""
    chat = ChatReply({})
    chat.take(
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 52_000,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 51_000},
            },
        }
    )
    blocks = BlockReply()
    blocks.take(
        {
            "type": "message_start",
            "message": {
                "usage": {"input_tokens": 12, "cache_read_input_tokens": 41_000, "cache_creation_input_tokens": 300}
            },
        }
    )
    usages = [fold.end("m", lambda: 0)[1].usage for fold in (chat, blocks)]
    assert [(usage.input, usage.cached) for usage in usages] == [(52_000, 51_000), (41_312, 41_000)]
