"""How a server is reached, with an eye on what comes in: the tool lists, their changes, the end."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...agent.redact import learn
from .config import Spec
from .listing import mended
from .signin import SignIn
from .stdio import Tail, stdio

if TYPE_CHECKING:
    import httpx2
    from mcp_types import Implementation

__all__ = ["Watched", "load", "transport", "us"]

_MODULES = ("mcp", "mcp.client.subscriptions", "mcp.client.streamable_http", "mcp.shared.message")
_CHANGED = "notifications/tools/list_changed"


def load() -> None:
    """Import what a connection needs."""
    for name in (*_MODULES, f"{__package__}.oauth"):
        importlib.import_module(name)


def us() -> Implementation:
    """Who we are to a server."""
    from importlib.metadata import PackageNotFoundError, version

    from mcp_types import Implementation

    try:
        return Implementation(name="cumulus-jupyter", version=version("cumulus-jupyter"))
    except PackageNotFoundError:  # run from its sources
        return Implementation(name="cumulus-jupyter", version="0")


def transport(spec: Spec, root: Path, tail: Tail, way: SignIn) -> AbstractAsyncContextManager[Any]:
    """The pair of streams to this server."""
    if spec.transport == "stdio":
        return stdio(spec, root, tail)
    return _http(spec, tail, way)


@contextlib.asynccontextmanager
async def _http(spec: Spec, tail: Tail, way: SignIn) -> AsyncGenerator[Any, None]:
    import httpx2

    auth = _auth(spec, way)

    async def note(response: httpx2.Response) -> None:
        # The session only learns that there was an error, not which.
        if response.status_code >= 400 and response.status_code not in (404, 405):
            tail.add(f"HTTP {response.status_code} {response.reason_phrase}\n".encode())

    if spec.transport == "sse":
        from mcp.client.sse import sse_client

        headers, patience = dict(spec.headers), spec.timeout + 300
        async with sse_client(spec.url, headers=headers, auth=auth, sse_read_timeout=patience) as streams:
            yield streams
        return
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(
            headers=dict(spec.headers),
            auth=auth,
            timeout=httpx2.Timeout(30, read=spec.timeout + 300),
            event_hooks={"response": [note]},
        ) as client,
        streamable_http_client(spec.url, http_client=client) as streams,
    ):
        yield streams


def _auth(spec: Spec, way: SignIn) -> httpx2.Auth | None:
    """How a token is got once the server wants one; a header that the person wrote wins."""
    for name, value in spec.headers.items():
        if name.lower() == "authorization":
            learn(value.rpartition(" ")[2])
            return None
    from .oauth import oauth

    return oauth(way)


class Watched:
    """A transport that mends tool lists on their way in and tells of their changes and of the end."""

    def __init__(
        self,
        inner: AbstractAsyncContextManager[Any],
        *,
        faults: dict[str, str],
        changed: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self._inner = inner
        self._faults, self._changed, self._ended = faults, changed, ended

    async def __aenter__(self) -> tuple[Any, Any]:
        incoming, outgoing = await self._inner.__aenter__()
        return _Incoming(incoming, self._see, self._ended), outgoing

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._inner.__aexit__(*error)

    def _see(self, item: Any) -> None:
        message = getattr(item, "message", None)
        result = getattr(message, "result", None)
        if isinstance(result, dict) and isinstance(result.get("tools"), list):
            result["tools"] = mended(result["tools"], self._faults)
        if getattr(message, "method", "") == _CHANGED:
            self._changed()


class _Incoming:
    """A stream of messages, each seen before it is handed on."""

    def __init__(self, inner: Any, see: Callable[[Any], None], ended: Callable[[], None]) -> None:
        self._inner, self._see, self._ended = inner, see, ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __aiter__(self) -> _Incoming:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._inner.__anext__()
        except BaseException:
            self._ended()
            raise
        self._see(item)
        return item

    async def receive(self) -> Any:
        item = await self._inner.receive()
        self._see(item)
        return item

    async def __aenter__(self) -> _Incoming:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)
