"""A cell that took long is not run again without the person's word."""

from __future__ import annotations

import nbformat
import pytest

from tests.wire.server import Asked, ModelServer, Turn

from .conftest import cell_shot
from .lab import LabServer
from .test_notebook import SEARCH, Open, Script, prompt, told, write


@pytest.mark.long
def test_the_person_is_asked_before_a_long_cell_runs_again(notebook: Open, server: LabServer) -> None:
    """One took long in a kernel before, by the times stored with it; one took long in this kernel."""
    results: list[str] = []

    def then(*ids: str) -> object:
        def turn(asked: Asked) -> Turn:
            results.append(told(asked))
            return Turn(calls=[("notebook_run", {"cells": list(ids)}, f"c-{ids[0]}")]) if ids else Turn("done")

        return turn

    script: Script = [SEARCH, then("before"), then("here"), then()]  # type: ignore[list-item]
    with ModelServer(script, check=False) as model:
        sleeping = "import time; time.sleep(10.2); print('slept')"
        write(server, "slow.ipynb", prompt(model), before="print('ran before')", here=sleeping)
        path = server.root / "slow.ipynb"
        book = nbformat.read(path, 4)
        times = {"iopub.execute_input": "2026-12-01T11:00:00Z", "shell.execute_reply": "2026-12-01T11:00:41Z"}
        book.cells[2].metadata["execution"] = times
        nbformat.write(book, path)
        page = notebook(name="slow.ipynb")
        for index in (0, 3):
            page.run(index)
            page.wait_done(index)
        page.run(1)
        form = page.page.locator(".cu-form")
        form.get_by_text("took 41 s").wait_for(timeout=60_000)
        cell_shot(page.page, 1, "slow-cell")
        form.get_by_role("radio").nth(1).check()
        form.locator(".cu-answer").click()
        form.get_by_text("took 10 s").wait_for(timeout=60_000)
        form.get_by_role("radio").nth(0).check()
        form.locator(".cu-answer").click()
        page.wait_done(1, seconds=60)
        shown = {cell["id"]: cell["text"] for cell in page.cells()}
    assert "nothing was run: the person did not agree" in results[1]
    assert "ran before" not in shown["before"]
    assert "slept" in results[2]
