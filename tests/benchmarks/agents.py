"""Eight sub-agents of twenty rounds each: how long their parent's run takes, beside the slowest of them."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.wire.render import Asked, Turn
from tests.wire.server import ModelServer

from . import ours
from .serving import served
from .table import Row, median

__all__ = ["rows"]

_ROUNDS = 20
_SECONDS = 0.05
"""Before each reply of the server: a child's twenty rounds take a second by themselves."""


def rows(quick: bool) -> Iterator[Row]:
    with served(__name__) as url, tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(_runs(url, Path(folder), 2 if quick else 5))
    whole, slowest, alone = (median(times) * 1e3 for times in zip(*found, strict=True))
    yield Row("8 sub-agents of 20 rounds, beside the slowest of them", whole, "ms", slowest, 1.3, 1.1)
    yield Row("8 sub-agents of 20 rounds, beside a single one", whole, "ms", alone)


async def _runs(url: str, folder: Path, repetitions: int) -> list[tuple[float, float, float]]:
    found = []
    for _ in range(repetitions + 1):
        alone, _ = await _run(url, folder, "go-1")
        whole, slowest = await _run(url, folder, "go-8")
        found.append((whole, slowest, alone))
    return found[1:]


async def _run(url: str, folder: Path, prompt: str) -> tuple[float, float]:
    made = ours.agent("chat", url, folder)
    started = time.perf_counter()
    await ours.run(made, prompt)
    whole = time.perf_counter() - started
    await made._session.provider.close()
    agents = made.transcript.agents.values()
    assert all(agent["rounds"] == _ROUNDS for agent in agents), list(agents)
    return whole, max(agent["seconds"] for agent in agents)


def _answer(asked: Asked) -> Turn:
    """A parent fetches, spawns and waits; a child calls ``noop`` until its rounds are over."""
    messages = asked.json["messages"]
    replies = sum(message["role"] == "assistant" for message in messages)
    first = next(message["content"] for message in messages if message["role"] == "user")
    if not str(first).startswith("go-"):
        last = replies == _ROUNDS - 1
        call = ("noop", {"n": replies}, f"c-{replies}")
        return Turn("Done." if last else "", calls=[] if last else [call], delay=_SECONDS)
    if replies == 0:
        return Turn(calls=[("tool_search", {"query": "select:spawn_agents,check_agents"}, "p-0")])
    if replies == 1:
        tasks = [{"task": f"task {number}"} for number in range(int(str(first)[3:4]))]
        return Turn(calls=[("spawn_agents", {"tasks": tasks}, "p-1")])
    working = '"running"' in str(messages[-1]["content"]) or replies == 2
    calls = [("check_agents", {"wait": True, "timeout": 60}, f"p-{replies}")] if working else []
    return Turn("" if working else "All are done.", calls=calls)


if __name__ == "__main__":
    with ModelServer([_answer] * 100_000, check=False) as server:
        print(server.url, flush=True)
        sys.stdin.read()
