"""Functions as tools: the ``@tool`` decorator of the built-in tools and of the user's own."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ..agent.messages import Image
from ..agent.tool import DEFAULT_TIMEOUT, Access, Output, Tool, ToolContext
from ..agent.windowing import OUTER_CAP, as_text
from .threads import in_thread

if TYPE_CHECKING:
    from .arguments import Arguments

__all__ = ["FunctionTool", "output_of", "tool"]

AccessOf = Callable[[Path, dict[str, Any]], Access]
LocksOf = Callable[[Path, dict[str, Any]], Iterable[str]]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_SECTION = re.compile(
    r"^(?:(?:Parameters|Returns|Yields|Raises|Examples?|Notes?|See Also)\s*\n\s*-{3,}"
    r"|(?:Args|Arguments|Parameters|Returns|Yields|Raises|Examples?):\s*$|:(?:param|returns?|rtype|raises)\b)",
    re.MULTILINE,
)
_OPTIONS = "name deferred timeout cap exclusive approve access locks aliases polling".split()  # noqa: SIM905
_LONGEST_TEXT = OUTER_CAP
"""Characters of an object's own text that are kept."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionTool(Tool):
    """A tool made of a function, which can still be called as one."""

    function: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    deferred: bool = False,
    timeout: float | Callable[[dict[str, Any]], float | None] | None = DEFAULT_TIMEOUT,
    cap: int | None = None,
    exclusive: bool = False,
    approve: bool = False,
    access: AccessOf | None = None,
    locks: LocksOf | None = None,
    aliases: Iterable[str] = (),
    polling: bool = False,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:  # noqa: D417
    """Make a function, sync or async, a tool that an agent can call.

    The model sees the function's name, its docstring and a schema of its parameters: types come from the annotations,
    descriptions from the docstring (NumPy, Google or Sphinx style) or from a text in ``Annotated``. A first parameter
    named ``ctx`` or annotated :class:`ToolContext` gets the running call's context instead. Raise ``ToolError`` for
    what the model should read and mend.

    Parameters
    ----------
    function
        The function, where the decorator has no parentheses.
    name
        What the model calls it; by default the function's name.
    deferred
        List it by name only until ``tool_search`` fetches it.
    timeout
        Seconds that a call is waited for; None waits for ever.
    cap
        Characters of a result that reach the model; by default 200,000.
    exclusive
        Calls run one after another, never side by side.
    approve
        A person must allow each call.
    access, locks
        What a call touches and what it needs for itself, from the root and the raw arguments. ``access`` may raise
        ``ToolError`` to refuse a call.
    aliases
        Other names that a model may call it by.
    polling
        Repeating a call with the same result is no sign of a stuck model.

    Raises
    ------
    TypeError
        The function can't be a tool: it is none, yields, takes ``*args`` or ``**kwargs``, or its name doesn't fit.
    """
    if unknown := [option for option in options if option not in _OPTIONS]:
        raise TypeError(f"@tool has no option {', '.join(unknown)}; it has {', '.join(_OPTIONS)}")
    if function is None:
        return lambda function: _tool_of(function, **options)
    return _tool_of(function, **options)


def _tool_of(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    cap: int | None = None,
    exclusive: bool = False,
    approve: bool = False,
    access: AccessOf | None = None,
    locks: LocksOf | None = None,
    aliases: Iterable[str] = (),
    **options: Any,
) -> FunctionTool:
    called = _name(function, name)
    runner = _Runner(called, function)
    made = FunctionTool(
        name=called,
        description=_description(called, function),
        schema=runner.schema,
        run=runner.run,
        function=function,
        cap=OUTER_CAP if cap is None else cap,
        access=access or _constant(Access.RUN if approve else Access.FREE),
        locks=_locks(called, locks, exclusive=exclusive),
        aliases=tuple(aliases),
        **options,
    )
    # A frozen dataclass refuses the plain form; help() and inspect.signature() read these.
    object.__setattr__(made, "__doc__", function.__doc__)
    object.__setattr__(made, "__wrapped__", function)
    return made


def _name(function: Any, name: str | None) -> str:
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"{function!r} is no function: write @tool or @tool(name=…) above a def")
    called = str(name or getattr(function, "__name__", ""))
    if not _NAME.match(called):
        raise TypeError(f"{called!r} can't be a tool's name: give name= 1-64 letters, digits, _ or -")
    return called


def _constant(access: Access) -> AccessOf:
    return lambda root, arguments: access


def _locks(name: str, locks: LocksOf | None, *, exclusive: bool) -> LocksOf:
    own = (f"kernel-exclusive:{name}",) if exclusive else ()
    return lambda root, arguments: (*own, *(locks(root, arguments) if locks else ()))


def _description(name: str, function: Callable[..., Any]) -> str:
    """The docstring up to its first section."""
    text = inspect.cleandoc(function.__doc__ or "")
    section = _SECTION.search(text)
    return (text[: section.start()] if section else text).strip() or f"The function {name}."


class _Runner:
    """A function as its tool runs it: arguments checked, context given, result turned into an output."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{name} yields: a tool returns its result, a list for example")
        parameters = list(inspect.signature(function).parameters.values())
        self.takes_context = bool(parameters) and _is_context(parameters[0])
        self.parameters = parameters[1:] if self.takes_context else parameters
        for parameter in self.parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(
                    f"{name} takes {parameter}: a tool's parameters need names, so that a model can give them"
                )

    @functools.cached_property
    def arguments(self) -> Arguments:
        from .arguments import Arguments

        return Arguments(self.name, self.function, self.parameters)

    def schema(self) -> dict[str, Any]:
        return self.arguments.schema

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> Output:
        values, notes = self.arguments.validated(arguments)
        args, kwargs = self._bound(values)
        call = functools.partial(self.function, *((context,) if self.takes_context else ()), *args, **kwargs)
        value = await call() if self._is_async else await in_thread(call)
        if inspect.isawaitable(value):
            value = await value
        output = output_of(value)
        return _with_notes(output, notes) if notes else output

    @functools.cached_property
    def _is_async(self) -> bool:
        called = getattr(self.function, "__call__", None)  # noqa: B004
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(called)

    def _bound(self, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        positional = [p.name for p in self.parameters if p.kind is p.POSITIONAL_ONLY]
        return [values.pop(name) for name in positional], values


def _is_context(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if isinstance(annotation, str):
        return parameter.name == "ctx" or annotation.rpartition(".")[2] == "ToolContext"
    return parameter.name == "ctx" or annotation is ToolContext


def _with_notes(output: Output, notes: list[str]) -> Output:
    """The output with what was mended in the arguments as its first line."""
    line = f"(arguments mended: {'; '.join(notes)})"
    parts = output.parts()
    if parts and isinstance(parts[0], str):
        parts[0] = f"{line}\n{parts[0]}"
    else:
        parts.insert(0, line)
    output.content = parts[0] if len(parts) == 1 else parts
    return output


def output_of(value: Any) -> Output:
    """What a function returned, as an output."""
    if isinstance(value, Output):
        return value
    if value is None:
        return Output("done (no value was returned)")
    if isinstance(value, str):
        return Output(value)
    if isinstance(value, Image):
        return Output([value])
    if isinstance(value, list | tuple) and any(isinstance(part, Image) for part in value):
        return Output([part if isinstance(part, Image) else _text(part) for part in value])
    if picture := _picture(value):
        return Output([picture])
    return Output(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list | tuple | bool | int | float):
        try:
            return as_text(value)
        except (TypeError, ValueError):  # keys that JSON lacks, or a circle
            return repr(value)[:_LONGEST_TEXT]
    if hasattr(value, "model_dump_json"):
        return str(value.model_dump_json(indent=1))
    if isinstance(value, set | frozenset):
        return as_text(sorted(value, key=str))
    return str(value)[:_LONGEST_TEXT]


def _picture(value: Any) -> Image | None:
    """The PNG that an object shows itself as (a PIL image, say)."""
    if isinstance(value, type) or not hasattr(value, "_repr_png_"):
        return None
    import base64

    data = value._repr_png_()
    if isinstance(data, tuple):  # with metadata
        data = data[0]
    return Image("image/png", base64.b64encode(data).decode("ascii")) if isinstance(data, bytes) else None
