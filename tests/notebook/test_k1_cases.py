"""Public bug reports about notebooks edited by agents, each with the outcome that is right."""

from __future__ import annotations

import base64
import difflib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from cumulus_jupyter.agent.errors import ToolError
from cumulus_jupyter.notebook.cells import render_cells
from cumulus_jupyter.notebook.disk import DiskNotebook, create_notebook

CASES = Path(__file__).parent.parent / "cases"


def copied(tmp_path: Path, name: str, to: str = "work.ipynb") -> Path:
    return Path(shutil.copyfile(CASES / name, tmp_path / to))


def ids(path: Path) -> list[str]:
    return [cell.id for cell in DiskNotebook(path).read().cells]


def valid(path: Path) -> dict:
    value = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(value)
    return value


def changed_lines(before: bytes, after: bytes) -> list[str]:
    rows = difflib.ndiff(before.decode().splitlines(keepends=True), after.decode().splitlines(keepends=True))
    return [row.rstrip("\n") for row in rows if row[0] in "+-"]


def test_k1_01_a_cell_inserted_after_an_anchor_stands_after_it(tmp_path):
    path = copied(tmp_path, "K1-01.ipynb")
    result = DiskNotebook(path).insert("code", "x = 1", after="imp")
    assert ids(path) == ["t0", "imp", result.cell_id, "calc"]
    assert (result.position, result.count) == (3, 4)
    assert result.cell_id in result.text()
    assert "cell 3 of 4" in result.text()
    valid(path)


def test_k1_01_cells_without_an_anchor_go_to_the_end_in_call_order(tmp_path):
    path = copied(tmp_path, "K1-01.ipynb")
    made = [DiskNotebook(path).insert("code", source) for source in ("a = 1", "b = 2")]
    assert ids(path) == ["t0", "imp", "calc", made[0].cell_id, made[1].cell_id]
    assert [cell["source"] for cell in valid(path)["cells"][3:]] == [["a = 1"], ["b = 2"]]


def test_k1_02_an_edit_touches_only_its_line_of_the_file(tmp_path):
    path = copied(tmp_path, "K1-02.ipynb")
    before = path.read_bytes()
    result = DiskNotebook(path).edit("s2", "b = 2", "b = 5")
    assert changed_lines(before, path.read_bytes()) == ['-     "b = 2\\n",', '+     "b = 5\\n",']
    assert path.read_bytes() == before.replace(b"b = 2", b"b = 5")
    assert "1 output kept: from before this edit" in result.text()
    assert "-b = 2\n+b = 5" in result.diff


def test_k1_02_a_replaced_source_keeps_the_lines_that_stay(tmp_path):
    path = copied(tmp_path, "K1-02.ipynb")
    before = path.read_bytes()
    DiskNotebook(path).replace("s2", "a = 1\nb = 5\nprint(a + b)")
    assert path.read_bytes() == before.replace(b"b = 2", b"b = 5")


def test_k1_03_a_44_file_gets_no_id_and_its_cells_stay_addressable(tmp_path):
    path = copied(tmp_path, "K1-03.ipynb")
    made = DiskNotebook(path).insert("code", "print('new')")
    value = valid(path)
    assert value["nbformat_minor"] == 4
    assert not any("id" in cell for cell in value["cells"])
    edited = DiskNotebook(path).edit(made.cell_id, "new", "newer", expected_hash=made.hash)
    assert edited.position == 3
    assert edited.cell_id in ids(path)
    assert valid(path)["cells"][2]["source"] == ["print('newer')"]


def test_k1_03_a_created_notebook_is_45_and_each_cell_has_its_id(tmp_path):
    path = tmp_path / "new.ipynb"
    result = create_notebook(path, [("markdown", "# Title\n\ntext"), ("code", "1 + 1")])
    value = valid(path)
    assert (value["nbformat"], value["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in value["cells"]}) == 2
    assert result.cell_id == value["cells"][0]["id"]
    # As Jupyter itself would write it: saving there changes nothing.
    assert nbformat.writes(nbformat.from_dict(value)) + "\n" == path.read_text(encoding="utf-8")


def test_k1_06_a_good_picture_is_sent_without_line_breaks_and_a_damaged_one_is_only_named(tmp_path):
    text, images = render_cells(DiskNotebook(copied(tmp_path, "K1-06.ipynb")).read().cells)
    assert [image.media_type for image in images] == ["image/png"]
    assert base64.b64decode(images[0].data, validate=True).startswith(b"\x89PNG")
    assert "id=p1" in text
    assert "plot()" in text
    assert "(image/png, 10 characters of base64: damaged)" in text
    assert "not*base64" not in text


def test_k1_06_large_outputs_are_cut_with_their_size_said(tmp_path):
    subprocess.run([sys.executable, str(CASES / "K1-06-big.py")], cwd=tmp_path, check=True)
    text, images = render_cells(DiskNotebook(tmp_path / "K1-06-big.ipynb").read().cells, output_cap=2000)
    assert images == []
    assert len(text) < 3000
    assert "id=big" in text
    assert "train()" in text
    assert "of 3,360,000 characters left out" in text
    assert "(image/png, 1,000,000 characters of base64: damaged)" in text


def test_k1_07_an_edit_after_the_persons_own_goes_to_the_cell_that_was_read_or_nowhere(tmp_path):
    path = copied(tmp_path, "K1-07-before.ipynb")
    read = {cell.id: cell.hash for cell in DiskNotebook(path).read().cells}
    theirs = copied(tmp_path, "K1-07-user.ipynb").read_bytes()
    with pytest.raises(ToolError, match=r"named by id, not by number; the cell at place 1 is new"):
        DiskNotebook(path).replace("1", "step_two(n=9)")
    with pytest.raises(ToolError, match="changed since you read it"):
        DiskNotebook(path).replace("k1", "step_two(n=9)", expected_hash=read["k1"])
    assert path.read_bytes() == theirs
    DiskNotebook(path).replace("k2", "step_two(n=9)\n", expected_hash=read["k2"])
    assert path.read_bytes() == theirs.replace(b"step_two()", b"step_two(n=9)")


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("edit", ("calcx", "rows", "lines")),
        ("replace", ("", "x")),
        ("delete", ("99",)),
        ("delete", ("Calc",)),
        ("set_kind", ("#00000000", "raw")),
        ("clear_outputs", ("nope",)),
    ],
)
def test_k1_08_an_unknown_id_is_refused_with_the_real_ones(tmp_path, operation, arguments):
    path = copied(tmp_path, "K1-01.ipynb")
    before = path.read_bytes()
    with pytest.raises(
        ToolError, match=r"(?s)No cell .*\[1\] t0  # Rainfall\n\[2\] imp  import math\n\[3\] calc  rows"
    ):
        getattr(DiskNotebook(path), operation)(*arguments)
    assert path.read_bytes() == before


def test_k1_08_an_empty_anchor_is_an_unknown_one_and_a_near_id_is_offered(tmp_path):
    path = copied(tmp_path, "K1-01.ipynb")
    before = path.read_bytes()
    with pytest.raises(ToolError, match="No cell ''"):
        DiskNotebook(path).insert("code", "x", after="")
    with pytest.raises(ToolError, match="Nearest id: calc"):
        DiskNotebook(path).edit("calcx", "rows", "lines")
    with pytest.raises(ToolError, match="not both"):
        DiskNotebook(path).insert("code", "x", after="t0", before="imp")
    assert path.read_bytes() == before


def test_k1_08_an_edit_that_changes_nothing_says_so(tmp_path):
    path = copied(tmp_path, "K1-01.ipynb")
    before, stamp = path.read_bytes(), path.stat().st_mtime_ns
    notebook = DiskNotebook(path)
    results = [
        notebook.replace("calc", "rows = [3, 1, 2]\nprint(sorted(rows))\n"),
        notebook.edit("calc", "rows = ", "rows = "),
        notebook.set_kind("calc", "code"),
        notebook.move("calc", after="imp"),
        notebook.clear_outputs("calc"),
        notebook.clear_outputs(),
    ]
    assert [(result.action, result.changed) for result in results] == [("no change", False)] * 6
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, stamp)


@pytest.mark.parametrize(
    "spelling", ["work.ipynb", "WORK.ipynb", "sub/../work.ipynb", "./work.ipynb", "link/work.ipynb"]
)
def test_k1_10_creating_over_an_existing_notebook_is_refused(tmp_path, monkeypatch, spelling):
    path = copied(tmp_path, "K1-02.ipynb")
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    before = path.read_bytes()
    with pytest.raises(ToolError, match=r"exists .*choose another name"):
        create_notebook(spelling, [("code", "x = 1")])
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link", "work.ipynb"]


def test_k1_11_code_turned_to_markdown_has_no_outputs_left(tmp_path):
    path = copied(tmp_path, "K1-11.ipynb")
    result = DiskNotebook(path).set_kind("c1", "markdown")
    cells = valid(path)["cells"]
    assert len(cells) == 3
    assert sorted(cells[0]) == ["cell_type", "id", "metadata", "source"]
    assert "1 output dropped" in result.note


def test_k1_11_attachments_and_raw_metadata_outlive_edits(tmp_path):
    path = copied(tmp_path, "K1-11.ipynb")
    before = json.loads(path.read_text())["cells"]
    notebook = DiskNotebook(path)
    notebook.edit("m1", "see", "look at")
    made = notebook.insert("raw", ".. tip:: new", after="r1")
    cells = valid(path)["cells"]
    assert cells[1] == {**before[1], "source": ["look at ![pic](attachment:dot.png)\n"]}
    assert cells[2] == before[2]
    assert cells[3] == {"cell_type": "raw", "id": made.cell_id, "metadata": {}, "source": [".. tip:: new"]}


def test_k1_11_a_kind_that_is_none_is_refused_with_the_three_that_are(tmp_path):
    path = copied(tmp_path, "K1-11.ipynb")
    before = path.read_bytes()
    for call in (
        lambda: DiskNotebook(path).insert("sql", "select 1"),
        lambda: DiskNotebook(path).set_kind("c1", "sql"),
    ):
        with pytest.raises(ToolError, match="code, markdown or raw, not 'sql'"):
            call()
    assert path.read_bytes() == before


@pytest.mark.parametrize(("cell_id", "kind"), [("m1", "raw"), ("r1", "markdown"), ("r1", "code"), ("c1", "raw")])
def test_k1_11_every_change_of_kind_validates_and_keeps_id_source_metadata_attachments(tmp_path, cell_id, kind):
    path = copied(tmp_path, "K1-11.ipynb")
    before = {cell["id"]: cell for cell in json.loads(path.read_text())["cells"]}
    DiskNotebook(path).set_kind(cell_id, kind)
    after = {cell["id"]: cell for cell in valid(path)["cells"]}
    kept = {key: value for key, value in before[cell_id].items() if key not in ("outputs", "execution_count")}
    added = {"outputs": [], "execution_count": None} if kind == "code" else {}
    assert after[cell_id] == {**kept, "cell_type": kind, **added}
    assert {key: cell for key, cell in after.items() if key != cell_id} == {
        key: cell for key, cell in before.items() if key != cell_id
    }


def test_k1_11_attachments_are_never_dropped_to_make_code(tmp_path):
    path = copied(tmp_path, "K1-11.ipynb")
    before = path.read_bytes()
    with pytest.raises(ToolError, match=r"attachments \(dot.png\), which a code cell can't hold"):
        DiskNotebook(path).set_kind("m1", "code")
    assert path.read_bytes() == before
