"""What lies between asking and the first piece of text, against the vendors' own SDK streams."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from cumulus_jupyter.agent.events import TextDelta

from . import ours
from .serving import WIRES, served
from .table import Row, median

__all__ = ["rows"]

_ASKED: list[Any] = [{"role": "user", "content": "go"}]


def rows(quick: bool) -> Iterator[Row]:
    for wire, name in WIRES.items():
        with served("tests.wire.server", "deltas", wire, 20) as url, tempfile.TemporaryDirectory() as folder:
            found, anchor = asyncio.run(_in_turns(wire, url, Path(folder), 60 if quick else 300))
        figure = f"to the first token, {name} (anchor: the SDK)"
        yield Row(figure, median(found) * 1e3, "ms", median(anchor) * 1e3, must=1.0, better=0.7)


async def _in_turns(wire: str, url: str, folder: Path, times: int) -> tuple[list[float], list[float]]:
    made = ours.agent(wire, url, folder)
    client, first = _sdk(wire, url)
    found: list[float] = []
    anchor: list[float] = []
    for repetition in range(times + 5):
        theirs, own = await first(), await _ours(made)
        if repetition >= 5:
            anchor.append(theirs)
            found.append(own)
    await client.close()
    await made._session.provider.close()
    return found, anchor


async def _ours(made: Any) -> float:
    seconds, started = 0.0, time.perf_counter()
    async with aclosing(made.stream("go")) as events:
        async for event in events:
            if type(event) is TextDelta and not seconds:
                seconds = time.perf_counter() - started
    return seconds


def _sdk(wire: str, url: str) -> tuple[Any, Callable[[], Awaitable[float]]]:
    """An SDK client, and a function that gives the seconds to the first text of its stream."""
    if wire == "chat":
        import openai

        asker = openai.AsyncOpenAI(api_key="loopback-key", base_url=f"{url}/v1", max_retries=0)
        return asker, lambda: _first_chat(asker)
    import anthropic

    other = anthropic.AsyncAnthropic(api_key="loopback-key", base_url=url, max_retries=0)
    return other, lambda: _first_messages(other)


async def _first_chat(client: Any) -> float:
    seconds, started = 0.0, time.perf_counter()
    async for chunk in await client.chat.completions.create(model="m", messages=_ASKED, stream=True):
        if not seconds and chunk.choices and chunk.choices[0].delta.content:
            seconds = time.perf_counter() - started
    return seconds


async def _first_messages(client: Any) -> float:
    seconds, started = 0.0, time.perf_counter()
    async for event in await client.messages.create(model="m", messages=_ASKED, max_tokens=100, stream=True):
        if not seconds and event.type == "content_block_delta":
            seconds = time.perf_counter() - started
    return seconds
