"""A notebook of 2,000 cells with 50 MB of outputs, open in JupyterLab: read within bounds, edited at once."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import nbformat
import pytest
from playwright.sync_api import WebSocket

from tests.wire.server import Asked, ModelServer, Turn

from .lab import LabServer
from .test_notebook import SEARCH, SHARED, Open, Script, edit, prompt, told, write

_CELLS, _OUTPUT = 2_000, 25_000
_READ_CAP = 30_000
"""Characters of ``notebook_read`` that the model gets."""
_SENT = 12_000_000
"""Bytes that the page may send the kernel for three reads and three edits; the outputs are 50 MB."""


@pytest.mark.long
def test_2000_cells_with_50_mb_of_outputs(notebook: Open, server: LabServer) -> None:
    """A read of all, a read of one cell, and edits: the outputs are cut before they leave the page."""
    results: list[str] = []
    stamps: list[tuple[str, float]] = []
    sent: list[int] = []

    def then(name: str, *calls: tuple[str, dict[str, Any], str]) -> Any:
        def turn(asked: Asked) -> Turn:
            results.append(told(asked))
            stamps.append((name, time.monotonic()))
            return Turn(calls=list(calls)) if calls else Turn("done")

        return turn

    script: Script = [
        SEARCH,
        then("read all", ("notebook_read", {}, "c-all")),
        then("read one", ("notebook_read", {"cells": ["c1000"]}, "c-one")),
        then("insert", edit("insert", after="c1000", source="x = 1")),
        then("replace", edit("replace", cell_id="c1000", source="y = 2")),
        then("delete", edit("delete", cell_id="c1999")),
        then("done"),
    ]
    with ModelServer(script, check=False) as model:
        write(server, "large.ipynb", prompt(model), **{f"c{n}": f"x{n} = {n}" for n in range(_CELLS)})
        _fill(server)
        book = notebook(name="large.ipynb")
        book.page.on("websocket", lambda socket: _count(socket, sent))
        book.open()
        book.run(0)
        book.wait_done(0)
        book.run(1)
        book.page.wait_for_function(
            f"() => {SHARED}.cells[1].outputs.some(o => JSON.stringify(o).includes('done'))", timeout=240_000
        )
        book.wait_done(1, seconds=120)
        sources = book.page.evaluate(f"() => {SHARED}.cells.slice(1000, 1005).map(cell => cell.getSource())")
        count = book.page.evaluate(f"() => {SHARED}.cells.length")
    took = {name: round(after - before, 2) for (name, before), (_, after) in pairwise(stamps)}
    print(f"seconds: {took}; bytes from the page: {sum(sent):,}")
    _, whole, one, inserted, replaced, deleted = results
    assert f"{_CELLS + 2} cells (open in the front end)" in whole
    assert len(whole) <= _READ_CAP
    assert "characters omitted" in whole
    assert "x1000 = 1000" in one
    assert len(one) < 5_000
    assert "cell 1004 of 2003" in inserted
    assert "y = 2" in replaced
    assert "deleted" in deleted
    assert count == _CELLS + 2
    assert sources[2:4] == ["y = 2", "x = 1"]
    assert sum(sent) < _SENT


def _fill(server: LabServer) -> None:
    """An output for each cell; 25,000 characters that differ."""
    path = server.root / "large.ipynb"
    book = nbformat.read(path, 4)
    for number, cell in enumerate(book.cells[2:]):
        text = "".join(f"{number} {line}\n" for line in range(_OUTPUT // 9))[:_OUTPUT]
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]
        cell.execution_count = number + 1
    path.write_text(json.dumps(book))


def _count(socket: WebSocket, sent: list[int]) -> None:
    socket.on("framesent", lambda payload: sent.append(len(payload)))
