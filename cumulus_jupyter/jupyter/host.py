"""The kernel as the surroundings of a run: namespace, code, notebook, and whether somebody is there."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..agent.errors import BridgeError
from ..agent.host import CodeRun, Place
from ..agent.messages import Answer, Ask, Outcome
from .bridge import Bridge
from .cellrun import CellRunner
from .interrupt import InterruptHandler
from .kernel import KernelRunner
from .view import CellView

__all__ = ["CellContext", "KernelHost", "current_cell"]


@dataclass(slots=True)
class CellContext:
    """What belongs to the cell that a run was started in."""

    view: CellView
    interrupts: InterruptHandler
    redact: Callable[[Any], Any] = lambda value: value
    place: Place = field(default_factory=Place)
    ask: Callable[[Ask], Awaitable[Answer]] | None = None
    """Asks the person in this cell while its run goes on."""


current_cell: ContextVar[CellContext] = ContextVar("cumulus_current_cell")
"""Set before a run's task is made: the task and all that it starts keep it."""


class KernelHost:
    """A notebook's kernel, seen from the cell of the run that asks."""

    def __init__(self, shell: Any, bridge: Any) -> None:
        self._shell = shell
        self.bridge: Bridge = bridge
        self._runner, self._cells = KernelRunner(shell), CellRunner(shell)
        if bridge is not None:  # without one code still runs, and no notebook is found
            bridge.run_cell, bridge.seconds = self._run_cell, self._cells.seconds
        self.person = False

    @property
    def kernel(self) -> Any:
        """The ipykernel kernel."""
        return self._shell.kernel

    def look(self) -> None:
        """Note whether somebody is there: the front end that runs this cell takes input.

        Read when a cell starts, since a front end's requests of its own change it meanwhile.
        """
        self.person = bool(self.kernel._allow_stdin)

    async def live_notebook(self) -> Bridge | None:
        """The notebook in its front end; waits for a connection that is being made."""
        if not self.person:
            return None
        if not await self.bridge.ready():
            if self.bridge.refusal:
                raise BridgeError(self.bridge.refusal)
            return None
        current_cell.get().place = self.locate()
        return self.bridge

    def namespace(self) -> dict[str, Any]:
        """The user's variables."""
        namespace: dict[str, Any] = self._shell.user_ns
        return namespace

    def place(self) -> Place:
        """The notebook and the running cell, as far as they are known."""
        cell = current_cell.get(None)
        return cell.place if cell else Place()

    def locate(self) -> Place:
        """Find out the notebook: from the front end, VS Code's variable, the server's word at kernel start."""
        parent = self._shell.get_parent() or {}
        cell = str((parent.get("metadata") or {}).get("cellId") or "")
        named = str(self._shell.user_ns.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME") or "")
        path = named if named.endswith(".ipynb") else ""
        if shown := self.bridge.path:
            return Place(_absolute(shown, path), cell, live=self.bridge.connected)
        return Place(path, cell)

    async def open_in(self, path: str) -> str:
        """Colab or VS Code where they show this notebook; else a running server that has it open with a kernel."""
        if not self.person:
            return ""
        if os.path.realpath(path) == os.path.realpath(self.place().path):
            if "google.colab" in sys.modules:
                return "Colab"
            if self._shell.user_ns.get("__vsc_ipynb_file__"):
                return "VS Code"
        return await asyncio.to_thread(_open_in_server, path)

    async def ask(self, ask: Ask) -> Answer:
        """Ask in the cell of the run that needs to know."""
        cell = current_cell.get(None)
        if not self.person or cell is None or cell.ask is None:
            return Answer(Outcome.NO_USER)
        return await cell.ask(ask)

    async def _run_cell(self, source: str, cell: str, message: str, timeout: float) -> tuple[CodeRun, int | None]:
        """Run another cell; with the number that its prompt shows, the agent cell's own."""
        run = await self._cells.run(source, cell, message, timeout, current_cell.get().interrupts)
        return run, self._shell.execution_count

    async def run_code(
        self, code: str, *, call_id: str, folder: Path, timeout: float, progress: Callable[[str], None]
    ) -> CodeRun:
        """Run code in the user's namespace, behind its own line in the cell."""
        cell = current_cell.get()
        for _ in range(50):  # the call's line must stand before what the code shows
            if cell.view.has(call_id):
                cell.view.flush()
                break
            await asyncio.sleep(0)
        return await self._runner.run(
            code,
            call_id=call_id,
            folder=folder,
            timeout=timeout,
            tail=lambda text: cell.view.tail(call_id, text),
            interrupts=cell.interrupts,
            redact=cell.redact,
        )


def _absolute(shown: str, named: str) -> str:
    """The front end's path, relative to a server root that is not told, as an absolute one.

    ``named`` is the absolute path at kernel start: what both share at the end tells the root. After a rename only the
    name differs, and the working directory is where the kernel was started.
    """
    name = shown.removeprefix("RTC:")
    if named and named.endswith(name):
        return named
    root = Path(named)
    parts = Path(name).parts
    for _ in parts:
        root = root.parent
    if named and (root / name).exists():
        return str(root / name)
    return str(Path.cwd() / Path(name).name)


def _open_in_server(path: str) -> str:
    from urllib.request import Request, urlopen

    try:
        from jupyter_server.serverapp import list_running_servers
    except ImportError:
        return ""
    real = os.path.realpath(path)
    for server in list_running_servers():
        request = Request(f"{server['url']}api/sessions", headers={"Authorization": f"token {server['token']}"})
        try:
            with urlopen(request, timeout=1) as response:
                sessions = json.load(response)
        except (OSError, ValueError):
            continue
        for session in sessions:
            place = os.path.join(server["root_dir"], session.get("path") or "")
            if session.get("type") == "notebook" and os.path.realpath(place) == real:
                return "JupyterLab"
    return ""
