"""A checklist that a model writes into its text instead of calling the tool for it."""

from __future__ import annotations

import re

__all__ = ["checklist"]

_BLOCK = re.compile(r"<todos?>(.*?)</todos?>", re.DOTALL | re.IGNORECASE)
_ITEM = re.compile(
    r"^\s*(?:(?:[-*+]|\d+[.)])\s*)?(?:\[(?P<mark>.)\]|(?P<sign>[☐☑☒✓✔✅⬜]))\s*(?P<label>\S.*?)\s*$", re.MULTILINE
)
_DONE, _ACTIVE = set("xX✓✔☑☒✅"), set("~>-*/.")


def checklist(text: str) -> list[dict[str, str]] | None:
    """The items of the last ``<todo>`` block (``- [ ] step``, ``[x]`` done, ``[~]`` or ``[>]`` under way).

    Of several that are under way only the first counts as such. None where the text has no such block, or none with an
    item.
    """
    blocks = _BLOCK.findall(text)
    items = list(_ITEM.finditer(blocks[-1])) if blocks else []
    todos: list[dict[str, str]] = []
    for item in items:
        mark = item["mark"] or item["sign"]
        status = "completed" if mark in _DONE else "in_progress" if mark in _ACTIVE else "pending"
        if status == "in_progress" and any(todo["status"] == status for todo in todos):
            status = "pending"
        todos.append({"label": item["label"], "status": status})
    return todos or None
