"""Public bug reports about streams and tool calls, through the whole engine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cumulus_jupyter.agent.events import ReplyDiscarded, Retrying
from cumulus_jupyter.agent.messages import Reply, Status, ToolCall, ToolResult
from cumulus_jupyter.agent.transcript import Transcript

from ..wire.harness import converse
from ..wire.server import Asked, Turn, prefix_fault

CHAT, CLAUDE = "openai/m-test", "anthropic/claude-test"


@pytest.mark.parametrize(
    ("file", "name", "parameters"), [("K2-01", "write_file", ["path", "text"]), ("K2-01-noindex", "ls", ["path"])]
)
def test_k2_01_parallel_calls_without_their_own_index(
    file: str, name: str, parameters: list[str], case: Any, serve: Any, provider: Any, calls: Any
) -> None:
    """Two calls with one index or none are two calls, in order, under their own ids."""
    server = serve(Turn(body=case(f"{file}.sse")), Turn("Both done."))
    ran = converse(provider(server, CHAT), ["go"], [calls.tool(name, *parameters)])
    assert [arguments["path"] for _, arguments in calls.seen] in (["one.txt", "two.txt"], ["a", "b"])
    assert [m["tool_call_id"] for m in server.bodies[1]["messages"] if m["role"] == "tool"] == ["call_a", "call_b"]
    assert ran.result.status is Status.DONE
    assert server.refused == []


@pytest.mark.parametrize("file", ["K2-03", "K2-03-first"])
def test_k2_03_an_error_inside_a_stream(file: str, case: Any, serve: Any, provider: Any) -> None:
    """Overloaded in the stream is retried; the half text is neither kept nor shown twice."""
    server = serve(Turn(body=case(f"{file}.sse")), Turn("Looking at the log: fine."))
    ran = converse(provider(server, CLAUDE), ["go"])
    assert (ran.result.text, ran.shown) == ("Looking at the log: fine.", "Looking at the log: fine.")
    assert "overloaded" in next(e.reason for e in ran.events if isinstance(e, Retrying)).lower()


def test_k2_03_an_error_that_stays(case: Any, serve: Any, provider: Any) -> None:
    """After a bounded number of tries the run has failed and says overloaded."""
    server = serve(*[Turn(body=case("K2-03.sse"))] * 9)
    ran = converse(provider(server, CLAUDE), ["go"])
    assert (ran.result.status, len(server.asked), ran.shown) == (Status.FAILED, 5, "")
    assert "overloaded" in (ran.result.error or "").lower()


@pytest.mark.parametrize("writer", ["openai/gpt-x", "anthropic/claude-other"])
def test_k2_04_foreign_thinking_is_not_sent(writer: str, case: Any, serve: Any, provider: Any, calls: Any) -> None:
    """After a switch of models no thinking goes along that this model did not sign; calls and results stay paired."""
    history = json.loads(case("K2-04.json"))["messages"]
    transcript = Transcript()
    transcript.user(history[0]["content"])
    use = history[1]["content"][1]
    call = ToolCall("", use["name"], use["input"], use["id"])
    native = history[1]["content"] if writer.startswith("anthropic") else {"field": "reasoning_content", "text": "hm"}
    stored = transcript.assistant(Reply("", [call], model=writer, native=native))
    transcript.result(ToolResult(stored.calls[0].id, "read_file", ["ok"]))
    transcript.assistant(Reply("The log is clean.", model=writer, native=history[3]["content"]))
    transcript.end(Status.DONE)
    server = serve(Turn("Summed up.", thinking="mine"), Turn("Again."))
    ran = converse(
        provider(server, CLAUDE),
        [history[4]["content"], "again"],
        [calls.tool("read_file", "path")],
        transcript=transcript,
    )
    assert ran.result.status is Status.DONE
    assert server.refused == []
    first, second = server.bodies
    assert "thinking" not in json.dumps(first["messages"])
    assert [block["type"] for block in first["messages"][1]["content"]] == ["tool_use"]
    assert second["messages"][5]["content"][0]["thinking"] == "mine"


def test_k2_04_thinking_in_the_tool_loop_goes_back_unchanged(serve: Any, provider: Any, calls: Any) -> None:
    """Within one model's tool loop the signed block is sent back as it came."""
    server = serve(
        Turn("I'll look.", thinking="hm", calls=[("ls", {"path": "a"})]), Turn("Done.", thinking="so"), Turn("ok")
    )
    converse(provider(server, CLAUDE), ["go", "and?"], [calls.tool("ls", "path")])
    sent = server.bodies[1]["messages"][1]["content"]
    assert sent[0] == {"type": "thinking", "thinking": "hm", "signature": "sig-claude-test-0"}
    assert [block["type"] for block in sent] == ["thinking", "text", "tool_use"]
    assert server.refused == []


@pytest.mark.parametrize(
    "words", ["Invalid `signature` in `thinking` block", "thinking block is bound to a different prefix"]
)
def test_k2_04_a_refused_signature_heals(words: str, serve: Any, provider: Any, calls: Any) -> None:
    """A refusal of old thinking drops all of it, once and for good, and the run goes on."""
    refusal = Turn(
        status=400,
        body=json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": words}}).encode(),
    )
    server = serve(Turn("a", thinking="hm"), refusal, Turn("b", thinking="new"), Turn("c"))
    ran = converse(provider(server, CLAUDE), ["1", "2", "3"])
    assert [result.status for result in ran.results] == [Status.DONE] * 3
    assert "thinking" not in json.dumps(server.bodies[2]["messages"])
    assert json.dumps(server.bodies[3]["messages"]).count('"signature"') == 1


def test_k2_06_a_paused_turn_goes_on(case: Any, serve: Any, provider: Any) -> None:
    """The paused content goes back unchanged, with no new text of the user's, and the loop goes on."""
    server = serve(Turn(body=case("K2-06.sse")), Turn("High tide is at six."))
    ran = converse(provider(server, CLAUDE), ["when is high tide?"])
    assert (ran.result.status, ran.result.text) == (Status.DONE, "High tide is at six.")
    assert [message["role"] for message in server.bodies[1]["messages"]] == ["user", "assistant"]
    assert server.bodies[1]["messages"][1]["content"] == [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tide table"}}
    ]


def test_k2_06_pauses_are_bounded(case: Any, serve: Any, provider: Any) -> None:
    """A server that pauses for ever meets the turn limit."""
    server = serve(*[Turn(body=case("K2-06.sse"))] * 40)
    assert converse(provider(server, CLAUDE), ["go"]).result.status is Status.TURN_LIMIT
    assert len(server.asked) == 31


def test_k2_06_an_unknown_stop_is_said(serve: Any, provider: Any) -> None:
    """A stop word that nobody knows is no success."""
    ran = converse(provider(serve(Turn("half", stop="solar_flare")), CLAUDE), ["go"])
    assert ran.result.status is Status.FAILED
    assert "solar_flare" in (ran.result.error or "")


def thinker(rule: str) -> Any:
    """A server that wants reasoning back on each assistant message; ``filled`` refuses empty ones too."""
    answers = [
        Turn(thinking="check the date", calls=[("now", {}, "c1")]),
        Turn("It is Monday."),
        Turn("Tuesday."),
    ]

    def answer(asked: Asked) -> Turn:
        for number, message in enumerate(asked.json["messages"]):
            reasoning = message.get("reasoning_content")
            bad = reasoning is None or (rule == "filled" and not reasoning)
            if message["role"] == "assistant" and bad:
                words = f"Missing `reasoning_content` field in the assistant message at message index {number}"
                return Turn(status=400, body=json.dumps({"error": {"message": words}}).encode())
        return answers.pop(0)

    return answer


@pytest.mark.parametrize("rule", ["always", "filled"])
def test_k2_07_reasoning_is_wanted_back(rule: str, case: Any, serve: Any, provider: Any, calls: Any) -> None:
    """Reasoning goes back byte for byte; where there was none, the server's own rule is learned from its refusal."""
    turns = json.loads(case("K2-07.json"))["turns"]
    server = serve(*[thinker(rule)] * 9)
    now = calls.tool("now", result=lambda: turns[1]["tool"])
    ran = converse(provider(server, CHAT), ["what day is it?", turns[3]["user"]], [now])
    assert [result.text for result in ran.results] == ["It is Monday.", "Tuesday."]
    sent = [m.get("reasoning_content") for m in server.bodies[-1]["messages"] if m["role"] == "assistant"]
    assert sent == ["check the date", "" if rule == "always" else " "]
    bodies = [asked.body for asked in server.asked]
    assert len(set(bodies)) == len(bodies)  # no 4xx is re-sent unchanged


def test_k2_07_reasoning_that_is_refused_stays_at_home(serve: Any, provider: Any, calls: Any) -> None:
    """A server that does not know the field is never sent it again."""

    def strict(asked: Asked) -> Turn:
        if "reasoning_content" in json.dumps(asked.json["messages"]):
            return Turn(status=400, body=b'{"error":{"message":"Extra inputs are not permitted: reasoning_content"}}')
        return answers.pop(0)

    answers = [Turn("a", thinking="hm", calls=[("now", {})]), Turn("b", thinking="hm"), Turn("c")]
    server = serve(*[strict] * 9)
    ran = converse(provider(server, CHAT), ["1", "2"], [calls.tool("now")])
    assert [result.status for result in ran.results] == [Status.DONE] * 2
    assert len(server.asked) == 4


def test_k2_08_an_error_at_the_end_of_a_stream(case: Any, serve: Any, provider: Any, calls: Any) -> None:
    """Comments are ignored, the half call never runs, the gateway's words and code are shown, and 502 is retried."""
    server = serve(Turn(body=case("K2-08.sse")), Turn("Fine."))
    ran = converse(provider(server, CHAT), ["go"], [calls.tool("sh", "cmd")])
    reason = next(event.reason for event in ran.events if isinstance(event, Retrying))
    assert "upstream closed" in reason
    assert "502" in reason
    assert (ran.result.text, calls.seen) == ("Fine.", [])


def test_k2_08_an_error_without_choices(case: Any, serve: Any, provider: Any) -> None:
    """429 in a chunk without choices is a failure with its words, tried a bounded number of times."""
    server = serve(*[Turn(body=case("K2-08-empty.sse"))] * 9)
    ran = converse(provider(server, CHAT), ["go"])
    assert (ran.result.status, len(server.asked)) == (Status.FAILED, 5)
    assert "queue full" in (ran.result.error or "")


def test_k2_08_an_error_that_does_not_pass(serve: Any, provider: Any) -> None:
    """Another 4xx inside a stream is not tried again."""
    body = b'data: {"choices":[],"error":{"code":400,"message":"bad schema"}}\n\ndata: [DONE]\n\n'
    server = serve(Turn(body=body))
    ran = converse(provider(server, CHAT), ["go"])
    assert (ran.result.status, len(server.asked)) == (Status.FAILED, 1)
    assert "bad schema" in (ran.result.error or "")


def test_k2_10_ids_that_come_again(case: Any, serve: Any, provider: Any, calls: Any) -> None:
    """The same id in two turns is two calls, each with its own result; on the wire ids stay the server's own."""
    data = json.loads(case("K2-10.json"))
    turns = []
    for number in (1, 2):
        call = data[f"turn{number}"]["tool_calls"][0]
        turns.append(Turn(calls=[(call["function"]["name"], call["function"]["arguments"], call["id"])]))
    server = serve(*turns, Turn("Done."))
    ran = converse(provider(server, CHAT), ["go"], [calls.tool("stat_file", "path", result=lambda path: f"{path}1")])
    assert [arguments["path"] for _, arguments in calls.seen] == ["a", "b"]
    sent = server.bodies[2]["messages"][2:]
    assert [(m.get("tool_call_id"), m["content"]) for m in sent if m["role"] == "tool"] == [
        ("stat_file:0", data["result1"]),
        ("stat_file:0", data["result2"]),
    ]
    assert [m["tool_calls"][0]["id"] for m in sent if m["role"] == "assistant"] == ["stat_file:0"] * 2
    assert len({call.id for call in ran.transcript.calls.values()}) == 2
    assert server.refused == []


@pytest.mark.parametrize("crlf", [False, True])
@pytest.mark.parametrize("cut", ["at the places", "every byte"])
def test_k2_12_characters_cut_in_two(cut: str, crlf: bool, case: Any, serve: Any, provider: Any) -> None:
    """CJK and emoji survive any cut of the bytes."""
    data, body = json.loads(case("K2-12.json")), case("K2-12.sse")
    body = body.replace(b"\n", b"\r\n") if crlf else body
    turn = Turn(
        body=body, delay=0.001, **({"cuts": data["split_at_bytes"]} if cut == "at the places" else {"every": 1})
    )
    assert converse(provider(serve(turn), CHAT), ["go"]).shown == data["expect_text"]


def test_the_history_of_all_this_stays_a_prefix(serve: Any, provider: Any, calls: Any) -> None:
    """Retries and repeated ids do not change what was sent before."""
    turns = [Turn("x", calls=[("ls", {"path": str(n)}, "ls:0")]) for n in range(4)]
    server = serve(*turns, Turn("end"))
    ran = converse(provider(server, CHAT), ["go"], [calls.tool("ls", "path")])
    assert not any(isinstance(event, ReplyDiscarded) for event in ran.events)
    assert prefix_fault([asked.body for asked in server.asked]) is None
