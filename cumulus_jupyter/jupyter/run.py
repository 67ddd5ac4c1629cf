"""One run in one cell: a task that outlives the cell where it must, and a wait that ends when the person says so."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Protocol

from ..agent.errors import AgentError, AgentStopped
from ..agent.events import Answered, ApprovalAsked, Event, Finished, Paused, QuestionAsked
from ..agent.messages import Answer, Ask, Outcome, RunResult, Status
from ..agent.session import Session
from .host import current_cell
from .interrupt import InterruptHandler
from .twins import visible

__all__ = ["Run", "View"]

_TIDY_UP = 3.0


class View(Protocol):
    """What draws a run."""

    def handle(self, event: Event) -> None:
        """Draw an event."""

    def ask(self, ask: Ask, submit: Any) -> None:
        """Show a question."""

    def answered(self, ask: Ask, answer: Answer) -> None:
        """Show its answer in its place."""

    def late(self, ask: Ask, answer: Answer) -> None:
        """Say that an answer came when its question had closed, and is kept."""

    def needs_input(self) -> None:
        """The cell ends at an open question."""

    def finish(self, result: RunResult, advice: str = "") -> None:
        """Show how the run ended."""


class Run:
    """A run under way.

    Made inside the cell, so that its task keeps the cell's output whatever runs later. ``waiting`` holds the open
    questions; ``events`` is the session's ``stream`` or ``resume``; ``submit`` answers a question from any thread;
    ``on_ask`` is called when one is shown.
    """

    def __init__(
        self,
        session: Session,
        view: View,
        events: AsyncGenerator[Event, None],
        on_ask: Callable[[], None] = lambda: None,
    ) -> None:
        self.session, self.view, self._on_ask = session, view, on_ask
        self.waiting: dict[str, Ask] = {}
        self.result: RunResult | None = None
        self.paused = asyncio.Event()
        self._answered = asyncio.Event()
        self._settled: dict[str, asyncio.Future[Answer]] = {}
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        cell = current_cell.get(None)
        if cell is not None and cell.view is view:
            cell.ask = self.ask
        self.task = self._loop.create_task(self._main(events))

    # The run -----------------------------------------------------------------------------------------------------

    async def _main(self, events: AsyncGenerator[Event, None]) -> RunResult:
        try:
            while True:
                last = await self._drain(events)
                if isinstance(last, Finished):
                    self.result = last.result
                    break
                await self._until_answered()
                events = self.session.resume()
        except asyncio.CancelledError:
            self.result = self.session.stopped()
        except Exception as error:  # a fault of ours must not leave the conversation open
            self.result = self.session.failed(error)
        for timer in self._timers.values():
            timer.cancel()
        self.view.finish(self.result, advice(self.result))
        return self.result

    async def _drain(self, events: AsyncGenerator[Event, None]) -> Event | None:
        last: Event | None = None
        async with aclosing(events):
            async for last in events:
                if isinstance(last, (QuestionAsked, ApprovalAsked)):
                    self._ask(last.ask)
                elif isinstance(last, Answered):
                    self.view.answered(last.ask, last.answer)
                elif not isinstance(last, (Paused, Finished)):
                    self.view.handle(last)
        return last

    def _ask(self, ask: Ask) -> None:
        if ask.call_id in self.waiting or ask.call_id in self.session.transcript.answers:
            return
        self.waiting[ask.call_id] = ask
        self.view.ask(ask, lambda answer: self.submit(ask, answer))
        self._on_ask()
        if ask.timeout_seconds:
            expired = Answer(Outcome.TIMED_OUT, notes="")
            self._timers[ask.call_id] = self._loop.call_later(ask.timeout_seconds, self._settle, ask, expired)

    async def ask(self, ask: Ask) -> Answer:
        """Ask what a call under way must know; meanwhile the run counts as paused. Cancelling closes the question."""
        settled: asyncio.Future[Answer] = self._loop.create_future()
        self._settled[ask.call_id] = settled
        self._ask(ask)
        self.paused.set()
        try:
            return await settled
        finally:
            del self._settled[ask.call_id]
            withdrawn = self.waiting.pop(ask.call_id, None)
            if withdrawn and not self.task.done():
                self.view.answered(ask, Answer(Outcome.DECLINED))
            if not self.waiting:
                self.paused.clear()

    async def _until_answered(self) -> None:
        self.paused.set()
        beside = self._loop.create_task(self._drain(self.session.beside()))
        try:
            while self.waiting:
                self._answered.clear()
                await self._answered.wait()
        finally:
            beside.cancel()
            await asyncio.wait({beside})
        self.paused.clear()

    def submit(self, ask: Ask, answer: Answer) -> None:
        """Answer a question; may be called on any thread, more than once."""
        # A widget's callback has its own context: prints and displays of what follows belong to the cell.
        self._loop.call_soon_threadsafe(self._settle, ask, answer, context=self._context)

    def _settle(self, ask: Ask, answer: Answer) -> None:
        if ask.call_id not in self.waiting:
            self.session.transcript.late_answer(ask, answer)
            self.view.late(ask, answer)
            return
        del self.waiting[ask.call_id]
        if timer := self._timers.pop(ask.call_id, None):
            timer.cancel()
        answered = self.session.answer(ask, answer)
        self.view.answered(ask, answered.answer)
        if (settled := self._settled.get(ask.call_id)) and not settled.done():
            settled.set_result(answered.answer)
        self._answered.set()

    # The cell ----------------------------------------------------------------------------------------------------

    async def wait(self, handler: InterruptHandler, stop: asyncio.Event, *, detach: bool) -> bool:
        """Wait for the run, an interrupt, or with ``detach`` the first open question; whether the run ended."""
        stopping = asyncio.ensure_future(stop.wait())
        pausing = asyncio.ensure_future(self.paused.wait()) if detach else None
        with handler.installed():
            try:
                waits = {self.task, stopping, *([pausing] if pausing else [])}
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if stop.is_set() and not self.task.done() and not self.paused.is_set():
                    await self.stop()
            finally:
                stopping.cancel()
                if pausing:
                    pausing.cancel()
        if not self.task.done():
            self.view.needs_input()
        return self.task.done()

    async def stop(self) -> None:
        """Stop the run and wait until its history is in order."""
        self.task.cancel()
        await asyncio.wait({self.task}, timeout=_TIDY_UP)

    def raise_for(self, *, strict: bool) -> None:
        """One line for an ending that the cell must not pass over."""
        result = self.result
        if result is None:
            return
        if result.status is Status.STOPPED:
            raise AgentStopped("stopped. The history is kept: the next %%agent cell goes on from here.")
        if result.status is Status.FAILED:
            raise AgentError(visible(result.error or "the run failed"))
        if strict and result.status is not Status.DONE:
            ended = result.status.replace("_", " ")
            raise AgentError(visible(f"the run ended {ended}: {result.error or 'see its last text'}"))


def advice(result: RunResult) -> str:
    """What the person can do next, for the foot of the cell."""
    return {
        Status.STOPPED: "the next %%agent cell goes on from here",
        Status.TURN_LIMIT: "go on with another %%agent cell, or raise --max-turns",
        Status.TRUNCATED: "ask for the rest in another %%agent cell",
        Status.FAILED: "mend the cause and run the cell again; the conversation is kept",
        Status.REFUSED: "put it another way, or choose another model with -m",
    }.get(result.status, "")
