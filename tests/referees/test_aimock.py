"""Long loops against a server that answers only what a right client asks: aimock, strict, in a process of its own.

Each of its fixtures is matched on the turn, the id of the call before and that call's result; anything else is a 503.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import Status
from cumulus_jupyter.providers.catalog import resolve

from ..wire.harness import MODELS, Calls, converse

AIMOCK = Path(__file__).parents[1] / "node/node_modules/@copilotkit/aimock/dist/cli.js"
NODE = shutil.which("node", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
REQUIRED = bool(os.environ.get("CUMULUS_EVIDENCE"))
"""Set by ``make test-long``: then what is not installed is a failure."""
ROUNDS = 12
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (REQUIRED or (NODE and AIMOCK.exists())), reason="`make tests/node/node_modules`"),
]


def _fixtures() -> dict[str, Any]:
    """A walk of so many rounds, two calls in every third, whose results are secrets of each call."""
    fixtures: list[dict[str, Any]] = []
    for turn in range(ROUNDS + 1):
        match: dict[str, Any] = {"turnIndex": turn, "hasToolResult": turn > 0}
        if turn:
            last = _calls(turn - 1)[-1]
            match |= {"toolCallId": last["id"], "toolResultContains": f"secret of {last['id']}"}
        else:
            match["userMessage"] = "walk"
        text = f"step {turn} "
        answer = {"content": "I am there."} if turn == ROUNDS else {"content": text, "toolCalls": _calls(turn)}
        fixtures.append({"match": match, "response": answer})
    return {"fixtures": fixtures}


def _calls(turn: int) -> list[dict[str, Any]]:
    count = 2 if turn % 3 == 2 else 1
    names = [f"toolu_{turn:02}{letter}" for letter in "ab"[:count]]
    return [{"id": id, "name": "step", "arguments": json.dumps({"to": id})} for id in names]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("aimock")
    (folder / "walk.json").write_text(json.dumps(_fixtures()))
    log = folder / "log"
    with log.open("w") as out:
        command = [
            NODE or "node",
            str(AIMOCK),
            "--strict",
            "--validate-on-load",
            "-p",
            "0",
            "-f",
            str(folder / "walk.json"),
        ]
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield _address(log, process)
        finally:
            process.terminate()
            process.wait(10)


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    for _ in range(300):
        for word in log.read_text().split():
            if word.startswith("http://127.0.0.1:"):
                return word
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError(f"aimock did not start: {log.read_text()}")


@pytest.mark.parametrize("wire", MODELS)
def test_a_long_walk_is_matched_at_every_step(wire: str, server: str) -> None:
    """Every request has the turn, the call's id and the result that the server expects; no request is unmatched."""
    calls = Calls()
    step = calls.tool("step", "to", result=lambda to: f"secret of {to}")
    env = {
        "OPENAI_BASE_URL": f"{server}/v1",
        "OPENAI_API_KEY": "k-test",
        "ANTHROPIC_BASE_URL": server,
        "ANTHROPIC_API_KEY": "k-test",
    }
    ran = converse(resolve(MODELS[wire], env=env), ["walk"], [step], limits=Limits())
    assert (ran.result.status, ran.result.text) == (Status.DONE, "I am there."), ran.result
    wanted = [call["id"] for turn in range(ROUNDS) for call in _calls(turn)]
    assert [arguments["to"] for _, arguments in calls.seen] == wanted
    ids = [call.raw_id for message in ran.transcript.messages for call in getattr(message, "calls", ()) if call.raw_id]
    assert list(dict.fromkeys(ids)) == wanted
