"""``present_ui``: panels that the person sees, and what becomes of them."""

from __future__ import annotations

import asyncio
import copy
import json
import uuid
from pathlib import Path
from typing import Any

from ..agent.events import PanelShown
from ..agent.tool import Access, Output, Tool, ToolContext
from ..agent.transcript import Transcript
from .panel_check import Fault, Shape, checked, refusal, walk
from .panel_live import PROCESS, is_allowed_now, live_faults
from .panel_mend import mend

__all__ = ["panels", "present_ui"]

NAME = "present_ui"
Panel = dict[str, Any]
"""``ui_id``, ``summary``, ``root`` (nodes with their defaults), and ``live`` where it has inputs."""

_DESCRIPTION = """\
Show the person a panel: figures, tables and short texts laid out, where a layout says more than Markdown.

It is an ordinary step and does not end the run. Nodes (texts are plain: no HTML; ? may be left out):
Text{value, tone?: default|muted} Heading{value, level?: 1-3} Alert{body, title?, variant?: info|success|warning|danger}
Badge{label, status?: neutral|success|warning|info|danger} KeyValue{items: [{label, value}]} Divider{} Link{href, label}
Table{columns: ≤ 8 texts, rows: ≤ 50 lists of texts} CodeBlock{code, language?} Card{title?, id?, children}
Stack{direction?: vertical|horizontal, gap?: sm|md|lg, id?, children}
E.g. root=[{"component": "Card", "title": "Churn", "children": [{"component": "Text", "value": "43 %"}]}]
To change a panel give the ui_id of its receipt: `append` adds root to the container `target` (else at the end),
`update` puts the one node of root in the place of `target`, `replace` starts it afresh. Sliders and other inputs that
set kernel variables (`live`): see the skill generative-ui."""


def _schema() -> dict[str, Any]:
    """Short on purpose: it goes with each request, and what it leaves open is checked and told."""
    node = {"type": "object", "properties": {"component": {"type": "string"}}, "required": ["component"]}
    return {
        "type": "object",
        "properties": {
            "root": {"type": "array", "items": node, "minItems": 1, "maxItems": 200},
            "summary": {"type": "string", "maxLength": 200, "description": "what the panel shows, in one line"},
            "ui_id": {"type": "string", "description": "none: a new panel"},
            "operation": {"enum": ["replace", "append", "update"], "default": "replace"},
            "target": {"type": "string"},
            "live": {"type": "object"},
        },
        "required": ["root", "summary"],
        "additionalProperties": False,
    }


def panels(transcript: Transcript) -> dict[str, Panel]:
    """The conversation's panels as they stand, by id; read from the results' details."""
    shown = {}
    for line in transcript.lines:
        if line["type"] == "result" and (panel := line["details"].get("panel")):
            shown[panel["ui_id"]] = panel
    return shown


async def _run(context: ToolContext, arguments: dict[str, Any]) -> Output:
    await _earlier_calls(context)
    mended, notes = mend(arguments)
    given, faults = checked(mended)
    known = panels(context.transcript)
    old = known.get(given["ui_id"]) if isinstance(given.get("ui_id"), str) else None
    faults += _operation_faults(given, old, known)
    if faults:
        raise refusal(faults + list(_live_faults(given, old, context, None)))
    root = _changed(given, old)
    faults = [*Shape(root).faults(), *_live_faults(given, old, context, root)]
    if faults:
        raise refusal(faults)
    panel: Panel = {
        "ui_id": given.get("ui_id") or f"gui-{uuid.uuid4().hex[:8]}",
        "summary": given["summary"],
        "root": root,
    }
    if live := _live(given, old):
        panel["live"] = live
    return Output(_receipt(panel, notes), {"panel": panel}, events=(PanelShown(panel),))


async def _earlier_calls(context: ToolContext) -> None:
    """Let the results of this reply's earlier panels be stored first: this call may go on from them."""
    for _ in range(20):
        calls = context.transcript.open_calls
        before = calls[: [call.id for call in calls].index(context.call.id)] if context.call in calls else []
        running = [c for c in before if c.name == NAME and not context.toolbox.waits(c, context.transcript)]
        if not running:
            return
        await asyncio.sleep(0)


def _operation_faults(given: dict[str, Any], old: Panel | None, known: dict[str, Panel]) -> list[Fault]:
    operation, target, root = given.get("operation", "replace"), given.get("target"), given.get("root")
    faults = []
    if operation in ("append", "update"):
        if given.get("ui_id") is None:
            faults.append(("ui_id", f"is missing: {operation} changes a panel that is there. {_listed(known)}", ""))
        elif old is None:
            faults.append(("ui_id", f"names no panel of this conversation. {_listed(known)}", ""))
    if operation == "update":
        if not target:
            faults.append(("target", "is missing: update replaces the container with this id", ""))
        if isinstance(root, list) and len(root) != 1:
            faults.append(("root", f"holds {len(root)} nodes; update puts exactly one in the place of target", ""))
    if operation == "replace" and target:
        faults.append(("target", "is for append and update, and operation is replace", ""))
    if old and isinstance(target, str) and operation != "replace":
        ids = Shape(old["root"]).ids
        if target not in ids:
            there = f"there are: {', '.join(ids)}" if ids else "none of them has an id"
            faults.append(("target", f"names no container of {old['ui_id']}; {there}", ""))
    return faults


def _listed(known: dict[str, Panel]) -> str:
    return f"There are: {', '.join(list(known)[-20:])}" if known else "There is none yet; replace shows a new one"


def _live_faults(given: dict[str, Any], old: Panel | None, context: ToolContext, root: Any) -> list[Fault]:
    """Faults of the inputs: of the whole panel where ``root`` is given, else of what the call holds."""
    live = given.get("live")
    if live is None and given.get("operation") != "replace" and is_allowed_now(old):
        live = (old or {})["live"]
    if live is None and root is not None and old and "live" in old and given["operation"] != "replace":
        root = given["root"]  # allowed in a kernel that is gone: what stands there is no longer live
    if root is None and given.get("operation", "replace") != "replace":
        return []
    return list(live_faults(given.get("root") if root is None else root, live, context.host.namespace()))


def _live(given: dict[str, Any], old: Panel | None) -> dict[str, Any] | None:
    """What the person allowed: with this call, or when the panel first showed."""
    if live := given.get("live"):
        return {**live, "process": PROCESS}
    return old["live"] if old and "live" in old and given["operation"] != "replace" else None


def _changed(given: dict[str, Any], old: Panel | None) -> list[dict[str, Any]]:
    """The panel's nodes after the call."""
    new: list[dict[str, Any]] = given["root"]
    if old is None or given["operation"] == "replace":
        return new
    root: list[dict[str, Any]] = copy.deepcopy(old["root"])
    target = given.get("target")
    if target is None:
        return [*root, *new]
    for siblings, at in _places(root):
        if siblings[at].get("id") == target:
            if given["operation"] == "append":
                siblings[at]["children"] += new
            else:
                siblings[at] = new[0]
            break
    return root


def _places(root: list[dict[str, Any]]) -> list[tuple[list[dict[str, Any]], int]]:
    lists = [root, *(node["children"] for _, node, _ in walk(root) if "children" in node)]
    return [(siblings, at) for siblings in lists for at in range(len(siblings))]


def _receipt(panel: Panel, notes: list[str]) -> str:
    shape = Shape(panel["root"])
    receipt = {"ui_id": panel["ui_id"], "nodes": shape.nodes, "depth": shape.depth, "containers": shape.ids}
    if "live" in panel and not is_allowed_now(panel):
        notes = [*notes, "its inputs are no longer live: the kernel they were allowed in is gone. Give live again."]
    return json.dumps({**receipt, "notes": notes} if notes else receipt, ensure_ascii=False)


def _access(root: Path, arguments: dict[str, Any]) -> Access:
    """A panel is free; one that asks for variables and a function needs the person's word, each time.

    A call with faults is refused here, so that nobody is asked in vain.
    """
    if arguments.get("live") in (None, {}, ""):
        return Access.FREE
    given, faults = checked(mend(arguments)[0])
    if given.get("operation", "replace") == "replace":
        faults += list(live_faults(given.get("root"), given.get("live"), None))
    if faults:
        raise refusal(faults)
    return Access.GUARDED


def _preview(arguments: dict[str, Any]) -> str:
    """What a live panel may touch, by name."""
    given, _ = checked(mend(arguments)[0])
    live = given["live"]
    lines = [f"panel: {given['summary']}", f"its inputs set: {', '.join(live['variables']) or 'no variable'}"]
    return "\n".join([*lines, f"and call: {live['function']}()"] if "function" in live else lines)


present_ui = Tool(
    name=NAME,
    description=_DESCRIPTION,
    schema=_schema,
    run=_run,
    cap=12_000,
    access=_access,
    locks=lambda root, arguments: (NAME,),
    preview=_preview,
)
