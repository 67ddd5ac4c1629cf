"""Sub-agents in a real kernel on a loopback server: waited for, asked in the parent's cell, drawn, ended by ■."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.wire.server import Asked, ModelServer, Turn

from .conftest import Cell, Kernel, start_kernel

Step = Turn | Callable[[Asked], Turn]
SEARCH = Turn(calls=[("tool_search", {"query": "select:spawn_agent,check_agents"}, "c-search")])


class Play:
    """A server that plays a part for each conversation, chosen by the word its first prompt begins with."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Step]] = {}

    def __call__(self, asked: Asked) -> Turn:
        first = next(m for m in asked.json["messages"] if m["role"] == "user")["content"]
        text = first if isinstance(first, str) else first[0]["text"]
        part = self.parts[text.split()[0]]
        step = part.pop(0) if len(part) > 1 else part[0]
        return step if isinstance(step, Turn) else step(asked)


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def play(patch: pytest.MonkeyPatch) -> Iterator[Play]:
    play = Play()
    with ModelServer([play] * 500, check=False) as server:
        for name, value in server.env().items():
            patch.setenv(name, value)
        yield play


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch, play: Play) -> Iterator[Kernel]:
    """One kernel for this module, on the loopback server."""
    keep = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
    yield from start_kernel(tmp_path_factory.mktemp("agents"), patch, stdin=True, keep=keep)


def spawn(*tasks: str) -> Turn:
    return Turn(calls=[("spawn_agent", {"task": task, "name": task.split()[0].upper()}, f"c-{task}") for task in tasks])


def agents(cell: Cell) -> dict[str, dict[str, Any]]:
    return {block["name"]: block for block in cell.blocks("agent")}


@pytest.mark.parametrize("stdin", [True, False])
def test_k9_02_the_cell_stays_busy_until_its_agents_are_done(shared: Kernel, play: Play, stdin: bool) -> None:
    """A parent ends its turn to wait: the cell waits, hands the results over, and each agent is one closed line."""
    play.parts = {
        "both": [SEARCH, spawn("one", "two"), Turn("I will wait for them."), Turn("Still."), Turn("Both are done.")],
        "one": [Turn(calls=[("list_files", {}, "c-list")], delay=0.1), Turn("one is 1", delay=0.1)],
        "two": [Turn("two is 2", delay=0.4)],
    }
    shared.stdin = stdin
    cell = shared.run("%%agent -m openai/m --new -o r --no-context\nboth please")
    shared.stdin = True
    assert cell.reply["status"] == "ok", cell.text
    assert cell.answer.endswith("Both are done.")
    blocks = agents(cell)
    assert {name: (b["word"], b["state"], b["text"]) for name, b in blocks.items()} == {
        "ONE": ("completed", "closed", "one is 1"),
        "TWO": ("completed", "closed", "two is 2"),
    }
    assert blocks["ONE"]["steps"] == [{"status": "ok", "text": "listed"}]
    (twin,) = [d for d in cell.displays.values() if d.get("text/plain", "").startswith("✓ agent ONE")]
    assert twin["text/plain"] == "✓ agent ONE — completed · 2 rounds"
    assert "✓</span> agent ONE" in twin["text/html"]
    assert "one is 1" in twin["text/html"]
    assert shared.value("(r.usage.rounds, r.usage.input)") == "(8, 800)"
    live = [m for m in cell.messages if m["msg_type"] == "update_display_data"]
    assert bool(live) is stdin, "live only where somebody looks on"


def test_k9_05_a_child_that_no_server_answers_is_an_error(shared: Kernel, play: Play) -> None:
    """A provider's refusal reaches the parent as the child's error, and stands in its line."""

    def told(asked: Asked) -> Turn:
        last = json.dumps(asked.json["messages"][-1])
        return Turn("Not made: the key is wrong." if "failed" in last and "bad key" in last else "receipt.txt is made.")

    refusal = Turn(status=401, body=b'{"error": {"message": "bad key", "type": "authentication_error"}}')
    play.parts = {"have": [SEARCH, spawn("receipt"), Turn("I wait."), told], "receipt": [refusal]}
    cell = shared.run("%%agent -m openai/m --new --no-context\nhave a helper make receipt.txt")
    assert cell.answer.endswith("Not made: the key is wrong.")
    assert agents(cell)["RECEIPT"]["word"] == "failed"
    assert "bad key" in agents(cell)["RECEIPT"]["error"]


def test_k7_04_an_approval_is_asked_in_the_parents_cell(shared: Kernel, play: Play) -> None:
    """The form names the child and shows its code; the click goes to that child while the parent stays free."""
    play.parts = {
        "risk": [SEARCH, spawn("runner"), Turn("I wait."), Turn("It ran.")],
        "runner": [Turn(calls=[("run_python", {"code": "made_by_child = 42"}, "c-run")]), Turn("ran it")],
    }
    sent = shared.send("%%agent -m openai/m --new --no-context\nrisk it")
    models: dict[str, dict[str, Any]] = {}
    seen: list[dict[str, Any]] = []
    while not any("widget-view" in kind for m in seen for kind in m["content"].get("data", {})):
        message = shared.client.get_iopub_msg(timeout=30)
        seen.append(message)
        if message["msg_type"] == "comm_open":
            models[message["content"]["comm_id"]] = message["content"]["data"].get("state", {})
    texts = json.dumps(list(models.values()))
    assert "Sub-agent RUNNER: Allow run_python?" in texts
    radio = next(id for id, m in models.items() if m.get("_model_name") == "RadioButtonsModel")
    button = next(id for id, m in models.items() if m.get("description") == "Answer")
    for comm_id, data in (
        (radio, {"method": "update", "state": {"index": 0}, "buffer_paths": []}),
        (button, {"method": "custom", "content": {"event": "click"}}),
    ):
        session = shared.client.session
        shared.client.shell_channel.send(session.msg("comm_msg", {"comm_id": comm_id, "data": data}))
    cell = shared.finish(sent)
    assert cell.reply["status"] == "ok", cell.text
    assert shared.value("made_by_child") == "42"
    (question,) = [*cell.blocks("question")]
    assert question["answers"] == [{"header": "RUNNER · run_python", "answer": "Allow once"}]
    assert question["detail"] == "made_by_child = 42"


def test_a_stop_ends_agents_and_says_so(shared: Kernel, play: Play) -> None:
    """■ ends parent and child; the child's line is closed as cancelled, and the kernel is free."""
    play.parts = {
        "slow": [SEARCH, spawn("sleeper"), Turn("never", delay=20)],
        "sleeper": [Turn(calls=[("run_python", {"code": "import time; time.sleep(30)"}, "c-zz")])],
    }
    sent = shared.send("%%agent -m openai/m --new --no-context --approve all\nslow please")
    seen: list[dict[str, Any]] = []
    while not any("ran" in m["content"].get("data", {}).get(KIND, {}).get("activity", "") for m in seen):
        seen.append(shared.client.get_iopub_msg(timeout=30))
    time.sleep(0.3)
    shared.interrupt()
    cell = shared.finish(sent, seconds=15)
    assert cell.reply["ename"] == "AgentStopped"
    assert agents(cell)["SLEEPER"]["word"] == "cancelled"
    assert agents(cell)["SLEEPER"]["state"] == "closed"
    assert shared.run("1 + 1", seconds=10).reply["status"] == "ok"


KIND = "application/vnd.cumulus.agent+json"
