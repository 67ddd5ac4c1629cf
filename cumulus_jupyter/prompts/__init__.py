"""The texts that a model is told, as data."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

__all__ = ["RULES_FILES", "child_prompt", "row_prompt", "system_prompt"]

RULES_FILES = ("AGENTS.md", "CLAUDE.md")
_LONGEST_RULES = 40_000


@cache
def _text(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8").strip()


def system_prompt(root: Path, *, listing: str = "", added: str = "", rules: str = "") -> str:
    """The system prompt of a conversation: ours, the added text, the root's rules file, the deferred tools.

    ``rules`` are those that stand in the notebook's own cells.
    """
    parts = [_text("system.md"), added.strip(), _rules_file(root)]
    if rules:
        parts.append(f"<rules from the notebook>\n{rules[:_LONGEST_RULES]}\n</rules from the notebook>")
    return "\n\n".join(part for part in [*parts, listing] if part)


def child_prompt(root: Path, name: str, *, listing: str = "", remote: bool = False) -> str:
    """The system prompt of a sub-agent, as its parent's but for what it is told of its place."""
    child = _text("child.md").format(name=name) + (f"\n{_text('remote.md')}" if remote else "")
    return "\n\n".join(part for part in (_text("system.md"), child, _rules_file(root), listing) if part)


def row_prompt(added: str = "") -> str:
    """The system prompt of one row's run in a batch."""
    return "\n\n".join(part for part in (_text("row.md"), added.strip()) if part)


def _rules_file(root: Path) -> str:
    for name in RULES_FILES:
        try:
            text = (root / name).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
        if text:
            return f"<rules from {name}>\n{text[:_LONGEST_RULES]}\n</rules from {name}>"
    return ""
