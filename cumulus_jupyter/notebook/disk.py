"""Editing notebooks that are closed everywhere: in their files, atomically, with every untouched byte kept.

Each operation reads the file, checks that the named cell is the one that was read, splices the change into the text,
has nbformat validate the outcome at the version that the file declares, writes it and reads it back.

Files whose cells have no ids (nbformat 4.4 and older) get none: their cells are named by the aliases of
:mod:`~cumulus_jupyter.notebook.cells`, and an edited cell's new alias is in the result.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

from ..agent.errors import ToolError
from . import splice
from .cells import (
    CellView,
    EditResult,
    cell_views,
    check_kind,
    check_source,
    find_cell,
    first_line,
    line_ends_like,
    only_place,
    unified_diff,
)

__all__ = ["DiskNotebook", "Notebook", "create_notebook"]

BOM = b"\xef\xbb\xbf"
CONFLICT = re.compile(r"^(?:<{7}|>{7}|={7}|\|{7})(?:[ \r]|$)", re.MULTILINE)
NEW_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook as read: its declared format, its cells, and what is unusual about it in ``note``."""

    path: str
    nbformat: int
    minor: int
    cells: list[CellView]
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file as it was read for an edit."""

    data: bytes
    doc: splice.Document
    views: list[CellView]


class DiskNotebook:
    """The notebook in one file.

    In every method ``cell_id``, ``after`` and ``before`` name cells by id or alias, and ``expected_hash`` is the named
    cell's hash as it was last read: a cell that has changed since is refused. All raise ToolError, with the reason and
    what to do, and leave the file as it was. ``change`` holds the file's bytes before and after the last edit.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.change: tuple[bytes, bytes] | None = None

    def read(self) -> Notebook:
        """The notebook's cells; old formats (nbformat 3 and below) as they look converted to 4."""
        text = _decoded(self.path, _bytes(self.path))
        doc = _parsed(self.path, text)
        if doc is None or doc.value.get("nbformat") in (1, 2, 3):
            return _read_old(self.path, text)
        major, minor = _version(self.path, doc.value)
        note = f"nbformat {major} is newer than this editor: reading only." if major > 4 else ""
        return Notebook(self.path, major, minor, cell_views(doc.value["cells"]), note)

    def insert(self, kind: str, source: str, *, after: str | None = None, before: str | None = None) -> EditResult:
        """Insert a cell behind or before another one, without an anchor at the end."""
        check_kind(kind)
        check_source(source)
        now = self._open()
        at = _place(now.views, after, before)
        at = len(now.views) if at is None else at
        cell = splice.new_cell(now.doc, max(at - 1, 0) if before is None else at, kind, source)
        text = splice.insert_cell(now.doc, at, cell)
        return self._apply(now, text, at, f"inserted {kind} cell", unified_diff("", source))

    def replace(self, cell_id: str, source: str, *, expected_hash: str | None = None) -> EditResult:
        """Give a cell another source. Outputs, metadata and attachments stay."""
        check_source(source)
        now = self._open()
        cell = find_cell(now.views, cell_id, expected_hash)
        return self._rewrite(now, cell, line_ends_like(cell.source, source), "replaced source")

    def edit(self, cell_id: str, old: str, new: str, *, expected_hash: str | None = None) -> EditResult:
        """Replace ``old``, which stands exactly once in the cell's source, by ``new``."""
        check_source(new)
        if not old:
            raise ToolError("`old` is empty: give the exact text to be replaced, or use replace for the whole cell.")
        now = self._open()
        cell = find_cell(now.views, cell_id, expected_hash)
        if old not in cell.source:
            old, new = line_ends_like(cell.source, old), line_ends_like(cell.source, new)
        at = only_place(cell, old, now.views)
        source = cell.source[:at] + new + cell.source[at + len(old) :]
        return self._rewrite(now, cell, source, "edited source")

    def delete(self, cell_id: str, *, expected_hash: str | None = None) -> EditResult:
        """Delete a cell with its outputs."""
        now = self._open()
        cell = find_cell(now.views, cell_id, expected_hash)
        views, warning = self._save(now, splice.delete_cell(now.doc, cell.index))
        note = f"{_outputs(cell)} went with it. {warning}" if cell.outputs else warning
        result = _result(self.path, f"deleted {cell.kind} cell", cell, len(views), unified_diff(cell.source, ""), note)
        return replace(result, hash="")

    def move(
        self, cell_id: str, *, after: str | None = None, before: str | None = None, expected_hash: str | None = None
    ) -> EditResult:
        """Move a cell behind or before another one."""
        now = self._open()
        cell = find_cell(now.views, cell_id, expected_hash)
        at = _place(now.views, after, before)
        if at is None:
            raise ToolError("A move needs the id of another cell in `after` or `before`. Nothing was changed.")
        to = at - 1 if at > cell.index else at
        if to == cell.index:
            return self._unchanged(now, cell, "It stands there already.")
        return self._apply(now, splice.move_cell(now.doc, cell.index, to), to, f"moved from place {cell.index + 1}")

    def set_kind(self, cell_id: str, kind: str, *, expected_hash: str | None = None) -> EditResult:
        """Turn a cell into code, markdown or raw. Id, metadata and source stay; only code cells have outputs."""
        check_kind(kind)
        now = self._open()
        cell = find_cell(now.views, cell_id, expected_hash)
        if cell.kind == kind:
            return self._unchanged(now, cell, f"It is a {kind} cell already.")
        if kind == "code" and cell.attachments:
            raise ToolError(
                f"Cell {cell.id} has attachments ({', '.join(cell.attachments)[:200]}), which a code cell can't hold. "
                "Nothing was changed; insert a new code cell beside it instead."
            )
        text = splice.replace_cells(now.doc, {cell.index: splice.set_kind(now.doc, cell.index, kind)})
        note = f"{_outputs(cell)} dropped: a {kind} cell has none." if cell.outputs and kind != "code" else ""
        return self._apply(now, text, cell.index, f"turned {cell.kind} into {kind}", note=note)

    def clear_outputs(self, cell_id: str | None = None, *, expected_hash: str | None = None) -> EditResult:
        """Remove outputs and execution count of one code cell, or (None) of all."""
        now = self._open()
        named = now.views if cell_id is None else [find_cell(now.views, cell_id, expected_hash)]
        code = [cell for cell in named if cell.kind == "code"]
        text = splice.replace_cells(now.doc, {at.index: splice.clear_outputs(now.doc, at.index) for at in code})
        if text == now.doc.text:
            return self._unchanged(now, named[0] if cell_id else None, "No outputs there.")
        gone = [cell for cell in code if cell.outputs]
        note = f"Removed: {sum(len(cell.outputs) for cell in gone):,} outputs of {len(gone):,} cells."
        return self._apply(now, text, (gone or code)[0].index, "cleared outputs", note=note)

    def _open(self) -> _Opened:
        data = _bytes(self.path)
        doc = _parsed(self.path, _decoded(self.path, data))
        major = 3 if doc is None else _version(self.path, doc.value)[0]
        if doc is None or major < 4:
            raise ToolError(
                f"{self.path} is in the old notebook format {major}, which can be read but not edited. Convert it "
                "first, if the person wants that: jupyter nbconvert --to notebook --inplace FILE."
            )
        if major > 4:
            raise ToolError(f"{self.path} is in notebook format {major}, newer than this editor knows: not edited.")
        return _Opened(data, doc, cell_views(doc.value["cells"]))

    def _rewrite(self, now: _Opened, cell: CellView, source: str, action: str) -> EditResult:
        if source == cell.source:
            return self._unchanged(now, cell, "The cell has this text already.")
        text = splice.replace_cells(now.doc, {cell.index: splice.set_source(now.doc, cell.index, source)})
        note = f"{_outputs(cell)} kept: from before this edit." if cell.outputs else ""
        return self._apply(now, text, cell.index, action, unified_diff(cell.source, source), note)

    def _unchanged(self, now: _Opened, cell: CellView | None, why: str) -> EditResult:
        return _result(self.path, "no change", cell, len(now.views), note=f"{why} Nothing was written.")

    def _apply(self, now: _Opened, text: str, index: int, action: str, diff: str = "", note: str = "") -> EditResult:
        views, warning = self._save(now, text)
        note = " ".join(part for part in (note, warning) if part)
        return _result(self.path, action, views[index], len(views), diff, note)

    def _save(self, now: _Opened, text: str) -> tuple[list[CellView], str]:
        """Validate, write, read back; the new views, and a sentence where the file is (and was) not valid."""
        value = splice.parse(text).value
        if (found := splice.problems(value)) and len(found) > len(splice.problems(now.doc.value)):
            raise ToolError(f"Not written: the notebook would no longer be valid ({_some(found)}).")
        self.change = _overwrite(self.path, (BOM if now.data.startswith(BOM) else b"") + text.encode(), now.data)
        return cell_views(value["cells"]), f"The file was not valid before either ({_some(found)})." if found else ""


def create_notebook(
    path: str | os.PathLike[str], cells: Sequence[tuple[str, str]], metadata: Mapping[str, Any] | None = None
) -> EditResult:
    """Write a new notebook (nbformat 4.5) with these cells, each (kind, source); its folders are created.

    Raises
    ------
    ToolError
        The file exists, also under another spelling of its name, or can't be written.
    """
    path = os.fspath(path)
    built: list[dict[str, Any]] = []
    for kind, source in cells:
        check_kind(kind)
        check_source(source)
        cell = splice.blank_cell(kind, source, {cell["id"] for cell in built})
        built.append({**cell, "source": source.splitlines(keepends=True)})
    value = {"cells": built, "metadata": metadata or NEW_METADATA, "nbformat": 4, "nbformat_minor": 5}
    if found := splice.problems(value):
        raise ToolError(f"{path} was not created: it would not be a valid notebook ({_some(found)}).")
    _create_file(path, (json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode())
    views = cell_views(built)
    note = "Cells: " + (", ".join(view.id for view in views) or "none") + "."
    return _result(path, "created", views[0] if views else None, len(views), note=note)


def _result(path: str, action: str, cell: CellView | None, count: int, diff: str = "", note: str = "") -> EditResult:
    if cell is None:
        return EditResult(action, "", 0, count, "", diff, "", path, note)
    return EditResult(action, cell.id, cell.index + 1, count, first_line(cell.source), diff, cell.hash, path, note)


def _place(views: Sequence[CellView], after: str | None, before: str | None) -> int | None:
    """The index that the anchors name; None without one."""
    if after is not None and before is not None:
        raise ToolError("Give `after` or `before`, not both. Nothing was changed.")
    if after is not None:
        return find_cell(views, after).index + 1
    return None if before is None else find_cell(views, before).index


def _outputs(cell: CellView) -> str:
    return f"{len(cell.outputs):,} output{'' if len(cell.outputs) == 1 else 's'}"


def _bytes(path: str) -> bytes:
    try:
        if not os.path.isfile(path) and os.path.exists(path):
            raise ToolError(f"{path} is not a file.")
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise ToolError(f"There is no notebook {path}. Look for it with list_files, or create it.") from None
    except OSError as error:
        raise ToolError(f"{path} can't be read: {error.strerror or error}.") from error


def _decoded(path: str, data: bytes) -> str:
    if not data.strip():
        raise ToolError(f"{path} is empty ({len(data):,} bytes): no notebook. Delete it and create a new one.")
    try:
        return data.removeprefix(BOM).decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is not UTF-8, as a notebook must be (byte {error.start:,}). Convert it.") from None


def _parsed(path: str, text: str) -> splice.Document | None:
    """Where the cells are in the text; None for the formats that keep them in worksheets."""
    try:
        return splice.parse(text)
    except json.JSONDecodeError as error:
        if conflict := CONFLICT.search(text):
            line = text.count("\n", 0, conflict.start()) + 1
            raise ToolError(
                f"{path} holds an unresolved merge conflict (marker in line {line}), so it is no valid JSON. Resolve "
                "the conflict in the file first; nothing was changed."
            ) from None
        near = text[max(error.pos - 20, 0) : error.pos + 20]
        raise ToolError(
            f"{path} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno} (near {near!r}). "
            "Nothing was changed. Mend that place as text, or go back to an earlier version of the file."
        ) from None
    except RecursionError:
        raise ToolError(f"{path} is nested too deeply to be read as a notebook.") from None
    except ValueError as error:
        if '"worksheets"' in text:
            return None
        raise ToolError(f"{path} is JSON but not a notebook: {error}.") from None


def _version(path: str, value: Mapping[str, Any]) -> tuple[int, int]:
    major, minor = value.get("nbformat"), value.get("nbformat_minor", 0)
    if type(major) is not int or type(minor) is not int or major < 1 or minor < 0:
        raise ToolError(f"{path} is not a notebook: it declares no `nbformat` and `nbformat_minor` (whole numbers).")
    return major, minor


def _read_old(path: str, text: str) -> Notebook:
    import nbformat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            old = json.loads(text)["nbformat"]
            cells = nbformat.reads(text, as_version=4)["cells"]
    except (ValueError, LookupError, AttributeError, TypeError, nbformat.ValidationError) as error:
        raise ToolError(f"{path} is in an old notebook format and can't be read: {str(error)[:200]}.") from error
    # The conversion makes up ids, others at each reading.
    views = cell_views([{key: value for key, value in cell.items() if key != "id"} for cell in cells])
    return Notebook(path, old, 0, views, f"Notebook format {old}, shown as converted to 4; it can't be edited so.")


def _some(problems: Sequence[str]) -> str:
    return "; ".join(problems[:3]) + (f"; and {len(problems) - 3:,} more" if len(problems) > 3 else "")


def _overwrite(path: str, data: bytes, expected: bytes) -> tuple[bytes, bytes]:
    """Put ``data`` in the place of ``expected``: whole or not at all, links and mode kept, and read back; both."""
    real = os.path.realpath(path)
    try:
        if not os.access(real, os.W_OK):
            raise ToolError(f"{path} is read-only. Nothing was changed.")
        if os.stat(real).st_nlink > 1:
            _check_unchanged(path, expected)
            with open(real, "r+b") as file:
                _write_all(file, data)
        else:
            _swap(real, data, lambda: _check_unchanged(path, expected))
    except OSError as error:
        raise ToolError(f"{path} can't be written: {error.strerror or error}.") from error
    if _bytes(path) != data:
        raise ToolError(f"{path} does not hold what was just written: something else wrote to it. Read it again.")
    return expected, data


def _check_unchanged(path: str, expected: bytes) -> None:
    if _bytes(path) != expected:
        raise ToolError(f"{path} was changed by something else meanwhile. Nothing was written; read it again.")


def _swap(real: str, data: bytes, check: Callable[[], None]) -> None:
    """Replace a file by a new one beside it; ``check`` raises at the last moment where that must not be."""
    info = os.stat(real)
    handle, temporary = tempfile.mkstemp(prefix=".cumulus-", suffix=".tmp", dir=os.path.dirname(real))
    try:
        with os.fdopen(handle, "wb") as file:
            _write_all(file, data)
        with contextlib.suppress(OSError, AttributeError):
            os.chown(temporary, info.st_uid, info.st_gid)
        shutil.copymode(real, temporary)
        check()
        os.replace(temporary, real)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _write_new(real: str, data: bytes) -> None:
    with open(real, "xb") as file:
        try:
            _write_all(file, data)
        except BaseException:
            os.unlink(real)
            raise


def _write_all(file: IO[bytes], data: bytes) -> None:
    file.write(data)
    file.truncate()
    file.flush()
    os.fsync(file.fileno())


def _create_file(path: str, data: bytes) -> None:
    real = os.path.realpath(path)
    folder, name = os.path.split(real)
    if not name.endswith(".ipynb"):
        raise ToolError(f"{path} was not created: a notebook's name ends in .ipynb.")
    try:
        os.makedirs(folder, exist_ok=True)
        plain = unicodedata.normalize("NFC", name).casefold()
        # Also where case counts: the two names would be one file in a checkout elsewhere.
        for other in os.listdir(folder):
            if unicodedata.normalize("NFC", other).casefold() == plain:
                raise ToolError(f"{path} exists (as {other}). Nothing was changed; edit it or choose another name.")
        _write_new(real, data)
    except OSError as error:
        raise ToolError(f"{path} can't be created: {error.strerror or error}.") from error
    if _bytes(real) != data:
        raise ToolError(f"{path} does not hold what was just written: something else wrote to it. Read it again.")
