"""read_result pages a windowed result to its last character."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import Status, ToolResults
from cumulus_jupyter.agent.policy import Policy
from cumulus_jupyter.agent.provider import Request
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.agent.toolbox import Toolbox
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.script import ScriptHost
from cumulus_jupyter.tools import results
from cumulus_jupyter.tools.function import tool
from cumulus_jupyter.tools.jobs import JOBS

from ..agent.conftest import Scripted, drain, say
from .conftest import CASES, Bench

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


def test_a_handle_of_work_that_has_not_ended_says_so(tmp_path: Path) -> None:
    async def main() -> tuple[str, str]:
        gate = asyncio.Event()

        @tool(timeout=0.05)
        async def slow() -> str:
            """Slow."""
            await gate.wait()
            return "at last"

        bench = Bench(tmp_path, extra=[slow])
        (given_up,) = await bench.run(("slow", {}))
        assert given_up is not None
        handle = given_up.details["later"]
        assert handle in given_up.text
        (early,) = await bench.run(("read_result", {"handle": handle}))
        gate.set()
        await asyncio.sleep(0.01)
        (late,) = await bench.run(("read_result", {"handle": handle}))
        assert early is not None
        assert late is not None
        return early.text, late.text

    early, late = asyncio.run(main())
    assert "has not ended" in early
    assert late.endswith("at last")


@pytest.mark.skipif(os.name != "posix", reason="the command is for a POSIX shell")
def test_k9_07_polling_a_job_without_end_is_told_its_age_and_ends(tmp_path: Path) -> None:
    case = json.loads((CASES / "K9-07.json").read_text())
    command = case["background_job"].removeprefix('sh "').removesuffix('"')

    class Poller(Scripted):
        """Starts the job, then asks for its output again and again."""

        async def stream(self, request: Request) -> AsyncGenerator[Any, None]:
            groups = [message for message in request.messages if isinstance(message, ToolResults)]
            if not groups:
                self.replies = [say("", ("run_shell", {"command": command, "background": True}))]
            else:
                handle = groups[0].results[0].text.partition("background as ")[2].partition(" ")[0]  # type: ignore[union-attr]
                self.replies = [say("", ("read_result", {"handle": handle}))]
            async for item in super().stream(request):
                yield item

    bench = Bench(tmp_path)
    tools = [replace(tool, deferred=False) for tool in bench.toolbox.tools.values()]
    toolbox = Toolbox(tools, host=ScriptHost(), root=tmp_path, policy=Policy("all", person=True))
    made = Session(Transcript(), Poller(), toolbox, Limits(turns=20), "system")
    asyncio.run(drain(made.stream("go")))
    assert made.transcript.run_result().status is Status.TURN_LIMIT
    polls = [m.results[0].text for m in made.transcript.messages if isinstance(m, ToolResults) and m.results[0]][1:]
    assert len(polls) == 19
    for number, poll in enumerate(polls, 1):
        assert "running for" in poll
        assert (f"Nothing new since {number} reads. To stop it: run_shell" in poll) == (number >= 3)
    JOBS[polls[0].partition(" ")[0]].end()


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
