"""Ours beside the SDKs' and the peers' loops: rounds, growth, deltas, first piece of text, bytes of 50 rounds."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tests.wire.server import Asked, FastServer, benchmark_bodies

from .peers import CONTENDERS, Contender, Tools, cumulus, missing
from .serving import WIRES, served
from .table import Row, median

__all__ = ["rows"]

_ROUNDS, _LATE, _DELTAS, _TOOLS = 50, 200, 10_000, 200

Measure = Callable[[Contender, str, str], Awaitable[float]]


def rows(quick: bool) -> Iterator[Row]:
    """A row for each figure, wire and contender: ours beside theirs, which must not be ahead."""
    gone = missing()
    if gone:
        print(f"not installed, left out: {', '.join(gone)} (pip install .[evidence])", file=sys.stderr)
    others = {name: entry for name, entry in CONTENDERS.items() if name not in gone}
    few = 2 if quick else 5
    for wire, spoken in WIRES.items():
        with served("tests.wire.server", "rounds", wire, _ROUNDS) as url:
            yield from _compare("a tool round", spoken, "ms", _round, others, wire, url, few)
            yield from _compare("result to next text", spoken, "ms", _first, others, wire, url, few)
        with served("tests.wire.server", "rounds", wire, _LATE + 10) as url:
            yield from _compare("round 200", spoken, "ms", _late_round, others, wire, url, few - 1)
        with served("tests.wire.server", "deltas", wire, _DELTAS) as url:
            yield from _compare("text deltas", spoken, "/s", _deltas, others, wire, url, few, larger=True)
        yield from _compare("50 rounds with 200 tools, sent", spoken, "kB", _sent, others, wire, "", 1)
        yield from _compare("50 rounds with 200 tools, read by the model", spoken, "kB", _read, others, wire, "", 1)


def _compare(
    figure: str,
    spoken: str,
    unit: str,
    measure: Measure,
    others: dict[str, tuple[Contender, tuple[str, ...]]],
    wire: str,
    url: str,
    times: int,
    *,
    larger: bool = False,
) -> Iterator[Row]:
    """In turns, so that a busy moment of the machine meets all; the first round of turns warms up."""
    entered = {"": cumulus, **{name: made for name, (made, wires) in others.items() if wire in wires}}
    found: dict[str, list[float]] = {name: [] for name in entered}

    async def in_turns() -> None:
        for turn in range(times + (times > 1)):
            for name, contender in entered.items():
                value = await measure(contender, wire, url)
                if turn or times == 1:
                    found[name].append(value)

    asyncio.run(in_turns())
    for name in list(entered)[1:]:
        label = f"{figure}, {spoken} (anchor: {name})"
        yield Row(label, median(found[""]), unit, median(found[name]), must=1.0, larger=larger)


def _stamped(stamps: list[float], count: int = 1) -> Tools:
    async def noop(n: int) -> str:
        """Do nothing."""
        stamps.append(time.perf_counter())
        return f"ok {n}"

    async def look_up(query: str, limit: int = 10, region: str = "eu", exact: bool = False) -> str:
        """Look records up in one of the many collections of a company, at most ``limit`` of them."""
        return query

    return [noop, *(_renamed(look_up, f"look_up_{number}") for number in range(count - 1))]


def _renamed(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    async def copy(query: str, limit: int = 10, region: str = "eu", exact: bool = False) -> str:
        return str(await function(query, limit, region, exact))

    copy.__name__, copy.__doc__ = name, function.__doc__
    return copy


async def _stamps(contender: Contender, wire: str, url: str) -> list[float]:
    stamps: list[float] = []
    async for _ in contender(wire, url, _stamped(stamps)):
        pass
    return [after - before for before, after in itertools.pairwise(stamps)]


async def _round(contender: Contender, wire: str, url: str) -> float:
    times = await _stamps(contender, wire, url)
    assert len(times) == _ROUNDS - 1
    return sum(times) / len(times) * 1e3


async def _late_round(contender: Contender, wire: str, url: str) -> float:
    return median((await _stamps(contender, wire, url))[_LATE - 10 : _LATE + 5]) * 1e3


async def _deltas(contender: Contender, wire: str, url: str) -> float:
    started, count = time.perf_counter(), 0
    async for text in contender(wire, url, _stamped([])):
        count += text.count("hello")
    assert count == _DELTAS, count
    return _DELTAS / (time.perf_counter() - started)


async def _first(contender: Contender, wire: str, url: str) -> float:
    """From a tool's result to the first piece of the next reply, when connections are up."""
    stamps: list[float] = []
    found: list[float] = []
    async for text in contender(wire, url, _stamped(stamps)):
        if text.strip() and len(stamps) > len(found):
            found.append(time.perf_counter() - stamps[-1])
    return median(found[1:]) * 1e3


class _Weighing(FastServer):
    """Adds up what it is sent, and what of it a model would read: not the definitions that are marked as deferred."""

    sent = read = 0

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        deferred = [tool for tool in asked.json.get("tools", ()) if tool.get("defer_loading")]
        self.sent += len(asked.body)
        self.read += len(asked.body) - len(json.dumps(deferred, ensure_ascii=False, separators=(",", ":")).encode())
        await super()._answer(asked, writer)


async def _weighed(contender: Contender, wire: str) -> _Weighing:
    with _Weighing(benchmark_bodies("rounds", wire, _ROUNDS)) as server:
        async for _ in contender(wire, server.url, _stamped([], _TOOLS + 1)):
            pass
        return server


async def _sent(contender: Contender, wire: str, _url: str) -> float:
    return (await _weighed(contender, wire)).sent / 1e3


async def _read(contender: Contender, wire: str, _url: str) -> float:
    return (await _weighed(contender, wire)).read / 1e3
