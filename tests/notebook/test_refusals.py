"""Files and calls that can't be edited: a sentence says why, and no byte changes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cumulus_jupyter.agent.errors import ToolError
from cumulus_jupyter.notebook import disk
from cumulus_jupyter.notebook.disk import DiskNotebook, create_notebook

CELL = '{"cell_type": "code", "id": "a", "metadata": {}, "execution_count": null, "outputs": [], "source": ["x"]}'
GOOD = '{"cells": [' + CELL + '], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
CONFLICT = GOOD.replace('["x"]', '[\n<<<<<<< HEAD\n"x"\n=======\n"y"\n>>>>>>> other\n]')

BROKEN = {
    "empty": ("", "is empty"),
    "blank": (" \n", "is empty"),
    "trailing comma in a list": (GOOD.replace('["x"]', '["x",\n ]'), r"Expecting value at line 2|Trailing comma"),
    "trailing comma in a cell": (GOOD.replace('["x"]}', '["x"],}'), "not valid JSON"),
    "trailing comma after the cells": (GOOD.replace("}]", "},]"), r"Trailing comma at line 1, column \d+"),
    "trailing comma at the end": (GOOD[:-1] + ",}", "Trailing comma at line 1"),
    "cut off": (GOOD[:-30], "not valid JSON"),
    "more behind": (GOOD + "{}", "Extra data at line 1"),
    "merge conflict": (CONFLICT, r"unresolved merge conflict \(marker in line 2\)"),
    "line break in a string": (GOOD.replace('"x"', '"x\ny"'), "Invalid control character"),
    "a list": ("[1]", "JSON but not a notebook: its top level is not an object"),
    "a number": ("7", "JSON but not a notebook"),
    "no cells": ('{"nbformat": 4}', "no list of `cells`"),
    "cells are none": ('{"cells": null, "nbformat": 4, "nbformat_minor": 5}', "no list of `cells`"),
    "a cell is none": ('{"cells": [null], "nbformat": 4, "nbformat_minor": 5}', "cell 1 is not an object"),
    "no version": ('{"cells": []}', "declares no `nbformat`"),
    "a version in words": (GOOD.replace('"nbformat": 4', '"nbformat": "4"'), "declares no `nbformat`"),
    "too deep": ('{"cells": ' + "[" * 100_000, "nested too deeply|not valid JSON"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_the_reason(tmp_path, name):
    text, reason = BROKEN[name]
    path = tmp_path / "nb.ipynb"
    path.write_text(text)
    for call in (DiskNotebook(path).read, lambda: DiskNotebook(path).insert("code", "1")):
        with pytest.raises(ToolError, match=reason):
            call()
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (GOOD.encode("utf-16"), "not UTF-8"),
        (GOOD.replace("x", "é").encode("latin-1"), r"not UTF-8, .*byte 62"),
    ],
)
def test_another_encoding_is_refused(tmp_path, data, reason):
    path = tmp_path / "nb.ipynb"
    path.write_bytes(data)
    with pytest.raises(ToolError, match=reason):
        DiskNotebook(path).insert("code", "1")
    assert path.read_bytes() == data


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(ToolError, match="There is no notebook"):
        DiskNotebook(tmp_path / "none.ipynb").read()
    with pytest.raises(ToolError, match="is not a file"):
        DiskNotebook(tmp_path).read()
    os.mkfifo(tmp_path / "pipe.ipynb")
    with pytest.raises(ToolError, match="is not a file"):
        DiskNotebook(tmp_path / "pipe.ipynb").read()


def test_format_3_is_read_but_not_edited(tmp_path):
    path = tmp_path / "old.ipynb"
    cells = [
        {"cell_type": "heading", "level": 2, "metadata": {}, "source": ["Old"]},
        {
            "cell_type": "code",
            "language": "python",
            "metadata": {},
            "collapsed": False,
            "prompt_number": 3,
            "input": ["1 + 1"],
            "outputs": [{"output_type": "pyout", "prompt_number": 3, "text": ["2"], "metadata": {}}],
        },
    ]
    value = {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": cells}]}
    path.write_text(json.dumps(value))
    before = path.read_bytes()
    notebook = DiskNotebook(path).read()
    assert (notebook.nbformat, [cell.source for cell in notebook.cells]) == (3, ["## Old", "1 + 1"])
    assert "can't be edited" in notebook.note
    assert [cell.id for cell in notebook.cells] == [cell.id for cell in DiskNotebook(path).read().cells]
    with pytest.raises(ToolError, match=r"old notebook format 3, which can be read but not edited. .*nbconvert"):
        DiskNotebook(path).edit(notebook.cells[1].id, "1 + 1", "2")
    assert path.read_bytes() == before


def test_a_newer_major_format_is_not_edited(tmp_path):
    path = tmp_path / "nb.ipynb"
    path.write_text(GOOD.replace('"nbformat": 4', '"nbformat": 5'))
    assert DiskNotebook(path).read().cells[0].id == "a"
    with pytest.raises(ToolError, match="notebook format 5, newer"):
        DiskNotebook(path).delete("a")


@pytest.fixture
def notebook(tmp_path: Path) -> DiskNotebook:
    path = tmp_path / "nb.ipynb"
    path.write_text(GOOD.replace('["x"]', json.dumps(["total = 1\n", "  total = total + 1\n", "aaa"])))
    return DiskNotebook(path)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("", "y", "`old` is empty"),
        ("total", "sum", "stands 3 times in cell a, at lines 1, 2, 2"),
        ("aa", "b", "stands 2 times in cell a, at lines 3, 3"),
        ("total  = 1", "y", r"not in cell a; .*nearest is line 1: 'total = 1' \(whitespace counts\)"),
        ("nowhere at all", "y", "not in cell a; nothing was changed. Read the cell again"),
        ("aaa", "\ud83d", "Line 1 of the new text holds half of a character"),
    ],
)
def test_an_edit_that_fits_no_or_several_places_is_refused(notebook, old, new, reason):
    before = Path(notebook.path).read_bytes()
    with pytest.raises(ToolError, match=f"(?s){reason}"):
        notebook.edit("a", old, new)
    assert Path(notebook.path).read_bytes() == before


def test_a_text_of_another_cell_is_pointed_at(notebook):
    made = notebook.insert("code", "needle")
    with pytest.raises(ToolError, match=f"It stands in cell {made.cell_id}"):
        notebook.edit("a", "needle", "pin")


@pytest.mark.parametrize("operation", ["replace", "edit", "delete", "move", "set_kind", "clear_outputs"])
def test_every_operation_refuses_a_cell_that_is_not_as_it_was_read(notebook, operation):
    made = notebook.insert("raw", "other")
    before = Path(notebook.path).read_bytes()
    arguments = {
        "replace": {"source": "y"},
        "edit": {"old": "aaa", "new": "b"},
        "move": {"after": made.cell_id},
        "set_kind": {"kind": "raw"},
    }
    with pytest.raises(ToolError, match="changed since you read it"):
        getattr(notebook, operation)("a", expected_hash="00000000", **arguments.get(operation, {}))
    assert Path(notebook.path).read_bytes() == before


def test_a_move_needs_one_anchor(notebook):
    with pytest.raises(ToolError, match="needs the id of another cell"):
        notebook.move("a")
    with pytest.raises(ToolError, match="not both"):
        notebook.move("a", after="a", before="a")
    assert not notebook.move("a", after="a").changed


def test_an_edit_that_would_make_a_valid_file_invalid_is_not_written(tmp_path):
    path = tmp_path / "nb.ipynb"
    cell = '{"cell_type": "markdown", "id": "m", "metadata": {"collapsed": "no"}, "source": []}'
    path.write_text(GOOD.replace(CELL, cell))
    before = path.read_bytes()
    with pytest.raises(ToolError, match=r"no longer be valid .*cell 1"):
        DiskNotebook(path).set_kind("m", "code")
    assert path.read_bytes() == before


def test_a_file_changed_while_it_is_edited_is_not_overwritten(notebook, monkeypatch):
    make = disk.tempfile.mkstemp

    def meanwhile(**arguments):
        Path(notebook.path).write_text(GOOD.replace('["x"]', '["theirs"]'))
        return make(**arguments)

    monkeypatch.setattr(disk.tempfile, "mkstemp", meanwhile)
    with pytest.raises(ToolError, match="changed by something else meanwhile"):
        notebook.replace("a", "mine")
    assert DiskNotebook(notebook.path).read().cells[0].source == "theirs"
    assert os.listdir(Path(notebook.path).parent) == ["nb.ipynb"]


def test_a_failed_write_leaves_the_old_file_whole_and_nothing_beside_it(notebook, monkeypatch):
    before = Path(notebook.path).read_bytes()

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk.os, "fsync", full)
    with pytest.raises(ToolError, match="can't be written: No space left"):
        notebook.replace("a", "mine")
    with pytest.raises(ToolError, match="can't be created: No space left"):
        create_notebook(Path(notebook.path).parent / "new.ipynb", [])
    assert Path(notebook.path).read_bytes() == before
    assert os.listdir(Path(notebook.path).parent) == ["nb.ipynb"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_refused(notebook):
    os.chmod(notebook.path, 0o444)
    with pytest.raises(ToolError, match="read-only"):
        notebook.replace("a", "mine")


def test_links_and_mode_stay(notebook, tmp_path):
    real = Path(notebook.path)
    real.chmod(0o640)
    (tmp_path / "soft.ipynb").symlink_to("nb.ipynb")
    DiskNotebook(tmp_path / "soft.ipynb").replace("a", "one")
    assert (tmp_path / "soft.ipynb").is_symlink()
    assert DiskNotebook(real).read().cells[0].source == "one"
    os.link(real, tmp_path / "hard.ipynb")
    DiskNotebook(tmp_path / "hard.ipynb").replace("a", "2")
    assert DiskNotebook(real).read().cells[0].source == "2"
    assert real.stat().st_mode & 0o777 == 0o640
    assert real.stat().st_nlink == 2


def test_a_created_file_is_a_notebook_by_name(tmp_path):
    with pytest.raises(ToolError, match=r"ends in \.ipynb"):
        create_notebook(tmp_path / "setup.py", [])
    with pytest.raises(ToolError, match="code, markdown or raw"):
        create_notebook(tmp_path / "new.ipynb", [("sql", "")])
    assert os.listdir(tmp_path) == []
