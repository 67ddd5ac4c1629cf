"""The seam to a model: one method that streams a reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from .events import Notice, TextDelta, ThinkingDelta
from .messages import Message, Reply
from .tool import Tool

__all__ = ["THINKING_BUDGETS", "ModelFacts", "Provider", "Request"]

THINKING_BUDGETS = {"low": 2_048, "medium": 6_144, "high": 12_288}
"""Tokens of thinking that an effort comes to."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model: largest reply and context window in tokens, pictures, USD per million tokens."""

    ceiling: int = 65_536
    window: int = 131_072
    images: bool = True
    thinking: bool = False
    price: tuple[float, float, float] | None = None
    """Input, cached input, output."""

    def thinking_budget(self, effort: str | None) -> int:
        """Tokens that thinking may take at this effort; none for a model that doesn't think."""
        return THINKING_BUDGETS.get(effort or "medium", THINKING_BUDGETS["medium"]) if self.thinking else 0

    def cost(self, input: int, cached: int, output: int) -> float | None:
        """USD of that many tokens, None where no price is known."""
        if self.price is None:
            return None
        fresh, read, written = self.price
        return ((input - cached) * fresh + cached * read + output * written) / 1_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model.

    ``tools`` are bound now, in an order that never changes within a run. ``deferred`` are those it may fetch: an
    adapter whose wire has a notion of deferred tools may send them as such; the others leave them out.
    """

    system: str
    messages: Sequence[Message]
    tools: Sequence[Tool]
    deferred: Sequence[Tool]
    max_tokens: int
    effort: str | None = None
    allow_calls: bool = True


class Provider(Protocol):
    """A model behind some wire.

    ``stream`` yields text and thinking as they come and the complete :class:`Reply` last. It raises
    :class:`ProviderError` for anything that went wrong, a stream that ended early included, and never retries.
    """

    @property
    def name(self) -> str:
        """As the person names it, ``anthropic/claude-…`` say."""
        ...

    @property
    def host(self) -> str:
        """Where the conversation goes, for the person: ``api.anthropic.com``, ``this machine``."""
        ...

    @property
    def facts(self) -> ModelFacts:
        """What is known of the model, learned facts included."""
        ...

    @property
    def notice(self) -> str:
        """What the person must know before the first reply; usually empty."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[TextDelta | ThinkingDelta | Notice | Reply, None]:
        """Send the request and stream the reply; a notice is what the person must know of this request."""
        ...

    def body(self, request: Request) -> bytes:
        """The exact bytes that ``stream`` would send."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
