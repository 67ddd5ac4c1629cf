"""A Messages reply, folded from the events of its stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..agent.events import TextDelta, ThinkingDelta
from ..agent.messages import Reply, StopReason, ToolCall, Usage
from .calls import read_arguments
from .sse import StreamFault, mended

__all__ = ["BlockReply"]

Delta = TextDelta | ThinkingDelta

_STOPS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.CONTEXT,
    "pause_turn": StopReason.PAUSE,
    "refusal": StopReason.REFUSAL,
}
_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_PIECES = {"text": "text", "thinking": "thinking", "tool_use": "input", "server_tool_use": "input"}
"""The field of a block that comes in pieces."""


class BlockReply:
    """Folds events; :meth:`end` gives the reply, its blocks as they came in ``native``."""

    __slots__ = ("_blocks", "_counts", "_details", "_high", "_pieces", "_stop", "closed")

    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}
        self._counts: dict[str, int] = {}
        self._details: dict[str, Any] = {}
        self._stop = ""
        self._high = ""
        self.closed = False
        """``message_stop`` came."""

    @property
    def finished(self) -> bool:
        """The server said why the reply ended, or that it has."""
        return bool(self._stop) or self.closed

    def doubt(self) -> str:
        """Why this can't be meant: a call was announced, but nothing came."""
        return "tool calls were announced, but none came" if self._stop == "tool_use" and not self._blocks else ""

    def take(self, event: dict[str, Any]) -> Sequence[Delta]:
        """Take an event; gives what of it is to be shown."""
        kind = event.get("type")
        if kind == "content_block_delta":
            delta, index = event["delta"], event.get("index", 0)
            if delta["type"] == "text_delta":
                return self._text(delta["text"], index)
            return self._delta(delta, index)
        if kind == "content_block_start":
            return self._start(event.get("index", len(self._blocks)), event["content_block"])
        if kind == "message_delta":
            self._end(event.get("delta") or {})
            self._count(event.get("usage"))
        elif kind == "message_start":
            self._count(event["message"].get("usage"))
        elif kind == "message_stop":
            self.closed = True
        elif kind == "message":
            return self._whole(event)
        elif kind == "error" or event.get("error"):
            raise StreamFault(event.get("error") or event)
        return ()

    def end(self, model: str, estimate: Callable[[], int]) -> tuple[list[Delta], Reply]:
        """The reply; nothing of it is still to be shown. ``estimate`` gives tokens read where they were not counted."""
        blocks = [self._block(index) for index in sorted(self._blocks)]
        calls = [self._call(index) for index in sorted(self._blocks) if self._blocks[index]["type"] == "tool_use"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        stop = _STOPS.get(self._stop or ("tool_use" if calls else "end_turn"), StopReason.UNKNOWN)
        if stop is StopReason.TOOL_CALLS and not calls:
            stop = StopReason.END
        size = sum(len(piece.encode("utf-8", "replace")) for pieces in self._pieces.values() for piece in pieces)
        usage = self._usage(estimate, size)
        return [], Reply(text, calls, stop, usage, model, blocks or None, self._detail(stop))

    # Events ----------------------------------------------------------------------------------------------------------

    def _text(self, text: str, index: int) -> Sequence[Delta]:
        if self._high or not text.isascii():
            text, self._high = mended(self._high + text)
        if not text:
            return ()
        pieces = self._pieces.get(index)
        if pieces is None:
            pieces = self._opened(index, "text")
        pieces.append(text)
        return (TextDelta(text),)

    def _delta(self, delta: dict[str, Any], index: int) -> Sequence[Delta]:
        kind = delta["type"]
        if kind == "thinking_delta":
            self._opened(index, "thinking").append(delta["thinking"])
            return (ThinkingDelta(delta["thinking"]),) if delta["thinking"] else ()
        if kind == "input_json_delta":
            self._opened(index, "tool_use").append(delta.get("partial_json") or "")
        elif kind == "signature_delta":
            block = self._blocks.get(index, {})
            block["signature"] = block.get("signature", "") + delta["signature"]
        elif kind == "citations_delta":
            block = self._blocks.get(index, {})
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        return ()

    def _start(self, index: int, block: dict[str, Any]) -> Sequence[Delta]:
        self._blocks[index] = dict(block)
        self._pieces[index] = []
        if block["type"] == "text" and block.get("text"):
            return self._text(block["text"], index)
        if block["type"] == "thinking" and block.get("thinking"):
            return self._delta({"type": "thinking_delta", "thinking": block["thinking"]}, index)
        return ()

    def _opened(self, index: int, kind: str) -> list[str]:
        """The pieces of a block; a server may forget to open it."""
        if index not in self._blocks:
            self._start(index, {"type": kind, **({"id": "", "name": "", "input": {}} if kind == "tool_use" else {})})
        return self._pieces[index]

    def _end(self, delta: dict[str, Any]) -> None:
        self._stop = delta.get("stop_reason") or self._stop
        self._details = delta.get("stop_details") or self._details

    def _count(self, usage: dict[str, Any] | None) -> None:
        """Counts grow; those of the end may hold all, or only what is new."""
        for name in _COUNTS:
            if value := (usage or {}).get(name):
                self._counts[name] = max(value, self._counts.get(name, 0))

    def _whole(self, message: dict[str, Any]) -> Sequence[Delta]:
        """A reply that was not streamed."""
        shown: list[Delta] = []
        for index, block in enumerate(message.get("content") or ()):
            shown += self._start(index, block)
        self._end(message)
        self._count(message.get("usage"))
        self.closed = True
        return shown

    # The end ---------------------------------------------------------------------------------------------------------

    def _block(self, index: int) -> dict[str, Any]:
        block, pieces = self._blocks[index], self._pieces[index]
        field = _PIECES.get(block["type"])
        if field == "input":
            given = block.get("input")
            read = read_arguments("".join(pieces)) if any(pieces) else given
            return {**block, "input": read if isinstance(read, dict) else {}}
        return {**block, field: "".join(pieces)} if field else block

    def _call(self, index: int) -> ToolCall:
        block, text = self._blocks[index], "".join(self._pieces[index])
        arguments = read_arguments(text) if text.strip() else block.get("input") or {}
        if not isinstance(arguments, dict):
            return ToolCall("", block.get("name") or "", None, block.get("id") or "", text)
        return ToolCall("", block.get("name") or "", arguments, block.get("id") or "")

    def _usage(self, estimate: Callable[[], int], size: int) -> Usage:
        counts = self._counts
        cached = counts.get("cache_read_input_tokens", 0)
        read = counts.get("input_tokens", 0) + counts.get("cache_creation_input_tokens", 0) + cached
        return Usage(read or estimate(), cached, counts.get("output_tokens") or max(size // 4, 1))

    def _detail(self, stop: StopReason) -> str:
        if stop is StopReason.UNKNOWN:
            return self._stop
        if stop is StopReason.REFUSAL:
            words = (self._details.get("explanation"), self._details.get("category"))
            return "the model declined to answer" + "".join(f": {word}" for word in words if word)
        if stop is StopReason.CONTEXT:
            return "the conversation filled the model's window before the reply was complete"
        return ""
