"""JSON for the wire: compact, UTF-8, and each tool and message encoded once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from ..agent.messages import Image, Message, Reply, ToolCall, ToolResult, ToolResults
from ..agent.tool import Tool

__all__ = ["History", "ToolCache", "dumps", "encode", "images_in", "result_text", "wire_ids"]

_MISSING = "no result: the call was interrupted; effects may have happened. Check before you repeat it."

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def dumps(value: Any) -> str:
    """Compact JSON text."""
    return _ENCODER.encode(value)


def encode(value: Any) -> bytes:
    """Compact JSON in UTF-8; half a surrogate pair, which UTF-8 can't hold, becomes a question mark."""
    return dumps(value).encode("utf-8", "replace")


class History:
    """Encodes an append-only list of messages: at each request only what is new since the last one.

    Subclasses encode a message and append the bytes. Calls without results, which servers refuse, get results that say
    so; results without calls are left out.
    """

    def __init__(self) -> None:
        self._known: tuple[str, Sequence[Message], Message | None, Message | None] = ("", (), None, None)
        self._count = 0
        self.owed: Reply | None = None
        """The reply whose results come next."""

    @property
    def key(self) -> str:
        """Where messages keep their encoding: one place for each way of encoding them."""
        raise NotImplementedError

    def advance(self, messages: Sequence[Message]) -> None:
        """Take what is new; a list that is another one, or was changed, is taken from its start."""
        key = self.key
        if not self._grown(key, messages):
            self.restart()
            self._count, self.owed = 0, None
        whole = True
        for message in messages[self._count :] if self._count else messages:
            if isinstance(message, ToolResults):
                if self.owed is None:
                    continue
                whole = whole and None not in message.results
            elif self.owed is not None:
                self.append(self._missing(self.owed), None)
            piece = message.encoded.get(key)
            if piece is None:
                piece = self.encode(message)
                if whole:
                    message.encoded[key] = piece
            if piece:
                self.append(piece, message)
            self.owed = message if isinstance(message, Reply) and message.calls else None
        self._count = len(messages)
        self._known = (
            key if whole else "",
            messages,
            messages[0] if messages else None,
            messages[-1] if messages else None,
        )

    def forget(self) -> None:
        """Take the next list from its start."""
        self._count = 0

    def missing(self) -> bytes:
        """Results for the last reply's calls, where the list ends with it."""
        return self._missing(self.owed) if self.owed is not None else b""

    def _grown(self, key: str, messages: Sequence[Message]) -> bool:
        known, kept, first, last = self._known
        same = known == key and messages is kept and 0 < self._count <= len(messages)
        return same and messages[0] is first and messages[self._count - 1] is last

    def _missing(self, reply: Reply) -> bytes:
        return self.encode(ToolResults(reply.calls, [None] * len(reply.calls)))

    def restart(self) -> None:
        """Forget all pieces."""
        raise NotImplementedError

    def encode(self, message: Message) -> bytes:
        """The message's bytes; empty for one that is not sent."""
        raise NotImplementedError

    def append(self, piece: bytes, message: Message | None) -> None:
        """Add a message's bytes; None for results that are missing."""
        raise NotImplementedError


class ToolCache:
    """Encoded tools: each once, and the joined list once for each set that is sent.

    A tool whose schema can't be sent is left out, alone.

    Parameters
    ----------
    encode_tool
        Encodes one tool.
    left_out
        Where it is noted why a tool is left out, by its name.
    """

    def __init__(self, encode_tool: Callable[[Tool], bytes], left_out: dict[str, str]) -> None:
        self._encode_tool = encode_tool
        self._left_out = left_out
        self._each: dict[Tool, bytes] = {}
        self._sent: tuple[Tool, ...] = ()
        self._joined = b""

    def __call__(self, tools: Sequence[Tool]) -> bytes:
        """The tools' JSON objects, joined by commas."""
        wanted = tuple(tools)
        if wanted != self._sent:
            self._sent, self._joined = wanted, b",".join(filter(None, map(self.each, wanted)))
        return self._joined

    def each(self, tool: Tool) -> bytes:
        """A tool's JSON object; empty for one that is left out."""
        if tool not in self._each:
            try:
                self._each[tool] = self._encode_tool(tool)
                self._left_out.pop(tool.name, None)
            except Exception as error:  # a schema comes from anywhere; whatever it does, it costs this tool only
                self.leave_out(tool, str(error) or type(error).__name__)
        return self._each[tool]

    def leave_out(self, tool: Tool, reason: str) -> None:
        """Send this tool no more."""
        self._each[tool] = b""
        self._left_out[tool.name] = reason
        self._sent, self._joined = (), b""


def wire_ids(calls: Sequence[ToolCall], *, allowed: str = "") -> list[str]:
    """The ids that a reply's calls go back with: the server's own where they tell the calls apart.

    ``allowed`` is a character class that ids of another server are fitted to; empty leaves them as they are.
    """
    taken: set[str] = set()
    ids: list[str] = []
    for call in calls:
        raw = call.raw_id if call.raw_id and call.raw_id not in taken else call.id
        if allowed:
            raw = re.sub(f"[^{allowed}]", "_", raw)[:64]
        while raw in taken or not raw:
            raw = f"{raw or 'call'}_{len(ids)}"
        taken.add(raw)
        ids.append(raw)
    return ids


def images_in(messages: Sequence[Message]) -> list[Image]:
    """All pictures in results."""
    results = [r for m in messages if isinstance(m, ToolResults) for r in m.results if r is not None]
    return [part for result in results for part in result.content if isinstance(part, Image)]


def result_text(result: ToolResult | None) -> str:
    """A result's text parts; never empty, since servers refuse that."""
    if result is None:
        return _MISSING
    return result.text or ("(no text)" if any(result.content) else "(no output)")
