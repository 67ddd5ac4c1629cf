"""Running another cell of the notebook from inside the agent's own: its outputs go where a placeholder request points.

The front end has sent an empty request for that cell, which waits behind the agent's. With its message id as parent,
everything that the code sends (streams, display updates, widgets, ``input()``) belongs to that cell.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from ..agent.host import CodeRun
from .interrupt import InterruptHandler
from .staying import without_exit

__all__ = ["CellRunner"]


class CellRunner:
    """Runs cells one at a time, and knows how long each cell of this kernel took when it last ran."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.seconds: dict[str, float] = {}
        self._started: tuple[str, float] | None = None
        shell.events.register("pre_run_cell", self._before)
        shell.events.register("post_run_cell", self._after)

    async def run(
        self, source: str, cell_id: str, message: str, timeout: float, interrupts: InterruptHandler
    ) -> CodeRun:
        """Run ``source`` as the cell's; its outputs are in the front end, what it raised is in the result."""
        shell, run, started = self._shell, CodeRun(), time.monotonic()
        bad = None
        try:
            transformed = shell.transform_cell(source)
        except Exception:
            transformed, bad = source, sys.exc_info()
        with self._parent(message, cell_id), without_exit(shell), interrupts.running_code(timeout) as limit_hit:
            result = await shell.run_cell_async(
                source, store_history=False, transformed_cell=transformed, preprocessing_exc_tuple=bad, cell_id=cell_id
            )
            shell.events.trigger("post_execute")
            shell.events.trigger("post_run_cell", result)
        self.seconds[cell_id] = time.monotonic() - started
        error = result.error_before_exec or result.error_in_exec
        run.timed_out = limit_hit()
        if error is not None:
            run.interrupted = isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
            run.error = (type(error).__name__, str(error), "")
        return run

    @contextlib.contextmanager
    def _parent(self, message: str, cell_id: str) -> Iterator[None]:
        """Send as the answer to that message, for the time of the block."""
        kernel = self._shell.kernel
        own = kernel.get_parent("shell")
        header = {**own["header"], "msg_id": message}
        ident = _ident(kernel)
        kernel.set_parent(ident, {**own, "header": header, "metadata": {"cellId": cell_id}, "content": {}}, "shell")
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            kernel.set_parent(ident, own, "shell")

    def _before(self, info: Any) -> None:
        self._started = (str(getattr(info, "cell_id", None) or ""), time.monotonic())

    def _after(self, result: Any) -> None:
        cell = str(getattr(getattr(result, "info", None), "cell_id", None) or "")
        if self._started and cell and self._started[0] == cell:
            self.seconds[cell] = time.monotonic() - self._started[1]


def _ident(kernel: Any) -> Any:
    """Where the agent's request came from: no public name for it."""
    if hasattr(kernel, "_get_shell_context_var"):  # ipykernel 7
        return kernel._get_shell_context_var(kernel._shell_parent_ident)
    return kernel._parent_ident["shell"]
