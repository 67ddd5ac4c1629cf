"""The whole harness as a program uses it: an Agent with its built-in tools and a transcript on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from cumulus_jupyter import Agent, tool
from cumulus_jupyter.agent.events import Event, Finished, RoundStarted
from cumulus_jupyter.agent.loop import request_from
from cumulus_jupyter.agent.messages import Status

__all__ = ["NOTHING", "agent", "body", "noop", "rounds", "run"]

NOTHING = {"chat": "openai/m-test", "messages": "anthropic/m-test"}
"""Models on either wire that nothing is known of."""


@tool(deferred=False)
async def noop(n: int) -> str:
    """Do nothing."""
    return f"ok {n}"


def agent(wire: str, url: str, folder: Path | None, tools: Sequence[Any] = (noop,), **options: Any) -> Agent:
    """An agent whose model is at ``url``."""
    base = f"{url}/v1" if wire == "chat" else url
    return Agent(
        NOTHING[wire], base_url=base, api_key="loopback-key", tools=tools, data_dir=folder, max_turns=10_000, **options
    )


async def run(made: Agent, prompt: str = "go") -> list[Event]:
    """Run a prompt to its end, which must be a good one; gives all events."""
    async with aclosing(made.stream(prompt)) as stream:
        events = [event async for event in stream]
    ended = events[-1]
    assert isinstance(ended, Finished)
    assert ended.result.status is Status.DONE, ended.result
    return events


async def rounds(made: Agent) -> list[float]:
    """Seconds of each tool round, from one request to the next; the first one connects and is left out."""
    times: list[float] = []
    last = 0.0
    async with aclosing(made.stream("go")) as events:
        async for event in events:
            if type(event) is RoundStarted:
                now = time.perf_counter()
                times.append(now - last)
                last = now
            elif type(event) is Finished:
                assert event.result.status is Status.DONE, event.result
                times.append(time.perf_counter() - last)
    await made._session.provider.close()
    return times[2:]


def body(made: Agent) -> dict[str, Any]:
    """The first request that this agent would send, decoded; the agent is used up."""
    session = made._session
    session.transcript.user("go")
    request = request_from(session.transcript, session.provider, session.toolbox, session.limits, session.system)
    decoded: dict[str, Any] = json.loads(session.provider.body(request))
    return decoded
