"""SIGKILL at many moments of a run: nothing that was stored is lost, nothing is done twice, and the run goes on."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent.events import Event, Finished, Paused, QuestionAsked
from cumulus_jupyter.agent.messages import Answer, Ask, Outcome, Status, ToolResults
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.store import Store
from tests.wire.server import ModelServer, Turn

from .conftest import Kernel, start_kernel
from .mortal import LONG, SAID, STEPS, session
from .test_cell import click, comm, find, wait_for_form

pytestmark = [pytest.mark.long, pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX's")]

SOURCE = Path(__file__).parents[2]
LINES = 16
"""Lines that an undisturbed run stores."""


def killed(folder: Path, lines: int, pause: float) -> tuple[list[dict[str, Any]], list[str]]:
    """Kill a run ``pause`` seconds after so many stored lines; the lines that it told of, and what else it said."""
    command = [sys.executable, "-m", "tests.jupyter.mortal", str(folder)]
    with subprocess.Popen(command, cwd=SOURCE, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stdin
        told: list[bytes] = [child.stdout.readline()]
        while sum(row.startswith(b"{") for row in told) < lines:
            told.append(row := child.stdout.readline())
            assert row, "the run ended too early"
            if row == b"asked\n":
                child.stdin.write(b"go on\n")
                child.stdin.flush()
        time.sleep(pause)
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()
    rows = b"".join(told) + rest[: rest.rfind(b"\n") + 1]
    parts = rows.decode().splitlines()
    return [json.loads(part) for part in parts if part.startswith("{")], [p for p in parts if not p.startswith("{")]


async def drain(events: AsyncGenerator[Event, None]) -> list[Event]:
    return [event async for event in events]


def go_on(made: Session) -> list[Ask]:
    """Take the run to its end, answering what is asked; the questions."""
    asked: list[Ask] = []

    async def main() -> None:
        if made.transcript.messages and not made.recover():
            await drain(made.stream("more"))
            return
        events = await drain(made.resume() if made.transcript.messages else made.stream("go"))
        while isinstance(events[-1], Paused):
            asked.extend(event.ask for event in events if isinstance(event, QuestionAsked))
            for ask in events[-1].waiting:
                made.answer(ask, Answer(Outcome.ANSWERED, ("yes",)))
            events = await drain(made.resume())
        assert isinstance(events[-1], Finished)

    asyncio.run(main())
    return asked


def check(folder: Path, told: list[dict[str, Any]]) -> str:
    """Take up the conversation that was left; what was under way when it was."""
    ledger = (folder / "ledger").read_text().split() if (folder / "ledger").exists() else []
    (stored,) = (folder / "data").glob("*.jsonl")
    store = Store(folder / "data")
    transcript = store.load(stored.stem)
    assert transcript.lines[: len(told)] == told, "nothing that was acknowledged is lost"
    assert len(transcript.lines) <= len(told) + 1, "a line at most was stored and not yet told"
    finished = {line["call"] for line in transcript.lines if line["type"] == "result"}
    answered = {line["call"] for line in transcript.lines if line["type"] == "answer"}
    open_before = list(transcript.open_calls)
    ended = transcript.status is not Status.RUNNING
    asked = go_on(session(transcript, folder))
    for call in open_before:
        (line,) = [line for line in transcript.lines if line["type"] == "result" and line["call"] == call.id]
        text = line["content"][0]
        assert text.startswith("answered") if call.name == "ask" else text.startswith("unknown:"), text
    asks = [call.id for call in transcript.calls.values() if call.name == "ask"]
    assert [ask.call_id for ask in asked] == [id for id in asks if id not in answered | finished]
    after = (folder / "ledger").read_text().split()
    assert max(Counter(after).values()) == 1, f"a step ran twice: {after}"
    in_flight = {f"+{call.arguments['n']}" for call in open_before if call.name == "step" and call.arguments}
    assert {entry for entry in after if entry[0] == "+"} | in_flight == {f"+{n}" for n in range(1, STEPS + 1)}
    assert after[: len(ledger)] == ledger
    assert transcript.run_result().status is Status.DONE
    assert transcript.run_result().text == SAID[-1][0]
    for group in transcript.messages:
        if isinstance(group, ToolResults):
            assert [call.id for call in group.calls] == [result and result.call_id for result in group.results]
    whole = [line["handle"] for line in transcript.lines if line.get("handle")]
    assert all(transcript.spool.get(handle) == "x" * LONG for handle in whole)
    store.close()
    assert Store(folder / "data").load(stored.stem).messages == transcript.messages
    if ended:
        return "after its end"
    return f"with {len(open_before)} open calls" if open_before else "between calls"


@pytest.mark.parametrize("seed", range(4))
def test_a_run_that_is_killed_goes_on(seed: int, tmp_path: Path) -> None:
    """Behind each stored line, at once or a few milliseconds later."""
    rolls = random.Random(seed)
    kinds: Counter[str] = Counter()
    for number in range(LINES):
        folder = tmp_path / str(number)
        folder.mkdir()
        lines = number + 1
        told, said = killed(folder, lines, rolls.choice([0.0, 0.0, rolls.uniform(0, 0.006), rolls.uniform(0, 0.02)]))
        assert len(told) >= lines
        if "asked" in said:
            kinds["behind its question"] += 1
        kinds[check(folder, told)] += 1
    assert kinds["between calls"]
    assert sum(count for kind, count in kinds.items() if "open calls" in kind)


CODE = "with open('ledger', 'a') as f: f.write('{0} ')\n"
WORK = [
    Turn("I begin.", calls=[("run_python", {"code": CODE.format("one")})]),
    Turn(
        "Two things.",
        calls=[
            ("run_python", {"code": CODE.format("two") + "import time; time.sleep(0 if done else 60)"}),
            ("AskUserQuestion", {"questions": [{"question": "Go on?", "header": "Go", "options": ["yes", "no"]}]}),
        ],
    ),
    Turn("That was all, and it was long enough to be cut.", every=300, delay=0.2),
]


@pytest.mark.parametrize("moment", ["in a tool", "at the question", "in the last text"])
def test_a_kernel_that_is_killed_is_taken_up_by_the_next(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same through real kernels: `%agent resume` goes on where the dead one was."""
    monkeypatch.setenv("CUMULUS_MODEL", "openai/m-test")
    monkeypatch.setenv("CUMULUS_APPROVE", "all")
    with ModelServer(WORK) as server:
        for name, value in server.env().items():
            monkeypatch.setenv(name, value)
        keep = ("CUMULUS_MODEL", "CUMULUS_APPROVE", *server.env())
        first = start_kernel(tmp_path, monkeypatch, stdin=True, keep=keep)
        kernel = next(first)
        kernel.run(f"done = {moment != 'in a tool'}")
        msg_id = kernel.send("%%agent\nbegin")
        if moment == "in a tool":
            wait_for(tmp_path / "work" / "ledger", "one two ")
        else:
            models, _ = wait_for_form(kernel, msg_id)
            wait_for(tmp_path / "work" / "ledger", "one two ")
            time.sleep(0.5)
        if moment == "in the last text":
            answer(kernel, models)
            until = time.monotonic() + 20
            while len(server.asked) < 3 and time.monotonic() < until:
                time.sleep(0.05)
            server.script.append(Turn("That was all."))
        kernel.manager.signal_kernel(signal.SIGKILL)
        first.close()
        (tmp_path / "work").rename(tmp_path / "first")
        for kernel in start_kernel(tmp_path, monkeypatch, stdin=True, keep=keep):
            msg_id = kernel.send("%agent resume main")
            if moment != "in the last text":
                models, _ = wait_for_form(kernel, msg_id)
                answer(kernel, models)
            cell = kernel.finish(msg_id)
            assert cell.reply["status"] == "ok", cell.reply
            assert "That was all" in cell.answer
        assert server.refused == []
        assert not (tmp_path / "work" / "ledger").exists(), "no call runs again"
        results = [m["content"] for m in server.bodies[-1]["messages"] if m["role"] == "tool"]
        assert len(results) == 3
        assert results[1].startswith("unknown:") == (moment == "in a tool")
        assert "yes" in results[2]


def answer(kernel: Kernel, models: dict[str, dict[str, Any]]) -> None:
    comm(kernel, find(models, _model_name="RadioButtonsModel"), {"method": "update", "state": {"index": 0}})
    click(kernel, find(models, description="Answer"))


def wait_for(path: Path, text: str) -> None:
    until = time.monotonic() + 30
    while not (path.exists() and path.read_text() == text):
        assert time.monotonic() < until
        time.sleep(0.02)
