"""What a run tells the outside, one union of events up one async generator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .messages import Answer, Ask, RunResult, RunUsage, ToolCall, ToolResult

__all__ = [
    "AgentState",
    "Answered",
    "ApprovalAsked",
    "Compacted",
    "Compacting",
    "Event",
    "Finished",
    "Nested",
    "Notice",
    "PanelShown",
    "Paused",
    "QuestionAsked",
    "ReplyDiscarded",
    "Retrying",
    "RoundEnded",
    "RoundStarted",
    "TextDelta",
    "ThinkingDelta",
    "TodosChanged",
    "ToolFinished",
    "ToolProgress",
    "ToolStarted",
]


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """A request goes out; ``number`` counts from 1 within the run."""

    number: int


@dataclass(slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(slots=True)
class ThinkingDelta:
    """A piece of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class ReplyDiscarded:
    """The last ``characters`` of this reply's streamed text are taken back; ``reason`` is for the person."""

    reason: str
    characters: int


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """A reply is complete; ``usage`` counts the run so far."""

    usage: RunUsage


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call runs."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """Something to show while a call runs (live output, a step)."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call has its result."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class TodosChanged:
    """The whole checklist: ``label`` and ``status`` (pending, in_progress, completed) of each."""

    todos: list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class PanelShown:
    """A panel as it stands now: ``ui_id``, ``summary``, ``root`` (nodes), and ``live`` where it has inputs."""

    panel: dict[str, Any]


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """The model asks the person."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A call waits for the person's word."""

    ask: Ask
    call: ToolCall


@dataclass(frozen=True, slots=True)
class Answered:
    """An open question or approval is settled."""

    ask: Ask
    answer: Answer


@dataclass(frozen=True, slots=True)
class Retrying:
    """A request failed for a passing reason; it is sent again in ``seconds``."""

    reason: str
    attempt: int
    attempts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Compacting:
    """The conversation takes about ``tokens`` of the model's ``window``: its older turns are being summarised."""

    tokens: int
    window: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """Older turns are a summary now: about how many tokens the conversation took before and takes after."""

    before: int
    after: int
    summary: str


@dataclass(frozen=True, slots=True)
class Paused:
    """The run waits for the person; the transcript holds all that is needed to go on."""

    waiting: list[Ask] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Finished:
    """The run ended."""

    result: RunResult


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence for the person that belongs to no other event."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentState:
    """How a sub-agent stands: ``status`` is one of submitted, running, completed, failed, cancelled, rejected.

    ``text`` is its result, ``error`` why it did not come to its end; ``task`` is what it was given.
    """

    status: str
    task: str
    rounds: int = 0
    seconds: float = 0.0
    text: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Nested:
    """An event of a sub-agent, or how it stands."""

    agent_id: str
    name: str
    event: Event


Event = (
    RoundStarted
    | TextDelta
    | ThinkingDelta
    | ReplyDiscarded
    | RoundEnded
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | TodosChanged
    | PanelShown
    | QuestionAsked
    | ApprovalAsked
    | Answered
    | Retrying
    | Compacting
    | Compacted
    | Notice
    | AgentState
    | Nested
    | Paused
    | Finished
)
