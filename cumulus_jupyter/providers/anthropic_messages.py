"""A conversation as Anthropic's messages, each encoded once, with cache markers that move."""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from typing import Any

from ..agent.messages import Image, Message, Reply, ToolResult, ToolResults, UserMessage
from ..agent.schemas import object_schema
from ..agent.tool import Tool
from .encoding import History, encode, result_text, wire_ids
from .names import described, wire_name

__all__ = ["AnthropicMessages", "encode_deferred", "encode_tool", "marked"]

_MARK = b',"cache_control":{"type":"ephemeral"}}'
_MARKED_TURNS = 2
"""Cache markers on messages: the last turn of the user's side, and the one before, where the last request wrote its
cache entry. The server looks back 20 blocks from a marker, fewer than one round with many calls has."""
_ID = "a-zA-Z0-9_-"
_OPENING = {role: b']},{"role":"%b","content":[' % role.encode() for role in ("user", "assistant")}


def marked(block: bytes) -> bytes:
    """The encoded block with a cache marker."""
    return block[:-1] + _MARK


class AnthropicMessages(History):
    """Encodes messages for one model.

    A reply of this very model goes back block by block as it came; of another's, its text and calls go. ``native``
    says whether fetched tools are referred to (the server has their definitions) or described.
    """

    def __init__(self, name: str, *, images: bool, left_out: Container[str] = ()) -> None:
        super().__init__()
        self._name = name
        self._parts: list[bytes] = []
        self._ends: list[int] = []
        self._side = ""
        self.native = True
        self.images = images
        self._left_out = left_out
        self.cached = True

    @property
    def key(self) -> str:
        """Encodings differ by model and by what the server takes."""
        return f"messages:{self._name}:{self.native}:{self.images}"

    def __call__(self, messages: Sequence[Message]) -> bytes:
        """The ``messages`` array, without its brackets."""
        self.advance(messages)
        parts = self._parts.copy()
        if self.cached:
            for index in self._ends[-_MARKED_TURNS:]:
                parts[index] = marked(parts[index])
        if self.owed is not None:
            parts += [b']},{"role":"user","content":[', self.missing()]
        return b"".join([*parts, b"]}"]) if parts else b""

    def restart(self) -> None:
        """Forget all pieces."""
        self._parts, self._ends, self._side = [], [], ""

    def append(self, piece: bytes, message: Message | None) -> None:
        """Add blocks; those of one side that follow one another are one message.

        A note of ours behind results goes into the last of them: as a text of its own there, it makes models take
        their turn for done. What the person says stays theirs.
        """
        role = "assistant" if isinstance(message, Reply) else "user"
        if role == self._side == "user" and isinstance(message, UserMessage) and not message.text.strip():
            noted = _with_note(self._parts[-1], message.note)
            if noted:
                self._parts[-1] = noted
                return
        if role == self._side:
            self._parts.append(b",")
            if role == "user":
                self._ends.pop()
        else:
            self._parts.append(_OPENING[role] if self._parts else _OPENING[role][3:])
        if role == "user":
            self._ends.append(len(self._parts))
        self._parts.append(piece)
        self._side = role

    def drop_thinking(self, messages: Sequence[Message]) -> bool:
        """From now on these replies go back without their thinking; False where none has any."""
        dropped = False
        for message in messages:
            if isinstance(message, Reply) and message.model == self._name and _has_thinking(message.native):
                rebuilt = _rebuilt(message, wire_ids(message.calls))
                dropped = dropped or message.encoded.get(self.key) != rebuilt
                message.encoded[self.key] = rebuilt
        self.forget()
        return dropped

    def encode(self, message: Message) -> bytes:
        """The message's blocks, joined by commas."""
        if isinstance(message, UserMessage):
            texts = [text for text in (message.text, message.note) if text.strip()] or ["(nothing)"]
            return b",".join(encode({"type": "text", "text": text}) for text in texts)
        writer = message if isinstance(message, Reply) else self.owed
        foreign = writer is None or writer.model != self._name
        ids = wire_ids(message.calls, allowed=_ID if foreign else "")
        if isinstance(message, ToolResults):
            return b",".join(self._result(id, result) for id, result in zip(ids, message.results, strict=True))
        return _rebuilt(message, ids) if foreign else _echoed(message, ids)

    def _result(self, id: str, result: ToolResult | None) -> bytes:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": id, "content": result_text(result)}
        if result is None or not result.ok:
            block["is_error"] = True
        elif self.native and (fetched := self._sent(result.details.get("fetched"))):
            # The definitions are the result: beside them, text would say the same twice.
            block["content"] = [{"type": "tool_reference", "tool_name": wire_name(name)} for name in fetched]
        if result is not None and any(isinstance(part, Image) for part in result.content):
            block["content"] = [self._part(part) for part in result.content if part]
        return encode(block)

    def _sent(self, names: Sequence[str] | None) -> list[str]:
        """Those of the fetched tools that the request has."""
        return [name for name in names or () if name not in self._left_out]

    def _part(self, part: str | Image) -> dict[str, Any]:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        if not self.images:
            return {"type": "text", "text": "(a picture was left out: this model takes none)"}
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        return {"type": "image", "source": source}


def encode_tool(tool: Tool) -> bytes:
    """A tool's definition."""
    schema = object_schema(tool.schema())
    return encode({"name": wire_name(tool.name), "description": described(tool), "input_schema": schema})


def encode_deferred(tool: Tool) -> bytes:
    """A tool's definition that enters the context only where a result refers to it."""
    return encode_tool(tool)[:-1] + b',"defer_loading":true}'


def _with_note(results: bytes, note: str) -> bytes:
    """Encoded results with a text added to the last one that can hold it; empty where there is none."""
    blocks = json.loads(b"[%b]" % results)
    for block in reversed(blocks):
        content = block.get("content")
        if block["type"] != "tool_result" or not note.strip():
            return b""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if parts[0]["type"] != "tool_reference":  # which stand alone
            block["content"] = [*parts, {"type": "text", "text": note}]
            return b",".join(map(encode, blocks))
    return b""


def _echoed(reply: Reply, ids: list[str]) -> bytes:
    """The blocks as they came, without empty texts, which the server sends but does not take."""
    native = reply.native if isinstance(reply.native, list) else []
    if not native or sum(block["type"] == "tool_use" for block in native) != len(ids):
        return _rebuilt(reply, ids)  # the engine joined pieces, or dropped a cut call
    numbered = iter(ids)
    blocks = []
    for block in native:
        if block["type"] == "text" and not block["text"].strip():
            continue
        if block["type"] == "tool_use":
            block = {**block, "id": next(numbered), "name": wire_name(block["name"] or "unknown")}
        blocks.append(encode(block))
    return b",".join(blocks)


def _rebuilt(reply: Reply, ids: list[str]) -> bytes:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text.strip() else []
    for id, call in zip(ids, reply.calls, strict=True):
        blocks.append(
            {"type": "tool_use", "id": id, "name": wire_name(call.name or "unknown"), "input": call.arguments or {}}
        )
    return b",".join(map(encode, blocks))


def _has_thinking(native: Any) -> bool:
    kinds = ("thinking", "redacted_thinking")
    return isinstance(native, list) and any(block.get("type") in kinds for block in native)
