"""One call of an MCP tool, seen from the servers' thread: its clock, its progress, its questions to the person."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import time

from ...agent.messages import Answer, Ask
from ...agent.tool import ToolContext

__all__ = ["Call", "current_call"]

current_call: contextvars.ContextVar[Call | None] = contextvars.ContextVar("cumulus_mcp_call", default=None)
"""The call that a question from the server belongs to, where the protocol says so."""


class Call:
    """A call under way; made on the agent's loop, used on the servers' one.

    ``seconds`` is how long it may take; the clock stands while the person is asked. ``answers`` collects header and
    answer of what the server asked.
    """

    def __init__(self, context: ToolContext, seconds: float) -> None:
        self.id, self.seconds = context.call.id, seconds
        self.answers: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self._context, self._loop = context, asyncio.get_running_loop()
        self._vars = contextvars.copy_context()
        self._until = time.monotonic() + seconds
        self._asking, self._since = 0, 0.0
        self._asked = 0

    @property
    def asking(self) -> bool:
        """The person is being asked."""
        return self._asking > 0

    def left(self) -> float:
        """Seconds that are left."""
        return self._until - (self._since if self._asking else time.monotonic())

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Show what the server says of its progress."""
        share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        text = f"{message} ({share})" if message else share
        with contextlib.suppress(RuntimeError):  # the agent's loop is closed
            self._loop.call_soon_threadsafe(self._context.progress, text)

    def name_ask(self) -> str:
        """An id for one more question of this call."""
        self._asked += 1
        return f"{self.id}-ask{self._asked}"

    async def ask(self, ask: Ask) -> Answer:
        """Ask the person in the call's cell; where nobody is there, prepared answers or word of that."""
        answered: concurrent.futures.Future[Answer] = concurrent.futures.Future()

        def start() -> None:
            task = self._loop.create_task(self._answer(ask))
            task.add_done_callback(lambda done: _settle(answered, done))
            answered.add_done_callback(lambda done: cancel(task) if done.cancelled() else None)

        def cancel(task: asyncio.Task[Answer]) -> None:
            with contextlib.suppress(RuntimeError):  # the agent's loop is closed
                self._loop.call_soon_threadsafe(task.cancel)

        if not self._asking:
            self._since = time.monotonic()
        self._asking += 1
        try:
            # In the call's own context: it knows the cell.
            self._loop.call_soon_threadsafe(start, context=self._vars)
            return await asyncio.wrap_future(answered)
        finally:
            self._asking -= 1
            if not self._asking:
                self._until += time.monotonic() - self._since

    async def _answer(self, ask: Ask) -> Answer:
        answer = self._context.toolbox.resolve(ask)
        return answer if answer is not None else await self._context.host.ask(ask)


def _settle(answered: concurrent.futures.Future[Answer], task: asyncio.Task[Answer]) -> None:
    if answered.done():
        return
    if task.cancelled():
        answered.cancel()
    elif error := task.exception():
        answered.set_exception(error)
    else:
        answered.set_result(task.result())
