"""What programs write for a terminal, as plain text."""

from __future__ import annotations

import re

__all__ = ["plain", "plain_text"]

_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])")
_OVERSTRUCK = re.compile(rb"[^\n\x08]\x08")
_CONTROLS = bytes([*range(9), 11, 12, *range(14, 32), 127])


def plain(data: bytes) -> str:
    """Output as text, without colours and control characters; of a rewritten line only what stayed.

    Works on bytes, since no byte of a longer UTF-8 character is one of these.
    """
    if b"\x1b" in data:
        data = _ESCAPES.sub(b"", data)
    if b"\x08" in data:
        data = _OVERSTRUCK.sub(b"", data)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    if b"\r" in data:
        data = b"\n".join(line.rstrip(b"\r").rpartition(b"\r")[2] for line in data.split(b"\n"))
    return data.translate(None, _CONTROLS).decode("utf-8", "replace")


def plain_text(text: str) -> str:
    """The same for a text."""
    return plain(text.encode("utf-8", "replace"))
