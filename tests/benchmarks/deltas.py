"""Text deltas a second through provider, accumulator and engine."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import httpx2

from cumulus_jupyter.agent.events import TextDelta

from . import by_hand, ours
from .serving import WIRES, served
from .table import Row, median

__all__ = ["rows"]

_DELTAS = 20_000


def rows(quick: bool) -> Iterator[Row]:
    for wire, name in WIRES.items():
        found: list[float] = []
        anchor: list[float] = []
        with served("tests.wire.server", "deltas", wire, _DELTAS) as url, tempfile.TemporaryDirectory() as folder:
            for repetition in range((3 if quick else 9) + 1):
                theirs = asyncio.run(_by_hand(wire, url))
                own = asyncio.run(_ours(wire, url, Path(folder)))
                if repetition:
                    anchor.append(theirs)
                    found.append(own)
        yield Row(f"text deltas, {name}", median(found), "/s", median(anchor), must=0.5, better=0.75, larger=True)


async def _by_hand(wire: str, url: str) -> float:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "go"}]}
    async with httpx2.AsyncClient(timeout=60) as client:
        started = time.perf_counter()
        heard = await by_hand.ask(client, wire, url, body)
        seconds = time.perf_counter() - started
    assert len(heard.text) == _DELTAS
    return _DELTAS / seconds


async def _ours(wire: str, url: str, folder: Path) -> float:
    made = ours.agent(wire, url, folder)
    await made._session.provider._transport._ready()  # type: ignore[attr-defined]
    count, started = 0, time.perf_counter()
    async with aclosing(made.stream("go")) as events:
        async for event in events:
            if type(event) is TextDelta:
                count += 1
    seconds = time.perf_counter() - started
    await made._session.provider.close()
    assert count == _DELTAS
    return count / seconds
