"""The package from outside: what importing it costs, what it offers, and what its errors look like."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import cumulus_jupyter
from cumulus_jupyter import Agent, CumulusError, Finished, SettingsError, TextDelta, tool
from cumulus_jupyter.agent.messages import Status
from tests.wire.server import ModelServer, Turn


def test_importing_it_loads_no_vendor_and_nothing_heavy() -> None:
    code = (
        "import sys, cumulus_jupyter\n"
        "heavy = {'anthropic', 'openai', 'httpx2', 'pydantic', 'IPython', 'ipywidgets', 'nbformat', 'mistune'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_every_public_name_is_there() -> None:
    assert all(getattr(cumulus_jupyter, name) for name in cumulus_jupyter.__all__)


def test_every_error_is_one_line_in_a_notebook() -> None:
    for name in cumulus_jupyter.__all__:
        error = getattr(cumulus_jupyter, name)
        if isinstance(error, type) and issubclass(error, Exception):
            assert issubclass(error, CumulusError)
            assert error("what to do")._render_traceback_() == [f"{name}: what to do"]


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-5-5", "openai/gpt-5.4"])
def test_an_agent_in_a_script(tmp_path: Path, model: str) -> None:
    @tool
    def double(n: int) -> int:
        """Double a number."""
        return 2 * n

    async def talk(url: str) -> tuple[str, list[str]]:
        agent = Agent(model=model, root=tmp_path, tools=[double], base_url=url, api_key="loopback-key")
        streamed, results = "", []
        async for event in agent.stream("What is twice 21?"):
            if isinstance(event, TextDelta):
                streamed += event.text
            elif isinstance(event, Finished):
                results.append(event.result)
        again = await agent.run("And again?")
        assert results[0].status is Status.DONE
        assert results[0].tool_calls[0][:3] == ("double", {"n": 21}, True)
        assert again.text == "Still 42."
        return streamed, [path.name for path in tmp_path.rglob("*")]

    with ModelServer([Turn("", calls=[("double", {"n": 21})]), Turn("It is 42."), Turn("Still 42.")]) as server:
        streamed, written = asyncio.run(talk(server.url if model.startswith("anthropic") else f"{server.url}/v1"))
    assert streamed == "It is 42."
    assert written == [], "nothing is written unless data_dir is given"
    assert server.refused == []


def test_sixteen_calls_of_a_reply_run_at_once(tmp_path: Path) -> None:
    gate = asyncio.Barrier(16)

    @tool
    async def meet(n: int) -> str:
        """Wait for the fifteen others."""
        await asyncio.wait_for(gate.wait(), 20)
        return f"met {n}"

    with ModelServer([Turn("", calls=[("meet", {"n": n}) for n in range(16)]), Turn("All met.")]) as server:
        agent = Agent("openai/gpt-5.4", root=tmp_path, tools=[meet], base_url=f"{server.url}/v1", api_key="loopback")
        result = asyncio.run(agent.run("go"))
    assert result.text == "All met."
    assert [call[2] for call in result.tool_calls] == [True] * 16


def test_two_hundred_tools_do_not_grow_the_request(tmp_path: Path) -> None:
    def make(number: int):  # type: ignore[no-untyped-def]
        def work(text: str) -> str:
            """Do something."""
            return text

        work.__name__ = f"work_{number}"
        return work

    sizes = []
    for count in (0, 200):
        with ModelServer([Turn("Hello.")]) as server:
            tools = [make(number) for number in range(count)]
            agent = Agent("openai/gpt-5.4", root=tmp_path, tools=tools, base_url=f"{server.url}/v1", api_key="loopback")
            asyncio.run(agent.run("hi"))
        sizes.append(len(server.bodies[0]["tools"]))
    assert sizes[1] - sizes[0] == 8, "the first few are bound, the rest are listed"


def test_a_missing_key_says_which_and_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(SettingsError, match="ANTHROPIC_API_KEY"):
        Agent("claude")
