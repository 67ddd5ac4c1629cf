"""Sub-agents in their parent's cell: one block each, folded to a line, live while it works."""

from __future__ import annotations

import time
from typing import Any

from ..agent import events as e
from .board import Block, Board
from .labels import label, result_note, shortened

__all__ = ["Agents"]

_MARKS = {
    "submitted": "waiting",
    "running": "running",
    "completed": "ok",
    "failed": "error",
    "cancelled": "stopped",
    "rejected": "denied",
}
_OPEN_STEPS = 6
"""Steps that an open block carries: each update sends them again."""
_STEPS = 100


class Agents:
    """Draws the sub-agents of a run on its board."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._blocks: dict[str, Block] = {}
        self._steps: dict[str, list[dict[str, str]]] = {}
        self.calls: set[str] = set()
        """Calls that a line tells of."""

    @property
    def live(self) -> bool:
        """Whether one is at work."""
        return any(block.open for block in self._blocks.values())

    def show(self, event: e.Nested) -> None:
        """Draw an event of a sub-agent."""
        block = self._blocks.get(event.agent_id) or self._new(event)
        inner = event.event
        if isinstance(inner, e.AgentState):
            self._stands(event.agent_id, block, inner)
        elif not block.open or not self._does(event.agent_id, block.data, inner):
            return
        self._board.touch(block)

    def finish(self) -> None:
        """Say of those that were at work when the run was stopped that they were."""
        for agent_id, block in self._blocks.items():
            if block.open:
                seconds = time.time() - block.data["started"] / 1000
                state = e.AgentState("cancelled", block.data["task"], block.data["rounds"], seconds)
                self._stands(agent_id, block, state)
                self._board.touch(block)

    def _new(self, event: e.Nested) -> Block:
        block = self._blocks[event.agent_id] = self._board.new(
            "agent",
            name=event.name,
            task="",
            word="submitted",
            status="waiting",
            rounds=0,
            seconds=None,
            started=int(time.time() * 1000),
            activity="",
            steps=[],
            earlier=0,
            text="",
            error="",
        )
        self._steps[event.agent_id] = []
        return block

    def _stands(self, agent_id: str, block: Block, state: e.AgentState) -> None:
        final = state.status not in ("submitted", "running")
        if state.status == "running" and block.data["word"] == "submitted":
            block.data |= {"started": int(time.time() * 1000), "activity": "thinking"}
        waits = state.status == "running" and block.data["status"] == "waiting" and block.data["word"] == "running"
        block.data |= {
            "word": state.status,
            "status": "waiting" if waits else _MARKS[state.status],
            "task": shortened(state.task, 2_000),
            "rounds": state.rounds,
        }
        if final:
            steps = self._steps[agent_id]
            block.data |= {
                "state": "closed",
                "seconds": round(state.seconds, 2),
                "activity": "",
                "steps": steps[-_STEPS:],
                "earlier": max(len(steps) - _STEPS, 0),
                "text": shortened(state.text),
                "error": state.error,
            }

    def _does(self, agent_id: str, data: dict[str, Any], event: e.Event) -> bool:
        """Note what a sub-agent does; whether there is something new to see."""
        status, activity = "running", data["activity"]
        if type(event) is e.TextDelta:
            activity = "writing"
        elif isinstance(event, e.RoundStarted):
            activity = "thinking"
        elif isinstance(event, e.ToolStarted):
            activity = _said(label(event.call))
            self.calls.add(event.call.id)
        elif isinstance(event, e.ToolFinished):
            self._step(agent_id, data, event)
            activity = "thinking"
        elif isinstance(event, e.ApprovalAsked):
            status, activity = "waiting", "waits for your approval"
        elif isinstance(event, e.Answered):
            activity = "thinking"
        elif isinstance(event, e.Retrying):
            activity = f"{event.reason} — attempt {event.attempt} of {event.attempts}"
        else:
            return False
        changed = (status, activity) != (data["status"], data["activity"]) or isinstance(event, e.ToolFinished)
        data |= {"status": status, "activity": activity}
        return changed

    def _step(self, agent_id: str, data: dict[str, Any], event: e.ToolFinished) -> None:
        note = result_note(event.result)
        text = _said(label(event.call, event.result)) + (f" — {note}" if note else "")
        steps = self._steps[agent_id]
        steps.append({"status": "ok" if event.result.ok else "error", "text": text})
        data |= {"steps": steps[-_OPEN_STEPS:], "earlier": max(len(steps) - _OPEN_STEPS, 0)}


def _said(told: tuple[str, str, str]) -> str:
    return f"{told[0]} {told[1]}".strip()
