"""The loop: what it asks, runs, stores and when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter import Agent
from cumulus_jupyter.agent.errors import ToolError
from cumulus_jupyter.agent.events import (
    ApprovalAsked,
    Finished,
    Paused,
    QuestionAsked,
    ToolFinished,
    ToolStarted,
)
from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import Answer, Ask, Outcome, Question, Status, StopReason, ToolResults, UserMessage
from cumulus_jupyter.agent.policy import DENY, SESSION, Policy
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.agent.tool import Access, Output, Tool
from cumulus_jupyter.agent.transcript import Transcript

from .conftest import Scripted, drain, make, run, say

Build = Callable[..., Session]


def results(session: Session) -> list[tuple[str, bool, str]]:
    groups = [m for m in session.transcript.messages if isinstance(m, ToolResults)]
    return [(r.name, r.ok, r.text) for group in groups for r in group.results if r]


def test_a_reply_without_a_call_ends_the_run(session: Build) -> None:
    events, result = run(session(Scripted(say("hello there"))))
    assert (result.status, result.text, result.usage.rounds) == (Status.DONE, "hello there", 1)
    assert isinstance(events[-1], Finished)


def test_calls_decide_even_under_a_stop_that_says_end(session: Build) -> None:
    provider = Scripted(say("", ("t", {}), stop=StopReason.END), say("done"))
    _, result = run(session(provider, [make("t")]))
    assert (result.status, len(result.tool_calls)) == (Status.DONE, 1)


def test_calls_run_at_once_and_results_stand_in_call_order(session: Build) -> None:
    gate = asyncio.Event()

    async def first(_ctx: Any, _arguments: Any) -> str:
        await asyncio.wait_for(gate.wait(), 5)  # ends only if the second runs beside it
        return "one"

    def second(_ctx: Any, _arguments: Any) -> str:
        gate.set()
        return "two"

    made = session(Scripted(say("", ("a", {}), ("b", {})), say("done")), [make("a", first), make("b", second)])
    events, result = run(made)
    assert results(made) == [("a", True, "one"), ("b", True, "two")]
    assert [e.call.name for e in events if isinstance(e, ToolFinished)] == ["b", "a"]
    assert [call[0] for call in result.tool_calls] == ["a", "b"]


def test_calls_that_share_a_lock_run_one_after_another_in_call_order(session: Build) -> None:
    log: list[str] = []

    async def work(_ctx: Any, arguments: dict[str, Any]) -> str:
        log.append(f"+{arguments['n']}")
        await asyncio.sleep(0.01)
        log.append(f"-{arguments['n']}")
        return "ok"

    tool = make("t", work, locks=lambda root, arguments: ["kernel"])
    run(session(Scripted(say("", *[("t", {"n": n}) for n in range(3)]), say("done")), [tool]))
    assert log == ["+0", "-0", "+1", "-1", "+2", "-2"]


def test_each_fault_is_one_result_and_siblings_are_untouched(session: Build) -> None:
    def refuse(_ctx: Any, _arguments: Any) -> str:
        raise ToolError("try b instead")

    def break_down(_ctx: Any, _arguments: Any) -> str:
        raise KeyError("x")

    async def hang(_ctx: Any, _arguments: Any) -> str:
        await asyncio.sleep(30)
        return ""

    tools = [make("a", refuse), make("b", break_down), make("c", hang, timeout=0.05), make("fine")]
    made = session(Scripted(say("", *[(n, {}) for n in ("a", "b", "c", "fin", "fine")]), say("done")), tools)
    run(made)
    told = results(made)
    assert [ok for _, ok, _ in told] == [False, False, False, False, True]
    assert told[0][2] == "try b instead"
    assert "KeyError" in told[1][2]
    assert "may still be running" in told[2][2]
    assert "fine" in told[3][2]  # the nearest name


def test_work_that_outlives_the_wait_is_told_with_the_next_request_and_kept_whole(session: Build) -> None:
    gate = asyncio.Event()

    async def slow(_ctx: Any, arguments: dict[str, Any]) -> str:
        await gate.wait()
        return "late " * 1_000

    async def release(_ctx: Any, _arguments: Any) -> str:
        gate.set()
        await asyncio.sleep(0.01)
        return "released"

    provider = Scripted(say("", ("slow", {})), say("", ("go", {})), say("done"))
    made = session(provider, [make("slow", slow, timeout=0.05), make("go", release)])
    run(made)
    handle = results(made)[0][2].partition('handle="')[2].partition('"')[0]
    assert made.transcript.spool.get(handle) == "late " * 1_000
    *_, told = provider.requests[2].messages
    assert isinstance(told, UserMessage)
    assert "slow" in told.note
    assert handle in told.note
    assert not any(isinstance(message, UserMessage) and message.note for message in provider.requests[1].messages)
    loaded = Transcript.load(made.transcript.session, made.transcript.lines)
    assert (loaded.messages, loaded.ended) == (made.transcript.messages, [])


@pytest.mark.parametrize("fails", [False, True])
def test_work_that_ends_after_its_run_is_told_behind_the_next_prompt(session: Build, fails: bool) -> None:
    gates: list[asyncio.Event] = []

    async def slow(_ctx: Any, _arguments: Any) -> str:
        gates.append(asyncio.Event())
        await gates[0].wait()
        if fails:
            raise KeyError("x")
        return "at last"

    provider = Scripted(say("", ("slow", {})), say("done"), say("I see"))
    made = session(provider, [make("slow", slow, timeout=0.05)])

    async def go() -> None:
        await drain(made.stream("go"))
        gates[0].set()
        await asyncio.sleep(0.01)
        await drain(made.stream("and?", "a note"))

    asyncio.run(go())
    *_, prompt = provider.requests[2].messages
    assert (prompt.text, prompt.note.splitlines()[0]) == ("and?", "a note")
    assert ("failed now" if fails else "ended now") in prompt.note


def test_leaving_at_a_question_ends_the_calls_beside_it(session: Build) -> None:
    ended: list[str] = []

    async def work(_ctx: Any, _arguments: Any) -> str:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("t")
        return "ok"

    made = session(Scripted(say("", ("t", {}), ("ask", {}))), [asking(), make("t", work)])

    async def go() -> None:
        async with aclosing(made.stream("go")) as events:
            async for event in events:
                await asyncio.sleep(0.01)
                if isinstance(event, QuestionAsked):
                    break
        assert ended == ["t"]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(go())


def test_a_deferred_tool_must_be_fetched_first(session: Build) -> None:
    made = session(Scripted(say("", ("late", {})), say("done")), [make("late", deferred=True)])
    run(made)
    assert "select:late" in results(made)[0][2]
    assert not results(made)[0][1]


def test_fetched_tools_are_bound_behind_the_eager_ones_until_the_next_prompt(session: Build) -> None:
    def fetch(ctx: Any, arguments: dict[str, Any]) -> str:
        ctx.transcript.append("fetched", names=[arguments["name"]])
        return "fetched"

    provider = Scripted(say("", ("find", {"name": "late"})), say("", ("late", {})), say("done"))
    made = session(provider, [make("find", fetch), make("late", deferred=True), make("other", deferred=True)])
    run(made)
    assert [[t.name for t in r.tools] for r in provider.requests] == [["find"], ["find", "late"], ["find", "late"]]
    run(made, "again")
    assert [t.name for t in provider.requests[-1].tools] == ["find"]


def test_the_turn_limit_ends_with_one_closing_round_without_calls(session: Build) -> None:
    provider = Scripted(*[say(f"{n}", ("t", {"n": n})) for n in range(9)])
    made = session(provider, [make("t")], limits=Limits(turns=3))
    _, result = run(made)
    assert result.status is Status.TURN_LIMIT
    assert len(provider.requests) == 4
    assert [r.allow_calls for r in provider.requests] == [True, True, True, False]
    assert [t.name for t in provider.requests[-1].tools] == ["t"]
    assert not made.transcript.open_calls


def test_three_identical_calls_with_identical_results_end_the_run(session: Build) -> None:
    _, result = run(session(Scripted(say("", ("t", {"a": 1}))), [make("t")]))
    assert result.status is Status.FAILED
    assert "repeated call" in (result.error or "")
    assert len(result.tool_calls) == 3


@pytest.mark.parametrize("kind", ["hangs", "long"])
def test_handles_do_not_hide_a_repeat(kind: str, session: Build) -> None:
    async def hang(_ctx: Any, _arguments: Any) -> str:
        await asyncio.sleep(30 if kind == "hangs" else 0)
        return "x" * 10_000

    made = session(Scripted(say("", ("t", {"a": 1}))), [make("t", hang, timeout=0.01)])
    _, result = run(made)
    assert "repeated call" in (result.error or "")
    assert len(result.tool_calls) == 3


def test_a_run_whose_kernel_died_behind_its_last_word_ends_with_it(session: Build) -> None:
    first = session(Scripted(say("", ("t", {})), say("done")), [make("t")])
    run(first)
    lines = first.transcript.lines[:-1]
    assert lines[-1]["type"] == "assistant"
    provider = Scripted(say("once more"))
    again = session(provider, [make("t")], transcript=Transcript.load(first.transcript.session, lines))
    assert again.recover()
    asyncio.run(drain(again.resume()))
    result = again.transcript.run_result()
    assert (result.status, result.text, provider.requests) == (Status.DONE, "done", [])


def test_polling_may_repeat(session: Build) -> None:
    made = session(Scripted(say("", ("t", {}))), [make("t", polling=True)], limits=Limits(turns=5))
    _, result = run(made)
    assert result.status is Status.TURN_LIMIT


def asking() -> Tool:
    def ask(call: Any) -> Ask:
        return Ask(call.id, call.name, (Question("which?", "Pick"),))

    def answered(_ask: Ask, answer: Answer) -> Output:
        return Output(f"Pick: {answer.values[0]}", {"answers": [("Pick", answer.values[0])]})

    return make("ask", ask=ask, answered=answered)


def test_a_question_pauses_while_siblings_run_and_the_answer_goes_on(session: Build) -> None:
    ran: list[str] = []
    tools = [asking(), make("t", lambda ctx, a: ran.append("t") or "ok")]
    made = session(Scripted(say("", ("ask", {}), ("t", {})), say("done")), tools)
    events, _ = run(made)
    assert isinstance(events[-1], Paused)
    assert ran == ["t"]
    asked = next(e.ask for e in events if isinstance(e, QuestionAsked))
    made.answer(asked, Answer(Outcome.ANSWERED, ("red",)))
    made.answer(asked, Answer(Outcome.ANSWERED, ("blue",)))  # the first one counts
    asyncio.run(drain(made.resume()))
    result = made.transcript.run_result()
    assert (result.status, result.questions, ran) == (Status.DONE, [("Pick", "red")], ["t"])
    assert results(made)[0] == ("ask", True, "Pick: red")


def test_a_stored_conversation_asks_its_open_question_again_and_repeats_nothing(session: Build) -> None:
    ran: list[str] = []
    tools = [asking(), make("t", lambda ctx, a: ran.append("t") or "ok")]
    first = session(Scripted(say("", ("ask", {}), ("t", {})), say("done")), tools)
    run(first)
    loaded = Transcript.load(first.transcript.session, [dict(line) for line in first.transcript.lines])
    again = session(Scripted(say("done")), tools, transcript=loaded)
    events = asyncio.run(drain(again.resume()))
    assert [type(e) for e in events] == [QuestionAsked, Paused]
    again.answer(events[0].ask, Answer(Outcome.ANSWERED, ("red",)))
    asyncio.run(drain(again.resume()))
    assert ran == ["t"]
    assert again.transcript.run_result().status is Status.DONE


def test_a_new_prompt_over_an_open_question_closes_it(session: Build) -> None:
    made = session(Scripted(say("", ("ask", {})), say("done")), [asking()])
    run(made)
    _, result = run(made, "never mind")
    assert result.status is Status.DONE
    assert results(made)[0][2] == "declined: the user went on"


def test_approvals_pause_the_same_way_and_a_denial_reaches_the_model(session: Build) -> None:
    tool = make("rm", access=lambda root, arguments: Access.RUN)
    made = session(Scripted(say("", ("rm", {"x": 1})), say("done")), [tool], policy=Policy("edits"))
    events, _ = run(made)
    asked = next(e for e in events if isinstance(e, ApprovalAsked))
    assert not any(isinstance(e, ToolStarted) for e in events)
    made.answer(asked.ask, Answer(Outcome.ANSWERED, (DENY,), "too risky"))
    asyncio.run(drain(made.resume()))
    _, ok, text = results(made)[0]
    assert not ok
    assert "too risky" in text


def test_an_approval_for_the_session_is_not_asked_again_but_guarded_files_are(session: Build) -> None:
    tool = make("w", access=lambda root, a: Access.GUARDED if a.get("dot") else Access.RUN)
    replies = [say("", ("w", {"n": 1})), say("", ("w", {"n": 2})), say("", ("w", {"dot": True})), say("done")]
    made = session(Scripted(*replies), [tool], policy=Policy("edits"))
    events, _ = run(made)
    made.answer(events[-1].waiting[0], Answer(Outcome.ANSWERED, (SESSION,)))
    events = asyncio.run(drain(made.resume()))
    assert isinstance(events[-1], Paused)
    assert made.transcript.calls[events[-1].waiting[0].call_id].arguments == {"dot": True}
    assert [ok for _, ok, _ in results(made)] == [True, True]


def test_with_nobody_there_nothing_is_granted(session: Build) -> None:
    for mode in ("edits", "ask", "none"):
        tool = make("rm", access=lambda root, arguments: Access.RUN)
        made = session(Scripted(say("", ("rm", {})), say("done")), [tool], policy=Policy(mode, person=False))
        _, result = run(made)
        assert result.status is Status.DONE
        assert results(made)[0][1:] == (False, Policy(mode, person=False).denial())


def test_ids_that_repeat_across_replies_keep_their_own_results(session: Build) -> None:
    made = session(Scripted(say("", ("t", {"n": 1})), say("", ("t", {"n": 2})), say("done")), [make("t")])
    run(made)
    groups = [m for m in made.transcript.messages if isinstance(m, ToolResults)]
    assert [g.results[0].text for g in groups] == ['{\n "n": 1\n}', '{\n "n": 2\n}']
    assert [g.calls[0].raw_id for g in groups] == ["id0", "id0"]
    assert groups[0].calls[0].id != groups[1].calls[0].id


def test_stopping_leaves_a_history_that_the_next_prompt_goes_on_from(session: Build) -> None:
    async def hang(_ctx: Any, _arguments: Any) -> str:
        await asyncio.sleep(30)
        return ""

    made = session(Scripted(say("on it", ("t", {})), say("done")), [make("t", hang)])

    async def stopped() -> None:
        task = asyncio.ensure_future(drain(made.stream("go")))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait({task})
        made.stopped()

    asyncio.run(stopped())
    assert made.transcript.status is Status.STOPPED
    assert not made.transcript.open_calls
    assert "may have happened" in results(made)[0][2]
    assert run(made, "next")[1].status is Status.DONE


def test_long_results_reach_the_model_as_a_window_and_stay_whole_beside_it(session: Build) -> None:
    made = session(Scripted(say("", ("t", {})), say("done")), [make("t", lambda ctx, a: "ab" * 5_000)])
    run(made)
    (group,) = [m for m in made.transcript.messages if isinstance(m, ToolResults)]
    result = group.results[0]
    assert len(result.text) <= 2_000
    assert "characters omitted" in result.text
    assert made.transcript.spool.get(result.handle) == "ab" * 5_000


def test_leaving_at_the_last_event_ends_the_run_once(tmp_path: Path) -> None:
    """Who takes no more after Finished has left a run that is done, not one that was stopped."""

    async def go() -> list[str]:
        agent = Agent("demo", root=tmp_path)
        events = agent.stream("hi")
        async for event in events:
            if isinstance(event, Finished):
                break
        await events.aclose()
        return [line["status"] for line in agent.transcript.lines if line["type"] == "run_end"]

    assert asyncio.run(go()) == ["done"]
