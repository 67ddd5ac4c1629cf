"""A session whose MCP servers come and go while it lives."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...agent.events import Event, Notice, RoundStarted
from ...agent.session import Session
from ..listing import Told
from ..tool_search import deferred_listing
from .project import Mcp
from .tool import McpTool

__all__ = ["McpSession"]

_GRACE = 3.0
"""Seconds that a run waits for servers which are just starting: most are there by then."""


class McpSession(Session):
    """Before a run it starts the servers that may start; before each request it looks which tools there are now.

    ``told`` is what the conversation knows of tools; the same object for all sessions of one conversation.
    """

    def __init__(self, *parts: Any, mcp: Mcp, root: Path, told: Told | None = None) -> None:
        super().__init__(*parts)
        self.mcp, self.root = mcp, root
        self.told = told or Told()

    async def stream(self, prompt: str, note: str = "") -> AsyncGenerator[Event, None]:
        """As :meth:`Session.stream`, with the servers started."""
        await self.mcp.prepare(self.toolbox, self.root, _GRACE)
        if self.mcp.pages():
            for notice in self._pages():
                yield notice
            for name in await self.mcp.sign_in(self.toolbox):
                yield Notice(f"MCP server `{name.replace('`', chr(39))}`: you are signed in.")
        before = deferred_listing(self.toolbox)
        self._follow()
        if self.transcript.messages:
            self._add(self.told.news(self.toolbox))
        else:  # nothing was said under the system prompt yet
            self.system = self.system.replace(before, deferred_listing(self.toolbox))
            self.told.news(self.toolbox)
        troubles = self._troubles()
        self._add(_block(troubles))
        for trouble in troubles:
            yield _notice(trouble)
        for text in self.told.notices(self.toolbox):
            yield Notice(text)
        async with aclosing(super().stream(prompt, note)) as events:
            async for event in events:
                yield event

    async def resume(self) -> AsyncGenerator[Event, None]:
        """As :meth:`Session.resume`; what has changed since the last request is told before the next one."""
        async with aclosing(super().resume()) as events:
            async for event in events:
                if isinstance(event, RoundStarted):
                    for trouble in self._changes():
                        yield _notice(trouble)
                    for notice in self._pages():  # a server was too slow to be asked for at the start
                        yield notice
                yield event

    def _changes(self) -> list[str]:
        """Tell the model what is new, and give what the person should know."""
        changed = self._follow()
        troubles = self._troubles()
        told = self.told.news(self.toolbox) if changed else ""
        news = "\n".join(part for part in (told, _block(troubles)) if part)
        if news:
            self.transcript.note(news)
        return troubles

    def _follow(self) -> bool:
        """Bring the toolbox up to the servers' tools; whether it was behind."""
        before = dict(self.toolbox.tools)
        now = {tool.name: tool for tool in self.mcp.tools()}
        for name, tool in list(self.toolbox.tools.items()):
            if isinstance(tool, McpTool) and name not in now:
                self.toolbox.remove(name)
        for name, made in now.items():
            there = self.toolbox.tools.get(name)
            if there is None or (isinstance(there, McpTool) and isinstance(made, McpTool) and _newer(there, made)):
                self.toolbox.add(made)
        return before != self.toolbox.tools

    def _troubles(self) -> list[str]:
        """What has not been said yet."""
        new = [trouble for trouble in self.mcp.troubles() if trouble not in self.told.faults]
        self.told.faults.update(new)
        return new

    def _pages(self) -> list[Notice]:
        """The pages at which the person must sign in, as links that they have not seen."""
        new = [_link(name, page) for name, page in self.mcp.pages().items()]
        new = [link for link in new if link not in self.told.faults]
        self.told.faults.update(new)
        return [Notice(link) for link in new]

    def _add(self, news: str) -> None:
        self.news = "\n".join(part for part in (self.news, news) if part)


def _newer(there: McpTool, made: McpTool) -> bool:
    # A tool that an option made eager is a copy, and stays.
    return there.listed != made.listed


def _notice(trouble: str) -> Notice:
    # As code: what a server says must not be set as Markdown.
    told = " ".join(trouble.replace("`", "'").split())
    return Notice(f"MCP server `{told}`")


def _link(name: str, page: str) -> str:
    # Each character that could end the link or begin markup is written as an address writes it.
    safe = quote(page, safe=":/?&=%#;,+@~.-_")
    return f"MCP server `{name.replace('`', chr(39))}` wants you to [sign in](<{safe}>)."


def _block(troubles: list[str]) -> str:
    return "\n".join(["<mcp-servers>", *(f"- {line}" for line in troubles), "</mcp-servers>"]) if troubles else ""
