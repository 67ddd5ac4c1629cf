"""``%agent undo``: take back what a run did to files and notebooks, and say what can't be taken back."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .agent.errors import BridgeError, ToolError
from .agent.host import LiveNotebook
from .agent.messages import ToolCall
from .agent.session import Session
from .agent.spool import Spool
from .agent.tool import Access
from .agent.toolbox import Toolbox
from .agent.transcript import Line, Transcript
from .notebook.cells import cell_views
from .notebook.live import expected
from .tools import textfile

__all__ = ["undo", "undone_since"]

_CODE = ("run_python", "run_shell", "notebook_run")
"""Built-in tools whose effects nobody can know."""
_SPAWNING = ("spawn_agent", "spawn_agents")
"""What sub-agents did in this kernel stands in their own calls; on other machines nobody can know it."""
_UNRUN = ("denied", "refused", "there is no tool", "the arguments are not", "declined")
_CHANGED = "it was changed since by a person or by code, so it stays as it is"
_LISTED = 12

Live = Callable[[], Awaitable[LiveNotebook | None]]


@dataclass(slots=True)
class _Edits:
    """One run's edits that were not taken back yet, oldest first, each (call id, what its undo needs)."""

    run: str
    prompt: str
    edits: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    others: list[Line] = field(default_factory=list)
    """The results of the run's other calls."""


@dataclass(slots=True)
class _Outcome:
    """What became of one file or cell, in words; ``settled`` where trying again would change nothing."""

    text: str
    settled: bool = True


async def undo(session: Session, live: Live) -> str:
    """Take back the edits of the last run that has any, newest first; what was done, in plain lines.

    A file or cell that is not as the run left it is not touched. What was settled is stored as an ``undo`` line of the
    transcript, so that the next undo goes on to the run before.

    Parameters
    ----------
    session
        The conversation; no run of it may be under way.
    live
        Gives the open notebook where its front end answers; asked only where a cell of it is to be taken back.
    """
    transcript, root = session.transcript, session.toolbox.root
    last = _last_edits(transcript)
    if last is None:
        return "there is no edit of a file or notebook to take back"
    told: list[str] = []
    settled: list[tuple[str, str]] = []
    for path, edits in _by_path(last.edits):
        outcome = await _revert(path, edits, session.toolbox, transcript.spool, live)
        told.append(outcome.text.replace(f"{os.path.realpath(root)}{os.sep}", ""))
        if outcome.settled:
            settled += [(call, told[-1]) for call, _ in edits]
    _remove_folders(last.edits)
    if settled:
        text = "; ".join(dict.fromkeys(text for _, text in settled))
        calls = [call for call, _ in settled]
        transcript.append("undo", run=last.run, calls=calls, text=session.toolbox.redact(text))
    lines = [f"run {_short(last.prompt, 60)!r}:", *told, *_beyond(last, session)]
    return str(session.toolbox.redact("\n  ".join(lines)))


def undone_since(transcript: Transcript) -> str:
    """What was taken back since the last prompt, for the model; empty where nothing was."""
    told: list[str] = []
    for line in reversed(transcript.lines):
        if line["type"] == "user":
            break
        if line["type"] == "undo":
            told.insert(0, line["text"])
    if not told:
        return ""
    news = "The person took back edits of yours with %agent undo. Read a file again before you rely on it."
    return "\n".join(["<undone>", news, *told, "</undone>"])


# Which edits ----------------------------------------------------------------------------------------------------------


def _last_edits(transcript: Transcript) -> _Edits | None:
    """The newest run with edits that no undo has settled."""
    settled = {call for line in transcript.lines if line["type"] == "undo" for call in line["calls"]}
    runs: dict[str, _Edits] = {}
    run = _Edits("", "")
    for line in transcript.lines:
        if line["type"] == "user":
            run = runs.setdefault(line["run"], _Edits(line["run"], line["text"]))
        elif line["type"] == "result":
            facts = line["details"].get("undo")
            if not facts:
                run.others.append(line)
            elif line["call"] not in settled:
                run.edits += [(line["call"], fact) for fact in (facts if isinstance(facts, list) else [facts])]
    return next((run for run in reversed(runs.values()) if run.edits), None)


def _by_path(edits: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """Edits of one file together, oldest first; the files by their last edit, newest first. A cell stands alone."""
    groups: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for call, facts in reversed(edits):
        key = f"{facts['path']}\0{facts['cell']}\0{call}" if "cell" in facts else facts["path"]
        groups.setdefault(key, []).insert(0, (call, facts))
    return [(key.partition("\0")[0], group) for key, group in groups.items()]


# Files ----------------------------------------------------------------------------------------------------------------


async def _revert(
    path: str, edits: list[tuple[str, dict[str, Any]]], toolbox: Toolbox, spool: Spool, live: Live
) -> _Outcome:
    facts = [fact for _, fact in edits]
    if "cell" in facts[0]:
        return await _revert_cell(path, facts[0], live)
    if path.endswith(".ipynb") and (where := await toolbox.host.open_in(path)):
        words = f"not now: {path} is open in {where}; close it there, then undo again"
        return _Outcome(words, settled=False)
    try:
        return await asyncio.to_thread(_revert_file, Path(path), facts, spool)
    except (ToolError, OSError) as error:
        return _Outcome(f"not now: {error}", settled=False)


def _revert_file(path: Path, facts: list[dict[str, Any]], spool: Spool) -> _Outcome:
    """Bring one file back to where the run's edits of it began, as far as they follow on one another."""
    now = _sha(path)
    if os.path.realpath(path) != str(path):
        return _Outcome(f"left {path}: a link stands there now")
    if now == facts[0]["before_sha"]:
        return _Outcome(f"{path} is as it was before already")
    if now != facts[-1]["after_sha"]:
        why = _CHANGED if now else "it was removed since by a person or by code"
        return _Outcome(f"left {path}: {why}")
    first = len(facts) - 1
    while first and facts[first - 1]["after_sha"] == facts[first]["before_sha"]:
        first -= 1
    words = _put_back(path, facts[first], spool)
    if first:
        words += f", but only its last {len(facts) - first} edits: before them something else changed it"
    return _Outcome(words)


def _put_back(path: Path, facts: dict[str, Any], spool: Spool) -> str:
    if facts["before_sha"] is None:
        path.unlink()
        return f"removed {path}"
    before = textfile.undo_content(facts, spool)
    if before is None:
        raise ToolError(f"{path} can't be restored: what it held before was not kept whole")
    textfile.write_bytes(path, before)
    return f"restored {path}"


def _sha(path: Path) -> str | None:
    """The hash of a file's content; None where there is no file, and of what is no plain file something unlike any."""
    try:
        return hashlib.sha256(textfile.read_bytes(path)).hexdigest()
    except FileNotFoundError:
        return None
    except ToolError:  # a folder, or grown too large
        return "other"


def _remove_folders(edits: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Remove the folders that the run made, where nothing is in them."""
    made = {folder for _, facts in edits for folder in facts.get("folders", ())}
    for folder in sorted(made, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


# Cells of an open notebook --------------------------------------------------------------------------------------------


async def _revert_cell(path: str, facts: dict[str, Any], live: Live) -> _Outcome:
    """Take back an edit in the open notebook, where its front end can."""
    cell, name = facts["cell"], Path(path).name
    by_hand = f"cell {cell} of {name}: undo it in the notebook itself (Edit > Undo Cell Operation)"
    try:
        notebook = await live()
        if notebook is None or facts["operation"] not in ("insert", "replace", "edit", "set_kind"):
            return _Outcome(by_hand)
        views = {view.id: view for view in cell_views((await notebook.read(outputs=False))["cells"])}
        if cell not in views:
            return _Outcome(f"cell {cell} of {name} is gone already")
        if views[cell].hash != facts["hash"]:
            return _Outcome(f"left cell {cell} of {name}: {_CHANGED}")
        now = expected(views[cell])
        if facts["operation"] == "insert":
            await notebook.delete(cell, expected=now)
            return _Outcome(f"removed cell {cell} of {name}")
        if facts["operation"] == "set_kind":
            await notebook.set_kind(cell, kind=facts["before"]["kind"], expected=now)
        else:
            await notebook.replace(cell, facts["before"]["source"], expected=now)
        return _Outcome(f"restored cell {cell} of {name}")
    except BridgeError as error:
        return _Outcome(f"{by_hand} ({error})", settled=False)


# What code did --------------------------------------------------------------------------------------------------------


def _beyond(last: _Edits, session: Session) -> list[str]:
    """The run's calls whose effects nobody can take back."""
    from .tools import builtin_tools

    own, toolbox = {tool.name for tool in builtin_tools()}, session.toolbox
    calls = [line for line in last.others if _acts(line, own, toolbox) and not _text(line).startswith(_UNRUN)]
    if not calls:
        return []
    names = [_named(session.transcript.calls[line["call"]]) for line in calls[:_LISTED]]
    more = [f"and {len(calls) - _LISTED} more calls"] if len(calls) > _LISTED else []
    return ["not taken back, since nobody can know it: what these calls did", *(f"  {name}" for name in names + more)]


def _named(call: ToolCall) -> str:
    arguments = call.arguments or {}
    code = arguments.get("code") or arguments.get("command")
    return f"{call.name}: {_short(str(code) if code else json.dumps(arguments, ensure_ascii=False), 80)}"


def _acts(line: Line, own: set[str], toolbox: Toolbox) -> bool:
    name = line["name"]
    if name in _SPAWNING:
        return bool(getattr(toolbox.background, "elsewhere", ""))
    if name in _CODE or name in own:
        return name in _CODE
    tool = toolbox.find(name)
    # A server can mark a tool as reading only; of a person's own function nothing is known.
    return tool is None or not name.startswith("mcp__") or tool.access(toolbox.root, {}) is not Access.FREE


def _text(line: Line) -> str:
    return next((part for part in line["content"] if isinstance(part, str)), "")


def _short(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
