"""Odd and broken streams through the engine; numbers are rows of the list of failures it was built against."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cumulus_jupyter.agent.events import ReplyDiscarded, Retrying, ThinkingDelta
from cumulus_jupyter.agent.messages import Status

from ..wire.harness import MODELS, converse
from ..wire.server import Turn


def chunks(*events: Any, done: bool = True) -> bytes:
    lines = [f"data: {e if isinstance(e, str) else json.dumps(e)}\n\n" for e in events]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def retries(ran: Any) -> list[Retrying]:
    return [event for event in ran.events if isinstance(event, Retrying)]


HOLLOW = chunks(delta(role="assistant"), *[delta(tool_calls=[])] * 50, delta("tool_calls", tool_calls=[]))
ASK_AGAIN = {
    "19 tool_calls with none": chunks(delta(content=""), delta("tool_calls", tool_calls=[])),
    "23 no finish": chunks(delta(content="half"), done=False),
    "23 no finish, but an end": chunks(delta(content="half")),
    "26 only empty deltas": HOLLOW,
    "26 only empty deltas, then stop": HOLLOW.replace(b'"tool_calls"}', b'"stop"}'),
    "41 stopped in thinking": chunks(delta(content=""), delta(reasoning="hm " * 50), delta("stop")),
    "42 error object": chunks({"error": {"message": "upstream timed out", "code": 504}, "choices": []}),
    "42 error text": chunks(delta(content="ha"), {"error": "overloaded, try again", "choices": []}),
    "43 finish error": chunks(delta(content="ha"), delta("error")),
    "aborted": chunks(delta(content="ha"), delta("abort")),
    "damaged": chunks(delta(content="ha"), '{"choices": [', delta("stop")),
    "of an unknown shape": chunks({"choices": ["x"]}, delta("stop")),
    "empty": b"",
}


@pytest.mark.parametrize("name", ASK_AGAIN)
def test_a_reply_that_is_none_is_asked_for_again(name: str, serve: Any, provider: Any, calls: Any) -> None:
    """It is not an answer, what was shown of it is taken back, and the next attempt counts."""
    server = serve(Turn(body=ASK_AGAIN[name]), Turn("All good."))
    ran = converse(provider(server, MODELS["chat"]), ["go"], [calls.tool("ls", "path")])
    assert (ran.result.status, ran.result.text, ran.shown) == (Status.DONE, "All good.", "All good.")
    assert len(retries(ran)) == 1
    assert server.refused == []


def test_26_calls_lost_in_the_stream_are_asked_for_without_one(serve: Any, provider: Any, calls: Any) -> None:
    """The attempt after only empty deltas is not streamed; the next request is again."""
    message = {"role": "assistant", "content": None}
    message["tool_calls"] = [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path":"a"}'}}]
    whole = {
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 5},
    }
    server = serve(Turn(body=HOLLOW), Turn(body=json.dumps(whole).encode()), Turn("Done."))
    ran = converse(provider(server, MODELS["chat"]), ["go"], [calls.tool("ls", "path")])
    assert [body["stream"] for body in server.bodies] == [True, False, True]
    assert calls.seen == [("ls", {"path": "a"})]
    assert ran.result.text == "Done."


@pytest.mark.parametrize("name", ["19 tool_calls with none", "23 no finish, but an end", "41 stopped in thinking"])
def test_a_server_that_does_it_twice_means_it(name: str, serve: Any, provider: Any) -> None:
    """An odd but closed reply is asked for again once, not five times."""
    server = serve(*[Turn(body=ASK_AGAIN[name])] * 2)
    ran = converse(provider(server, MODELS["chat"]), ["go"])
    assert (ran.result.status, len(server.asked)) == (Status.DONE, 2)


def test_40_the_answer_in_the_reasoning(serve: Any, provider: Any) -> None:
    """Where content never came, reasoning is the answer; it is not echoed as reasoning."""
    body = chunks(delta(role="assistant", content=None), delta(reasoning="It is 4."), delta("stop", content=None))
    server = serve(Turn(body=body), Turn("ok"))
    ran = converse(provider(server, MODELS["chat"]), ["2+2?", "sure?"])
    assert [result.text for result in ran.results] == ["It is 4.", "ok"]
    assert ran.results[0].status is Status.DONE
    assert server.bodies[1]["messages"][2] == {"role": "assistant", "content": "It is 4."}
    assert len(server.asked) == 2


@pytest.mark.parametrize("tail", [b"", b": bye\n\n"])
def test_46_no_done_marker(tail: bytes, serve: Any, provider: Any) -> None:
    """A finish reason is enough of an end."""
    server = serve(Turn(body=chunks(delta(content="Hi"), delta("stop"), done=False) + tail))
    ran = converse(provider(server, MODELS["chat"]), ["go"])
    assert (ran.result.text, len(server.asked)) == ("Hi", 1)


@pytest.mark.parametrize("wire", MODELS)
def test_the_end_of_a_stream_is_not_waited_for(wire: str, serve: Any, provider: Any) -> None:
    """A connection that stays open for minutes behind [DONE] or message_stop holds nothing up."""
    server = serve(Turn("Hi", linger=120), Turn("again"))
    ran = converse(provider(server, MODELS[wire]), ["go", "more"])
    assert [result.text for result in ran.results] == ["Hi", "again"]
    assert ran.results[0].usage.seconds < 60


def test_47_usage_alone_and_usage_null(serve: Any, provider: Any) -> None:
    """A chunk with usage and no choices counts; null usage is estimated."""
    server = serve(
        Turn(
            body=chunks(
                delta(content="Hi"),
                delta("stop"),
                {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
            )
        ),
        Turn(body=chunks({**delta(content="Hi"), "usage": None}, {**delta("stop"), "usage": None})),
    )
    ran = converse(provider(server, MODELS["chat"]), ["go", "x" * 4_000])
    usages = [result.usage for result in ran.results]
    assert (usages[0].input, usages[0].output) == (7, 2)
    assert 900 < usages[1].input < 1_500


def test_50_another_envelope(serve: Any, provider: Any) -> None:
    """An answer in ``data`` is unwrapped; a refusal in it is said."""
    inner = {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
    server = serve(
        Turn(body=json.dumps({"data": inner, "success": True}).encode()),
        Turn(body=json.dumps({"success": False, "message": "no such plan"}).encode()),
    )
    ran = converse(provider(server, MODELS["chat"]), ["go", "more"])
    assert ran.results[0].text == "Hi"
    assert "no such plan" in (ran.results[1].error or "")


def test_content_as_a_list_of_parts(serve: Any, provider: Any) -> None:
    """Content may come as parts."""
    server = serve(Turn(body=chunks(delta(content=[{"type": "text", "text": "Hi"}]), delta("stop"))))
    assert converse(provider(server, MODELS["chat"]), ["go"]).result.text == "Hi"


@pytest.mark.parametrize("wire", MODELS)
def test_one_byte_at_a_time(wire: str, serve: Any, provider: Any, calls: Any) -> None:
    """A stream cut at every byte gives the same text, thinking and calls."""
    turn = Turn("café 東京 🧪", thinking="überlegen", calls=[("ls", {"path": "ü"})], every=1)
    server = serve(turn, Turn("fertig", every=1))
    ran = converse(provider(server, MODELS[wire]), ["go"], [calls.tool("ls", "path")])
    assert calls.seen == [("ls", {"path": "ü"})]
    assert ran.shown == "café 東京 🧪fertig"
    assert "".join(e.text for e in ran.events if isinstance(e, ThinkingDelta)) == "überlegen"
    assert server.refused == []


@pytest.mark.parametrize("wire", MODELS)
def test_a_connection_that_breaks_is_retried_and_taken_back(wire: str, serve: Any, provider: Any) -> None:
    """Half an answer of a dead attempt is not kept and not shown twice."""
    text = "The answer is long enough to be cut somewhere."
    server = serve(Turn(text, drop=900, every=100, delay=0.001), Turn(text))
    ran = converse(provider(server, MODELS[wire]), ["go"])
    assert (ran.result.text, ran.shown) == (text, text)
    assert any(isinstance(event, ReplyDiscarded) for event in ran.events)


@pytest.mark.parametrize("wire", MODELS)
def test_no_call_where_none_is_allowed(wire: str, serve: Any, provider: Any, calls: Any) -> None:
    """In the closing round tools stay as they were, none may be called, and one that is called does not run."""
    from cumulus_jupyter.agent.loop import Limits

    server = serve(Turn(calls=[("ls", {"path": "a"})]), Turn("That is all.", calls=[("ls", {"path": "b"})]))
    ran = converse(provider(server, MODELS[wire]), ["go"], [calls.tool("ls", "path")], limits=Limits(turns=1))
    assert ran.result.status is Status.TURN_LIMIT
    assert calls.seen == [("ls", {"path": "a"})]
    first, last = server.bodies
    assert last["tools"] == first["tools"]
    assert last["tool_choice"] in ("none", {"type": "none"})
    assert ran.transcript.open_calls == []
