"""A Chat Completions server that writes at 200 tokens a second and puts the time of its first byte in its text.

``python -m tests.benchmarks.paced`` serves it; the model that is asked for, ``prose`` or ``code`` or ``short``, is
what it writes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

from tests.wire.render import Asked, event
from tests.wire.server import FastServer

__all__ = ["CHARACTERS", "RATE", "TEXTS"]

RATE = 200
"""Tokens a second."""
CHARACTERS = 20_000
_TOKEN = 5
"""Characters a token."""
_SENTENCE = "The model explains at some length what it found, what it means and what **could** follow from that. "
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _prose() -> str:
    """Markdown in paragraphs of about 500 characters."""
    return "\n\n".join([_SENTENCE * 5] * (CHARACTERS // len(_SENTENCE * 5 + "\n\n") + 1))[:CHARACTERS]


def _code() -> str:
    """One block that can't be split."""
    lines = [f"value_{number} = compute(value_{number - 1}, {number})" for number in range(1, 1_000)]
    return ("```python\n" + "\n".join(lines))[: CHARACTERS - 4] + "\n```"


TEXTS: dict[str, Callable[[], str]] = {"prose": _prose, "code": _code, "short": lambda: _SENTENCE}


def _piece(delta: dict[str, str], finish: str | None = None) -> bytes:
    body = event({"id": "c-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    return b"%x\r\n%b\r\n" % (len(body), body)


class PacedServer(FastServer):
    """Writes the text that the model's name stands for."""

    def __init__(self) -> None:
        super().__init__([])

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        text = TEXTS[asked.json["model"]]()
        started = time.monotonic()
        writer.write(_HEAD + _piece({"role": "assistant", "content": f"{time.time():.6f} "}))
        for number, start in enumerate(range(0, len(text), _TOKEN), 1):
            # Paced by the clock, not by pauses: those of a busy machine add up.
            await asyncio.sleep(started + number / RATE - time.monotonic())
            writer.write(_piece({"content": text[start : start + _TOKEN]}))
            await writer.drain()
        writer.write(_piece({}, "stop") + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()


if __name__ == "__main__":
    with PacedServer() as server:
        print(server.url, flush=True)
        sys.stdin.read()
