"""What sub-agents are made of: sessions in this kernel, or runs on an engine's workers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from .agent.child import SubSpool, Task, Work
from .agent.crew import Crew
from .agent.errors import AgentError, SettingsError
from .agent.loop import Limits
from .agent.messages import RunResult, RunUsage, Status
from .agent.provider import Provider
from .agent.session import Session
from .agent.toolbox import Toolbox
from .agent.transcript import Transcript
from .prompts import child_prompt
from .tools.listing import listing
from .workers import TRAVELLING, Engine, open_engine, run_child

__all__ = ["crew"]


def crew(
    transcript: Transcript,
    toolbox: Toolbox,
    limits: Limits,
    provider: Provider,
    *,
    workers: str,
    others: Callable[[str], Provider | None] | None,
) -> Crew:
    """The crew of a conversation whose runs have these tools, limits and model.

    ``workers`` is where its sub-agents run, as the setting of that name. ``others`` gives another model's provider by
    its name, and raises :class:`SettingsError` where it can't be used; None where the run is recorded or replayed.
    """
    build = _Build(transcript, limits, provider, workers, others)
    elsewhere = "" if workers in ("", "local") else workers
    return Crew(transcript, toolbox, limits, build, elsewhere=elsewhere, release=build.release)


@dataclass(slots=True)
class _Build:
    parent: Transcript
    limits: Limits
    provider: Provider
    workers: str
    others: Callable[[str], Provider | None] | None
    engine: Engine | None = field(default=None, init=False)
    fault: SettingsError | None = field(default=None, init=False)

    async def __call__(self, agent_id: str, task: Task, toolbox: Toolbox) -> Work:
        limits = replace(self.limits, turns=min(task.max_turns or self.limits.turns, self.limits.turns))
        # Tokens and USD are counted for parent and children together, by the crew.
        limits = replace(limits, turns=max(limits.turns, 1), tokens=None, cost=None)
        if engine := await self._opened():
            return self._remote(engine, task, toolbox, limits)
        provider = self._named(task.model) if task.model else self.provider
        transcript = Transcript(spool=SubSpool(self.parent.spool, agent_id))
        system = child_prompt(toolbox.root, task.name, listing=listing(toolbox))
        return Session(transcript, provider, toolbox, limits, system)

    async def _opened(self) -> Engine | None:
        if self.fault:  # each try takes its time
            raise self.fault
        try:
            self.engine = self.engine or await asyncio.to_thread(open_engine, self.workers)
        except SettingsError as error:
            self.fault = error
            raise
        return self.engine

    def _named(self, model: str) -> Provider:
        found = self.others(model) if self.others else None
        if found is None:
            raise SettingsError("under --record and --replay sub-agents use the run's own model: leave model out")
        return found

    def _remote(self, engine: Engine, task: Task, toolbox: Toolbox, limits: Limits) -> Work:
        if stay := [name for name in task.tools or () if name not in TRAVELLING]:
            raise SettingsError(f"{', '.join(stay)} can't be used on {engine.name}; what can: {', '.join(TRAVELLING)}")
        spec = {
            "task": task.task,
            "name": task.name,
            "model": task.model or self.provider.name,
            "tools": [name for name in toolbox.tools if name in TRAVELLING],
            "limits": asdict(limits),
            "approve": toolbox.policy.approve,
            "sandbox": toolbox.sandbox,
            "root": str(toolbox.root),
        }
        return partial(_on_worker, engine, spec)

    def release(self) -> None:
        """Let the engine go; the next sub-agent opens it again."""
        engine, self.engine = self.engine, None
        if engine is not None:
            threading.Thread(target=engine.close, daemon=True).start()


async def _on_worker(engine: Engine, spec: dict[str, Any]) -> RunResult:
    try:
        told = await asyncio.wrap_future(engine.submit(run_child, spec))
    except Exception as error:  # what an engine raises for a worker that died is its own
        raise AgentError(f"on {engine.name}: {error or type(error).__name__}") from error
    usage = RunUsage(**told["usage"]) if told["usage"] else RunUsage(cost=0.0)
    return RunResult(told["text"], Status(told["status"]), usage, error=told["error"])
