"""A server's question to the person: its form becomes ours, our answer becomes its."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...agent.messages import Answer, Ask, Option, Outcome, Question
from .call import Call

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

__all__ = ["elicit"]

_ATTEMPTS = 3
_EMPTY = "Leave empty"
_GO_ON, _OPENED = "Yes, go on", "I have opened it"
_NO = "No"
_YES_WORDS, _NO_WORDS = {"yes", "y", "true", "1"}, {"no", "n", "false", "0"}
_UNREACHED = "(no user could be reached"
_HEADER = 48


async def elicit(server: str, call: Call | None, params: ElicitRequestParams) -> ElicitResult:
    """Ask the person what the server wants to know; without a call under way, or a person, it is declined."""
    from mcp_types import ElicitRequestURLParams, ElicitResult

    if call is None:
        return ElicitResult(action="decline")
    if isinstance(params, ElicitRequestURLParams):
        question = Question(f"Open {params.url} ?", server[:_HEADER], (Option(_OPENED), Option(_NO)))
        action, _ = await _asked(server, call, params.message, [_Field("", question, {}, _chosen)])
        return ElicitResult(action=action)
    fields = _fields(server, params.requested_schema)
    action, content = await _asked(server, call, params.message, fields)
    return ElicitResult(action=action, content=content if action == "accept" else None)


async def _asked(server: str, call: Call, message: str, fields: list[_Field]) -> tuple[Any, dict[str, Any]]:
    """The person's action (accept, decline, cancel) and their values, asked again where they don't fit."""
    fault = ""
    for _ in range(_ATTEMPTS):
        detail = f"The MCP server {server} asks: {message}" + (f"\nNot accepted: {fault}" if fault else "")
        questions = tuple(field.question for field in fields)
        answer = await call.ask(Ask(call.name_ask(), f"MCP server {server}", questions, detail=detail))
        if answer.outcome is not Outcome.ANSWERED or any(value.startswith(_UNREACHED) for value in answer.values):
            return _without(server, call, message, answer), {}
        try:
            content = {f.name: value for f, value in _values(fields, answer) if value is not None}
        except _Declined:
            call.answers.append((fields[0].question.header, _NO))
            return "decline", {}
        except ValueError as error:
            fault = str(error)
            continue
        pairs = zip(fields, answer.values, strict=False)
        call.answers += [(field.question.header, value) for field, value in pairs]
        content.pop("", None)
        return "accept", content
    call.notes.append(f"the server asked the person: {message!r}; no fitting answer came, so it was cancelled")
    return "cancel", {}


def _without(server: str, call: Call, message: str, answer: Answer) -> str:
    reasons = {
        Outcome.DECLINED: "they declined",
        Outcome.TIMED_OUT: "they did not answer in time",
    }
    reason = reasons.get(answer.outcome, "nobody is there to answer, so it was declined")
    call.notes.append(f"the server asked the person: {message!r}; {reason}")
    return "cancel" if answer.outcome is Outcome.TIMED_OUT else "decline"


class _Declined(Exception):
    """The person chose to say no."""


class _Field:
    """One value of the form: its question, and how the answer's text becomes the value."""

    def __init__(self, name: str, question: Question, schema: dict[str, Any], read: Callable[[str], Any]) -> None:
        self.name, self.question, self.schema, self.read = name, question, schema, read


def _values(fields: list[_Field], answer: Answer) -> list[tuple[_Field, Any]]:
    """The values; ValueError names the first one that does not fit."""
    from jsonschema import Draft202012Validator

    values = []
    for field, text in zip(fields, answer.values, strict=True):
        try:
            value = None if text == _EMPTY else field.read(text)
        except ValueError:
            raise ValueError(f"{field.question.header}: {text!r} is not {_kind(field.schema)}") from None
        if value is not None and field.schema:
            errors = [error.message for error in Draft202012Validator(field.schema).iter_errors(value)]
            if errors:
                raise ValueError(f"{field.question.header}: {errors[0]}")
        values.append((field, value))
    return values


def _kind(schema: dict[str, Any]) -> str:
    return {"integer": "a whole number", "number": "a number", "boolean": "yes or no"}.get(
        str(schema.get("type")), "an answer that fits"
    )


# Fields ----------------------------------------------------------------------------------------------------------


def _fields(server: str, requested: dict[str, Any]) -> list[_Field]:
    properties = requested.get("properties") or {}
    if not properties:
        question = Question("Go on?", server[:_HEADER], (Option(_GO_ON), Option(_NO)))
        return [_Field("", question, {}, _chosen)]
    required = requested.get("required") or ()
    return [_field(name, schema, needed=name in required) for name, schema in properties.items()]


def _field(name: str, schema: dict[str, Any], *, needed: bool) -> _Field:
    title = str(schema.get("title") or name)
    told = [str(schema.get("description") or title), *_bounds(schema)]
    question = Question(" · ".join(told), title[:_HEADER])
    kind = schema.get("type")
    choices = _choices(schema)
    read: Callable[[str], Any] = str
    if choices:
        labels = {label: value for value, label in choices}
        options = [Option(label) for label in labels]
        question = replace(question, multi=kind == "array")
        read = (lambda text: _several(text, labels)) if kind == "array" else (lambda text: labels.get(text, text))
    elif kind == "boolean":
        options, read = [Option("Yes"), Option(_NO)], _boolean
    else:
        options = []
        read = _integer if kind == "integer" else float if kind == "number" else str
    options = _with_default(options, schema, choices, needed=needed)
    return _Field(name, replace(question, options=tuple(options)), schema, read)


def _with_default(
    options: list[Option], schema: dict[str, Any], choices: list[tuple[Any, str]], *, needed: bool
) -> list[Option]:
    """The options with the server's default marked, and a way to give none where none is needed."""
    if "default" in schema and not isinstance(schema["default"], list):
        default = schema["default"]
        label = {True: "Yes", False: _NO}.get(default, "") if isinstance(default, bool) else str(default)
        label = next((shown for value, shown in choices if value == default), label)
        if label and not options:
            options = [Option(label, "the server's default")]
        options = [replace(o, description="the server's default") if o.label == label else o for o in options]
    return options if needed else [*options, Option(_EMPTY)]


def _choices(schema: dict[str, Any]) -> list[tuple[Any, str]]:
    """(value, label) of each choice, in each of the spellings that the protocol knows."""
    items = schema.get("items") if schema.get("type") == "array" else schema
    items = items if isinstance(items, dict) else {}
    for titled in (items.get("oneOf"), items.get("anyOf")):
        if titled:
            return [(part.get("const"), str(part.get("title") or part.get("const"))) for part in titled]
    values = items.get("enum") or []
    names = items.get("enumNames") or []
    return [(value, str(names[at]) if at < len(names) else str(value)) for at, value in enumerate(values)]


def _bounds(schema: dict[str, Any]) -> list[str]:
    """What a fitting answer must be, in words."""
    low, high = schema.get("minimum"), schema.get("maximum")
    words = [str(schema["format"])] if isinstance(schema.get("format"), str) else []
    if low is not None and high is not None:
        words.append(f"{low} to {high}")
    elif low is not None or high is not None:
        words.append(f"at least {low}" if low is not None else f"at most {high}")
    return words


def _several(text: str, labels: dict[str, Any]) -> list[Any]:
    """The values of labels joined by commas; a label may hold a comma itself."""
    found, rest = [], text.strip()
    while rest:
        label = max((one for one in labels if rest == one or rest.startswith(f"{one}, ")), key=len, default=None)
        if label is None:
            raise ValueError(rest)
        found.append(labels[label])
        rest = rest[len(label) :].removeprefix(", ")
    return found


def _chosen(text: str) -> str:
    if text == _NO or text.strip().lower() in _NO_WORDS:
        raise _Declined
    return text


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in _YES_WORDS | _NO_WORDS:
        raise ValueError(text)
    return word in _YES_WORDS


def _integer(text: str) -> int:
    return int(text.strip())
