"""Answers that a person gives beforehand, for questions where nobody is there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..agent.errors import AgentError, SettingsError
from ..agent.messages import Answer, Ask, Option, Outcome, Question

__all__ = ["HEADLESS", "AnswerBook", "headless_resolver"]

HEADLESS = ("tell", "recommended", "fail")
"""What an unanswered question comes to: the model is told, the recommended option is taken, the run fails."""

_RECOMMENDED = re.compile(r"\(recommended\)", re.IGNORECASE)
_UNREACHED = "(no user could be reached: decide yourself and say so)"


class AnswerBook:
    """Answers by a question's header or text.

    A value is an option's label (``(Recommended)`` may be left out, case does not count), an option's index from 0, a
    list of either for a multiple choice, or free text.
    """

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self._answers = {_key(name): value for name, value in (answers or {}).items()}

    @classmethod
    def from_json(cls, text: str, folder: Path | None = None) -> AnswerBook:
        """Read a JSON object, or ``@FILE`` with one; a relative file is in ``folder`` (the working directory).

        Raises
        ------
        SettingsError
            The file can't be read, or it is no JSON object.
        """
        source = "the answers"
        if text.startswith("@"):
            path = (folder or Path.cwd()) / Path(text[1:]).expanduser()
            source = f"the answers in {path}"
            try:
                text = path.read_text(encoding="utf-8-sig")
            except (OSError, ValueError) as error:
                raise SettingsError(f"{source} can't be read: {error}") from None
        try:
            answers = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"{source} are not JSON: {error}. Write an object: {{'HEADER': 'LABEL'}}") from None
        if not isinstance(answers, dict):
            raise SettingsError(f"{source} must be an object from a question's header or text to its answer")
        return cls(answers)

    def resolve(self, ask: Ask, policy: str = "tell") -> Answer | None:
        """The answer to a question; None for an approval, which nobody gives beforehand.

        Raises
        ------
        AgentError
            The policy is ``fail`` and a question has no answer.
        SettingsError
            An answer fits no option.
        """
        if ask.approval:
            return None
        values = [self._value(question) for question in ask.questions]
        if policy == "recommended":
            pairs = zip(ask.questions, values, strict=True)
            values = [_recommended(question) if value is None else value for question, value in pairs]
        if None in values and policy == "fail":
            open_ones = "; ".join(q.question for q, v in zip(ask.questions, values, strict=True) if v is None)
            raise AgentError(f"nobody is there to answer: {open_ones}. Give --answers, or set CUMULUS_HEADLESS=tell.")
        if all(value is None for value in values):
            return Answer(Outcome.NO_USER)
        return Answer(Outcome.ANSWERED, tuple(_UNREACHED if value is None else value for value in values))

    def _value(self, question: Question) -> str | None:
        for name in (question.header, question.question):
            if (value := self._answers.get(_key(name))) is not None:
                return _text(question, value)
        return None


def _key(name: str) -> str:
    return " ".join(name.split()).casefold()


def _text(question: Question, value: Any) -> str:
    if not isinstance(value, list):
        return _choice(question, value)
    if not value:
        raise SettingsError(f"the answer to {question.header!r} is an empty list; leave the entry out to give none")
    if len(value) > 1 and question.options and not question.multi:
        raise SettingsError(f"the answer to {question.header!r} names {len(value)} options, and one can be chosen")
    return ", ".join(_choice(question, part) for part in value)


def _choice(question: Question, value: Any) -> str:
    """One option's label, or free text."""
    if isinstance(value, int) and not isinstance(value, bool) and question.options:
        if not 0 <= value < len(question.options):
            last = len(question.options) - 1
            raise SettingsError(f"the answer to {question.header!r} is index {value}, and the options are 0 to {last}")
        return question.options[value].label
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    same = [option.label for option in question.options if _plain_label(option) == _key(_RECOMMENDED.sub("", text))]
    return same[0] if same else text


def _plain_label(option: Option) -> str:
    return _key(_RECOMMENDED.sub("", option.label))


def _recommended(question: Question) -> str | None:
    """The option that is marked as recommended; None without one, or with several where one can be chosen."""
    marked = [o.label for o in question.options if _RECOMMENDED.search(o.label) or _RECOMMENDED.search(o.description)]
    if not marked or (len(marked) > 1 and not question.multi):
        return None
    return ", ".join(marked)


def headless_resolver(book: AnswerBook, policy: str = "tell") -> Callable[[Ask], Answer | None]:
    """Answers questions from the book, the rest by the policy, where nobody is there.

    Raises
    ------
    SettingsError
        The policy is none of :data:`HEADLESS`.
    """
    if policy not in HEADLESS:
        raise SettingsError(f"headless is {', '.join(HEADLESS[:-1])} or {HEADLESS[-1]}, not {policy!r}")
    return lambda ask: book.resolve(ask, policy)
