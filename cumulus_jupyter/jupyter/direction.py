"""Which way a text runs."""

from __future__ import annotations

import unicodedata

__all__ = ["is_right_to_left"]


def is_right_to_left(text: str) -> bool:
    """Whether most letters of a text run from right to left: one Latin name in front does not turn a sentence."""
    kinds = [unicodedata.bidirectional(sign) for sign in text[:2_000]]
    return sum(kind in ("R", "AL") for kind in kinds) > kinds.count("L")
