"""Editing the notebook that the person is looking at: a closed one's operations and results, through its front end.

The guard is kept twice: here against what the conversation last read, and in the page, in the same step as the edit,
against what was read here. So an edit never lands on text that the person typed meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..agent.errors import BridgeError, ToolError
from ..agent.host import LiveNotebook
from .cells import (
    CellView,
    EditResult,
    cell_hash,
    cell_views,
    check_kind,
    check_source,
    find_cell,
    first_line,
    line_ends_like,
    only_place,
    unified_diff,
)

__all__ = ["LiveEdits", "expected"]

Reply = dict[str, Any]


def expected(cell: CellView) -> dict[str, str]:
    """What the page compares a cell with before it touches it."""
    return {"kind": cell.kind, "source": cell.source}


class LiveEdits:
    """The operations of :class:`~.disk.DiskNotebook` on the open notebook, each one undoable step there.

    ``path`` names the notebook in results. All raise ToolError, and then nothing was changed.
    """

    def __init__(self, notebook: LiveNotebook, path: str) -> None:
        self._notebook, self._path = notebook, path
        self.before: CellView | None = None
        """The cell that the last edit changed, as it was before."""

    async def views(self) -> list[CellView]:
        """The cells as they stand, without outputs."""
        try:
            return cell_views((await self._notebook.read(outputs=False))["cells"])
        except BridgeError as error:
            raise ToolError(f"the notebook can't be read: {error}") from None

    async def insert(
        self, kind: str, source: str, *, after: str | None = None, before: str | None = None
    ) -> EditResult:
        """Insert a cell behind or before another one, without an anchor at the end."""
        check_kind(kind)
        check_source(source)
        await self._anchors(after, before)
        reply = await self._done(self._notebook.insert(kind=kind, source=source, after=after, before=before))
        return self._result(reply, f"inserted {kind} cell", kind, source, unified_diff("", source))

    async def replace(self, cell_id: str, source: str, *, expected_hash: str | None = None) -> EditResult:
        """Give a cell another source. Outputs, metadata and attachments stay."""
        check_source(source)
        cell, views = await self._find(cell_id, expected_hash)
        return await self._rewrite(cell, views, line_ends_like(cell.source, source), "replaced source")

    async def edit(self, cell_id: str, old: str, new: str, *, expected_hash: str | None = None) -> EditResult:
        """Replace ``old``, which stands exactly once in the cell's source, by ``new``."""
        check_source(new)
        if not old:
            raise ToolError("`old` is empty: give the exact text to be replaced, or use replace for the whole cell.")
        cell, views = await self._find(cell_id, expected_hash)
        at = only_place(cell, old, views)
        source = cell.source[:at] + new + cell.source[at + len(old) :]
        return await self._rewrite(cell, views, source, "edited source")

    async def delete(self, cell_id: str, *, expected_hash: str | None = None) -> EditResult:
        """Delete a cell with its outputs."""
        cell, _ = await self._find(cell_id, expected_hash)
        reply = await self._done(self._notebook.delete(cell.id, expected=expected(cell)))
        place, diff = int(reply["index"]) + 1, unified_diff(cell.source, "")
        action = f"deleted {cell.kind} cell"
        return EditResult(action, cell.id, place, reply["count"], first_line(cell.source), diff, "", self._path)

    async def move(
        self, cell_id: str, *, after: str | None = None, before: str | None = None, expected_hash: str | None = None
    ) -> EditResult:
        """Move a cell behind or before another one."""
        cell, views = await self._find(cell_id, expected_hash)
        await self._anchors(after, before, views)
        if after is None and before is None:
            raise ToolError("A move needs the id of another cell in `after` or `before`. Nothing was changed.")
        reply = await self._done(self._notebook.move(cell.id, after=after, before=before, expected=expected(cell)))
        if reply["index"] == cell.index:
            return self._unchanged(cell, views, "It stands there already.")
        return self._result(reply, f"moved from place {cell.index + 1}", cell.kind, cell.source)

    async def set_kind(self, cell_id: str, kind: str, *, expected_hash: str | None = None) -> EditResult:
        """Turn a cell into code, markdown or raw. Id, metadata and source stay; only code cells have outputs."""
        check_kind(kind)
        cell, views = await self._find(cell_id, expected_hash)
        if cell.kind == kind:
            return self._unchanged(cell, views, f"It is a {kind} cell already.")
        if kind == "code" and cell.attachments:
            raise ToolError(
                f"Cell {cell.id} has attachments ({', '.join(cell.attachments)[:200]}), which a code cell can't hold. "
                "Nothing was changed; insert a new code cell beside it instead."
            )
        reply = await self._done(self._notebook.set_kind(cell.id, kind=kind, expected=expected(cell)))
        return self._result(reply, f"turned {cell.kind} into {kind}", kind, cell.source)

    async def clear_outputs(self, cell_id: str | None = None, *, expected_hash: str | None = None) -> EditResult:
        """Remove outputs and execution count of one code cell, or (None) of all that are not running."""
        cell = None if cell_id is None else (await self._find(cell_id, expected_hash))[0]
        seen = expected(cell) if cell else None
        reply = await self._done(self._notebook.clear_outputs(cell.id if cell else None, expected=seen))
        note = f"Removed: {reply['outputs']:,} outputs of {reply['cleared']:,} cells."
        if cell:
            return self._result(reply, "cleared outputs", cell.kind, cell.source, note=note)
        return EditResult("cleared outputs", "", 0, reply["count"], "", "", "", self._path, note)

    async def _find(self, cell_id: str, expected_hash: str | None) -> tuple[CellView, list[CellView]]:
        views = await self.views()
        self.before = find_cell(views, cell_id, expected_hash)
        return self.before, views

    async def _anchors(self, after: str | None, before: str | None, views: Sequence[CellView] = ()) -> None:
        if after is not None and before is not None:
            raise ToolError("Give `after` or `before`, not both. Nothing was changed.")
        if (anchor := before if after is None else after) is not None:
            find_cell(views or await self.views(), anchor)

    async def _rewrite(self, cell: CellView, views: Sequence[CellView], source: str, action: str) -> EditResult:
        if source == cell.source:
            return self._unchanged(cell, views, "The cell has this text already.")
        reply = await self._done(self._notebook.replace(cell.id, source, expected=expected(cell)))
        return self._result(reply, action, cell.kind, source, unified_diff(cell.source, source))

    async def _done(self, request: Any) -> Reply:
        try:
            reply: Reply = await request
        except BridgeError as error:
            raise ToolError(f"the notebook was not changed: {error}") from None
        return reply

    def _result(self, reply: Reply, action: str, kind: str, source: str, diff: str = "", note: str = "") -> EditResult:
        place, digest = int(reply["index"]) + 1, cell_hash(kind, source)
        return EditResult(
            action, reply["cell_id"], place, reply["count"], first_line(source), diff, digest, self._path, note
        )

    def _unchanged(self, cell: CellView, views: Sequence[CellView], note: str) -> EditResult:
        place, line = cell.index + 1, first_line(cell.source)
        return EditResult("no change", cell.id, place, len(views), line, "", cell.hash, self._path, note)
