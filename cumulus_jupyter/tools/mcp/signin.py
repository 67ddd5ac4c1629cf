"""Signing in to a server: the page that the person opens, and the wait for the code that it brings."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...agent.messages import Answer, Ask, Option, Outcome, Question
from .call import Call, current_call
from .callback import HOST, PATH, Callback, free_port, query_of
from .config import Spec
from .tokens import TokenFile

if TYPE_CHECKING:
    from mcp.shared.auth import AuthorizationCodeResult

__all__ = ["OPEN_SECONDS", "SignIn", "Unsigned", "guided"]

OPEN_SECONDS = 600.0
"""A sign-in page that nobody uses is waited for so long, in the background."""
_DONE, _LATER = "I have signed in", "Not now"
_NOBODY = (
    "it wants a sign-in, and nobody is here to do it. Sign in once from a notebook (run an %%agent cell there; the "
    "sign-in is kept for later runs), or give the server's entry a token in headers ({headers}) or an oauth object "
    "with client_id and client_secret"
)
_HEADERS = '"Authorization": "Bearer ${TOKEN}"'


class Unsigned(Exception):
    """Nobody signed in; the text says why and what to do."""


class SignIn:
    """One server's way in. Used on the servers' loop; ``link``, ``asked`` and ``refusal`` may be read anywhere.

    Parameters
    ----------
    spec, folder
        The server, and the folder for its tokens.
    limit
        Seconds that a call or a cell is held for the person.
    waits, came, signed
        Called when the person must act, when they have, and when that has led to tokens.
    """

    def __init__(
        self,
        spec: Spec,
        folder: Path | None,
        limit: float,
        *,
        waits: Callable[[], None],
        came: Callable[[], None],
        signed: Callable[[], None],
    ) -> None:
        self.spec, self.limit = spec, limit
        self.person = False
        self.link, self.refusal, self.asked = "", "", False
        self.file = TokenFile(folder, spec.url, spec.oauth.client_id, signed)
        self.port = 0
        self._waits, self._goes_on = waits, came
        self._numbers = 0
        self._came: asyncio.Future[Mapping[str, str]] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._callback: Callback | None = None

    def address(self) -> str:
        """Where the browser is to come back; the same as last time where that port is free."""
        known = self.spec.oauth.callback_port or self.file.port
        self.port = self.spec.oauth.callback_port or free_port(known)
        if known and self.port != known:
            self.file.forget_client()  # it was registered with the other port
        return f"http://{HOST}:{self.port}{PATH}"

    async def redirect(self, url: str) -> None:
        """Have the person open this page."""
        if not self.person:
            raise self._unsigned(_NOBODY.format(headers=_HEADERS))
        if urlsplit(url).scheme not in ("http", "https"):
            raise self._unsigned("it names a sign-in page that is no web page")
        self._loop = asyncio.get_running_loop()
        self._came = self._loop.create_future()
        try:
            self._callback = Callback(self.port, query_of(url).get("state", ""), self._take)
        except OSError:
            raise self._unsigned(f"port {self.port}, where the sign-in must come back, is in use; try again") from None
        self.link, self.asked, self.refusal = url, False, ""
        if current_call.get() is None:
            self._waits()

    async def code(self) -> AuthorizationCodeResult:
        """Wait for the code that the page brings."""
        from mcp.shared.auth import AuthorizationCodeResult

        assert self._came is not None
        call = current_call.get()
        try:
            if call is not None:
                await self.asked_in(call, self._came)
            else:
                await asyncio.wait({self._came}, timeout=OPEN_SECONDS)
            if not self._came.done():
                raise self._unsigned("nobody signed in; the next run of a cell, or the next call, offers it again")
            query = self._came.result()
        finally:
            await self._close()
        if "code" not in query:
            said = query.get("error_description") or query.get("error") or "no code"
            raise self._unsigned(f"its sign-in page refused: {said[:200]}. The next run of a cell offers it again")
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))

    async def asked_in(self, call: Call, settled: asyncio.Future[Any]) -> None:
        """Ask within a call; the answer of the person is no result, the sign-in is."""
        await guided(self, call.ask, settled, self.limit, call.name_ask())

    def ask(self, name: str = "") -> Ask:
        """The question to the person."""
        self._numbers += 1
        detail = (
            f"Open this page to sign in: {self.link}\n"
            "Afterwards this goes on by itself. Where the page can't come back (it says that 127.0.0.1 is not reached, "
            "since the kernel runs on another machine), copy its address from the browser into the answer."
        )
        where = urlsplit(self.link).hostname or ""
        question = Question(
            f"Sign in to the MCP server {self.spec.name} at {where}?", "Sign in", (Option(_DONE), Option(_LATER))
        )
        name = name or f"mcp-sign-in-{self.port}-{self._numbers}"
        told = f"MCP server {self.spec.name}"
        return Ask(name, told, (question,), detail=detail, timeout_seconds=max(1, int(self.limit)))

    def take(self, address: str) -> None:
        """The address that the browser could not reach, as the person copied it; may be called on any thread."""
        query = query_of(address.strip())
        if query.get("state") == query_of(self.link).get("state"):
            self._take(query)

    def _take(self, query: Mapping[str, str]) -> None:
        def settle() -> None:
            if self._came is not None and not self._came.done():
                self._came.set_result(query)
                self.link = ""
                if current_call.get() is None:
                    self._goes_on()

        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(settle)

    async def _close(self) -> None:
        self.link = ""
        callback, self._callback = self._callback, None
        if callback is not None:
            await asyncio.shield(asyncio.to_thread(callback.close))

    def _unsigned(self, reason: str) -> Unsigned:
        self.refusal = reason
        return Unsigned(reason)


async def guided(
    way: SignIn, ask: Callable[[Ask], Awaitable[Answer]], settled: asyncio.Future[Any], seconds: float, name: str = ""
) -> None:
    """Show the person the page until ``settled`` or for so many seconds; they may also put it off."""
    way.asked = True
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    asking = asyncio.ensure_future(ask(way.ask(name)))
    try:
        await asyncio.wait({asking, settled}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if settled.done() or not asking.done():
            return
        answer = asking.result()
        if answer.outcome is not Outcome.ANSWERED or not answer.values or answer.values[0] == _LATER:
            return
        if answer.values[0] != _DONE:
            way.take(answer.values[0])
        await asyncio.wait({settled}, timeout=max(0.0, until - loop.time()))
    finally:
        asking.cancel()
        await asyncio.wait({asking}, timeout=1)
