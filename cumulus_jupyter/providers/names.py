"""Tools' names as both wires take them: ``a-z A-Z 0-9 _ -``, 64 characters at most."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from ..agent.messages import ToolCall
from ..agent.tool import Tool

__all__ = ["called_back", "described", "faulty_tool", "wire_name"]

_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]+")
_MARKED = re.compile(r"_[0-9a-f]{10}$")


@lru_cache(4_096)
def wire_name(name: str) -> str:
    """A legal name that no other name gets, the same at each start; a legal name is its own."""
    if _LEGAL.fullmatch(name):
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    kept = _ILLEGAL.sub("_", name).strip("_")[:53]
    return f"{kept or 'tool'}_{mark}"


def described(tool: Tool) -> str:
    """The tool's description; where its name had to change, the name that the listing has stands first."""
    return tool.description if wire_name(tool.name) == tool.name else f"{tool.name}: {tool.description}"


def called_back(calls: list[ToolCall], tools: Iterable[Tool]) -> list[ToolCall]:
    """The calls with the names that the tools really have."""
    if not any(_MARKED.search(call.name) for call in calls):
        return calls
    real = {wire: tool.name for tool in tools if (wire := wire_name(tool.name)) != tool.name}
    return [replace(call, name=real[call.name]) if call.name in real else call for call in calls]


_PLACE = re.compile(r"tools[.\[](\d+)")
_FUNCTION = re.compile(r"(?:function|tool)\s*(?:name)?:?\s*['\"`]([^'\"`]{1,80})['\"`]", re.IGNORECASE)
_ABOUT_TOOL = re.compile(
    r"schema|string should match pattern|does not match pattern|invalid.{0,40}(?:function|tool)", re.I
)


def faulty_tool(text: str, tools: Sequence[Tool]) -> Tool | None:
    """The one of a request's tools that a refusal finds fault with; None where it is about something else."""
    if not _ABOUT_TOOL.search(text):
        return None
    if (place := _PLACE.search(text)) and int(place[1]) < len(tools):
        return tools[int(place[1])]
    named = {match[1] for match in _FUNCTION.finditer(text)}
    return next((tool for tool in tools if wire_name(tool.name) in named), None)
