"""``list_files`` and ``search_files``."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..agent.errors import ToolError
from ..agent.tool import DEFAULT_CAP, LARGE_CAP, Output, ToolContext
from .function import tool
from .paths import no_such_file, read_access, resolve
from .reading import HEAD
from .textfile import decode, is_binary
from .walk import Skipped, glob_matcher, walk

if TYPE_CHECKING:
    import regex

__all__ = ["list_files", "search_files"]

_LISTED = 2_000
_LARGEST = 20 * 1024 * 1024
_SECONDS = 20.0
_AROUND = 200
"""Characters of a long line shown on each side of its match."""
_LINEWISE = (r"\A", r"\Z", r"\z", "(?!", "(?<", "++", "*+", "?+", "}+")
"""What can hold on a line alone and not in the middle of a file."""


@tool(cap=DEFAULT_CAP, access=read_access)
def list_files(
    ctx: ToolContext,
    pattern: Annotated[
        str, "glob: ** any folders, {a,b} either; a name alone at any depth; * this folder only"
    ] = "**/*",
    path: Annotated[str, "the folder, relative to the root or absolute"] = ".",
) -> Output:
    """List files that match a pattern, without what .gitignore names and without caches and dependencies."""
    start = _folder(ctx, path)
    matches, skipped = glob_matcher(pattern), Skipped()
    until = time.monotonic() + _SECONDS
    shown: list[str] = []
    count, whole = 0, True
    for name, entry in walk(start, Path(os.path.realpath(ctx.root)), skipped, folders="**" not in pattern):
        if time.monotonic() > until:
            whole = False
            break
        if matches(name):
            count += 1
            if count <= _LISTED:
                shown.append(f"{name} -> {_link(entry.path)}" if entry.is_symlink() else name)
    head = f"{start}: {'' if whole else 'at least '}{count:,} match {pattern}"
    if count > _LISTED:
        head += f", the first {_LISTED:,} listed"
    if not whole:
        head += f" (stopped after {_SECONDS:g} s; give a narrower path)"
    rest = [f"(skipped: {', '.join(told)})"] if (told := skipped.told()) else []
    return Output("\n".join([head, *rest, *shown]), {"path": str(start), "count": count})


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return "?"


def _folder(ctx: ToolContext, path: str) -> Path:
    start = resolve(ctx.root, path)
    try:
        if not stat.S_ISDIR(os.stat(start).st_mode):
            raise ToolError(f"{start} is a file, not a folder; read it with read_file")
    except FileNotFoundError:
        raise no_such_file(start) from None
    except OSError as error:
        raise ToolError(f"{start}: {error.strerror}") from None
    return start


@dataclass(slots=True)
class _Search:
    """One search as it goes on: what it found and what it left out."""

    pattern: regex.Pattern[str]
    context: int
    most: int
    until: float
    linewise: bool
    rows: list[str] = field(default_factory=list)
    found: int = 0
    files: int = 0
    searched: int = 0
    binary: int = 0
    large: list[str] = field(default_factory=list)
    skipped: Skipped = field(default_factory=Skipped)

    @property
    def left(self) -> float:
        """Seconds left; at none of them the search stops."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def lines(self, name: str, lines: list[str], label: Callable[[int], str]) -> bool:
        """Search the lines of a file or cell; ``label`` gives a line's place from its index."""
        hits = [at for at, line in enumerate(lines) if self.matches(line)]
        shown = hits[: max(self.most - self.found, 0)]
        self.found += len(hits)
        around = (range(max(at - self.context, 0), min(at + self.context + 1, len(lines))) for at in shown)
        marks = dict.fromkeys((row for rows in around for row in rows), "-") | dict.fromkeys(shown, ":")
        last = -1
        for row in sorted(marks):
            if self.context and self.rows and row != last + 1:
                self.rows.append("--")
            self.rows.append(f"{name}{label(row)}{marks[row]} {self._cut(lines[row])}")
            last = row
        return bool(hits)

    def matches(self, text: str) -> regex.Match[str] | None:
        # concurrent: other threads run meanwhile, however long the match takes.
        return self.pattern.search(text, timeout=self.left, concurrent=True)

    def _cut(self, line: str) -> str:
        if len(line) <= 2 * _AROUND + 100:
            return line
        match = self.matches(line)
        middle = match.start() if match else 0
        start, end = max(middle - _AROUND, 0), middle + _AROUND
        return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''} ({len(line):,} characters)"


@tool(cap=LARGE_CAP, access=read_access)
def search_files(
    ctx: ToolContext,
    regex: Annotated[str, "a regular expression (Python's syntax), matched line by line"],
    glob: Annotated[str, "which files: ** any folders, {a,b} either; a name alone at any depth"] = "**/*",
    path: Annotated[str, "a folder or file, relative to the root or absolute"] = ".",
    context: Annotated[int, "lines to show before and after each match"] = 0,
    max: Annotated[int, "most matches to show"] = 200,
) -> Output:
    """Search the text of files, and the source of notebooks' cells, for a regular expression.

    Leaves out what .gitignore names, caches, dependencies, links, binary files and files over 20 MB.
    """
    if not 0 <= context <= 50 or not 1 <= max <= 5_000:
        raise ToolError("context must be from 0 to 50 and max from 1 to 5000")
    search = _Search(_compiled(regex), context, max, time.monotonic() + _SECONDS, any(m in regex for m in _LINEWISE))
    start = resolve(ctx.root, path)
    stopped = ""
    name = ""
    try:
        for name, place in _files(ctx, start, glob, search):
            _search_file(search, name, place)
    except TimeoutError:
        stopped = f"stopped after {_SECONDS:g} s in {name or start}: give a narrower path or glob, or a simpler regex"
    lines = "line" if search.found == 1 else "lines"
    head = f"{start}: {search.found:,} matching {lines} in {search.files:,} of {search.searched:,} files"
    notes = [stopped] if stopped else []
    if search.found > max:
        notes.append(f"the first {max:,} matches are shown")
    if told := _left_out(search):
        notes.append(f"skipped: {told}")
    rows = [f"({note})" for note in notes] + search.rows
    return Output("\n".join([head, *rows]), {"path": str(start), "count": search.found})


def _left_out(search: _Search) -> str:
    told = search.skipped.told()
    if search.binary:
        told.append(f"{search.binary:,} binary")
    if search.large:
        names = ", ".join(search.large[:5]) + (" …" if len(search.large) > 5 else "")
        told.append(f"{len(search.large):,} over 20 MB ({names})")
    return ", ".join(told)


def _compiled(text: str) -> regex.Pattern[str]:
    # Python's own module can't be stopped in the middle of a match and holds the interpreter until it ends.
    import regex

    try:
        return regex.compile(text, regex.MULTILINE)
    except regex.error as error:
        raise ToolError(f"the regular expression {text!r} is wrong: {error}. Escape what is meant literally.") from None


def _files(ctx: ToolContext, start: Path, glob: str, search: _Search) -> Iterator[tuple[str, str]]:
    """Names and places of the files to search."""
    try:
        mode = os.stat(start).st_mode
    except FileNotFoundError:
        raise no_such_file(start) from None
    except OSError as error:
        raise ToolError(f"{start}: {error.strerror}") from None
    if not stat.S_ISDIR(mode):
        yield start.name, str(start)
        return
    matches = glob_matcher(glob)
    for name, entry in walk(start, Path(os.path.realpath(ctx.root)), search.skipped):
        if search.left and matches(name):
            if entry.is_symlink():
                search.skipped.links += 1
            else:
                yield name, entry.path


def _search_file(search: _Search, name: str, place: str) -> None:
    try:
        facts = os.stat(place, follow_symlinks=False)
        if not stat.S_ISREG(facts.st_mode):
            return
        if facts.st_size > _LARGEST:
            search.large.append(name)
            return
        with open(place, "rb") as file:
            head = file.read(HEAD)
            if is_binary(head):
                search.binary += 1
                return
            data = head + file.read()
        text = decode(data).text
    except (OSError, ToolError):
        search.skipped.unreadable += 1
        return
    search.searched += 1
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    if not search.linewise and not search.matches(text):
        return
    cells = _cells(text) if name.endswith(".ipynb") else None
    if cells is None:
        hit = search.lines(name, _lines(text), lambda at: f":{at + 1}")
    else:
        hit = sum(search.lines(f"{name} [cell {cell}]", _lines(source), _line) for cell, source in cells) > 0
    search.files += hit


def _line(at: int) -> str:
    return f":{at + 1}"


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _cells(text: str) -> list[tuple[str, str]] | None:
    """Ids and sources of a notebook's cells; None where it is none."""
    from ..notebook.cells import cell_views

    try:
        notebook: Any = json.loads(text)
        return [(view.id, view.source) for view in cell_views(notebook["cells"])]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
