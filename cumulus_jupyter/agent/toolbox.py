"""The tools of one agent: which are bound, which may run, and running a reply's calls side by side."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .background import Background
from .errors import CumulusError, ToolError
from .events import Answered, ApprovalAsked, Event, QuestionAsked, ToolFinished, ToolProgress, ToolStarted
from .host import Host
from .messages import Answer, Ask, Image, ToolCall, ToolResult
from .policy import Policy, Verdict, approval_ask, denied_by_person
from .tool import Output, Tool, ToolContext
from .transcript import Transcript
from .windowing import window

__all__ = ["MAX_FETCHED", "Toolbox"]

MAX_FETCHED = 25
"""Fetched tools that stay bound at once: the last ones used."""

_SHOWN = 20_000
"""Characters of an argument that a person sees before they allow a call."""

Emit = Callable[[Event], None]
Resolver = Callable[[Ask], Answer | None]


class Toolbox:
    """The tools that an agent may bind, and how its calls are run.

    Parameters
    ----------
    tools
        All tools, eager and deferred; a later one replaces an earlier one of the same name.
    host, root
        Where calls run.
    policy
        What runs without asking.
    resolve
        Answers a question where nobody is there; None leaves it to the person.
    redact
        Takes secrets out of any JSON-like value before a model, the screen or the transcript gets it.
    sandbox, private
        Confinement of subprocesses (auto, off, require), and folders that they may not read beside the usual ones.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        host: Host,
        root: Path,
        policy: Policy,
        resolve: Resolver = lambda ask: None,
        redact: Callable[[Any], Any] = lambda value: value,
        sandbox: str = "auto",
        private: Iterable[Path] = (),
    ) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.host = host
        self.root = root
        self.policy = policy
        self.resolve = resolve
        self.redact = redact
        self.sandbox = sandbox
        self.private = tuple(private)
        self._aliases: dict[str, str] = {}
        self._sort()
        self._locks: dict[str, asyncio.Lock] = {}
        self._absent: dict[str, str] = {}
        self.background = Background()
        """What goes on beside the run that uses these tools."""

    def narrowed(self, tools: Iterable[Tool], absent: dict[str, str]) -> Toolbox:
        """A toolbox of these tools with the same surroundings, rights and locks; ``absent`` says why others are not."""
        toolbox = Toolbox(
            tools,
            host=self.host,
            root=self.root,
            policy=self.policy,
            resolve=self.resolve,
            redact=self.redact,
            sandbox=self.sandbox,
            private=self.private,
        )
        toolbox._locks, toolbox._absent = self._locks, absent
        return toolbox

    # What is bound -----------------------------------------------------------------------------------------------

    def add(self, tool: Tool) -> None:
        """Add or replace a tool."""
        self.tools[tool.name] = tool
        self._sort()

    def remove(self, name: str) -> None:
        """Take a tool away."""
        del self.tools[name]
        self._sort()

    def _sort(self) -> None:
        """Part the tools once, not at each round."""
        self._aliases = {alias: tool.name for tool in self.tools.values() for alias in tool.aliases}
        self.eager = [tool for tool in self.tools.values() if not tool.deferred]
        """Tools that are always bound."""
        self.deferred = [tool for tool in self.tools.values() if tool.deferred]
        """Tools that are bound once ``tool_search`` fetched them."""

    def find(self, name: str) -> Tool | None:
        """The tool of that name or alias."""
        return self.tools.get(name) or self.tools.get(self._aliases.get(name, ""))

    def bound(self, transcript: Transcript) -> list[Tool]:
        """Eager tools, then the fetched ones in order of fetching."""
        fetched = [self.tools[name] for name in transcript.fetched if name in self.tools]
        return self.eager + fetched[-MAX_FETCHED:]

    def nearest(self, name: str) -> list[str]:
        """Names that were probably meant."""
        return difflib.get_close_matches(name, [*self.tools, *self._aliases], n=3, cutoff=0.5)

    # Running -----------------------------------------------------------------------------------------------------

    async def run_open(self, transcript: Transcript) -> AsyncGenerator[Event, None]:
        """Run the open calls side by side and store each result as it comes.

        Calls that wait for the person are told as :class:`QuestionAsked` or :class:`ApprovalAsked` and stay open.
        Closing the generator cancels what still runs.
        """
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        tasks: list[asyncio.Task[None]] = []
        try:
            asked: list[Event] = []
            for call in transcript.open_calls:
                event = self._asked(call, transcript)
                if isinstance(event, (QuestionAsked, ApprovalAsked)):
                    asked.append(event)
                    continue
                if event is not None:
                    yield event
                tasks.append(asyncio.create_task(self._run_stored(call, transcript, events.put_nowait)))
            await asyncio.sleep(0)  # what begins is told first, so that the questions stand last
            while not events.empty():
                if (event := events.get_nowait()) is not None:
                    yield event
            for event in asked:
                yield event
            if tasks:
                running = asyncio.gather(*tasks)

                def ended(done: asyncio.Future[Any]) -> None:
                    if not done.cancelled():
                        done.exception()  # looked at here: a generator that is left early would have it logged
                    events.put_nowait(None)

                running.add_done_callback(ended)
                while (event := await events.get()) is not None:
                    yield event
                await running
            transcript.tell()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def waits(self, call: ToolCall, transcript: Transcript) -> bool:
        """Whether an open call has done nothing yet: it asks the person, or needs their word first."""
        tool = self.find(call.name)
        return bool(tool and tool.ask) or isinstance(self._asked(call, transcript), ApprovalAsked)

    def _asked(self, call: ToolCall, transcript: Transcript) -> Event | None:
        """The event that a call waits with, or that its question was answered with; None where it just goes on."""
        tool = self.find(call.name)
        if call.id in transcript.answers or tool is None or call.arguments is None:
            return None
        if not self._is_bound(tool, transcript):
            return None
        if tool.ask:
            with contextlib.suppress(ToolError):
                ask = tool.ask(call)
                if (answer := self.resolve(ask)) is None:
                    return QuestionAsked(ask)
                transcript.answer(ask, answer)
                return Answered(ask, answer)
            return None
        try:
            asked = self.policy.person and self._verdict(tool, call, transcript) is Verdict.ASK
        except ToolError:  # the tool refuses the call, whatever a person says
            asked = False
        if not asked:
            return None
        arguments = call.arguments
        detail = tool.preview(arguments) if tool.preview else _preview(call)
        access = tool.access(self.root, arguments)
        return ApprovalAsked(approval_ask(call, self.redact(detail), access, tool.title), call)

    def _is_bound(self, tool: Tool, transcript: Transcript) -> bool:
        return not tool.deferred or tool.name in transcript.fetched

    def _verdict(self, tool: Tool, call: ToolCall, transcript: Transcript) -> Verdict:
        access = tool.access(self.root, call.arguments or {})
        return self.policy.verdict(access, approved=tool.name in transcript.approved)

    async def _run_stored(self, call: ToolCall, transcript: Transcript, emit: Emit) -> None:
        emit(ToolStarted(call))
        started = time.perf_counter()
        tool = self.find(call.name)
        try:
            output = await self._run(tool, call, transcript, emit)
        except asyncio.CancelledError:
            output = _failure("stopped by the person; effects may have happened. Check before you repeat it.")
            self._store(tool, call, output, transcript, emit, started)
            raise
        self._store(tool, call, output, transcript, emit, started)

    def _store(
        self, tool: Tool | None, call: ToolCall, output: Output, transcript: Transcript, emit: Emit, started: float
    ) -> None:
        for event in output.events:
            emit(event)
        result = self._windowed(tool, call, output, transcript)
        result.seconds = time.perf_counter() - started
        transcript.result(result)
        emit(ToolFinished(call, result))

    async def _run(self, tool: Tool | None, call: ToolCall, transcript: Transcript, emit: Emit) -> Output:
        """The call's output; whatever goes wrong is an output too."""
        try:
            tool = self._admitted(tool, call, transcript)
            if tool.ask and tool.answered:
                return tool.answered(tool.ask(call), transcript.answers[call.id])
            context = ToolContext(
                call,
                self.root,
                self.host,
                self,
                transcript,
                lambda text: emit(ToolProgress(call.id, self.redact(text))),
            )
            return await self._bounded(tool, context)
        except ToolError as error:
            return _failure(str(error))
        except Exception as error:  # the one place where a tool's own fault becomes a result
            kept = {"traceback": traceback.format_exc()}
            return _failure(f"{call.name} failed: {type(error).__name__}: {error}", kept)

    def _admitted(self, tool: Tool | None, call: ToolCall, transcript: Transcript) -> Tool:
        """The tool, if this call of it may run."""
        if tool is None and call.name in self._absent:
            raise ToolError(self._absent[call.name])
        if tool is None:
            near = self.nearest(call.name)
            hint = f" Did you mean {', '.join(near)}?" if near else " Look for one with tool_search."
            raise ToolError(f"there is no tool {call.name!r}.{hint}")
        if not self._is_bound(tool, transcript):
            raise ToolError(
                f'{tool.name} is deferred: fetch it first with tool_search(query="select:{tool.name}"), then call it.'
            )
        if call.arguments is None:
            raise ToolError(f"the arguments are not a JSON object: {call.raw[:500]!r}. Send the call again.")
        answer = transcript.answers.get(call.id)
        if answer is not None and not tool.ask:
            if (denied := denied_by_person(answer)) is not None:
                raise ToolError(denied)
            return tool
        if not tool.ask and self._verdict(tool, call, transcript) is not Verdict.RUN:
            raise ToolError(self.policy.denial())
        return tool

    async def _bounded(self, tool: Tool, context: ToolContext) -> Output:
        """Wait for the call at most as long as its tool says; the time bounds the wait, not the work."""
        arguments = context.call.arguments or {}
        work = asyncio.create_task(self._locked(tool, context))
        seconds = tool.seconds(arguments)
        try:
            done, _ = await asyncio.wait({work}, timeout=seconds)
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait({work}, timeout=2)  # time to tidy up, not to finish
            raise
        if done:
            return work.result()
        handle = f"r{len(context.transcript.lines) + 1}"
        work.add_done_callback(lambda task: self._ended_late(tool, context, handle, task))
        return _failure(
            f"no result after {seconds:g} s. The work may still be running: check its effects before you repeat it. "
            f'You will be told when it ends; its output is then at read_result(handle="{handle}").',
            {"later": handle},
        )

    def _ended_late(self, tool: Tool, context: ToolContext, handle: str, task: asyncio.Task[Output]) -> None:
        """Keep what came of work that outlived the wait for it, to be told before the next request."""
        if task.cancelled():
            return
        error = task.exception()
        output = task.result() if error is None else _failure(f"{type(error).__name__}: {error}")
        texts = [part for part in output.parts() if isinstance(part, str)]
        try:
            context.transcript.spool.put(handle, self.redact("\n".join(texts)))
            context.transcript.append("ended_late", name=tool.name, ok=output.ok, handle=handle)
        except (CumulusError, OSError):  # the conversation went to another kernel, or its folder is gone
            return

    async def _locked(self, tool: Tool, context: ToolContext) -> Output:
        arguments = context.call.arguments or {}
        async with contextlib.AsyncExitStack() as stack:
            for name in sorted(set(tool.locks(self.root, arguments))):
                await stack.enter_async_context(self._locks.setdefault(name, asyncio.Lock()))
            return await tool.run(context, arguments)

    def _windowed(self, tool: Tool | None, call: ToolCall, output: Output, transcript: Transcript) -> ToolResult:
        parts = [part if isinstance(part, Image) else self.redact(part) for part in output.parts()]
        result = ToolResult(
            call.id, tool.name if tool else call.name, parts, output.ok, details=self.redact(output.details)
        )
        if tool is None or tool.ask:  # a person's answers are never windowed
            return result
        texts = [index for index, part in enumerate(parts) if isinstance(part, str)]
        whole = "\n".join(str(parts[index]) for index in texts)
        handle = f"r{len(transcript.lines) + 1}"
        shown = window(whole, tool.cap, handle)
        if shown == whole:
            return result
        transcript.spool.put(handle, whole)
        images = [part for part in parts if isinstance(part, Image)]
        return replace(result, content=[shown, *images], handle=handle, size=len(whole))


def _failure(text: str, details: dict[str, str] | None = None) -> Output:
    return Output(text, dict(details or {}), ok=False)


def _preview(call: ToolCall) -> str:
    """What a person must see to decide: the call's arguments, long ones cut."""
    told = {}
    for key, value in (call.arguments or {}).items():
        text = str(value)
        told[key] = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} … ({len(text):,} characters)"
    if set(told) <= {"code"} or set(told) <= {"command"}:
        return "".join(told.values())
    return "\n".join(f"{key}: {text}" for key, text in told.items())
