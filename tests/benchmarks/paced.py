"""A Chat Completions server that writes at a steady rate and puts the time of its first byte in its text.

``python -m tests.benchmarks.paced`` serves it; the model that is asked for, one of `ANSWERS`, is what it writes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass

from tests.wire.render import Asked, event
from tests.wire.server import FastServer

__all__ = ["ANSWERS", "CHARACTERS", "RATE", "TOKEN", "Paced"]

RATE = 200
"""Tokens a second."""
CHARACTERS = 20_000
TOKEN = 5
"""Characters a token."""
_SENTENCE = "The model explains at some length what it found, what it means and what **could** follow from that. "
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Paced:
    """A text and the tokens a second at which it is written."""

    text: str
    rate: int = RATE

    @property
    def seconds(self) -> float:
        return len(self.text) / TOKEN / self.rate


def _prose(characters: int) -> str:
    """Markdown in paragraphs of about 500 characters."""
    return "\n\n".join([_SENTENCE * 5] * (characters // len(_SENTENCE * 5 + "\n\n") + 1))[:characters]


def _code() -> str:
    """One block that can't be split."""
    lines = [f"value_{number} = compute(value_{number - 1}, {number})" for number in range(1, 1_000)]
    return ("```python\n" + "\n".join(lines))[: CHARACTERS - 4] + "\n```"


ANSWERS = {
    "prose": Paced(_prose(CHARACTERS)),
    "code": Paced(_code()),
    "short": Paced(_SENTENCE),
    "long": Paced(_prose(200_000), rate=2_000),
    "burst": Paced(_prose(25_000), rate=2_500),
}


def _piece(delta: dict[str, str], finish: str | None = None) -> bytes:
    body = event({"id": "c-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    return b"%x\r\n%b\r\n" % (len(body), body)


class PacedServer(FastServer):
    """Writes the answer that the model's name stands for."""

    def __init__(self) -> None:
        super().__init__([])

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        answer = ANSWERS[asked.json["model"]]
        started = time.monotonic()
        writer.write(_HEAD + _piece({"role": "assistant", "content": f"{time.time():.6f} "}))
        for number, start in enumerate(range(0, len(answer.text), TOKEN), 1):
            # Paced by the clock, not by pauses: those of a busy machine add up.
            await asyncio.sleep(started + number / answer.rate - time.monotonic())
            writer.write(_piece({"content": answer.text[start : start + TOKEN]}))
            await writer.drain()
        writer.write(_piece({}, "stop") + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()


if __name__ == "__main__":
    with PacedServer() as server:
        print(server.url, flush=True)
        sys.stdin.read()
