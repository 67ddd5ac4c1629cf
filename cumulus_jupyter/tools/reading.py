"""Lines of a text file without holding the file: what ``read_file`` shows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .textfile import LARGEST, decode, is_binary

__all__ = ["HEAD", "Lines", "read_lines"]

HEAD = 8_192
"""Bytes that tell what kind of file it is."""
_BLOCK = 1024 * 1024
_COUNTING = 2.0
"""Seconds that lines behind the wanted ones are counted for."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a file, without their ends.

    ``total`` counts the file's lines, ``exact`` says whether it was counted to the end, ``cut`` whether the wanted
    lines were too large and the last one shown is not whole. ``note`` says what is unusual.
    """

    lines: list[str]
    total: int
    exact: bool = True
    cut: bool = False
    note: str = ""


def read_lines(path: Path, offset: int, limit: int) -> Lines | None:
    """Lines ``offset`` (from 0) to ``offset + limit`` of a file, None where it is no text.

    Raises
    ------
    OSError
        It can't be read.
    ToolError
        Its bytes break the encoding that it announces.
    """
    with open(path, "rb") as file:
        head = file.read(HEAD)
        if is_binary(head):
            return None
        file.seek(0)
        if decode_needed(head):
            return _decoded(file.read(LARGEST + 1), offset, limit)
        passed = _skip(file, offset)
        data, cut = _take(file, limit)
        ended = data.endswith(b"\n") or not data
        taken = data.count(b"\n") + (not ended)
        rest, exact = _count(file) if not cut else (0, False)
    lines = [line.removesuffix(b"\r").decode("utf-8", "backslashreplace") for line in _split(data)]
    note = decode(data).note
    if offset == 0 and lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    return Lines(lines, passed + taken + rest, exact, cut, note)


def decode_needed(head: bytes) -> bool:
    """Whether the file must be decoded whole: its line ends are not single bytes."""
    return head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff"))


def _decoded(data: bytes, offset: int, limit: int) -> Lines:
    cut = len(data) > LARGEST
    text = decode(data[: LARGEST - LARGEST % 4])
    lines = text.text.removesuffix("\n").split("\n") if text.text else []
    chosen = [line.removesuffix("\r") for line in lines[offset : offset + limit]]
    return Lines(chosen, len(lines), not cut, False, text.note)


def _skip(file: BinaryIO, lines: int) -> int:
    """Go to the start of a line; gives the lines passed, fewer where the file ends before."""
    passed = 0
    while passed < lines:
        start = file.tell()
        block = file.read(_BLOCK)
        if not block:
            return passed
        count = block.count(b"\n")
        if passed + count < lines:
            passed += count
            if not block.endswith(b"\n"):
                passed += _is_last(file)
            continue
        at = -1
        for _ in range(lines - passed):
            at = block.index(b"\n", at + 1)
        file.seek(start + at + 1)
        return lines
    return passed


def _is_last(file: BinaryIO) -> bool:
    """Whether the file ends here."""
    here = file.tell()
    ended = not file.read(1)
    file.seek(here)
    return ended


def _take(file: BinaryIO, limit: int) -> tuple[bytes, bool]:
    """The next lines, and whether they had to be cut."""
    parts: list[bytes] = []
    size = 0
    for _ in range(limit):
        line = file.readline(LARGEST + 1 - size)
        if not line:
            break
        parts.append(line)
        size += len(line)
        if size > LARGEST:
            return b"".join(parts)[:LARGEST], True
    return b"".join(parts), False


def _count(file: BinaryIO) -> tuple[int, bool]:
    """Lines from here to the end, and whether the end was reached in time."""
    until = time.monotonic() + _COUNTING
    count, last = 0, b"\n"
    while block := file.read(_BLOCK):
        count += block.count(b"\n")
        last = block[-1:]
        if time.monotonic() > until:
            return count, _is_last(file)
    return count + (last != b"\n"), True


def _split(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end + 1
