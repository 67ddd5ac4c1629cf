"""Joining a continued text to what is there, without a gap or a repeat."""

from __future__ import annotations

__all__ = ["Seam"]

_REACH = 400
"""Characters at the start of a continuation that are searched for a repeat."""
_LEAST = 6
"""A shorter match is chance: two letters repeat in any text."""


class Seam:
    """Streams a continuation of ``before``; what it repeats of ``before`` is dropped.

    A model that goes on after a cut may say the last words again, or start the whole answer again. The start of the
    continuation is held back until that is decided; behind it, text passes through at once.
    """

    def __init__(self, before: str) -> None:
        self._before = before
        self._held = ""
        self._joined = not before
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """What was let through."""
        return "".join(self._pieces)

    @property
    def shown(self) -> int:
        """Characters let through."""
        return sum(map(len, self._pieces))

    def reset(self) -> int:
        """Forget this continuation; gives the characters that were let through."""
        shown = self.shown
        self._held, self._joined, self._pieces = "", not self._before, []
        return shown

    def feed(self, piece: str) -> str:
        """Take a piece; gives what may be shown now."""
        if self._joined:
            self._pieces.append(piece)
            return piece
        self._held += piece
        restarting = self._before.startswith(self._held)
        if restarting or len(self._held) < _REACH:
            return ""
        return self.finish()

    def finish(self) -> str:
        """The end of the continuation: gives what was still held back."""
        if self._joined:
            return ""
        self._joined = True
        rest = self._held[self._repeat() :]
        if rest:
            self._pieces.append(rest)
        return rest

    def _repeat(self) -> int:
        """How many characters at the start of the held text repeat what is there."""
        held, before = self._held, self._before
        if held.startswith(before):
            return len(before)
        if before.startswith(held):
            return len(held)
        for length in range(min(len(before), len(held)), _LEAST - 1, -1):
            if before.endswith(held[:length]):
                return length
        return 0
