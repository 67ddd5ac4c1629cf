"""A server as a child process, its messages on its standard streams, one JSON a line.

The ``mcp`` package has such a transport too. This one also keeps the end of what the server writes beside its messages
and its exit code, needs no file descriptor of ``sys.stderr`` (a kernel has none), and ends with the kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..jobs import environment
from .config import Spec

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

__all__ = ["StartError", "Tail", "stdio"]

_KEPT = 4_096
_SHOWN = 400
_CHUNK = 65_536
_GRACE = 1.0
"""Seconds that a server gets to end by itself once its input is closed, and then again after a signal."""
_POLL = 0.25
_CHILD = Path(__file__).with_name("child.py")


class StartError(Exception):
    """A server's command can't be started; the text says why."""


class Tail:
    """The end of what a server wrote beside its messages, 4 kB of it, and how its process ended."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self.exit_code: int | None = None
        self._by_us = False

    def ended(self, exit_code: int | None) -> None:
        """Note how the process ended by itself; once we end it, that says nothing."""
        if not self._by_us:
            self.exit_code = exit_code

    def end(self) -> None:
        """It is ended by us now."""
        self._by_us = True

    def add(self, data: bytes) -> None:
        """Take more."""
        self._bytes += data[-_KEPT:]
        del self._bytes[:-_KEPT]

    def clear(self) -> None:
        """Forget what it wrote."""
        self._bytes.clear()

    @property
    def text(self) -> str:
        """All that is kept."""
        return self._bytes.decode("utf-8", "replace").strip()

    @property
    def line(self) -> str:
        """Its last lines in one line, for an error's text; empty where it wrote nothing."""
        lines = [" ".join(line.split()) for line in self.text.splitlines()]
        told = " | ".join(line for line in lines if line)
        return told if len(told) <= _SHOWN else f"…{told[-_SHOWN:]}"

    @property
    def ending(self) -> str:
        """How the process ended, in brackets; empty where that is not known."""
        if self.exit_code is None:
            return ""
        if self.exit_code < 0:
            with contextlib.suppress(ValueError):
                return f" ({signal.Signals(-self.exit_code).name})"
        return f" (exit {self.exit_code})"


@contextlib.asynccontextmanager
async def stdio(
    spec: Spec, root: Path, tail: Tail
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[Any], MemoryObjectSendStream[Any]], None]:
    """Run the command in its folder, by default ``root``; streams of its messages and for ours to it.

    Raises
    ------
    StartError
        There is no such command or folder, or it can't be run.
    """
    import anyio

    process = await _started(spec, root)
    to_session, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, from_session = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, to_session, tail)
        tasks.start_soon(_write, process, from_session)
        tasks.start_soon(_drain, process, tail)
        tasks.start_soon(_watch, process, to_session, tail)
        try:
            yield incoming, outgoing
        finally:
            if process.returncode is None:
                tail.end()
            with anyio.CancelScope(shield=True):
                await _end(process)
            for stream in (to_session, incoming, outgoing, from_session):
                stream.close()
            tasks.cancel_scope.cancel()


async def _started(spec: Spec, root: Path) -> asyncio.subprocess.Process:
    folder = spec.cwd or root
    if not folder.is_dir():
        raise StartError(f"its folder {folder} is not there")
    env = {**environment(Path(tempfile.gettempdir())), **spec.env}
    env.pop("CUMULUS_MCP", None)  # other servers' keys may be in it
    command = [_found(spec.command, folder, env), *spec.args]
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", str(_CHILD), str(os.getpid()), *command]
    group: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        group = {"creationflags": subprocess.CREATE_NO_WINDOW}
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=env, **group
        )
    except (OSError, ValueError) as error:
        raise StartError(f"the command {spec.command!r} can't be run: {error}") from None


def _found(command: str, folder: Path, env: Mapping[str, str]) -> str:
    """The command's file."""
    named = os.path.expanduser(command)
    if os.path.dirname(named):
        named = str(folder / named)
    found = shutil.which(named, path=env.get("PATH"))
    if found is None:
        where = "" if os.path.dirname(named) else " on the PATH"
        raise StartError(f"the command {command!r} was not found{where}; install it, or give its whole path")
    return found


# Pumps -----------------------------------------------------------------------------------------------------------


async def _read(
    process: asyncio.subprocess.Process, messages: MemoryObjectSendStream[SessionMessage], tail: Tail
) -> None:
    """Hand on each message; what is none goes to the tail. At the end of all, the exit code is noted first."""
    import anyio

    assert process.stdout
    rest = bytearray()
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        while data := await _chunk(process.stdout):
            rest += data
            if b"\n" not in data:
                continue
            *lines, tip = rest.split(b"\n")
            rest = bytearray(tip)
            for line in lines:
                if (message := _message(bytes(line))) is not None:
                    await messages.send(message)
                elif line.strip():
                    tail.add(bytes(line) + b"\n")
    tail.add(bytes(rest))
    await _ended(process, _GRACE)
    tail.ended(process.returncode)
    messages.close()
    while await _chunk(process.stdout):  # a full pipe would keep it from ending
        pass


async def _chunk(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.read(_CHUNK)
    except (ConnectionError, OSError):
        return b""


def _message(line: bytes) -> SessionMessage | None:
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    if not line.lstrip(b"\xef\xbb\xbf \t\r").startswith(b"{"):
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line.lstrip(b"\xef\xbb\xbf"), by_name=False))
    except ValueError:
        return None


async def _write(process: asyncio.subprocess.Process, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin
    with contextlib.suppress(ConnectionError, OSError):  # it ended: the reader tells
        async for item in messages:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode("utf-8", "replace") + b"\n")
            await process.stdin.drain()
    async for _ in messages:  # nobody waits for what can't be sent
        pass


async def _watch(
    process: asyncio.subprocess.Process, messages: MemoryObjectSendStream[SessionMessage], tail: Tail
) -> None:
    """A dead server's output does not end where a child of its own has inherited it."""
    while process.returncode is None:  # noqa: ASYNC110  (asyncio's own wait waits for the pipes too)
        await asyncio.sleep(_POLL)
    await asyncio.sleep(_POLL)  # for what it wrote last
    tail.ended(process.returncode)
    messages.close()


async def _drain(process: asyncio.subprocess.Process, tail: Tail) -> None:
    assert process.stderr
    while data := await _chunk(process.stderr):
        tail.add(data)


# Ending ----------------------------------------------------------------------------------------------------------


async def _ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Wait for the process alone: asyncio's own wait also waits for whoever has inherited its pipes."""
    until = asyncio.get_running_loop().time() + seconds
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= until:
            return False
        await asyncio.sleep(0.01)
    return True


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the server as the protocol says: its input is closed, then it is asked, then forced, with all it started."""
    assert process.stdin
    process.stdin.close()
    if await _ended(process, _GRACE):
        return
    for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        _signal_all(process.pid, number)
        if await _ended(process, _GRACE):
            return


def _signal_all(pid: int, number: int) -> None:
    import psutil

    with contextlib.suppress(psutil.Error):
        own = psutil.Process(pid)
        for each in [*own.children(recursive=True), own]:
            with contextlib.suppress(psutil.Error):
                each.send_signal(number)
