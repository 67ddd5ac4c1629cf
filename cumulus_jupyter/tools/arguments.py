"""A call's arguments against the function's signature: the schema, the check, and what may be mended."""

from __future__ import annotations

import copy
import difflib
import functools
import inspect
import json
import math
import typing
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pydantic
from pydantic.errors import PydanticUserError

from ..agent.errors import SettingsError, ToolError
from .by_schema import validated

__all__ = ["Arguments", "brief", "check", "faults", "plain_schema", "shape", "validated"]

_MOST_FAULTS = 12
_CONTAINERS = {
    "list_type": list,
    "tuple_type": list,
    "set_type": list,
    "dict_type": dict,
    "model_type": dict,
    "model_attributes_type": dict,
    "dataclass_type": dict,
}
_WORDS = (
    ("Input should", "should"),
    ("List should", "should"),
    ("String should", "should"),
    ("valid dictionary", "valid object"),
    (" after validation", ""),
)
_MARKS = ("Parameters\n", "Args:", "Arguments:", ":param")


class Arguments:
    """The arguments that one function takes."""

    def __init__(self, name: str, function: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> None:
        self.name = name
        self._function = function
        self._parameters = parameters

    @functools.cached_property
    def model(self) -> type[pydantic.BaseModel]:
        """A model with the parameters as aliases of its fields, so that any name is allowed."""
        hints, told = self._hints(), self._told()
        fields: dict[str, Any] = {}
        for number, parameter in enumerate(self._parameters):
            hint = hints.get(parameter.name, Any)
            default = ... if parameter.default is parameter.empty else parameter.default
            text = _annotated_text(hint) or told.get(parameter.name)
            fields[f"a{number}"] = (hint, pydantic.Field(default, alias=parameter.name, description=text))
        config = pydantic.ConfigDict(extra="forbid", protected_namespaces=())
        model: type[pydantic.BaseModel] = self._built(
            lambda: pydantic.create_model(self.name, __config__=config, **fields)
        )
        return model

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """JSON schema of the arguments."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a default that JSON lacks is just not told
            schema: dict[str, Any] = plain_schema(self._built(lambda: self.model.model_json_schema(by_alias=True)))
        schema.pop("description", None)
        schema.setdefault("properties", {})
        return schema

    def validated(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Values by parameter name, and what was mended.

        Raises
        ------
        ToolError
            With every fault and the right shape.
        """
        model, notes = check(self.model, self.name, arguments, lambda: self.schema)
        given = {parameter.name: getattr(model, f"a{at}") for at, parameter in enumerate(self._parameters)}
        return given, notes

    def _built(self, build: Callable[[], Any]) -> Any:
        try:
            return build()
        except PydanticUserError as error:
            raise SettingsError(
                f"the function {self.name} can't be a tool: {self._unsendable() or str(error).splitlines()[0]}"
            ) from None

    def _unsendable(self) -> str:
        """Which parameter no model can send, in words."""
        for name, hint in self._hints().items():
            try:
                pydantic.TypeAdapter(hint).json_schema()
            except PydanticUserError:
                kind = getattr(hint, "__name__", hint)
                return (
                    f"a model can't send {name}: {kind}, only text, numbers, true or false, lists and objects. Take a "
                    "file's path or a variable's name instead."
                )
        return ""

    def _hints(self) -> dict[str, Any]:
        function = inspect.unwrap(self._function)
        while isinstance(function, functools.partial):
            function = function.func
        if not inspect.isroutine(function):
            function = type(function).__call__
        try:
            return typing.get_type_hints(function, include_extras=True)
        except (NameError, TypeError, AttributeError) as error:
            raise SettingsError(
                f"the function {self.name} can't be a tool: an annotation is unknown: {error}"
            ) from None

    def _told(self) -> dict[str, str]:
        """What the docstring says of each parameter."""
        text = inspect.cleandoc(self._function.__doc__ or "")
        if not any(mark in text for mark in _MARKS):
            return {}
        import docstring_parser

        parsed = docstring_parser.parse(text)
        told = {}
        for param in parsed.params:
            for name in param.arg_name.split(","):  # NumPy style groups names
                told[name.strip().lstrip("*")] = " ".join((param.description or "").split())
        return told


def _annotated_text(hint: Any) -> str | None:
    if typing.get_origin(hint) is not Annotated:
        return None
    return next((part for part in hint.__metadata__ if isinstance(part, str)), None)


def plain_schema(schema: Any) -> Any:
    """A JSON schema without pydantic's generated titles."""
    if isinstance(schema, list):
        return [plain_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            plain[key] = {name: plain_schema(item) for name, item in value.items()}
        elif key in ("default", "examples", "enum", "const"):
            if value == value and value not in (math.inf, -math.inf):  # which JSON lacks
                plain[key] = value
        elif key != "title":
            plain[key] = plain_schema(value)
    return plain


# Checking and mending --------------------------------------------------------------------------------------------


def check(
    model: type[pydantic.BaseModel], name: str, arguments: dict[str, Any], schema: Callable[[], dict[str, Any]]
) -> tuple[pydantic.BaseModel, list[str]]:
    """The arguments as an instance of ``model``, and what was mended.

    Mended is only what can mean one thing: a JSON text or a quoted number where the thing itself is wanted, a null
    where the parameter may be left out. A value is never invented.
    """
    notes: list[str] = []
    mended = arguments
    for _ in range(4):  # what was mended can hold further faults inside
        try:
            return model.model_validate_json(json.dumps(mended), strict=True), notes
        except pydantic.ValidationError as error:
            found = error.errors(include_url=False)
        if mended is arguments:
            mended = copy.deepcopy(arguments)
        fixed = [_mend(mended, fault, model) for fault in found]
        if not any(fixed):
            break
        notes += [note for note in fixed if note]
    raise ToolError(faults(name, arguments, found, schema()))


def _mend(arguments: dict[str, Any], fault: Any, model: type[pydantic.BaseModel]) -> str | None:
    """Mend one fault in place; what was done, None where it can't be done for certain."""
    place = _place(arguments, fault["loc"])
    if place is None:
        return None
    holder, key, path = place
    value = holder[key]
    wanted = fault["type"]
    if value is None and holder is arguments and not _required(model, str(key)):
        del holder[key]
        return f"{path}: null taken as not given"
    if isinstance(value, str):
        new = _from_text(value, wanted)
    elif wanted == "int_type" and isinstance(value, float) and value.is_integer():
        new = int(value)
    elif wanted == "list_type" and isinstance(value, dict):
        new = value[key] if list(value) == [key] and isinstance(value[key], list) else [value]
    else:
        return None
    if new is None:
        return None
    holder[key] = new
    return f"{path}: {brief(value)} taken as {brief(new)}"


def _required(model: type[pydantic.BaseModel], name: str) -> bool:
    return all(field.is_required() for field in model.model_fields.values() if field.alias == name)


def _from_text(text: str, wanted: str) -> Any:
    """The value that a text spells, if it is of the wanted kind."""
    if wanted == "bool_type":
        return {"true": True, "false": False}.get(text.strip().lower())
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if wanted in _CONTAINERS:
        return value if isinstance(value, _CONTAINERS[wanted]) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if wanted == "float_type" or (wanted == "int_type" and isinstance(value, int)) else None


def _place(arguments: Any, loc: Sequence[Any]) -> tuple[Any, Any, str] | None:
    """Where a fault is: its container, its key there, and its path; None for what is not there."""
    holder, key, path, at = None, None, "", arguments
    for step in loc:
        if isinstance(at, dict) and step in at:
            path += f".{step}" if path else str(step)
        elif isinstance(at, list) and isinstance(step, int) and step < len(at):
            path += f"[{step}]"
        else:
            continue  # the name of a union's branch
        holder, key, at = at, step, at[step]
    return None if holder is None else (holder, key, path)


# Telling ---------------------------------------------------------------------------------------------------------


def faults(name: str, arguments: dict[str, Any], found: Sequence[Any], schema: dict[str, Any]) -> str:
    """All faults in words, each with its path, and the right shape."""
    lines = dict.fromkeys(_told_fault(arguments, fault, schema) for fault in _deepest(arguments, found))
    count = len(lines)
    told = "\n".join(f"- {line}" for line in list(lines)[:_MOST_FAULTS])
    more = f"\n- … and {count - _MOST_FAULTS} more" if count > _MOST_FAULTS else ""
    return (
        f"{count} {'fault' if count == 1 else 'faults'} in the arguments of {name}; nothing was done.\n{told}{more}\n"
        f"The right shape: {name}({shape(schema, schema.get('$defs', {}), top=True)})"
    )


def _deepest(arguments: dict[str, Any], found: Sequence[Any]) -> list[Any]:
    """The faults without those of a value whose inside has faults of its own: another branch of a union."""
    paths = [_path(arguments, fault) for fault in found]
    return [
        fault
        for fault, path in zip(found, paths, strict=True)
        if not any(other != path and other.startswith((f"{path}.", f"{path}[")) for other in paths)
    ]


def _path(arguments: dict[str, Any], fault: Any) -> str:
    place = _place(arguments, fault["loc"])
    path = place[2] if place else ""
    if fault["type"] == "missing":
        return f"{path}.{fault['loc'][-1]}" if path else str(fault["loc"][-1])
    return path


def _told_fault(arguments: dict[str, Any], fault: Any, schema: dict[str, Any]) -> str:
    loc, place, path = fault["loc"], _place(arguments, fault["loc"]), _path(arguments, fault)
    if fault["type"] == "missing":
        return f"{path} is missing"
    if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        known = list(schema["properties"]) if len(loc) == 1 else []
        near = difflib.get_close_matches(str(loc[-1]), known, n=2, cutoff=0.5)
        hint = f": did you mean {' or '.join(near)}?" if near else f"; there are: {', '.join(known)}" if known else ""
        return f"{path} is unknown{hint}"
    if fault["type"] == "json_invalid":
        return "the arguments hold half of a character (a lone surrogate); send the whole character"
    message = fault["msg"]
    for theirs, ours in _WORDS:
        message = message.replace(theirs, ours)
    got = f", got {brief(place[0][place[1]])}" if place else ""
    return f"{path or 'the arguments'} {message}{got}"


def shape(schema: Any, defs: dict[str, Any], *, top: bool = False, depth: int = 0) -> str:
    """A JSON schema in few words: ``path: string, limit?: integer = 2000``."""
    if "$ref" in schema:
        return shape(defs.get(schema["$ref"].rpartition("/")[2], {}), defs, depth=depth)
    if "anyOf" in schema:
        parts = [shape(part, defs, depth=depth) for part in schema["anyOf"]]
        return " | ".join(part for part in dict.fromkeys(parts) if part != "null")
    if "enum" in schema or "const" in schema:
        return " | ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"[{shape(schema.get('items', {}), defs, depth=depth)}, …]"
    if "properties" not in schema or depth > 3:
        return str(schema.get("type", "any"))
    fields = []
    for name, part in schema["properties"].items():
        mark = "" if name in schema.get("required", ()) else "?"
        default = f" = {json.dumps(part['default'])}" if part.get("default") is not None else ""
        fields.append(f"{name}{mark}: {shape(part, defs, depth=depth + 1)}{default}")
    inner = ", ".join(fields)
    return inner if top else f"{{{inner}}}"


def brief(value: Any) -> str:
    """A value as JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text):,} characters)"
