"""Every row of the list of failures seen in open models and servers, as its wire shape, through provider and engine.

The id is the row's number. A row's first streams are what the server sends; the last reply is always "Done.".
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from cumulus_jupyter.agent.messages import Status

from ..wire.harness import MODELS, Calls, converse
from ..wire.server import Turn


def sse(*events: Any, done: bool = True) -> Turn:
    lines = [f"data: {e if isinstance(e, str) else json.dumps(e)}\n\n" for e in events]
    return Turn(body="".join([*lines, "data: [DONE]\n\n" if done else ""]).encode())


def d(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def c(name: Any = None, arguments: Any = None, *, at: Any = 0, **fields: Any) -> dict[str, Any]:
    """A chunk with one entry of ``tool_calls``; ``at`` is its index, "" for none."""
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    entry = {**({} if at == "" else {"index": at}), **fields, "function": function}
    return d(tool_calls=[entry])


def error(status: int, value: Any) -> Turn:
    return Turn(status=status, body=json.dumps(value).encode())


CALLS, STOP = d("tool_calls"), d("stop")
A, B = ("ls", {"a": "1"}), ("ls", {"a": "2"})
ONE, TWO = '{"a":"1"}', '{"a":"2"}'
WHOLE = sse(c("ls", ONE, id="x"), CALLS)


@dataclass
class Row:
    """What the server sends before its last reply, the calls that must run, and the requests that must come."""

    streams: list[Turn]
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: int = 0
    text: str = "Done."


def again(*streams: Turn) -> Row:
    """A reply that must be asked for once more, and a call in the next attempt."""
    return Row([*streams, WHOLE], [A])


KIMI = "<|tool_call_begin|>functions.ls:0<|tool_call_argument_begin|>" + ONE + "<|tool_call_end|>"
DSML = '<｜DSML｜invoke name="ls"><｜DSML｜parameter name="a" string="true">1</｜DSML｜parameter></｜DSML｜invoke>'
QWEN = "<tool_call><function=ls><parameter=a>1</parameter></function></tool_call>"
CUT = '{"a": "/tmp/log.txt", "content": "'
ROWS: dict[str, Row] = {
    "1 no index": Row([sse(c("ls", '{"a":', at="", id="x"), c(None, '"1"}', at=""), CALLS)], [A]),
    "2 all at index 0": Row([sse(c("ls", ONE, id="x"), c("ls", TWO, id="y"), CALLS)], [A, B]),
    "3 merged arguments": Row([sse(c("ls", ONE + TWO, id="x"), CALLS)], [A, B]),
    "4 index null": Row([sse(c("ls", ONE, at=None, id="x"), CALLS)], [A]),
    "5 two entries, one index": Row(
        [
            sse(
                d(
                    tool_calls=[
                        {"index": 0, "id": "x", "function": {"name": "ls"}},
                        {"index": 0, "function": {"arguments": ONE}},
                    ]
                ),
                CALLS,
            )
        ],
        [A],
    ),
    "6 index grows": Row([sse(c("ls", "", id="x"), c(None, '{"a"', at=1), c(None, ':"1"}', at=2), CALLS)], [A]),
    "7 new id each time": Row(
        [sse(c("ls", "", id="i"), *[c("", char, id=f"i{n}") for n, char in enumerate(ONE)], CALLS)], [A]
    ),
    "8 empty id": Row([sse(c("ls", '{"a":', id="x"), c(None, '"1"}', id=""), CALLS)], [A]),
    "9 empty name": Row([sse(c("ls", "", id="x"), c("", ONE), CALLS)], [A]),
    "10 id repeated": Row([sse(c("ls", '{"a":', id="x"), c("ls", '"1"}', id="x"), CALLS)], [A]),
    "11 name in pieces": Row(
        [sse(c("edit_ex", "", id="x"), c("isting_file", ONE), CALLS)], [("edit_existing_file", {"a": "1"})]
    ),
    "11 name twice": Row([sse(c("ls", "", id="x"), c("ls", ONE, id="x"), CALLS)], [A]),
    "12-14 ids come again": Row([sse(c("ls", ONE, id="ls:0"), CALLS), sse(c("ls", TWO, id="ls:0"), CALLS)], [A, B]),
    "15 native id": Row([sse(c("ls", ONE, id="functions.ls:3"), CALLS)], [A]),
    "16 stop with calls": Row([sse(c("ls", ONE, id="x"), STOP)], [A]),
    "17 stop in the last delta": Row(
        [sse(c("ls", '{"a":', id="x"), d("stop", tool_calls=[{"index": 0, "function": {"arguments": '"1"}'}}]))], [A]
    ),
    "18 two finishes": Row([sse(c("ls", ONE, id="x"), CALLS, STOP)], [A]),
    "19 tool_calls with none": again(sse(d("tool_calls", tool_calls=[]))),
    "20 hidden cut": again(
        sse(c("ls", CUT, id="x"), CALLS, {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 16_384}})
    ),
    "21 cut arguments": again(sse(c("ls", CUT, id="x"), CALLS)),
    "22 cut and no defaults": again(sse(c("ls", CUT, id="x"), d("length"))),
    "23 finish missing": again(sse(c("ls", ONE, id="x"), done=False)),
    "24 arguments an object": Row([sse(c("ls", {"a": "1"}, id="0"), CALLS)], [A]),
    "25 arguments empty": Row([sse(c("now", "", id="x"), CALLS)], [("now", {})]),
    "26 only empty deltas": again(sse(*[d(tool_calls=[])] * 90, CALLS)),
    "27 late and whole": Row([sse(d(role="assistant"), c("ls", ONE, id="x"), CALLS)], [A]),
    "28 malformed": Row(
        [
            sse(
                c("ls", '{"a": 1,, }', id="x"),
                STOP,
                {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 9}},
            ),
            WHOLE,
        ],
        [A],
    ),
    "29 Kimi in content": Row([sse(d(content=KIMI), STOP)], [A]),
    "30 Kimi in reasoning": Row([sse(d(reasoning_content=f"hm <|tool_calls_section_begin|>{KIMI}"), STOP)], [A]),
    "31 nothing at all": again(sse(d(content=""), d("length", tool_calls=[]))),
    "32 DSML": Row([sse(d(content=DSML), STOP)], [A]),
    "33 split markers": Row(
        [sse(*[d(content=char) for char in DSML.replace("｜DSML", "‖DSML").replace("DSML｜", "DSML‖")], STOP)], [A]
    ),
    "34 name with a suffix": Row([sse(c("ls<|channel|>commentary", ONE, id="x"), CALLS)], [A]),
    "35 harmony": Row([sse(d(content=f"<|channel|>commentary to=functions.ls<|message|>{ONE}<|call|>"), STOP)], [A]),
    "36 call in the thinking": Row([sse(d(reasoning=f"so {QWEN}"), STOP)], [A]),
    "37 cut call leaks": again(sse(d(content='<tool_call>{"name": "ls", "argu'), d("length"))),
    "39 reasoning renamed": Row([sse(d(reasoning="hm"), c("ls", ONE, id="x"), CALLS)], [A]),
    "41 stopped in thinking": again(sse(d(content=""), d(reasoning="hm"), STOP)),
    "42 error object": again(
        sse(d(content="ha"), {"error": {"message": "upstream timed out", "code": 504}, "choices": []})
    ),
    "42 error text": again(sse({"error": "overloaded", "choices": []})),
    "43 finish error": again(sse(d(content="ha"), d("error"))),
    "44 comment as data": Row([sse(": OPENROUTER PROCESSING", c("ls", ONE, id="x"), ": keepalive", CALLS)], [A]),
    "45 comment and blank": Row([Turn(body=b": ping\n\n: ping\n\n" + bytes(WHOLE.body or b""))], [A]),
    "46 no done": Row([sse(c("ls", ONE, id="x"), CALLS, done=False)], [A]),
    "47 usage alone": Row(
        [sse(c("ls", ONE, id="x"), CALLS, {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})], [A]
    ),
    "47 usage null": Row([sse({**c("ls", ONE, id="x"), "usage": None}, {**CALLS, "usage": None})], [A]),
    "48 role empty": Row([sse(d(role=""), c("ls", ONE, id="x"), CALLS)], [A]),
    "49 content null refused": Row(
        [WHOLE, error(400, {"error": "Invalid 'content': 'content' must be a string"})], [A], 3
    ),
    "50 envelope": Row(
        [
            sse(
                {
                    "success": True,
                    "data": CALLS
                    | {
                        "choices": [
                            {
                                "index": 0,
                                "message": {"tool_calls": [{"id": "x", "function": {"name": "ls", "arguments": ONE}}]},
                                "finish_reason": "tool_calls",
                            }
                        ]
                    },
                }
            )
        ],
        [A],
    ),
    "52 invented name": Row([sse(c("google:tool:shell:index:0", ONE, id="x"), CALLS)]),
    "53 suffix lost": Row([sse(c("edit_existing", ONE, id="x"), CALLS)]),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_comes_out_right(row: str, serve: Any, provider: Any) -> None:
    """The right calls run with the right arguments, each once; the run ends well and no request is refused."""
    case, calls = ROWS[row], Calls()
    tools = [calls.tool("ls", "a"), calls.tool("now"), calls.tool("edit_existing_file", "a")]
    server = serve(*case.streams, Turn("Done."))
    ran = converse(provider(server, MODELS["chat"]), ["go"], tools)
    assert (ran.result.status, ran.result.text) == (Status.DONE, "Done."), ran.result
    assert calls.seen == case.seen
    assert len(server.asked) == (case.asked or len(case.streams) + 1)
    assert server.refused == []
    assert ran.shown.endswith("Done.")


@pytest.mark.parametrize(
    ("row", "native"),
    [("15 native id", "functions.ls:3"), ("12-14 ids come again", "ls:0"), ("24 arguments an object", "0")],
)
def test_12_to_15_ids_go_back_as_they_came(row: str, native: str, serve: Any, provider: Any, calls: Calls) -> None:
    """On the wire calls and results bear the server's own ids, next to one another; arguments are text."""
    server = serve(*ROWS[row].streams, Turn("Done."))
    converse(provider(server, MODELS["chat"]), ["go"], [calls.tool("ls", "a")])
    messages = server.bodies[-1]["messages"]
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            assert [call["id"] for call in message["tool_calls"]] == [native] == [messages[at + 1]["tool_call_id"]]
            assert json.loads(message["tool_calls"][0]["function"]["arguments"])
    assert server.bodies[-1]["messages"][2]["tool_calls"]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_38_and_39_reasoning_goes_back_under_the_name_received(
    name: str, serve: Any, provider: Any, calls: Calls
) -> None:
    """Beside the call, byte for byte, under no other name."""
    server = serve(sse(d(**{name: "hm, 考"}), c("ls", ONE, id="x"), CALLS), Turn("Done."))
    converse(provider(server, MODELS["chat"]), ["go"], [calls.tool("ls", "a")])
    sent = server.bodies[1]["messages"][2]
    assert {key: sent[key] for key in sent if key.startswith("reasoning")} == {name: "hm, 考"}


def test_40_the_answer_in_the_reasoning_is_the_answer(serve: Any, provider: Any) -> None:
    """With no content and no calls, reasoning that ended with stop is shown as the text."""
    server = serve(sse(d(content=None), d(reasoning="It is 4."), STOP))
    ran = converse(provider(server, MODELS["chat"]), ["go"])
    assert (ran.result.status, ran.result.text, len(server.asked)) == (Status.DONE, "It is 4.", 1)


@pytest.mark.parametrize(
    ("value", "status", "words"),
    [
        ({"error": "Invalid username or password."}, 401, "key"),
        (
            {"error": {"message": "The requested model 'm' is not supported by any provider you have enabled."}},
            400,
            "models",
        ),
        ({"success": False, "message": "no quota", "data": None}, 400, "no quota"),
    ],
)
def test_50_and_51_refusals_in_words_of_their_own(
    value: Any, status: int, words: str, serve: Any, provider: Any
) -> None:
    """The person reads what is wrong and what to do; nothing is sent again."""
    server = serve(*[error(status, value)] * 3)
    ran = converse(provider(server, MODELS["chat"]), ["go"])
    assert ran.result.status is Status.FAILED
    assert words in ran.result.error
    assert len(server.asked) == 1


@pytest.mark.parametrize("row", ["52 invented name", "53 suffix lost"])
def test_52_and_53_an_unknown_name_is_answered_with_the_nearest(
    row: str, serve: Any, provider: Any, calls: Calls
) -> None:
    """The result says that there is no such tool and names those that may be meant."""
    server = serve(*ROWS[row].streams, Turn("Done."))
    converse(provider(server, MODELS["chat"]), ["go"], [calls.tool("edit_existing_file", "a")])
    told = server.bodies[1]["messages"][3]["content"]
    assert "there is no tool" in told
    assert ("edit_existing_file" in told) == row.startswith("53")


def test_54_and_55_only_declared_tools_and_no_forced_choice(serve: Any, provider: Any, calls: Calls) -> None:
    """What the model may call is declared, and no request forces a call."""
    server = serve(WHOLE, Turn("Done."))
    converse(provider(server, MODELS["chat"]), ["go"], [calls.tool("ls", "a")])
    for body in server.bodies:
        assert [tool["function"]["name"] for tool in body["tools"]] == ["ls"]
        assert body.get("tool_choice", "auto") == "auto"


def test_only_the_first_of_several_choices_counts(serve: Any, provider: Any) -> None:
    """Chunks of another index are another answer."""
    other = {"choices": [{"index": 1, "delta": {"content": "WRONG"}, "finish_reason": None}]}
    ran = converse(provider(serve(sse(d(content="ri"), other, d(content="ght"), STOP)), MODELS["chat"]), ["go"])
    assert ran.shown == "right"
