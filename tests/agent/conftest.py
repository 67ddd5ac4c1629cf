from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent.errors import ProviderError
from cumulus_jupyter.agent.events import Event, TextDelta
from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import Reply, RunResult, StopReason, ToolCall, Usage
from cumulus_jupyter.agent.policy import Policy
from cumulus_jupyter.agent.provider import ModelFacts, Request
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.agent.tool import Output, Tool, ToolContext
from cumulus_jupyter.agent.toolbox import Toolbox
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.script import ScriptHost


def say(text: str, *calls: tuple[str, dict[str, Any]], stop: StopReason | None = None, output: int = 10) -> Reply:
    """A reply with these calls."""
    made = [ToolCall("", name, arguments, f"id{number}") for number, (name, arguments) in enumerate(calls)]
    stop = stop or (StopReason.TOOL_CALLS if made else StopReason.END)
    return Reply(text, made, stop, Usage(100, 0, output), "scripted")


class Scripted:
    """A provider that says its replies one after another; an error among them is raised."""

    name, host, notice = "scripted", "here", ""

    def __init__(self, *replies: Reply | ProviderError, ceiling: int = 65_536) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.facts = ModelFacts(ceiling=ceiling)

    async def stream(self, request: Request) -> AsyncGenerator[Any, None]:
        self.requests.append(replace(request, messages=list(request.messages)))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        await asyncio.sleep(0)
        if isinstance(reply, ProviderError):
            if text := getattr(reply, "said", ""):
                yield TextDelta(text)
            raise reply
        for word in reply.text.split(" ") if reply.text else ():
            yield TextDelta(word + " " if word != reply.text.split(" ")[-1] else word)
        yield Reply(reply.text, list(reply.calls), reply.stop, reply.usage, reply.model, reply.native, reply.detail)

    def body(self, request: Request) -> bytes:
        return b""

    async def close(self) -> None:
        pass


def make(name: str, run: Callable[[ToolContext, dict[str, Any]], Any] | None = None, **options: Any) -> Tool:
    """A tool that gives its arguments back, or what ``run`` gives."""

    async def work(ctx: ToolContext, arguments: dict[str, Any]) -> Output:
        value = run(ctx, arguments) if run else arguments
        if asyncio.iscoroutine(value):
            value = await value
        return value if isinstance(value, Output) else Output(value)

    return Tool(name=name, description=f"{name} it", schema=lambda: {"type": "object"}, run=work, **options)


@pytest.fixture
def session(tmp_path: Path) -> Callable[..., Session]:
    """Make a session of a scripted provider and tools."""

    def build(
        provider: Scripted,
        tools: Iterable[Tool] = (),
        *,
        policy: Policy | None = None,
        limits: Limits | None = None,
        transcript: Transcript | None = None,
        **options: Any,
    ) -> Session:
        toolbox = Toolbox(
            tools, host=ScriptHost(), root=tmp_path, policy=policy or Policy("all", person=True), **options
        )
        return Session(transcript or Transcript(), provider, toolbox, limits or Limits(), "system")

    return build


async def drain(events: AsyncGenerator[Event, None]) -> list[Event]:
    return [event async for event in events]


def run(session: Session, prompt: str = "go") -> tuple[list[Event], RunResult]:
    """Run a prompt to its end or pause; the events and the result so far."""
    events = asyncio.run(drain(session.stream(prompt)))
    return events, session.transcript.run_result()
