"""A run that may be killed: ``python -m tests.jupyter.mortal FOLDER`` tells each stored line on standard output.

Its tools write a ledger in the folder before and behind their work; its question is answered by a line on standard
input. What the model says follows from how many replies the conversation has, so any process can go on with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from cumulus_jupyter.agent.events import Event, QuestionAsked, TextDelta
from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import Answer, Ask, Outcome, Reply, StopReason, ToolCall, Usage
from cumulus_jupyter.agent.policy import Policy
from cumulus_jupyter.agent.provider import ModelFacts, Request
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.agent.tool import Tool
from cumulus_jupyter.agent.toolbox import Toolbox
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.script import ScriptHost
from cumulus_jupyter.store import Store

from ..agent.test_properties import check_request, question

SAID: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
    ("Let me look around before I begin.", [("step", {"n": 1})]),
    ("Three at once.", [("step", {"n": 2}), ("step", {"n": 3, "long": True}), ("step", {"n": 4})]),
    ("Now I must know.", [("ask", {}), ("step", {"n": 5})]),
    ("Thanks.", [("step", {"n": 6}), ("step", {"n": 7})]),
    ("All is done.", []),
]
STEPS = 7
LONG = 40_000
"""Characters of a result that only a window of reaches the model."""


class Steady:
    """Says the reply that comes next in the conversation; refuses what a server would refuse."""

    name, host, notice, facts = "steady", "here", "", ModelFacts()

    async def stream(self, request: Request) -> AsyncGenerator[Any, None]:
        check_request(request)
        number = sum(isinstance(message, Reply) for message in request.messages)
        text, asked = SAID[min(number, len(SAID) - 1)]
        for word in text.split(" "):
            yield TextDelta(word if word == text.split(" ")[0] else f" {word}")
            await asyncio.sleep(0.001)
        calls = [ToolCall("", name, arguments, f"id{number}_{at}") for at, (name, arguments) in enumerate(asked)]
        yield Reply(text, calls, StopReason.TOOL_CALLS if calls else StopReason.END, Usage(100, 0, 20), "steady")

    def body(self, request: Request) -> bytes:
        return b""

    async def close(self) -> None:
        pass


def session(transcript: Transcript, folder: Path) -> Session:
    """The session on a conversation, old or new."""
    ledger = os.open(folder / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def step(context: Any, arguments: dict[str, Any]) -> Any:
        os.write(ledger, f"+{arguments['n']}\n".encode())
        await asyncio.sleep(0.002 * arguments["n"])
        os.write(ledger, f"-{arguments['n']}\n".encode())
        from cumulus_jupyter.agent.tool import Output

        return Output("x" * LONG if arguments.get("long") else f"step {arguments['n']} done")

    schema: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [Tool(name="step", description="A step.", schema=lambda: schema, run=step), question()]
    toolbox = Toolbox(tools, host=ScriptHost(), root=folder, policy=Policy("all", person=True))
    return Session(transcript, Steady(), toolbox, Limits(), "system")


def main(folder: Path) -> None:
    """Run a prompt to its end, or to this process's."""
    transcript = Store(folder / "data").create()
    store = transcript.sink
    assert store

    def stored(line: dict[str, Any]) -> None:
        store(line)
        os.write(1, json.dumps(line).encode() + b"\n")

    transcript.sink = stored
    os.write(1, b"ready\n")
    made = session(transcript, folder)

    async def run() -> None:
        events: AsyncGenerator[Event, None] | None = made.stream("go")
        while events is not None:
            asked: Ask | None = None
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, QuestionAsked):
                        asked = event.ask
            if asked:
                os.write(1, b"asked\n")
                await asyncio.to_thread(sys.stdin.readline)
                made.answer(asked, Answer(Outcome.ANSWERED, ("yes",)))
            events = made.resume() if asked else None

    asyncio.run(run())
    os.write(1, b"ended\n")
    time.sleep(60)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
