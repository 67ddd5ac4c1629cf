"""The same cell against an Anthropic-style and an OpenAI-style server on loopback."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.wire.server import ModelServer, Turn

from .conftest import Kernel, start_kernel

Serve = Callable[..., ModelServer]
WIRES = ("anthropic/claude-sonnet-5-5", "openai/gpt-5.6", "kimi-k2@{url}/v1")


@pytest.fixture(params=WIRES, ids=["anthropic", "openai", "at-url"])
def wired(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Kernel, ModelServer, str]]:
    """A kernel whose model's server is ours, on one of the wires."""
    with ModelServer() as server:
        for name, value in server.env().items():
            monkeypatch.setenv(name, value)
        for kernel in start_kernel(tmp_path, monkeypatch, stdin=True, keep=tuple(server.env())):
            yield kernel, server, request.param.format(url=server.url)


WORK = [
    Turn("I'll compute it.", calls=[("run_python", {"code": "total = sum(range(10))\nprint(total)"})]),
    Turn("", calls=[("tool_search", {"query": "select:inspect_variables"})]),
    Turn("", calls=[("inspect_variables", {"names": ["total"]})]),
    Turn("The total is **45**."),
]


def test_a_whole_run(wired: tuple[Kernel, ModelServer, str]) -> None:
    kernel, server, model = wired
    server.script[:] = WORK
    cell = kernel.run(f"%%agent -m {model} --approve all -o r\nAdd the numbers below ten.")
    assert cell.reply["status"] == "ok", cell.reply
    assert kernel.value("r.text") == "'The total is **45**.'"
    assert [name for name, *_ in eval(kernel.value("[(c[0], c[2]) for c in r.tool_calls]"))] == [
        "run_python",
        "tool_search",
        "inspect_variables",
    ]
    assert kernel.value("total") == "45"
    assert server.refused == []
    assert kernel.value("r.usage.rounds") == "4"


def test_the_next_cell_goes_on_and_extends_the_request(wired: tuple[Kernel, ModelServer, str]) -> None:
    kernel, server, model = wired
    server.script[:] = [Turn("Noted."), Turn("You said blue.")]
    kernel.run(f"%%agent -m {model}\nI like blue.")
    kernel.run(f"%%agent -m {model} -o r\nWhat do I like?")
    assert kernel.value("r.text") == "'You said blue.'"
    assert "I like blue." in server.asked[1].body.decode()
    assert server.refused == []


def test_record_and_replay(wired: tuple[Kernel, ModelServer, str], work: Path) -> None:
    kernel, server, model = wired
    server.script[:] = WORK
    kernel.run(f"%%agent -m {model} --approve all --record run.jsonl -o first\nAdd the numbers below ten.")
    asked = len(server.asked)
    assert "loopback-key" not in (work / "run.jsonl").read_text()
    kernel.run("del total")
    cell = kernel.run("%%agent --replay run.jsonl --new --approve all -o second\nAdd the numbers below ten.")
    assert cell.reply["status"] == "ok", cell.reply
    assert len(server.asked) == asked, "a replay asks no server"
    assert kernel.value("second.text == first.text") == "True"
    assert kernel.value("total") == "45", "tools run for real"
    assert "replay" in json.dumps(cell.blocks("status")[0]).lower()


def test_a_replay_that_does_not_fit_says_so(wired: tuple[Kernel, ModelServer, str]) -> None:
    kernel, server, model = wired
    server.script[:] = [Turn("Hello.")]
    kernel.run(f"%%agent -m {model} --record run.jsonl\nhello")
    cell = kernel.run("%%agent --replay run.jsonl --new\nsomething else")
    assert cell.reply["ename"] == "AgentError"
    assert "something else" in cell.reply["evalue"]


@pytest.mark.parametrize(
    ("turn", "says"),
    [
        (Turn(status=401, body=b'{"error": {"type": "authentication_error", "message": "invalid key"}}'), "KEY"),
        (Turn(status=404, body=b'{"error": {"type": "not_found_error", "message": "no such model"}}'), "model"),
    ],
)
def test_a_refusal_is_one_sentence_and_the_next_cell_works(
    wired: tuple[Kernel, ModelServer, str], turn: Turn, says: str
) -> None:
    kernel, server, model = wired
    server.script[:] = [turn, Turn("Hello again.")]
    cell = kernel.run(f"%%agent -m {model}\nhello")
    assert cell.reply["ename"] == "AgentError"
    assert says.lower() in cell.reply["evalue"].lower()
    assert "Traceback" not in json.dumps(cell.reply["traceback"])
    assert "loopback-key" not in json.dumps(cell.messages, default=str)
    assert kernel.run(f"%%agent -m {model} -o r\nhello").reply["status"] == "ok"
    assert kernel.value("r.text") == "'Hello again.'"


def test_a_key_that_a_tool_prints_is_shown_nowhere(wired: tuple[Kernel, ModelServer, str], tmp_path: Path) -> None:
    kernel, server, model = wired
    code = (
        "import os, html\nfrom IPython.display import HTML, display\n"
        "print(os.environ['OPENAI_API_KEY'], flush=True)\nimport time; time.sleep(0.3)\n"
        "print(os.environ['ANTHROPIC_API_KEY'], flush=True)\n"
        "display(HTML(os.environ['OPENAI_API_KEY']))\nraise ValueError(os.environ['OPENAI_API_KEY'])"
    )
    server.script[:] = [Turn("", calls=[("run_python", {"code": code})]), Turn("Done.")]
    cell = kernel.run(f"%%agent -m {model} --approve all\nshow the keys")
    assert "[key]" in server.asked[1].body.decode()
    assert "loopback-key" not in server.asked[1].body.decode()
    assert "loopback-key" not in json.dumps(cell.messages, default=str)
    stored = "".join(path.read_text() for path in (tmp_path / "data").rglob("*.jsonl"))
    assert "[key]" in stored
    assert "loopback-key" not in stored


def test_a_dead_endpoint_is_tried_again_and_can_be_stopped(kernel: Kernel) -> None:
    msg_id = kernel.send("%%agent -m x@http://127.0.0.1:9/v1\nhello")
    time.sleep(2)
    kernel.interrupt()
    cell = kernel.finish(msg_id, seconds=10)
    assert cell.reply["ename"] == "AgentStopped"
    activity = [m for m in cell.messages if "127.0.0.1:9" in json.dumps(m["content"])]
    assert activity, "the person sees what is tried again"
