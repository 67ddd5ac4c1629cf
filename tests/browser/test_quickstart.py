"""What a newcomer does in JupyterLab: run the tour, answer with a click, find the new cell, stop a second run."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from .conftest import cell_shot, shot
from .lab import NotebookPage

Open = Callable[..., NotebookPage]
MIME = "application/vnd.cumulus.agent+json"


def test_the_tour_with_a_click(notebook: Open, server) -> None:  # type: ignore[no-untyped-def]
    book = notebook(name="quickstart.ipynb")
    before = [cell["id"] for cell in book.cells()]
    book.run_all()
    form = book.page.locator(".cu-form")
    expect(form).to_be_visible(timeout=60_000)
    expect(form.locator(".cu-answer")).to_be_enabled()
    later = book.cells()[5]
    assert later["count"] is None, "Run All must wait at the question"
    book.page.locator(".jp-Notebook-cell").nth(3).scroll_into_view_if_needed()
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        book.theme(theme)
        shot(book.page, f"asking-{theme.split()[-1].lower()}")
        cell_shot(book.page, 3, f"cell-{theme.split()[-1].lower()}")
    book.theme("JupyterLab Light")
    form.get_by_role("radio").nth(0).check()
    form.locator(".cu-answer").click()
    cell = book.wait_done(3)
    expect(form).to_have_count(0)
    assert "churn" in cell["text"]
    assert "| " not in cell["text"], "the table is drawn, not shown as text"
    ids = [cell["id"] for cell in book.cells()]
    (new,) = [id for id in ids if id not in before]
    assert ids.index(new) == 4, "the new cell stands behind the agent's own"
    assert "plt.subplots" in book.cells()[4]["source"]
    book.wait_done(len(ids) - 2)
    output = book.output(3)
    expect(output.locator("table")).to_have_count(1)
    expect(output.locator("img")).to_have_count(1)
    stored = book.save()
    outputs = next(c for c in stored["cells"] if c["id"] == "tour-4")["outputs"]
    assert not [o for o in outputs if "widget-view" in json.dumps(o)], "no widget is left in the file"
    blocks = [o["data"][MIME] for o in outputs if MIME in o.get("data", {})]
    assert {block["state"] for block in blocks} == {"closed"}
    (question,) = [block for block in blocks if block["kind"] == "question"]
    assert question["answers"] == [{"header": "Target", "answer": "churn (Recommended)"}]
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        book.theme(theme)
        book.page.locator(".jp-Notebook-cell").nth(3).scroll_into_view_if_needed()
        shot(book.page, f"done-{theme.split()[-1].lower()}")


def test_the_inserted_cell_runs(notebook: Open) -> None:
    book = notebook("%load_ext cumulus_jupyter", "%%agent -m demo --approve all\nanalyse customers.csv", "z = 1")
    book.run_all()
    book.page.locator(".cu-form .cu-answer").click(timeout=60_000)
    book.wait_done(1)
    assert "plt.subplots" in book.cells()[2]["source"]
    book.run(2)
    cell = book.wait_done(2)
    assert any("image/png" in o.get("data", {}) for o in cell["outputs"])


def test_stop_during_a_run(notebook: Open) -> None:
    book = notebook("%load_ext cumulus_jupyter", "%%agent -m demo\ncount to 400", "after = 1")
    book.run_all()
    expect(book.output(1)).to_contain_text("5 6 7", timeout=60_000)
    book.interrupt()
    cell = book.wait_done(1, seconds=10)
    assert "AgentStopped" in json.dumps(cell["outputs"])
    assert book.cells()[2]["count"] is None, "an interrupt ends Run All"
    book.run(2)
    book.wait_done(2)


def test_the_stop_button_of_a_background_run(notebook: Open) -> None:
    book = notebook("%load_ext cumulus_jupyter", "%%agent -m demo --background -o r\ncount to 400", "r.status")
    book.run(0)
    book.wait_done(0)
    book.run(1)
    expect(book.output(1)).to_contain_text("5 6 7", timeout=30_000)
    book.wait_done(1)
    book.output(1).get_by_role("button", name="Stop").click()
    expect(book.output(1)).to_contain_text("stopped", timeout=10_000)
    book.run(2)
    assert "stopped" in book.wait_done(2)["text"]


def test_stop_at_a_question_leaves_the_form_live(notebook: Open) -> None:
    book = notebook("%load_ext cumulus_jupyter", "%%agent -m demo -o r\nask me: tea or coffee?", "r.text")
    book.run(0)
    book.wait_done(0)
    book.run(1)
    form = book.page.locator(".cu-form")
    expect(form).to_be_visible(timeout=30_000)
    book.interrupt()
    book.wait_done(1, seconds=10)
    form.get_by_role("radio").nth(1).check()
    form.locator(".cu-answer").dblclick()
    expect(book.output(1)).to_contain_text("You said: Question: coffee", timeout=15_000)
    book.run(2)
    assert "coffee" in book.wait_done(2)["text"]


def test_the_keyboard_alone_answers_and_harms_no_cell(notebook: Open) -> None:
    book = notebook("%load_ext cumulus_jupyter", "%%agent -m demo -o r\nask me: tea or coffee?", "x = 1", "y = 2")
    book.run(0)
    book.wait_done(0)
    book.run(1)
    expect(book.page.locator(".cu-form")).to_be_visible(timeout=30_000)
    radio = book.page.locator(".cu-form").get_by_role("radio").nth(0)
    radio.focus()
    for key in ("d", "d", "a", "b", "x"):
        book.page.keyboard.press(key)
    book.page.keyboard.press("Space")
    book.page.keyboard.press("ArrowDown")
    book.page.keyboard.press("Enter")
    book.wait_done(1)
    assert len(book.cells()) == 4
    expect(book.output(1)).to_contain_text("You said: Question: coffee")


def test_words_of_ones_own_arrive_whole(notebook: Open) -> None:
    book = notebook("%load_ext cumulus_jupyter", "%%agent -m demo -o r\nask me: tea or coffee?")
    book.run_all()
    field = book.page.locator(".cu-form input[type=text]")
    field.click(timeout=30_000)
    field.press_sequentially("neither, thank you", delay=15)
    book.page.locator(".cu-form .cu-answer").click()
    book.wait_done(1)
    expect(book.output(1)).to_contain_text("You said: Question: neither, thank you")


def test_reload_at_a_question(notebook: Open) -> None:
    book = notebook("%load_ext cumulus_jupyter", "%%agent -m demo -o r\nask me: tea or coffee?", "r.text")
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
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        book.run(2)
        if "tea" in book.wait_done(2)["text"]:
            return
        book.page.wait_for_timeout(500)
    raise AssertionError("the answer did not arrive after the reload")


def test_an_approval_is_asked_and_a_denial_is_heeded(notebook: Open) -> None:
    book = notebook("%load_ext cumulus_jupyter", "%%agent -m demo -o r\nanalyse customers.csv", "'df' in globals()")
    book.run(0)
    book.wait_done(0)
    book.run(1)
    form = book.page.locator(".cu-form")
    expect(form).to_contain_text("pd.read_csv", timeout=60_000)
    shot(book.page, "approval")
    form.get_by_role("radio").nth(2).check()
    form.locator("input[type=text]").fill("not on this machine")
    form.locator(".cu-answer").click()
    book.wait_done(1)
    expect(book.output(1)).to_contain_text("not on this machine")
    book.run(2)
    assert "False" in book.wait_done(2)["text"]


def test_a_picture_of_a_question_about_two_things(notebook: Open) -> None:
    """Several questions come one after another, several choices are ticked, and all answers arrive together."""
    code = (
        "from cumulus_jupyter.providers import demo\n"
        "asked = {'questions': [{'question': 'Which plots?', 'header': 'Plots', 'options': ['bars', 'lines', 'box'],"
        "'multiSelect': True}, {'question': 'Title?', 'header': 'Title'}]}\n"
        "def script(seen, match):\n"
        "    answer = seen.result('AskUserQuestion')\n"
        "    return demo.Turn(answer.text if answer else 'I ask.', [] if answer else [('AskUserQuestion', asked)])\n"
        "demo._INTENTS.insert(0, ('two things', script))"
    )
    book = notebook("%load_ext cumulus_jupyter", code, "%%agent -m demo\ntwo things")
    book.run_all()
    form = book.page.locator(".cu-form")
    form.get_by_role("checkbox").nth(0).check(timeout=60_000)
    form.get_by_role("checkbox").nth(2).check()
    shot(book.page, "several")
    form.locator(".cu-answer").click()
    expect(form).to_contain_text("2 of 2")
    form.locator("input[type=text]").fill("Churn, 2026")
    form.locator(".cu-answer").click()
    book.wait_done(2)
    expect(book.output(2).locator(".cu-text").last).to_have_text(re.compile(r"Plots: bars, box\s+Title: Churn, 2026"))


def test_hostile_text_stays_text(notebook: Open, server) -> None:  # type: ignore[no-untyped-def]
    (Path(server.root) / "evil.csv").write_text(
        '"<img src=x onerror=""window.hit=1"">",<script>window.hit=2</script>\n1,2\n1,3\n2,2\n'
    )
    requests: list[str] = []
    book = notebook("%load_ext cumulus_jupyter", "%%agent -m demo --approve all\nanalyse evil.csv")
    book.page.on("request", lambda request: requests.append(request.url))
    book.run_all()
    answer = book.page.locator(".cu-form .cu-answer")
    answer.click(timeout=60_000)
    book.wait_done(1)
    assert book.page.evaluate("() => window.hit") is None
    assert all(url.startswith((server.url, "data:", "blob:")) for url in requests)


def test_agent_cells_are_coloured_as_markdown(notebook: Open) -> None:
    book = notebook("%load_ext cumulus_jupyter", "%%agent -m demo\nhi **there**", "x = 1")
    types = book.page.evaluate(
        "() => [...window.jupyterapp.shell.currentWidget.content.widgets].map(w => w.model.mimeType)"
    )
    assert types == ["text/x-ipython", "text/x-ipythongfm", "text/x-ipython"]
