"""``@tool``: a person's own function as a tool of their agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

from .agent.errors import SettingsError
from .agent.tool import Tool
from .tools import builtin_tools
from .tools.function import FunctionTool
from .tools.function import tool as function_tool

__all__ = ["FEW", "given_tools", "registered", "tool"]

FEW = 8
"""Tools given to an :class:`Agent` that are bound from the start, where nothing else is said."""

registered: dict[str, FunctionTool] = {}
"""What ``@tool`` made in this process; running a cell again replaces its tool."""

_undecided: set[str] = set()


def tool(function: Callable[..., Any] | None = None, /, *, deferred: bool | None = None, **options: Any) -> Any:
    """Make a function, sync or async, a tool that ``%%agent`` cells and an :class:`Agent` can call.

    The model sees its name, its docstring and a schema from its annotations. ``deferred`` tools are listed by name
    until the model fetches them: so are those of a notebook, unless ``deferred=False`` is said; of those given to an
    :class:`Agent` the first few are bound at once. The other options are those of
    :func:`cumulus_jupyter.tools.function.tool`: ``name``, ``timeout``, ``cap``, ``exclusive``, ``approve``.

    Raises
    ------
    SettingsError
        The function can't be a tool, or has the name of a built-in one.
    """

    def make(function: Callable[..., Any]) -> FunctionTool:
        made = _made(function, deferred=deferred is not False, **options)
        made.schema()
        registered[made.name] = made
        (_undecided.add if deferred is None else _undecided.discard)(made.name)
        return made

    return make if function is None else make(function)


def _made(function: Any, **options: Any) -> FunctionTool:
    try:
        made = function_tool(**options)(function)
    except TypeError as error:  # one line in a notebook
        raise SettingsError(str(error)) from None
    if made.name in _builtin_names():
        raise SettingsError(f"{made.name} is the name of a built-in tool: give yours another, @tool(name=…)")
    return made


@cache
def _builtin_names() -> frozenset[str]:
    return frozenset(name for tool in builtin_tools() for name in (tool.name, *tool.aliases))


def given_tools(items: Iterable[Any]) -> list[Tool]:
    """Functions and tools given to an :class:`Agent`, as tools.

    Raises
    ------
    SettingsError
        One can't be a tool, or two have one name.
    """
    made: list[Tool] = []
    free = FEW
    for item in items:
        each = item if isinstance(item, Tool) else _made(item)
        if any(each.name == other.name for other in made):
            raise SettingsError(f"two tools are named {each.name}: give one another name, @tool(name=…)")
        undecided = not isinstance(item, Tool) or each.name in _undecided
        if undecided:
            each = replace(each, deferred=free <= 0)
            free -= 1
        made.append(each)
    return made
