"""What the scripted model knows: what this run's tools returned; and what it says: text and calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..agent.messages import ToolCall, ToolResult, ToolResults, UserMessage
from ..agent.provider import Request

__all__ = ["Call", "Column", "Seen", "Turn"]

Call = tuple[str, dict[str, Any]]
PAUSE = 0.012
"""Seconds between words, so that a stream looks like one."""


@dataclass(slots=True)
class Turn:
    """One scripted reply: text and calls; ``pause`` is seconds between words."""

    text: str
    calls: list[Call]
    pause: float = PAUSE


@dataclass(frozen=True, slots=True)
class Column:
    """A row of the profile that ``run_python`` printed."""

    name: str
    dtype: str
    missing: int
    unique: int

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers."""
        return self.dtype.startswith(("int", "float", "Int", "Float", "uint", "UInt", "bool"))


class Seen:
    """What this run's tools returned so far."""

    def __init__(self, request: Request) -> None:
        start = max(i for i, message in enumerate(request.messages) if isinstance(message, UserMessage))
        prompt = request.messages[start]
        assert isinstance(prompt, UserMessage)
        self.prompt = prompt.text
        self.done: list[tuple[ToolCall, ToolResult]] = []
        for message in request.messages[start:]:
            if isinstance(message, ToolResults):
                self.done += [(c, r) for c, r in zip(message.calls, message.results, strict=True) if r is not None]

    def result(self, name: str, number: int = 0) -> ToolResult | None:
        """The result of the ``number``-th call of a tool."""
        found = [result for call, result in self.done if call.name == name]
        return found[number] if number < len(found) else None

    def count(self, name: str) -> int:
        """How often a tool was called."""
        return sum(call.name == name for call, _ in self.done)

    def argument(self, name: str, key: str, number: int = 0) -> Any:
        """An argument of the ``number``-th call of a tool."""
        return [call.arguments or {} for call, _ in self.done if call.name == name][number].get(key)
