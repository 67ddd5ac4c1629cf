"""What a conversation is told of its notebook."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from cumulus_jupyter.app import Conversations, RunOptions
from cumulus_jupyter.jupyter.context import notebook_rules
from cumulus_jupyter.script import ScriptHost
from cumulus_jupyter.settings import CumulusAgent

ABSENT = SimpleNamespace(connected=False)


def notebook(path: Path) -> str:
    tagged = {"metadata": {"tags": ["agent-rules"]}}
    cells = [
        new_markdown_cell("Answer in French.", **tagged),
        new_code_cell("x = 1"),
        new_code_cell("# no seaborn", **tagged),
    ]
    nbformat.write(new_notebook(cells=cells), path)
    return str(path)


def test_tagged_cells_are_the_rules(tmp_path: Path) -> None:
    """From the file, or from the front end where it answers; a file that is gone has none."""
    path = notebook(tmp_path / "n.ipynb")
    assert asyncio.run(notebook_rules(ABSENT, path)) == "Answer in French.\n\n# no seaborn"
    assert asyncio.run(notebook_rules(ABSENT, str(tmp_path / "gone.ipynb"))) == ""

    async def read() -> dict[str, Any]:
        return {"cells": [{"source": "Unsaved rule", "metadata": {"tags": ["agent-rules"]}}]}

    assert asyncio.run(notebook_rules(SimpleNamespace(connected=True, read=read), path)) == "Unsaved rule"


def test_rules_stay_as_they_were_said(tmp_path: Path) -> None:
    """A conversation's system prompt is told once and stays byte for byte, also when a new kernel takes it up."""
    settings = CumulusAgent(environ={}, data_dir=str(tmp_path / "data"))

    async def go() -> tuple[str, str, str]:
        first = Conversations(settings, ScriptHost(), tmp_path)
        session = first.open("main", RunOptions(model="demo"), rules="Answer in French.")
        async for _ in session.stream("hello"):
            pass
        again = first.open("main", RunOptions(model="demo"), rules="Answer in Dutch.")
        (tmp_path / "AGENTS.md").write_text("new rules")
        first.stored().close()
        resumed = Conversations(settings, ScriptHost(), tmp_path).resume("main", session.transcript.session, "")
        return session.system, again.system, resumed.system

    told, again, resumed = asyncio.run(go())
    assert "Answer in French." in told
    assert told == again == resumed
