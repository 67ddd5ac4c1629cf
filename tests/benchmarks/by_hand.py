"""The anchor: the same requests from a loop written by hand on httpx2, events decoded with jiter."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
from jiter import from_json

__all__ = ["PATHS", "ask", "rounds"]

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}
_HEADERS = {"authorization": "Bearer x", "content-type": "application/json"}


@dataclass
class Heard:
    """What came of a reply."""

    text: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    call: dict[str, Any] | None = None


def _take_chat(event: dict[str, Any], heard: Heard) -> None:
    for choice in event["choices"]:
        delta = choice["delta"]
        if text := delta.get("content"):
            heard.text.append(text)
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                heard.call = call
            heard.arguments.append(call["function"]["arguments"])


def _take_messages(event: dict[str, Any], heard: Heard) -> None:
    if event["type"] == "content_block_delta":
        delta = event["delta"]
        if delta["type"] == "text_delta":
            heard.text.append(delta["text"])
        elif delta["type"] == "input_json_delta":
            heard.arguments.append(delta["partial_json"])
    elif event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
        heard.call = event["content_block"]


_TAKE: dict[str, Callable[[dict[str, Any], Heard], None]] = {"chat": _take_chat, "messages": _take_messages}


async def ask(client: httpx2.AsyncClient, wire: str, url: str, body: dict[str, Any]) -> Heard:
    """Send a request and fold the reply."""
    heard, take = Heard(), _TAKE[wire]
    content = json.dumps(body).encode()
    async with client.stream("POST", url + PATHS[wire], content=content, headers=_HEADERS) as response:
        rest = b""
        async for chunk in response.aiter_bytes():
            *events, rest = (rest + chunk).split(b"\n\n")
            for event in events:
                data = event[event.find(b"data: ") + 6 :]
                if data != b"[DONE]":
                    take(from_json(data), heard)
    return heard


def _turn(wire: str, heard: Heard, result: str) -> list[dict[str, Any]]:
    """The reply and its call's result as messages."""
    text, arguments, call = "".join(heard.text), "".join(heard.arguments), heard.call or {}
    if wire == "chat":
        function = {"name": call["function"]["name"], "arguments": arguments}
        asked = {"id": call["id"], "type": "function", "function": function}
        reply = {"role": "assistant", "content": text, "tool_calls": [asked]}
        return [reply, {"role": "tool", "tool_call_id": call["id"], "content": result}]
    used = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": json.loads(arguments)}
    answer = {"type": "tool_result", "tool_use_id": call["id"], "content": result}
    said = {"role": "assistant", "content": [{"type": "text", "text": text}, used]}
    return [said, {"role": "user", "content": [answer]}]


async def rounds(wire: str, url: str, body: dict[str, Any], tool: Callable[..., Any]) -> list[float]:
    """Seconds of each tool round of a conversation that begins with this body; the first one is left out."""
    messages = list(body["messages"])
    times: list[float] = []
    async with httpx2.AsyncClient(timeout=60) as client:
        while True:
            started = time.perf_counter()
            heard = await ask(client, wire, url, {**body, "messages": messages})
            if heard.call is not None:
                result = await tool(**json.loads("".join(heard.arguments)))
                messages += _turn(wire, heard, result)
            times.append(time.perf_counter() - started)
            if heard.call is None:
                return times[1:]
