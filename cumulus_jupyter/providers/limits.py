"""What a server's refusal says about its limits, in whatever words it says it."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Limits", "read_limits"]

_LEAST = 256
"""A reply of fewer tokens is no use: then the conversation is what is too long."""

_NUMBER = re.compile(r"(?<![\w.\-])\d[\d,]*(?![\w\-]|\.\d)")
_ABOUT_REPLY = re.compile(r"max_(?:completion_|output_|new_)?tokens|maxOutputTokens|(?:completion|output) tokens", re.I)
_ABOUT_CONTEXT = re.compile(
    r"context[ _](?:length|window|limit|size|shift)|prompt is too long|input is too long|too many (?:input )?tokens"
    r"|reduce the length|request_too_large|max_model_len|exceed_context|input tokens? exceed|longest allowed",
    re.IGNORECASE,
)
_ANTHROPIC = re.compile(r"exceed context limit: (\d+) \+ (\d+) > (\d+)")
_WINDOW = re.compile(
    r"maximum (?:context|model) length (?:is|of) (\d+)|context (?:window|length|size)[^\d.]{0,40}?(\d{4,})"
    r"|> (\d+) maximum",
    re.I,
)
_INPUT = re.compile(
    r"\((\d+) in the (?:messages|prompt)|(?:request|prompt|input) (?:has|contains)(?: at least)? (\d+)"
    r"|(\d+) input tokens|messages resulted in (\d+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens. ``ceiling`` is the largest reply that this request may ask for, 0 where the refusal names none.

    ``window`` is the whole context where it was named. ``overflow`` says that the conversation itself is too long.
    ``shared`` says that the ceiling came from the window, so that it shrinks as the conversation grows.
    """

    ceiling: int = 0
    window: int = 0
    overflow: bool = False
    shared: bool = False


def read_limits(text: str, asked: int) -> Limits | None:
    """Limits named in a refusal of a request for ``asked`` tokens; None where it is about something else."""
    if match := _ANTHROPIC.search(text):
        return _from_window(int(match[3]), int(match[1]))
    if _ABOUT_CONTEXT.search(text):
        window, used = _first(_WINDOW, text), _first(_INPUT, text)
        if window and used and (_ABOUT_REPLY.search(text) or "in the completion" in text):
            return _from_window(window, used)
        if window or not _ABOUT_REPLY.search(text):
            return Limits(window=window, overflow=True)
    if not _ABOUT_REPLY.search(text):
        return None
    named = [int(number.replace(",", "")) for number in _NUMBER.findall(text)]
    smaller = [number for number in named if _LEAST <= number < asked]
    return Limits(ceiling=max(smaller) - ("(exclusive)" in text)) if smaller else None


def _from_window(window: int, used: int) -> Limits:
    left = window - used
    return Limits(left, window, shared=True) if left >= _LEAST else Limits(window=window, overflow=True)


def _first(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text.replace(",", ""))
    return int(next(group for group in match.groups() if group)) if match else 0
