"""Exact replacements in a text, whatever its line ends, and diffs of what they did. All functions are pure."""

from __future__ import annotations

import difflib
import itertools
import re
from bisect import bisect_left
from dataclasses import dataclass

from ..agent.errors import ToolError

__all__ = ["Edit", "diff", "replace_text"]

_LISTED = 20
_LONGEST_DIFFED = 5_000
_SEARCHED = 20_000
_NUMBERED = re.compile(r"\s*\d+\t")
_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


@dataclass(frozen=True, slots=True)
class Edit:
    """The text after the edit, and the lines (from 1) where it was changed."""

    text: str
    lines: list[int]


def replace_text(text: str, old: str, new: str, *, all: bool = False) -> Edit:
    """Replace ``old`` by ``new`` where it stands exactly once, or everywhere with ``all``.

    Line ends count as equal when ``old`` is sought; what replaces it takes the line ends of its place, and no other
    line is touched.

    Raises
    ------
    ToolError
        ``old`` is empty, equal to ``new``, absent, or there more than once (saying where).
    """
    if not old:
        raise ToolError("old is empty: give the exact text to be replaced (write_file replaces a whole file)")
    flat, breaks = text, list[int]()
    if "\r\n" in text:
        old, new, flat = (part.replace("\r\n", "\n") for part in (old, new, text))
        breaks = [match.start() - at for at, match in enumerate(re.finditer("\r\n", text))]
    if old == new:
        raise ToolError("old and new are equal: there is nothing to change")
    starts = _starts(flat, old)
    lines = [flat.count("\n", 0, start) + 1 for start in starts]
    if not starts:
        raise ToolError(_not_found(flat, old))
    if len(starts) > 1:
        _check_many(starts, lines, old, all=all)
    pieces, at = [], 0
    for start in starts:
        end = start + len(old)
        begin = start + bisect_left(breaks, start)
        pieces += [text[at:begin], _with_line_ends(flat, breaks, start, end, new)]
        at = end + bisect_left(breaks, end)
    return Edit("".join([*pieces, text[at:]]), lines)


def _starts(text: str, old: str) -> list[int]:
    """All places, overlapping ones too: they make an edit ambiguous."""
    starts, at = [], text.find(old)
    while at >= 0:
        starts.append(at)
        at = text.find(old, at + 1)
    return starts


def _check_many(starts: list[int], lines: list[int], old: str, *, all: bool) -> None:
    places = ", ".join(map(str, lines[:_LISTED])) + (" …" if len(lines) > _LISTED else "")
    if not all:
        raise ToolError(
            f"old stands {len(starts)} times, at lines {places}; nothing was changed. Give more of the text around "
            "the one that you mean, or all=true to replace each."
        )
    if any(second - first < len(old) for first, second in itertools.pairwise(starts)):
        raise ToolError(
            f"old stands {len(starts)} times, at lines {places}, and some overlap: replacing each has no one meaning. "
            "Nothing was changed; give a longer text."
        )


def _not_found(flat: str, old: str) -> str:
    text = "old was not found; nothing was changed. It must match exactly, spaces and indentation included."
    lines = old.split("\n")
    if all(_NUMBERED.match(line) for line in lines if line):
        return text + " Leave out the line numbers that read_file shows."
    wanted = next((line for line in lines if line.strip()), "")
    there = flat.split("\n", _SEARCHED)[:_SEARCHED]
    squeezed = "".join(wanted.split())
    same = [at for at, line in enumerate(there) if squeezed and "".join(line.split()) == squeezed]
    if not same:
        near = difflib.get_close_matches(wanted, [line for line in there if len(line) < 500], n=1, cutoff=0.6)
        same = [there.index(near[0])] if near else []
    if not same:
        return text
    return f"{text} The nearest is line {same[0] + 1}:\n{there[same[0]][:500]}"


def _with_line_ends(flat: str, breaks: list[int], start: int, end: int, new: str) -> str:
    """``new`` with the line ends of the place that it goes to; a line that stays keeps its own."""
    if not breaks or "\n" not in new:
        return new
    segment = flat[start:end]
    crlf = set(breaks[bisect_left(breaks, start) : bisect_left(breaks, end)])
    ends = ["\r\n" if start + at in crlf else "\n" for at, char in enumerate(segment) if char == "\n"]
    if not ends:
        near = flat.rfind("\n", 0, start)
        near = near if near >= 0 else flat.find("\n", end)
        at = bisect_left(breaks, near)
        ends = ["\r\n" if at < len(breaks) and breaks[at] == near else "\n"]
    if len(set(ends)) == 1:
        return new.replace("\n", ends[0])
    before, after = segment.split("\n"), new.split("\n")
    chosen = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for at in range(j2 - j1):
            source = i1 - 1 if tag == "insert" else min(i1 + at, i2 - 1)
            chosen.append(ends[min(max(source, 0), len(ends) - 1)])
    return "".join(line + ending for line, ending in zip(after, [*chosen[: len(after) - 1], ""], strict=True))


def diff(before: str, after: str) -> str:
    """A unified diff of two texts, three lines of context; of very long changes only the sizes."""
    old, new = (text.replace("\r\n", "\n").split("\n") for text in (before, after))
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    first, last = max(head - 3, 0), max(tail - 3, 0)
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    if max(len(old), len(new)) > _LONGEST_DIFFED:
        return f"({len(old):,} lines became {len(new):,}; too long for a diff)"
    lines = [*difflib.unified_diff(old, new, lineterm="")][2:]
    shifted = (_HUNK.sub(lambda hunk: _shifted(hunk, first), line) for line in lines)
    return _readable("\n".join(shifted))


def _shifted(hunk: re.Match[str], lines: int) -> str:
    return f"@@ -{int(hunk[1]) + lines}{hunk[2] or ''} +{int(hunk[3]) + lines}{hunk[4] or ''} @@"


def _readable(text: str) -> str:
    """Bytes that are no UTF-8 as escapes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
