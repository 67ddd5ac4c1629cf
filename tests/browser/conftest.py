from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from .lab import LabServer, NotebookPage, chromium, copy_notebooks

_numbers = itertools.count(1)
SHOTS = Path(os.environ.get("CUMULUS_SHOTS") or Path(__file__).parent / "shots")


def shot(page: Page, name: str) -> None:
    """Keep a picture where ``CUMULUS_SHOTS`` says, else in a folder that git ignores."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


def cell_shot(page: Page, index: int, name: str) -> None:
    """The same of one cell; README's picture is such a one."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.locator(".jp-Notebook-cell").nth(index).screenshot(path=SHOTS / f"{name}.png")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        context = chromium()
        opened = context.__enter__()
    except Exception as error:
        if os.environ.get("CUMULUS_REQUIRE_BROWSER"):
            pytest.fail(f"the browser tests must run here, and there is no browser: {error}")
        pytest.skip(f"no Chromium here (apt-get install chromium, or playwright install chromium): {error}")
    yield opened
    context.__exit__(None, None, None)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[LabServer]:
    home = tmp_path_factory.mktemp("lab")
    root = home / "notebooks"
    root.mkdir()
    copy_notebooks(root)
    server = LabServer(home, root)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One for all tests: JupyterLab's scripts are fetched and compiled once."""
    context = browser.new_context(viewport={"width": 1200, "height": 1000})
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    page.on("dialog", lambda dialog: dialog.accept())
    yield page
    page.close()


@pytest.fixture
def notebook(server: LabServer, page: Page) -> Iterator[Callable[..., NotebookPage]]:
    """Write a notebook of these code cells (or take one by name) and open it."""
    opened: list[NotebookPage] = []

    def open_notebook(*cells: str, name: str = "") -> NotebookPage:
        # A name of its own: the last save of the test before may still be under way.
        name = name or f"test-{next(_numbers)}.ipynb"
        if cells:
            book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
            book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
            nbformat.write(book, server.root / name)
        opened.append(NotebookPage(server, page, name).open())
        return opened[-1]

    yield open_notebook
    for each in opened:
        each.shut_down()
