"""A session: one conversation with its model and tools, one run at a time."""

from __future__ import annotations

import traceback
from collections.abc import AsyncGenerator
from contextlib import aclosing

from .background import interleaved
from .errors import CumulusError
from .events import Answered, Event, Finished, Notice
from .loop import Limits, run
from .messages import Answer, Ask, RunResult, Status, ToolResult
from .provider import Provider, Request
from .toolbox import Toolbox
from .transcript import Line, Transcript

__all__ = ["Session"]


class Session:
    """Drives runs of a conversation; all its state is the transcript's.

    ``stream`` starts a run, ``answer`` settles what it waits for, ``resume`` goes on. Whatever way a run ends, the
    transcript stays valid and the next ``stream`` goes on from it.
    """

    def __init__(
        self, transcript: Transcript, provider: Provider, toolbox: Toolbox, limits: Limits, system: str
    ) -> None:
        self.transcript = transcript
        self.provider = provider
        self.toolbox = toolbox
        self.limits = limits
        self.system = system
        self.news = ""
        """Changes of the tool set, told behind the next prompt."""

    async def stream(self, prompt: str, note: str = "") -> AsyncGenerator[Event, None]:
        """Start a run with the person's prompt; the last event is :class:`Paused` or :class:`Finished`."""
        self.close_open_calls("interrupted: the person went on. Effects may have happened.")
        if late := self.transcript.late:
            prompt = f"My answers to your earlier questions, which came late: {'; '.join(late)}\n\n{prompt}"
        note, self.news = "\n".join(part for part in (note, self.news) if part), ""
        told = {} if self.transcript.system == self.system else {"system": self.system}
        self.transcript.user(prompt, note, model=self.provider.name, **told)
        if late:
            yield Notice(f"*with this prompt goes what you answered late: {'; '.join(late)}*")
        async with aclosing(self.resume()) as events:
            async for event in events:
                yield event

    async def resume(self) -> AsyncGenerator[Event, None]:
        """Go on from what the transcript holds; the last event is :class:`Paused` or :class:`Finished`."""
        background = self.toolbox.background
        try:
            async with aclosing(run(self.transcript, self.provider, self.toolbox, self.limits, self.system)) as events:
                async for event in events:
                    yield event
                    if background.live:
                        break
                else:
                    return
                async with aclosing(interleaved(events, background)) as both:
                    async for event in both:
                        yield event
        except CumulusError as error:
            yield Finished(self.failed(error))

    async def beside(self) -> AsyncGenerator[Event, None]:
        """Events of sub-agents that go on while the run waits for the person; never ends by itself."""
        while True:
            if event := await self.toolbox.background.events.get():
                yield event

    def answer(self, ask: Ask, answer: Answer) -> Answered:
        """Settle an open question or approval; the first answer counts."""
        self.transcript.answer(ask, answer)
        return Answered(ask, self.transcript.answers.get(ask.call_id, answer))

    def stopped(self) -> RunResult:
        """Close a run that the person stopped."""
        with self.transcript.kept_anyway():
            self.close_open_calls("stopped by the person; effects may have happened. Check before you repeat it.")
            self.toolbox.background.cut("stopped by the person with the run")
            return self.transcript.end(Status.STOPPED)

    def failed(self, error: BaseException) -> RunResult:
        """Close a run that a fault of ours or of its surroundings ended."""
        text = str(error) if isinstance(error, CumulusError) else f"{type(error).__name__}: {error}"
        trace = "" if isinstance(error, CumulusError) else "".join(traceback.format_exception(error))
        with self.transcript.kept_anyway():
            self.close_open_calls("interrupted by a fault; effects may have happened.")
            self.toolbox.background.cut("cut off with the run")
            return self.transcript.end(Status.FAILED, text, traceback=trace)

    def request_of(self, line: Line) -> Request:
        """The request that the stored reply ``line`` answered, built again from the transcript."""
        asked = line["asked"]
        tools = [tool for name in asked["tools"] if (tool := self.toolbox.find(name))]
        before = Transcript.load(self.transcript.session, self.transcript.lines[: line["seq"] - 1])
        return Request(
            system=self.system,
            messages=before.messages,
            tools=tools,
            deferred=self.toolbox.deferred,
            max_tokens=asked["max_tokens"],
            effort=self.limits.effort,
        )

    def recover(self) -> bool:
        """Make a conversation that its kernel left behind ready to go on; whether its run is still to be ended.

        Questions stay open. A call that may have begun is not run again: its result says that nothing is known of it.
        """
        for call in self.transcript.open_calls:
            if not self.toolbox.waits(call, self.transcript):
                lost = "unknown: the kernel ended while this call may have been running. Check its effects first."
                self.transcript.result(ToolResult(call.id, call.name, [lost], ok=False))
        if gone := self.transcript.lose_agents():
            names = ", ".join(gone)
            self.transcript.note(f"[The kernel ended, and with it these sub-agents: {names}. Check what they did.]")
        return bool(self.transcript.messages) and self.transcript.status is Status.RUNNING

    def close_open_calls(self, reason: str) -> None:
        """Give each open call a result, so that the next request is valid."""
        for call in self.transcript.open_calls:
            tool = self.toolbox.find(call.name)
            text = reason
            if tool and tool.ask:
                text = "declined: the user went on"
                self.transcript.append("question_closed", call=call.id, name=call.name, reason=reason)
            self.transcript.result(ToolResult(call.id, call.name, [text], ok=False))
