"""What both wires share: ask, decode, fold, and say plainly what went wrong."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ..agent.errors import ProviderError
from ..agent.events import Notice, TextDelta, ThinkingDelta
from ..agent.messages import Reply, StopReason
from ..agent.provider import ModelFacts, Request
from .encoding import images_in
from .failures import Refusal, Target, incomplete, network_error, refused, stream_error
from .limits import read_limits
from .names import called_back
from .sse import DamagedStream, EventDecoder, NotAStream, StreamFault, decode_object
from .transport import Transport

__all__ = ["Folding", "WireProvider"]

_ADAPTABLE = (400, 404, 415, 422, 500, 501)
"""Statuses that servers give to a parameter or a form that they don't know."""
_LOADS = re.compile(r"loading|still starting|warming up|not ready", re.IGNORECASE)
_LOADING = (3.0, 10.0, 30.0, 60.0)
"""Seconds to wait for a server that still loads its model, which takes longer than a passing fault."""
_IMAGE_TOKENS = 1_500
_DRAIN = 0.5
"""Seconds for the end of a response whose reply is whole, so that its connection can be used again."""


class Folding(Protocol):
    """A reply in the making."""

    def take(self, event: dict[str, Any]) -> Sequence[TextDelta | ThinkingDelta]:
        """Take an event; gives what of it is to be shown. Raises :class:`StreamFault` for an error in it."""
        ...

    @property
    def closed(self) -> bool:
        """Nothing more will come, though the connection may stay open."""
        ...

    @property
    def finished(self) -> bool:
        """The server said why the reply ended."""
        ...

    def doubt(self) -> str:
        """Why the reply can't be meant as it is; usually empty."""
        ...

    def end(self, model: str, estimate: Callable[[], int]) -> tuple[list[TextDelta | ThinkingDelta], Reply]:
        """The reply, and what of it is still to be shown."""
        ...


class WireProvider:
    """A model behind an HTTP API that streams events; subclasses know one wire each.

    What a server refuses is learned: a parameter that it does not know is left out from then on, a limit that it names
    holds for the session.
    """

    notice = ""

    def __init__(self, target: Target, facts: ModelFacts, transport: Transport) -> None:
        self.name = target.name
        self.host = target.host
        self.facts = facts
        self._target = target
        self._transport = transport
        self._shared_window = False
        self._left_out: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._news: list[str] = []
        self._loading = 0
        self._doubted: tuple[int, int] | None = None

    async def stream(self, request: Request) -> AsyncGenerator[TextDelta | ThinkingDelta | Notice | Reply, None]:
        """Send the request and stream the reply."""
        body, response = await self._open(request)
        for notice in self._notices():
            yield notice
        fold, decoder = self._folding(request), EventDecoder()
        failure: ProviderError | None = None
        # Where nothing is to be decoded, two layers less a piece.
        chunks = response.aiter_bytes() if "content-encoding" in response.headers else response.aiter_raw()
        try:
            async for chunk in chunks:
                for event in decoder.feed(chunk):
                    for delta in fold.take(event):
                        yield delta
                if decoder.done or fold.closed:
                    break
            else:
                for event in decoder.finish():
                    for delta in fold.take(event):
                        yield delta
            await _drain(chunks)
        except (
            StreamFault,
            ValueError,
            LookupError,
            AttributeError,
            TypeError,
            sys.modules["httpx2"].HTTPError,
        ) as error:
            failure = self._failure(error)
        finally:
            await response.aclose()
        if failure is not None:  # raised here, it does not carry the server's own words along
            raise failure
        self._check(fold, decoder.done, request)
        shown, reply = fold.end(self.name, lambda: _estimate(request, body))
        for delta in shown:
            yield delta
        if not request.allow_calls and reply.calls:
            reply.calls, reply.native, reply.stop = [], None, StopReason.END
        reply.calls = called_back(reply.calls, (*request.tools, *request.deferred))
        yield reply

    def _notices(self) -> list[Notice]:
        """What the person has to know of what was changed or left out, once."""
        news, self._news = self._news, []
        new = {name: why for name, why in self._left_out.items() if self._told.get(name) != why}
        self._told |= new
        return [Notice(text) for text in news] + [
            Notice(f"The tool {name} was left out: {self.host} can't take its schema ({why}).")
            for name, why in new.items()
        ]

    def _failure(self, error: Exception) -> ProviderError:
        """What went wrong in a stream, as the error that is raised."""
        if isinstance(error, StreamFault):
            return stream_error(self._target, error.error)
        if isinstance(error, NotAStream):
            return refused(self._target, Refusal(404, {}, str(error)), None)
        if isinstance(error, DamagedStream):
            return incomplete(self._target, f"it sent something unreadable: {error}")
        if isinstance(error, sys.modules["httpx2"].HTTPError):
            return network_error(self._target, error)
        return incomplete(self._target, f"it sent an event of an unknown shape ({error!r})")

    def body(self, request: Request) -> bytes:
        """The exact bytes that ``stream`` would send."""
        raise NotImplementedError

    def _folding(self, request: Request) -> Folding:
        raise NotImplementedError

    def _adapt(self, text: str, request: Request) -> bool:
        """Change what a refusal complains about; False where it is nothing that can be changed."""
        raise NotImplementedError

    async def models(self) -> list[str]:
        """The names of the models that the server offers. Raises :class:`ProviderError`."""
        try:
            value = decode_object(await self._transport.get(self._models_path))
        except Refusal as refusal:
            raise refused(self._target, refusal, None) from None
        return [str(entry["id"]) for entry in (value or {}).get("data", ()) if "id" in entry]

    _models_path = "/models"

    async def close(self) -> None:
        """Release connections."""
        await self._transport.close()

    async def _open(self, request: Request) -> tuple[bytes, Any]:
        """Send the request, changed until the server takes it; each change happens once."""
        while True:
            body = self.body(request)
            try:
                response = await self._transport.open(body)
                self._loading = 0
                return body, response
            except Refusal as refusal:
                if not (refusal.status in _ADAPTABLE and self._adapt(refusal.text, request)):
                    raise self._refused(refusal, request) from None

    def _refused(self, refusal: Refusal, request: Request) -> ProviderError:
        asked = self._budget(request)
        limits = read_limits(refusal.text, asked) if refusal.status in (400, 413, 422, 500) else None
        if limits is not None:
            self._shared_window = self._shared_window or limits.shared
            ceiling = limits.ceiling if limits.ceiling and not limits.shared else self.facts.ceiling
            self.facts = replace(
                self.facts,
                ceiling=min(self.facts.ceiling, ceiling),
                window=min(self.facts.window, limits.window or self.facts.window),
            )
        error = refused(self._target, refusal, limits)
        if error.retryable and error.retry_after is None and _LOADS.search(refusal.text):
            error.retry_after = _LOADING[min(self._loading, len(_LOADING) - 1)]
            self._loading += 1
        return error

    def _budget(self, request: Request) -> int:
        """Tokens to ask for: where reply and conversation share the window, what is left of it."""
        asked = min(request.max_tokens, self.facts.ceiling)
        if not self._shared_window:
            return asked
        used, later = 0, 0
        for message in reversed(request.messages):
            if isinstance(message, Reply) and message.usage.input:
                used = message.usage.input + message.usage.output
                break
            later += sum(map(len, message.encoded.values()))
        left = self.facts.window - used - later // 3
        return min(asked, max(left, 1_024)) if used else asked

    def _check(self, fold: Folding, done: bool, request: Request) -> None:
        """Raise for a reply that is not whole. One that is merely odd is asked for again, once."""
        if not (fold.finished or done):
            raise incomplete(self._target, "its stream ended early")
        reason = fold.doubt()
        asked = (id(request.messages), len(request.messages))
        if not reason or self._doubted == asked:
            self._doubted = None
            return
        self._doubted = asked
        raise incomplete(self._target, reason)


def _estimate(request: Request, body: bytes) -> int:
    """Tokens read, where the server did not count them: a quarter of the bytes, pictures apart."""
    images = images_in(request.messages)
    return (len(body) - sum(len(image.data) for image in images)) // 4 + len(images) * _IMAGE_TOKENS


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    try:
        async with asyncio.timeout(_DRAIN):
            async for _ in chunks:
                pass
    except TimeoutError:
        pass
