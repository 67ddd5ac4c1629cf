"""Where whole results are kept that a model saw a window of."""

from __future__ import annotations

__all__ = ["Spool"]


class Spool:
    """Whole results by handle, in memory. A stored session keeps them beside its lines instead."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def put(self, handle: str, text: str) -> None:
        """Keep a whole result."""
        self._texts[handle] = text

    def get(self, handle: str) -> str | None:
        """The whole result, None where the handle names none."""
        return self._texts.get(handle)

    def handles(self) -> list[str]:
        """All handles, oldest first."""
        return list(self._texts)
