"""``AskUserQuestion``: questions to the person, and what becomes of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..agent.errors import ToolError
from ..agent.messages import Answer, Ask, Option, Outcome, Question, ToolCall
from ..agent.tool import Output, Tool, ToolContext
from .answers import AnswerBook, headless_resolver

if TYPE_CHECKING:
    from . import ask_schema

__all__ = ["AnswerBook", "answered", "ask", "ask_user_question", "headless_resolver"]

NAME = "AskUserQuestion"
_HEADER = 24


@functools.cache
def _schema() -> dict[str, Any]:
    from .arguments import plain_schema
    from .ask_schema import Ask as Model

    schema: dict[str, Any] = plain_schema(Model.model_json_schema())
    schema.pop("description")
    for part in schema["$defs"].values():
        part.pop("description")
    return schema


def ask(call: ToolCall) -> Ask:
    """The questions of a call.

    Raises
    ------
    ToolError
        The arguments don't fit: every fault and the right shape.
    """
    from .arguments import check
    from .ask_schema import Ask as Model

    arguments = dict(call.arguments or {})
    if "questions" not in arguments and "question" in arguments:  # one question, not wrapped
        beside: dict[str, Any] = {
            key: arguments.pop(key) for key in ("notes_placeholder", "timeout_seconds") if key in arguments
        }
        arguments = {"questions": [arguments], **beside}
    checked, _ = check(Model, NAME, arguments, _schema)
    assert isinstance(checked, Model)
    _check_options(checked.questions)
    headers = _headers(checked.questions)
    questions = tuple(_question(q, header) for q, header in zip(checked.questions, headers, strict=True))
    placeholder = checked.notes_placeholder or ""
    return Ask(call.id, NAME, questions, notes_placeholder=placeholder, timeout_seconds=checked.timeout_seconds)


def _check_options(questions: list[ask_schema.Question]) -> None:
    """Faults that the schema can't tell."""
    for number, question in enumerate(questions):
        place = f"questions[{number}].options"
        labels = [_label(option) for option in question.options or []]
        if len(labels) == 1:
            raise ToolError(
                f"{place} holds one option, and a choice needs 2 to 4. Give another one, or none for a free-text "
                "question; the person can always write an answer of their own. Nothing was asked."
            )
        if any(not label.strip() for label in labels):
            raise ToolError(f"{place} holds an empty label. Nothing was asked.")
        if len(set(labels)) < len(labels):
            raise ToolError(f"{place} holds the same label twice. Nothing was asked.")


def _label(option: ask_schema.Option | str) -> str:
    return option if isinstance(option, str) else option.label


def _headers(questions: list[ask_schema.Question]) -> list[str]:
    """A header for each question, no two the same."""
    taken: dict[str, int] = {}
    headers = []
    for question in questions:
        header = (question.header or "").strip() or _first_words(question.question)
        taken[header] = taken.get(header, 0) + 1
        headers.append(header if taken[header] == 1 else f"{header} ({taken[header]})")
    return headers


def _first_words(text: str) -> str:
    """The first words of a question that make a short label."""
    words = text.split()
    label = ""
    for word in words:
        if len(f"{label} {word}") > _HEADER:
            break
        label = f"{label} {word}".strip()
    return (label or text.strip()[:_HEADER]).rstrip("?!.,:;") or "Question"


def _question(question: ask_schema.Question, header: str) -> Question:
    options = tuple(
        Option(part) if isinstance(part, str) else Option(part.label, part.description or "", part.preview or "")
        for part in question.options or []
    )
    several = question.multiSelect or bool(question.multi_select)
    return Question(question.question, header, options, multi=several and bool(options))


def answered(ask: Ask, answer: Answer) -> Output:
    """What the model reads of the person's answer, or of there being none."""
    pairs: list[tuple[str, str]] = []
    if answer.outcome is Outcome.ANSWERED:
        pairs = [(q.header, value) for q, value in zip(ask.questions, answer.values, strict=False)]
        lines = [f"{header}: {value}" for header, value in pairs]
    else:
        lines = [_without_answer(ask, answer.outcome)]
    if answer.notes:
        lines.append(f"notes: {answer.notes}")
    return Output("\n".join(lines), {"answers": pairs, "outcome": str(answer.outcome)})


def _without_answer(ask: Ask, outcome: Outcome) -> str:
    if outcome is Outcome.DECLINED:
        return "declined: the person chose not to answer. Go on without it, or ask something else."
    if outcome is Outcome.TIMED_OUT:
        limit = f"no answer within {ask.timeout_seconds} s" if ask.timeout_seconds else "no answer in time"
        return f"timed_out: {limit}. This is not a choice: decide yourself and say so, and do nothing that needs a yes."
    return (
        "no_user: no user could be reached, so nobody answered. Decide yourself and say so, and do nothing risky "
        "that would have needed a yes."
    )


async def _never(context: ToolContext, arguments: dict[str, Any]) -> Output:
    raise ToolError("a question is answered by the person, not run")


def _tool(aliases: Iterable[str]) -> Tool:
    return Tool(
        name=NAME,
        description=(
            "Ask the person 1 to 4 questions and wait for the answers: single or multiple choice, or free text.\n\n"
            "Ask when the answer changes what you do and you can't find it out yourself. Put the option that you "
            'would take first and mark it "(Recommended)". An answer of their own is always possible.'
        ),
        schema=_schema,
        run=_never,
        ask=ask,
        answered=answered,
        aliases=tuple(aliases),
    )


ask_user_question = _tool(("ask_user_question",))
