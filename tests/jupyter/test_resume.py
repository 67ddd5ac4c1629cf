"""A kernel that is killed at a question, and the next one that takes the conversation up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from .conftest import Kernel, start_kernel
from .test_cell import click, comm, find, wait_for_form


def test_an_open_question_survives_the_kernels_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = start_kernel(tmp_path, monkeypatch, stdin=True)
    kernel = next(first)
    msg_id = kernel.send("%%agent -m demo\nask me: tea or coffee?")
    wait_for_form(kernel, msg_id)
    kernel.manager.signal_kernel(9)
    first.close()
    (tmp_path / "work").rmdir()
    monkeypatch.setenv("CUMULUS_MODEL", "demo")
    for kernel in start_kernel(tmp_path, monkeypatch, stdin=True, keep=("CUMULUS_MODEL",)):
        assert "tea or coffee" in kernel.run("%agent sessions").text
        msg_id = kernel.send("%agent resume main")
        models, _ = wait_for_form(kernel, msg_id)
        comm(kernel, find(models, _model_name="RadioButtonsModel"), {"method": "update", "state": {"index": 1}})
        click(kernel, find(models, description="Answer"))
        cell = kernel.finish(msg_id)
        assert cell.reply["status"] == "ok", cell.reply
        assert "You said: Question: coffee" in cell.answer


def test_a_live_conversation_is_refused_to_a_second_kernel(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.run("%%agent -m demo\nhi")
    (stored,) = (tmp_path / "data").glob("*.jsonl")
    (tmp_path / "work").rename(tmp_path / "first")
    for second in start_kernel(tmp_path, monkeypatch, stdin=True):
        cell = second.run(f"%agent resume {stored.stem}")
        assert cell.reply["ename"] == "TranscriptError"
        assert "another kernel" in cell.reply["evalue"]


def test_an_open_question_can_be_answered_by_command(kernel: Kernel) -> None:
    kernel.run("%%agent -m demo -o r --no-wait\nask me: tea or coffee?")
    assert "no open question" in kernel.run('%agent answer {"Other": "x"}').text
    kernel.run('%agent answer {"Question": "tea"}')
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and "tea" not in kernel.value("r.text"):
        time.sleep(0.2)
    assert kernel.value("r.text") == "'You said: Question: tea'"
