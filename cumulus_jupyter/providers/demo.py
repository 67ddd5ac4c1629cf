"""The embedded model: a script that reacts to what its tools return, for tours, lessons and tests without a network.

It understands nothing. It looks for a table in the folder, profiles it, asks which column matters, draws what that
column depends on, and leaves the code in the notebook; every name and number that it says stands in a tool's result.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable
from typing import Any

from ..agent.events import TextDelta, ThinkingDelta
from ..agent.messages import Reply, StopReason, ToolCall, Usage, UserMessage
from ..agent.provider import ModelFacts, Request
from .demo_analysis import analyse
from .demo_row import fill
from .demo_turn import Seen, Turn

__all__ = ["DemoProvider"]


class DemoProvider:
    """The scripted model as a provider."""

    name = "demo"
    host = "this machine"
    facts = ModelFacts()
    notice = "a scripted model: it reacts to what its tools return, but understands nothing. Choose a real one with -m."

    async def stream(self, request: Request) -> AsyncGenerator[TextDelta | ThinkingDelta | Reply, None]:
        """Say the next scripted turn, word by word."""
        turn = _turn(request)
        for word in re.findall(r"\S+\s*|\s+", turn.text):
            await asyncio.sleep(turn.pause)
            yield TextDelta(word)
        calls = [ToolCall("", name, arguments) for name, arguments in turn.calls]
        stop = StopReason.TOOL_CALLS if calls else StopReason.END
        read = len(self.body(request)) // 4
        usage = Usage(read, 0, (len(turn.text) + len(json.dumps([c.arguments for c in calls]))) // 4)
        yield Reply(turn.text, calls, stop, usage, self.name)

    def body(self, request: Request) -> bytes:
        """What a model would be sent, as text."""
        return "\n".join([request.system, *(_said(message) for message in request.messages)]).encode()

    async def close(self) -> None:
        """Nothing to release."""


def _said(message: Any) -> str:
    if isinstance(message, UserMessage):
        return f"{message.text}\n{message.note}"
    if isinstance(message, Reply):
        return message.text
    return "\n".join(result.text for result in message.results if result is not None)


def _turn(request: Request) -> Turn:
    if not request.allow_calls:
        return Turn("That is as far as I may go.", [])
    if submit := next((tool for tool in request.tools if tool.name == "submit_result"), None):
        return fill(submit.name, submit.schema(), Seen(request).prompt)
    return _next_turn(Seen(request))


def _next_turn(seen: Seen) -> Turn:
    for pattern, script in _INTENTS:
        if match := re.search(pattern, seen.prompt, re.IGNORECASE | re.MULTILINE):
            return script(seen, match)
    return analyse(seen)


# Small talk ------------------------------------------------------------------------------------------------------


def _greet(seen: Seen, _match: re.Match[str]) -> Turn:
    return Turn(
        "Hi! I am the scripted demo model. Put a CSV file into this folder and ask me what drives one of its columns: "
        "I will read it, profile it, ask you one question, draw a chart and leave the code in your notebook.",
        [],
    )


def _count(seen: Seen, match: re.Match[str]) -> Turn:
    last = min(int(match[1] or 30), 500)
    return Turn(" ".join(map(str, range(1, last + 1))), [], 0.2)


def _ask(seen: Seen, match: re.Match[str]) -> Turn:
    if (answer := seen.result("AskUserQuestion")) is not None:
        return Turn(f"You said: {answer.text}", [])
    options = [part.strip(" ?.,") for part in re.split(r"\s+or\s+|,", match[1]) if part.strip(" ?.,")]
    question: dict[str, Any] = {"question": match[1].strip(), "header": "Question"}
    if 2 <= len(options) <= 4:
        question["options"] = options
    return Turn("I'll ask.", [("AskUserQuestion", {"questions": [question]})])


_INTENTS: list[tuple[str, Callable[[Seen, re.Match[str]], Turn]]] = [
    (r"^\W*(?:say )?(?:hi|hello|hey)\W*$", _greet),
    (r"\bcount\b(?:.*?(\d+))?", _count),
    (r"\bask me:?\s+(.+)", _ask),
]
