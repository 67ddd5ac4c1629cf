"""What passes between a person, a model and tools, in no vendor's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = [
    "Answer",
    "Ask",
    "Image",
    "Message",
    "Option",
    "Outcome",
    "Question",
    "Reply",
    "RunResult",
    "RunUsage",
    "Status",
    "StopReason",
    "ToolCall",
    "ToolResult",
    "ToolResults",
    "Usage",
    "UserMessage",
]


class StopReason(StrEnum):
    """Why a model stopped writing. Calls in the reply decide what comes next, not this word."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTEXT = "context"
    REFUSAL = "refusal"
    PAUSE = "pause"
    UNKNOWN = "unknown"


class Status(StrEnum):
    """How a run stands or ended, in the words that the person sees."""

    RUNNING = "running"
    DONE = "done"
    NEEDS_INPUT = "needs_input"
    STOPPED = "stopped"
    TURN_LIMIT = "turn_limit"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for the model: base64 without line breaks."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asked for.

    ``id`` is unique in the conversation; ``raw_id`` is the server's own, sent back as it came. ``arguments`` is None
    where the model sent something that is no JSON object: ``raw`` then holds that text.
    """

    id: str
    name: str
    arguments: dict[str, Any] | None
    raw_id: str = ""
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request. ``input`` counts cached tokens too; ``cached`` is the part of it read from a cache."""

    input: int = 0
    cached: int = 0
    output: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input + other.input, self.cached + other.cached, self.output + other.output)


@dataclass(slots=True)
class UserMessage:
    """What a person said, with the harness's trailing ``note`` (context, changes) kept apart from their words."""

    text: str
    note: str = ""
    encoded: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)


@dataclass(slots=True)
class Reply:
    """A model's reply.

    ``model`` is who wrote it. ``native`` is what that adapter needs to send the reply back exactly as it came (thinking
    with its signature, say); another model's adapter ignores it.
    """

    text: str
    calls: list[ToolCall] = field(default_factory=list)
    stop: StopReason = StopReason.END
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    native: Any = None
    detail: str = ""
    encoded: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)


@dataclass(slots=True)
class ToolResult:
    """What a call came to.

    ``content`` is the face for the model (text and images, already windowed), ``details`` the face for the screen and
    the transcript. ``handle`` names the whole where ``content`` is a window on ``size`` characters.
    """

    call_id: str
    name: str
    content: Sequence[str | Image]
    ok: bool = True
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)
    handle: str = ""
    size: int = 0

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "\n".join(part for part in self.content if isinstance(part, str))


@dataclass(slots=True)
class ToolResults:
    """The results of one reply's calls, in call order."""

    calls: list[ToolCall]
    results: list[ToolResult | None]
    encoded: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)


Message = UserMessage | Reply | ToolResults


@dataclass(frozen=True, slots=True)
class Option:
    """A choice of a question."""

    label: str
    description: str = ""
    preview: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One question to the person; without options it asks for free text."""

    question: str
    header: str
    options: tuple[Option, ...] = ()
    multi: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """What waits for the person: a model's questions, or the approval of a call."""

    call_id: str
    name: str
    questions: tuple[Question, ...]
    approval: bool = False
    detail: str = ""
    notes_placeholder: str = ""
    timeout_seconds: int | None = None


class Outcome(StrEnum):
    """What became of an :class:`Ask`."""

    ANSWERED = "answered"
    DECLINED = "declined"
    TIMED_OUT = "timed_out"
    NO_USER = "no_user"


@dataclass(frozen=True, slots=True)
class Answer:
    """The person's answer: one text a question, in order; ``notes`` is what they added or the reason of a denial."""

    outcome: Outcome
    values: tuple[str, ...] = ()
    notes: str = ""


@dataclass(frozen=True, slots=True)
class RunUsage:
    """What a run took. ``cost`` is in USD, None where the model's price is unknown."""

    rounds: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    seconds: float = 0.0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended.

    ``questions`` holds (header, answer) pairs, ``tool_calls`` (name, arguments, ok, seconds), both in order.
    """

    text: str
    status: Status
    usage: RunUsage
    questions: list[tuple[str, str]] = field(default_factory=list)
    tool_calls: list[tuple[str, dict[str, Any], bool, float]] = field(default_factory=list)
    error: str | None = None
