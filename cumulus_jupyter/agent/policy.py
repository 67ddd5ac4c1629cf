"""Who must be asked before a call runs, and what holds when nobody is there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .messages import Answer, Ask, Option, Outcome, Question, ToolCall
from .tool import Access

__all__ = ["APPROVE_MODES", "DENY", "ONCE", "SESSION", "Policy", "Verdict", "approval_ask", "denied_by_person"]

APPROVE_MODES = ("ask", "edits", "all", "none")

ONCE, SESSION, DENY = "Allow once", "Allow for this session", "Deny"
"""What a person can answer to an approval."""

_FREE_UP_TO = {"none": Access.FREE, "ask": Access.FREE, "edits": Access.EDIT, "all": Access.GUARDED}


class Verdict(StrEnum):
    """What happens to a call."""

    RUN = "run"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Policy:
    """Approval mode, and whether a person can be asked."""

    approve: str = "edits"
    person: bool = True

    def verdict(self, access: Access, *, approved: bool) -> Verdict:
        """What happens to a call of this access; ``approved`` is a person's earlier word for the session."""
        if access <= _FREE_UP_TO[self.approve]:
            return Verdict.RUN
        if self.approve == "none":
            return Verdict.DENY
        # The word given for a tool covers its ordinary calls, not files that take effect by being there.
        return Verdict.RUN if approved and access < Access.GUARDED else Verdict.ASK

    def denial(self) -> str:
        """Why a call was denied without asking, for the model."""
        if self.approve == "none":
            return "denied: this run may only read (--approve none). Say what you would do instead of doing it."
        return (
            "denied: this needs a person's approval and nobody is there to give it. Do what you can without it and "
            "say what is left. (A person can allow it beforehand with --approve all.)"
        )


def approval_ask(call: ToolCall, detail: str, access: Access = Access.RUN, title: str = "") -> Ask:
    """The question that a person sees before a call runs; no word for the session where it would not hold."""
    name = title or call.name
    options = (
        Option(ONCE, "this call only"),
        *([Option(SESSION, f"every call of {name} from now on")] if access < Access.GUARDED else []),
        Option(DENY, "say why below, for the agent to read"),
    )
    question = Question(f"Allow {name}?", "Approval", options)
    return Ask(call.id, call.name, (question,), approval=True, detail=detail, notes_placeholder="a reason, if you deny")


def denied_by_person(answer: Answer) -> str | None:
    """The result of a call that a person did not allow, None where they did."""
    if answer.outcome is Outcome.ANSWERED and answer.values and answer.values[0] in (ONCE, SESSION):
        return None
    if answer.outcome is Outcome.NO_USER:
        return Policy(person=False).denial()
    # Who answers in words of their own instead of choosing has said why.
    words = [value for value in answer.values if value and value != DENY]
    said = " ".join([*words, *([answer.notes] if answer.notes else [])])
    reason = f" Their reason: {said}" if said else ""
    return f"denied by the person.{reason} Don't try the same again; ask or find another way."
