"""``inspect_variables``: what is in the namespace, without running a line of the user's code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Annotated, Any

from ..agent.errors import ToolError
from ..agent.tool import LARGE_CAP, ToolContext
from .function import tool
from .python import KERNEL_LOCK

__all__ = ["describe", "inspect_variables", "user_variables"]

_HEAD = 5
_LONGEST = 300
_PLAIN = (int, float, complex, bool, str, bytes, type(None))
_CONTAINERS = (list, tuple, set, frozenset, dict)


@tool(deferred=True, cap=LARGE_CAP, locks=lambda root, arguments: (KERNEL_LOCK,))
async def inspect_variables(
    ctx: ToolContext, names: Annotated[list[str] | None, "variables to describe; none or empty: all, briefly"] = None
) -> dict[str, Any]:
    """Show the kernel's variables: types, shapes, columns, dtypes, first rows. Runs no user code."""
    variables = user_variables(ctx.host.namespace())
    if not names:
        return {name: brief(value) for name, value in variables.items()}
    missing = [name for name in names if name not in variables]
    if missing:
        raise ToolError(f"no variable named {', '.join(missing)}; there are: {', '.join(variables) or 'none'}")
    return {name: describe(variables[name]) for name in names}


def user_variables(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The variables a person made: no underscores, no IPython names, no modules."""
    own = ("In", "Out", "exit", "quit", "get_ipython", "open", "display")
    return {
        name: value
        for name, value in namespace.items()
        if not name.startswith("_") and name not in own and not isinstance(value, ModuleType)
    }


def brief(value: Any) -> str:
    """Type and size in a few words: ``DataFrame 7043 × 21``."""
    kind = type(value).__name__
    shape = _shape(value)
    if shape is not None:
        return f"{kind} {' × '.join(map(str, shape)) or 'scalar'}"
    if type(value) in _CONTAINERS:
        return f"{kind} of {len(value)}"
    if type(value) in _PLAIN:
        return f"{kind} {_cut(repr(value), 60)}"
    return kind


def describe(value: Any) -> dict[str, Any]:
    """What can be told of a value from exact built-in and pandas/NumPy types; never its own ``__repr__``."""
    told: dict[str, Any] = {"type": f"{type(value).__module__}.{type(value).__qualname__}"}
    if (shape := _shape(value)) is not None:
        told["shape"] = list(shape)
    if _is("pandas", "DataFrame", value):
        told["columns"] = {str(column): str(dtype) for column, dtype in value.dtypes.items()}
        told["missing"] = {str(c): int(n) for c, n in value.isna().sum().items() if n}
        told["head"] = value.head(_HEAD).to_string(max_colwidth=40)
    elif _is("pandas", "Series", value) or _is("pandas", "Index", value):
        told |= {"dtype": str(value.dtype), "head": _cut(str(list(value[:_HEAD])), _LONGEST)}
    elif _is("numpy", "ndarray", value):
        told["dtype"] = str(value.dtype)
        if value.dtype != object:
            told["head"] = _cut(str(value.ravel()[:_HEAD].tolist()), _LONGEST)
    elif type(value) in _PLAIN:
        told["value"] = _cut(repr(value), _LONGEST)
    elif type(value) in _CONTAINERS:
        told |= {"length": len(value), "head": _items(value)}
    elif callable(value):
        told["doc"] = _cut(str(value.__doc__ or "").strip(), _LONGEST) if _plain_doc(value) else ""
    return told


def _items(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{brief(key)}: {brief(item)}" for key, item in list(value.items())[:_HEAD]]
    return [brief(item) for item, _ in zip(value, range(_HEAD), strict=False)]


def _plain_doc(value: Any) -> bool:
    return type(value).__name__ in ("function", "builtin_function_or_method", "type", "method")


def _shape(value: Any) -> tuple[int, ...] | None:
    if _is("pandas", "DataFrame", value) or _is("pandas", "Series", value) or _is("numpy", "ndarray", value):
        return tuple(value.shape)
    return None


def _is(module: str, name: str, value: Any) -> bool:
    """Exactly that library's class: a subclass may run code of the user's."""
    loaded = sys.modules.get(module)
    return loaded is not None and type(value) is getattr(loaded, name, object())


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}… ({len(text):,} characters)"
