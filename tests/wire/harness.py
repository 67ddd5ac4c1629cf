"""A session with a tiny toolbox against a scripted server, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cumulus_jupyter.agent.events import Event, Finished, ReplyDiscarded, TextDelta
from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import Reply, RunResult
from cumulus_jupyter.agent.policy import Policy
from cumulus_jupyter.agent.provider import Provider, Request
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.agent.tool import Output, Tool
from cumulus_jupyter.agent.toolbox import Toolbox
from cumulus_jupyter.agent.transcript import Transcript

MODELS = {"chat": "openai/m-test", "messages": "anthropic/claude-test"}
"""A model on each wire."""


@dataclass
class Ran:
    """What came of a conversation."""

    results: list[RunResult]
    events: list[Event]
    transcript: Transcript

    @property
    def result(self) -> RunResult:
        """The last run's result."""
        return self.results[-1]

    @property
    def shown(self) -> str:
        """The text that stands before the reader at the end: streamed, and not taken back."""
        text = ""
        for event in self.events:
            if isinstance(event, TextDelta):
                text += event.text
            elif isinstance(event, ReplyDiscarded) and event.characters:
                text = text[: -event.characters]
        return text


@dataclass
class Calls:
    """Tools that note their calls."""

    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def tool(self, name: str, *parameters: str, result: Callable[..., Any] = lambda **_: "ok", **fields: Any) -> Tool:
        """A tool with text parameters; ``result`` gets its arguments."""

        async def run(context: Any, arguments: dict[str, Any]) -> Output:
            self.seen.append((name, arguments))
            value = result(**arguments)
            return value if isinstance(value, Output) else Output(value)

        schema = {
            "type": "object",
            "properties": {p: {"type": "string"} for p in parameters},
            "required": list(parameters),
        }
        fields.setdefault("description", f"Does {name}.")
        return Tool(name=name, schema=lambda: schema, run=run, **fields)


def converse(
    provider: Provider,
    prompts: Sequence[str],
    tools: Sequence[Tool] = (),
    *,
    note: str = "",
    transcript: Transcript | None = None,
    limits: Limits | None = None,
    system: str = "You are in a test.",
) -> Ran:
    """Run the prompts, one after another, in one conversation."""
    toolbox = Toolbox(tools, host=None, root=Path.cwd(), policy=Policy("all"))  # type: ignore[arg-type]
    session = Session(transcript or Transcript(), provider, toolbox, limits or Limits(), system)
    ran = Ran([], [], session.transcript)

    async def go() -> None:
        for prompt in prompts:
            async with aclosing(session.stream(prompt, note)) as events:
                async for event in events:
                    ran.events.append(event)
                    if isinstance(event, Finished):
                        ran.results.append(event.result)
        await provider.close()

    asyncio.run(go())
    return ran


def ask(provider: Provider, request: Request) -> tuple[list[Any], Reply]:
    """One request without the engine: the deltas and the reply."""

    async def go() -> list[Any]:
        stream: AsyncGenerator[Any, None] = provider.stream(request)
        async with aclosing(stream) as items:
            found = [item async for item in items]
        await provider.close()
        return found

    *deltas, reply = asyncio.run(go())
    return deltas, reply
