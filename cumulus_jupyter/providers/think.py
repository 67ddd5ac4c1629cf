"""Thinking that a server without a parser for it lets through at the start of an answer, in tags."""

from __future__ import annotations

__all__ = ["ThinkFilter"]

_TAGS = {"<think>": "</think>", "<thinking>": "</thinking>", "<|START_THINKING|>": "<|END_THINKING|>"}


class ThinkFilter:
    """Parts an answer that begins with ``<think>`` into thinking and text, wherever its pieces are cut.

    Tags anywhere else are text: people do ask about them.
    """

    __slots__ = ("_closing", "_held", "_open", "done")

    def __init__(self) -> None:
        self._held = ""
        self._open = True
        self._closing = ""
        self.done = False
        """All that comes from now on is text."""

    def feed(self, piece: str) -> tuple[str, str]:
        """Take a piece; gives what of it is thinking, and what is text."""
        self._held += piece
        thinking = ""
        if self._open:
            start = self._held.lstrip()
            if not start or any(tag.startswith(start) and tag != start for tag in _TAGS):
                return "", ""
            self._open = False
            tag = next((tag for tag in _TAGS if start.startswith(tag)), "")
            if not tag:
                return "", self._all()
            self._closing, self._held = _TAGS[tag], start[len(tag) :]
        if self._closing:
            thinking, closed, rest = self._held.partition(self._closing)
            if not closed:
                kept = _overlap(thinking, self._closing)
                self._held = thinking[len(thinking) - kept :]
                return thinking[: len(thinking) - kept], ""
            self._closing, self._held = "", rest
        if not (rest := self._held.lstrip()):
            return thinking, ""
        self._held = rest
        return thinking, self._all()

    def finish(self) -> tuple[str, str]:
        """What was held back at the end: thinking, and text."""
        held, self._held, self.done = self._held, "", True
        if self._closing:
            return held, ""
        return "", held if self._open else ""

    def _all(self) -> str:
        held, self._held, self.done = self._held, "", True
        return held


def _overlap(text: str, tag: str) -> int:
    """How many characters at the text's end may be the start of the tag."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:n])), 0)
