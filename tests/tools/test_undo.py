"""``%agent undo``: what a run did to files and notebooks is taken back, and nothing that others did is lost."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent.messages import Reply, ToolCall, ToolResult
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.notebook.cells import cell_hash
from cumulus_jupyter.notebook.live import LiveEdits, expected
from cumulus_jupyter.script import ScriptHost
from cumulus_jupyter.store import Store
from cumulus_jupyter.tools.function import tool
from cumulus_jupyter.undo import undo, undone_since

from .conftest import CASES, Bench

Build = Callable[..., Session]


class Chat(Bench):
    """A bench whose calls belong to a session that can be undone."""

    def __init__(self, root: Path, build: Build, **options: Any) -> None:
        super().__init__(root, **options)
        self.session = build(None, transcript=self.transcript)
        self.session.toolbox = self.toolbox
        self.live: Any = None

    def undo(self) -> str:
        async def live() -> Any:
            return self.live

        return asyncio.run(undo(self.session, live))

    def next_run(self, prompt: str = "next") -> None:
        self.transcript.user(prompt)
        self.transcript.append("fetched", names=[tool.name for tool in self.toolbox.deferred])


@pytest.fixture
def chat(tmp_path: Path, session: Build) -> Chat:
    root = tmp_path / "root"
    root.mkdir()
    return Chat(root, session)


def test_edits_go_back_to_where_the_run_began_byte_for_byte(chat: Chat) -> None:
    path = chat.root / "a.csv"
    before = "\ufeffx\r\ny\r\n".encode("utf-16-le")
    path.write_bytes(before)
    path.chmod(0o640)
    chat.text("edit_file", path="a.csv", old="x", new="1")
    chat.text("edit_file", path="a.csv", old="y", new="2")
    chat.text("write_file", path="a.csv", content="all new\n")
    assert "restored a.csv" in chat.undo()
    assert path.read_bytes() == before
    assert path.stat().st_mode & 0o777 == 0o640


def test_new_files_go_with_the_folders_made_for_them_but_not_with_others_files(chat: Chat) -> None:
    chat.text("write_file", path="a/b/new.txt", content="x")
    chat.text("write_file", path="c/d/new.txt", content="x")
    (chat.root / "c" / "mine.txt").write_text("mine")
    text = chat.undo()
    assert "removed a/b/new.txt" in text
    assert not (chat.root / "a").exists()
    assert sorted(path.name for path in (chat.root / "c").iterdir()) == ["mine.txt"]


def test_what_a_person_changed_since_stays_and_the_rest_goes_back(chat: Chat) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        (chat.root / name).write_text("old")
        chat.text("edit_file", path=name, old="old", new="new")
    chat.text("write_file", path="d.txt", content="new")
    (chat.root / "b.txt").write_text("new, and mine")
    (chat.root / "d.txt").write_text("mine")
    (chat.root / "c.txt").unlink()
    text = chat.undo()
    assert "left b.txt: it was changed since" in text
    assert "left c.txt: it was removed since" in text
    assert "left d.txt" in text
    kept = {path.name: path.read_text() for path in chat.root.iterdir()}
    assert kept == {"a.txt": "old", "b.txt": "new, and mine", "d.txt": "mine"}


def test_what_code_wrote_between_two_edits_is_not_lost(chat: Chat) -> None:
    path = chat.root / "a.txt"
    path.write_text("one\n")
    chat.text("edit_file", path="a.txt", old="one", new="ONE")
    path.write_text("ONE\nfrom code\n")
    chat.text("edit_file", path="a.txt", old="ONE", new="1")
    assert "only its last 1 edits" in chat.undo()
    assert path.read_text() == "ONE\nfrom code\n"


def test_a_link_that_stands_there_now_is_not_written_through(chat: Chat, tmp_path: Path) -> None:
    (chat.root / "a.txt").write_text("old")
    chat.text("edit_file", path="a.txt", old="old", new="new")
    (tmp_path / "outside.txt").write_text("new")
    (chat.root / "a.txt").unlink()
    (chat.root / "a.txt").symlink_to(tmp_path / "outside.txt")
    assert "a link stands there" in chat.undo()
    assert (tmp_path / "outside.txt").read_text() == "new"


def test_each_undo_goes_one_run_further_back(chat: Chat) -> None:
    path = chat.root / "a.txt"
    path.write_text("0")
    for number in range(3):
        chat.next_run(f"run {number}")
        chat.text("edit_file", path="a.txt", old=str(number), new=str(number + 1))
        chat.next_run("just talk")
    for number in (2, 1, 0):
        assert f"'run {number}'" in chat.undo()
        assert path.read_text() == str(number)
    assert "no edit" in chat.undo()


def test_what_could_not_be_written_is_tried_again(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    path = chat.root / "a.txt"
    path.write_text("old")
    chat.text("edit_file", path="a.txt", old="old", new="new")
    path.chmod(0o444)
    assert "not now" in chat.undo()
    assert undone_since(chat.transcript) == ""
    path.chmod(0o644)
    assert "restored a.txt" in chat.undo()
    assert path.read_text() == "old"


def test_a_file_put_back_by_hand_counts_as_undone(chat: Chat) -> None:
    path = chat.root / "a.txt"
    path.write_text("old")
    chat.text("edit_file", path="a.txt", old="old", new="new")
    path.write_text("old")
    assert "as it was before already" in chat.undo()
    assert "no edit" in chat.undo()


def test_calls_whose_effects_nobody_knows_are_named(chat: Chat, tmp_path: Path, session: Build) -> None:
    @tool
    def send_mail(to: str) -> str:
        """Send a mail."""
        return "sent"

    chat = Chat(tmp_path, session, extra=[send_mail])
    chat.text("write_file", path="a.txt", content="x")
    chat.text("run_python", code="open('made.txt', 'w').close()")
    chat.call("run_shell", command="echo hello > there.txt; exit 3")
    chat.text("send_mail", to="ann@example.org")
    chat.text("list_files")
    text = chat.undo()
    assert "run_python: open('made.txt', 'w').close()" in text
    assert "run_shell: echo hello > there.txt" in text
    assert "send_mail: {" in text
    assert "list_files" not in text
    denied = Chat(tmp_path, session, approve="edits")
    denied.text("write_file", path="b.txt", content="x")
    denied.refusal("run_shell", command="true")
    assert "run_shell" not in denied.undo()


def test_the_model_is_told_once_with_its_next_prompt(chat: Chat) -> None:
    chat.text("write_file", path="a.txt", content="x")
    assert undone_since(chat.transcript) == ""
    chat.undo()
    assert "removed a.txt" in undone_since(chat.transcript)
    chat.next_run()
    assert undone_since(chat.transcript) == ""


def test_a_notebook_edited_on_disk_goes_back_byte_for_byte(chat: Chat) -> None:
    path = Path(shutil.copyfile(CASES / "K1-01.ipynb", chat.root / "a.ipynb"))
    before = path.read_bytes()
    chat.text("notebook_read", path="a.ipynb")
    chat.text("notebook_edit", operation="insert", path="a.ipynb", source="1 + 1")
    chat.text("notebook_edit", operation="delete", path="a.ipynb", cell_id="imp")
    chat.text("notebook_edit", operation="create", path="made/b.ipynb", source="2")
    chat.text("notebook_edit", operation="clear_outputs", path="made/b.ipynb")
    text = chat.undo()
    assert "restored a.ipynb" in text
    assert path.read_bytes() == before
    assert not (chat.root / "made").exists()


def test_a_notebook_that_is_open_is_left_alone_and_tried_again(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_in(self: ScriptHost, path: str) -> str:
        return where

    path = Path(shutil.copyfile(CASES / "K1-01.ipynb", chat.root / "a.ipynb"))
    before = path.read_bytes()
    chat.text("notebook_edit", operation="insert", path="a.ipynb", source="1 + 1")
    monkeypatch.setattr(ScriptHost, "open_in", open_in)
    where = "JupyterLab"
    assert "open in JupyterLab; close it there" in chat.undo()
    assert path.read_bytes() != before
    where = ""
    assert "restored" in chat.undo()
    assert path.read_bytes() == before


def test_a_large_file_survives_a_restart_and_its_undo(tmp_path: Path, session: Build) -> None:
    root = tmp_path / "root"
    root.mkdir()
    before = os.urandom(300_000) + b"needle"
    (root / "a.bin").write_bytes(before)
    store = Store(tmp_path / "data")
    chat = Chat(root, session)
    chat.transcript = store.create()
    chat.next_run()
    chat.text("write_file", path="a.bin", content="text now")
    store.close()
    again = Chat(root, session)
    again.session.transcript = Store(tmp_path / "data").load(chat.transcript.session)
    assert "restored" in again.undo()
    assert (root / "a.bin").read_bytes() == before


def test_a_before_that_was_lost_is_told_and_changes_nothing(chat: Chat) -> None:
    path = chat.root / "a.txt"
    path.write_text("x" * 200_000)
    undone = chat.call("write_file", path="a.txt", content="y").details["undo"]
    chat.transcript.spool.put(undone["handle"], "eHh4")
    assert "not kept whole" in chat.undo()
    assert path.read_text() == "y"


class Notebook:
    """A front end's notebook, with its guard."""

    def __init__(self, *cells: tuple[str, str]) -> None:
        self.cells = [{"cell_type": "code", "id": id, "source": source, "metadata": {}} for id, source in cells]

    async def read(self, *, outputs: bool = True) -> dict[str, Any]:
        return {"cells": [dict(cell) for cell in self.cells]}

    async def delete(self, cell_id: str, *, expected: Any = None) -> dict[str, Any]:
        index, _ = self._guarded(cell_id, expected)
        del self.cells[index]
        return {"cell_id": cell_id, "index": index, "count": len(self.cells)}

    async def replace(self, cell_id: str, source: str, *, expected: Any = None) -> dict[str, Any]:
        index, cell = self._guarded(cell_id, expected)
        cell["source"] = source
        return {"cell_id": cell_id, "index": index, "count": len(self.cells)}

    async def set_kind(self, cell_id: str, *, kind: str, expected: Any = None) -> dict[str, Any]:
        index, cell = self._guarded(cell_id, expected)
        cell["cell_type"] = kind
        return {"cell_id": cell_id, "index": index, "count": len(self.cells)}

    def _guarded(self, cell_id: str, expected: Any) -> tuple[int, dict[str, Any]]:
        index, cell = next((at, cell) for at, cell in enumerate(self.cells) if cell["id"] == cell_id)
        assert expected == {"kind": cell["cell_type"], "source": cell["source"]}
        return index, cell


def inserted(chat: Chat, cell: str, source: str) -> None:
    """A stored result of an insertion into the open notebook."""
    made = chat.transcript.assistant(Reply("", [ToolCall("", "notebook_edit", {})], model="m"))
    undo = {"path": "/x/n.ipynb", "operation": "insert", "cell": cell, "hash": cell_hash("code", source)}
    chat.transcript.result(ToolResult(made.calls[0].id, "notebook_edit", ["inserted"], details={"undo": undo}))


def test_cells_put_into_an_open_notebook_go_unless_somebody_changed_them(chat: Chat) -> None:
    for cell in ("a", "b", "gone"):
        inserted(chat, cell, "1")
    chat.live = Notebook(("mine", "0"), ("a", "1"), ("b", "1 + mine"))
    text = chat.undo()
    assert "removed cell a" in text
    assert "left cell b" in text
    assert "cell gone of n.ipynb is gone already" in text
    assert [cell["id"] for cell in chat.live.cells] == ["mine", "b"]
    assert "no edit" in chat.undo()


def test_without_a_front_end_the_notebooks_own_undo_is_named(chat: Chat) -> None:
    inserted(chat, "a", "1")
    assert "undo it in the notebook itself" in chat.undo()
    assert "no edit" in chat.undo()


def test_changes_of_an_open_notebooks_cell_are_taken_back_one_behind_the_other(chat: Chat) -> None:
    """Two new texts and a new kind of one cell end where it began; a deletion is for the notebook to undo."""
    chat.live = Notebook(("a", "1"), ("b", "2"))
    edits = LiveEdits(chat.live, "/x/n.ipynb")

    async def edit(operation: str, cell: str, *given: str) -> None:
        result = await getattr(edits, operation)(cell, *given)
        made = chat.transcript.assistant(Reply("", [ToolCall("", "notebook_edit", {})], model="m"))
        undo = {"path": "/x/n.ipynb", "operation": operation, "cell": cell, "hash": result.hash}
        undo["before"] = expected(edits.before)
        chat.transcript.result(ToolResult(made.calls[0].id, "notebook_edit", ["ok"], details={"undo": undo}))

    async def run() -> None:
        await edit("replace", "a", "one")
        await edit("replace", "a", "# two")
        await edit("set_kind", "a", "markdown")
        await edit("delete", "b")

    asyncio.run(run())
    text = chat.undo()
    assert text.count("restored cell a") == 3
    assert "cell b of n.ipynb: undo it in the notebook itself" in text
    assert [(cell["cell_type"], cell["source"]) for cell in chat.live.cells] == [("code", "1")]
