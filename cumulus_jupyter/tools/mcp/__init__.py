"""MCP servers: their tools as the agent's own, through the official ``mcp`` package.

Nothing here imports ``mcp`` until a server is started.
"""

from __future__ import annotations

from .project import Mcp
from .session import McpSession
from .tool import McpTool

__all__ = ["Mcp", "McpSession", "McpTool", "mcp_status"]


def mcp_status(mcp: Mcp) -> list[str]:
    """One line a server: name, transport, state."""
    return mcp.status()
