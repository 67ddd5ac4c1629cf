"""One sub-agent: what it is given, what it may use, and how it stands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from .background import Inbox
from .errors import ToolError
from .messages import RunResult, RunUsage, Status
from .policy import SESSION
from .session import Session
from .spool import Spool
from .tool import Tool
from .toolbox import Toolbox
from .transcript import Transcript

__all__ = [
    "Build",
    "Child",
    "State",
    "SubSpool",
    "Task",
    "Work",
    "entry",
    "grant",
    "narrower",
    "outcome",
    "used",
]

_NOT_HERE = {
    **dict.fromkeys(
        ("AskUserQuestion", "ask_user_question", "ask_user"),
        "a sub-agent can't ask the person: decide, and say in your result what was open",
    ),
    "present_ui": "a sub-agent shows no panel: give your result as text",
    **dict.fromkeys(
        ("spawn_agent", "spawn_agents", "check_agents", "steer_agent"),
        "rejected: sub-agents are one level deep (limit 1), they start and steer no others; do the task yourself",
    ),
}


class State(StrEnum):
    """How a sub-agent stands. The last four are final: each gets exactly one of them, once."""

    SUBMITTED = "submitted"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


_FINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED, State.REJECTED})


@dataclass(frozen=True, slots=True)
class Task:
    """What a sub-agent is to do. ``tools`` None is all that its parent may use."""

    task: str
    name: str = ""
    tools: tuple[str, ...] | None = None
    model: str | None = None
    max_turns: int | None = None


Work = Session | Callable[[], Awaitable[RunResult]]
"""A session that runs here, or a run elsewhere."""
Build = Callable[[str, Task, Toolbox], Awaitable[Work]]
"""Makes a sub-agent's work from its name, task and tools; raises :class:`CumulusError` where it can't."""


@dataclass(slots=True, eq=False)
class Child:
    """A sub-agent as its parent's side keeps it."""

    id: str
    name: str
    given: Task
    work: Work | None = None
    state: State = State.SUBMITTED
    task: asyncio.Task[None] | None = None
    started: float = 0.0
    seconds: float = 0.0
    counted: RunUsage = field(default_factory=lambda: RunUsage(cost=0.0))
    text: str = ""
    error: str = ""
    end: tuple[State, str] = (State.FAILED, "it was ended from outside")
    """What it comes to when its task is cancelled."""
    asking: int = 0
    told: bool = False

    @property
    def live(self) -> bool:
        """Whether it has no final state yet."""
        return self.state not in _FINAL

    @property
    def age(self) -> float:
        """Seconds that it has run."""
        if not self.live:
            return self.seconds
        return time.monotonic() - self.started if self.started else 0.0

    @property
    def session(self) -> Session | None:
        """Its session, where it runs here."""
        return self.work if isinstance(self.work, Session) else None


class SubSpool(Spool):
    """Whole results of a sub-agent, kept with its parent's under handles of their own."""

    def __init__(self, parent: Spool, agent_id: str) -> None:
        super().__init__()
        self._parent, self._prefix = parent, agent_id.replace("-", "") + "x"

    def _named(self, handle: str) -> str:
        # What an undo needs is named by its content, and looked for by the parent.
        return handle if handle.startswith("before") else f"{self._prefix}{handle}"

    def put(self, handle: str, text: str) -> None:
        """Keep a whole result."""
        self._parent.put(self._named(handle), text)

    def get(self, handle: str) -> str | None:
        """The whole result, None where the handle names none."""
        return self._parent.get(self._named(handle))

    def handles(self) -> list[str]:
        """All handles, oldest first."""
        return [name.removeprefix(self._prefix) for name in self._parent.handles() if name.startswith(self._prefix)]


def narrower(parent: Toolbox, names: Iterable[str] | None) -> Toolbox:
    """The tools of a sub-agent: its parent's without those that are the parent's own, or those of them that are named.

    Raises :class:`ToolError` for a name that it can't have.
    """
    allowed = [tool for tool in parent.tools.values() if not tool.ask and tool.name not in _NOT_HERE]
    if names is not None:
        allowed = _named(parent, allowed, names)
    toolbox = parent.narrowed(allowed, _NOT_HERE)
    toolbox.background = Inbox()
    return toolbox


def _named(parent: Toolbox, allowed: list[Tool], names: Iterable[str]) -> list[Tool]:
    wanted = {tool.name if (tool := parent.find(name)) else name for name in names}
    unfit = sorted(wanted.difference(tool.name for tool in allowed))
    if unfit:
        reasons = "; ".join(f"{name}: {_NOT_HERE.get(name, 'there is no such tool')}" for name in unfit)
        raise ToolError(f"{reasons}. It can have: {', '.join(tool.name for tool in allowed)}")
    return [replace(tool, deferred=False) for tool in allowed if tool.name in wanted]


def grant(transcript: Transcript, names: Iterable[str]) -> None:
    """Give a conversation the person's word for tools that they allowed for the session."""
    for name in names:
        if name not in transcript.approved:
            transcript.append("approval", call="", name=name, outcome="answered", values=[SESSION], notes="")


def outcome(result: RunResult) -> tuple[State, str]:
    """A run's end as a sub-agent's: only a whole, done answer is completed."""
    if result.status is Status.DONE:
        if result.text.strip():
            return State.COMPLETED, ""
        return State.FAILED, "it ended without an answer"
    words = {Status.TURN_LIMIT: "its turn limit was reached", Status.TRUNCATED: "its answer was cut"}
    return State.FAILED, result.error or words.get(result.status, f"it ended: {result.status}")


def entry(agent: dict[str, Any], child: Child | None, *, whole: bool) -> dict[str, Any]:
    """How a sub-agent stands, as its parent is told; ``whole`` with its result."""
    told = {"agent_id": agent["agent"], "name": agent["name"], "status": agent["status"]}
    seconds = child.age if child else agent.get("seconds", 0.0)
    told |= {"seconds": round(seconds, 1), "rounds": agent["rounds"]}
    if child and child.asking:
        told["waits"] = "for the person's approval"
    if agent.get("error"):
        told["error"] = agent["error"]
    if agent.get("text") and whole:
        told["result"] = agent["text"]
    return told


def used(now: RunUsage, before: RunUsage) -> dict[str, Any]:
    """Rounds, tokens and USD between two counts."""
    cost = None if now.cost is None or before.cost is None else now.cost - before.cost
    return {
        "rounds": now.rounds - before.rounds,
        "input": now.input - before.input,
        "cached": now.cached - before.cached,
        "output": now.output - before.output,
        "cost": cost,
    }
