"""What a streamed answer costs JupyterLab's page, against ``print`` and ``Markdown`` updates of the same text."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, CDPSession

from tests.browser.lab import LabServer, NotebookPage, chromium

from .paced import ANSWERS, CHARACTERS, RATE, TOKEN, Paced
from .serving import served
from .table import Row, median

__all__ = ["rows"]

_BY_HAND = """
import asyncio, time
from IPython.display import Markdown, display
text, started = open("prose.txt").read(), time.monotonic()
shown, last = display(Markdown(""), display_id=True) if {markdown} else None, started
for number, start in enumerate(range(0, len(text), {token}), 1):
    await asyncio.sleep(started + number / {rate} - time.monotonic())
    if not shown:
        print(text[start:start + {token}], end="")
    elif time.monotonic() - last > 0.1 or start + {token} >= len(text):
        shown.update(Markdown(text[:start + {token}]))
        last = time.monotonic()
"""
_SETTLED = 2.0
"""Seconds after the last output in which the page may still draw."""
_TOO_FAST = "rate exceeded"
"""What Jupyter's server writes into an output from which it withholds messages."""


@dataclass
class _Cost:
    """What one cell cost the page."""

    first: float
    """Seconds of the main thread in the first half of the stream."""
    second: float
    """In the second half."""
    rest: float
    """And behind it: the end of the run, its save."""
    size: int
    """Bytes over the web sockets."""
    text: str

    @property
    def seconds(self) -> float:
        return self.first + self.second + self.rest


def rows(quick: bool) -> Iterator[Row]:
    times = 1 if quick else 3
    with served("tests.benchmarks.paced") as url, tempfile.TemporaryDirectory() as folder, chromium() as browser:
        home = Path(folder)
        (root := home / "notebooks").mkdir()
        (root / "prose.txt").write_text(ANSWERS["prose"].text)
        server = LabServer(home, root)
        try:
            yield from _compared(browser, server, url, times)
            yield from _grown(_measured(browser, server, _agent("long", url), ANSWERS["long"]))
            burst = _measured(browser, server, _agent("burst", url), ANSWERS["burst"])
        finally:
            server.stop()
    yield Row("messages withheld, 5,000 deltas in 2 s", burst.text.count(_TOO_FAST), "", must=0)


def _agent(model: str, url: str) -> str:
    return f"%%agent --new -m {model}@{url}/v1\nGo on."


def _compared(browser: Browser, server: LabServer, url: str, times: int) -> Iterator[Row]:
    by_hand = {"token": TOKEN, "rate": RATE}
    cells = {
        "print": _BY_HAND.format(markdown=False, **by_hand),
        "Markdown 10 times a second": _BY_HAND.format(markdown=True, **by_hand),
        "ours": _agent("prose", url),
    }
    found: dict[str, list[_Cost]] = {name: [] for name in cells}
    for _ in range(times):
        for name, cell in cells.items():
            found[name].append(_measured(browser, server, cell, ANSWERS["prose"]))
    seconds = {name: median([cost.seconds for cost in costs]) for name, costs in found.items()}
    sizes = {name: median([cost.size for cost in costs]) / 1e6 for name, costs in found.items()}
    answer = f"{CHARACTERS:,} characters at {RATE} tokens/s"
    yield Row(f"browser's main thread, {answer}", seconds["ours"], "s", seconds["print"], must=1.5, better=1.1)
    yield Row(f"bytes to the browser, {answer}", sizes["ours"], "MB", must=1.0, better=0.3)
    for name in list(cells)[:2]:
        yield Row(f"browser's main thread, {answer}, {name}", seconds[name], "s")
        yield Row(f"bytes to the browser, {answer}, {name}", sizes[name], "MB")


def _grown(cost: _Cost) -> Iterator[Row]:
    """Whether the second half of a long answer costs what the first did."""
    yield Row("browser's main thread, 200,000 characters, second half to first", cost.second, "s", cost.first, must=1.3)
    yield Row("browser's main thread, 200,000 characters, behind the stream", cost.rest, "s")
    yield Row("bytes to the browser, 200,000 characters", cost.size / 1e6, "MB", must=3.0)


def _measured(browser: Browser, server: LabServer, cell: str, answer: Paced) -> _Cost:
    """Run a cell in a new page that has seen Markdown before, as any notebook's has."""
    code = [nbformat.v4.new_code_cell(source) for source in ("%load_ext cumulus_jupyter", cell)]
    book = nbformat.v4.new_notebook(cells=[*code, nbformat.v4.new_markdown_cell("# A *notebook*")])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, server.root / "bench.ipynb")
    context = browser.new_context(viewport={"width": 1200, "height": 1000})
    try:
        page = context.new_page()
        notebook = NotebookPage(server, page, "bench.ipynb").open()
        notebook.run(0)
        notebook.wait_done(0)
        page.wait_for_timeout(_SETTLED * 1_000)
        return _watched(context.new_cdp_session(page), notebook, answer)
    finally:
        notebook.shut_down()
        context.close()


def _watched(session: CDPSession, notebook: NotebookPage, answer: Paced) -> _Cost:
    received: list[int] = []
    session.on("Network.webSocketFrameReceived", lambda frame: received.append(_size(frame)))
    session.send("Network.enable")
    session.send(
        "Performance.enable", {"timeDomain": "threadTicks"}
    )  # the thread's own time: others wait in none of it
    marks = [_busy(session)]
    notebook.run(1)
    # Asking the page whether it is done would be work of its own.
    for seconds in (answer.seconds / 2, answer.seconds / 2, _SETTLED):
        notebook.page.wait_for_timeout(seconds * 1_000)
        marks.append(_busy(session))
    size = sum(received)
    first, second, rest = (after - before for before, after in pairwise(marks))
    text = notebook.wait_done(1)["text"]
    assert "follow from that" in text[-500:], text[-500:]
    return _Cost(first, second, rest, size, text)


def _busy(session: CDPSession) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


def _size(frame: dict[str, Any]) -> int:
    response = frame["response"]
    binary = response["opcode"] == 2  # then its text is base64
    return len(response["payloadData"]) * 3 // 4 if binary else len(response["payloadData"])
