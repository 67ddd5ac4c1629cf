"""``spawn_agent``, ``spawn_agents``, ``check_agents``, ``steer_agent``: sub-agents for parts of a task."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from ..agent.child import Task
from ..agent.crew import Crew
from ..agent.errors import ToolError
from ..agent.tool import DEFAULT_CAP, LARGE_CAP, Output, ToolContext
from .function import tool

__all__ = ["AgentTask", "check_agents", "spawn_agent", "spawn_agents", "steer_agent"]

_LONGEST_WAIT = 600.0
_TASK = "all that the sub-agent needs to know: it sees nothing of this conversation"
_TOOLS = "names of the tools that it may use; leave out for all of yours, [] for none"


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What one sub-agent is to do."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    task: Annotated[str, _TASK]
    name: Annotated[str, "a short name for the person who watches"] = ""
    tools: Annotated[list[str] | None, _TOOLS] = None
    model: Annotated[str | None, "another model, as -m names it"] = None
    max_turns: Annotated[int | None, "rounds at most"] = None


@tool(deferred=True, cap=DEFAULT_CAP)
async def spawn_agent(
    ctx: ToolContext,
    task: Annotated[str, _TASK],
    name: Annotated[str, "a short name for the person who watches"] = "",
    tools: Annotated[list[str] | None, _TOOLS] = None,
    model: Annotated[str | None, "another model, as -m names it"] = None,
    max_turns: Annotated[int | None, "rounds at most"] = None,
) -> Output:
    """Start a sub-agent on a part of the task, with a context of its own; it works while you go on.

    Gives its agent_id and status, not its result: get that with check_agents. Sub-agents are one level deep, share your
    files and variables, and can't ask the person. Give parts that don't touch the same files.
    """
    crew = _crew(ctx)
    told = await _spawned(crew, AgentTask(task, name, tools, model, max_turns))
    return Output(_line(told | _where(crew)), {"agents": [told]}, ok="error" not in told)


@tool(deferred=True, cap=DEFAULT_CAP)
async def spawn_agents(ctx: ToolContext, tasks: Annotated[list[AgentTask], "one entry a sub-agent"]) -> Output:
    """Start several sub-agents at once: up to 8 run side by side, others wait their turn; 32 a run.

    Each entry is what spawn_agent takes. Gives agent_id and status of each; get results with check_agents.
    """
    if not tasks:
        raise ToolError("there is no task in the list")
    crew = _crew(ctx)
    told = [await _spawned(crew, task) for task in tasks]
    text = ",\n".join(map(_line, told))
    rest = f", {_line(_where(crew))[1:-1]}" if crew.elsewhere else ""
    return Output(f'{{"agents": [\n{text}\n]{rest}}}', {"agents": told}, ok=any("error" not in entry for entry in told))


def _seconds(arguments: dict[str, Any]) -> float:
    return _LONGEST_WAIT + 30 if arguments.get("wait") else 120.0


@tool(deferred=True, cap=LARGE_CAP, timeout=_seconds, polling=True)
async def check_agents(
    ctx: ToolContext,
    wait: Annotated[bool, "wait until at least one has ended that you were not told of"] = False,
    timeout: Annotated[float, "seconds to wait at most, up to 600"] = 30,
) -> dict[str, Any]:
    """How your sub-agents stand: status, rounds, seconds, and the result or error of those that have ended.

    A result stands here once; it comes again when all have ended and all was told.
    """
    return await _crew(ctx).check(wait=wait, timeout=min(max(timeout, 0.0), _LONGEST_WAIT))


@tool(deferred=True, cap=DEFAULT_CAP)
async def steer_agent(
    ctx: ToolContext,
    agent_id: str,
    action: Annotated[Literal["message", "cancel"], "correct it, or end it"],
    message: Annotated[str, "what it reads before its next round"] = "",
) -> str:
    """Correct a sub-agent at work with a message, or cancel it."""
    crew = _crew(ctx)
    if action == "cancel":
        return await crew.cancel(agent_id)
    if not message.strip():
        raise ToolError("a message needs a text")
    return crew.message(agent_id, message)


def _crew(ctx: ToolContext) -> Crew:
    crew = ctx.toolbox.background
    if not isinstance(crew, Crew):
        raise ToolError("no sub-agents can be started here; do the task yourself")
    return crew


async def _spawned(crew: Crew, task: AgentTask) -> dict[str, Any]:
    tools = None if task.tools is None else tuple(task.tools)
    return await crew.spawn(Task(task.task, task.name, tools, task.model, task.max_turns))


def _where(crew: Crew) -> dict[str, str]:
    if not crew.elsewhere:
        return {}
    note = "cancelling works for sure only before it begins; messages can't be sent; files on the shared folder only"
    return {"where": crew.elsewhere, "note": note}


def _line(told: dict[str, Any]) -> str:
    return json.dumps(told, ensure_ascii=False)
