"""Stored conversations: one append-only JSONL file a session, whole results beside it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import uuid as uuids
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .agent.errors import TranscriptError
from .agent.spool import Spool
from .agent.transcript import Line, Transcript

__all__ = ["SessionInfo", "Store", "data_folder"]

_LARGEST_RESULT = 50 * 1024 * 1024


def data_folder(setting: str = "") -> Path:
    """Where conversations are kept: the setting, else the platform's folder for user data."""
    if setting:
        return Path(setting).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("cumulus-jupyter", appauthor=False))


class FileSpool(Spool):
    """Whole results as files in a session's folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def put(self, handle: str, text: str) -> None:
        """Write a whole result, at most 50 MB of it; what an undo needs is of no use in part, and kept as it is."""
        _private_folder(self._folder)
        data = text.encode("utf-8", "surrogatepass")
        data = data if handle.startswith("before") else data[:_LARGEST_RESULT]
        with _private_file(self._folder / f"{handle}.txt", "wb") as file:
            file.write(data)

    def get(self, handle: str) -> str | None:
        """Read it back; None where the handle names none."""
        if not handle.isalnum():
            return None
        with contextlib.suppress(FileNotFoundError):
            return (self._folder / f"{handle}.txt").read_bytes().decode("utf-8", "ignore")
        return None

    def handles(self) -> list[str]:
        """All handles, oldest first."""
        files = self._folder.glob("*.txt") if self._folder.is_dir() else ()
        return [file.stem for file in sorted(files, key=lambda file: file.stat().st_mtime)]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A stored conversation as listed: ``notebook`` and ``name`` are where it was last used; times in epoch seconds."""

    uuid: str
    notebook: str
    name: str
    modified: float
    prompt: str


class Store:
    """The folder of stored conversations.

    Parameters
    ----------
    folder
        Created with private permissions when first written.
    redact
        Takes secrets out of a line before it is written.
    """

    def __init__(self, folder: Path, redact: Callable[[Any], Any] = lambda value: value) -> None:
        self.folder = folder
        self._redact = redact
        self._held: dict[str, int] = {}

    def create(self) -> Transcript:
        """A new conversation; its file appears with its first line."""
        transcript = Transcript()
        return self._attach(transcript)

    def load(self, uuid: str) -> Transcript:
        """Open a stored conversation for going on; refused while another kernel has it."""
        if not self._path(uuid).is_file():
            raise TranscriptError(f"there is no stored conversation {uuid}; `%agent sessions` lists them")
        self._lock(uuid)
        _mend(self._path(uuid))
        transcript = Transcript.load(uuid, self.lines(uuid))
        return self._attach(transcript)

    def fork(self, uuid: str) -> Transcript:
        """A copy of a stored conversation under a uuid of its own, whole results included, also of one in use."""
        rows = [json.dumps(line, ensure_ascii=False) + "\n" for line in self.lines(uuid)]
        new = str(uuids.uuid4())
        with contextlib.suppress(FileNotFoundError):
            shutil.copytree(self.folder / f"{uuid}.results", self.folder / f"{new}.results")
        # Under its name only once it is whole: the copy of a copy that was cut short would be a shorter conversation.
        part = self.folder / f".{new}.part"
        with _private_file(part, "wb") as file:
            file.write("".join(rows).encode("utf-8", "surrogatepass"))
        part.replace(self._path(new))
        return self.load(new)

    def lines(self, uuid: str) -> Iterator[Line]:
        """The stored lines; a torn last one is left out, a damaged one before that is an error that names it."""
        path = self._path(uuid)
        try:
            rows = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            raise TranscriptError(f"there is no stored conversation {uuid}; `%agent sessions` lists them") from None
        for number, row in enumerate(rows, 1):
            if not row:
                continue
            try:
                yield json.loads(row)
            except ValueError:
                if number >= len(rows):
                    return
                raise TranscriptError(f"line {number} of {path} is damaged; restore the file or start anew") from None

    def sessions(self) -> list[SessionInfo]:
        """Stored conversations, newest first."""
        index = self._index()
        found = []
        for path in self.folder.glob("*.jsonl"):
            entry = index.get(path.stem, {})
            found.append(
                SessionInfo(
                    path.stem,
                    entry.get("notebook", ""),
                    entry.get("name", ""),
                    path.stat().st_mtime,
                    entry.get("prompt", ""),
                )
            )
        return sorted(found, key=lambda info: info.modified, reverse=True)

    def find(self, wanted: str, notebook: str) -> list[SessionInfo]:
        """Stored conversations by uuid, its beginning or name, else the notebook's; those of the notebook first."""
        fitting = [
            info
            for info in self.sessions()
            if (info.uuid.startswith(wanted) or info.name == wanted if wanted else info.notebook == notebook)
        ]
        return sorted(fitting, key=lambda info: info.notebook != notebook)

    def note(self, uuid: str, *, notebook: str, name: str, prompt: str) -> None:
        """Remember where a conversation is used, for the listing; without ``prompt`` the one noted before stays."""
        _private_folder(self.folder)
        index = self._index()
        prompt = prompt or index.get(uuid, {}).get("prompt", "")
        index[uuid] = {"notebook": notebook, "name": name, "prompt": prompt[:120], "t": time.time()}
        temporary = self.folder / f".index.{os.getpid()}"
        with _private_file(temporary, "w") as file:
            json.dump(self._redact(index), file)
        temporary.replace(self.folder / "index.json")

    def _index(self) -> dict[str, dict[str, Any]]:
        try:
            index = json.loads((self.folder / "index.json").read_text())
        except (OSError, ValueError):
            return {}
        return index if isinstance(index, dict) else {}

    def _path(self, uuid: str) -> Path:
        return self.folder / f"{uuid}.jsonl"

    def _attach(self, transcript: Transcript) -> Transcript:
        uuid = transcript.session
        transcript.spool = FileSpool(self.folder / f"{uuid}.results")
        transcript.sink = lambda line: self._write(uuid, line)
        return transcript

    def _write(self, uuid: str, line: Line) -> None:
        fd = self._lock(uuid)
        data = (json.dumps(self._redact(line), ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")
        try:
            written = os.write(fd, data)
        except OSError as error:
            raise TranscriptError(self._unstored(error.strerror or str(error))) from None
        if written < len(data):  # half a line would spoil the next one
            os.ftruncate(fd, os.fstat(fd).st_size - written)
            raise TranscriptError(self._unstored("the disk is full"))

    def _unstored(self, reason: str) -> str:
        return (
            f"the conversation can't be stored in {self.folder}: {reason}. Make room there, or set CUMULUS_DATA_DIR to "
            "a folder that can be written."
        )

    def _lock(self, uuid: str) -> int:
        """The session's file, open for appending and held by this process alone."""
        if (fd := self._held.get(uuid)) is not None:
            return fd
        try:
            _private_folder(self.folder)
            fd = os.open(self._path(uuid), os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise TranscriptError(self._unstored(error.strerror or str(error))) from None
        if not _hold(fd):
            os.close(fd)
            raise TranscriptError(
                f"conversation {uuid} is in use by another kernel. `%agent resume {uuid[:8]} --fork` goes on from a "
                "copy of it; `%%agent --new` starts afresh."
            )
        self._held[uuid] = fd
        return fd

    def close(self) -> None:
        """Let go of all sessions."""
        for fd in self._held.values():
            os.close(fd)
        self._held.clear()


def _hold(fd: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: no second-kernel guard
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _mend(path: Path) -> None:
    """End the file with a whole line: a torn one is cut off, so that what is appended stands on its own."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole == len(data):
        return
    try:
        json.loads(data[whole:])
    except ValueError:
        os.truncate(path, whole)
    else:
        with path.open("ab") as file:
            file.write(b"\n")


def _private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _private_file(path: Path, mode: str) -> Any:
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))
