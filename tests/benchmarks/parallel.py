"""Sixteen calls of 200 ms in one reply: how long the whole run takes."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cumulus_jupyter import tool
from tests.wire.render import Turn, chat_body
from tests.wire.server import FastServer

from . import ours
from .serving import served
from .table import Row, median

__all__ = ["rows"]

_CALLS = 16
_SECONDS = 0.2


@tool(deferred=False)
async def rest_async(n: int) -> str:
    """Rest without blocking."""
    await asyncio.sleep(_SECONDS)
    return f"rested {n}"


@tool(deferred=False)
def rest_plain(n: int) -> str:
    """Rest as plain functions do."""
    time.sleep(_SECONDS)
    return f"rested {n}"


def rows(quick: bool) -> Iterator[Row]:
    bounds = {"async": (rest_async, 1.13, 1.06), "plain def": (rest_plain, 1.18, 1.08)}
    for name, (called, must, better) in bounds.items():
        found: list[float] = []
        with served(__name__, called.name) as url, tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(_runs(url, Path(folder), called, 3 if quick else 9))
        yield Row(f"16 calls of 200 ms, {name}", median(found) * 1e3, "ms", _SECONDS * 1e3, must, better)


async def _runs(url: str, folder: Path, called: Any, repetitions: int) -> list[float]:
    made = ours.agent("chat", url, folder, [called])
    found: list[float] = []
    for _ in range(repetitions + 1):
        started = time.perf_counter()
        await ours.run(made)
        found.append(time.perf_counter() - started)
    await made._session.provider.close()
    return found[1:]


if __name__ == "__main__":
    calls = [(sys.argv[1], {"n": n}, f"call_{n}") for n in range(_CALLS)]
    with FastServer([chat_body(Turn(calls=calls)), chat_body(Turn("Done."))]) as server:
        print(server.url, flush=True)
        sys.stdin.read()
