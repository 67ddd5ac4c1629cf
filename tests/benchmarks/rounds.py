"""Milliseconds a tool round, and whether a long conversation makes it longer."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import by_hand, ours
from .serving import WIRES, served
from .table import Row, median

__all__ = ["rows"]

_ROUNDS = 50
_LATE = 200


def rows(quick: bool) -> Iterator[Row]:
    for wire, name in WIRES.items():
        yield _against_hand(wire, name, 3 if quick else 9)
        yield _growth(wire, name, 2 if quick else 5)


def _against_hand(wire: str, name: str, repetitions: int) -> Row:
    found: list[float] = []
    anchor: list[float] = []
    with served("tests.wire.server", "rounds", wire, _ROUNDS) as url, tempfile.TemporaryDirectory() as folder:
        body = ours.body(ours.agent(wire, url, None))
        for repetition in range(repetitions + 1):
            theirs = asyncio.run(by_hand.rounds(wire, url, body, ours.noop.function))
            own = asyncio.run(ours.rounds(ours.agent(wire, url, Path(folder))))
            if repetition:  # the first one imports and warms up
                anchor.append(sum(theirs) / _ROUNDS)
                found.append(sum(own) / _ROUNDS)
    return Row(f"a tool round, {name}", median(found) * 1e3, "ms", median(anchor) * 1e3, must=1.9, better=1.3)


def _growth(wire: str, name: str, repetitions: int) -> Row:
    early: list[float] = []
    late: list[float] = []
    with served("tests.wire.server", "rounds", wire, _LATE + 10) as url, tempfile.TemporaryDirectory() as folder:
        for repetition in range(repetitions + 1):
            times = asyncio.run(ours.rounds(ours.agent(wire, url, Path(folder))))
            if repetition:
                early += times[5:15]
                late += times[_LATE - 5 : _LATE + 5]
    return Row(f"round 200 to round 10, {name}", median(late) * 1e3, "ms", median(early) * 1e3, must=1.3, better=1.1)
