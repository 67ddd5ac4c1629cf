"""Keys stay out of everything that is shown, stored or sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["Redactor", "learn"]

_SHORTEST = 8
"""Shorter values would hide ordinary words."""
_learned: set[str] = set()


def learn(secret: str) -> None:
    """Hide this value from now on in all that any redactor of this process sees; for what is known only at run time."""
    if len(secret) >= _SHORTEST:
        _learned.add(secret)


class Redactor:
    """Replaces known secret values by ``[key]`` in a text, or in all texts of a JSON-like value."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._given = {s for s in secrets if len(s) >= _SHORTEST}
        self._secrets: list[str] = []
        self._known = -1

    def __call__(self, value: Any) -> Any:
        """The same value without secrets; what holds none comes back unchanged."""
        if self._known != len(_learned):
            self._known = len(_learned)
            self._secrets = sorted(self._given | set(_learned), key=len, reverse=True)
        if not self._secrets:
            return value
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, "[key]")
            return value
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self(item) for item in value]
        return value
