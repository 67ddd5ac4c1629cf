"""A server's tool as one of the agent's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...agent.tool import Access, Output, Tool, ToolContext
from ...agent.windowing import OUTER_CAP
from ..by_schema import validated
from .call import Call
from .listing import Listed
from .names import tool_name
from .results import output_of

if TYPE_CHECKING:
    from .servers import Servers

__all__ = ["McpTool", "mcp_tool"]


@dataclass(frozen=True, kw_only=True, eq=False)
class McpTool(Tool):
    """A tool of an MCP server; ``server`` is the server's name as the person wrote it."""

    server: str
    listed: Listed
    about: str = ""
    """What the server says of itself."""


def mcp_tool(servers: Servers, server: str, listed: Listed, seconds: float, about: str = "") -> McpTool:
    """Make a server's tool callable by an agent."""
    name = tool_name(server, listed.name)
    schema = listed.schema
    description = listed.description.strip() or listed.title or f"The tool {listed.name}."
    plain = name == f"mcp__{server}__{listed.name}"
    title = f"{server} · {listed.name}"
    access = Access.FREE if listed.read_only else Access.RUN

    async def run(context: ToolContext, arguments: dict[str, Any]) -> Output:
        # Off the loop: what checks arguments takes a second to import.
        arguments, notes = await asyncio.to_thread(validated, schema, arguments, name=name)
        call = Call(context, seconds)
        result = await servers.call(server, listed.name, arguments, call)
        output = output_of(result)
        output.details |= {"title": title}
        if call.answers:
            output.details |= {"answers": call.answers}
        return _with_notes(output, [*notes, *call.notes])

    return McpTool(
        name=name,
        description=description if plain else f"{listed.name} (server {server}): {description}",
        schema=lambda: schema,
        run=run,
        deferred=True,
        cap=OUTER_CAP,
        timeout=None,  # the call has its own clock, which stands while the person is asked
        access=lambda root, arguments: access,
        title=title,
        server=server,
        listed=listed,
        about=about,
    )


def _with_notes(output: Output, notes: list[str]) -> Output:
    if notes:
        told = "\n".join(f"({note})" for note in notes)
        parts = output.parts()
        output.content = [told, *parts] if len(parts) > 1 else f"{told}\n{parts[0]}"
    return output
