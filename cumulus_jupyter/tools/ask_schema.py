"""What ``AskUserQuestion`` takes, as pydantic models: imported with the first question."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Ask", "Option", "Question"]

_FORBID = ConfigDict(extra="forbid")


class Option(BaseModel):
    """A choice."""

    model_config = _FORBID
    label: Annotated[str, Field(min_length=1, max_length=200)]
    description: str | None = None
    preview: str | None = None


class Question(BaseModel):
    """One question."""

    model_config = _FORBID
    question: Annotated[str, Field(min_length=1)]
    header: Annotated[str, Field(min_length=1, max_length=48)] | None = Field(
        None, description="a label of at most 12 characters"
    )
    options: Annotated[list[Option | str], Field(max_length=4)] | None = Field(
        None, description="none or empty: free text; else 2 to 4"
    )
    multiSelect: bool = Field(False, description="several may be chosen")
    multi_select: bool | None = None


class Ask(BaseModel):
    """The call's arguments."""

    model_config = _FORBID
    questions: Annotated[list[Question], Field(min_length=1, max_length=4)]
    notes_placeholder: Annotated[str, Field(max_length=120)] | None = None
    timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = Field(
        None, description="for the whole call; none: wait for as long as it takes"
    )
