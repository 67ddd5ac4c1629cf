"""Sub-agents in JupyterLab: a folded line each, live while they work, that opens to task, steps and result."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.wire.server import Asked, ModelServer, Turn

from .conftest import cell_shot
from .lab import NotebookPage

SEARCH = Turn(calls=[("tool_search", {"query": "select:spawn_agents"}, "c-search")])
TASKS = {
    "Profile churn by contract type in customers.csv.": "contract types",
    "Check customers.csv for missing values.": "missing values",
    "Fit a first model.": "first model",
}
PARTS = {
    "Look": [
        SEARCH,
        Turn(calls=[("spawn_agents", {"tasks": [{"task": t, "name": n} for t, n in TASKS.items()]}, "c-spawn")]),
        Turn("Three sub-agents look at the table; I wait for them."),
        Turn("Two are back."),
        Turn("**Contract type** drives churn; no values are missing. The model could not be fitted: the key is wrong."),
    ],
    "Profile": [
        Turn(calls=[("list_files", {"pattern": "*.csv"}, "p-1")], delay=0.2),
        Turn(calls=[("search_files", {"regex": "Month", "glob": "*.csv"}, "p-2")], delay=0.2),
        Turn("Monthly contracts churn at 43 %, two-year contracts at 3 % (customers.csv).", delay=2.0),
    ],
    "Check": [Turn(calls=[("read_file", {"path": "customers.csv", "limit": 3}, "k-1")]), Turn("None missing.")],
    "Fit": [Turn(status=401, body=b'{"error": {"message": "bad key", "type": "authentication_error"}}')],
}


def answer(asked: Asked) -> Turn:
    first = next(m for m in asked.json["messages"] if m["role"] == "user")["content"]
    part = PARTS[(first if isinstance(first, str) else first[0]["text"]).split()[0]]
    return part.pop(0) if len(part) > 1 else part[0]


@pytest.mark.long
def test_agents_are_lines_that_open(notebook: Callable[..., NotebookPage]) -> None:
    """Each child is one line: live with its clock, closed with its end; a click shows what it did and found."""
    with ModelServer([answer] * 50, check=False) as model:
        cell = f"%%agent -m m@{model.url}/v1 --no-context\nLook into churn"
        book = notebook("%load_ext cumulus_jupyter", cell, "after = 1")
        book.run_all()
        lines = book.output(1).locator(".cu-block[data-kind=agent]")
        expect(lines).to_have_count(3, timeout=60_000)
        expect(lines.nth(0).locator(".cu-aside")).to_contain_text("running", timeout=20_000)
        for theme in ("JupyterLab Light", "JupyterLab Dark"):
            book.theme(theme)
            cell_shot(book.page, 1, f"agents-live-{theme.split()[-1].lower()}")
        book.wait_done(1)
    expect(lines.nth(0)).to_contain_text("agent contract types")
    expect(lines.nth(0).locator(".cu-aside")).to_contain_text("completed · 3 rounds")
    expect(lines.nth(2)).to_contain_text("bad key")
    toggle = book.output(1).locator(".cu-fold-toggle")
    if toggle.count():
        toggle.first.click()
    for number in (0, 2):
        lines.nth(number).locator("summary").click()
    expect(lines.nth(0).locator(".cu-agent-step")).to_have_count(2)
    expect(lines.nth(0).locator(".cu-result")).to_contain_text("43 %")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        book.theme(theme)
        cell_shot(book.page, 1, f"agents-done-{theme.split()[-1].lower()}")
