"""Text files kept byte for byte where they are not changed: encodings, atomic writes, what undo needs."""

from __future__ import annotations

import base64
import codecs
import contextlib
import hashlib
import os
import re
import stat
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..agent.errors import ToolError
from ..agent.spool import Spool

__all__ = [
    "LARGEST",
    "Text",
    "decode",
    "is_binary",
    "missing_folders",
    "read_bytes",
    "undo",
    "undo_content",
    "unusable",
    "write_bytes",
]

LARGEST = 50 * 1024 * 1024
"""Bytes of a file that are held in memory at once."""
_INLINE = 64 * 1024
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text and how to write it back: bytes that are no UTF-8 are lone surrogates in ``text``."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    @property
    def foreign(self) -> int:
        """How many bytes are no UTF-8."""
        return len(_SURROGATE.findall(self.text)) if self.encoding == "utf-8" else 0

    @property
    def note(self) -> str:
        """What is unusual about the file, for the model; empty for plain UTF-8."""
        notes = []
        if self.bom:
            notes.append(f"{self.encoding.upper()} with a byte order mark")
        if self.foreign:
            notes.append(f"{self.foreign:,} bytes are not UTF-8, shown as \\xNN; edits keep them")
        crlf = self.text.count("\r\n")
        if crlf:
            notes.append("CRLF line ends" if crlf == self.text.count("\n") else "mixed CRLF and LF line ends")
        return "; ".join(notes)

    def encode(self, text: str) -> bytes:
        """Another text in this file's encoding.

        Raises
        ------
        ToolError
            It holds what the file can't.
        """
        try:
            return self.bom + text.encode(self.encoding, "surrogateescape" if self.encoding == "utf-8" else "strict")
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            raise ToolError(
                f"line {line} of the new text holds half of a character (a lone surrogate), which no file can hold; "
                "nothing was written. Send the whole character."
            ) from None


def decode(data: bytes) -> Text:
    """A file's bytes as text.

    Raises
    ------
    ToolError
        A byte order mark announces an encoding that the bytes then break.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            body = data[len(bom) :]
            try:
                return Text(
                    body.decode(encoding, "surrogateescape" if encoding == "utf-8" else "strict"), encoding, bom
                )
            except UnicodeDecodeError as error:
                raise ToolError(f"the file starts as {encoding.upper()} but is not ({error.reason})") from None
    return Text(data.decode("utf-8", "surrogateescape"))


def is_binary(head: bytes) -> bool:
    """Whether a file that starts like this is no text."""
    if head.startswith(tuple(bom for bom, _ in _BOMS)):
        return False
    return b"\0" in head or head.startswith(b"%PDF-") or len(_CONTROLS.findall(head)) * 20 > len(head)


def unusable(error: OSError, path: Path) -> ToolError:
    """What the system refused, in words."""
    if isinstance(error, IsADirectoryError):
        return ToolError(f"{path} is a folder; look into it with list_files")
    return ToolError(f"{path}: {error.strerror or error}; nothing was done")


def read_bytes(path: Path) -> bytes:
    """A regular file's bytes, at most :data:`LARGEST`.

    Raises
    ------
    FileNotFoundError
        There is none.
    ToolError
        It is no regular file, too large, or can't be read.
    """
    try:
        facts = os.stat(path)
        if not stat.S_ISREG(facts.st_mode):
            kind = "folder; look into it with list_files" if stat.S_ISDIR(facts.st_mode) else "device, pipe or socket"
            raise ToolError(f"{path} is a {kind}")
        if facts.st_size > LARGEST:
            raise ToolError(
                f"{path} has {facts.st_size:,} bytes, more than the {LARGEST:,} that can be edited or replaced here; "
                "use run_python or run_shell"
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unusable(error, path) from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, keeping the mode and owner that it had.

    A file with several hard links is written in place, since replacing it would part the links; so is one in a folder
    where nothing new may be made. A file without write permission is refused, for root too.
    """
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        facts = None
    except OSError as error:
        raise unusable(error, path) from None
    if facts and not (facts.st_mode & 0o222 and os.access(path, os.W_OK)):
        raise ToolError(
            f"{path} is read-only (mode {stat.S_IMODE(facts.st_mode):04o}); nothing was written. If it is meant to be "
            "changed, its mode must be changed first."
        )
    try:
        if facts is None:
            path.parent.mkdir(parents=True, exist_ok=True)
        if facts and facts.st_nlink > 1:
            _write_in_place(path, data)
        else:
            _replace(path, data, facts)
    except PermissionError as error:
        if facts is None:
            raise unusable(error, path) from None
        _write_in_place(path, data)
    except (FileExistsError, NotADirectoryError):
        raise ToolError(f"{path}: a file stands where a folder is needed; nothing was written") from None
    except OSError as error:
        raise unusable(error, path) from None


def _replace(path: Path, data: bytes, facts: os.stat_result | None) -> None:
    temporary = path.with_name(f".{path.name[:60]}.{uuid.uuid4().hex[:8]}.tmp")
    # A new file's mode is the one that the process's umask gives.
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if facts:
            if hasattr(os, "chown"):
                with contextlib.suppress(OSError):
                    os.chown(temporary, facts.st_uid, facts.st_gid)
            os.chmod(temporary, stat.S_IMODE(facts.st_mode))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _write_in_place(path: Path, data: bytes) -> None:
    try:
        with open(path, "r+b") as file:
            file.write(data)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise unusable(error, path) from None


def missing_folders(path: Path) -> list[str]:
    """The folders that writing this file would make, the innermost first."""
    return [str(folder) for folder in path.parents if not folder.exists()]


def undo(path: Path, before: bytes | None, after: bytes, spool: Spool, folders: Sequence[str] = ()) -> dict[str, Any]:
    """What is needed to take a write back: hashes of both states, and the bytes that there were.

    ``before`` is base64 up to 64 KiB, else under ``handle`` in the spool; both are absent for a file that was new.
    ``folders`` are those that were made for it.
    """
    facts: dict[str, Any] = {"path": str(path), "before_sha": None, "after_sha": hashlib.sha256(after).hexdigest()}
    if folders:
        facts["folders"] = list(folders)
    if before is None:
        return facts
    facts["before_sha"] = hashlib.sha256(before).hexdigest()
    kept = base64.b64encode(before).decode("ascii")
    if len(before) <= _INLINE:
        return {**facts, "before": kept}
    handle = f"before{facts['before_sha'][:16]}"
    spool.put(handle, kept)
    return {**facts, "handle": handle}


def undo_content(facts: dict[str, Any], spool: Spool) -> bytes | None:
    """The bytes that :func:`undo` kept; None where they are not whole any more."""
    kept = facts.get("before") or spool.get(facts.get("handle", "")) or ""
    try:
        before = base64.b64decode(kept, validate=True)
    except ValueError:
        return None
    return before if hashlib.sha256(before).hexdigest() == facts["before_sha"] else None
