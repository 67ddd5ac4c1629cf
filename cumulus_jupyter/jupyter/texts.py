"""A run's streamed text as blocks: the open one grows, and is cut at paragraph ends so that updates stay small."""

from __future__ import annotations

from .board import Block, Board
from .paragraphs import last_paragraph_end

__all__ = ["Texts", "note"]

_SPLIT_FROM = 2_000
"""Characters from which an open text is split at a paragraph's end: each block costs the page an output of its own."""
_LIVELY = 400
"""Characters of a reply that are shown as fast as a board allows; the rest comes as often as ``print`` does."""
_CALM = 0.25
_BYTES_PER_SECOND = 100_000
"""What an open text that can't be split may cost."""


class Texts:
    """The text blocks of the reply that streams."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self.round: list[Block] = []
        """The blocks of this reply."""
        self._open: Block | None = None

    def begin(self) -> None:
        """A reply begins."""
        self.close()
        self.round = []

    def add(self, text: str) -> None:
        """Show more of the reply; white space alone begins no block."""
        block = self._open
        if block is None:
            if not text.strip():
                return
            block = self._start(text.lstrip("\n"))
            block.streamed = 0
            if len(self.round) == 1:  # a reply's first piece waits for nothing
                self._board.hurry()
        else:
            block.data["markdown"] += text
        block.streamed += len(text)
        self._board.touch(block)

    def _start(self, text: str) -> Block:
        block = self._open = self._board.new("text", markdown=text)
        block.streamed = len(text)
        self.round.append(block)
        return block

    def split(self) -> float:
        """Close the open text up to its last paragraph end; the seconds that the next update should wait at least."""
        block = self._open
        if block is None:
            return 0
        rest = text = block.data["markdown"]
        cut = last_paragraph_end(text) if len(text) >= _SPLIT_FROM else 0
        if cut > 0:
            block.data |= {"markdown": text[:cut].rstrip("\n"), "state": "closed"}
            self._open = None
            if rest := text[cut:].lstrip("\n"):
                block.streamed -= len(rest)
                self._board.mark(self._start(rest))
        calm = _CALM if len(self.round) > 1 or len(text) > _LIVELY else 0
        return max(calm, (3 if self._board.twins() else 1) * len(rest) / _BYTES_PER_SECOND)

    def close(self) -> None:
        """End the open text."""
        if self._open is not None:
            self._open.data["state"] = "closed"
            self._board.touch(self._open)
            self._open = None

    def take_back(self, characters: int) -> None:
        """Remove the last characters of this reply's stream."""
        left = characters
        for block in reversed(self.round):
            if left <= 0:
                break
            text = block.data["markdown"]
            unseen = block.streamed - len(text)
            block.data["markdown"] = text[: len(text) - max(left - unseen, 0)] if left < block.streamed else ""
            left, block.streamed = left - block.streamed, max(block.streamed - left, 0)
            self._board.touch(block)
        self._open = None


def note(board: Board, markdown: str) -> None:
    """Show a quiet remark of the harness."""
    block = board.new("text", markdown=markdown, tone="note")
    block.data["state"] = "closed"
    board.touch(block)
