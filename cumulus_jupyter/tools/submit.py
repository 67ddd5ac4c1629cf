"""Typed results from any model: a tool whose accepted call is the result."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any

import pydantic
from pydantic.errors import PydanticUserError

from ..agent.errors import SettingsError, ToolError
from ..agent.tool import Output, Tool, ToolContext
from .arguments import check, plain_schema

__all__ = ["SUBMIT", "Shape"]

SUBMIT = "submit_result"
_WHOLE = "result"
"""The argument that holds a result which is no plain object."""
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n\s*```", re.DOTALL)
_MOST_FAULTS = 12


class Shape:
    """What a result must look like.

    Parameters
    ----------
    schema
        A pydantic model, a dataclass, any other type that pydantic knows (``int``, ``list[str]``, a ``Literal``), or a
        JSON schema as a dictionary.

    Raises
    ------
    SettingsError
        It is none of these.
    """

    name = SUBMIT

    def __init__(self, schema: Any) -> None:
        self._json = dict(schema) if isinstance(schema, Mapping) else None
        self._type: Any = None if isinstance(schema, Mapping) else schema
        inner = _json_schema(schema) if self._json is None else _checked(self._json)
        self.wrapped = not _is_plain_object(inner) or _is_model(self._type, pydantic.RootModel)
        """The result is the one argument of the call, not its arguments together."""
        self.schema = _wrapped(inner) if self.wrapped else inner
        """JSON schema of the call's arguments."""
        self._model = self._built() if self._json is None else None

    def _built(self) -> Any:
        """The pydantic model of the call's arguments."""
        if not self.wrapped:
            # Of a dataclass or typed dictionary too the fields are the arguments.
            return self._type if _is_model(self._type) else pydantic.RootModel[self._type]  # type: ignore[name-defined]
        return pydantic.create_model(SUBMIT, __config__=pydantic.ConfigDict(extra="forbid"), result=(self._type, ...))

    @property
    def fields(self) -> list[str] | None:
        """The names of a result's fields; None where it has none."""
        if self.wrapped:
            return None
        if self._json is not None:
            return list(self.schema["properties"])
        if is_dataclass(self._type):
            return [field.name for field in dataclass_fields(self._type)]
        if _is_model(self._type):
            return list(self._type.model_fields)
        return list(self.schema["properties"])

    def parse(self, arguments: dict[str, Any]) -> Any:
        """The result that a call's arguments spell.

        Raises
        ------
        ToolError
            With every fault and the right shape.
        """
        if self._model is None:
            _check_json(arguments, self.schema)
            return arguments[_WHOLE] if self.wrapped else arguments
        model, _ = check(self._model, SUBMIT, arguments, lambda: self.schema)
        if self.wrapped:
            return getattr(model, _WHOLE)
        return model.root if isinstance(model, pydantic.RootModel) else model

    def spoken(self, text: str) -> dict[str, Any] | None:
        """The arguments that a model wrote as text instead of calling the tool; None where it did not."""
        found = _FENCE.search(text)
        try:
            value = json.loads(found[1] if found else text)
            arguments = {_WHOLE: value} if self.wrapped and not _is_call(value) else value
            self.parse(arguments)
        except (ValueError, ToolError, TypeError):
            return None
        return arguments if isinstance(arguments, dict) else None

    def tool(self) -> Tool:
        """The tool that takes the result; a result of another shape is an error that says what is wrong."""

        async def run(_context: ToolContext, arguments: dict[str, Any]) -> Output:
            self.parse(arguments)
            return Output("accepted")

        return Tool(
            name=SUBMIT,
            description="Give the result. The first call that is accepted ends the task.",
            schema=lambda: self.schema,
            run=run,
        )


def _is_model(kind: Any, base: type = pydantic.BaseModel) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


def _is_call(value: Any) -> bool:
    return isinstance(value, dict) and list(value) == [_WHOLE]


def _json_schema(kind: Any) -> dict[str, Any]:
    try:
        schema: dict[str, Any] = plain_schema(pydantic.TypeAdapter(kind).json_schema())
    except (PydanticUserError, NameError, TypeError) as error:
        raise SettingsError(
            f"schema={kind!r}: give a pydantic model, a type that JSON can hold, or a JSON schema. "
            f"{str(error).splitlines()[0].split('. ')[0]}."
        ) from None
    schema.pop("description", None)  # a class's docstring is written for people
    return schema


def _checked(schema: dict[str, Any]) -> dict[str, Any]:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        raise SettingsError(f"schema is no JSON schema: {error.json_path}: {error.message}") from None
    return {key: value for key, value in schema.items() if key != "$schema"}


def _is_plain_object(schema: dict[str, Any]) -> bool:
    """Whether every server takes it as a tool's parameters: unions and references at the top are refused by some."""
    unions = ("anyOf", "oneOf", "allOf", "$ref", "not", "enum", "const")
    return schema.get("type") == "object" and bool(schema.get("properties")) and not any(u in schema for u in unions)


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object that holds the result; definitions stay at the top, where references look for them."""
    shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in shared}
    whole = {"type": "object", "properties": {_WHOLE: inner}, "required": [_WHOLE], "additionalProperties": False}
    return whole | shared


def _check_json(arguments: Any, schema: dict[str, Any]) -> None:
    from jsonschema.validators import validator_for

    found = sorted(validator_for(schema)(schema).iter_errors(arguments), key=lambda error: error.json_path)
    if not found:
        return
    lines = [f"- {error.json_path.removeprefix('$.')}: {error.message[:300]}" for error in found[:_MOST_FAULTS]]
    count = f"{len(found)} fault{'' if len(found) == 1 else 's'}"
    raise ToolError("\n".join([f"{count} in the arguments of {SUBMIT}; mend it and call again.", *lines]))
