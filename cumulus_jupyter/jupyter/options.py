"""The first line of a ``%%agent`` cell: options, then the prompt's first words exactly as typed."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..agent.errors import SettingsError
from ..agent.policy import APPROVE_MODES
from ..app import RunOptions

__all__ = ["OPTIONS", "CellOptions", "parse_cell"]


@dataclass(frozen=True, slots=True)
class _Option:
    names: tuple[str, ...]
    field: str
    metavar: str
    help: str
    convert: Callable[[str], Any] = str


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ValueError("a whole number from 1")
    return int(text)


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise ValueError("an amount over 0")
    return value


def _one_of(*words: str) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text not in words:
            raise ValueError(" or ".join(words))
        return text

    return convert


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _variable(text: str) -> str:
    if not text.isidentifier():
        raise ValueError("a variable's name")
    return text


OPTIONS = (
    _Option(("-m", "--model"), "model", "NAME", "model for this cell"),
    _Option(("-s", "--session"), "session", "NAME", "which conversation of this kernel (main)"),
    _Option(("--new",), "new", "", "start that conversation afresh"),
    _Option(("-o", "--out"), "out", "NAME", "bind the result object to this variable", _variable),
    _Option(("--answers",), "answers", "JSON|@FILE", "answers for questions where nobody is there"),
    _Option(("--approve",), "approve", "|".join(APPROVE_MODES), "what runs without asking", _one_of(*APPROVE_MODES)),
    _Option(("--no-wait",), "no_wait", "", "at a question the cell ends; answering continues the run"),
    _Option(("--background",), "background", "", "the cell returns at once, the run goes on in its output"),
    _Option(("--cwd",), "cwd", "DIR", "root for this run, inside the kernel's root"),
    _Option(("--tools",), "tools", "a,b", "tools that are bound from the start", _names),
    _Option(("--system",), "system", "TEXT|@FILE", "added system text"),
    _Option(("--effort",), "effort", "low|medium|high", "reasoning effort", _one_of("low", "medium", "high")),
    _Option(("--max-turns",), "max_turns", "N", "round-trips to the model (30)", _positive),
    _Option(("--max-tokens",), "max_tokens", "N", "tokens read and written", _positive),
    _Option(("--max-cost",), "max_cost", "USD", "cost, where the model's price is known", _amount),
    _Option(("--record",), "record", "FILE", "write the model's replies to a file"),
    _Option(("--replay",), "replay", "FILE", "play recorded replies; tools run for real"),
    _Option(("--strict",), "strict", "", "every ending but done raises"),
    _Option(("--quiet",), "quiet", "", "show only the final answer"),
    _Option(("--raw",), "raw", "", "leave {{expressions}} as typed"),
    _Option(("--no-context",), "no_context", "", "send no note on notebook, errors and variables"),
)
_BY_NAME = {name: option for option in OPTIONS for name in option.names}
_RUN_FIELDS = set(RunOptions.__dataclass_fields__)


@dataclass(slots=True)
class CellOptions:
    """What the first line asks for."""

    prompt: str
    run: RunOptions = field(default_factory=RunOptions)
    session: str = "main"
    new: bool = False
    out: str | None = None
    no_wait: bool = False
    background: bool = False
    strict: bool = False
    quiet: bool = False
    raw: bool = False
    no_context: bool = False


def parse_cell(line: str, body: str) -> CellOptions:
    """Options and prompt of a cell.

    Raises
    ------
    SettingsError
        In one line: an unknown option, a missing or wrong value, an unclosed quote, an empty prompt.
    """
    values, words = _options(line.replace("\r", ""))
    text = "\n".join(part for part in (words, body.replace("\r\n", "\n").removesuffix("\n")) if part.strip())
    if not text.strip():
        raise SettingsError("%%agent needs a prompt: write it below, or behind the options")
    run = RunOptions(**{name: value for name, value in values.items() if name in _RUN_FIELDS})
    own = {name: value for name, value in values.items() if name not in _RUN_FIELDS}
    return CellOptions(prompt=text, run=run, **own)


def _options(line: str) -> tuple[dict[str, Any], str]:
    """Field values, and the rest of the line from the first word that is no option."""
    values: dict[str, Any] = {}
    rest = line.strip()
    while rest.startswith("-"):
        name, equals, after = _name(rest)
        if name == "--":
            return values, rest[2:].strip()
        option = _BY_NAME.get(name)
        if option is None:
            near = difflib.get_close_matches(name, _BY_NAME, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; `%agent help` lists them"
            raise SettingsError(f"%%agent has no option {name}{hint} (words that start with - go behind --)")
        if not option.metavar:
            if equals:
                raise SettingsError(f"{name} takes no value")
            values[option.field], rest = True, after
            continue
        value, rest = _value(name, option, after)
        try:
            values[option.field] = option.convert(value)
        except ValueError as error:
            raise SettingsError(
                f"{name} takes {error if 'could not' not in str(error) else 'a number'}, not {value!r}"
            ) from None
    return values, _without_comment(rest)


def _name(text: str) -> tuple[str, bool, str]:
    """The option's name, whether ``=`` followed it, and the text behind."""
    word = text.split(None, 1)[0]
    name, equals, _ = word.partition("=")
    if not name.startswith("--"):
        name, equals = word, ""
    return name, bool(equals), text[len(name) + len(equals) :].lstrip() if not equals else text[len(name) + 1 :]


def _value(name: str, option: _Option, text: str) -> tuple[str, str]:
    """One value, quoted or JSON or a word, and the text behind it."""
    if not text.strip():
        raise SettingsError(f"{name} needs a value: {name} {option.metavar}")
    if text[0] in "'\"":
        end = text.find(text[0], 1)
        if end < 0:
            raise SettingsError(f"the quote behind {name} is not closed")
        return text[1:end], text[end + 1 :].lstrip()
    if text[0] in "{[" and option.field == "answers":
        try:
            _, end = json.JSONDecoder().raw_decode(text)
        except ValueError as error:
            raise SettingsError(f"{name}: that is not JSON ({error})") from None
        return text[:end], text[end:].lstrip()
    word, _, rest = text.partition(" ")
    return word, rest.lstrip()


def _without_comment(rest: str) -> str:
    # Behind options, as behind Python code, "# …" is a note to oneself; in a prompt's own words it is text.
    return "" if rest.startswith("# ") or rest == "#" else rest
