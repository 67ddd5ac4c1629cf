"""Two hundred deferred tools: what they add to a round, and to a request."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cumulus_jupyter import tool

from . import ours
from .serving import WIRES, served
from .table import Row, median

__all__ = ["rows"]

_ROUNDS = 50
_TOOLS = 200


def _many() -> list[Any]:
    async def look_up(query: str, limit: int = 10, region: str = "eu", exact: bool = False) -> str:
        """Look records up in one of the many collections of a company.

        Parameters
        ----------
        query
            Words that a record must hold.
        limit
            Records to give at most.
        region
            Where the collection is kept.
        exact
            Take the words as they are, without their other forms.
        """
        return query

    return [tool(look_up, name=f"look_up_{number}", deferred=True) for number in range(_TOOLS)]


def rows(quick: bool) -> Iterator[Row]:
    tools = [ours.noop, *(each for each in _many())]
    for wire, name in WIRES.items():
        yield _time(wire, name, tools, 3 if quick else 9)
        yield from _bytes(wire, name, tools)


def _time(wire: str, name: str, tools: Sequence[Any], repetitions: int) -> Row:
    without: list[float] = []
    found: list[float] = []
    with served("tests.wire.server", "rounds", wire, _ROUNDS) as url, tempfile.TemporaryDirectory() as folder:
        for repetition in range(repetitions + 1):
            few = asyncio.run(ours.rounds(ours.agent(wire, url, Path(folder))))
            many = asyncio.run(ours.rounds(ours.agent(wire, url, Path(folder), tools)))
            if repetition:
                without.append(sum(few) / _ROUNDS)
                found.append(sum(many) / _ROUNDS)
    figure = f"a round with 200 deferred tools, {name}"
    return Row(figure, median(found) * 1e3, "ms", median(without) * 1e3, must=1.15, better=1.05)


def _bytes(wire: str, name: str, tools: Sequence[Any]) -> Iterator[Row]:
    few, many = (ours.body(ours.agent(wire, "http://127.0.0.1:9", None, each)) for each in (tools[:1], tools))
    figure = f"schema bytes in the context, {name}"
    yield Row(figure, _size(_eager(many)), "B", _size(_eager(few)), must=1.0, better=1.0)
    yield Row(f"schema bytes sent, {name}", _size(many["tools"]), "B", _size(few["tools"]))
    yield Row(f"request bytes sent, {name}", _size(many), "B", _size(few))


def _eager(body: dict[str, Any]) -> list[Any]:
    """Definitions that the model reads; a deferred one enters the context only when it is fetched."""
    return [each for each in body["tools"] if not each.get("defer_loading")]


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
