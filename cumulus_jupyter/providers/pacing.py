"""Many conversations with one server: where it asks one of them for slower requests, all of them slow down."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from ..agent.errors import ProviderError
from ..agent.events import Notice, TextDelta, ThinkingDelta
from ..agent.messages import Reply
from ..agent.provider import ModelFacts, Provider, Request

__all__ = ["PacedProvider"]

_PATIENCE = 12
"""Pauses in a row without a reply between them; after that a request fails."""
_LONGEST = 60.0
_LONGEST_ASKED = 1_800.0
"""Seconds; a server that asks to wait for longer means a quota of the day, which nobody waits for in a cell."""
_GAP, _WIDEST_GAP = 0.1, 10.0
"""Seconds from one request to the next once the server asked for slower ones; each reply narrows them again."""
_HOPELESS = (401, 402, 403, 404, 429)
"""Statuses that, where they don't pass, hold for every other request as well."""


class PacedProvider:
    """Passes another provider through, at a pace that all its users share.

    Refused for its pace, a request is sent again after the pause that the server named, and meanwhile no other request
    is sent; it does not count among the attempts of its own conversation.

    ``told`` is called with the seconds of each pause.
    """

    def __init__(self, inner: Provider) -> None:
        self._inner = inner
        self.told: Callable[[float], None] = lambda seconds: None
        self._next = self._paused = 0.0
        self._gap = 0.0
        self._pauses = 0
        self.hopeless: ProviderError | None = None
        """A refusal that every other request will meet too: a wrong key, a spent limit."""
        self.name = inner.name
        self.host = inner.host
        self.notice = inner.notice

    @property
    def facts(self) -> ModelFacts:
        """The model's, learned facts included."""
        return self._inner.facts

    async def stream(self, request: Request) -> AsyncGenerator[TextDelta | ThinkingDelta | Notice | Reply, None]:
        """Send the request when its turn comes and stream the reply."""
        while True:
            await self._turn()
            started, shown = time.monotonic(), False
            try:
                async with aclosing(self._inner.stream(request)) as items:
                    async for item in items:
                        shown = True
                        yield item
            except ProviderError as error:
                if not error.retryable and error.status in _HOPELESS:
                    self.hopeless = error
                if shown or not self._slow_down(error, started):
                    raise
            else:
                self._pauses = 0
                self._gap = self._gap * 0.8 if self._gap > _GAP / 4 else 0.0
                return

    def body(self, request: Request) -> bytes:
        """The exact bytes that ``stream`` would send."""
        return self._inner.body(request)

    async def close(self) -> None:
        """Release connections."""
        await self._inner.close()

    async def _turn(self) -> None:
        while (wait := self._next - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(wait)
        self._next = time.monotonic() + self._gap

    def _slow_down(self, error: ProviderError, started: float) -> bool:
        """Pause all requests, if that is what the error asks for; whether the request may be sent again."""
        if not error.retryable or (error.status != 429 and error.retry_after is None):
            return False
        asked = error.retry_after
        if asked is not None and asked > _LONGEST_ASKED:
            self.hopeless = ProviderError(f"{error} It asks to wait {asked / 60:.0f} minutes.", status=error.status)
            raise self.hopeless from None
        now = time.monotonic()
        if started >= self._paused:  # not a request that was under way when the pause began
            if self._pauses >= _PATIENCE:
                return False
            self._pauses += 1
            self._gap = min(max(self._gap * 2, _GAP), _WIDEST_GAP)
            asked = min(_LONGEST, 2.0 ** (self._pauses - 1) * random.uniform(1, 1.5)) if asked is None else asked
            self._paused = now
            self.told(asked)
        self._next = max(self._next, now + (asked or 0.0))
        return True
