"""A tool call as a line that a data scientist reads: a verb, an object, and what came of it."""

from __future__ import annotations

import json
import re
from typing import Any

from ..agent.messages import Image, ToolCall, ToolResult

__all__ = ["arguments_text", "label", "result_note", "result_pictures", "result_text", "shortened"]

_VERBS = {
    "read_file": ("read", "path"),
    "write_file": ("wrote", "path"),
    "edit_file": ("edited", "path"),
    "list_files": ("listed", "pattern"),
    "search_files": ("searched for", "regex"),
    "run_python": ("ran", "code"),
    "run_shell": ("ran", "command"),
    "tool_search": ("looked for tools", "query"),
    "update_todos": ("updated the list", ""),
    "AskUserQuestion": ("asked", ""),
    "present_ui": ("showed", "summary"),
    "notebook_read": ("read notebook", "path"),
    "inspect_variables": ("inspected", "names"),
    "read_result": ("read on in", "handle"),
    "activate_skill": ("took up skill", "skill_name"),
    "spawn_agent": ("started agent", "name"),
    "spawn_agents": ("started agents", ""),
    "check_agents": ("looked after its agents", ""),
    "steer_agent": ("steered", "agent_id"),
}
_EDITS = {
    "insert": "inserted cell",
    "replace": "replaced cell",
    "edit": "edited cell",
    "delete": "deleted cell",
    "move": "moved cell",
    "set_kind": "changed the kind of cell",
    "clear_outputs": "cleared outputs of",
    "create": "created",
}
_DRAWN = ("run_python", "notebook_run")
"""Their pictures are outputs of a cell already."""
_PICTURES, _PICTURE_BYTES = 4, 700_000
"""What a tool's line may store of its pictures: how many, and base64 characters in all."""
_LONGEST = 120
_SHOWN = 6_000


def label(call: ToolCall, result: ToolResult | None = None) -> tuple[str, str, str]:
    """Verb, object, and how the object is set: ``code`` or ``text``."""
    arguments = call.arguments or {}
    if call.name == "notebook_edit":
        verb = _EDITS.get(str(arguments.get("operation")), "edited notebook")
        position = (result.details.get("position") if result else None) or ""
        named = (
            arguments.get("path") if arguments.get("operation") == "create" else position or arguments.get("cell_id")
        )
        return verb, _one_line(str(named or "")), "text"
    verb, key = _VERBS.get(call.name, (_title(call, result), ""))
    value = arguments.get(key, "") if key else ""
    if call.name in ("spawn_agent", "spawn_agents"):
        value = [_agent_name(task) for task in arguments.get("tasks") or [arguments]]
    if call.name == "run_python":
        value = _telling_line(str(value))
    if call.name not in _VERBS and arguments:
        value = ", ".join(f"{name}={_short(item)}" for name, item in arguments.items())
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return verb, _one_line(text), "text" if call.name == "present_ui" else "code"


def _agent_name(task: Any) -> str:
    return str(task.get("name") or task.get("task") or "") if isinstance(task, dict) else ""


def _title(call: ToolCall, result: ToolResult | None) -> str:
    """A tool's name for people: an MCP tool's is ``server · tool``, which its result spells as the server does."""
    if told := (result.details.get("title") if result else None):
        return str(told)
    prefix, _, name = call.name.partition("__")
    return name.replace("__", " · ", 1) if prefix == "mcp" and name else call.name


def result_note(result: ToolResult) -> str:
    """What to say behind the object: why it failed, how many images."""
    if not result.ok:
        lines = [line for line in result.text.strip().splitlines() if line.strip()]
        # A traceback's reason is its last line; the variables' names may follow it.
        reasons = [line for line in lines if not line.startswith("variables ")] or ["failed"]
        return _one_line(reasons[-1] if result.name == "run_python" else reasons[0])
    images = result.details.get("images")
    return f"{images} plot{'s' if images > 1 else ''}" if images else ""


def arguments_text(call: ToolCall) -> str:
    """The arguments to open: code as code, the rest as ``name: value``."""
    if call.arguments is None:
        return call.raw[:_SHOWN]
    if call.name in ("run_python", "run_shell"):
        return str(call.arguments.get("code") or call.arguments.get("command") or "")[:_SHOWN]
    return "\n".join(f"{name}: {_plain(value)}" for name, value in call.arguments.items())[:_SHOWN]


def result_text(result: ToolResult) -> str:
    """The result to open, as the model saw it or as the tool prefers it shown."""
    text = result.details.get("output") if not result.handle else None
    return shortened(text if isinstance(text, str) else result.text)


def result_pictures(result: ToolResult) -> list[str]:
    """The pictures of a result as ``data:`` addresses, as far as a notebook should hold them."""
    shown: list[str] = []
    room = _PICTURE_BYTES
    for part in result.content if result.name not in _DRAWN else ():
        if isinstance(part, Image) and len(part.data) <= room and len(shown) < _PICTURES:
            address = f"data:{part.media_type};base64,{part.data}"
            if re.fullmatch(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}", address):
                shown.append(address)
                room -= len(part.data)
    return shown


def shortened(text: str, room: int = _SHOWN) -> str:
    """Head and tail of a text that is too long to be shown."""
    if len(text) <= room:
        return text
    half = room // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters not shown ...]\n{text[-half:]}"


def _telling_line(code: str) -> str:
    """The line of code that says most: the last one that is no comment, import or closing bracket."""
    lines = [line.strip() for line in code.splitlines()]
    telling = [line for line in lines if len(line) > 2 and not line.startswith(("#", "import ", "from ", "plt.show"))]
    return telling[0] if telling else code.strip()


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:39] + "…"


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
