"""``read_file``, ``write_file`` and ``edit_file``."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Annotated, Any

from ..agent.errors import ToolError
from ..agent.messages import Image
from ..agent.tool import DEFAULT_CAP, LARGE_CAP, Output, ToolContext
from . import edits, textfile
from .function import tool
from .paths import file_lock, no_such_file, read_access, resolve, resolve_for_writing, write_access
from .reading import HEAD, read_lines

__all__ = ["edit_file", "read_file", "write_file"]

_LARGEST_IMAGE = 5 * 1024 * 1024
_IMAGES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
_NOTEBOOK = "a notebook's file is not written as text: use notebook_edit (fetch it with tool_search)"


@tool(cap=LARGE_CAP, access=read_access, locks=file_lock)
def read_file(
    ctx: ToolContext,
    path: Annotated[str, "relative to the root, or absolute"],
    offset: Annotated[int, "lines to skip"] = 0,
    limit: Annotated[int, "most lines to show"] = 2000,
) -> Output:
    """Read a text file, an image or a notebook.

    A text file's total lines come first, then the lines with their numbers; the numbers are not part of the file.
    """
    if offset < 0 or limit < 1:
        raise ToolError("offset must be 0 or more and limit 1 or more")
    real = resolve(ctx.root, path)
    try:
        head = _head(real)
        if picture := _image_type(head):
            return _image(real, picture)
        if real.suffix == ".ipynb" and (notebook := _notebook(real)):
            return notebook
        return _lines(real, offset, limit)
    except FileNotFoundError:
        raise no_such_file(real) from None
    except OSError as error:
        raise textfile.unusable(error, real) from None


def _head(real: Path) -> bytes:
    """The file's first bytes; a device or pipe is never opened, since that may wait for ever."""
    mode = os.stat(real).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError
    if not stat.S_ISREG(mode):
        raise ToolError(f"{real} is a device, pipe or socket, not a file")
    with open(real, "rb") as file:
        return file.read(HEAD)


def _image_type(head: bytes) -> str:
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGES if head.startswith(magic)), "")


def _image(real: Path, kind: str) -> Output:
    size = real.stat().st_size
    if size > _LARGEST_IMAGE:
        raise ToolError(
            f"{real} is an image of {size:,} bytes, more than the {_LARGEST_IMAGE:,} that can be shown; make a smaller "
            "copy with run_python"
        )
    from ..notebook.outputs import usable_image

    data = base64.b64encode(real.read_bytes()).decode("ascii")
    if kind in ("image/png", "image/jpeg") and usable_image(kind, data) is None:
        raise ToolError(f"{real} is a damaged {kind} of {size:,} bytes, or has more pixels than can be shown")
    return Output([f"{real}: {kind}, {size:,} bytes", Image(kind, data)], {"path": str(real)})


def _notebook(real: Path) -> Output | None:
    """A notebook's cells; None where the file is no readable notebook."""
    from ..notebook.cells import render_cells
    from ..notebook.disk import DiskNotebook

    try:
        notebook = DiskNotebook(real).read()
    except ToolError:
        return None
    text, images = render_cells(notebook.cells)
    head = f"{real}: {len(notebook.cells)} cells, as saved on disk"
    seen = {str(real): {cell.id: cell.hash for cell in notebook.cells}}
    content = "\n".join(part for part in (head, notebook.note, text) if part)
    return Output([content, *images], {"path": str(real), "seen": seen})


def _lines(real: Path, offset: int, limit: int) -> Output:
    found = read_lines(real, offset, limit)
    if found is None:
        raise ToolError(f"{real} is a binary file of {real.stat().st_size:,} bytes; it can't be shown as text")
    last = offset + len(found.lines)
    facts = [f"{'' if found.exact else 'at least '}{found.total:,} line{'' if found.total == 1 else 's'}"]
    if found.note:
        facts.append(found.note)
    if not found.total:
        facts.append("(empty file)")
    elif not found.lines:
        facts.append(f"offset {offset:,} is beyond its end")
    elif found.cut:
        facts.append(f"the last line here is cut at {textfile.LARGEST:,} bytes: read it in parts with run_python")
    elif last < found.total or not found.exact:
        facts.append(f"showing {offset + 1:,}-{last:,}; go on with offset={last}")
    rows = [f"{number:>6}\t{line}" for number, line in enumerate(found.lines, offset + 1)]
    details = {"path": str(real), "lines": [offset, last], "total": found.total}
    return Output("\n".join([f"{real}: {', '.join(facts)}", *rows]), details)


@tool(cap=DEFAULT_CAP, access=write_access, locks=file_lock)
def write_file(
    ctx: ToolContext,
    path: Annotated[str, "relative to the root, or absolute inside it; folders are made"],
    content: Annotated[str, "the file's whole text"],
) -> Output:
    """Write a text file, new or in the place of an old one.

    Of a file that it replaces, mode, links, byte order mark and encoding stay. If all of that file's lines ended in
    CRLF and the content has none, the content's lines get them too; otherwise the content is written as it is.
    """
    real = resolve_for_writing(ctx.root, path)
    try:
        before = textfile.read_bytes(real)
    except FileNotFoundError:
        before = None
    if real.suffix == ".ipynb":
        _check_notebook(content, exists=before is not None)
    old = _old_text(before)
    content = content.removeprefix("\ufeff") if old.bom else content
    crlf = old.text.count("\r\n")
    keeps_crlf = bool(crlf) and crlf == old.text.count("\n") and "\n" in content and "\r" not in content
    data = old.encode(content.replace("\n", "\r\n") if keeps_crlf else content)
    if data == before:
        return Output(f"no change: {real} already has this content", {"path": str(real)})
    undo = textfile.undo(real, before, data, ctx.transcript.spool, textfile.missing_folders(real))
    textfile.write_bytes(real, data)
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    kept = [old.encoding.upper() + " with byte order mark"] if old.bom else []
    kept += ["CRLF line ends"] if keeps_crlf else []
    text = f"{'created' if before is None else 'replaced'} {real}: {lines:,} lines, {len(data):,} bytes"
    text += f" (kept {' and '.join(kept)})" if kept else ""
    shown = edits.diff(old.text, content) if before is not None else content
    return Output(text, _details(real, shown, undo))


def _old_text(before: bytes | None) -> textfile.Text:
    """How the old file was written; of one that is no text nothing is kept."""
    if before is None or textfile.is_binary(before[:HEAD]):
        return textfile.Text("")
    try:
        return textfile.decode(before)
    except ToolError:  # it breaks the encoding that it announces
        return textfile.Text("")


def _check_notebook(content: str, *, exists: bool) -> None:
    if exists:
        raise ToolError(f"{_NOTEBOOK}; nothing was written")
    try:
        if isinstance(json.loads(content)["cells"], list):
            return
    except (ValueError, TypeError, LookupError):
        pass
    raise ToolError(f"the content is no notebook (JSON with a list of cells), and {_NOTEBOOK}; operation=create")


@tool(cap=DEFAULT_CAP, access=write_access, locks=file_lock)
def edit_file(
    ctx: ToolContext,
    path: Annotated[str, "relative to the root, or absolute inside it"],
    old: Annotated[str, "the exact text to be replaced; it must stand exactly once, so give enough of it"],
    new: Annotated[str, "what replaces it"],
    all: Annotated[bool, "replace every place where old stands"] = False,
) -> Output:
    """Replace a text in a file. Encoding, byte order mark, line ends and mode stay; gives a diff."""
    real = resolve_for_writing(ctx.root, path)
    try:
        before = textfile.read_bytes(real)
    except FileNotFoundError:
        raise no_such_file(real) from None
    if real.suffix == ".ipynb":
        raise ToolError(f"{_NOTEBOOK}; nothing was written")
    if textfile.is_binary(before[:HEAD]):
        raise ToolError(f"{real} is a binary file of {len(before):,} bytes; nothing was changed")
    text = textfile.decode(before)
    edit = edits.replace_text(text.text, old, new, all=all)
    if text.foreign and not new.isascii():
        raise ToolError(
            f"{real} has {text.foreign:,} bytes that are not UTF-8, so its encoding is not known: only ASCII text can "
            "be put into it. Nothing was changed."
        )
    data = text.encode(edit.text)
    undo = textfile.undo(real, before, data, ctx.transcript.spool)
    textfile.write_bytes(real, data)
    shown = edits.diff(text.text, edit.text)
    places = f"line {edit.lines[0]}" if len(edit.lines) == 1 else f"{len(edit.lines)} places"
    return Output(f"edited {real} ({places})\n{shown}", _details(real, shown, undo))


def _details(real: Path, shown: str, undo: dict[str, Any]) -> dict[str, Any]:
    return {"path": str(real), "output": shown[:20_000], "undo": undo}
