"""The sub-agents of a run: admission, states, messages to them, their rights, their usage, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any

from .background import Background, Inbox
from .child import Build, Child, State, Task, entry, grant, narrower, outcome, used
from .errors import AgentError, CumulusError, ToolError
from .events import AgentState, Answered, ApprovalAsked, Event, Finished, Nested, Paused, ToolFinished
from .loop import Limits, spent
from .messages import Ask, RunResult, RunUsage
from .policy import SESSION
from .session import Session
from .tool import LARGE_CAP
from .toolbox import Toolbox
from .transcript import Transcript
from .windowing import as_text, window

__all__ = ["MOST", "PARALLEL", "Crew"]

PARALLEL = 8
"""Sub-agents that run at once; others wait."""
MOST = 32
"""Sub-agents of one run."""
_PATIENCE, _GRACE = 600.0, 5.0
_IDLE_WAITS = 3
_KEPT = 2_000


class Crew(Background):
    """The sub-agents of one conversation's runs.

    What is known of them stands in the parent's transcript, as ``agent`` lines: their states, usage, results. Their
    tools' results stand there too, so that an undo of the run takes back their edits.

    Parameters
    ----------
    transcript, toolbox, limits
        The parent's.
    build
        Makes a sub-agent's work.
    elsewhere
        Where sub-agents run, if not here.
    release
        Called when none is left, and again is harmless.
    patience
        Seconds that a parent that would end waits for news.
    """

    def __init__(
        self,
        transcript: Transcript,
        toolbox: Toolbox,
        limits: Limits,
        build: Build,
        *,
        elsewhere: str = "",
        release: Callable[[], None] = lambda: None,
        patience: float = _PATIENCE,
    ) -> None:
        super().__init__()
        self.transcript, self.toolbox, self.limits = transcript, toolbox, limits
        self.elsewhere = elsewhere
        self.patience = patience
        self._build, self._release = build, release
        self._children: dict[str, Child] = {}
        self._changed = asyncio.Event()
        self._idle = 0
        self._seen: tuple[Any, ...] = ()
        self._polls = (0, 0.0)
        self._admitting = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    # Spawning ----------------------------------------------------------------------------------------------------

    async def spawn(self, task: Task) -> dict[str, Any]:
        """Admit a sub-agent or reject it: ``agent_id``, ``name``, ``status``, and ``error`` where it was rejected."""
        self._begin()
        async with self._admitting:
            child = self._named(task)
            try:
                self._admit()
                toolbox = narrower(self.toolbox, task.tools)
                child.work = await self._build(child.id, replace(task, name=child.name), toolbox)
            except CumulusError as error:
                self._settle(child, State.REJECTED, str(error))
            else:
                self._children[child.id] = child
                if child.session:
                    grant(child.session.transcript, self.transcript.approved)
                self._record(child)
                self._start_next()
        told = {"agent_id": child.id, "name": child.name, "status": str(child.state)}
        return told | ({"error": child.error} if child.error else {})

    def _begin(self) -> None:
        self.live = True
        if (loop := asyncio.get_running_loop()) is not self._loop:  # a script may run each prompt on a loop of its own
            self._loop, self.events = loop, asyncio.Queue()
            self._changed, self._admitting = asyncio.Event(), asyncio.Lock()

    def _named(self, task: Task) -> Child:
        number = len(self.transcript.agents) + 1
        taken = {agent["name"] for agent in self._of_run()}
        name = wanted = " ".join(task.name.split())[:40] or f"agent-{number}"
        again = 2
        while name in taken:
            name, again = f"{wanted} ({again})", again + 1
        return Child(f"agent-{number}", name, task)

    def _of_run(self) -> list[dict[str, Any]]:
        """What the transcript says of this run's sub-agents."""
        return [agent for agent in self.transcript.agents.values() if agent["run"] == self.transcript.run]

    def _admit(self) -> None:
        ever = sum(agent["status"] != State.REJECTED for agent in self._of_run())
        if ever >= MOST:
            raise ToolError(f"this run has had its {MOST} sub-agents (the limit); do the rest without more of them")
        if failure := spent(self.transcript, self.limits):
            raise ToolError(failure)

    # Running -----------------------------------------------------------------------------------------------------

    def _start_next(self) -> None:
        running = sum(child.state is State.RUNNING for child in self._children.values())
        for child in self._children.values():
            if running >= PARALLEL:
                return
            if child.state is State.SUBMITTED and child.task is None:
                child.state, child.started = State.RUNNING, time.monotonic()
                running += 1
                child.task = asyncio.create_task(self._run(child))
                self._record(child)

    async def _run(self, child: Child) -> None:
        usage = None
        try:
            if child.session:
                result = await self._follow(child, child.session)
            else:
                assert callable(child.work)
                result = await child.work()
                usage = result.usage
        except asyncio.CancelledError:
            self._settle(child, *child.end)
        except Exception as error:  # a fault of ours costs this child only
            said = str(error) if isinstance(error, CumulusError) else f"{type(error).__name__}: {error}"
            self._settle(child, State.FAILED, said)
        else:
            child.text = result.text
            self._settle(child, *outcome(result), usage)
        finally:
            child.work = None
            self._start_next()

    async def _follow(self, child: Child, session: Session) -> RunResult:
        events = session.stream(child.given.task)
        asking: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                async with aclosing(events):
                    async for event in events:
                        if isinstance(event, Finished):
                            return event.result
                        self._heard(child, session, event, asking)
                await asyncio.gather(*asking.values())
                asking.clear()
                events = session.resume()
        finally:
            for task in asking.values():
                task.cancel()

    def _heard(self, child: Child, session: Session, event: Event, asking: dict[str, asyncio.Task[None]]) -> None:
        if isinstance(event, Paused) or not child.live:
            return
        self.events.put_nowait(Nested(child.id, child.name, event))
        if isinstance(event, ApprovalAsked) and event.ask.call_id not in asking:
            asking[event.ask.call_id] = asyncio.create_task(self._ask(child, session, event.ask))
        elif isinstance(event, ToolFinished):
            self._keep(child, event)
        elif session.transcript.usage.rounds != child.counted.rounds:
            child.text = session.transcript.last_reply.text
            self._record(child, session.transcript.usage)
            if failure := spent(self.transcript, self.limits):
                self._end(self._live(), State.FAILED, failure)

    def _keep(self, child: Child, event: ToolFinished) -> None:
        """Store what a child's call came to beside its parent's: for whoever reads, and for an undo."""
        result = event.result
        self.transcript.append(
            "result",
            call=f"{child.id}:{result.call_id}",
            agent=child.id,
            name=result.name,
            arguments=event.call.arguments,
            ok=result.ok,
            content=[result.text[:_KEPT]],
            seconds=round(result.seconds, 4),
            details={"undo": result.details["undo"]} if "undo" in result.details else {},
        )

    async def _ask(self, child: Child, session: Session, ask: Ask) -> None:
        """Have the person decide on a child's call, in the parent's cell; only the child waits."""
        questions = tuple(
            replace(q, question=f"Sub-agent {child.name}: {q.question}", header=f"{child.name} · {q.header}")
            for q in ask.questions
        )
        shown = replace(
            ask, call_id=f"{child.id}:{ask.call_id}", name=f"{child.name} · {ask.name}", questions=questions
        )
        child.asking += 1
        try:
            answer = await self.toolbox.host.ask(shown)
        finally:
            child.asking -= 1
        told = session.answer(ask, answer)
        self.transcript.append("approval", call=shown.call_id, agent=child.id, name=ask.name, **asdict(answer))
        if answer.values[:1] == (SESSION,):  # the person's word is for the whole conversation
            for other in self._live():
                if other.session:
                    grant(other.session.transcript, [ask.name])
        self.events.put_nowait(Nested(child.id, child.name, Answered(ask, told.answer)))

    # States ------------------------------------------------------------------------------------------------------

    def _live(self) -> list[Child]:
        return [child for child in self._children.values() if child.live]

    def _settle(self, child: Child, state: State, error: str = "", usage: RunUsage | None = None) -> None:
        """Give a child its final state; the first one stands."""
        if not child.live:
            return
        child.seconds = child.age
        child.state, child.error, child.told = state, error, state is State.REJECTED
        self._record(child, child.session.transcript.usage if child.session else usage)
        self._changed.set()
        if not self._live():
            self._release()

    def _record(self, child: Child, usage: RunUsage | None = None) -> None:
        """Store how a child stands and what it has used since the last time, and tell it."""
        before, child.counted = child.counted, replace(usage, seconds=0.0) if usage else child.counted
        facts: dict[str, Any] = {"status": str(child.state), "rounds": child.counted.rounds}
        if child.state is State.SUBMITTED:
            facts |= {"task": child.given.task, **({"where": self.elsewhere} if self.elsewhere else {})}
        if child.counted != before:
            facts["used"] = used(child.counted, before)
        state = AgentState(str(child.state), child.given.task, child.counted.rounds, child.age)
        if not child.live:
            facts |= {"seconds": round(child.seconds, 3), "text": child.text, "error": child.error}
            state = replace(state, text=child.text, error=child.error)
        self.transcript.append("agent", agent=child.id, name=child.name, **facts)
        self.events.put_nowait(Nested(child.id, child.name, state))

    # Checking and steering ---------------------------------------------------------------------------------------

    async def check(self, *, wait: bool, timeout: float) -> dict[str, Any]:
        """How each stands; with ``wait`` not before one has ended that was not told yet, or ``timeout`` s have passed.

        A result is told once while there is something newer to tell, and again when there is not.
        """
        if wait:
            await self._ended(timeout)
        report: dict[str, Any] = {"agents": self.report()}
        now = self._marks()
        times, since = self._polls
        self._polls = (times + 1, since) if now == self._seen else (1, time.monotonic())
        self._seen = now
        if self._polls[0] >= 3 and self._live():
            age = time.monotonic() - self._polls[1]
            report["note"] = (
                f"nothing new in {self._polls[0]} checks ({age:.0f} s). Wait for an end with check_agents(wait=true, "
                'timeout=600), go on with other work, or stop one with steer_agent(action="cancel").'
            )
        return report

    def report(self) -> list[dict[str, Any]]:
        """The run's sub-agents as the model is told of them; their results count as told from now on."""
        fresh = {child.id for child in self._children.values() if not child.live and not child.told}
        again = not fresh and not self._live()
        told = []
        for agent in self._of_run():
            child = self._children.get(agent["agent"])
            told.append(entry(agent, child, whole=again or child is None or child.id in fresh))
            if child and not child.live:
                child.told = True
        return told

    def _marks(self) -> tuple[Any, ...]:
        return tuple((child.id, child.state, child.counted.rounds) for child in self._children.values())

    def _untold(self) -> bool:
        return any(not child.live and not child.told for child in self._children.values())

    async def _ended(self, timeout: float) -> bool:
        """Wait until a child has ended that was not told yet; False where none did in ``timeout`` s."""
        deadline = time.monotonic() + timeout
        while not self._untold() and self._live():
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), max(deadline - time.monotonic(), 0))
            if time.monotonic() >= deadline:
                break
        return self._untold()

    def message(self, agent_id: str, text: str) -> str:
        """Say something to a child before its next round; what will come of it, in words."""
        child = self._find(agent_id)
        if not child.live:
            raise ToolError(f"{agent_id} has ended ({child.state}): a message can't reach it. Spawn another one.")
        if child.session is None:
            raise ToolError(f"{agent_id} runs on {self.elsewhere}, where messages can't be sent; it can be cancelled.")
        inbox = child.session.toolbox.background
        assert isinstance(inbox, Inbox)
        inbox.put(f"<message from your parent>\n{text}\n</message from your parent>")
        return f"{child.name} reads it before its next round"

    async def cancel(self, agent_id: str) -> str:
        """End a child; how it stands then, in words."""
        child = self._find(agent_id)
        if child.live:
            await self._stop([child], State.CANCELLED, "cancelled by its parent")
            child.told = True
        return f"{agent_id} is {child.state}" + (f" ({child.error})" if child.error else "")

    def _find(self, agent_id: str) -> Child:
        named = [child for child in self._children.values() if agent_id in (child.id, child.name)]
        if not named:
            known = ", ".join(f"{child.id} ({child.name})" for child in self._children.values()) or "none"
            raise ToolError(f"there is no sub-agent {agent_id!r} at work; there are: {known}")
        return named[0]

    # The end -----------------------------------------------------------------------------------------------------

    async def more(self) -> str:
        """Results for a parent that would end while children live, once one has ended."""
        while self._live() and not self._untold():
            before = self._marks()
            if await self._ended(self.patience) or any(child.asking for child in self._live()):
                continue
            self._idle = self._idle + 1 if self._marks() == before else 0
            if self._idle >= _IDLE_WAITS:
                raise AgentError(
                    f"sub-agents came to nothing in {self._idle * self.patience:,.0f} s and were cancelled: "
                    f"{await self.close()}"
                )
            return self._handed("Your sub-agents still work; nothing has ended. Wait on, steer or cancel them.")
        if not self._untold():
            return ""
        self._idle = 0
        return self._handed("You ended your turn while these were open; what has ended since stands here.")

    def _handed(self, said: str) -> str:
        whole = as_text(self.toolbox.redact({"agents": self.report()}))
        handle = f"r{len(self.transcript.lines) + 1}"
        shown = window(whole, LARGE_CAP, handle)
        if shown != whole:
            self.transcript.spool.put(handle, whole)
        return f"<sub-agents>\n{said}\n{shown}\n</sub-agents>"

    async def close(self) -> str:
        """End all children, and wait until they have ended; names of those that were cut."""
        cut = self._live()
        await self._stop(cut, State.CANCELLED, "cancelled with the run of its parent")
        self._forget()
        return ", ".join(child.name for child in cut)

    def cut(self, reason: str) -> None:
        """End all children at once."""
        self._end(self._live(), State.CANCELLED, reason)
        for child in self._live():
            self._settle(child, State.CANCELLED, reason)
        self._forget()

    def _forget(self) -> None:
        """The next run has nothing to be told of these."""
        for child in self._children.values():
            child.told = True

    def _end(self, children: Iterable[Child], state: State, reason: str) -> None:
        for child in children:
            child.end = (state, reason)
            if child.task is None:
                self._settle(child, state, reason)
            else:
                child.task.cancel()

    async def _stop(self, children: list[Child], state: State, reason: str) -> None:
        self._end(children, state, reason)
        if tasks := [child.task for child in children if child.task]:
            await asyncio.wait(tasks, timeout=_GRACE)
        for child in children:  # one that did not heed it in time
            self._settle(child, state, reason)
