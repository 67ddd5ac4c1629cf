"""One connection to a model's server, through its vendor's SDK client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Container
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..agent.redact import Redactor
from .failures import CONNECT, SILENCE, Refusal, Target, network_error

if TYPE_CHECKING:
    import httpx2

__all__ = ["Transport"]

Make = Callable[[Any, dict[str, Any]], Any]


class Transport:
    """Sends bodies that are already bytes and hands back responses that are still open.

    The vendor's SDK makes the client: authentication, base URL, proxies, time-outs and the connection pool are its.
    Requests go to its HTTP client directly, since its own request path costs as much again as the exchange itself, and
    decodes what is decoded here. The SDK is imported on first use, off the event loop; the client is made anew where
    the event loop is another one, since connections belong to theirs.

    Parameters
    ----------
    package
        The SDK's name.
    make
        Makes the SDK's client from its module and the arguments that all clients get.
    path
        Where requests go, under the client's base URL.
    omitted
        Headers of the client that this server is not to see, in lower case.
    """

    def __init__(self, target: Target, package: str, make: Make, path: str, omitted: Container[str] = ()) -> None:
        self._target = target
        self._package = package
        self._make = make
        self._path = path
        self._omitted = omitted
        self._http: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._headers: Any = None
        self._base = ""
        self._url: Any = None
        self._extensions: dict[str, Any] = {}

    async def open(self, body: bytes) -> httpx2.Response:
        """Send a request; the response is open and a success.

        Raises :class:`Refusal` for any other, :class:`ProviderError` where there was none.
        """
        http = await self._ready()
        httpx2 = sys.modules["httpx2"]
        request = httpx2.Request("POST", self._url, headers=self._headers, content=body, extensions=self._extensions)
        return await self._send(http, request)

    async def get(self, path: str) -> bytes:
        """The body of a GET; errors as in :meth:`open`."""
        http = await self._ready()
        request = sys.modules["httpx2"].Request(
            "GET", self._base + path, headers=self._headers, extensions=self._extensions
        )
        return await (await self._send(http, request)).aread()

    async def close(self) -> None:
        """Close the client."""
        http, self._http = self._http, None
        if http is not None and self._loop is asyncio.get_running_loop():
            await http.aclose()

    async def _send(self, http: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await http.send(request, stream=True)
            if response.is_success:
                return response
            try:
                await response.aread()
            finally:
                await response.aclose()
        except (sys.modules["httpx2"].HTTPError, OSError) as error:
            raise network_error(self._target, error) from None
        raise Refusal(response.status_code, dict(response.headers), Redactor([self._target.key])(response.text))

    async def _ready(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:
            sdk = await asyncio.to_thread(import_module, self._package)
            if self._http is None or self._loop is not loop:  # another request may have been first
                self._http, self._loop = self._made(sdk), loop
        return self._http

    def _made(self, sdk: Any) -> httpx2.AsyncClient:
        httpx2 = sys.modules["httpx2"]
        timeout = httpx2.Timeout(SILENCE, connect=CONNECT)
        http = sdk.DefaultAsyncHttpxClient(timeout=timeout)
        client = self._make(sdk, {"max_retries": 0, "timeout": timeout, "http_client": http})
        own = {**client.auth_headers, **client.default_headers, "Accept": "text/event-stream"}
        headers = httpx2.Headers(http.headers)
        headers.update({name: value for name, value in own.items() if isinstance(value, str)})
        self._headers = httpx2.Headers({k: v for k, v in headers.items() if k not in self._omitted})
        self._base = str(client.base_url).rstrip("/")
        self._url = httpx2.URL(self._base + self._path)
        self._extensions = {"timeout": timeout.as_dict()}
        return http  # type: ignore[no-any-return]
