"""Where a streaming Markdown text can be cut into blocks of its own."""

from __future__ import annotations

import re

__all__ = ["last_paragraph_end"]

_FENCE = re.compile(r"^\s{0,3}(?:[-*+]\s+|\d+[.)]\s+)*(`{3,}|~{3,})(.*)$")


def last_paragraph_end(text: str) -> int:
    """Where the last blank line outside a code fence and outside an indented continuation begins; 0 for none."""
    fence, cut, position = "", 0, 0
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1]):
        match = _FENCE.match(line)
        if match and not fence:
            fence = match[1]
        elif match and match[1][0] == fence[0] and len(match[1]) >= len(fence) and not match[2].strip():
            fence = ""
        following = lines[number + 1]
        if not fence and not line.strip() and not following.startswith((" ", "\t")) and following.strip():
            cut = position
        position += len(line) + 1
    return cut
