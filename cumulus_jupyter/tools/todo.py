"""``update_todos``: the checklist that the person watches."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar, Literal

from ..agent.errors import ToolError
from ..agent.events import TodosChanged
from ..agent.tool import DEFAULT_CAP, Output, ToolContext
from .function import tool

__all__ = ["Todo", "update_todos"]


@dataclass(frozen=True, slots=True)
class Todo:
    """One step of a plan."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    label: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


@tool(cap=DEFAULT_CAP)
async def update_todos(ctx: ToolContext, todos: Annotated[list[Todo], "the full list, in order"]) -> Output:
    """Show the person your plan as a checklist, for work of several steps.

    Send the full list each time, with at most one step in_progress: mark a step before you start it, and completed as
    soon as it is done. An empty list takes the checklist away.
    """
    if empty := [str(at) for at, todo in enumerate(todos, 1) if not todo.label.strip()]:
        raise ToolError(f"the label of step {', '.join(empty)} is empty; the list was not changed")
    active = [todo.label for todo in todos if todo.status == "in_progress"]
    if len(active) > 1:
        raise ToolError(
            f"{len(active)} steps are in_progress ({'; '.join(active)}), and one at most may be; the list was not "
            "changed. Send it again with the others pending or completed."
        )
    rows = [asdict(todo) for todo in todos]
    counts = Counter(todo.status for todo in todos)
    told = ", ".join(f"{count} {status}" for status, count in counts.items()) or "empty"
    return Output(f"the list is shown: {told}", {"todos": rows}, events=(TodosChanged(rows),))
