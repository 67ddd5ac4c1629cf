"""``{{expression}}`` in a prompt, replaced by its value where it evaluates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["expand"]

_EXPRESSION = re.compile(r"\{\{(.+?)\}\}", re.DOTALL)
_LONGEST = 20_000


def expand(text: str, namespace: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """The text with its expressions' values, and (expression, value) of each that was replaced."""
    replaced: list[tuple[str, str]] = []

    def value(match: re.Match[str]) -> str:
        expression = match[1].strip()
        try:
            shown = str(eval(compile(expression, "<prompt>", "eval"), dict(namespace)))
        except Exception:  # what does not evaluate stays as typed
            return match[0]
        if len(shown) > _LONGEST:
            shown = f"{shown[:_LONGEST]}… ({len(shown):,} characters)"
        replaced.append((expression, shown))
        return shown

    return _EXPRESSION.sub(value, text), replaced
