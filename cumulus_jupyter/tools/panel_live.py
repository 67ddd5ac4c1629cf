"""Panels with inputs: which variables and which function of the kernel they may touch."""

from __future__ import annotations

import builtins
import inspect
import keyword
import numbers
import uuid
from collections.abc import Iterator
from typing import Any

from .panel_check import Fault, walk

__all__ = ["PROCESS", "is_allowed_now", "live_faults", "sets_plain_value"]

PROCESS = uuid.uuid4().hex
"""What a person allowed holds for this process: a panel stays live until the kernel ends."""

_OURS = {"In", "Out", "get_ipython", "exit", "quit"}
_INPUTS = ("Slider", "Select", "Toggle", "TextInput", "Button", "Output")


def is_allowed_now(panel: dict[str, Any] | None) -> bool:
    """Whether a stored panel's inputs were allowed in this process."""
    return bool(panel) and (panel or {}).get("live", {}).get("process") == PROCESS


def live_faults(root: Any, live: Any, namespace: dict[str, Any] | None) -> Iterator[Fault]:
    """What is wrong with a panel's inputs.

    ``live`` is what the person is asked to allow, None where nothing is; ``namespace`` the kernel's variables, None
    where they are not looked at yet.
    """
    inputs = [(path, node) for path, node, _ in walk(root) if node.get("component") in _INPUTS]
    if not isinstance(live, dict):
        if live is None:
            yield from ((path, _NOT_LIVE.format(node["component"]), "") for path, node in inputs)
        return
    function = live.get("function")
    names = [name for name in live.get("variables") or [] if isinstance(name, str)]
    yield from _name_faults(names, function, namespace)
    for path, node in inputs:
        name, kind = node.get("variable"), node["component"]
        if isinstance(name, str) and name not in names:
            yield f"{path}.variable", f"{name!r} is not among live.variables", ""
        if kind in ("Button", "Output") and not function:
            yield path, f"is a{'n' if kind == 'Output' else ''} {kind}, and the panel has no live.function", ""
    outputs = [path for path, node in inputs if node["component"] == "Output"]
    if len(outputs) > 1:
        yield outputs[1], "is a second Output; a panel has one", ""
    if function and not outputs:
        yield "root", "has no Output, where what live.function prints, shows and returns is put", "Output"


_NOT_LIVE = (
    "is a {}, which only a live panel may hold: give live={{variables: [names], function?: name}}, what the person is "
    "to allow"
)


def _name_faults(names: list[str], function: Any, namespace: dict[str, Any] | None) -> Iterator[Fault]:
    for at, name in enumerate(names):
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            yield f"live.variables[{at}]", f"{name!r} can't be a variable of a panel", ""
        elif name in _OURS or hasattr(builtins, name) or name == function:
            yield f"live.variables[{at}]", f"{name!r} is taken: choose another name", ""
        elif namespace is not None and name in namespace and not sets_plain_value(namespace[name]):
            kind = type(namespace[name]).__name__
            yield f"live.variables[{at}]", f"{name!r} holds a {kind}; inputs set numbers, texts and true or false", ""
    if isinstance(function, str):
        if namespace is None:
            return
        value = namespace.get(function)
        if value is None or function in _OURS or function.startswith("_") or not callable(value):
            yield "live.function", f"there is no function {function!r} in the kernel: define it with run_python", ""
        elif inspect.iscoroutinefunction(value) or inspect.isgeneratorfunction(value):
            yield "live.function", f"{function!r} must be a plain function: it may not be async or yield", ""
        else:
            yield from _parameter_faults(function, value, names)


def _parameter_faults(name: str, function: Any, variables: list[str]) -> Iterator[Fault]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    open_ = [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in variables
    ]
    if open_:
        yield "live.function", f"{name!r} needs {', '.join(open_)}, which is none of live.variables", ""


def sets_plain_value(value: Any) -> bool:
    """Whether a variable holds what an input may replace."""
    return value is None or isinstance(value, str | bool | numbers.Number)
