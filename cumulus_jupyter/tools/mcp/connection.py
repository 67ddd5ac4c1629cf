"""One MCP server: started, kept, noticed when it ends, started again by the next call."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...agent.errors import ToolError
from ...agent.redact import Redactor
from .call import Call, current_call
from .config import Spec
from .elicit import elicit
from .failures import Ended, GaveUp, Newer, lost, refused, session_lost, speaks_newer, why
from .listing import Listed, as_listed
from .signin import OPEN_SECONDS, SignIn
from .stdio import Tail
from .transport import Watched, load, transport, us

if TYPE_CHECKING:
    import mcp
    from mcp_types import CallToolResult

__all__ = ["Connection", "State"]

_RESTARTS, _WITHIN = 3, 600.0
"""A server that ends again and again is started again at most so often within so many seconds."""
_PAGES = 200
_RELIST = 2.0
_TIDY_UP = 2.0


class State(StrEnum):
    """How a server stands."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    ENDED = "ended"
    STOPPED = "stopped"


class Connection:
    """One server. Made anywhere, used on the servers' loop; ``state``, ``reason`` and ``tools`` may be read anywhere.

    Parameters
    ----------
    spec, root
        The server, and the folder that it is started in and told as its root.
    limit
        Seconds that a start may take.
    changed
        Called when its state or its tools have changed.
    folder
        Where the tokens of a sign-in are kept.
    """

    def __init__(
        self, spec: Spec, root: Path, limit: float, changed: Callable[[], None], folder: Path | None = None
    ) -> None:
        self.spec, self.root, self.limit = spec, root, limit
        self.state, self.reason = State.STARTING, ""
        self.tools: tuple[Listed, ...] = ()
        self.faults: dict[str, str] = {}
        self.instructions = ""
        self.since = time.monotonic()
        self._told = changed
        self._tail = Tail()
        self.way = SignIn(spec, folder, limit, waits=self._waits, came=self._came, signed=self._tail_away)
        # The older handshake first: servers of both kinds may ask the person in the midst of a call only there, and
        # some that know no other one end at a message before it.
        self._mode = "legacy"
        self._client: mcp.Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._calls: list[Call] = []
        self._restarts: deque[float] = deque()
        self._settled, self._listed, self._wake = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._turn = asyncio.Event()
        self._start: asyncio.Timeout | None = None
        self._until = 0.0
        self._closed = self._dirty = self._stopping = False

    # Life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server in the background."""
        self.state, self.reason, self.since = State.STARTING, "", time.monotonic()
        self.way.refusal = ""
        self._settled.clear()
        self._turn.clear()
        self._wake.clear()
        self._closed = self._dirty = False
        # One task enters and leaves the client: its cancel scopes belong to the task.
        self._task = asyncio.create_task(self._run(), name=f"mcp {self.spec.name}")
        self._told()

    async def settled(self) -> None:
        """Wait until it is started or has failed."""
        await self._settled.wait()

    async def turned(self) -> None:
        """Wait until it is started, has failed, or the person must sign in."""
        await self._turn.wait()

    def _waits(self) -> None:
        # The person's time is not the server's.
        self._allow(OPEN_SECONDS + self.limit)
        self._turn.set()
        self._told()

    def _came(self) -> None:
        """The rest is a start as any other."""
        if self.state is State.STARTING:
            self.since = time.monotonic()
            self._turn.clear()
            self._allow(self.limit)

    def _tail_away(self) -> None:
        # The refusals before the sign-in are no reason of what comes after it.
        self._tail.clear()

    def _allow(self, seconds: float) -> None:
        self._until = asyncio.get_running_loop().time() + seconds
        if self._start is not None:
            self._start.reschedule(self._until)

    async def stop(self) -> None:
        """End the server."""
        self._stopping = True
        self._wake.set()
        if self._task is None:
            return
        if self.state is State.STARTING:
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=4)
        self._become(State.STOPPED)

    async def _run(self) -> None:
        try:
            # A second's work at the first start: other servers must not wait for it, nor their calls.
            await asyncio.to_thread(load)
            self._allow(self.limit)
            try:
                await self._serve(self._mode)
            except Newer:
                self._mode, self._closed = "auto", False
                await self._serve(self._mode)
            state, reason = State.STOPPED, ""
        except asyncio.CancelledError:
            state, reason = State.STOPPED, ""
        except BaseException as error:
            state = State.FAILED if self.state is State.STARTING else State.ENDED
            reason = Redactor()(self.way.refusal or why(error, self._tail, self.limit))
        self._client = None
        self._become(State.STOPPED if self._stopping else state, reason)

    def _become(self, state: State, reason: str = "") -> None:
        self.state, self.reason = state, reason
        if state is not State.STARTING:
            self._settled.set()
            self._turn.set()
        self._told()

    async def _serve(self, mode: str) -> None:
        """Be connected until the server ends (which is raised) or is to stop."""
        self._tail = Tail()
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout_at(self._until) as self._start:
                    client = await stack.enter_async_context(self._made_client(mode))
                    await self._list(client)
            except TimeoutError:
                raise GaveUp from None
            except Exception as error:
                if mode == "legacy" and speaks_newer(error):
                    raise Newer from None
                raise
            finally:
                self._start = None
            self.instructions = (client.instructions or "").strip()
            self._client = client
            self._become(State.READY)
            listening = asyncio.create_task(self._listen(client))
            try:
                await self._watch(client)
            finally:
                self._client = None
                listening.cancel()
                await asyncio.wait({listening}, timeout=1)

    def _made_client(self, mode: str) -> mcp.Client:
        import mcp

        watched = Watched(
            transport(self.spec, self.root, self._tail, self.way),
            faults=self.faults,
            changed=self._list_changed,
            ended=self._ended,
        )
        return mcp.Client(
            watched,
            mode=mode,
            client_info=us(),
            elicitation_callback=self._elicited,
            list_roots_callback=self._roots,
        )

    async def _watch(self, client: mcp.Client) -> None:
        relisting: asyncio.Task[None] | None = None
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._stopping:
                    return
                if self._closed:
                    raise Ended
                if self._dirty and (relisting is None or relisting.done()):
                    # Beside the watch: a server that hangs is still seen to end.
                    relisting = asyncio.create_task(self._list(client))
                    relisting.add_done_callback(self._list_read)
        finally:
            if relisting is not None:
                relisting.cancel()

    def _list_read(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # the old list stands
        self._wake.set()

    def _list_changed(self) -> None:
        self._dirty = True
        self._listed.clear()
        self._wake.set()

    def _ended(self) -> None:
        self._closed = True
        self._wake.set()

    # Tools -------------------------------------------------------------------------------------------------------

    async def _list(self, client: mcp.Client) -> None:
        """Read all pages; a server whose pages lead nowhere new is no longer asked."""
        from mcp.shared.exceptions import MCPError

        self._dirty = False
        self.faults.clear()
        try:
            self.tools = tuple(await self._pages(client))
        except MCPError:
            if client.server_capabilities.tools is not None:
                raise
            self.tools = ()  # it has said that it offers none
        finally:
            if not self._dirty:
                self._listed.set()
        self._told()

    async def _pages(self, client: mcp.Client) -> list[Listed]:
        found: dict[str, Listed] = {}
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await client.list_tools(cursor=cursor, cache_mode="refresh")
            for tool in page.tools:
                found.setdefault(tool.name, as_listed(tool))
            cursor = page.next_cursor
            if not cursor or cursor in seen:
                break
            seen.add(cursor)
        return list(found.values())

    async def _listen(self, client: mcp.Client) -> None:
        """Newer servers tell of changes only to who listens for them."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp.shared.exceptions import MCPError

        with contextlib.suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._list_changed()

    # Calls -------------------------------------------------------------------------------------------------------

    async def call(self, name: str, arguments: dict[str, Any], call: Call) -> CallToolResult:
        """Call a tool once.

        Raises
        ------
        ToolError
            The server is not there, ended, refused or took too long: in words.
        """
        client = await self._connected(call)
        self._calls.append(call)
        token = current_call.set(call)
        work = asyncio.create_task(client.call_tool(name, arguments, progress_callback=call.progress))
        current_call.reset(token)
        try:
            while not work.done() and (left := call.left()) > 0:
                await asyncio.wait({work}, timeout=0.5 if call.asking else left)
            if not work.done():
                raise ToolError(
                    f"no result from server {self.spec.name} within {call.seconds:g} s; the call was cancelled, but "
                    "the server may go on with it. Check its effects before you repeat it."
                )
            result = work.result()
        except ToolError:
            raise
        except Exception as error:
            raise ToolError(await self._told_failure(error)) from error
        finally:
            self._calls.remove(call)
            if not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=_TIDY_UP)
        await self._relisted()
        return result

    async def _connected(self, call: Call) -> mcp.Client:
        if self.state in (State.ENDED, State.FAILED):
            self._start_again()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._turn.wait(), self.limit + 5)
            if self.way.link:
                settled = asyncio.ensure_future(self._settled.wait())
                await self.way.asked_in(call, settled)
                settled.cancel()
            if not self.way.link:
                await asyncio.wait_for(self._settled.wait(), self.limit + 5)
        if self._client is None:
            waits = "it waits for the person to sign in; its page stands in %agent status" if self.way.link else ""
            raise ToolError(f"server {self.spec.name} is not there: {waits or self.reason or self.state}")
        return self._client

    def _start_again(self) -> None:
        now = time.monotonic()
        while self._restarts and now - self._restarts[0] > _WITHIN:
            self._restarts.popleft()
        if len(self._restarts) >= _RESTARTS:
            raise ToolError(
                f"server {self.spec.name} was started again {_RESTARTS} times within {_WITHIN / 60:g} minutes and is "
                f"left alone now: {self.reason}. Go on without it and tell the person."
            )
        self._restarts.append(now)
        self.start()

    async def _told_failure(self, error: Exception) -> str:
        if session_lost(error):
            self._ended()
        if self.way.refusal:
            await self._down()
            return f"server {self.spec.name} did not take the call, so nothing was done: {self.way.refusal}"
        if self._closed:
            await self._down()
            return lost(self.spec.name, self._tail)
        return refused(self.spec.name, error)

    async def _down(self) -> None:
        """Wait a moment until the end is noted, so that the next call starts the server again."""
        for _ in range(100):
            if self.state is not State.READY:
                return
            await asyncio.sleep(0.02)

    async def _relisted(self) -> None:
        """A call that changed the tools returns when the new ones are known."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._listed.wait(), _RELIST)

    # What the server asks ----------------------------------------------------------------------------------------

    async def _elicited(self, context: Any, params: Any) -> Any:
        # Older servers don't say which call they ask for: it is the last one.
        call = current_call.get() or (self._calls[-1] if self._calls else None)
        return await elicit(self.spec.name, call, params)

    async def _roots(self, context: Any) -> Any:
        from mcp_types import ListRootsResult, Root
        from pydantic import FileUrl

        return ListRootsResult(roots=[Root(uri=FileUrl(self.root.as_uri()), name=self.root.name or str(self.root))])

    async def look(self, root: Path) -> None:
        """Read the tools anew, since not every server tells of changes; tell it of another active root."""
        from mcp_types import RootsListChangedNotification

        moved, self.root = root != self.root, root
        if self._client is None:
            return
        self._list_changed()
        if moved and self._client.session.initialize_result is not None:
            await self._client.session.send_notification(RootsListChangedNotification())
