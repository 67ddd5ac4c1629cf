"""A conversation as the messages of Chat Completions, each encoded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..agent.messages import Image, Message, Reply, ToolResults, UserMessage
from ..agent.schemas import object_schema
from ..agent.tool import Tool
from .encoding import History, dumps, encode, result_text, wire_ids
from .names import described, wire_name

__all__ = ["ChatMessages", "Habits", "encode_tool"]


@dataclass(slots=True)
class Habits:
    """What this server takes; each is changed by a refusal that names it."""

    max_tokens: str = "max_tokens"
    """The name of the limit on a reply."""
    usage: bool = True
    effort: bool = True
    reasons: bool = True
    """Tools may go with reasoning; OpenAI's own Chat Completions takes newer models' tools only without."""
    choice: bool = True
    images: bool = True
    null: bool = True
    """Content of an assistant message without text is ``null``, not ``""``."""
    reasoning: str = "received"
    """Reasoning goes back as ``received``, ``always`` (an empty one too), ``filled`` (never empty), or ``never``."""
    field: str = "reasoning_content"
    """Its name where none was received."""


class ChatMessages(History):
    """Encodes messages for one server; a changed habit encodes them anew.

    Parameters
    ----------
    name
        The model, as replies are stamped: reasoning goes back to the model that wrote it only.
    """

    def __init__(self, name: str, habits: Habits) -> None:
        super().__init__()
        self._name = name
        self._system = ("", b"")
        self._pieces: list[bytes] = []
        self.habits = habits

    @property
    def key(self) -> str:
        """Encodings differ by model and by these habits."""
        habits = self.habits
        return f"chat:{self._name}:{habits.null}:{habits.images}:{habits.reasoning}:{habits.field}"

    def __call__(self, system: str, messages: Sequence[Message]) -> bytes:
        """The messages' JSON objects, joined by commas."""
        self.advance(messages)
        if self._system[0] != system:
            self._system = (system, encode({"role": "system", "content": system}))
        pieces = [self._system[1], *self._pieces] if system else self._pieces
        return b",".join([*pieces, self.missing()] if self.owed is not None else pieces)

    def restart(self) -> None:
        """Forget all pieces."""
        self._pieces = []

    def append(self, piece: bytes, message: Message | None) -> None:
        """Add a message's bytes."""
        self._pieces.append(piece)

    def encode(self, message: Message) -> bytes:
        """The message as one JSON object or, for results, several."""
        if isinstance(message, UserMessage):
            text = f"{message.text}\n\n{message.note}" if message.note else message.text
            return encode({"role": "user", "content": text})
        return self._reply(message) if isinstance(message, Reply) else self._results(message)

    def _reply(self, reply: Reply) -> bytes:
        """An assistant message; nothing for one that says and asks nothing, which servers refuse."""
        if not reply.text and not reply.calls:
            return b""
        own = reply.native if reply.model == self._name and isinstance(reply.native, dict) else {}
        empty = None if self.habits.null else ""
        entry: dict[str, Any] = {"role": "assistant", "content": reply.text or empty, **self._reasoning(own)}
        if reply.calls:
            texts = own.get("arguments") or []
            if len(texts) != len(reply.calls):
                texts = [dumps(call.arguments or {}) for call in reply.calls]
            entry["tool_calls"] = [
                {
                    "id": id,
                    "type": "function",
                    "function": {"name": wire_name(call.name or "unknown"), "arguments": text},
                }
                for id, call, text in zip(wire_ids(reply.calls), reply.calls, texts, strict=True)
            ]
        return encode(entry)

    def _reasoning(self, own: Mapping[str, Any]) -> dict[str, str]:
        rule, text = self.habits.reasoning, own.get("text", "")
        if rule == "never" or (rule == "received" and not text):
            return {}
        return {own.get("field") or self.habits.field: text or (" " if rule == "filled" else "")}

    def _results(self, group: ToolResults) -> bytes:
        """Tool messages carry text only: pictures follow in a user message, behind all of them."""
        entries: list[dict[str, Any]] = []
        pictures: list[dict[str, Any]] = []
        for id, call, result in zip(wire_ids(group.calls), group.calls, group.results, strict=True):
            text = result_text(result)
            images = [part for part in result.content if isinstance(part, Image)] if result else []
            if images and not self.habits.images:
                text += f"\n({len(images)} picture(s) left out: this model takes none)"
            elif images:
                pictures += [{"type": "text", "text": f"Picture(s) from {call.name}:"}, *map(_picture, images)]
            entries.append({"role": "tool", "tool_call_id": id, "content": text})
        if pictures:
            entries.append({"role": "user", "content": pictures})
        return b",".join(map(encode, entries))


def encode_tool(tool: Tool) -> bytes:
    """A tool as a function definition."""
    parameters = object_schema(tool.schema())
    function = {"name": wire_name(tool.name), "description": described(tool), "parameters": parameters}
    return encode({"type": "function", "function": function})


def _picture(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}}
