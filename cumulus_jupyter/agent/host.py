"""What the place that an agent runs in can do: a notebook's kernel, or a plain script."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from .messages import Answer, Ask

__all__ = ["CodeRun", "Expected", "Host", "LiveNotebook", "Place", "working_in"]


Expected = Mapping[str, str] | None


@dataclass(slots=True)
class CodeRun:
    """What running code came to.

    ``outputs`` are nbformat output dictionaries in order, without the error; ``error`` is (name, value, traceback
    text) or None. ``created``, ``rebound`` and ``deleted`` name variables.
    """

    outputs: list[dict[str, Any]] = field(default_factory=list)
    error: tuple[str, str, str] | None = None
    interrupted: bool = False
    timed_out: bool = False
    created: list[str] = field(default_factory=list)
    rebound: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@contextlib.contextmanager
def working_in(folder: Path, run: CodeRun) -> Iterator[None]:
    """Code runs in ``folder``; wherever it goes from there, the process comes back, and the run's notes say so."""
    before = os.getcwd()
    os.chdir(folder)
    started = os.getcwd()
    try:
        yield
    finally:
        if (ended := _working_directory()) != started:
            run.notes.append(f"the working directory was changed to {ended} and is set back to {started}")
        os.chdir(before)


def _working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "a folder that is gone"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the agent's own cell is. ``path`` is absolute where it is known; ``cell`` is the running cell's id."""

    path: str = ""
    cell: str = ""
    live: bool = False
    """The front end answers: edits go through it."""


class LiveNotebook(Protocol):
    """The notebook that the person is looking at, through its front end.

    Each method raises :class:`~.errors.BridgeError` where the front end refuses or does not answer.
    """

    async def read(self, *, outputs: bool | list[str] = True) -> dict[str, Any]:
        """``{path, nbformat, nbformat_minor, cells: [nbformat cells]}`` as it stands, unsaved edits included.

        ``outputs`` says whether they come, or of which cells; long ones come cut, and of pictures the first ones.
        """
        ...

    async def insert(
        self, *, kind: str, source: str, after: str | None = None, before: str | None = None
    ) -> dict[str, Any]:
        """Insert a cell. Each edit is one undoable step and gives ``{cell_id, index (0-based), count}`` once done."""
        ...

    async def replace(self, cell_id: str, source: str, *, expected: Expected = None) -> dict[str, Any]:
        """Give a cell another source.

        ``expected`` is ``{kind, source}`` as they were read: the edit is refused where the cell is not so any more.
        """
        ...

    async def delete(self, cell_id: str, *, expected: Expected = None) -> dict[str, Any]:
        """Delete a cell; ``index`` is where it stood."""
        ...

    async def move(
        self, cell_id: str, *, after: str | None = None, before: str | None = None, expected: Expected = None
    ) -> dict[str, Any]:
        """Move a cell behind or before another one."""
        ...

    async def set_kind(self, cell_id: str, *, kind: str, expected: Expected = None) -> dict[str, Any]:
        """Make a cell code, markdown or raw."""
        ...

    async def clear_outputs(self, cell_id: str | None, *, expected: Expected = None) -> dict[str, Any]:
        """Clear one code cell, or all that are not running; ``{outputs, cleared}`` count what went."""
        ...

    async def run(self, cell_id: str, source: str, *, timeout: float, expected: Expected = None) -> CodeRun:
        """Run a code cell while the agent's own cell is running; at ``timeout`` seconds it is interrupted."""
        ...

    def last_took(self, cell_id: str) -> float:
        """Seconds that the cell ran when it last ended in this kernel, 0 where that is not known."""
        ...

    async def save(self) -> None:
        """Save the notebook to its file."""
        ...


class Host(Protocol):
    """The surroundings of a run."""

    person: bool
    """Somebody is there who can answer."""

    def namespace(self) -> dict[str, Any]:
        """The variables that ``run_python`` works on."""
        ...

    async def live_notebook(self) -> LiveNotebook | None:
        """The notebook in its front end, None where no front end with our extension answers."""
        ...

    def place(self) -> Place:
        """Where the run's own cell is."""
        ...

    async def open_in(self, path: str) -> str:
        """Which front end has this notebook open, in words; empty where none is known to."""
        ...

    async def ask(self, ask: Ask) -> Answer:
        """Ask the person something that a call under way must know; ``ask.call_id`` is no call's own id.

        Cancelling the wait closes the question. ``NO_USER`` where nobody is there.
        """
        ...

    async def run_code(
        self, code: str, *, call_id: str, folder: Path, timeout: float, progress: Callable[[str], None]
    ) -> CodeRun:
        """Run code in :meth:`namespace`, with ``folder`` as its working directory.

        Its exceptions are in the result; at ``timeout`` seconds it is interrupted. A change of the working directory
        is undone and told.
        """
        ...
