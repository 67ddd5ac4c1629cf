"""The loop against a model of one's own: ``CUMULUS_TEST_MODEL=qwen3@http://localhost:8080/v1 pytest tests/live``.

The name is what ``-m`` takes; keys come from the environment as ever. Without the variable all of this is skipped.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent.events import Finished, QuestionAsked, TextDelta
from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import Answer, Outcome, Reply, Status, StopReason, ToolResults, UserMessage
from cumulus_jupyter.agent.policy import Policy
from cumulus_jupyter.agent.provider import Provider, Request
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.agent.tool import Tool
from cumulus_jupyter.agent.toolbox import Toolbox
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.providers.catalog import resolve
from cumulus_jupyter.tools.ask import ask_user_question

from ..wire.harness import Calls, ask, converse

NAME = os.environ.get("CUMULUS_TEST_MODEL", "")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not NAME, reason="CUMULUS_TEST_MODEL names no model"),
]
SYSTEM = "You are tested. Use the tools that you are told to use, then answer in one short sentence."
SECRETS = {"north": "heron-41", "south": "otter-77"}


@pytest.fixture
def model() -> Provider:
    return resolve(NAME, env=os.environ)


def probe(calls: Calls) -> Tool:
    return calls.tool(
        "read_probe", "place", result=lambda place: SECRETS.get(place, "no such place"), description="Read one probe."
    )


def test_text(model: Provider) -> None:
    """A plain answer streams, is what the transcript has, and its tokens are counted."""
    ran = converse(model, ["Say the word heron and nothing else."], system=SYSTEM)
    assert (ran.result.status, ran.shown) == (Status.DONE, ran.result.text), ran.result
    assert "heron" in ran.result.text.lower()
    assert len([event for event in ran.events if isinstance(event, TextDelta)]) >= 1
    assert ran.result.usage.input > 0 < ran.result.usage.output


def test_one_tool(model: Provider) -> None:
    """The model asks for the tool with the right argument, reads its result and answers from it."""
    calls = Calls()
    ran = converse(model, ["Read the probe at north and tell me its value."], [probe(calls)], system=SYSTEM)
    assert ran.result.status is Status.DONE, ran.result
    assert ("read_probe", {"place": "north"}) in calls.seen
    assert SECRETS["north"] in ran.result.text


def test_parallel_tools(model: Provider) -> None:
    """Two probes are read, in one reply or in two, each result beside its own call."""
    calls = Calls()
    prompt = "Read the probes at north and at south, both at once if you can, and tell me both values."
    ran = converse(model, [prompt], [probe(calls)], system=SYSTEM)
    assert ran.result.status is Status.DONE, ran.result
    assert {arguments["place"] for _, arguments in calls.seen} == set(SECRETS)
    assert all(value in ran.result.text for value in SECRETS.values())
    for message in ran.transcript.messages:
        if isinstance(message, ToolResults):
            pairs = [
                (call.arguments or {}, result) for call, result in zip(message.calls, message.results, strict=True)
            ]
            assert all(result and result.text == SECRETS[arguments["place"]] for arguments, result in pairs)


async def _until_it_waits(session: Session, prompt: str, answer: str = "") -> Any:
    """Run a prompt, or go on with the answer to the open question; the last event."""
    last: Any = None
    stream = session.resume() if answer else session.stream(prompt)
    async with aclosing(stream) as events:
        async for event in events:
            last = event if isinstance(event, QuestionAsked | Finished) else last
    return last


def test_a_question_and_a_restart(model: Provider) -> None:
    """The run waits for the person; loaded again from its lines, it goes on with their answer."""

    async def go() -> tuple[list[str], Any]:
        toolbox = Toolbox([ask_user_question], host=None, root=Path.cwd(), policy=Policy("all"))  # type: ignore[arg-type]
        first = Session(Transcript(), model, toolbox, Limits(), SYSTEM)
        prompt = (
            f"Ask me with the tool {ask_user_question.name} whether I prefer red or blue (two options), wait for my "
            "answer, then tell me what I chose."
        )
        waits = await _until_it_waits(first, prompt)
        assert isinstance(waits, QuestionAsked), f"the model did not ask: {waits}"
        loaded = Transcript.load(first.transcript.session, first.transcript.lines)
        second = Session(loaded, model, toolbox, Limits(), SYSTEM)
        asked = ask_user_question.ask(loaded.open_calls[0])  # type: ignore[misc]
        second.answer(asked, Answer(Outcome.ANSWERED, ("blue",) * len(asked.questions)))
        done = await _until_it_waits(second, "", "blue")
        await model.close()
        return [call.name for m in loaded.messages if isinstance(m, Reply) for call in m.calls], done

    names, done = asyncio.run(go())
    assert names.count(ask_user_question.name) >= 1
    assert done.result.status is Status.DONE, done.result
    assert "blue" in done.result.text.lower()


def test_a_reply_that_is_cut(model: Provider) -> None:
    """At 24 tokens a long answer is cut, and says so, however this server tells it."""
    request = Request(SYSTEM, [UserMessage("Count from 1 to 200, one number a line.")], [], [], 24)
    _, reply = ask(model, request)
    assert reply.stop is StopReason.LENGTH or reply.usage.output >= 24
    assert "200" not in reply.text


def test_a_call_that_is_cut_never_runs(model: Provider) -> None:
    """At a ceiling of 48 tokens a long call is cut: none runs with less than was asked for, and the run ends."""
    calls = Calls()
    write = calls.tool("write_text", "path", "text", description="Write a text to a file.")
    model.facts = replace(model.facts, ceiling=48)  # type: ignore[misc]
    lines = "\n".join(f"line {n} of a poem about herons" for n in range(60))
    ran = converse(model, [f"Write exactly this text to poem.txt with write_text:\n{lines}"], [write], system=SYSTEM)
    assert ran.result.status in (Status.TRUNCATED, Status.DONE, Status.TURN_LIMIT, Status.FAILED)
    assert all(arguments.keys() == {"path", "text"} for _, arguments in calls.seen)


def test_a_second_prompt_extends_the_first(model: Provider) -> None:
    """What was said is known in the next prompt: the server takes back its own replies."""
    calls = Calls()
    ran = converse(
        model,
        ["Read the probe at south.", "Without a tool: which value did you read?"],
        [probe(calls)],
        system=SYSTEM,
    )
    assert [result.status for result in ran.results] == [Status.DONE] * 2, ran.results
    assert SECRETS["south"] in ran.result.text
