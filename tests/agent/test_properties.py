"""Random conversations: whatever a model, tools, a person and a dying kernel do, the transcript keeps its invariants.

A list of numbers decides everything, in order: what the model says to each request, what the person does at each
pause, where a run is stopped or the kernel dies. The requests are checked by what real servers refuse.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest
from hypothesis import configuration
from hypothesis import strategies as st

from cumulus_jupyter.agent import retrying
from cumulus_jupyter.agent.errors import ProviderError, ToolError
from cumulus_jupyter.agent.events import (
    ApprovalAsked,
    Event,
    Finished,
    Paused,
    QuestionAsked,
    ReplyDiscarded,
    TextDelta,
)
from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import (
    Answer,
    Ask,
    Outcome,
    Question,
    Reply,
    Status,
    StopReason,
    ToolCall,
    ToolResults,
    Usage,
    UserMessage,
)
from cumulus_jupyter.agent.policy import DENY, ONCE, SESSION, Policy
from cumulus_jupyter.agent.provider import ModelFacts, Request
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.agent.tool import Access, Output, Tool
from cumulus_jupyter.agent.toolbox import Toolbox
from cumulus_jupyter.agent.transcript import Line, Transcript
from cumulus_jupyter.providers.catalog import resolve
from cumulus_jupyter.script import ScriptHost
from cumulus_jupyter.store import Store

from ..wire.harness import MODELS
from ..wire.validate import chat_fault, messages_fault

T = TypeVar("T")
configuration.set_hypothesis_home_dir(Path(tempfile.gettempdir(), "hypothesis"))
ENV = {"OPENAI_API_KEY": "loopback-key", "ANTHROPIC_API_KEY": "loopback-key"}
WIRES = {wire: resolve(name, env=ENV) for wire, name in MODELS.items()}
STATE = ("messages", "answers", "approved", "fetched", "todos", "decisions", "late", "ended", "run", "turns", "repeats")


class Dice:
    """Numbers that decide; when they are used up, the first choice is taken."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = iter(numbers)

    def pick(self, *choices: T) -> T:
        return choices[next(self._numbers, 0) % len(choices)]


class Model:
    """Says what the dice say, and refuses requests that a server would refuse."""

    name, host, notice, facts = "dice", "here", "", ModelFacts(ceiling=32_768)

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._numbers = itertools.count()

    async def stream(self, request: Request) -> AsyncGenerator[Any, None]:
        check_request(request)
        reply = self._reply(next(self._numbers), request.max_tokens)
        await asyncio.sleep(0)
        text = reply.text if isinstance(reply, Reply) else "of a dead attempt"
        for start in range(0, len(text), 9):
            yield TextDelta(text[start : start + 9])
            await asyncio.sleep(0)
        if not isinstance(reply, Reply):
            raise reply
        yield reply

    def _reply(self, number: int, budget: int) -> Reply | ProviderError:
        if number > 25:
            return Reply("That is all.", usage=Usage(10, 0, 5))
        kind = self._dice.pick(
            "end", "calls", "calls", "calls", "length", "cut", "hidden", "thinking", "fault", "refused"
        )
        text = self._dice.pick("", f"Reply {number} says some words. ")
        if kind == "fault":
            return ProviderError("overloaded", status=529, retryable=True)
        if kind == "refused":
            return ProviderError("no", status=400)
        if kind == "end":
            return Reply(text or "Done.", usage=Usage(10, 0, 5))
        if kind == "length":
            used = self._dice.pick(budget, 5)
            return Reply(text or f"Cut {number}", stop=StopReason.LENGTH, usage=Usage(10, 0, used))
        if kind == "thinking":
            return Reply("", stop=StopReason.LENGTH, usage=Usage(10, 0, budget))
        calls = [self._call(number, at) for at in range(self._dice.pick(1, 2, 3))]
        if kind == "hidden":
            calls[-1] = ToolCall("", "ok", None, "hidden", '{"a": "b')
        stop = StopReason.LENGTH if kind == "cut" else StopReason.TOOL_CALLS
        return Reply(text, calls, stop, Usage(10, 0, 5))

    def _call(self, number: int, at: int) -> ToolCall:
        name = self._dice.pick("ok", "ask", "fails", "crashes", "slow", "hangs", "late", "risky", "nosuch")
        arguments = self._dice.pick({"n": number, "at": at}, {})
        return ToolCall("", name, dict(arguments), self._dice.pick(f"id{number}_{at}", "again", ""))

    def body(self, request: Request) -> bytes:
        return b""

    async def close(self) -> None:
        pass


def check_request(request: Request) -> None:
    """What any server wants, and the two wires in the words of their own refusals."""
    messages = request.messages
    assert isinstance(messages[0], UserMessage)
    for before, message in itertools.pairwise([*messages, UserMessage("")]):
        if isinstance(before, Reply) and before.calls:
            assert isinstance(message, ToolResults)
            assert message.calls == before.calls
        if isinstance(message, ToolResults):
            assert [call.id for call in message.calls] == [result and result.call_id for result in message.results]
    chat = json.loads(WIRES["chat"].body(request))
    assert (fault := chat_fault(chat)) is None, fault
    other = json.loads(WIRES["messages"].body(request))
    assert (fault := messages_fault(other, set())) is None, fault


def question() -> Tool:
    """A question to the person, as a tool."""

    def ask(call: ToolCall) -> Ask:
        return Ask(call.id, call.name, (Question("Which?", "Pick"),))

    def answered(_ask: Ask, answer: Answer) -> Output:
        told = [["Pick", value] for value in answer.values]
        return Output(f"{answer.outcome}: {told}", {"answers": told}, answer.outcome is Outcome.ANSWERED)

    def run(context: Any, arguments: dict[str, Any]) -> Any:
        raise AssertionError("a question is not run")

    schema: dict[str, Any] = {"type": "object", "properties": {}}
    return Tool(name="ask", description="Asks.", schema=lambda: schema, run=run, ask=ask, answered=answered)


class Disk:
    """Where the lines of one kernel go, until it is dead: then nothing of it counts any more."""

    def __init__(self, transcript: Transcript) -> None:
        assert transcript.sink
        self._store, transcript.sink = transcript.sink, self._take
        self.lines = list(transcript.lines)
        self.left = -1
        """Lines until the kernel dies; below zero it lives."""

    @property
    def dead(self) -> bool:
        return self.left == 0

    def _take(self, line: Line) -> None:
        if not self.dead:
            self._store(line)
            self.lines.append(line)
            self.left -= 1


class Life:
    """One conversation, through kernels that die and runs that are stopped."""

    def __init__(self, numbers: Sequence[int], folder: Path) -> None:
        self.dice = Dice(numbers)
        self.model = Model(self.dice)
        self.folder = folder
        self.ran: Counter[str] = Counter()
        self.store = Store(folder)
        self.session = self._session(self.store.create())
        self.waiting: list[Ask] = []
        self.closed: list[Ask] = []

    @property
    def transcript(self) -> Transcript:
        return self.session.transcript

    def _session(self, transcript: Transcript) -> Session:
        disk = self.disk = Disk(transcript)
        tools = [self._tool(name, disk) for name in ("ok", "fails", "crashes", "slow", "hangs", "late", "risky")]
        toolbox = Toolbox(
            [*tools, question()], host=ScriptHost(), root=self.folder, policy=Policy("edits", person=True)
        )
        return Session(transcript, self.model, toolbox, Limits(turns=8), "system")

    def _tool(self, name: str, disk: Disk) -> Tool:
        async def run(context: Any, arguments: dict[str, Any]) -> Output:
            if disk.dead:
                await asyncio.sleep(30)
            self.ran[context.call.id] += 1
            assert context.call in context.transcript.open_calls, "it has its result already"
            if name == "fails":
                raise ToolError("try another way")
            if name == "crashes":
                raise KeyError("x")
            for _ in range(3 if name == "slow" else 0):
                await asyncio.sleep(0)
            if name in ("hangs", "late"):
                await asyncio.sleep(30 if name == "hangs" else 0.006)
            return Output(f"{name} {arguments}")

        limit = 0.003 if name in ("hangs", "late") else None
        access = Access.RUN if name == "risky" else Access.FREE
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        fields: dict[str, Any] = {"timeout": limit, "access": lambda root, arguments: access}
        return Tool(name=name, description=f"{name}.", schema=lambda: schema, run=run, **fields)

    async def live(self) -> None:
        await self.act(self.session.stream("go"))
        for number in range(6):
            if self.waiting and (answered := self.person()):
                await self.act(self.session.resume())
            elif not self.waiting or not answered:
                await self.act(self.session.stream(f"prompt {number}"))
        await asyncio.sleep(0)
        self.check()

    def person(self) -> bool:
        """What a person does at a pause; whether the run goes on for it."""
        for ask in self.closed:
            self.transcript.late_answer(ask, Answer(Outcome.ANSWERED, ("late",)))
        self.closed.clear()
        if self.dice.pick("answer", "prompt") == "prompt":
            self.closed, self.waiting = self.waiting, []
            return False
        for ask in self.waiting:
            self.session.answer(ask, self.word(ask))
            self.session.answer(ask, Answer(Outcome.ANSWERED, ("a second click",)))
        self.waiting = []
        return True

    def word(self, ask: Ask) -> Answer:
        outcome = self.dice.pick(Outcome.ANSWERED, Outcome.DECLINED, Outcome.TIMED_OUT, Outcome.NO_USER)
        value = self.dice.pick(ONCE, DENY, SESSION) if ask.approval else "red"
        return Answer(outcome, (value,) if outcome is Outcome.ANSWERED else ())

    async def act(self, events: AsyncGenerator[Event, None]) -> None:
        """A run, to its end or to where it is stopped or its kernel dies."""
        end = self.dice.pick("whole", "whole", "whole", "left", "stopped", "killed")
        moment = self.dice.pick(*range(40))
        seen: list[Event] = []
        before = len(self.transcript.lines)
        task = asyncio.ensure_future(self.consume(events, seen, moment if end == "left" else -1))
        if end == "killed":
            self.disk.left = 1 + moment % 12
            while not (task.done() or self.disk.dead):  # noqa: ASYNC110
                await asyncio.sleep(0)
            await self.die(task)
            return
        if end == "stopped":
            for _ in range(moment * 2):
                await asyncio.sleep(0)
        else:
            await asyncio.wait({task})
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()):
            raise error
        if not (seen and isinstance(seen[-1], (Paused, Finished))):
            self.session.stopped()
            self.waiting = []
        elif isinstance(seen[-1], Paused):
            self.waiting = list(seen[-1].waiting)
        self.check_shown(seen, before)
        self.check()

    async def consume(self, events: AsyncGenerator[Event, None], seen: list[Event], leave: int) -> None:
        async with aclosing(events):
            async for event in events:
                seen.append(event)
                if len(seen) == leave:
                    return
                if isinstance(event, (QuestionAsked, ApprovalAsked)) and self.dice.pick(False, False, True):
                    self.session.answer(event.ask, self.word(event.ask))

    async def die(self, task: asyncio.Task[None]) -> None:
        """The kernel ends at once, perhaps within a line; the next one takes the conversation up."""
        self.disk.left = 0
        stored = self.disk.lines
        uuid = self.transcript.session
        self.store.close()
        task.cancel()
        await asyncio.wait({task})
        torn = json.dumps({"v": 1, "seq": len(stored) + 1, "type": "result", "call": "größer"}, ensure_ascii=False)
        path = self.folder / f"{uuid}.jsonl"
        path.write_bytes(path.read_bytes() + torn.encode()[: self.dice.pick(0, 1, 30, 53)])
        self.store = Store(self.folder)
        loaded = self.store.load(uuid)
        assert loaded.lines == json.loads(json.dumps(stored)), "nothing that was stored is lost"
        self.session = self._session(loaded)
        self.waiting = []
        if self.session.recover():
            await self.act(self.session.resume())

    def check(self) -> None:
        """What holds between runs."""
        transcript = self.transcript
        assert max(self.ran.values(), default=0) <= 1, "no call runs twice"
        groups = [message for message in transcript.messages if isinstance(message, ToolResults)]
        ids = [call.id for group in groups for call in group.calls]
        assert len(set(ids)) == len(ids)
        results = Counter(line["call"] for line in transcript.lines if line["type"] == "result")
        assert max(results.values(), default=0) <= 1
        open_calls = {call.id for call in transcript.open_calls}
        assert open_calls <= {ask.call_id for ask in self.waiting} | set(transcript.answers)
        assert self.waiting or not open_calls
        assert transcript.status is (Status.RUNNING if self.waiting else transcript.status)
        assert self.waiting or transcript.status is not Status.RUNNING
        for number, line in enumerate(transcript.lines):
            if line["type"] == "ended_late":
                later = [user for user in transcript.lines[number:] if user["type"] == "user"]
                told = [f'"{line["handle"]}"' in user["note"] for user in later]
                assert told == [True, *[False] * len(later)][: len(later)]
                assert transcript.spool.get(line["handle"]), "what is told of can be read"
        again = Transcript.load(transcript.session, json.loads(json.dumps(transcript.lines)))
        for name in STATE:
            assert getattr(again, name) == getattr(transcript, name), name
        assert again.open_calls == transcript.open_calls
        assert again.run_result() == transcript.run_result()

    def check_shown(self, seen: list[Event], before: int) -> None:
        """What stands before the reader is what was stored."""
        shown = ""
        for event in seen:
            if isinstance(event, TextDelta):
                shown += event.text
            elif isinstance(event, ReplyDiscarded):
                assert 0 <= event.characters <= len(shown)
                shown = shown[: len(shown) - event.characters]
        stored = [line["text"] for line in self.transcript.lines[before:] if line["type"] == "assistant"]
        assert shown == "".join(stored)


def live(numbers: Sequence[int]) -> None:
    async def at_once(_seconds: float) -> None:
        await asyncio.sleep(0)

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrying, "sleep", at_once)
        asyncio.run(Life(numbers, Path(folder)).live())


NUMBERS = st.lists(st.integers(0, 359), min_size=20, max_size=200)
FEW = hypothesis.settings(
    max_examples=60, deadline=None, database=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck)
)


@hypothesis.given(NUMBERS)
@FEW
def test_any_conversation_keeps_its_invariants(numbers: list[int]) -> None:
    """Calls, results, ids, order, status and what is shown, over stops, deaths, answers and new prompts."""
    live(numbers)


@pytest.mark.long
@hypothesis.given(NUMBERS)
@hypothesis.settings(FEW, max_examples=3_000)
def test_many_conversations_keep_their_invariants(numbers: list[int]) -> None:
    """The same, for long."""
    live(numbers)
