"""What a streamed answer costs the browser: JupyterLab in Chromium, against ``print`` of the same text."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, CDPSession

from tests.browser.lab import LabServer, NotebookPage, chromium

from .paced import CHARACTERS, RATE, TEXTS
from .serving import served
from .table import Row, median

__all__ = ["rows"]

_PRINT = """
import asyncio, time
text, started = open("prose.txt").read(), time.monotonic()
for number, start in enumerate(range(0, len(text), 5), 1):
    await asyncio.sleep(started + number / {rate} - time.monotonic())
    print(text[start:start + 5], end="")
"""
_SETTLED = 2_000
"""Milliseconds after the last output in which the page may still draw."""


def rows(quick: bool) -> Iterator[Row]:
    times = 1 if quick else 3
    with served("tests.benchmarks.paced") as url, tempfile.TemporaryDirectory() as folder, chromium() as browser:
        home = Path(folder)
        (root := home / "notebooks").mkdir()
        (root / "prose.txt").write_text(TEXTS["prose"]())
        cells = {"print": _PRINT.format(rate=RATE), "ours": f"%%agent --new -m prose@{url}/v1\nGo on."}
        server = LabServer(home, root)
        try:
            found: dict[str, list[tuple[float, int]]] = {name: [] for name in cells}
            for _ in range(times):
                for name, cell in cells.items():
                    found[name].append(_measured(browser, server, cell))
        finally:
            server.stop()
    seconds, sizes = ({name: median([one[i] for one in each]) for name, each in found.items()} for i in (0, 1))
    answer = f"{CHARACTERS:,} characters at {RATE} tokens/s"
    yield Row(f"browser's main thread, {answer}", seconds["ours"], "s", seconds["print"], must=1.5, better=1.1)
    yield Row(f"bytes to the browser, {answer}", sizes["ours"] / 1e6, "MB", must=1.0, better=0.3)
    yield Row(f"bytes to the browser, {answer}, print", sizes["print"] / 1e6, "MB")


def _measured(browser: Browser, server: LabServer, cell: str) -> tuple[float, int]:
    """Seconds that the page's main thread was busy, and bytes that came over its web sockets."""
    cells = [nbformat.v4.new_code_cell(source) for source in ("%load_ext cumulus_jupyter", cell)]
    book = nbformat.v4.new_notebook(cells=cells)
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, server.root / "bench.ipynb")
    context = browser.new_context(viewport={"width": 1200, "height": 1000})
    try:
        page = context.new_page()
        notebook = NotebookPage(server, page, "bench.ipynb").open()
        notebook.run(0)
        notebook.wait_done(0)
        page.wait_for_timeout(_SETTLED)
        return _watched(context.new_cdp_session(page), notebook)
    finally:
        notebook.shut_down()
        context.close()


def _watched(session: CDPSession, notebook: NotebookPage) -> tuple[float, int]:
    received: list[int] = []
    session.on("Network.webSocketFrameReceived", lambda frame: received.append(_size(frame)))
    session.send("Network.enable")
    session.send("Performance.enable")
    before = _busy(session)
    notebook.run(1)
    # Asking the page whether it is done would be work of its own.
    notebook.page.wait_for_timeout(CHARACTERS / 5 / RATE * 1_000 + _SETTLED)
    busy, size = _busy(session) - before, sum(received)
    cell = notebook.wait_done(1)
    assert "follow from that" in cell["text"], cell["text"][-500:]
    return busy, size


def _busy(session: CDPSession) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


def _size(frame: dict[str, Any]) -> int:
    response = frame["response"]
    binary = response["opcode"] == 2  # then its text is base64
    return len(response["payloadData"]) * 3 // 4 if binary else len(response["payloadData"])
