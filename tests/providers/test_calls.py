"""Tool calls as servers really stream them; numbers in names are rows of the list of failures it was built against."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cumulus_jupyter.agent.messages import StopReason, ToolCall
from cumulus_jupyter.agent.tool import Tool
from cumulus_jupyter.providers.accumulate import ChatReply

from ..wire.harness import Calls

KNOWN = {name: Calls().tool(name, "a") for name in ("ls", "search", "edit", "edit_existing_file", "get_weather")}


def fold(*deltas: Any, finish: str = "tool_calls", known: dict[str, Tool] = KNOWN) -> list[ToolCall]:
    """The calls of a stream whose deltas hold these ``tool_calls``."""
    reply = ChatReply(known)
    for delta in deltas:
        reply.take({"choices": [{"index": 0, "delta": {"tool_calls": delta}, "finish_reason": None}]})
    reply.take({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    assert reply.doubt() == ""
    return reply.end("m", lambda: 1)[1].calls


def call(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    function = {
        **({"name": name} if name is not None else {}),
        **({"arguments": arguments} if arguments is not None else {}),
    }
    return {**fields, "function": function}


def told(calls: list[ToolCall]) -> list[tuple[str, Any, str]]:
    return [(c.name, c.arguments, c.raw_id) for c in calls]


def test_1_index_missing() -> None:
    """Without an index a name starts a call and bare arguments continue the last."""
    deltas = [[call("ls", '{"a":', id="x")], [call(arguments="1}")], [call("search", "{}", id="y")]]
    assert told(fold(*deltas)) == [("ls", {"a": 1}, "x"), ("search", {}, "y")]


def test_2_all_calls_at_index_0() -> None:
    """Another id with a name at the same index is another call."""
    deltas = [[call("ls", '{"a":1}', index=0, id="x")], [call("ls", '{"a":2}', index=0, id="y")]]
    assert told(fold(*deltas)) == [("ls", {"a": 1}, "x"), ("ls", {"a": 2}, "y")]


@pytest.mark.parametrize("pieces", [1, 7, 60])
def test_3_two_calls_in_one_arguments_text(pieces: int) -> None:
    """Objects behind one another are calls of their own."""
    text = '{"a":"Emma Bull"}{"a":"Virginia Woolf"}'
    deltas = [[call("search", "", index=0, id="x")]]
    deltas += [[call(arguments=text[i : i + pieces], index=0)] for i in range(0, len(text), pieces)]
    assert told(fold(*deltas)) == [("search", {"a": "Emma Bull"}, "x"), ("search", {"a": "Virginia Woolf"}, "")]


def test_4_index_null() -> None:
    """A null index counts as none."""
    assert told(fold([call("ls", '{"a":', index=None, id="x")], [call(arguments="1}", index=None)])) == [
        ("ls", {"a": 1}, "x")
    ]


def test_5_two_entries_of_one_index_in_one_chunk() -> None:
    """Name and arguments in two entries of one index are one call."""
    assert told(fold([call("ls", index=0, id="x"), call(arguments='{"a":1}', index=0)])) == [("ls", {"a": 1}, "x")]


def test_6_index_grows_without_id_or_name() -> None:
    """Bare arguments at a new index belong to the open call."""
    deltas = [[call("ls", "", index=0, id="x")], [call(arguments='{"a"', index=1)], [call(arguments=":1}", index=2)]]
    assert told(fold(*deltas)) == [("ls", {"a": 1}, "x")]


def test_7_new_id_with_each_fragment() -> None:
    """A delta without a name never starts a call, whatever its id."""
    deltas = [[call("ls", "", index=0, id="i0")]]
    deltas += [[call("", letter, index=0, id=f"i{n}")] for n, letter in enumerate('{"a":1}', 1)]
    assert told(fold(*deltas)) == [("ls", {"a": 1}, "i0")]


def test_8_and_9_empty_id_and_name_overwrite_nothing() -> None:
    """Empty ids and names on continuations are absent ones."""
    assert told(fold([call("ls", '{"a"', index=0, id="x")], [call("", ":1}", index=0, id="")])) == [
        ("ls", {"a": 1}, "x")
    ]


def test_10_id_repeated_in_each_chunk() -> None:
    """The same id at the same index continues, also where the name is repeated."""
    deltas = [[call("ls", piece, index=0, id="x")] for piece in ('{"a":{', '"b":1}', "}")]
    assert told(fold(*deltas)) == [("ls", {"a": {"b": 1}}, "x")]


@pytest.mark.parametrize("second", ["isting_file", "edit_existing_file"])
def test_11_name_in_pieces_or_twice(second: str) -> None:
    """A name in pieces is joined, a repeated one is not doubled."""
    first = "edit_ex" if second == "isting_file" else second
    deltas = [[call(first, "", index=0, id="x")], [call(second, "", index=0)], [call(arguments="{}", index=0)]]
    assert told(fold(*deltas)) == [("edit_existing_file", {}, "x")]


def test_known_names_at_one_index_are_two_calls() -> None:
    """Two tools without arguments at one index and without ids are not one long name."""
    assert told(fold([call("ls", "", index=0)], [call("search", "", index=0)])) == [("ls", {}, ""), ("search", {}, "")]


def test_a_repeated_whole_call_counts_once() -> None:
    """A server that sends the finished call again asks for nothing more."""
    assert told(fold([call("ls", '{"a":1}', index=0, id="x")], [call("ls", '{"a":1}', index=0, id="x")])) == [
        ("ls", {"a": 1}, "x")
    ]


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "eos"])
def test_16_and_17_calls_decide_not_the_word(finish: str) -> None:
    """A reply with calls is one that asks for tools, whatever its finish reason."""
    reply = ChatReply(KNOWN)
    reply.take({"choices": [{"delta": {"tool_calls": [call("ls", "{}", index=0, id="x")]}, "finish_reason": finish}]})
    assert reply.doubt() == ""
    assert reply.end("m", lambda: 1)[1].stop is StopReason.TOOL_CALLS


def test_18_the_first_finish_reason_counts() -> None:
    """A second finish reason changes nothing."""
    reply = ChatReply(KNOWN)
    reply.take({"choices": [{"delta": {"content": "half"}, "finish_reason": "length"}]})
    reply.take({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    assert reply.end("m", lambda: 1)[1].stop is StopReason.LENGTH


def test_21_and_22_cut_arguments_are_never_default_ones() -> None:
    """Arguments that stop short are None with their text, not an empty object."""
    text = '{"path": "/tmp/log.txt", "content": "'
    (found,) = fold([call("ls", text, index=0, id="x")])
    assert (found.arguments, found.raw) == (None, text)


def test_24_arguments_as_an_object() -> None:
    """Arguments may come decoded."""
    assert told(fold([call("ls", {"a": "Rome"}, index=0, id="0")])) == [("ls", {"a": "Rome"}, "0")]


@pytest.mark.parametrize("text", ["", "  ", "{}", "null"])
def test_25_no_arguments(text: str) -> None:
    """An empty text means no arguments."""
    assert told(fold([call("ls", text, index=0, id="x")])) == [("ls", {}, "x")]


def test_28_malformed_arguments_stay_as_they_came() -> None:
    """What is no JSON object is kept for the error result."""
    for text in ('{"a": tru }', "[1]", "ls -la", '{"a": NaN}'):
        (found,) = fold([call("ls", text, index=0, id="x")])
        assert (found.arguments, found.raw) == (None, text)


def test_arguments_encoded_twice_and_raw_line_ends() -> None:
    """A text that holds the object, and line ends within a text, are read."""
    assert told(fold([call("ls", json.dumps('{"a":1}'), index=0)])) == [("ls", {"a": 1}, "")]
    assert told(fold([call("ls", '{"a":"x\ny"}', index=0)])) == [("ls", {"a": "x\ny"}, "")]


def test_34_markup_in_a_name() -> None:
    """gpt-oss's channel behind the name is cut off, and its namespace before a known one."""
    assert told(fold([call("search<|channel|>commentary", "{}", index=0)], [call("functions.ls", "{}", index=1)])) == [
        ("search", {}, ""),
        ("ls", {}, ""),
    ]


def test_48_roles_are_ignored() -> None:
    """An empty or missing role changes nothing, nor does a second choice."""
    reply = ChatReply({})
    for role in ({"role": ""}, {}, {"role": "assistant"}):
        reply.take(
            {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {**role, "content": "x"}}]}
        )
    reply.take({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    assert reply.end("m", lambda: 1)[1].text == "xxx"


def test_a_surrogate_pair_cut_in_two_is_one_character() -> None:
    """Halves of an emoji in two deltas are joined before they are shown."""
    reply = ChatReply({})
    shown = [
        reply.take({"choices": [{"delta": {"content": piece}}]}) for piece in ("a\ud83e", "\uddeab", "\ud83e", "c")
    ]
    assert "".join(delta.text for deltas in shown for delta in deltas) == "a🧪b�c"
