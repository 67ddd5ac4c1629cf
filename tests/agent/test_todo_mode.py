"""While a checklist has open steps, replies begin with a small budget; late answers and closed questions are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cumulus_jupyter.agent.checklist import checklist
from cumulus_jupyter.agent.completion import RUNGS, TODO_BUDGET
from cumulus_jupyter.agent.events import TodosChanged
from cumulus_jupyter.agent.messages import Answer, Ask, Outcome, Question, Status, StopReason, UserMessage
from cumulus_jupyter.agent.provider import ModelFacts
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.tools.todo import update_todos

from .conftest import Scripted, drain, make, run, say

Build = Callable[..., Session]
PLAN = {"todos": [{"label": "a", "status": "in_progress"}, {"label": "b", "status": "pending"}]}
DONE = {"todos": [{"label": "a", "status": "completed"}, {"label": "b", "status": "completed"}]}


def budgets(provider: Scripted) -> list[int]:
    return [request.max_tokens for request in provider.requests]


def test_a_model_without_todos_sees_no_small_budget(session: Build) -> None:
    provider = Scripted(say("", ("t", {})), say("done"))
    run(session(provider, [make("t")]))
    assert budgets(provider) == [RUNGS[0], RUNGS[0]]


def test_the_small_budget_holds_while_a_step_is_open(session: Build) -> None:
    provider = Scripted(
        say("", ("update_todos", PLAN)), say("", ("t", {})), say("", ("update_todos", DONE)), say("end")
    )
    run(session(provider, [make("t"), update_todos]))
    assert budgets(provider) == [RUNGS[0], TODO_BUDGET, TODO_BUDGET, RUNGS[0]]


def test_a_refused_list_starts_nothing(session: Build) -> None:
    two = {"todos": [{"label": "a", "status": "in_progress"}, {"label": "b", "status": "in_progress"}]}
    provider = Scripted(say("", ("update_todos", two)), say("end"))
    made = session(provider, [update_todos])
    run(made)
    assert budgets(provider) == [RUNGS[0], RUNGS[0]]
    assert made.transcript.todos == []


def test_thinking_comes_on_top(session: Build) -> None:
    provider = Scripted(say("", ("update_todos", PLAN)), say("end"))
    provider.facts = ModelFacts(thinking=True)
    run(session(provider, [update_todos]))
    assert budgets(provider)[1] == TODO_BUDGET + provider.facts.thinking_budget(None) > TODO_BUDGET


def test_a_reply_cut_by_the_small_budget_goes_to_the_ordinary_rungs(session: Build) -> None:
    """Text goes on behind the cut; a cut call is asked for again whole, and runs once."""
    ran: list[Any] = []
    cut = say("first half, ", stop=StopReason.LENGTH, output=TODO_BUDGET)
    half = say("", ("t", {"n": 1}), stop=StopReason.LENGTH, output=TODO_BUDGET)
    provider = Scripted(say("", ("update_todos", PLAN)), half, say("", ("t", {"n": 2})), cut, say("second half."))
    made = session(provider, [make("t", lambda ctx, arguments: ran.append(arguments) or "ok"), update_todos])
    _, result = run(made)
    assert (result.status, result.text) == (Status.DONE, "first half, second half.")
    assert ran == [{"n": 2}]
    assert budgets(provider) == [RUNGS[0], TODO_BUDGET, RUNGS[0], TODO_BUDGET, RUNGS[0]]


def test_the_next_run_begins_without_the_old_list(session: Build) -> None:
    provider = Scripted(say("", ("update_todos", PLAN)), say("left open"), say("hi"))
    made = session(provider, [update_todos])
    run(made)
    run(made, "something else")
    assert budgets(provider)[-1] == RUNGS[0]


def test_a_checklist_in_the_text_counts_and_is_shown(session: Build) -> None:
    text = "Plan:\n<todo>\n- [x] load\n- [~] clean\n1. [ ] plot\n</todo>"
    provider = Scripted(
        say(text, ("t", {})), say("<todo>- [x] load\n- [x] clean\n- [x] plot</todo>", ("t", {})), say(".")
    )
    events, _ = run(session(provider, [make("t")]))
    shown = [[todo["status"] for todo in event.todos] for event in events if isinstance(event, TodosChanged)]
    assert shown == [["completed", "in_progress", "pending"], ["completed"] * 3]
    assert budgets(provider) == [RUNGS[0], TODO_BUDGET, RUNGS[0]]


@pytest.mark.parametrize("text", ["no list", "<todo></todo>", "<todo>words</todo>", "- [ ] outside of a block"])
def test_what_is_no_checklist_is_none(text: str) -> None:
    assert checklist(text) is None


def test_a_late_answer_stands_before_the_next_prompt_also_after_a_restart(session: Build) -> None:
    ask = Ask("c", "AskUserQuestion", (Question("Which?", "Which", ()),), timeout_seconds=1)
    made = session(Scripted(say("fine")))
    run(made)
    made.transcript.late_answer(ask, Answer(Outcome.ANSWERED, ("churn",)))
    made.transcript = Transcript.load(made.transcript.session, made.transcript.lines)
    run(made, "go on")
    run(made, "and on")
    prompts = [message.text for message in made.transcript.messages if isinstance(message, UserMessage)]
    assert "Which: churn" in prompts[1]
    assert prompts[1].endswith("go on")
    assert prompts[2] == "and on", "once is enough"


def test_a_new_prompt_closes_an_open_question(session: Build) -> None:
    question = Ask("", "q", (Question("Sure?", "Sure", ()),))
    tool = make("q", ask=lambda call: Ask(call.id, call.name, question.questions), answered=lambda ask, answer: None)
    made = session(Scripted(say("", ("q", {})), say("ok")), [tool])
    run(made)
    asyncio.run(drain(made.stream("never mind")))
    closed = [line for line in made.transcript.lines if line["type"] == "question_closed"]
    results = [line for line in made.transcript.lines if line["type"] == "result"]
    assert len(closed) == 1
    assert results[0]["content"] == ["declined: the user went on"]
