"""The MCP servers of one kernel or script: which are wanted, which may start, and what they offer."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...agent.messages import Answer, Ask, Option, Outcome, Question
from ...agent.policy import DENY, Verdict
from ...agent.tool import Access, Tool
from ...agent.toolbox import Toolbox
from .config import PROJECT_FILE, ProjectFile, parse, read_project
from .connection import Connection, State
from .servers import Servers
from .signin import guided
from .tool import McpTool, mcp_tool

__all__ = ["Mcp"]

_APPROVED = "mcp-approved.json"
_ALWAYS, _NOW = "Start them, and again as long as the file is the same", "Start them this time"
_START_LIMIT = 30.0


class Mcp:
    """What the person's settings and the root's ``.mcp.json`` ask for, and the servers that run for it.

    Parameters
    ----------
    entries
        Gives the person's own servers, as in ``mcpServers`` of a ``.mcp.json``: they start without asking.
    limit
        Gives the seconds that a start may take.
    folder
        Gives the folder where a person's word on a project's file is kept.
    project
        Whether the root's ``.mcp.json`` counts.
    """

    def __init__(
        self,
        entries: Callable[[], Mapping[str, Any]] = dict,
        *,
        limit: Callable[[], float] = lambda: _START_LIMIT,
        folder: Callable[[], Path | None] = lambda: None,
        environ: Mapping[str, str] = os.environ,
        project: bool = True,
    ) -> None:
        self._entries, self._limit, self._folder = entries, limit, folder
        self._environ, self._project = environ, project
        self._servers = Servers()
        self._answered: dict[str, bool] = {}
        self._held: dict[str, str] = {}
        self._problems: dict[str, str] = {}
        self._tools: dict[tuple[str, str], McpTool] = {}

    # Starting ----------------------------------------------------------------------------------------------------

    async def prepare(self, toolbox: Toolbox, root: Path, seconds: float) -> None:
        """Start what is wanted and may start, asking the person where they must be, and wait a little for it."""
        specs, problems = parse(self._entries(), root, self._environ)
        self._held = {}
        file = read_project(root, self._environ) if self._project else None
        if file:
            problems |= file.problems
            if file.specs and (denied := await self._denied(file, toolbox)):
                self._held = dict.fromkeys(file.specs, denied)
            elif file.specs:
                specs = {**file.specs, **specs}
        self._problems = problems
        if specs or self._servers.connections:
            person = toolbox.policy.person
            self._servers.follow(specs, root, self._limit(), folder=self._folder(), person=person)
            await self._servers.settled(seconds)

    def pages(self) -> dict[str, str]:
        """By server the page at which the person must sign in and of which they were not told yet."""
        waiting = ((name, connection.way) for name, connection in list(self._servers.connections.items()))
        return {name: way.link for name, way in waiting if way.link and not way.asked}

    async def sign_in(self, toolbox: Toolbox) -> list[str]:
        """Ask the person to open these pages, for no longer than a start may take; after that it waits unseen.

        Gives the servers that are ready by that.
        """
        ready = []
        until = time.monotonic() + self._limit()
        for name in self.pages():
            started = self._servers.started(name)
            left = max(1.0, until - time.monotonic())
            connection = self._servers.connections[name]
            try:
                await guided(connection.way, toolbox.host.ask, started, left)
            finally:
                started.cancel()
            ready += [name] if connection.state is State.READY else []
        return ready

    async def _denied(self, file: ProjectFile, toolbox: Toolbox) -> str:
        """Why a project's servers must not start; empty where they may."""
        known = self._answered.get(file.digest) or file.digest in self._approved()
        verdict = toolbox.policy.verdict(Access.GUARDED, approved=False)
        if verdict is Verdict.RUN or (known and verdict is not Verdict.DENY):
            return ""
        told = f"not started: {PROJECT_FILE} comes with the project"
        if verdict is Verdict.DENY:
            return f"{told}, and this run may only read (--approve none)"
        if not toolbox.policy.person:
            return f"{told}, so a person must allow it, and nobody is there (--approve all allows it beforehand)"
        if file.digest in self._answered:
            return f"{told}, and the person did not allow it"
        answer = await toolbox.host.ask(_ask(file, toolbox.redact(file.shown)))
        return "" if self._allowed(file, answer) else f"{told}, and the person did not allow it"

    def _allowed(self, file: ProjectFile, answer: Answer) -> bool:
        chosen = answer.values[0] if answer.outcome is Outcome.ANSWERED and answer.values else ""
        if chosen in (_ALWAYS, _NOW, DENY):
            self._answered[file.digest] = chosen != DENY
        if chosen == _ALWAYS:
            self._keep(file.digest)
        return chosen in (_ALWAYS, _NOW)

    def _approved(self) -> list[str]:
        with contextlib.suppress(OSError, ValueError):
            if folder := self._folder():
                return list(json.loads((folder / _APPROVED).read_text(encoding="utf-8")))
        return []

    def _keep(self, digest: str) -> None:
        if folder := self._folder():
            folder.mkdir(parents=True, exist_ok=True)
            approved = [*self._approved(), digest][-1_000:]
            (folder / _APPROVED).write_text(json.dumps(approved, indent=1), encoding="utf-8")

    # What there is -----------------------------------------------------------------------------------------------

    def tools(self) -> list[Tool]:
        """The tools of all servers that run or ran; a call of one whose server has ended starts it again."""
        made: dict[tuple[str, str], McpTool] = {}
        for server, connection in list(self._servers.connections.items()):
            for listed in connection.tools:
                key = (server, listed.name)
                old = self._tools.get(key)
                if old is None or old.listed != listed:
                    old = mcp_tool(self._servers, server, listed, connection.spec.timeout, connection.instructions)
                made[key] = old
        self._tools = made
        return list(made.values())

    def status(self) -> list[str]:
        """One line a server: name, transport, how it stands."""
        lines = [
            f"{name}: {connection.spec.transport}, {_state(connection)}"
            for name, connection in list(self._servers.connections.items())
        ]
        lines += [f"{name}: {reason}" for name, reason in self._held.items()]
        lines += [f"{name}: can't be used: {reason}" for name, reason in self._problems.items()]
        return lines

    def troubles(self) -> list[str]:
        """What a person and a model should know: servers that are not there and tools that are left out, and why."""
        lines = [f"{name}: {reason}" for name, reason in self._held.items()]
        lines += [f"{name} can't be used: {reason}" for name, reason in self._problems.items()]
        for name, connection in list(self._servers.connections.items()):
            if connection.state in (State.FAILED, State.STARTING):
                lines.append(f"{name}: {_state(connection, count=False)}")
            for tool, reason in dict(connection.faults).items():
                lines.append(f"{name}: its tool {tool} {reason}")
        return lines

    def close(self) -> None:
        """End all servers."""
        self._servers.close()


def _state(connection: Connection, *, count: bool = True) -> str:
    """How it stands; without ``count`` only what stays true for a while and may be told to a model."""
    if connection.state is State.READY:
        number = len(connection.tools)
        return f"ready with {number} tool{'' if number == 1 else 's'}"
    if connection.way.link:
        page = f": {connection.way.link}" if count else ", at the page that the cell and %agent status show"
        return f"waits for you to sign in{page}"
    if connection.state is State.STARTING:
        return f"still starting; it has {connection.limit:g} s in all (CUMULUS_MCP_START_TIMEOUT)"
    if connection.state is State.FAILED:
        return f"failed: {connection.reason}"
    if connection.state is State.ENDED:
        return f"stopped: {connection.reason}; the next call starts it again"
    return "stopped"


def _ask(file: ProjectFile, shown: str) -> Ask:
    options = (Option(_ALWAYS), Option(_NOW), Option(DENY))
    question = Question(f"Start the MCP servers that this project's {PROJECT_FILE} names?", "MCP servers", options)
    return Ask(f"mcp-{file.digest[:16]}", PROJECT_FILE, (question,), approval=True, detail=shown)
