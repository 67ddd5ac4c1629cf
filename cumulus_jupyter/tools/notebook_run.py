"""``notebook_run``: run cells of the open notebook in front of the person, and have their outputs in the same turn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from ..agent.errors import BridgeError, ToolError
from ..agent.host import CodeRun, LiveNotebook
from ..agent.messages import Ask, Image, Option, Outcome, Question
from ..agent.tool import LARGE_CAP, Access, Output, ToolContext
from ..notebook.cells import CellView, find_cell, first_line
from ..notebook.live import LiveEdits, expected
from ..notebook.outputs import render_outputs
from .function import tool
from .notebook import find_target, last_seen, notebook_lock
from .python import KERNEL_LOCK

__all__ = ["notebook_run", "recorded_seconds"]

_LONGEST = 3_600.0
_SLOW = 10.0
"""Seconds; a cell that took longer is not run again without the person's word."""
_OUTPUT_CAP = 4_000
_MOST_IMAGES = 4
_AGENT_MAGIC = re.compile(r"^\s*%%?agent\b", re.MULTILINE)
_AGAIN, _NOT_AGAIN = "Run again", "Don't run"


def _runs(_root: Path, _arguments: dict[str, Any]) -> Access:
    return Access.RUN


def _locks(root: Path, arguments: dict[str, Any]) -> list[str]:
    return [KERNEL_LOCK, notebook_lock(root, arguments)]


@tool(deferred=True, cap=LARGE_CAP, timeout=None, access=_runs, locks=_locks)
async def notebook_run(
    ctx: ToolContext,
    cells: Annotated[list[str], "ids of code cells, in the order to run them"],
    timeout: Annotated[float, "seconds for each cell, after which it is interrupted, at most 3600"] = 120,
    path: Annotated[
        str | None, "none: the notebook that this conversation runs in, the only one that can be run"
    ] = None,
) -> Output:
    """Run code cells of the open Jupyter notebook (.ipynb): outputs, errors and images appear in the cells and here.

    One after another, up to the first error. A cell that ran longer than 10 s before is run again only if the person
    agrees.
    """
    if not cells:
        raise ToolError("give the ids of the cells to run")
    if not 0 < timeout <= _LONGEST:
        raise ToolError(f"timeout must be over 0 and at most {_LONGEST:g} seconds, not {timeout:g}")
    target = await find_target(ctx, path, writing=False)
    if target.live is None:
        raise ToolError(
            f"{target.path.name} can't be run: it is not open in a front end with the Cumulus extension. Cells run "
            "only in the open notebook of this conversation; use run_python for the code."
        )
    views = await LiveEdits(target.live, str(target.path)).views()
    known = last_seen(ctx.transcript, target.path)
    chosen = [find_cell(views, name, known.get(name)) for name in cells]
    for cell in chosen:
        _check(cell, ctx.host.place().cell)
    await _agreed(ctx, target.live, chosen)
    return await _run_all(ctx, target.live, chosen, timeout, target.path)


def _check(cell: CellView, own: str) -> None:
    if cell.kind != "code":
        raise ToolError(f"cell {cell.id} is a {cell.kind} cell; only code cells can be run. Nothing was run.")
    if cell.id == own or _AGENT_MAGIC.search(cell.source):
        raise ToolError(f"cell {cell.id} is an agent's cell; an agent can't run one. Nothing was run.")


async def _agreed(ctx: ToolContext, live: LiveNotebook, cells: list[CellView]) -> None:
    """Ask the person about the cells that took long; ToolError where they don't agree."""
    slow = [(cell, live.last_took(cell.id) or recorded_seconds(cell.metadata)) for cell in cells]
    slow = [(cell, seconds) for cell, seconds in slow if seconds > _SLOW]
    if not slow:
        return
    told = "; ".join(
        f"cell {cell.index + 1} ({first_line(cell.source)}) took {seconds:.0f} s" for cell, seconds in slow
    )
    options = (Option(_AGAIN, "this time"), Option(_NOT_AGAIN, "say why below, for the agent to read"))
    question = Question(f"Run again? {told}", "Long run", options)
    answer = await ctx.host.ask(Ask(f"{ctx.call.id}-again", "notebook_run", (question,)))
    if answer.outcome is Outcome.ANSWERED and answer.values[:1] == (_AGAIN,):
        return
    said = " ".join([value for value in answer.values if value != _NOT_AGAIN] + [answer.notes] * bool(answer.notes))
    why = f" They said: {said}" if said else ""
    raise ToolError(f"nothing was run: the person did not agree to run it again ({told}).{why} Use the results there.")


def recorded_seconds(metadata: Mapping[str, Any]) -> float:
    """How long a cell took by the times that JupyterLab recorded in its metadata, also in a kernel before; else 0."""
    times = metadata.get("execution")
    if not isinstance(times, Mapping):
        return 0.0
    ends = (times.get("iopub.execute_input"), times.get("shell.execute_reply"))
    try:
        begun, ended = (datetime.fromisoformat(str(each)) for each in ends)
        return max(0.0, (ended - begun).total_seconds())
    except (ValueError, TypeError):  # not recorded, damaged, or one without a time zone
        return 0.0


async def _run_all(ctx: ToolContext, live: LiveNotebook, cells: list[CellView], timeout: float, path: Path) -> Output:
    told: list[str] = []
    images: list[Image] = []
    ok = True
    for number, cell in enumerate(cells, 1):
        ctx.progress(f"cell {cell.index + 1}: {first_line(cell.source)}")
        try:
            run = await live.run(cell.id, cell.source, timeout=timeout, expected=expected(cell))
        except BridgeError as error:
            raise ToolError("\n".join([*told, f"cell {cell.id} was not run, or its end is unknown: {error}"])) from None
        left = _MOST_IMAGES - len(images)
        text, more = render_outputs(run.outputs, cap=_OUTPUT_CAP, images=left, of=len(images))
        images += more
        told.append("\n".join([f"[{cell.index + 1}] id={cell.id}: {_end(run, timeout)}", *([text] if text else [])]))
        if run.error or run.timed_out:
            ok = False
            if rest := [other.id for other in cells[number:]]:
                told.append(f"not run: {', '.join(rest)}")
            break
    details = {"output": "\n".join(told)[-20_000:], "images": len(images)}
    details["seen"] = {str(path): {cell.id: cell.hash for cell in cells}}
    text = "\n\n".join(told)
    return Output([text, *images] if images else text, details, ok=ok)


def _end(run: CodeRun, timeout: float) -> str:
    if run.timed_out:
        return f"interrupted: it ran longer than {timeout:g} s. Do less at once or give a longer timeout."
    if run.interrupted:
        return "interrupted by the person"
    if run.error:
        return f"failed with {run.error[0]}: {run.error[1]}"[:500]
    return "done" if run.outputs else "done (no output)"
