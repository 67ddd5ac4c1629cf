"""Anthropic's prompt cache as its documentation has it, asked with the requests of long tool runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cumulus_jupyter.agent.messages import Reply, ToolCall, ToolResult, ToolResults, UserMessage
from cumulus_jupyter.agent.provider import Request

from ..wire.harness import Calls, converse
from ..wire.server import Turn
from ..wire.validate import unmarked

CLAUDE = "anthropic/claude-test"
LOOKBACK = 20


def blocks(body: dict[str, Any]) -> list[tuple[str, bool]]:
    """Every block in the order of the cache, and whether it is marked."""
    parts = [*body.get("tools", ()), *body.get("system", ())]
    parts += [{**block, "role": m["role"]} for m in body["messages"] for block in m["content"]]
    return [(json.dumps(unmarked(part)), "cache_control" in part) for part in parts]


def read_from_cache(bodies: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """For each request: blocks read from the cache, and blocks of the request before."""
    written: set[str] = set()
    found, before = [], 0
    for body in bodies:
        parts = blocks(body)
        prefixes = ["\n".join(text for text, _ in parts[: n + 1]) for n in range(len(parts))]
        marks = [n for n, (_, marked) in enumerate(parts) if marked]
        reach = [at for mark in marks for at in range(mark, max(mark - LOOKBACK, -1), -1) if prefixes[at] in written]
        found.append((max(reach, default=-1) + 1, before))
        written |= {prefixes[mark] for mark in marks}
        before = len(parts)
    return found


@pytest.mark.parametrize("count", [1, 11, 40])
def test_a_round_of_many_calls_is_read_from_the_cache_in_the_next(
    count: int, serve: Any, provider: Any, calls: Calls
) -> None:
    """Every request reads all of the request before it from the cache, however many blocks lie between the two."""
    rounds = [
        Turn("going", thinking="hm", calls=[("ls", {"path": f"{r}/{n}"}, f"toolu_{r}_{n}") for n in range(count)])
        for r in range(4)
    ]
    server = serve(*rounds, Turn("Done."), Turn("And again."))
    converse(provider(server, CLAUDE), ["go", "more"], [calls.tool("ls", "path")], note="a note")
    read = read_from_cache(server.bodies)
    assert len(read) == 6
    assert all(cached == before for cached, before in read)
    assert server.refused == []


def history(*behind: UserMessage, content: Any = "out") -> list[Any]:
    call = ToolCall("c1", "ls", {}, "toolu_1")
    result = ToolResult("c1", "ls", [content], details={})
    return [UserMessage("go"), Reply("", [call], model=CLAUDE), ToolResults([call], [result]), *behind]


def test_a_note_behind_results_goes_into_the_last_of_them(provider: Any, serve: Any) -> None:
    """No text of ours stands right behind results, which makes models end their turn; a person's word does."""
    model = provider(serve(), CLAUDE)
    for behind, expected in (
        ([UserMessage("", "job 3 ended")], [["out", "job 3 ended"]]),
        ([UserMessage("stop that", "job 3 ended")], ["out", "stop that", "job 3 ended"]),
        ([UserMessage("", "one"), UserMessage("", "two")], [["out", "one", "two"]]),
    ):
        body = json.loads(model.body(Request("", history(*behind), [], [], 100)))
        last = body["messages"][-1]["content"]
        told = [
            [part["text"] for part in block["content"]]
            if isinstance(block.get("content"), list)
            else block.get("content") or block["text"]
            for block in last
        ]
        assert told == expected
        assert last[-1]["cache_control"] == {"type": "ephemeral"}


def test_a_note_behind_references_is_a_text(provider: Any, serve: Any) -> None:
    """References stand alone in their result, so a note behind them does not go there."""
    messages = history(UserMessage("", "job 3 ended"))
    messages[2].results[0].details["fetched"] = ["ls"]
    body = json.loads(provider(serve(), CLAUDE).body(Request("", messages, [], [Calls().tool("ls")], 100)))
    assert [block["type"] for block in body["messages"][-1]["content"]] == ["tool_result", "text"]
