"""A panel's arguments, checked: every fault with its path, and the right shapes."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from typing import Any

from ..agent.errors import ToolError

__all__ = ["Fault", "Shape", "checked", "refusal", "walk"]

MOST_DEPTH, MOST_NODES, MOST_CHARACTERS = 8, 200, 200_000
_MOST_FAULTS = 200
_UNCHECKED_DEPTH = 30
"""A tree deeper than this is refused for its depth alone."""

Fault = tuple[str, str, str]
"""Path, what is wrong there, and the component whose shape helps."""


class Shape:
    """What a tree of nodes comes to: ``nodes``, ``depth``, ``characters`` of text, ids of its containers in order."""

    def __init__(self, root: Any) -> None:
        self.nodes = self.depth = self.characters = 0
        self.ids: list[str] = []
        for _, node, depth in walk(root):
            self.nodes += 1
            self.depth = max(self.depth, depth)
            self.characters += sum(_characters(value) for key, value in node.items() if key != "component")
            if node.get("component") in ("Card", "Stack") and isinstance(node.get("id"), str):
                self.ids.append(node["id"])

    def faults(self) -> Iterator[Fault]:
        """Where it is beyond the limits of a panel."""
        for what, is_, most in (
            ("nodes", self.nodes, MOST_NODES),
            ("levels of nesting", self.depth, MOST_DEPTH),
            ("characters", self.characters, MOST_CHARACTERS),
        ):
            if is_ > most:
                yield "root", f"comes to {is_:,} {what} in all, and {most:,} is the most a panel may have", ""
        for id in dict.fromkeys(id for id in self.ids if self.ids.count(id) > 1):
            yield "root", f"holds {self.ids.count(id)} containers with the id {id!r}; each needs its own", ""


def walk(root: Any) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Path, node and depth (from 1) of each node that is an object, parents first; recursion is not used."""
    left = [(f"root[{at}]", node, 1) for at, node in enumerate(root)] if isinstance(root, list) else []
    left.reverse()
    while left:
        path, node, depth = left.pop()
        if not isinstance(node, dict):
            continue
        yield path, node, depth
        children = node.get("children")
        if isinstance(children, list):
            left += [(f"{path}.children[{at}]", child, depth + 1) for at, child in enumerate(children)][::-1]


def _characters(value: Any) -> int:
    """Characters of the texts in a field, without those of child nodes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(_characters(part) for part in value if not (isinstance(part, dict) and "component" in part))
    return sum(map(_characters, value.values())) if isinstance(value, dict) else 0


def checked(arguments: dict[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    """The arguments with their defaults filled in, or all faults of their fields."""
    from pydantic import ValidationError

    from .panel_schema import Panel

    root = arguments.get("root")
    faults = list(Shape(root).faults())
    faults += [fault for path, node, _ in walk(root) for fault in _node_faults(path, node)]
    if any(depth > _UNCHECKED_DEPTH for _, _, depth in walk(root)):
        return arguments, faults
    try:
        panel = Panel.model_validate(arguments)
    except ValidationError as error:
        return arguments, [_fault(arguments, each) for each in error.errors(include_url=False)] + faults
    return panel.model_dump(exclude_none=True), faults


def _node_faults(path: str, node: dict[str, Any]) -> Iterator[Fault]:
    """What the fields' types can't tell."""
    field: Callable[[str], Any] = node.get
    kind, columns, rows = field("component"), field("columns"), field("rows")
    if kind == "Table" and isinstance(columns, list) and isinstance(rows, list):
        for at, row in enumerate(rows):
            if isinstance(row, list) and len(row) != len(columns):
                yield f"{path}.rows[{at}]", f"holds {len(row)} cells, and there are {len(columns)} columns", "Table"
    low, high, value, options = field("min"), field("max"), field("value"), field("options")
    if kind == "Slider" and _is_number(low) and _is_number(high):
        if low >= high:
            yield path, f"has min {low} and max {high}; min must be the smaller one", "Slider"
        elif _is_number(value) and not low <= value <= high:
            yield f"{path}.value", f"is {value}, outside of {low} to {high}", "Slider"
    if kind == "Slider" and _is_number(step := field("step")) and step <= 0:
        yield f"{path}.step", f"is {step}, and must be above 0", "Slider"
    if kind == "Select" and isinstance(options, list) and value is not None and value not in options:
        yield f"{path}.value", "is none of the options", "Select"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# Telling ---------------------------------------------------------------------------------------------------------


def refusal(faults: list[Fault]) -> ToolError:
    """All faults in words, with the right shape of each component that they are about."""
    from .panel_schema import SHAPES

    lines = list(dict.fromkeys(f"- {path} {text}" for path, text, _ in faults))
    more = [f"- … and {len(lines) - _MOST_FAULTS} more"] if len(lines) > _MOST_FAULTS else []
    shapes = [SHAPES[name] for name in dict.fromkeys(kind for _, _, kind in faults) if name in SHAPES]
    count = f"{len(lines)} fault{'s' if len(lines) > 1 else ''}"
    return ToolError(
        "\n".join(
            [
                f"{count} in the arguments of present_ui; nothing was shown or changed.",
                *lines[:_MOST_FAULTS],
                *more,
                "The right shape:" if len(shapes) > 1 else f"The right shape: {shapes.pop() if shapes else ''}",
                *shapes,
            ]
        )
    )


def _fault(arguments: dict[str, Any], error: Any) -> Fault:
    path, node, value = _place(arguments, error["loc"])
    kind = str(node.get("component", ""))
    wrong = error["type"]
    if wrong == "union_tag_invalid":
        return path, _unknown_component(value), ""
    if wrong == "union_tag_not_found":
        return path, "has no component; each node names one", ""
    if wrong == "missing":
        return path, "is missing", kind
    if wrong == "extra_forbidden":
        return path, _unknown_field(str(error["loc"][-1]), kind), kind
    return path, _words(error, value), kind


def _place(arguments: Any, loc: tuple[Any, ...]) -> tuple[str, dict[str, Any], Any]:
    """Path of a fault, the innermost node it is in, and the value there (None where there is none)."""
    path, node, at, in_list = "", {}, arguments, False
    for step in loc:
        if in_list and isinstance(at, dict) and step == at.get("component"):
            node, in_list = at, False  # a branch of the union of nodes, no step
            continue
        if isinstance(step, str) and step in ("int", "float", "str", "constrained-str"):
            continue  # a branch of a union of plain values
        path += f"[{step}]" if isinstance(step, int) else f"{'.' if path else ''}{step}"
        in_list = isinstance(step, int)
        try:
            at = at[step]
        except (KeyError, IndexError, TypeError):
            at = None
    return path, node, at


def _unknown_component(node: Any) -> str:
    from .panel_schema import COMPONENTS, INPUTS

    name = node.get("component") if isinstance(node, dict) else node
    near = difflib.get_close_matches(str(name), [*COMPONENTS, *INPUTS], n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"has the unknown component {_brief(name)}: {hint}there are {', '.join(COMPONENTS)}"


def _unknown_field(name: str, kind: str) -> str:
    from .panel_schema import SHAPES

    known = [word.rstrip("?") for word in SHAPES.get(kind, "").replace("{", " ").replace("(", " ").split(" ")]
    near = difflib.get_close_matches(name, [word.rstrip("?:,") for word in known], n=1, cutoff=0.6)
    return "is unknown" + (f": did you mean {near[0]}?" if near and near[0] != name else "")


def _words(error: Any, value: Any) -> str:
    wrong, limits = error["type"], error.get("ctx", {})
    got = f"; it is {_brief(value)}"
    if wrong == "string_too_long":
        return f"has {len(value):,} characters, and {limits['max_length']:,} is the most"
    if wrong in ("string_too_short", "too_short"):
        return "is empty"
    if wrong == "too_long":
        return f"holds {limits['actual_length']:,}, and {limits['max_length']} is the most"
    if wrong == "literal_error":
        return f"should be {limits['expected']}{got}"
    if wrong == "string_pattern_mismatch":
        what = "be a letter, then letters, digits, _ or -"
        if "http" in limits["pattern"]:
            what = "start with https://host, http://host or mailto:name@"
        elif "#" in limits["pattern"]:
            what = "be one word, such as python"
        elif "{2,63}" in limits["pattern"]:
            what = "be a letter, then 2 to 63 letters, digits, _ or -"
        return f"should {what}{got}"
    if wrong == "value_error":
        return f"{limits['error']}{got}"
    kinds = {"string": "a text", "list": "a list", "model": "an object", "bool": "true or false"}
    kind = next((word for start, word in kinds.items() if wrong.startswith(start)), "")
    message = f"should be {kind}" if kind else error["msg"].replace("Input should", "should")
    return f"{message}{got}"


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text):,} characters)"
