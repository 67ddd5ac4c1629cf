"""A journal: what is done of a long batch, a line each, so that a batch that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from .agent.errors import SettingsError

__all__ = ["Journal"]

_BEGINNING = '{"v": 1, "key": '


class Journal:
    """Values by key in a file of JSON lines ``{v, key, value}``, each written whole as it comes.

    Parameters
    ----------
    path
        The file; None keeps nothing.
    redact
        Takes secrets out of what is written.

    Raises
    ------
    SettingsError
        The file can't be read or written, or is something else.
    """

    def __init__(self, path: str | os.PathLike[str] | None, redact: Callable[[Any], Any]) -> None:
        self.path = None if path is None else Path(path).expanduser()
        self._redact = redact
        self._file: IO[bytes] | None = None
        self.values: dict[str, Any] = {}
        """What was done before, by key."""
        self.broken = ""
        """Why nothing more could be written; empty while all is well."""

    def __enter__(self) -> Journal:
        if self.path is not None:
            try:
                self._open(self.path)
            except OSError as error:
                raise SettingsError(f"the journal {self.path} can't be used: {error.strerror or error}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, key: str, value: Any) -> None:
        """Write a value down."""
        if self._file is None or self.broken:
            return
        line = json.dumps({"v": 1, "key": key, "value": self._redact(value)}, ensure_ascii=False)
        # One write a line, in a file that only grows: a process that dies can tear the last line, no other.
        try:
            self._file.write(line.encode("utf-8", "replace") + b"\n")
        except OSError as error:  # a full disk costs the journal, not the values
            self.broken = f"the journal {self.path} could not be written: {error.strerror or error}"

    def _open(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes() if path.exists() else b""
        head = data[: len(_BEGINNING)].decode("utf-8", "replace")
        if not _BEGINNING.startswith(head):
            raise SettingsError(f"{path} is no journal of agent_map; name another file, it would be written to")
        for line in data.split(b"\n"):
            try:
                entry = json.loads(line)
                self.values[entry["key"]] = entry["value"]
            except (ValueError, LookupError, TypeError):  # torn: that one is done again
                continue
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        if data and not data.endswith(b"\n"):
            self._file.write(b"\n")
