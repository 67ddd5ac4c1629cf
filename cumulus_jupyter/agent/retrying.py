"""Sending a request again after a passing fault, with a pause that the person sees."""

from __future__ import annotations

import random
from asyncio import sleep
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from .errors import ProviderError
from .events import Notice, ReplyDiscarded, Retrying, TextDelta, ThinkingDelta
from .messages import Reply
from .provider import Provider, Request

__all__ = ["ATTEMPTS", "stream"]

ATTEMPTS = 5
_LONGEST = 60.0

Item = TextDelta | ThinkingDelta | Notice | Reply | Retrying | ReplyDiscarded


async def stream(provider: Provider, request: Request) -> AsyncGenerator[Item, None]:
    """Stream one reply, the complete one last; text of a dead attempt is taken back.

    Raises :class:`ProviderError` where a fault doesn't pass. A refused reply size is asked again with the size that
    the server named, once.
    """
    attempt = 1
    while True:
        shown = 0
        try:
            async with aclosing(provider.stream(request)) as items:
                async for item in items:
                    if type(item) is TextDelta:
                        shown += len(item.text)
                    yield item
            return
        except ProviderError as error:
            if shown:
                yield ReplyDiscarded(str(error), shown)
            if error.ceiling and error.ceiling < request.max_tokens:
                request = replace(request, max_tokens=error.ceiling)
                continue
            if not error.retryable or attempt == ATTEMPTS:
                raise
            seconds = error.retry_after if error.retry_after is not None else _pause(attempt)
            attempt += 1
            yield Retrying(str(error), attempt, ATTEMPTS, seconds)
        await sleep(seconds)


def _pause(attempt: int) -> float:
    # Without jitter, all clients of an overloaded server come back at the same moment.
    return max(1.0, min(_LONGEST, 2.0 ** (attempt - 1) * random.uniform(0.75, 1.5)))
