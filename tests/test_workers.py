"""Sub-agents on engines elsewhere: a real Dask cluster of two worker processes, and ipyparallel engines."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter import Agent
from cumulus_jupyter.agent.errors import SettingsError
from cumulus_jupyter.agent.messages import RunResult, Status
from cumulus_jupyter.workers import open_engine, run_child
from tests.wire.server import Asked, ModelServer, Turn

SEARCH = Turn(calls=[("tool_search", {"query": "select:spawn_agents,steer_agent,check_agents"}, "c-search")])
CHECK = Turn(calls=[("check_agents", {"wait": True, "timeout": 60}, "c-check")])


def first_word(asked: Asked) -> str:
    content = next(m for m in asked.json["messages"] if m["role"] == "user")["content"]
    return str(content if isinstance(content, str) else content[0]["text"]).split()[0]


class Play:
    """A server's part for each conversation, chosen by its prompt's first word."""

    def __init__(self, **parts: list[Turn]) -> None:
        self.parts = parts

    def __call__(self, asked: Asked) -> Turn:
        part = self.parts[first_word(asked)]
        return part.pop(0) if len(part) > 1 else part[0]


def spawn(*names: str) -> Turn:
    return Turn(calls=[("spawn_agents", {"tasks": [{"task": f"{n} task", "name": n} for n in names]}, "c-spawn")])


def results(agent: Agent, name: str) -> list[Any]:
    lines = [line for line in agent.transcript.lines if line["type"] == "result" and line["name"] == name]
    return [line["content"][0] for line in lines]


@pytest.mark.parametrize("setting", ["ray://there", "dask", "ipyparallel:no-such-profile-here"])
def test_a_setting_that_leads_nowhere_is_said_in_words(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown engine, and one that is not there or whose package is missing, name the setting."""
    from cumulus_jupyter import workers

    monkeypatch.setattr(workers, "_CONNECT", 0.2)
    with pytest.raises(SettingsError, match="workers"):
        open_engine(setting)


def test_a_child_elsewhere_is_plain_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker gets and gives back is JSON: it edits files under the root and says how it ended."""
    write = Turn(calls=[("write_file", {"path": "out.txt", "content": "made"}, "c-w")])
    with ModelServer([write, Turn("made out.txt")], check=False) as server:
        for name, value in server.env().items():
            monkeypatch.setenv(name, value)
        spec = {
            "task": "make it",
            "name": "maker",
            "model": "openai/m",
            "tools": ["write_file"],
            "limits": {"turns": 3},
            "approve": "edits",
            "sandbox": "auto",
            "root": str(tmp_path),
        }
        told = json.loads(json.dumps(run_child(json.loads(json.dumps(spec)))))
    assert (told["status"], told["text"], told["usage"]["rounds"]) == ("done", "made out.txt", 2)
    assert (tmp_path / "out.txt").read_text() == "made"
    assert run_child({**spec, "root": str(tmp_path / "gone")})["error"].endswith("need the root on a shared path")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, ModelServer]]:
    """Two Dask worker processes that reach a loopback model server by variables of their own environment."""
    distributed = pytest.importorskip("distributed")
    with ModelServer(check=False) as server:
        for name, value in server.env().items():
            monkeypatch.setenv(name, value)
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster:
            monkeypatch.setenv("CUMULUS_WORKERS", cluster.scheduler_address.replace("tcp://", "dask://"))
            yield cluster, server


@pytest.mark.long
def test_a_dask_worker_that_is_killed_costs_its_child_only(cluster: tuple[Any, ModelServer], tmp_path: Path) -> None:
    """One of two workers dies in mid-run: its child has failed, was not run again, and the others completed."""
    dask, server = cluster
    steer = Turn(calls=[("steer_agent", {"agent_id": "slow", "action": "message", "message": "hurry"}, "c-steer")])
    play = Play(
        go=[SEARCH, spawn("quick", "slow", "other"), steer, Turn("I wait."), Turn("Two came back, one is lost.")],
        quick=[Turn(calls=[("write_file", {"path": "quick.txt", "content": "1"}, "q-1")]), Turn("quick is done")],
        slow=[Turn("never", delay=60)],
        other=[Turn("other is done", delay=0.2)],
    )
    server.script = [play] * 50
    agent = Agent("openai/m", root=tmp_path)

    async def whole() -> RunResult:
        running = asyncio.create_task(agent.run("go"))
        while [a["status"] for a in agent.transcript.agents.values()].count("completed") < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        await asyncio.to_thread(_kill_the_busy_one, dask)
        return await asyncio.wait_for(running, 60)

    result = asyncio.run(whole())
    assert result.status is Status.DONE
    found = {agent["name"]: agent for agent in agent.transcript.agents.values()}
    assert {name: a["status"] for name, a in found.items()} == {
        "quick": "completed",
        "slow": "failed",
        "other": "completed",
    }
    assert "not run again" in found["slow"]["error"]
    assert sum(first_word(asked) == "slow" for asked in server.asked) == 1
    assert (tmp_path / "quick.txt").read_text() == "1"
    assert found["quick"]["rounds"] == 2
    assert result.usage.rounds == agent.transcript.turns + 2 + 1
    spawned = json.loads(results(agent, "spawn_agents")[0])
    assert spawned["where"].startswith("dask://")
    assert "messages can't be sent" in spawned["note"]
    assert "messages can't be sent" in results(agent, "steer_agent")[0]


def _kill_the_busy_one(cluster: Any) -> None:
    import distributed

    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        pids = client.run(os.getpid)
        busy = next(worker for worker, tasks in client.processing().items() if tasks)
        os.kill(pids[busy], signal.SIGKILL)


@pytest.mark.long
def test_ipyparallel_engines_run_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two engines of a profile of their own run two children, each with its result."""
    ipyparallel = pytest.importorskip("ipyparallel")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    play = Play(go=[SEARCH, spawn("a", "b"), CHECK, CHECK, Turn("both")], a=[Turn("a is 1")], b=[Turn("b is 2")])
    with ModelServer([play] * 50, check=False) as server:
        for name, value in server.env().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        with ipyparallel.Cluster(n=2, profile="cumulus", cluster_id="", log_level=40) as client:
            client.wait_for_engines(2, timeout=60)
            monkeypatch.setenv("CUMULUS_WORKERS", "ipyparallel:cumulus")
            agent = Agent("openai/m", root=tmp_path)
            result = asyncio.run(agent.run("go"))
    assert result.status is Status.DONE
    texts = {agent["name"]: agent["text"] for agent in agent.transcript.agents.values()}
    assert texts == {"a": "a is 1", "b": "b is 2"}
