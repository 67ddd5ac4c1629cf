"""What real servers refuse, as predicates on decoded requests: None, or the words of the refusal."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from typing import Any

from .schemas import schema_fault

CHAT_KEYS = {
    "model",
    "messages",
    "tools",
    "tool_choice",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
    "reasoning_effort",
}
MESSAGES_KEYS = {
    "model",
    "messages",
    "tools",
    "tool_choice",
    "system",
    "max_tokens",
    "stream",
    "thinking",
    "output_config",
}
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MARK = {"type": "ephemeral"}


def chat_fault(body: dict[str, Any]) -> str | None:
    """Why a Chat Completions server refuses the request."""
    return next(_chat_faults(body), None)


def messages_fault(body: dict[str, Any], signed: set[str]) -> str | None:
    """Why Anthropic's server refuses the request; ``signed`` holds the signatures that this model gave."""
    return next(_messages_faults(body, signed), None)


def _chat_faults(body: dict[str, Any]) -> Iterable[str]:
    if unknown := sorted(body.keys() - CHAT_KEYS):
        yield f"Unrecognized request argument supplied: {unknown[0]}"
    if not isinstance(body.get("model"), str) or not body.get("messages"):
        yield "model and messages are required"
    yield from _schema_faults([tool["function"] for tool in body.get("tools", ())], "parameters")
    open_ids: list[str] = []
    for number, message in enumerate(body["messages"]):
        role, content = message.get("role"), message.get("content")
        if role == "tool":
            if message.get("tool_call_id") not in open_ids:
                yield f"messages[{number}]: 'tool' must follow a message with 'tool_calls' that has its id"
            else:
                open_ids.remove(message["tool_call_id"])
            if not isinstance(content, str) or not content:
                yield f"messages[{number}]: content of a tool message must be a non-empty string"
            continue
        if open_ids:
            yield f"messages[{number}]: 'tool_calls' must be followed by tool messages for {open_ids}"
        if role == "assistant":
            calls = message.get("tool_calls", [])
            open_ids = [call.get("id") for call in calls]
            if len(set(open_ids)) < len(open_ids) or not all(open_ids):
                yield f"messages[{number}]: ids of tool calls must be given and unique"
            yield from (fault for call in calls if (fault := _arguments_fault(call)))
            if not calls and not content:
                yield f"messages[{number}]: content is required"
        elif role not in ("system", "user"):
            yield f"messages[{number}]: unknown role {role!r}"
        elif not content:
            yield f"messages[{number}]: content is required"
    if open_ids:
        yield f"'tool_calls' must be followed by tool messages for {open_ids}"


def _arguments_fault(call: dict[str, Any]) -> str | None:
    text = call.get("function", {}).get("arguments")
    try:
        whole = isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        whole = False
    return None if whole else f"invalid tool call arguments: {text!r}"


def _schema_faults(tools: list[dict[str, Any]], field: str) -> Iterable[str]:
    names = [tool.get("name", "") for tool in tools]
    for number, tool in enumerate(tools):
        if not TOOL_NAME.fullmatch(tool.get("name", "")):
            yield f"tool name {tool.get('name')!r} does not match {TOOL_NAME.pattern}"
        if fault := schema_fault(tool.get(field, {}), keys=field == "input_schema"):
            where = f"Invalid schema for function '{tool['name']}'"
            yield f"{where if field == 'parameters' else f'tools.{number}.custom.input_schema'}: {fault}"
    if len(set(names)) < len(names):
        yield "tool names must be unique"


def _messages_faults(body: dict[str, Any], signed: set[str]) -> Iterable[str]:
    if unknown := sorted(body.keys() - MESSAGES_KEYS):
        yield f"{unknown[0]}: Extra inputs are not permitted"
    tools = body.get("tools", [])
    yield from _schema_faults(tools, "input_schema")
    if any(tool.get("defer_loading") and "cache_control" in tool for tool in tools):
        yield "tools with defer_loading cannot have cache_control"
    if json.dumps(body).count('"cache_control"') > 4:
        yield "A maximum of 4 blocks with cache_control may be provided"
    role, calls = "assistant", []
    for number, message in enumerate(body["messages"]):
        if message["role"] == role:
            yield f"messages.{number}: roles must alternate"
        role, blocks = message["role"], message["content"]
        if not blocks:
            yield f"messages.{number}: content must be non-empty"
        if role == "user":
            yield from _user_faults(number, blocks, calls, {tool["name"] for tool in tools})
            calls = []
        else:
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            yield from _assistant_faults(number, blocks, signed)
    if calls:
        yield f"`tool_use` ids were found without `tool_result` blocks immediately after: {calls}"
    if role == "assistant" and body["messages"][-1]["content"][-1]["type"] in ("text", "tool_use"):
        yield "This model does not support assistant message prefill"


def _user_faults(number: int, blocks: list[dict[str, Any]], calls: list[str], tools: set[str]) -> Iterable[str]:
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    if sorted(results) != sorted(calls):
        yield (
            f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{calls} against {results}"
        )
    if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
        yield f"messages.{number}: tool_result blocks must come first"
    for block in blocks:
        if block["type"] == "text" and not block["text"].strip():
            yield f"messages.{number}: text content blocks must contain non-whitespace text"
        if block["type"] == "tool_result" and isinstance(block["content"], list):
            kinds = {part["type"] for part in block["content"]}
            if "tool_reference" in kinds and len(kinds) > 1:
                yield "tool_reference blocks stand alone in a tool_result"
            for part in block["content"]:
                if part["type"] == "tool_reference" and part["tool_name"] not in tools:
                    yield f"Tool reference '{part['tool_name']}' not found in available tools"


def _assistant_faults(number: int, blocks: list[dict[str, Any]], signed: set[str]) -> Iterable[str]:
    for place, block in enumerate(blocks):
        if block["type"] == "thinking" and block.get("signature") not in signed:
            yield f"messages.{number}.content.{place}: Invalid `signature` in `thinking` block"
        if block["type"] == "text" and not block["text"].strip():
            yield f"messages.{number}.content.{place}: text content blocks must be non-empty"
        if block["type"] == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
            yield f"messages.{number}.content.{place}.tool_use.id: String should match pattern"
        if block["type"] == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]{1,200}", block["name"]):
            yield f"messages.{number}.content.{place}.tool_use.name: String should match pattern"
        if block["type"] == "tool_use" and not isinstance(block["input"], dict):
            yield f"messages.{number}.content.{place}.tool_use.input: Input should be a valid dictionary"


def unmarked(value: Any) -> Any:
    """A request's value without its cache markers, which no server counts as a change."""
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


def prefix_fault(bodies: list[bytes]) -> str | None:
    """Where a request of one conversation does not extend the one before it, byte for byte apart from markers."""
    mark = b',"cache_control":{"type":"ephemeral"}'
    plain = [body.replace(mark, b"") for body in bodies]
    for number, (before, after) in enumerate(itertools.pairwise(plain)):
        head = before[: before.rindex(b"]")].rstrip(b"]}")
        if not after.startswith(head):
            place = next(i for i, (a, b) in enumerate(zip(head, after, strict=False)) if a != b)
            return (
                f"request {number + 2} leaves request {number + 1} at byte {place}: {after[place - 60 : place + 60]!r}"
            )
    return None
