"""Users' notebooks, open in JupyterLab: old formats stay what they are, sizes are told, wrong ids change nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import nbformat
import pytest

from tests.wire.server import Asked, ModelServer, Turn

from .lab import LabServer
from .test_notebook import CASES, SEARCH, Open, edit, prompt

Call = tuple[str, dict[str, Any], str]
READ: Call = ("notebook_read", {}, "c-read")


def outcomes(notebook: Open, server: LabServer, name: str, *calls: Call) -> tuple[list[str], Any]:
    """Have the calls made in a notebook to which an agent's cell is added: their results, and the saved file."""
    results: list[str] = []

    def then(*call: Call) -> Any:
        def turn(asked: Asked) -> Turn:
            # pictures follow in a message of their own
            results.append(" ".join(str(message["content"]) for message in asked.json["messages"][-2:]))
            return Turn(calls=list(call)) if call else Turn("done")

        return turn

    path = server.root / name
    book = json.loads(path.read_text())
    with ModelServer([SEARCH, *map(then, calls), then()], check=False) as model:
        for id, source in (("ext", "%load_ext cumulus_jupyter"), ("own", prompt(model))):
            cell = dict(nbformat.v4.new_code_cell(source, id=id))
            if book["nbformat_minor"] < 5:
                del cell["id"]
            book["cells"].append(cell)
        book["metadata"]["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        path.write_text(json.dumps(book))
        page = notebook(name=name)
        last = len(book["cells"]) - 1
        page.run(last - 1)
        page.wait_done(last - 1)
        page.run(last)
        page.wait_done(len(page.cells()) - 1)
        page.save()
    return results[1:], nbformat.reader.reads(path.read_text())


@pytest.mark.long
def test_k1_03_an_old_format_stays_valid_and_old(notebook: Open, server: LabServer) -> None:
    (server.root / "K1-03.ipynb").write_bytes((CASES / "K1-03.ipynb").read_bytes())
    insert = edit("insert", kind="code", source="print('new')")
    results, saved = outcomes(notebook, server, "K1-03.ipynb", READ, insert)
    nbformat.validate(saved)
    assert (saved.nbformat, saved.nbformat_minor) == (4, 4)
    assert not any("id" in cell for cell in saved.cells)
    assert "print('new')" in [cell.source for cell in saved.cells], results


@pytest.mark.long
def test_k1_06_pictures_go_whole_or_as_their_size(notebook: Open, server: LabServer) -> None:
    (server.root / "K1-06.ipynb").write_bytes((CASES / "K1-06.ipynb").read_bytes())
    (read,), _ = outcomes(notebook, server, "K1-06.ipynb", READ)
    assert "id=p1" in read
    assert "plot()" in read
    assert "(image/png, 10 characters of base64: damaged)" in read
    assert "not*base64" not in read


@pytest.mark.long
def test_k1_06_large_outputs_are_cut_with_their_size_said(notebook: Open, server: LabServer) -> None:
    subprocess.run([sys.executable, str(CASES / "K1-06-big.py")], cwd=server.root, check=True)
    (read,), _ = outcomes(notebook, server, "K1-06-big.ipynb", READ)
    assert "id=big" in read
    assert "train()" in read
    assert "of 3,360,000 characters left out" in read
    assert "1,000,000 characters of base64" in read
    assert len(read) < 4_000


@pytest.mark.long
def test_k1_08_what_does_not_fit_changes_nothing(notebook: Open, server: LabServer) -> None:
    (server.root / "K1-08.ipynb").write_bytes((CASES / "K1-01.ipynb").read_bytes())
    before = json.loads((CASES / "K1-01.ipynb").read_text())["cells"]
    calc = next(cell for cell in before if cell["id"] == "calc")
    calls = [
        edit("replace", cell_id="calcx", source="x = 1"),
        edit("replace", cell_id="calc", source="".join(calc["source"])),
        edit("delete", cell_id="99"),
        edit("insert", after="", kind="code", source="x = 1"),
    ]
    results, saved = outcomes(notebook, server, "K1-08.ipynb", READ, *calls)
    unknown, same, number, empty = results[1:]
    assert "calc" in unknown
    assert "change" in same
    assert len(saved.cells) == len(before) + 2, (number, empty)
    assert [cell.source for cell in saved.cells[:-2]] == ["".join(cell["source"]) for cell in before]
