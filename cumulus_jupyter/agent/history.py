"""A long conversation made short: which messages stay, and what stands for the rest. Pure functions on messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .messages import Image, Message, Reply, ToolCall, ToolResult, ToolResults, Usage, UserMessage

__all__ = ["shortened", "tail_length", "tokens", "tokens_used"]

_CHARACTERS = 3
"""A token's length, on the short side: code and numbers have about that, prose a little more."""
_IMAGE = 1_500
_OPENING, _CLOSING = "<summary of the conversation so far>", "</summary of the conversation so far>"


def tokens(message: Message) -> int:
    """About how many tokens a message takes."""
    if isinstance(message, UserMessage):
        return (len(message.text) + len(message.note)) // _CHARACTERS + 4
    if isinstance(message, Reply):
        calls = sum(len(call.name) + len(str(call.arguments)) for call in message.calls)
        return (len(message.text) + calls) // _CHARACTERS + 4
    parts = [part for result in message.results if result for part in result.content]
    texts = sum(len(part) for part in parts if isinstance(part, str))
    return texts // _CHARACTERS + _IMAGE * sum(isinstance(part, Image) for part in parts) + 4


def tokens_used(messages: Sequence[Message], fixed: int) -> int:
    """About how many tokens the next request reads: the server's own count of the last reply, and what came since.

    ``fixed`` stands for system prompt and tools where no server has counted yet.
    """
    since = 0
    for message in reversed(messages):
        if isinstance(message, Reply) and message.usage.input:
            return message.usage.input + message.usage.output + since
        since += tokens(message)
    return fixed + since


def tail_length(messages: Sequence[Message], budget: int) -> int:
    """How many of the last messages fit into that many tokens, calls and their results kept together."""
    kept, used = 0, 0
    for start in range(len(messages) - 1, 0, -1):
        used += tokens(messages[start])
        if used > budget:
            break
        if not isinstance(messages[start], ToolResults):
            kept = len(messages) - start
    return kept


def shortened(
    messages: Sequence[Message],
    tail: int,
    summary: str,
    *,
    fetched: Iterable[str] = (),
    todos: Iterable[dict[str, str]] = (),
    decisions: Iterable[tuple[str, str]] = (),
) -> list[Message]:
    """The conversation with a summary in place of all but its first task, its last prompt and its last messages.

    ``tail`` messages stay as they are; a tail that would begin with results begins with their calls instead. Todos
    and the person's decisions go along word for word, and tools that were fetched are fetched still. Thinking is
    dropped from all replies, since it is valid only behind the very messages that it followed.
    """
    start = len(messages) - tail
    if 0 < start < len(messages) and isinstance(messages[start], ToolResults):
        start -= 1
    first, kept = messages[0], list(messages[max(start, 1) :])
    assert isinstance(first, UserMessage)
    last = next(m for m in reversed(messages) if isinstance(m, UserMessage) and (m.text or m is first))
    if last is not first and all(message is not last for message in kept):
        kept.insert(0, last)
    text = _summary(summary, todos, decisions)
    first = UserMessage(first.text, first.note.partition(_OPENING)[0].rstrip())
    names = list(fetched)
    between: list[Message] = []
    if names:
        between = _fetched(text, names)
    elif kept and isinstance(kept[0], UserMessage):
        between = [Reply(text)]
    else:  # servers take neither two replies in a row nor one at the end
        first.note = f"{first.note}\n\n{text}".lstrip()
    return [first, *between, *(_bare(message) for message in kept)]


def _bare(message: Message) -> Message:
    return replace(message, native=None, usage=Usage(), encoded={}) if isinstance(message, Reply) else message


def _summary(summary: str, todos: Iterable[dict[str, str]], decisions: Iterable[tuple[str, str]]) -> str:
    steps = [f"- {todo['label']} ({todo['status']})" for todo in todos]
    answers = [f"- {header}: {answer}" for header, answer in decisions]
    parts = [
        _OPENING,
        summary,
        *(["The plan as it stands:", *steps] if steps else []),
        *(["The person's own answers to questions:", *answers] if answers else []),
        _CLOSING,
    ]
    return "\n".join(parts)


def _fetched(text: str, names: list[str]) -> list[Message]:
    """The search that fetched these tools, as if it had just been made: wires differ in how a tool stays fetched."""
    call = ToolCall("fetched_again", "tool_search", {"query": f"select:{','.join(names)}"}, "fetched_again")
    told = f"{', '.join(names)} can be called now, until this run ends"
    result = ToolResult(call.id, call.name, [told], details={"fetched": names})
    return [Reply(text, [call]), ToolResults([call], [result])]
