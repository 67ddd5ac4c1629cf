"""A call's arguments against a JSON schema that came from outside: the check, and what may be mended."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from ..agent.errors import ToolError
from ..agent.schemas import is_wrapped, object_schema, sound

__all__ = ["validated"]

_MOST_FAULTS = 12


def validated(
    schema: dict[str, Any], arguments: dict[str, Any], *, name: str = "the tool"
) -> tuple[dict[str, Any], list[str]]:
    """The arguments as the schema wants them, and what was mended, a sentence each.

    Mended is only what can mean one thing: a JSON text or a quoted number where the thing itself is wanted, a null
    where the parameter may be left out. A value is never invented, and defaults are the tool's own business. A schema
    that is itself broken checks nothing: then the tool's server decides.

    Parameters
    ----------
    schema
        As the tool's server sent it. Where its root is no object, the value is looked for under ``value``, as the
        model was told: a call's arguments are always an object.
    arguments
        As the model sent them; they are not changed.
    name
        The tool's, for the person and the model.

    Raises
    ------
    ToolError
        With every fault and the right shape.
    """
    try:
        check = _validator(object_schema(schema) if is_wrapped(schema) else sound(schema))
        mended, notes, found = _mended(check, arguments)
    except Exception:  # references that lead nowhere, patterns that don't compile: whatever a broken schema raises
        return arguments, []
    if found:
        raise ToolError(_told(name, mended, found, object_schema(schema)))
    return mended, notes


def _validator(schema: dict[str, Any]) -> Any:
    """A validator that looks nothing up beyond the schema itself."""
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    return kind(schema, registry=Registry())


def _mended(check: Any, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str], list[Any]]:
    """Arguments, what was mended, and the faults that are left."""
    notes: list[str] = []
    mended = arguments
    for _ in range(4):  # what was mended can hold further faults inside
        found = list(check.iter_errors(mended))
        if not found:
            return mended, notes, []
        if mended is arguments:
            mended = copy.deepcopy(arguments)
        fixed = [note for error in found if (note := _mend(check, mended, error))]
        notes += fixed
        if not fixed:
            break
    return mended, notes, list(check.iter_errors(mended))


def _mend(check: Any, arguments: dict[str, Any], error: Any) -> str | None:
    """Mend one fault in place; what was done, None where it can't be done for certain."""
    from .arguments import brief

    steps = list(error.absolute_path)
    if not steps:
        return None
    holder: Any = arguments
    for step in steps[:-1]:
        holder = holder[step]
    key, value, path = steps[-1], holder[steps[-1]], _path(steps)
    if value is None and len(steps) == 1 and key not in check.schema.get("required", ()):
        del holder[key]
        return f"{path}: null taken as not given"
    new = _meant(check, error, value)
    if new is None:
        return None
    holder[key] = new
    return f"{path}: {brief(value)} taken as {brief(new)}"


def _meant(check: Any, error: Any, value: Any) -> Any:
    """The one thing that a value of a wrong kind can mean; None where that is not certain."""
    if error.validator not in ("type", "anyOf", "oneOf", "enum", "const"):
        return None
    if isinstance(value, str):
        new = _read(value)
        return None if new is None or isinstance(new, str) or not _fits(check, error, new) else new
    if isinstance(value, dict) and error.validator == "type" and error.validator_value == "array":
        return [value] if _fits(check, error, [value]) else None
    return None


def _fits(check: Any, error: Any, new: Any) -> bool:
    """Whether a value is of the wanted kind; what is wrong inside it is a fault of its own."""
    if error.validator != "type":
        return bool(check.evolve(schema=error.schema).is_valid(new))
    wanted = error.validator_value
    return any(check.is_type(new, kind) for kind in ([wanted] if isinstance(wanted, str) else wanted))


def _read(text: str) -> Any:
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    try:
        return json.loads(text, parse_constant=lambda constant: None)
    except ValueError:
        return None


# Telling ---------------------------------------------------------------------------------------------------------


def _told(name: str, arguments: dict[str, Any], found: Sequence[Any], schema: dict[str, Any]) -> str:
    """All faults in words, each with its path, and the right shape."""
    from .arguments import shape

    lines = list(dict.fromkeys(line for error in found for line in _lines(error)))
    count = len(lines)
    told = [f"- {line}" for line in lines[:_MOST_FAULTS]]
    told += [f"- … and {count - _MOST_FAULTS} more"] if count > _MOST_FAULTS else []
    head = f"{count} {'fault' if count == 1 else 'faults'} in the arguments of {name}; nothing was done."
    right = shape(schema, schema.get("$defs", schema.get("definitions", {})), top=True)
    return "\n".join([head, *told, f"The right shape: {name.removeprefix('the tool')}({right})"])


def _lines(error: Any) -> Iterator[str]:
    from .arguments import brief

    steps = list(error.absolute_path)
    path = _path(steps)
    if error.validator == "required":
        missing = [key for key in error.validator_value if key not in error.instance]
        yield from (f"{_path([*steps, key])} is missing" for key in missing)
    elif error.validator in ("additionalProperties", "unevaluatedProperties") and isinstance(error.instance, dict):
        known = list(error.schema.get("properties", ()))
        for key in error.instance:
            if key not in known and repr(key) in error.message:
                near = difflib.get_close_matches(key, known, n=2, cutoff=0.5)
                hint = f": did you mean {' or '.join(near)}?" if near else f"; there are: {', '.join(known)}"
                yield f"{_path([*steps, key])} is unknown{hint if known else ''}"
    elif error.validator == "type":
        kinds = error.validator_value if isinstance(error.validator_value, list) else [error.validator_value]
        yield f"{path or 'the arguments'} should be {' or '.join(kinds)}, got {brief(error.instance)}"
    elif error.validator in ("enum", "const"):
        values = error.validator_value if error.validator == "enum" else [error.validator_value]
        yield f"{path} should be one of {', '.join(map(brief, values[:30]))}, got {brief(error.instance)}"
    else:
        yield f"{path or 'the arguments'}: {_short(error.message)}"


def _path(steps: Sequence[Any]) -> str:
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path


def _short(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:200]}… ({len(text):,} characters)"
