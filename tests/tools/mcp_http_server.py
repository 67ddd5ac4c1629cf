"""A server made with the ``mcp`` package, over streamable HTTP: ``python mcp_http_server.py PORT``.

It wants ``Authorization: Bearer let-me-in``.
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from tests.tools.mcp_server import PIXEL

server = MCPServer("weather", instructions="Ask for the weather of a city.")


class Trip(BaseModel):
    city: str = Field(description="Which city?")
    days: int = Field(ge=1, le=14)


@server.tool()
async def plan(ctx: Context) -> str:
    """Plan a trip; asks where to."""
    answer: Any = await ctx.elicit("Where to?", Trip)
    return f"{answer.data.city} for {answer.data.days} days" if answer.action == "accept" else str(answer.action)


@server.tool()
def picture() -> Image:
    """A picture of the sky."""
    import base64

    return Image(data=base64.b64decode(PIXEL), format="png")


def late() -> str:
    """Comes later."""
    return "late it is"


@server.tool()
async def grow(ctx: Context) -> str:
    """Make one more tool."""
    server.add_tool(late)
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def steps(ctx: Context) -> dict[str, int]:
    """Report progress."""
    for done in (1, 2):
        await ctx.report_progress(done, 2, f"step {done}")
    return {"steps": 2}


class Gate:
    """Lets in who knows the word."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and Request(scope).headers.get("authorization") != "Bearer let-me-in":
            await PlainTextResponse("who are you?", 401)(scope, receive, send)
            return
        await self.app(scope, receive, send)


if __name__ == "__main__":
    uvicorn.run(Gate(server.streamable_http_app()), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
