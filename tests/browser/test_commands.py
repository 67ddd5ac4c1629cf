"""The agent from the command palette and from a cell's own toolbar."""

from __future__ import annotations

import json
from collections.abc import Callable

from playwright.sync_api import expect

from .conftest import shot
from .lab import NotebookPage

Open = Callable[..., NotebookPage]


def test_the_cell_toolbar_runs_and_stops_the_agent(notebook: Open) -> None:
    """The button stands on `%%agent` cells alone, runs them, and becomes a stop while they run."""
    book = notebook("%load_ext cumulus_jupyter", "%%agent -m demo\ncount to 400", "x = 1")
    book.run(0)
    book.wait_done(0)
    button = book.page.locator(".jp-cell-toolbar [data-jp-item-name=cumulus-run-or-stop]")
    book.page.locator(".jp-Notebook-cell").nth(2).click()
    expect(book.page.locator(".jp-cell-toolbar")).to_be_visible()
    expect(button).to_be_hidden()
    book.page.locator(".jp-Notebook-cell").nth(1).locator(".jp-InputArea").click()
    expect(button).to_be_visible()
    button.click()
    expect(book.output(1)).to_contain_text("5 6 7", timeout=30_000)
    shot(book.page, "toolbar-running")
    button.click()
    cell = book.wait_done(1, seconds=10)
    assert "AgentStopped" in json.dumps(cell["outputs"])
    book.run(2)
    book.wait_done(2)


def test_the_palette_starts_an_agent_cell_and_stops_a_background_run(notebook: Open) -> None:
    """Where no agent cell is active the command makes one to type in; Stop ends a run that no cell waits for."""
    book = notebook("%load_ext cumulus_jupyter", "%%agent -m demo --background -o r\ncount to 400", "r.status")
    book.run(0)
    book.wait_done(0)
    book.command("cumulus:run")
    expect(book.page.locator(".jp-Notebook-cell")).to_have_count(4)
    book.page.keyboard.type("hello")
    assert book.cells()[1]["source"] == "%%agent\nhello"
    book.run(2)
    expect(book.output(2)).to_contain_text("5 6 7", timeout=30_000)
    book.command("cumulus:stop")
    expect(book.output(2)).to_contain_text("stopped", timeout=10_000)
