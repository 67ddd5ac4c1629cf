"""All MCP servers of a kernel, on one thread with a loop of its own.

The kernel's loop stands still while a cell computes; a server's pipe must be read all the same.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib
import logging
import os
import sys
import threading
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .call import Call
from .config import Spec
from .connection import Connection, State

if TYPE_CHECKING:
    import concurrent.futures

    from mcp_types import CallToolResult

__all__ = ["Servers"]

_CLOSE = 4.0
_SHARED = ("pydantic", "anyio", "anyio._backends._asyncio", "httpx2", "jsonschema", "jsonschema.validators")
"""Packages that a model's adapter imports too, perhaps at the same time: where two threads import modules that import
each other, Python lets one of them see half a module."""
_LOGGERS = (
    "client",
    "mcp",
    "mcp.client.session",
    "mcp.client.streamable_http",
    "mcp.client.sse",
    "mcp.client.auth.oauth2",
    "mcp.client.auth.utils",
    "mcp.shared.jsonrpc_dispatcher",
)

T = TypeVar("T")


class Servers:
    """Starts, keeps and ends servers. All methods may be called on any thread; none of them waits but ``close``."""

    def __init__(self) -> None:
        self.connections: dict[str, Connection] = {}
        self.version = 0
        """Counts the changes of states and tools."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._owner = os.getpid()

    def follow(
        self, wanted: Mapping[str, Spec], root: Path, limit: float, *, folder: Path | None = None, person: bool = False
    ) -> None:
        """Start what is wanted and does not run, end what runs and is no longer wanted or has changed.

        A server that failed is started again only once its entry or the limit has changed, or where nobody had signed
        in. ``person``: somebody is there who can; ``folder`` keeps their tokens.
        """
        for name, connection in list(self.connections.items()):
            again = connection.state is State.FAILED and (limit > connection.limit or bool(connection.way.refusal))
            connection.way.person = person
            if wanted.get(name) != connection.spec or again:
                del self.connections[name]
                self._submit(connection.stop())
            else:
                self._submit(connection.look(root))
        for name, spec in wanted.items():
            if name not in self.connections:
                self.connections[name] = Connection(spec, root, limit, self._changed, folder)
                self.connections[name].way.person = person
                self._submit(_started(self.connections[name]))
        self._changed()

    async def settled(self, seconds: float) -> None:
        """Wait until no server is starting or it waits for the person, for so many seconds from its start at most."""
        starting = [c for c in self.connections.values() if c.state is State.STARTING]
        left = max((c.since + seconds - time.monotonic() for c in starting), default=0.0)
        if left > 0:
            waits = [asyncio.wrap_future(self._submit(connection.turned())) for connection in starting]
            await asyncio.wait(waits, timeout=left)
            for wait in waits:
                wait.cancel()

    def started(self, server: str) -> asyncio.Future[None]:
        """Done when this server is started or has failed."""
        return asyncio.wrap_future(self._submit(self.connections[server].settled()))

    async def call(self, server: str, tool: str, arguments: dict[str, Any], call: Call) -> CallToolResult:
        """Call a tool; cancelling the wait cancels the call."""
        return await asyncio.wrap_future(self._submit(self.connections[server].call(tool, arguments, call)))

    def close(self) -> None:
        """End all servers, then the thread."""
        if self._loop is None or self._thread is None or os.getpid() != self._owner:
            return
        loop, self._loop = self._loop, None
        connections, self.connections = list(self.connections.values()), {}
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(_all(connections), loop).result(_CLOSE)
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(1)
        atexit.unregister(self.close)

    # The thread --------------------------------------------------------------------------------------------------

    def _submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            for name in _SHARED:
                importlib.import_module(name)
            self._loop = _new_loop()
            self._thread = threading.Thread(target=_serve, args=(self._loop,), name="cumulus-mcp", daemon=True)
            self._thread.start()
            _quieten(self._thread)
            atexit.register(self.close)
        return self._loop

    def _changed(self) -> None:
        self.version += 1


def _new_loop() -> asyncio.AbstractEventLoop:
    """Not by the kernel's policy: another kind of loop may not start processes off the main thread."""
    if sys.platform == "win32":
        return asyncio.ProactorEventLoop()
    return asyncio.SelectorEventLoop()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _started(connection: Connection) -> None:
    connection.start()


async def _all(connections: list[Connection]) -> None:
    await asyncio.gather(*(connection.stop() for connection in connections), return_exceptions=True)


def _quieten(thread: threading.Thread) -> None:
    """Our servers' faults are told in our words; the library's log of them would stand red in somebody's cell.

    Only records of our thread are dropped: a person's own use of the library logs as ever.
    """

    def other(record: logging.LogRecord) -> bool:
        return record.thread != thread.ident

    for name in _LOGGERS:
        logging.getLogger(name).addFilter(other)
