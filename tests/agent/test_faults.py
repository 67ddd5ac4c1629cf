"""Faults of a model's server at each moment of a run, over both wires: nothing is lost, repeated or shown twice.

The run asks three times: a call; a call beside a question; the last words. A fault stands before the answer to one of
these requests. In the default suite each fault comes once; its other moments and wires are marked ``long``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent import retrying
from cumulus_jupyter.agent.events import (
    Event,
    Finished,
    QuestionAsked,
    ReplyDiscarded,
    Retrying,
    RoundStarted,
    TextDelta,
    ToolStarted,
)
from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import Answer, Ask, Outcome, Question, Reply, Status, ToolResults
from cumulus_jupyter.agent.policy import Policy
from cumulus_jupyter.agent.provider import Provider
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.agent.tool import Output, Tool
from cumulus_jupyter.agent.toolbox import Toolbox
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.providers import failures, transport
from cumulus_jupyter.providers.catalog import resolve

from ..wire.faults import ENDS, FAULTS, Elsewhere, body_of
from ..wire.harness import MODELS, Calls
from ..wire.server import ModelServer, Turn

SILENCE = 0.6
TURNS = [
    Turn("Looking around. ", thinking="Where to look first?", calls=[("look", {"where": "here"})]),
    Turn("I must know. ", calls=[("ask", {}), ("look", {"where": "there"})]),
    Turn("All is well.", thinking="That was all."),
]
MOMENTS = {"first request": 0, "after a tool round": 1, "after an answer": 2}


class Switch:
    """A provider that asks another place from one moment to another."""

    def __init__(self, good: Provider) -> None:
        self.good = self.now = good
        self.name, self.host, self.notice = good.name, good.host, good.notice

    @property
    def facts(self) -> Any:
        return self.good.facts

    async def stream(self, request: Any) -> AsyncGenerator[Any, None]:
        async with aclosing(self.now.stream(request)) as items:
            async for item in items:
                yield item

    def body(self, request: Any) -> bytes:
        return self.good.body(request)

    async def close(self) -> None:
        await self.good.close()
        if self.now is not self.good:
            await self.now.close()


@dataclass
class Bench:
    """A session on one wire against a scripted server, and what came of it."""

    wire: str
    server: ModelServer
    calls: Calls = field(default_factory=Calls)
    events: list[Event] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    elsewhere: Elsewhere = field(default_factory=Elsewhere)

    def __post_init__(self) -> None:
        self.provider = Switch(resolve(MODELS[self.wire], env=self.server.env()))
        tools = [self.calls.tool("look", "where", result=lambda where: f"{where}: a file"), asking()]
        toolbox = Toolbox(tools, host=None, root=Path.cwd(), policy=Policy("all"))  # type: ignore[arg-type]
        self.session = Session(Transcript(), self.provider, toolbox, Limits(), "You are in a test.")

    def ask_elsewhere(self, place: str) -> Provider:
        url = self.elsewhere.address(place)
        env = {**self.server.env(), "ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1"}
        return resolve(MODELS[self.wire], env=env)

    async def run(self, prompt: str, place: str = "", at: int = -1, times: int = 1) -> Status:
        """Run a prompt, answering what it asks; ``place`` answers request ``at`` so many times."""
        events: AsyncGenerator[Event, None] | None = self.session.stream(prompt)
        tries = 0
        while events is not None:
            waiting: list[Ask] = []
            async with aclosing(events):
                async for event in events:
                    self.events.append(event)
                    if place and isinstance(event, RoundStarted) and event.number == at + 1:
                        self.provider.now = self.ask_elsewhere(place)
                    if place and isinstance(event, (Retrying, Finished)):
                        tries += 1
                        if tries >= times and self.provider.now is not self.provider.good:
                            await self.provider.now.close()
                            self.provider.now = self.provider.good
                    if isinstance(event, QuestionAsked):
                        waiting.append(event.ask)
            for ask in waiting:
                self.session.answer(ask, Answer(Outcome.ANSWERED, ("yes",)))
            events = self.session.resume() if waiting else None
        return self.session.transcript.status

    def go(self, *prompts: str, **fault: Any) -> list[Status]:
        """Run the prompts, the first one with the fault."""

        async def main() -> list[Status]:
            done = [await self.run(prompts[0], **fault)]
            done += [await self.run(prompt) for prompt in prompts[1:]]
            await self.provider.close()
            return done

        try:
            return asyncio.run(main())
        finally:
            self.elsewhere.close()

    @property
    def retries(self) -> list[Retrying]:
        return [event for event in self.events if isinstance(event, Retrying)]

    @property
    def shown(self) -> str:
        text = ""
        for event in self.events:
            if isinstance(event, TextDelta):
                text += event.text
            elif isinstance(event, ReplyDiscarded) and event.characters:
                assert len(text) >= event.characters
                text = text[: -event.characters]
        return text

    def check(self) -> None:
        """What must hold whatever went wrong."""
        transcript = self.session.transcript
        assert self.server.refused == []
        groups = [message for message in transcript.messages if isinstance(message, ToolResults)]
        for group in groups:
            assert [call.id for call in group.calls] == [result and result.call_id for result in group.results]
        ids = [call.id for group in groups for call in group.calls]
        assert len(set(ids)) == len(ids)
        results = Counter(line["call"] for line in transcript.lines if line["type"] == "result")
        assert set(results.values()) <= {1}
        started = Counter(event.call.id for event in self.events if isinstance(event, ToolStarted))
        assert set(started.values()) <= {1}
        assert all(where == {"where": "here"} or where == {"where": "there"} for _, where in self.calls.seen)
        assert len(self.calls.seen) == len({where["where"] for _, where in self.calls.seen})
        assert self.shown == "".join(message.text for message in transcript.messages if isinstance(message, Reply))
        assert Transcript.load(transcript.session, transcript.lines).messages == transcript.messages


def asking() -> Tool:
    return Tool(
        name="ask",
        description="Asks.",
        schema=lambda: {"type": "object", "properties": {}},
        run=lambda context, arguments: None,  # type: ignore[arg-type,return-value]
        ask=lambda call: Ask(call.id, call.name, (Question("Go on?", "Go"),)),
        answered=lambda ask, answer: Output(f"Go: {answer.values[0]}", {"answers": [("Go", answer.values[0])]}),
    )


@pytest.fixture
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Bench]]:
    """Make the bench of a wire and a script; pauses take no time and are noted."""
    with contextlib.ExitStack() as stack:

        def make(wire: str, *script: Turn) -> Bench:
            made = Bench(wire, stack.enter_context(ModelServer(script)))

            async def at_once(seconds: float) -> None:
                made.pauses.append(seconds)

            monkeypatch.setattr(retrying, "sleep", at_once)
            return made

        yield make


def shorten_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "SILENCE", SILENCE)
    monkeypatch.setattr(failures, "SILENCE", SILENCE)


def matrix() -> list[Any]:
    """Fault × moment × wire; one cell of each fault is in the default suite."""
    cells = []
    for number, name in enumerate(FAULTS):
        for side, wire in enumerate(MODELS):
            for moment, at in MOMENTS.items():
                marks = () if number % 6 == 2 * at + side else (pytest.mark.long,)
                cells.append(pytest.param(wire, name, moment, marks=marks, id=f"{wire}-{name}-{moment}"))
    return cells


@pytest.mark.parametrize(("wire", "name", "moment"), matrix())
def test_a_fault_at_a_moment(
    wire: str, name: str, moment: str, bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that passes is tried again and leaves no trace; one that doesn't ends the run with its reason."""
    fault, at = FAULTS[name], MOMENTS[moment]
    if "silence" in name:
        shorten_silence(monkeypatch)
    script = list(TURNS)
    if fault.turn:
        script.insert(at, fault.turn(wire, TURNS[at]))
    if not fault.passes:  # the next prompt goes on from what there is
        script[at + bool(fault.turn) :] = [Turn("So it goes on.")]
    else:
        script.append(Turn("So it goes on."))
    made = bench(wire, *script)
    first, second = made.go("go", "on", place=fault.place, at=at)
    made.check()
    assert second is Status.DONE
    assert made.session.transcript.run_result().text == "So it goes on."
    assert len(made.retries) in fault.retried
    assert all(fault.words in event.reason for event in made.retries)
    ends = [event.result for event in made.events if isinstance(event, Finished)]
    assert first is (Status.DONE if fault.passes else Status.FAILED)
    assert made.server.script == []
    if fault.passes:
        assert [where["where"] for _, where in made.calls.seen] == ["here", "there"]
        assert made.pauses == [event.seconds for event in made.retries]
        assert all(pause == fault.seconds if fault.seconds else 1 <= pause <= 60 for pause in made.pauses)
    else:
        assert fault.words in (ends[0].error or "")
        assert [where["where"] for _, where in made.calls.seen] == ["here", "there"][:at]


LASTING = ["429", "503", "connection refused", "cut in text", "cut inside a call's arguments"]


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize(
    ("name", "moment"),
    [
        pytest.param(name, moment, marks=() if number % 3 == at else (pytest.mark.long,))
        for number, name in enumerate(LASTING)
        for moment, at in MOMENTS.items()
    ],
)
def test_a_fault_that_stays(wire: str, name: str, moment: str, bench: Callable[..., Bench]) -> None:
    """After five attempts with growing pauses the run ends with the reason, and the next prompt goes on."""
    fault, at = FAULTS[name], MOMENTS[moment]
    dead = [fault.turn(wire, TURNS[at])] * 5 if fault.turn else []
    made = bench(wire, *TURNS[:at], *dead, Turn("So it goes on."))
    first, second = made.go("go", "on", place=fault.place, at=at, times=5)
    made.check()
    assert (first, second) == (Status.FAILED, Status.DONE)
    assert [(event.attempt, event.attempts) for event in made.retries] == [(n, 5) for n in (2, 3, 4, 5)]
    assert made.pauses[3] > made.pauses[0]
    end = next(event.result for event in made.events if isinstance(event, Finished))
    assert end.error
    assert fault.words in end.error


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("abort", [True, False])
def test_a_stream_that_breaks_behind_its_finish(wire: str, abort: bool, bench: Callable[..., Bench]) -> None:
    """The reply is whole: whether it is taken or asked for again, its call runs once."""
    body, mark = body_of(wire, TURNS[0]), ENDS[wire]["between the finish and its end"]
    body = body[: body.index(b"\n\n", body.index(mark)) + 2]
    again = [TURNS[0]] if abort else []
    made = bench(wire, Turn(body=body, drop=len(body) if abort else None), *again, *TURNS[1:])
    made.server.signed["claude-test"] = {"sig-of-a-dead-attempt"}
    assert made.go("go") == [Status.DONE]
    made.check()
    assert [where["where"] for _, where in made.calls.seen] == ["here", "there"]


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("stays", [False, True])
def test_a_fault_while_a_cut_answer_is_continued(wire: str, stays: bool, bench: Callable[..., Bench]) -> None:
    """What was said before it stays said: it is joined with the rest, or it is what the run ended with."""
    length = "length" if wire == "chat" else "max_tokens"
    half = Turn("The three causes are heat, ", stop=length, usage=(100, 16_384))
    dead = [FAULTS["cut in text"].turn(wire, half)] * (5 if stays else 1)  # type: ignore[misc]
    made = bench(wire, half, *dead, *([] if stays else [Turn("dust and age.")]), Turn("So it goes on."))
    first, second = made.go("go", "on")
    made.check()
    assert (first, second) == (Status.FAILED if stays else Status.DONE, Status.DONE)
    text = "The three causes are heat, " + ("" if stays else "dust and age.")
    assert made.shown == f"{text}So it goes on."


@pytest.mark.parametrize("wire", MODELS)
def test_faults_of_several_kinds_in_one_run(wire: str, bench: Callable[..., Bench]) -> None:
    """Attempts are counted for each request on its own."""
    kinds = ["429", "cut in text", "500", "ended in thinking"]
    script = [turn for true in TURNS for turn in (*[FAULTS[kind].turn(wire, true) for kind in kinds], true)]  # type: ignore[misc]
    made = bench(wire, *script)
    assert made.go("go") == [Status.DONE]
    made.check()
    assert len(made.retries) == 12
    assert [where["where"] for _, where in made.calls.seen] == ["here", "there"]
