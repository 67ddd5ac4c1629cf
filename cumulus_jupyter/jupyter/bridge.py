"""The kernel's end of the comm to our labextension: one versioned protocol, requests with replies."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from ..agent.errors import BridgeError
from ..agent.host import CodeRun, Expected

__all__ = ["PROTOCOL", "TARGET", "Bridge"]

TARGET = "cumulus.notebook"
PROTOCOL = 1
_FIRST_OPERATIONS = ("hello", "locate", "read", "insert", "save")
"""What pages know that don't tell their operations."""
_Reply = asyncio.Future[dict[str, Any]]
RunCell = Callable[[str, str, str, float], Awaitable[tuple[CodeRun, int | None]]]
_HELLO_SECONDS = 3.0
_KNOWN_SECONDS = 12.0
"""Where a page has answered before: while a large notebook is saved, Jupyter's server passes nothing on for seconds."""
_SAVE_SECONDS = 60.0
_GRACE = 2.0
"""Seconds that a tab which did not run the cell has to wait for the one that did."""
_REQUEST_SECONDS = 15.0
_FIRST_READ = 4.0
"""Seconds until a silent page is taken for one that was reloaded: then another may be there."""


class Bridge:
    """Talks to the notebook's front end, as :class:`~cumulus_jupyter.agent.host.LiveNotebook`.

    Several tabs may show the notebook: the one that ran the cell answers, after a reload the first that says hello.
    """

    def __init__(self, version: str, on_stop: Callable[[str], Any], on_move: Callable[[], Any]) -> None:
        self._version, self._on_stop, self._on_move = version, on_stop, on_move
        self._loop: asyncio.AbstractEventLoop | None = None
        self._comm: Any = None
        self._numbers = itertools.count(1)
        self._replies: dict[str, _Reply] = {}
        self._saving: _Reply | None = None
        self._hellos: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._hello: dict[str, Any] | None = None
        self._opening: asyncio.Task[bool] | None = None
        self.refusal = ""
        """Why a front end that answered can't be talked to; empty where none has refused."""
        self.path = ""
        """The notebook's path as a front end last told it, renames included; relative to the server's root."""
        self.run_cell: RunCell | None = None
        self.seconds: dict[str, float] = {}

    @property
    def connected(self) -> bool:
        """A front end with our labextension has answered and not gone since."""
        return self._hello is not None

    @property
    def hello(self) -> dict[str, Any]:
        """What the front end said of itself: app, path, active, dirty, cells, trusted."""
        return self._hello or {}

    def start(self) -> None:
        """Connect anew, without waiting: each cell finds the tab that runs it. Call it on the kernel's loop."""
        if (self._opening is None or self._opening.done()) and not self._replies:
            self._loop = asyncio.get_running_loop()
            self._opening = self._loop.create_task(self._open())

    async def ready(self) -> bool:
        """Whether a front end answers; waits for a connection that is being made."""
        if self.connected:
            return True
        self.start()
        assert self._opening is not None
        return await asyncio.shield(self._opening)

    async def request(
        self, op: str, data: dict[str, Any] | None = None, *, seconds: float = _REQUEST_SECONDS
    ) -> dict[str, Any]:
        """Send a request and wait for its reply; a front end that has gone is looked for once more.

        Raises
        ------
        BridgeError
            Nobody answered in time, or the front end refused: its code is the text's first word.
        """
        if not self.connected and not await self.ready():
            raise BridgeError(self.refusal or "no front end with the Cumulus extension answers for this notebook")
        known = self.hello.get("operations")
        if op not in (_FIRST_OPERATIONS if known is None else known):
            raise BridgeError(
                f"the Cumulus extension in this page is older than the kernel's and can't do {op!r}: update "
                "cumulus-jupyter where JupyterLab runs, then reload the page"
            )
        try:
            return await self._send({"op": op, "client": self.hello.get("client"), **(data or {})}, seconds)
        except TimeoutError:
            # The page may have been reloaded: the new one has no end of the old comm. Nothing is asked twice
            # that was heard: a page that is gone has done nothing with it.
            self._hello = None
            raise BridgeError(f"the front end did not answer {op!r} within {seconds:g} s") from None

    # LiveNotebook ------------------------------------------------------------------------------------------------

    async def read(self, *, outputs: bool | list[str] = True) -> dict[str, Any]:
        """The notebook as it stands in the front end."""
        try:
            return await self.request("read", {"outputs": outputs}, seconds=_FIRST_READ)
        except BridgeError:
            if self.connected:  # it answered, with a refusal
                raise
        return await self.request("read", {"outputs": outputs})

    async def insert(
        self, *, kind: str, source: str, after: str | None = None, before: str | None = None
    ) -> dict[str, Any]:
        """Insert a cell; the reply comes once it is there."""
        return await self._edit("insert", kind=kind, source=source, after=after, before=before)

    async def replace(self, cell_id: str, source: str, *, expected: Expected = None) -> dict[str, Any]:
        """Give a cell another source."""
        return await self._edit("replace", cell_id=cell_id, source=source, expected=expected)

    async def delete(self, cell_id: str, *, expected: Expected = None) -> dict[str, Any]:
        """Delete a cell."""
        return await self._edit("delete", cell_id=cell_id, expected=expected)

    async def move(
        self, cell_id: str, *, after: str | None = None, before: str | None = None, expected: Expected = None
    ) -> dict[str, Any]:
        """Move a cell."""
        return await self._edit("move", cell_id=cell_id, after=after, before=before, expected=expected)

    async def set_kind(self, cell_id: str, *, kind: str, expected: Expected = None) -> dict[str, Any]:
        """Make a cell code, markdown or raw."""
        return await self._edit("set_kind", cell_id=cell_id, kind=kind, expected=expected)

    async def clear_outputs(self, cell_id: str | None, *, expected: Expected = None) -> dict[str, Any]:
        """Clear one code cell, or all that are not running."""
        return await self._edit("clear_outputs", cell_id=cell_id, expected=expected)

    async def run(self, cell_id: str, source: str, *, timeout: float, expected: Expected = None) -> CodeRun:
        """Run a code cell, its outputs live in it."""
        if self.run_cell is None:
            raise BridgeError("cells can't be run here")
        begun = await self._edit("run_begin", cell_id=cell_id, expected=expected)
        run, count = CodeRun(), None
        try:
            run, count = await self.run_cell(source, cell_id, begun["msg_id"], timeout)
        finally:
            ended = await self._edit("run_end", cell_id=cell_id, execution_count=count)
        run.outputs = ended["outputs"]
        return run

    def last_took(self, cell_id: str) -> float:
        """Seconds that the cell ran when it last ended in this kernel."""
        return self.seconds.get(cell_id, 0.0)

    async def _edit(self, op: str, **values: Any) -> dict[str, Any]:
        return await self.request(op, {name: value for name, value in values.items() if value is not None})

    async def save(self) -> None:
        """Save the notebook."""
        await self.request("save", seconds=_SAVE_SECONDS)

    async def locate(self, cell: str = "") -> dict[str, Any]:
        """``{path, dirty, cell}``; the path is relative to the server's root."""
        return await self.request("locate", {"cell_id": cell} if cell else {})

    def close(self) -> None:
        """Close the comm."""
        comm, self._comm, self._hello = self._comm, None, None
        if comm is not None:
            with contextlib.suppress(Exception):
                comm.close()

    # ------------------------------------------------------------------------------------------------------------

    async def _open(self) -> bool:
        from comm import create_comm

        self.close()
        self._hellos = asyncio.Queue()
        comm = create_comm(target_name=TARGET, data={"protocol": PROTOCOL, "version": self._version})
        self._comm = comm
        comm.on_msg(lambda message: self._received(message["content"]["data"]))
        comm.on_close(lambda _message: self._closed(comm))
        comm.send({"id": "hello", "op": "hello"})
        try:
            hello = await self._elect()
        except TimeoutError:
            return False
        if not hello.get("ok"):
            self.refusal = str(hello.get("error", {}).get("message", ""))
            return False
        self._hello, self.refusal, self.path = hello, "", str(hello.get("path") or "")
        return True

    async def _elect(self) -> dict[str, Any]:
        """The tab to talk to: the one that ran the cell, else the first that answered."""
        first: dict[str, Any] = await asyncio.wait_for(
            self._hellos.get(), _KNOWN_SECONDS if self.path else _HELLO_SECONDS
        )
        with contextlib.suppress(TimeoutError):
            while not first.get("mine"):
                first = await asyncio.wait_for(self._hellos.get(), _GRACE)
        return first

    async def _send(self, data: dict[str, Any], seconds: float) -> dict[str, Any]:
        id = f"k{next(self._numbers)}"
        reply = self._replies[id] = asyncio.get_running_loop().create_future()
        if data["op"] == "save":
            self._saving = reply
        self._comm.send({"id": id, **data})
        try:
            answer = await self._answered(reply, seconds)
        finally:
            self._replies.pop(id, None)
        if not answer.get("ok"):
            error = answer.get("error", {})
            raise BridgeError(str(error.get("message") or error.get("code") or "refused"))
        return answer

    async def _answered(self, reply: _Reply, seconds: float) -> dict[str, Any]:
        """The reply; a save of ours that is under way is waited for, since it may hold up the others."""
        saving = self._saving
        await asyncio.wait({reply}, timeout=seconds)
        if not reply.done() and saving is not None and saving is not reply:
            await asyncio.wait({reply, saving}, timeout=_SAVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({reply}, timeout=seconds)
        if not reply.done():
            reply.cancel()
            raise TimeoutError
        return reply.result()

    def _received(self, data: dict[str, Any]) -> None:
        # On the main thread or a subshell's: state is touched on the loop only.
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._take, data)

    def _take(self, data: dict[str, Any]) -> None:
        id = data.get("id")
        if id == "hello":
            code = data.get("error", {}).get("code")  # a tab whose notebook was closed is no refusal
            if code == "protocol" or (data.get("ok") and data.get("protocol") == PROTOCOL):
                self._hellos.put_nowait(data)
        elif data.get("op") == "moved":
            self.path = str(data.get("path") or self.path)
            self._on_move()
        elif data.get("op") == "stop":
            self._on_stop(str(data.get("run", "")))
            self._comm.send({"id": id, "ok": True})
        elif (reply := self._replies.get(str(id))) and not reply.done():
            reply.set_result(data)

    def _closed(self, comm: Any) -> None:
        if comm is self._comm:
            self._hello = None
