"""The note that trails a prompt: where it was asked, what failed last, what is new in the namespace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..agent.errors import BridgeError
from ..agent.host import Place
from ..tools.terminal import plain_text
from ..tools.variables import brief, user_variables

__all__ = ["ContextNotes", "notebook_rules"]

_VARIABLES = 40
_LONGEST = 4_000
RULES_TAG = "agent-rules"


class ContextNotes:
    """Watches the kernel between prompts."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._known: dict[str, int] = {}
        self._error = ""
        shell.events.register("post_run_cell", self._after_cell)

    def close(self) -> None:
        """Stop watching."""
        self._shell.events.unregister("post_run_cell", self._after_cell)

    def _after_cell(self, result: Any) -> None:
        info = getattr(result, "info", None)
        source = (getattr(info, "raw_cell", "") or "").strip()
        error = result.error_in_exec or result.error_before_exec
        if source.startswith("%%agent") or not getattr(info, "store_history", True):
            return
        first = source.splitlines()[0][:80] if source else ""
        self._error = f"{type(error).__name__}: {str(error)[:500]} in the cell that starts {first!r}" if error else ""

    def note(self, place: Place) -> str:
        """What has changed since the last note; bounded."""
        lines = []
        if place.path:
            lines.append(f"notebook: {place.path}" + (f", this cell: {place.cell}" if place.cell else ""))
        if self._error:
            lines.append(f"last error: {plain_text(self._error)}")
        variables = user_variables(self._shell.user_ns)
        new = [name for name, value in variables.items() if self._known.get(name) != id(value)]
        self._known = {name: id(value) for name, value in variables.items()}
        if new:
            more = f", and {len(new) - _VARIABLES} more" if len(new) > _VARIABLES else ""
            shown = ", ".join(f"{name} ({brief(variables[name])})" for name in new[:_VARIABLES])
            lines.append(f"variables new or changed: {shown}{more}")
        text = "\n".join(lines)[:_LONGEST]
        return f"<context>\n{text}\n</context>" if text else ""


async def notebook_rules(bridge: Any, path: str) -> str:
    """The sources of the cells that are tagged ``agent-rules``, from the front end where it answers, else the file."""
    cells: list[dict[str, Any]] = []
    if bridge.connected:
        try:
            cells = (await bridge.read())["cells"]
        except BridgeError:
            cells = []
    if not cells and path:
        cells = _stored_cells(Path(path))
    tagged = [cell for cell in cells if RULES_TAG in (cell.get("metadata") or {}).get("tags", ())]
    return "\n\n".join("".join(cell.get("source", "")) for cell in tagged)


def _stored_cells(path: Path) -> list[dict[str, Any]]:
    try:
        data = path.read_bytes()
        return list(json.loads(data).get("cells", ())) if RULES_TAG.encode() in data else []
    except (OSError, ValueError):
        return []
