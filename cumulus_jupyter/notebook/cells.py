"""The vocabulary of notebook editing, shared by every transport: views of cells, results of edits, text for a model.

Cells are named by id. A cell without a usable id (nbformat below 4.5, a missing, malformed or repeated id) is named by
an alias made from its content: ``#1a2b3c4d``, or ``#1a2b3c4d.2/3`` for the second of three cells with the same content.
So an alias never drifts to another cell when cells are inserted, deleted or moved above it; it stops being known when
its own cell changes, or when the number of equal cells does.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cumulus_jupyter.agent.errors import ToolError
from cumulus_jupyter.agent.messages import Image

from .outputs import IMAGES_SHOWN, joined, render_outputs

__all__ = [
    "KINDS",
    "CellView",
    "EditResult",
    "cell_hash",
    "cell_views",
    "check_kind",
    "check_source",
    "find_cell",
    "first_line",
    "line_ends_like",
    "only_place",
    "render_cells",
    "source_text",
    "unified_diff",
    "unknown_cell",
]

KINDS = ("code", "markdown", "raw")
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
LISTED = 30
LONGEST_DIFFED = 5_000


@dataclass(frozen=True, slots=True)
class CellView:
    """One cell as it is read.

    ``id`` names the cell in calls (its own id or an alias), ``raw_id`` is what the notebook holds, ``index`` counts
    from 0, ``hash`` is over kind and source.
    """

    id: str
    index: int
    kind: str
    source: str
    execution_count: int | None
    outputs: list[dict[str, Any]]
    metadata: dict[str, Any]
    hash: str
    raw_id: str | None = None
    attachments: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EditResult:
    """What an edit did. ``position`` counts from 1 among ``count`` cells; a deleted cell has the place that it had."""

    action: str
    cell_id: str
    position: int
    count: int
    first_line: str
    diff: str
    hash: str
    path: str
    note: str = ""

    @property
    def changed(self) -> bool:
        """False where the notebook already was as asked, so nothing was written."""
        return self.action != "no change"

    def text(self) -> str:
        """The result in words, for the model."""
        place = f"id={self.cell_id}, cell {self.position} of {self.count}" if self.cell_id else f"{self.count} cells"
        lines = [f"{self.action}: {place} in {self.path}" + (f", hash {self.hash}" if self.hash else "")]
        if self.first_line:
            lines.append(f"first line: {self.first_line}")
        return _sendable("\n".join([*lines, *(part for part in (self.diff, self.note) if part)]))


def _sendable(text: str) -> str:
    """``text`` without lone surrogates, which can be read from a notebook but in no request be sent."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def cell_hash(kind: str, source: str) -> str:
    """8 hexadecimal digits of the SHA-256 of kind and source."""
    return hashlib.sha256(f"{kind}\0{source}".encode("utf-8", "surrogatepass")).hexdigest()[:8]


def source_text(cell: Mapping[str, Any]) -> str:
    """The source as one string, from either of its two forms."""
    return joined(cell.get("source"))


def first_line(source: str) -> str:
    """The first line that isn't blank, at most 80 characters."""
    line = next((line.strip() for line in source.splitlines() if line.strip()), "")
    return line if len(line) <= 80 else line[:79] + "…"


def cell_views(cells: Sequence[Mapping[str, Any]]) -> list[CellView]:
    """Views of parsed cells, each with an ``id`` that names it and no other."""
    hashes = [cell_hash(str(cell.get("cell_type", "unknown")), source_text(cell)) for cell in cells]
    ids = Counter(cell["id"] for cell in cells if isinstance(cell.get("id"), str))
    own = [_own_id(cell, ids) for cell in cells]
    totals = Counter(digest for digest, name in zip(hashes, own, strict=True) if not name)
    seen: Counter[str] = Counter()
    views = []
    for index, (cell, digest, name) in enumerate(zip(cells, hashes, own, strict=True)):
        if not name:
            seen[digest] += 1
            total = totals[digest]
            name = f"#{digest}" if total == 1 else f"#{digest}.{seen[digest]}/{total}"
        views.append(_view(cell, index, name, digest))
    return views


def _own_id(cell: Mapping[str, Any], ids: Counter[str]) -> str | None:
    name = cell.get("id")
    return name if isinstance(name, str) and ID.match(name) and ids[name] == 1 else None


def _view(cell: Mapping[str, Any], index: int, name: str, digest: str) -> CellView:
    outputs, metadata, attachments = cell.get("outputs"), cell.get("metadata"), cell.get("attachments")
    count, raw_id = cell.get("execution_count"), cell.get("id")
    return CellView(
        id=name,
        index=index,
        kind=str(cell.get("cell_type", "unknown")),
        source=source_text(cell),
        execution_count=count if isinstance(count, int) else None,
        outputs=[out for out in outputs if isinstance(out, dict)] if isinstance(outputs, list) else [],
        metadata=metadata if isinstance(metadata, dict) else {},
        hash=digest,
        raw_id=raw_id if isinstance(raw_id, str) else None,
        attachments=list(attachments) if isinstance(attachments, dict) else [],
    )


def find_cell(cells: Sequence[CellView], cell_id: str, expected_hash: str | None = None) -> CellView:
    """The cell that ``cell_id`` names; ``expected_hash`` is its hash as it was last read.

    Raises
    ------
    ToolError
        No cell or more than one has this id, or the cell is not as it was read.
    """
    found = [cell for cell in cells if cell.id == cell_id] or [cell for cell in cells if cell.raw_id == cell_id]
    if not cell_id or not found:
        raise unknown_cell(cell_id, cells)
    if len(found) > 1:
        places = ", ".join(f"{cell.id} (cell {cell.index + 1})" for cell in found[:LISTED])
        raise ToolError(f"{len(found)} cells of this notebook share the id {cell_id!r}. Name one of them: {places}.")
    if expected_hash is not None and found[0].hash != expected_hash:
        raise ToolError(f"Cell {cell_id} has changed since you read it. Nothing was written; read it again first.")
    return found[0]


def unknown_cell(cell_id: str, cells: Sequence[CellView]) -> ToolError:
    """The error for an id that names no cell: the nearest id, and the real ones with their first lines."""
    if not cells:
        return ToolError(f"No cell {cell_id!r:.100}: the notebook has no cells. Insert without an anchor.")
    by_id = {cell.id: cell for cell in cells}
    near = difflib.get_close_matches(str(cell_id)[:100], by_id, n=1)
    number = re.fullmatch(r"(?:cell\s*)?#?(\d{1,7})", str(cell_id).strip(), re.IGNORECASE)
    hint = f" Nearest id: {near[0]}." if near else ""
    if number:
        place = int(number[1])
        known = f"; the cell at place {place} is {cells[place - 1].id}" if 1 <= place <= len(cells) else ""
        hint = f" Cells are named by id, not by number{known}."
    elif str(cell_id).startswith("#"):
        hint = " That cell has changed or is gone since it was read (or now has equals). Read the notebook again."
    rows = [f"[{cell.index + 1}] {cell.id}  {first_line(cell.source)}".rstrip() for cell in cells[:LISTED]]
    if len(cells) > LISTED:
        rows.append(f"… and {len(cells) - LISTED:,} more; read the notebook for all")
    return ToolError(_sendable(f"No cell {cell_id!r:.100}; nothing was changed.{hint} The cells:\n" + "\n".join(rows)))


def check_kind(kind: str) -> None:
    """Raise ToolError unless ``kind`` is code, markdown or raw."""
    if kind not in KINDS:
        raise ToolError(f"A cell's kind is code, markdown or raw, not {kind!r:.100}. Nothing was changed.")


def check_source(text: str) -> None:
    """Raise ToolError for new text that a notebook can't hold: not a string, or half of a surrogate pair in it."""
    if not isinstance(text, str):
        raise ToolError(f"A cell's text is one string, not {type(text).__name__}. Nothing was changed.")
    if half := re.search("[\ud800-\udfff]", text):
        line = text.count("\n", 0, half.start()) + 1
        raise ToolError(
            f"Line {line} of the new text holds half of a character (a lone surrogate), which no file can hold. "
            "Nothing was changed; send the whole character."
        )


def line_ends_like(old: str, text: str) -> str:
    """``text`` with the line ends of a source that has carriage returns throughout."""
    if "\r\n" in old and old.count("\r\n") == old.count("\n"):
        return re.sub("\r?\n", "\r\n", text)
    return text


def only_place(cell: CellView, old: str, views: Sequence[CellView]) -> int:
    """Where ``old`` stands in the cell's source, if that is exactly one place."""
    found: list[int] = []
    at = cell.source.find(old)
    while at >= 0 and len(found) < 20:
        found.append(at)
        at = cell.source.find(old, at + 1)
    if len(found) == 1:
        return found[0]
    if found:
        lines = ", ".join(str(cell.source.count("\n", 0, place) + 1) for place in found)
        times = "20 or more" if len(found) == 20 else len(found)
        raise ToolError(
            f"The text to be replaced stands {times} times in cell {cell.id}, at lines {lines}. "
            "Nothing was changed; give more of the text around the one that is meant."
        )
    elsewhere = [view.id for view in views if old in view.source][:5]
    hint = f" It stands in cell {', '.join(elsewhere)}." if elsewhere else _nearest_line(cell.source, old)
    raise ToolError(f"The text to be replaced is not in cell {cell.id}; nothing was changed.{hint}")


def _nearest_line(source: str, old: str) -> str:
    lines = source.split("\n")[:2000]
    wanted = first_line(old)
    near = difflib.get_close_matches(wanted, [line.strip()[:80] for line in lines], n=1)
    if not near:
        return " Read the cell again."
    number = next(at for at, line in enumerate(lines, 1) if line.strip()[:80] == near[0])
    return f" The nearest is line {number}: {lines[number - 1][:120]!r} (whitespace counts)."


def unified_diff(old: str, new: str) -> str:
    """A unified diff of two sources with 3 lines of context; of very long ones only their sizes."""
    if old == new:
        return ""
    before, after = old.split("\n"), new.split("\n")
    if max(len(before), len(after)) > LONGEST_DIFFED:
        return f"({len(before):,} lines became {len(after):,}; too long for a diff)"
    return "\n".join([*difflib.unified_diff(before if old else [], after if new else [], lineterm="")][2:])


def render_cells(cells: Sequence[CellView], *, outputs: bool = True, output_cap: int = 2000) -> tuple[str, list[Image]]:
    """Cells as text for a model, sources in full, with the pictures among their outputs.

    ``output_cap`` is how many characters of one output are shown, with its true size where that is larger; without
    ``outputs`` they are only counted.
    """
    lines: list[str] = []
    images: list[Image] = []
    for cell in cells:
        lines += [_header(cell), cell.source.removesuffix("\n")]
        if outputs and cell.outputs:
            text, more = render_outputs(cell.outputs, cap=output_cap, images=IMAGES_SHOWN - len(images), of=len(images))
            lines.append(text)
            images += more
        elif cell.outputs:
            lines.append(f"({len(cell.outputs):,} outputs not shown)")
        lines.append("")
    return _sendable("\n".join(lines).rstrip("\n")), images


def _header(cell: CellView) -> str:
    run = f" In [{' ' if cell.execution_count is None else cell.execution_count}]" if cell.kind == "code" else ""
    size = cell.source.count("\n") + (1 if cell.source and not cell.source.endswith("\n") else 0)
    facts = [f"{size:,} line{'' if size == 1 else 's'}", f"hash {cell.hash}"]
    if isinstance(tags := cell.metadata.get("tags"), list) and tags:
        facts.append("tags " + " ".join(map(str, tags))[:200])
    if cell.attachments:
        facts.append("attachments " + " ".join(cell.attachments)[:200])
    return f"[{cell.index + 1}] id={cell.id} {cell.kind}{run} ({', '.join(facts)})"
