"""A streamed answer in a notebook's cell: when its first piece is there, and how many messages and bytes it takes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .kernels import MIME, Kernel, Ran, kernel
from .paced import CHARACTERS, RATE
from .serving import served
from .table import Row, median

__all__ = ["rows"]


def rows(quick: bool) -> Iterator[Row]:
    with served("tests.benchmarks.paced") as url, tempfile.TemporaryDirectory() as folder:
        with kernel(Path(folder), extension=True) as made:
            made.run("%load_ext cumulus_jupyter")
            yield _first_piece(made, url, 10 if quick else 30)
            yield from _stream(made.run(_cell("prose", url)), "prose")
            if not quick:
                yield from _stream(made.run(_cell("code", url)), "one code block")
        if not quick:
            with kernel(Path(folder)) as made:
                made.run("%load_ext cumulus_jupyter")
                yield from _stream(made.run(_cell("prose", url)), "prose, without the labextension")


def _cell(model: str, url: str) -> str:
    return f"%%agent --new --no-context -m {model}@{url}/v1\nGo on."


def _first_piece(made: Kernel, url: str, times: int) -> Row:
    """From the server's first byte, whose time is the answer's first word, to the display that holds it."""
    taken = []
    for _ in range(times):
        shown = [(at, text) for at, text in _texts(made.run(_cell("short", url))) if text]
        at, text = shown[0]
        taken.append(at - float(text.split()[0]))
    return Row("first byte to shown in the cell", median(taken[1:]) * 1e3, "ms", must=10, better=3)


def _texts(ran: Ran) -> list[tuple[float, str]]:
    return [(at, data[MIME]["markdown"]) for at, data in ran.displays if data.get(MIME, {}).get("kind") == "text"]


def _stream(ran: Ran, what: str) -> Iterator[Row]:
    sizes = [(at, len(json.dumps(data))) for at, data in ran.displays]
    first, last = sizes[0][0], sizes[-1][0]
    total = sum(size for _, size in sizes)
    early = sum(size for at, size in sizes if at < (first + last) / 2)
    answer = f"{CHARACTERS:,} characters at {RATE} tokens/s, {what}"
    yield Row(f"display messages a second, {answer}", len(sizes) / (last - first), "/s", must=10.5)
    yield Row(f"display bytes, {answer}", total / 1e6, "MB", must=1.0, better=0.3)
    figure = f"bytes of the second half to the first, {what}"
    yield Row(figure, (total - early) / 1e3, "kB", early / 1e3, must=1.3)
