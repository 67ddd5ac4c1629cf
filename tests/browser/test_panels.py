"""Panels in JupyterLab: as widgets, without a kernel, alive, and with hostile text in every field."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from ..jupyter.panel_samples import DRAW, EVERYTHING, EVIL, LIVE, PLAIN, hostile, script
from .conftest import cell_shot
from .lab import NotebookPage

Open = Callable[..., NotebookPage]
MIME = "application/vnd.cumulus.agent+json"
WIDGET = "application/vnd.jupyter.widget-view+json"


def opened(notebook: Open, name: str, *calls: dict[str, Any], before: str = "", options: str = "") -> NotebookPage:
    cells = ("%load_ext cumulus_jupyter\n" + before, script(*calls), f"%%agent -m demo {options}\nshow", "1 + 1")
    book = notebook(*cells, name=f"panel-{name}.ipynb")
    book.run(0)
    book.wait_done(0)
    book.run(1)
    book.wait_done(1)
    book.run(2)
    return book


def blocks(book: NotebookPage) -> list[dict[str, Any]]:
    """The stored bundles of panels in the third cell."""
    outputs = book.save()["cells"][2]["outputs"]
    return [o["data"] for o in outputs if o.get("data", {}).get(MIME, {}).get("kind") == "panel"]


@pytest.mark.long
def test_all_components_as_widgets_and_without_a_kernel(notebook: Open) -> None:
    """The kernel's widgets show the panel; when the kernel is gone, the stored nodes do, and look the same."""
    book = opened(notebook, "all", EVERYTHING)
    book.wait_done(2)
    panel = book.output(2).locator(".cu-panel:visible")
    expect(panel).to_have_count(1)
    expect(panel).to_have_class("lm-Widget lm-Panel jupyter-widgets widget-container widget-box widget-vbox cu-panel")
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        book.theme(theme)
        cell_shot(book.page, 2, f"panel-{theme.split()[-1].lower()}")
    live = panel.inner_text()
    (bundle,) = blocks(book)
    assert WIDGET in bundle
    assert "43 %" in "".join(bundle["text/plain"])
    book.shut_down()
    book.page.wait_for_timeout(500)
    book.open(reset=False)
    panel = book.output(2).locator(".cu-panel:visible")
    expect(panel).to_have_count(1)
    expect(panel).not_to_have_class("jupyter-widgets")
    assert panel.inner_text().split() == live.split()
    cell_shot(book.page, 2, "panel-stored")


def allow(book: NotebookPage) -> None:
    form = book.page.locator(".cu-form")
    expect(form).to_contain_text("draw", timeout=60_000)
    cell_shot(book.page, 2, "panel-approval")
    form.get_by_role("radio").nth(0).check()
    form.locator(".cu-answer").click()
    book.wait_done(2)


def value(book: NotebookPage, expression: str) -> str:
    """What the kernel gives for an expression, by the notebook's last cell."""
    book.page.evaluate(
        "e => { const c = window.jupyterapp.shell.currentWidget.content.widgets[3]; c.model.sharedModel.setSource(e) }",
        expression,
    )
    before = book.cells()[3]["count"]
    book.run(3)
    for _ in range(200):
        cell = book.cells()[3]
        if cell["count"] != before and cell["state"] != "running":
            return str(cell["outputs"][0]["data"]["text/plain"])
        book.page.wait_for_timeout(50)
    raise AssertionError("the cell did not end")


def assert_value(book: NotebookPage, expression: str, expected: str) -> None:
    """Look until the kernel gives what is expected, for some seconds."""
    for _ in range(20):
        if (found := value(book, expression)) == expected:
            return
        book.page.wait_for_timeout(300)
    raise AssertionError(f"{expression} is {found}")


def test_a_live_panel_sets_variables_and_runs_its_function(notebook: Open) -> None:
    """Once allowed by name, inputs move kernel variables, the function's output follows, and its errors stay inside."""
    book = opened(notebook, "live", LIVE, before=PLAIN)
    allow(book)
    panel = book.output(2).locator(".cu-panel:visible")
    output = panel.locator(".cu-p-output")
    expect(output).to_contain_text("Signal 9 sine True")
    panel.get_by_label("signal").select_option("steps")
    expect(output).to_contain_text("Signal 9 steps True", timeout=15_000)
    panel.get_by_label("with noise").uncheck()
    expect(output).to_contain_text("Signal 9 steps False", timeout=15_000)
    field = panel.get_by_label("title")
    field.fill("Steps & noise")
    panel.get_by_role("button", name="Draw again").click()
    expect(output).to_contain_text("Steps & noise 9 steps False", timeout=15_000)
    handle = panel.locator(".noUi-handle, .ui-slider-handle").first
    handle.focus()
    cells = len(book.cells())
    for _ in range(3):
        book.page.keyboard.press("ArrowRight")
    expect(output).to_contain_text("Steps & noise 12 steps False", timeout=15_000)
    book.page.keyboard.press("End")
    expect(output).to_contain_text("ZeroDivisionError", timeout=15_000)
    book.page.keyboard.press("d")
    book.page.keyboard.press("d")
    assert len(book.cells()) == cells
    assert value(book, "window, shape, noisy, title") == "(41, 'steps', False, 'Steps & noise')"
    book.page.wait_for_timeout(1500)
    (bundle,) = blocks(book)
    assert "ZeroDivisionError" in "".join(bundle["text/plain"])
    assert "title: Steps & noise" in "".join(bundle["text/plain"])


@pytest.mark.long
def test_a_picture_of_a_live_panel(notebook: Open) -> None:
    """A figure that the function draws stands in the panel, and in the stored notebook."""
    book = opened(notebook, "figure", LIVE, before=DRAW)
    allow(book)
    panel = book.output(2).locator(".cu-panel:visible")
    expect(panel.locator(".cu-p-output img")).to_be_visible(timeout=30_000)
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        book.theme(theme)
        cell_shot(book.page, 2, f"panel-live-{theme.split()[-1].lower()}")
    book.page.wait_for_timeout(1500)
    (bundle,) = blocks(book)
    assert "data:image/png;base64," in "".join(bundle["text/html"])
    book.open(reset=False)
    panel = book.output(2).locator(".cu-panel:visible")
    panel.get_by_label("title").fill("After a reload", timeout=30_000)
    panel.get_by_role("button", name="Draw again").click()
    assert_value(book, "title", "'After a reload'")
    book.shut_down()
    book.page.wait_for_timeout(500)
    book.open(reset=False)
    panel = book.output(2).locator(".cu-panel:visible")
    expect(panel.locator("img")).to_be_visible()
    cell_shot(book.page, 2, "panel-live-stored")


FOREIGN = (
    "() => [...document.querySelectorAll('.cu-panel *')].filter(e => /^(script|svg|img|iframe|style)$/i.test(e.tagName)"
    " && !e.textContent.startsWith('/* Panels')).map(e => e.outerHTML.slice(0, 300))"
)


@pytest.mark.long
def test_hostile_text_never_runs_fetches_or_leaves_its_box(notebook: Open) -> None:
    """Alive, static and on the way to approval, text of a model stays text, inside the cell."""
    requests: list[str] = []
    before = f"def draw():\n    print({EVIL!r} + 'z' * 1_000_000)"
    book = opened(notebook, "hostile", hostile(), before=before, options="--approve all")
    book.page.on("request", lambda request: requests.append(request.url))
    book.wait_done(2)
    panel = book.output(2).locator(".cu-panel:visible")
    expect(panel).to_contain_text("onerror")
    cell_shot(book.page, 2, "panel-hostile")
    widths = "() => [document.documentElement.scrollWidth <= innerWidth, window.hit ?? null]"
    assert book.page.evaluate(widths) == [True, None]
    inside = (
        "() => { const box = document.querySelector('.jp-Notebook-cell:nth-child(3) .jp-OutputArea')"
        ".getBoundingClientRect(); return [...document.querySelectorAll('.cu-panel')].every(panel => {"
        "const r = panel.getBoundingClientRect(); return !r.width || (r.left >= box.left && r.right <= box.right) }) }"
    )
    assert book.page.evaluate(inside)
    assert book.page.evaluate(FOREIGN) == []
    book.page.wait_for_timeout(1500)
    (bundle,) = blocks(book)
    stored = json.dumps(bundle)
    assert "\\u202e" not in stored
    assert "\\u001b" not in stored
    assert len(stored) < 250_000
    book.shut_down()
    book.page.wait_for_timeout(500)
    book.open(reset=False)
    expect(book.output(2).locator(".cu-panel:visible")).to_contain_text("onerror")
    assert book.page.evaluate(FOREIGN) == []
    assert book.page.evaluate(widths) == [True, None]
    assert not [url for url in requests if "evil" in url]


@pytest.mark.long
def test_a_panel_changes_in_place_and_a_wide_table_scrolls(notebook: Open) -> None:
    """Append and update leave one display, where the panel stood; fifty rows of eight columns stay in their box."""
    rows = [[f"row {n}", *(f"{n * k:,}" for k in range(6)), "a rather long remark " * 3] for n in range(50)]
    table = {"component": "Table", "columns": [f"column {n}" for n in range(8)], "rows": rows}
    card = {"component": "Card", "id": "box", "title": "Fifty rows", "children": [table]}
    first = {"summary": "Rows", "ui_id": "rows", "root": [{**card, "children": []}]}
    more = {"summary": "Rows", "ui_id": "rows", "operation": "append", "target": "box", "root": [table]}
    last = {"summary": "Rows", "ui_id": "rows", "operation": "append", "root": [{"component": "Text", "value": "end"}]}
    book = opened(notebook, "table", first, more, last)
    book.wait_done(2)
    panel = book.output(2).locator(".cu-panel:visible")
    expect(panel).to_have_count(1)
    expect(panel).to_contain_text("end")
    scroll = panel.locator(".cu-p-scroll")
    assert scroll.evaluate("e => e.scrollHeight > e.clientHeight && e.clientHeight < 500")
    assert scroll.evaluate(
        "e => e.getBoundingClientRect().right <= e.closest('.cu-p-card').getBoundingClientRect().right"
    )
    cell_shot(book.page, 2, "panel-table")
    assert len(blocks(book)) == 1
