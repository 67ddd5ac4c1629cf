"""Names of MCP tools: legal for every model's server, unique, the same at each start."""

from __future__ import annotations

import hashlib
import re

__all__ = ["tool_name"]

_LONGEST = 64
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]+")


def tool_name(server: str, tool: str) -> str:
    """``mcp__server__tool``.

    A part with other characters than ``a-z A-Z 0-9 _ -`` keeps what is legal of it and gets a mark made of the whole,
    so that no two different names become the same.
    """
    name = f"mcp__{_legal(server)}__{_legal(tool)}"
    if len(name) <= _LONGEST:
        return name
    mark = _mark(server + "\n" + tool, 8)
    return f"{name[: _LONGEST - 9]}_{mark}"


def _legal(text: str) -> str:
    kept = _ILLEGAL.sub("_", text).strip("_")
    if kept == text:
        return text
    return f"{kept}_{_mark(text, 6)}" if kept else f"x{_mark(text, 6)}"


def _mark(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]
