"""A run that is stopped at every moment it has: each event, each step of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from cumulus_jupyter.agent import retrying
from cumulus_jupyter.agent.errors import ProviderError, ToolError
from cumulus_jupyter.agent.events import Event, Finished, QuestionAsked, ReplyDiscarded, TextDelta
from cumulus_jupyter.agent.messages import Answer, Outcome, Reply, Status, StopReason, ToolResults
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.agent.transcript import Transcript

from .conftest import Scripted, drain, make, say
from .test_properties import check_request, question

Build = Callable[..., Session]


def script() -> list[Reply | ProviderError]:
    """Texts, calls that end well, badly and late, a question, a cut text, a cut call and a passing fault."""
    passing = ProviderError("overloaded", status=529, retryable=True)
    passing.said = "half a word"  # type: ignore[attr-defined]
    return [
        say("Let me look.", ("ok", {"n": 1}), ("slow", {"n": 2}), ("fails", {}), ("late", {})),
        passing,
        say("And now?", ("ask", {}), ("slow", {"n": 3})),
        say("A cut call. ", ("ok", {"n": 4}), stop=StopReason.LENGTH, output=16_384),
        say("It is heat, ", stop=StopReason.LENGTH, output=32_768),
        say("dust and age.", ("slow", {"n": 5}), ("ok", {"n": 6})),
        say("That was all."),
    ]


class Checked(Scripted):
    """Says its script, and minds what it is sent."""

    async def stream(self, request: Any) -> AsyncGenerator[Any, None]:
        check_request(request)
        async with aclosing(super().stream(request)) as items:
            async for item in items:
                yield item


class Stopping:
    """A session on the script that notes what it ran."""

    def __init__(self, session: Build, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ran: Counter[str] = Counter()
        self.events: list[Event] = []

        async def work(ctx: Any, _arguments: dict[str, Any]) -> str:
            self.ran[ctx.call.id] += 1
            if ctx.call.name == "fails":
                raise ToolError("try another way")
            for _ in range(4 if ctx.call.name == "slow" else 0):
                await asyncio.sleep(0)
            if ctx.call.name == "late":
                await asyncio.sleep(0.002)
            return "ok"

        async def at_once(_seconds: float) -> None:
            await asyncio.sleep(0)

        monkeypatch.setattr(retrying, "sleep", at_once)
        tools = [make(name, work, timeout=0.001 if name == "late" else 9) for name in ("ok", "slow", "fails", "late")]
        self.provider = Checked(*script())
        self.session = session(self.provider, [*tools, question()])

    async def run(self, leave: int = -1) -> None:
        """Run the script, answering its question; left behind so many events."""
        events: AsyncGenerator[Event, None] | None = self.session.stream("go")
        while events is not None:
            asked = None
            async with aclosing(events):
                async for event in events:
                    self.events.append(event)
                    if len(self.events) == leave:
                        return
                    if isinstance(event, QuestionAsked):
                        asked = event.ask
            if asked:
                self.session.answer(asked, Answer(Outcome.ANSWERED, ("yes",)))
            events = self.session.resume() if asked else None

    def shown(self) -> str:
        text = ""
        for event in self.events:
            if isinstance(event, TextDelta):
                text += event.text
            elif isinstance(event, ReplyDiscarded):
                text = text[: len(text) - event.characters]
        return text

    async def check(self) -> bool:
        """Close the run as the cell does, look at what is there, and go on; whether the run had ended by itself."""
        ended = bool(self.events) and isinstance(self.events[-1], Finished)
        transcript = self.session.transcript
        if not ended:
            assert self.session.stopped().status is Status.STOPPED
        assert transcript.status is (Status.DONE if ended else Status.STOPPED)
        assert not transcript.open_calls
        for group in transcript.messages:
            if isinstance(group, ToolResults):
                assert [call.id for call in group.calls] == [result and result.call_id for result in group.results]
        assert max(self.ran.values(), default=0) <= 1
        assert self.shown() == "".join(message.text for message in transcript.messages if isinstance(message, Reply))
        lines = len(transcript.lines)
        await asyncio.sleep(0.004)
        assert all(line["type"] == "ended_late" for line in transcript.lines[lines:]), "nothing goes on behind a stop"
        self.provider.replies = [say("Here I am.")]
        await drain(self.session.stream("and now?"))
        assert transcript.run_result().status is Status.DONE
        assert Transcript.load(transcript.session, transcript.lines).messages == transcript.messages
        return ended


@pytest.mark.parametrize("way", ["left behind an event", "cancelled at an event", "cancelled at a step"])
def test_stopped_anywhere_the_next_prompt_goes_on(
    way: str, session: Build, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def stop(moment: int) -> bool:
        made = Stopping(session, monkeypatch)
        task = asyncio.ensure_future(made.run(moment if way == "left behind an event" else -1))
        if way == "left behind an event":
            await task
        elif way == "cancelled at an event":
            while len(made.events) < moment and not task.done():  # noqa: ASYNC110
                await asyncio.sleep(0)
        else:
            for _ in range(moment):
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        return await made.check()

    moment = 1
    while not asyncio.run(stop(moment)):
        moment += 1
    assert moment > 40
    assert caplog.records == []
