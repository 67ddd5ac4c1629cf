"""The page or the file changes under the agent: it goes on in the page that is there, and no version is overwritten."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.wire.server import Asked, ModelServer, Turn

from .lab import LabServer
from .test_notebook import SEARCH, SHARED, Open, Script, edit, ids, prompt, told, write

QUESTION = {"question": "Which plot?", "header": "Plot", "options": [{"label": "bars"}, {"label": "lines"}]}


@pytest.mark.long
def test_reload_at_a_question_then_an_edit(notebook: Open, server: LabServer) -> None:
    """An answer given in the reloaded page goes on to an edit, which that page shows once."""
    results: list[str] = []

    def look(asked: Asked) -> Turn:
        results.append(told(asked))
        return Turn("done")

    script: Script = [
        SEARCH,
        Turn(calls=[("AskUserQuestion", {"questions": [QUESTION]}, "c-ask")]),
        Turn(calls=[edit("insert", after="one", source="after_reload = 1")]),
        look,
    ]
    with ModelServer(script, check=False) as model:
        write(server, "reload.ipynb", prompt(model), one="a = 1")
        book = notebook(name="reload.ipynb")
        book.run(0)
        book.wait_done(0)
        book.run(1)
        expect(book.page.locator(".cu-form")).to_be_visible(timeout=30_000)
        book.page.wait_for_timeout(1500)  # the save at the question
        book.open(reset=False)
        form = book.page.locator(".cu-form")
        expect(form).to_be_visible(timeout=60_000)
        form.get_by_role("radio").nth(0).check()
        form.locator(".cu-answer").click()
        for _ in range(400):
            if results:
                break
            book.page.wait_for_timeout(100)
        assert results, "the agent did not go on after the reload"
        book.page.wait_for_timeout(500)
    assert [cell["source"] for cell in book.cells()[2:]] == ["a = 1", "after_reload = 1"], results


@pytest.mark.long
def test_a_file_that_changed_on_disk_is_not_overwritten(notebook: Open, server: LabServer) -> None:
    """Edits go into the page, the saves at the end are refused without a dialog, and both versions are there."""
    place = server.root / "conflict.ipynb"

    def change_file(asked: Asked) -> Turn:
        book = json.loads(place.read_text())
        book["cells"][2]["source"] = "theirs = 1"
        place.write_text(json.dumps(book))
        return Turn(calls=[edit("insert", after="one", source="mine = 1")])

    script: Script = [SEARCH, change_file, Turn("done")]
    with ModelServer(script, check=False) as model:
        write(server, "conflict.ipynb", prompt(model), one="a = 1")
        book = notebook(name="conflict.ipynb")
        book.run(0)
        book.wait_done(0)
        book.page.evaluate(f"() => {SHARED}.cells[0].setSource('%load_ext cumulus_jupyter  # unsaved')")
        book.run(1)
        book.wait_done(1)
        book.page.wait_for_timeout(1000)
    assert len(ids(book)) == 4
    assert book.cells()[3]["source"] == "mine = 1"
    assert "theirs = 1" in place.read_text()
    assert "mine = 1" not in [cell["source"] for cell in json.loads(place.read_text())["cells"]]
    assert book.page.locator(".jp-Dialog").count() == 0


@pytest.mark.long
def test_a_person_saves_while_the_agent_saves(notebook: Open, server: LabServer) -> None:
    """Saves that meet at the end of a run ask nothing, and the file holds what both wrote."""
    insert = Turn(calls=[edit("insert", after="one", source="mine = 1")], delay=2)
    with ModelServer([SEARCH, insert, Turn("done")], check=False) as model:
        write(server, "saves.ipynb", prompt(model), one="a = 1")
        book = notebook(name="saves.ipynb")
        book.run(0)
        book.wait_done(0)
        book.run(1)
        while len(model.asked) < 2:
            book.page.wait_for_timeout(50)
        book.page.evaluate(
            "() => { const { context } = window.jupyterapp.shell.currentWidget; window.saves = 0;"
            "window.saver = setInterval(() => { void context.save().then(() => { window.saves += 1 }) }, 15) }"
        )
        book.wait_done(1)
        book.page.evaluate("() => { clearInterval(window.saver) }")
        dialogs = book.page.locator(".jp-Dialog").count()
        saved = book.save()["cells"]
    assert dialogs == 0
    assert book.page.evaluate("() => window.saves") > 0
    assert ["".join(cell["source"]) for cell in saved[2:]] == ["a = 1", "mine = 1"]
