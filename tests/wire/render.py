"""A scripted reply as the bytes that either wire streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Turn:
    """One scripted reply.

    ``calls`` are (name, arguments) or (name, arguments, id). ``usage`` is tokens read and written. ``body`` replaces
    all of it by raw bytes. The response is written in pieces that end at ``cuts`` (byte positions), or ``every`` so
    many bytes, with ``delay`` seconds before each; after ``drop`` bytes the connection is cut,
    ``mute``: before any;
    ``linger`` is seconds that it stays open behind the last byte.
    """

    text: str = ""
    calls: Sequence[tuple[Any, ...]] = ()
    thinking: str = ""
    stop: str = ""
    usage: tuple[int, int] | None = (100, 20)
    body: bytes | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cuts: Sequence[int] = ()
    every: int = 0
    delay: float = 0.0
    mute: bool = False
    drop: int | None = None
    linger: float = 0.0
    reasoning_field: str = "reasoning_content"


@dataclass
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body, decoded."""
        return json.loads(self.body)  # type: ignore[no-any-return]


Script = Sequence[Turn | Callable[[Asked], Turn]]


def pieces(text: str) -> list[str]:
    """A text in streamed pieces of about a word."""
    return [text[i : i + 6] for i in range(0, len(text), 6)]


def event(value: Any, name: str = "") -> bytes:
    """A server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def chat_body(turn: Turn) -> bytes:
    """The turn as a Chat Completions stream."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return event({"id": "c-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})

    parts = [chunk({"role": "assistant", "content": ""})]
    parts += [chunk({turn.reasoning_field: piece}) for piece in pieces(turn.thinking)]
    parts += [chunk({"content": piece}) for piece in pieces(turn.text)]
    for index, (name, arguments, *rest) in enumerate(turn.calls):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        head = {"index": index, "id": rest[0] if rest else f"call_{index}", "type": "function"}
        parts.append(chunk({"tool_calls": [{**head, "function": {"name": name, "arguments": ""}}]}))
        for piece in pieces(text):
            parts.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    parts.append(chunk({}, turn.stop or ("tool_calls" if turn.calls else "stop")))
    if turn.usage:
        read, written = turn.usage
        usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        parts.append(event({"id": "c-1", "object": "chat.completion.chunk", "choices": [], "usage": usage}))
    return b"".join([*parts, b"data: [DONE]\n\n"])


def messages_body(turn: Turn, signature: str) -> bytes:
    """The turn as a Messages stream; its thinking bears the signature."""
    read, written = turn.usage or (0, 0)
    usage = {"input_tokens": read, "output_tokens": 1 if written else 0}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    parts = [event({"type": "message_start", "message": {**message, "stop_reason": None}}, "message_start")]
    index = 0

    def block(start: dict[str, Any], deltas: Sequence[dict[str, Any]]) -> None:
        nonlocal index
        parts.append(
            event({"type": "content_block_start", "index": index, "content_block": start}, "content_block_start")
        )
        for delta in deltas:
            parts.append(event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta"))
        parts.append(event({"type": "content_block_stop", "index": index}, "content_block_stop"))
        index += 1

    if turn.thinking:
        thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(turn.thinking)]
        sign = {"type": "signature_delta", "signature": signature}
        block({"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, sign])
    if turn.text:
        block({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(turn.text)])
    for number, (name, arguments, *rest) in enumerate(turn.calls):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        use = {"type": "tool_use", "id": rest[0] if rest else f"toolu_{number}", "name": name, "input": {}}
        block(use, [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(text)]])
    stop = turn.stop or ("tool_use" if turn.calls else "end_turn")
    delta = {"stop_reason": stop, "stop_sequence": None}
    parts.append(event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": written}}, "message_delta"))
    parts.append(event({"type": "message_stop"}, "message_stop"))
    return b"".join(parts)
