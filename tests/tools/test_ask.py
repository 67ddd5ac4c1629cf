"""AskUserQuestion, answers given beforehand, and the cases about asking."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent.errors import AgentError, SettingsError, ToolError
from cumulus_jupyter.agent.events import ApprovalAsked, Paused, QuestionAsked
from cumulus_jupyter.agent.messages import Answer, Ask, Option, Outcome, Question, Status, ToolCall, ToolResults
from cumulus_jupyter.agent.policy import approval_ask
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.tools.ask import AnswerBook, answered, ask, ask_user_question, headless_resolver

from ..agent.conftest import Scripted, drain, make, run, say
from .conftest import CASES, Bench


def asked(**arguments: Any) -> Ask:
    return ask(ToolCall("c1", "AskUserQuestion", arguments))


FORMATS = Question("Which formats?", "Formats", (Option("png (Recommended)"), Option("svg"), Option("pdf")), multi=True)
TARGET = Question("Which column?", "Target", (Option("churn", "0/1 (recommended)"), Option("end_date")))
TITLE = Question("Title?", "Title")


# Arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"questions": [{"question": "Which?", "header": "H", "options": [{"label": "a", "preview": "p"}, "b"]}]},
        {"questions": [{"question": "Anything?"}]},
        {"questions": [{"question": "F?", "options": ["a", "b", "c"], "multi_select": True}], "timeout_seconds": 600},
        {"questions": [{"question": "F?", "options": []}], "notes_placeholder": "Notes"},
        {"questions": json.dumps([{"question": "As text?"}])},
        {"questions": {"question": "Not in a list?"}},
        {"question": "Not wrapped?", "options": ["a", "b"], "timeout_seconds": 5},
    ],
)
def test_accepted(arguments: dict[str, Any]) -> None:
    made = asked(**arguments)
    assert len(made.questions) == 1
    assert made.questions[0].question.endswith("?")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"questions": []}, "questions should have at least 1 item"),
        ({"questions": [{"question": str(n)} for n in range(5)]}, "at most 4 items"),
        ({"questions": [{"question": "q", "options": ["only"]}]}, "a choice needs 2 to 4"),
        ({"questions": [{"question": "q", "options": list("abcde")}]}, "questions[0].options"),
        ({"questions": [{"question": "q", "options": ["a", "a"]}]}, "the same label twice"),
        ({"questions": [{"question": "q", "options": ["a", " "]}]}, "empty label"),
        ({"questions": [{"question": ""}]}, "questions[0].question"),
        ({"questions": [{"question": "q", "header": "x" * 49}]}, "questions[0].header"),
        ({"questions": [{"question": "q"}], "timeout_seconds": 0}, "timeout_seconds"),
        ({"questions": [{"question": "q", "choices": ["a", "b"]}]}, "questions[0].choices is unknown"),
        ({"questions": [{"text": "q"}]}, "questions[0].question is missing"),
        ({}, "questions is missing"),
    ],
)
def test_refused_with_the_reason(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ToolError) as caught:
        asked(**arguments)
    assert said in str(caught.value)


def test_headers_default_to_the_first_words_and_differ() -> None:
    made = asked(
        questions=[
            {"question": "Which of the many columns says that a customer left?"},
            {"question": "a?", "header": "Same"},
            {"question": "b?", "header": "Same"},
            {"question": "x" * 80},
        ]
    )
    assert [q.header for q in made.questions] == ["Which of the many", "Same", "Same (2)", "x" * 24]


def test_the_schema_says_the_limits() -> None:
    schema = ask_user_question.schema()
    question = schema["$defs"]["Question"]["properties"]
    assert schema["required"] == ["questions"]
    assert (schema["properties"]["questions"]["minItems"], schema["properties"]["questions"]["maxItems"]) == (1, 4)
    assert question["header"]["anyOf"][0]["maxLength"] == 48
    assert question["options"]["anyOf"][0]["maxItems"] == 4
    assert set(question) == {"question", "header", "options", "multiSelect", "multi_select"}
    assert "title" not in json.dumps(schema)


# Results ---------------------------------------------------------------------------------------------------------

BOTH = Ask("c", "AskUserQuestion", (FORMATS, TITLE), timeout_seconds=2)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(Outcome.ANSWERED, ("png, svg", "Sales")), "Formats: png, svg\nTitle: Sales"),
        (Answer(Outcome.ANSWERED, ("pdf", "x"), "soon"), "Formats: pdf\nTitle: x\nnotes: soon"),
        (Answer(Outcome.DECLINED, notes="later"), "declined"),
        (Answer(Outcome.TIMED_OUT), "no answer within 2 s"),
        (Answer(Outcome.NO_USER), "no user could be reached"),
    ],
)
def test_what_the_model_reads(answer: Answer, text: str) -> None:
    output = answered(BOTH, answer)
    assert text in output.content
    assert output.details["outcome"] == answer.outcome
    assert len(output.details["answers"]) == len(answer.values)
    assert (f"notes: {answer.notes}" in output.content) is bool(answer.notes)


# Answers beforehand ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "given", "value"),
    [
        (TARGET, {"Target": "end_date"}, "end_date"),
        (TARGET, {"target": "END_DATE"}, "end_date"),
        (TARGET, {"Which  column?": "churn"}, "churn"),
        (TARGET, {"Target": 1}, "end_date"),
        (TARGET, {"Target": "something else"}, "something else"),
        (TARGET, {"Target": ["churn"]}, "churn"),
        (FORMATS, {"Formats": "png"}, "png (Recommended)"),
        (FORMATS, {"Formats": [0, "pdf"]}, "png (Recommended), pdf"),
        (TITLE, {"Title": "Sales"}, "Sales"),
        (TITLE, {"Title": 3}, "3"),
        (TITLE, {"Title": True}, "true"),
    ],
)
def test_answers_are_found_by_header_or_text(question: Question, given: dict[str, Any], value: str) -> None:
    answer = AnswerBook(given).resolve(Ask("c", "AskUserQuestion", (question,)))
    assert answer == Answer(Outcome.ANSWERED, (value,))


@pytest.mark.parametrize(
    ("question", "given"),
    [(TARGET, {"Target": 2}), (TARGET, {"Target": -1}), (TARGET, {"Target": [0, 1]}), (FORMATS, {"Formats": []})],
)
def test_answers_that_fit_no_option_are_an_error(question: Question, given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        AnswerBook(given).resolve(Ask("c", "AskUserQuestion", (question,)))


def test_unmatched_questions_follow_the_policy() -> None:
    both = Ask("c", "AskUserQuestion", (TARGET, TITLE))
    none, some = AnswerBook(), AnswerBook({"Title": "Sales"})
    assert none.resolve(both) == Answer(Outcome.NO_USER)
    mixed = some.resolve(both)
    assert mixed is not None
    assert mixed.values[1] == "Sales"
    assert "no user could be reached" in mixed.values[0]
    taken = none.resolve(both, "recommended")
    assert taken is not None
    assert taken.values[0] == "churn"
    assert "no user could be reached" in taken.values[1]
    assert some.resolve(both, "recommended") == Answer(Outcome.ANSWERED, ("churn", "Sales"))
    with pytest.raises(AgentError, match="Which column"):
        some.resolve(both, "fail")
    assert none.resolve(Ask("c", "AskUserQuestion", (TITLE,)), "recommended") == Answer(Outcome.NO_USER)


def test_nothing_beforehand_grants_an_approval() -> None:
    approval = approval_ask(ToolCall("c", "run_shell", {}), "")
    book = AnswerBook({"Approval": "once", "Allow run_shell?": "session"})
    for policy in ("tell", "recommended", "fail"):
        assert headless_resolver(book, policy)(approval) is None


def test_answers_come_as_json_or_from_a_file(tmp_path: Path) -> None:
    one = Ask("c", "AskUserQuestion", (TITLE,))
    (tmp_path / "a.json").write_text('\ufeff{"Title": "é"}', encoding="utf-8")
    assert AnswerBook.from_json("@a.json", tmp_path).resolve(one) == Answer(Outcome.ANSWERED, ("é",))
    assert AnswerBook.from_json('{"Title": "x"}').resolve(one) == Answer(Outcome.ANSWERED, ("x",))
    for wrong in ("@nowhere.json", "{", "[1]", '"x"'):
        with pytest.raises(SettingsError):
            AnswerBook.from_json(wrong, tmp_path)
    with pytest.raises(SettingsError, match="tell, recommended or fail"):
        headless_resolver(AnswerBook(), "guess")


# Cases -----------------------------------------------------------------------------------------------------------

K7_01 = json.loads((CASES / "K7-01.json").read_text())["tool_call"]["input"]


def test_k7_01_with_nobody_there_the_model_is_told_and_nothing_risky_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, approve="edits", resolve=headless_resolver(AnswerBook()))
    (tmp_path / "old.txt").write_text("x")
    text = bench.text("AskUserQuestion", **K7_01)
    assert "no user could be reached" in text
    assert "yes" not in text.replace("needed a yes", "")
    assert "nobody is there" in bench.refusal("run_shell", command="rm old.txt")
    assert (tmp_path / "old.txt").exists()
    assert bench.asked == []


def test_k7_01_an_answer_of_the_caller_is_used(tmp_path: Path) -> None:
    bench = Bench(tmp_path, resolve=headless_resolver(AnswerBook({"Delete the old files?": "no"})))
    assert bench.text("ask_user_question", **K7_01) == "Delete the old files: no"


def test_k7_03_the_first_answer_counts(session: Callable[..., Session]) -> None:
    clicks = json.loads((CASES / "K7-03.json").read_text())["clicks"]
    provider = Scripted(say("", ("AskUserQuestion", K7_01)), say("done"))
    live = session(provider, [ask_user_question])
    events, _ = run(live)
    (waiting,) = [event for event in events if isinstance(event, Paused)]
    for click in clicks:
        live.answer(waiting.waiting[0], Answer(Outcome.ANSWERED, (click["option"],)))
    asyncio.run(drain(live.resume()))
    results = [line for line in live.transcript.lines if line["type"] == "result"]
    assert [line["content"] for line in results] == [["Delete the old files: yes"]]
    assert live.transcript.run_result().questions == [("Delete the old files", "yes")]


def test_k7_06_a_time_out_is_no_choice() -> None:
    seconds = json.loads((CASES / "K7-06.json").read_text())["question_timeout_s"]
    made = asked(questions=K7_01["questions"], timeout_seconds=seconds)
    output = answered(made, Answer(Outcome.TIMED_OUT))
    assert "no answer within 2 s" in output.content
    assert output.details["answers"] == []


def test_k7_07_an_open_question_survives_the_kernel_and_nothing_runs_twice(session: Callable[..., Session]) -> None:
    case = json.loads((CASES / "K7-07.json").read_text())
    calls = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in case["history"][1]["tool_calls"]]
    ran: list[Any] = []
    touch = make("sh", lambda ctx, arguments: ran.append(arguments) or "")
    named = [("AskUserQuestion" if name == "ask_user" else name, arguments) for name, arguments in calls]
    first = session(Scripted(say("", *named)), [ask_user_question, touch])
    run(first, case["history"][0]["content"])
    assert ran == [{"cmd": "touch done.txt"}]

    lines = json.loads(json.dumps(first.transcript.lines))
    provider = Scripted(say("all done"))
    again = session(provider, [ask_user_question, touch], transcript=Transcript.load(first.transcript.session, lines))
    events = asyncio.run(drain(again.resume()))
    (question,) = [event for event in events if isinstance(event, QuestionAsked)]
    assert question.ask.questions[0].question == "Sure?"
    again.answer(question.ask, Answer(Outcome.ANSWERED, ("yes",)))
    asyncio.run(drain(again.resume()))
    assert len(ran) == 1
    assert again.transcript.status is Status.DONE
    (request,) = provider.requests
    (group,) = [message for message in request.messages if isinstance(message, ToolResults)]
    assert [result.text for result in group.results if result] == ["Sure: yes", ""]


def test_a_question_beside_a_failing_and_a_slow_call_keeps_both_results(session: Callable[..., Session]) -> None:
    async def slow(ctx: Any, arguments: Any) -> str:
        await asyncio.sleep(0.02)
        return "slow"

    provider = Scripted(say("", ("AskUserQuestion", K7_01), ("slow", {}), ("nowhere", {})), say("done"))
    live = session(provider, [ask_user_question, make("slow", slow)])
    events, result = run(live)
    assert isinstance(events[-1], Paused)
    assert not any(isinstance(event, ApprovalAsked) for event in events)
    assert [call.name for call in live.transcript.open_calls] == ["AskUserQuestion"]
    assert [(name, ok) for name, _, ok, _ in result.tool_calls] == [("slow", True), ("nowhere", False)]
