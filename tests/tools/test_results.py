"""read_result pages a windowed result to its last character."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cumulus_jupyter.tools import results
from cumulus_jupyter.tools.function import tool

from .conftest import Bench

TEXTS = {
    "ascii": "".join(random.Random(1).choice("abc \n") for _ in range(70_000)),
    "wide": "".join(random.Random(2).choice("日本語é😀\n") for _ in range(70_000)),
    "json": "[" + ", ".join(str(number) for number in range(20_000)) + "]",
    "lines": "".join(f"line {number}\r\n" for number in range(9_000)),
}


@pytest.fixture(params=list(TEXTS))
def text(request: pytest.FixtureRequest) -> str:
    return TEXTS[request.param]


@pytest.mark.parametrize("limit", [7_001, 20_000, 1_000_000])
def test_paging_gives_the_whole_text(tmp_path: Path, text: str, limit: int) -> None:
    @tool(cap=2_000)
    def long() -> str:
        """Long."""
        return text

    bench = Bench(tmp_path, extra=[long])
    handle = bench.call("long").handle
    assert handle
    pages, offset = [], 0
    for _ in range(100):
        result = bench.call("read_result", handle=handle, offset=offset, limit=limit)
        assert result.ok
        assert not result.handle, "a page must never be windowed itself"
        head, _, page = result.text.partition("\n")
        assert f"of {len(text)}" in head
        pages.append(page)
        if "this is its end" in head:
            break
        offset = int(head.rpartition("next offset ")[2])
    assert "".join(pages) == text


def test_unknown_handles_and_bad_offsets_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "JOBS", {})

    @tool(cap=100)
    def long() -> str:
        """Long."""
        return "x" * 1_000

    bench = Bench(tmp_path, extra=[long])
    assert "there are none" in bench.refusal("read_result", handle="r1")
    handle = bench.call("long").handle
    assert f"known: {handle}" in bench.refusal("read_result", handle="r999")
    assert "end with the kernel" in bench.refusal("read_result", handle="job999")
    assert "beyond its end (1,000 characters)" in bench.text("read_result", handle=handle, offset=5_000)
    bench.refusal("read_result", handle=handle, offset=-1)
    bench.refusal("read_result", handle=handle, limit=0)


def test_what_undo_keeps_is_no_result(bench: Bench) -> None:
    (bench.root / "a.txt").write_text("x" * 2_000_000)
    bench.text("edit_file", path="a.txt", old="x" * 2_000_000, new="y")
    assert any(handle.startswith("before") for handle in bench.transcript.spool.handles())
    assert "before" not in bench.refusal("read_result", handle="r1")
