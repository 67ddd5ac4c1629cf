"""A model's server on the loopback interface that speaks both wires, follows a script and refuses what real ones do.

    with ModelServer([Turn("Hi", calls=[("ls", {"path": "."})]), Turn("Done.")]) as server:
        ...                             # server.url, server.env(), server.asked

It runs in a thread of its own, so a kernel in another process can use it: give it ``server.env()``. For benchmarks,
``FastServer`` sends prebuilt bytes and looks at nothing; ``python -m tests.wire.server rounds|deltas chat|messages N``
serves it from a process of its own and prints its address.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from .render import Asked, Script, Turn, chat_body, messages_body
from .validate import chat_fault, messages_fault, prefix_fault

__all__ = ["Asked", "FastServer", "ModelServer", "Turn", "prefix_fault"]


class _Threaded:
    """A server in a thread with its own event loop."""

    url = ""

    def __enter__(self) -> Any:
        started = threading.Event()
        self._loop = asyncio.new_event_loop()

        async def start() -> None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 26)
            self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
            started.set()

        def run() -> None:
            asyncio.set_event_loop(self._loop)
            self._loop.run_until_complete(start())
            self._loop.run_forever()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        started.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async def stop() -> None:
            self._server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").split("\r\n")
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self._answer(Asked(first.split()[1], headers, body), writer)
                if writer.is_closing():
                    return

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class ModelServer(_Threaded):
    """Answers the n-th request by the n-th turn of its script.

    Parameters
    ----------
    script
        Turns, or functions from the request to a turn.
    check
        Answer 400 to what a real server refuses.
    ceiling
        The largest reply in tokens; more is refused.
    """

    def __init__(self, script: Script = (), *, check: bool = True, ceiling: int | None = None) -> None:
        self.script = list(script)
        self.check = check
        self.ceiling = ceiling
        self.asked: list[Asked] = []
        """Every request to a model, refused ones included."""
        self.refused: list[str] = []
        """Why requests were refused by ``check`` or ``ceiling``."""
        self.signed: dict[str, set[str]] = {}
        """Signatures given, by model."""

    def env(self) -> dict[str, str]:
        """Environment variables that lead ``claude``, ``anthropic/…`` and ``openai/…`` here."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "loopback-key-anthropic",
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "loopback-key-openai",
        }

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The requests' bodies, decoded."""
        return [asked.json for asked in self.asked]

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        path = asked.path.split("?")[0]
        if path == "/v1/models":
            await self._send(writer, Turn(body=json.dumps({"data": [{"id": "m-test"}, {"id": "m-2"}]}).encode()))
            return
        if path not in ("/v1/chat/completions", "/v1/messages"):
            await self._send(writer, Turn(status=404, body=b"404 page not found"))
            return
        self.asked.append(asked)
        chat = path.endswith("completions")
        turn = self._refusal(asked, chat=chat)
        if turn is None and not self.script:
            turn = Turn(status=400, body=b'{"error":{"message":"the script is over"}}')
        if turn is None:
            step = self.script.pop(0)
            turn = step if isinstance(step, Turn) else step(asked)
        await self._send(writer, turn, chat=chat, model=asked.json["model"])

    def _refusal(self, asked: Asked, *, chat: bool) -> Turn | None:
        body = asked.json
        fault = None
        if self.check:
            signed = self.signed.get(body["model"], set())
            fault = chat_fault(body) if chat else messages_fault(body, signed)
        limit = body.get("max_tokens") or body.get("max_completion_tokens")
        if fault is None and self.ceiling and limit and limit > self.ceiling:
            fault = (
                f"max_tokens: {limit} > {self.ceiling}, which is the maximum allowed number of output tokens for "
                f"{body['model']}"
            )
        if fault is None:
            return None
        self.refused.append(fault)
        error = {"type": "invalid_request_error", "message": fault}
        return Turn(status=400, body=json.dumps({"type": "error", "error": error}).encode())

    async def _send(self, writer: asyncio.StreamWriter, turn: Turn, *, chat: bool = True, model: str = "") -> None:
        if turn.mute:
            writer.transport.abort()
            return
        body = turn.body
        kind = "text/event-stream" if turn.status == 200 else "application/json"
        if body is None and chat:
            body = chat_body(turn)
        elif body is None:
            signed = self.signed.setdefault(model, set())
            signature = f"sig-{model}-{len(signed)}"
            signed.add(signature)
            body = messages_body(turn, signature)
        headers = {"content-type": kind, "transfer-encoding": "chunked", **turn.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {turn.status} Scripted\r\n{lines}\r\n".encode())
        cuts = list(turn.cuts) or (range(turn.every, len(body), turn.every) if turn.every else [])
        ends = [*cuts, len(body)]
        sent = 0
        for start, end in zip([0, *ends], ends, strict=False):
            piece = body[start : end if turn.drop is None else min(end, turn.drop)]
            if turn.delay:
                await asyncio.sleep(turn.delay)
            if piece:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
            sent += len(piece)
            if turn.drop is not None and sent >= turn.drop:
                writer.transport.abort()
                return
        await asyncio.sleep(turn.linger)
        writer.write(b"0\r\n\r\n")
        await writer.drain()


class FastServer(_Threaded):
    """Answers each request by the next of some prebuilt event streams, each event in a chunk of its own.

    Nothing is decoded or checked; after the last stream the first comes again.
    """

    def __init__(self, bodies: Sequence[bytes]) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        self._responses = itertools.cycle([head + _chunked(body) for body in bodies])

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(next(self._responses))
        await writer.drain()


def _chunked(body: bytes) -> bytes:
    events = [part + b"\n\n" for part in body.split(b"\n\n") if part]
    return b"".join(b"%x\r\n%b\r\n" % (len(e), e) for e in events) + b"0\r\n\r\n"


def benchmark_bodies(kind: str, wire: str, count: int, tool: str = "noop") -> list[bytes]:
    """Streams for ``count`` tool rounds and a last word, or one of ``count`` text deltas."""
    turns = [Turn("working", calls=[(tool, {"n": n}, f"call_{n}")]) for n in range(count)] if kind == "rounds" else []
    turns.append(Turn("Done." if kind == "rounds" else "hello " * count))
    return [chat_body(turn) if wire == "chat" else messages_body(turn, f"sig-{n}") for n, turn in enumerate(turns)]


if __name__ == "__main__":
    kind, wire, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with FastServer(benchmark_bodies(kind, wire, count)) as server:
        print(server.url, flush=True)
        sys.stdin.read()
