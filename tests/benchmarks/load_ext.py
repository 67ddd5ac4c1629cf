"""``%load_ext cumulus_jupyter`` in a warm kernel, against ``import openai`` there."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .kernels import kernel
from .table import Row, median

__all__ = ["rows"]

_LOAD = "get_ipython().run_line_magic('load_ext', 'cumulus_jupyter')"
_IMPORT = "import openai"
_MEASURED = """
_process = psutil.Process(); _before, _started = _process.memory_info().rss, time.perf_counter()
{}
_seconds = time.perf_counter() - _started
print([_seconds, _process.memory_info().rss - _before])
"""


def rows(quick: bool) -> Iterator[Row]:
    loads: list[tuple[float, float]] = []
    imports: list[tuple[float, float]] = []
    for repetition in range((3 if quick else 9) + 1):
        theirs, own = _once(_IMPORT), _once(_LOAD)
        if repetition:  # the first one may compile
            imports.append(theirs)
            loads.append(own)
    seconds, memory = (median([one[i] for one in loads]) for i in (0, 1))
    anchor, anchor_memory = (median([one[i] for one in imports]) for i in (0, 1))
    yield Row("%load_ext (anchor: import openai)", seconds * 1e3, "ms", anchor * 1e3, must=0.28, better=0.14)
    yield Row("memory added by %load_ext", memory / 1e6, "MB", must=8, better=3)
    yield Row("memory added by import openai", anchor_memory / 1e6, "MB")


def _once(code: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder, kernel(Path(folder)) as made:
        seconds, added = json.loads(made.run(_MEASURED.format(code)).text)
        return seconds, added
