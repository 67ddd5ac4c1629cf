"""axe-core finds no serious fault in what we draw: forms, approvals, panels, steps, errors, in light and dark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from .lab import NotebookPage

pytestmark = pytest.mark.long

Open = Callable[..., NotebookPage]
AXE = Path(__file__).parents[1] / "node" / "node_modules" / "axe-core" / "axe.min.js"
OURS = ".jp-OutputArea:has(.cu-block), .cu-form, .cu-panel"

SCRIPT = """
from cumulus_jupyter.providers import demo
asked = {'questions': [
    {'question': 'Which plots?', 'header': 'Plots', 'options': [
        {'label': 'bars', 'description': 'one a group', 'preview': '▁▃▆'}, 'lines', 'box'], 'multiSelect': True},
    {'question': 'Which colour?', 'header': 'Colour', 'options': ['blue', 'grey']},
    {'question': 'Title?', 'header': 'Title'}]}
todos = {'todos': [{'label': 'load', 'status': 'completed'}, {'label': 'draw', 'status': 'in_progress'}]}
panel = {'summary': 'Churn', 'root': [{'component': 'Card', 'title': 'Churn', 'id': 'main', 'children': [
    {'component': 'Badge', 'label': 'p < 0.001', 'status': 'success'},
    {'component': 'Table', 'columns': ['contract', 'churn'], 'rows': [['month', '43 %'], ['two years', '3 %']]}]},
    {'component': 'Alert', 'body': 'They move together.', 'variant': 'warning'},
    {'component': 'Link', 'href': 'https://example.org/doc', 'label': 'Method'}]}
final = '# Done\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n\\n`code` and [a link](https://example.org)'
def script(seen, match):
    if seen.result('AskUserQuestion'):
        return demo.Turn(final, [])
    return demo.Turn('I look.', [('update_todos', todos), ('list_files', {}), ('read_file', {'path': 'gone.txt'}),
                                 ('present_ui', panel), ('AskUserQuestion', asked)])
demo._INTENTS.insert(0, ('everything', script))
"""


def serious(book: NotebookPage) -> list[str]:
    """What axe-core calls serious or critical, inside our own output."""
    found: dict[str, Any] = book.page.evaluate(
        "async selector => await axe.run(document.querySelectorAll(selector), {resultTypes: ['violations']})", OURS
    )
    return [
        f"{fault['id']}: {node['html'][:200]} ({node['failureSummary'][:300]})"
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_nothing_serious_is_wrong(notebook: Open, theme: str) -> None:
    """At a question of several pages, at an approval, and when the run is done."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed (make test-long installs it)")
    book = notebook(
        "%load_ext cumulus_jupyter", SCRIPT, "%%agent -m demo\neverything", "%%agent -m demo\nanalyse customers.csv"
    )
    book.theme(theme)
    book.page.add_script_tag(path=AXE)
    book.run_all()
    form = book.page.locator(".cu-form")
    expect(form.locator(".cu-answer")).to_be_enabled(timeout=60_000)
    assert serious(book) == []
    form.get_by_role("checkbox").nth(0).check()
    form.locator(".cu-answer").click()
    form.get_by_role("radio").nth(0).check()
    assert serious(book) == []
    form.locator(".cu-answer").click()
    expect(form).to_contain_text("3 of 3")
    form.locator("input[type=text]").fill("Churn")
    form.locator(".cu-answer").click()
    book.wait_done(2)
    assert serious(book) == []
    expect(form).to_contain_text("run_python", timeout=60_000)
    assert serious(book) == []
    form.get_by_role("radio").last.check()
    form.locator(".cu-answer").click()
    book.wait_done(3)
    for fold in book.page.locator(".cu-fold-toggle, .cu-block details summary").all():
        if fold.is_visible():
            fold.click()
    assert serious(book) == []
    assert "error" not in json.dumps([o["output_type"] for o in book.cells()[2]["outputs"]])
