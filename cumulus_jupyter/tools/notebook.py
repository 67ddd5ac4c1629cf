"""``notebook_read`` and ``notebook_edit``: the open notebook through its front end, a closed one on disk."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from ..agent.errors import BridgeError, ToolError
from ..agent.host import LiveNotebook
from ..agent.tool import DEFAULT_CAP, LARGE_CAP, Access, Output, ToolContext
from ..agent.transcript import Transcript
from ..notebook.cells import CellView, EditResult, cell_views, find_cell, render_cells
from ..notebook.disk import DiskNotebook, create_notebook
from ..notebook.live import LiveEdits, expected
from . import textfile
from .function import tool
from .paths import read_access, resolve, write_access

__all__ = ["Target", "find_target", "last_seen", "notebook_edit", "notebook_lock", "notebook_read"]

Operation = Literal["insert", "replace", "edit", "delete", "move", "set_kind", "clear_outputs", "create"]

_NEEDS_CELL = ("replace", "edit", "delete", "move", "set_kind")


@dataclass(frozen=True, slots=True)
class Target:
    """The notebook that a call is about: ``live`` where its front end is the way to it."""

    path: Path
    live: LiveNotebook | None
    own: bool


@dataclass(frozen=True, slots=True)
class _Arguments:
    """What an edit was called with."""

    cell_id: str | None
    before: str | None
    after: str | None
    kind: str
    source: str | None
    old: str | None
    new: str | None


def _read_access(root: Path, arguments: dict[str, Any]) -> Access:
    return read_access(root, arguments) if arguments.get("path") else Access.FREE


def _edit_access(root: Path, arguments: dict[str, Any]) -> Access:
    return write_access(root, arguments) if arguments.get("path") else Access.EDIT


def _locks(root: Path, arguments: dict[str, Any]) -> list[str]:
    return [notebook_lock(root, arguments)]


def notebook_lock(root: Path, arguments: dict[str, Any]) -> str:
    """What a call holds while it uses the notebook that its arguments name."""
    path = arguments.get("path")
    return f"notebook:{os.path.realpath(root / str(path)) if path else 'own'}"


@tool(deferred=True, cap=LARGE_CAP, access=_read_access, locks=_locks)
async def notebook_read(
    ctx: ToolContext,
    path: Annotated[str | None, "a notebook file; none: the notebook that this conversation runs in"] = None,
    cells: Annotated[list[str] | None, "ids of the cells to read; none: all"] = None,
    outputs: Annotated[bool, "show outputs, each cut to 2,000 characters"] = True,
) -> Output:
    """Read a Jupyter notebook (.ipynb): cell ids, sources in full, outputs and images."""
    target = await find_target(ctx, path, writing=False)
    if target.live:
        views, note = await _read_live(target.live, cells if outputs and cells else outputs), ""
    else:
        notebook = await asyncio.to_thread(DiskNotebook(target.path).read)
        views, note = notebook.cells, notebook.note
    chosen = [find_cell(views, name) for name in cells] if cells else views
    text, images = render_cells(chosen, outputs=outputs)
    head = f"{target.path}: {len(views)} cells{' (open in the front end)' if target.live else ''}"
    details = {"seen": _seen(target.path, chosen), "output": f"{len(chosen)} of {len(views)} cells"}
    told = "\n".join([head, *([note] if note else []), "", text])
    return Output([told, *images] if images else told, details)


@tool(deferred=True, cap=DEFAULT_CAP, access=_edit_access, locks=_locks)
async def notebook_edit(
    ctx: ToolContext,
    operation: Annotated[Operation, "what to do"],
    cell_id: Annotated[str | None, "the cell to change"] = None,
    before: Annotated[str | None, "insert or move before this cell"] = None,
    after: Annotated[str | None, "insert or move behind this cell"] = None,
    kind: Annotated[str, "code, markdown or raw"] = "code",
    source: Annotated[str | None, "the cell's whole source"] = None,
    old: Annotated[str | None, "for edit: text that stands exactly once in the cell"] = None,
    new: Annotated[str | None, "for edit: what replaces it"] = None,
    path: Annotated[str | None, "a notebook file; none: the notebook that this conversation runs in"] = None,
) -> Output:
    """Edit a Jupyter notebook (.ipynb): insert, replace, edit, delete, move, set_kind, clear_outputs, create.

    Cells are named by id. Without an anchor an inserted cell goes behind the one inserted before, else behind the
    cell of this conversation, else to the end. create makes a new file, with one cell if source is given.
    """
    if operation in _NEEDS_CELL and not cell_id:
        raise ToolError(f"{operation} needs cell_id; read the notebook to see the ids")
    if operation == "create":
        return await _create(ctx, path, kind, source)
    target = await find_target(ctx, path, writing=True)
    if operation == "insert" and before is None and after is None:
        after = await _usual_place(ctx, target)
    known = last_seen(ctx.transcript, target.path).get(cell_id or "")
    given = _Arguments(cell_id, before, after, kind, source, old, new)
    if target.live:
        edits = LiveEdits(target.live, str(target.path))
        result = await _edited(edits, operation, given, known)
        undo = {"path": str(target.path), "operation": operation, "cell": result.cell_id, "hash": result.hash}
        undo |= {"before": expected(edits.before)} if edits.before else {}
        undo = undo if result.changed else {}
    else:
        disk = DiskNotebook(target.path)
        result = await asyncio.to_thread(_edited, disk, operation, given, known)
        undo = (
            textfile.undo(Path(os.path.realpath(target.path)), *disk.change, ctx.transcript.spool)
            if disk.change
            else {}
        )
    return _output(operation, target.path, result, undo)


def _edited(editor: Any, operation: str, given: _Arguments, known: str | None) -> Any:
    """Carry out an edit, on a :class:`DiskNotebook` at once, on :class:`LiveEdits` when awaited."""
    cell = given.cell_id or ""
    if operation == "replace" and given.source is None:
        raise ToolError("replace needs source")
    if operation == "edit" and (given.old is None or given.new is None):
        raise ToolError("edit needs old and new")
    places = {"after": given.after, "before": given.before}
    edits = {
        "insert": lambda: editor.insert(given.kind, given.source or "", **places),
        "replace": lambda: editor.replace(cell, given.source, expected_hash=known),
        "edit": lambda: editor.edit(cell, given.old, given.new, expected_hash=known),
        "delete": lambda: editor.delete(cell, expected_hash=known),
        "move": lambda: editor.move(cell, **places, expected_hash=known),
        "set_kind": lambda: editor.set_kind(cell, given.kind, expected_hash=known),
        "clear_outputs": lambda: editor.clear_outputs(given.cell_id, expected_hash=known),
    }
    return edits[operation]()


async def _read_live(live: LiveNotebook, outputs: bool | list[str]) -> list[CellView]:
    try:
        return cell_views((await live.read(outputs=outputs))["cells"])
    except BridgeError as error:
        raise ToolError(f"the notebook can't be read: {error}") from None


async def _create(ctx: ToolContext, path: str | None, kind: str, source: str | None) -> Output:
    if not path:
        raise ToolError("create needs path, the new notebook's file")
    place = resolve(ctx.root, path)
    if place.suffix != ".ipynb":
        raise ToolError(f"a notebook's name ends in .ipynb, not {place.name!r}")
    cells = [(kind, source)] if source is not None else []
    folders = textfile.missing_folders(place)
    result = await asyncio.to_thread(create_notebook, place, cells)
    undo = textfile.undo(place, None, await asyncio.to_thread(place.read_bytes), ctx.transcript.spool, folders)
    return _output("create", place, result, undo)


def _output(operation: str, path: Path, result: EditResult, undo: dict[str, Any]) -> Output:
    details: dict[str, Any] = {"output": result.diff or result.text(), "position": result.position}
    if undo:
        details["undo"] = undo
    if result.cell_id and result.hash:
        details["seen"] = {str(path): {result.cell_id: result.hash}}
    if operation in ("insert", "create") and result.cell_id:
        details["inserted"] = {"path": str(path), "cell": result.cell_id}
    return Output(result.text(), details)


async def find_target(ctx: ToolContext, path: str | None, *, writing: bool) -> Target:
    """Choose the transport by facts: open in this front end, closed, or open and out of reach."""
    try:
        live = await ctx.host.live_notebook() if path is None or ctx.host.place().path else None
    except BridgeError as error:
        raise ToolError(f"the open notebook can't be reached: {error}") from None
    place = ctx.host.place()
    own = Path(place.path) if place.path else None
    if path is None:
        if live is not None:
            return Target(own or Path("this notebook"), live, own=True)
        if own is None:
            raise ToolError(
                "this conversation runs in no notebook that can be reached (a console, a terminal or a script). "
                "Give path; operation=create makes a new one."
            )
    chosen = resolve(ctx.root, path) if path is not None else own
    assert chosen is not None
    is_own = own is not None and os.path.realpath(chosen) == os.path.realpath(own)
    if is_own and live is not None:
        return Target(chosen, live, own=True)
    if writing:
        copy = f"{chosen.stem}-agent.ipynb"
        if is_own:
            where = await ctx.host.open_in(str(chosen))
            shown = f"{where}, where the Cumulus extension does not answer" if where else "a front end out of reach"
            raise ToolError(
                f"{chosen.name} is the notebook that this conversation runs in, and it is open in {shown}"
                f": an edit on disk would be lost or would lose unsaved work. Write to {copy} instead "
                "(operation=create, then insert with path)."
            )
        if where := await ctx.host.open_in(str(chosen)):
            raise ToolError(
                f"{chosen.name} is open in {where}: an edit on disk could overwrite unsaved work. Ask the person to "
                f"close it, or write to {copy} instead (operation=create)."
            )
    return Target(chosen, None, own=is_own)


def _seen(path: Path, views: list[CellView]) -> dict[str, dict[str, str]]:
    return {str(path): {view.id: view.hash for view in views}}


def last_seen(transcript: Transcript, path: Path) -> dict[str, str]:
    """Hashes of the notebook's cells as this conversation last saw them."""
    seen: dict[str, str] = {}
    for line in transcript.lines:
        if line["type"] == "result":
            seen |= line["details"].get("seen", {}).get(str(path), {})
    return seen


async def _usual_place(ctx: ToolContext, target: Target) -> str | None:
    """The cell that an insertion without an anchor goes behind; None for the end."""
    own = ctx.host.place().cell if target.own else ""
    wanted = [name for name in (_last_inserted(ctx.transcript, target.path), own) if name]
    if not wanted:
        return None
    if target.live:
        there = {view.id for view in await _read_live(target.live, outputs=False)}
    else:
        there = {view.id for view in (await asyncio.to_thread(DiskNotebook(target.path).read)).cells}
    # A cell may be gone, or have another alias since it was edited.
    return next((name for name in wanted if name in there), None)


def _last_inserted(transcript: Transcript, path: Path) -> str | None:
    """The cell that this run inserted last into the notebook."""
    for line in reversed(transcript.lines):
        if line["type"] == "user" and line["run"] != transcript.run:
            return None
        inserted = line["details"].get("inserted") if line["type"] == "result" else None
        if inserted and inserted["path"] == str(path):
            return str(inserted["cell"])
    return None
