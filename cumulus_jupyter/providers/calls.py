"""Tool calls as Chat Completions servers really stream them, folded to whole calls."""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from jiter import from_json

from ..agent.messages import ToolCall

__all__ = ["CallFold", "RawCall", "read_arguments", "to_calls"]


@dataclass(slots=True)
class RawCall:
    """A call as far as it came: arguments in pieces."""

    name: str
    id: str = ""
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The arguments so far."""
        return "".join(self.parts)


class CallFold:
    """Joins the ``tool_calls`` of a stream's deltas.

    Servers disagree on indexes, ids and names, so: a delta starts a call if it has a name and its index is new, or its
    id is another one, or the call there has complete arguments and more come. All else continues a call: the one at
    its index, or else the last. Empty names and ids never overwrite.
    """

    __slots__ = ("_at", "_known", "calls")

    def __init__(self, known: Container[str] = ()) -> None:
        self.calls: list[RawCall] = []
        self._at: dict[int | None, RawCall] = {}
        self._known = known

    def take(self, deltas: list[Any]) -> None:
        """Take one chunk's ``tool_calls``."""
        for position, delta in enumerate(deltas):
            if isinstance(delta, dict):
                self._take(delta, position if len(deltas) > 1 else None)

    def _take(self, delta: dict[str, Any], position: int | None) -> None:
        function = delta.get("function")
        function = function if isinstance(function, dict) else delta
        name, raw_id, pieces = function.get("name") or "", delta.get("id") or "", function.get("arguments")
        text = pieces if isinstance(pieces, str) else "" if pieces is None else json.dumps(pieces, ensure_ascii=False)
        index = delta.get("index")
        indexed = type(index) is int
        call = self._at.get(index if indexed else position)
        if call is None and not indexed and self.calls:
            call = self.calls[-1]
        if name and (call is None or self._is_new(call, name, raw_id, text, indexed=indexed)):
            call = RawCall(name, raw_id)
            self.calls.append(call)
            self._at[index if indexed else position] = call
        elif call is None:
            if not self.calls:
                return
            call = self.calls[-1]
        elif name and name != call.name:
            call.name += name
        if raw_id and not call.id:
            call.id = raw_id
        if text and not (name and call.parts and text == call.text):
            call.parts.append(text)

    def _is_new(self, call: RawCall, name: str, raw_id: str, text: str, *, indexed: bool) -> bool:
        if raw_id and call.id and raw_id != call.id:
            return True
        if not indexed and not (raw_id and raw_id == call.id):
            return True
        if name != call.name and name in self._known and call.name in self._known:
            return True
        if not text.strip() or not call.parts or not call.parts[-1].rstrip().endswith("}"):
            return False
        whole = call.text
        # The same again is a server that repeats itself, not a second call.
        return read_arguments(whole) is not None and not (name == call.name and text == whole)


def to_calls(raw: list[RawCall], known: Container[str]) -> list[ToolCall]:
    """Whole calls: names without markup, arguments parsed, two calls in one text taken apart."""
    calls = []
    for item in raw:
        name = item.name.partition("<|")[0].strip()
        if name not in known and name.removeprefix("functions.") in known:
            name = name.removeprefix("functions.")
        text = item.text
        objects = _objects(text)
        if not objects:
            calls.append(ToolCall("", name, None, item.id, text))
        for number, arguments in enumerate(objects):
            calls.append(ToolCall("", name, arguments, item.id if number == 0 else ""))
    return calls


def read_arguments(text: str) -> dict[str, Any] | None:
    """The arguments that a text holds; None where it holds no JSON object. Nothing at all means no arguments."""
    if not text.strip():
        return {}
    value = _value(text)
    if isinstance(value, str):  # encoded twice
        value = _value(value)
    if value is None and text.strip() == "null":
        return {}
    return value if isinstance(value, dict) else None


def _value(text: str) -> Any:
    try:
        return from_json(text.encode("utf-8", "surrogatepass"), allow_inf_nan=False)
    except ValueError:
        pass
    try:
        return json.loads(text, strict=False, parse_constant=_refuse)
    except ValueError:
        return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _objects(text: str) -> list[dict[str, Any]]:
    """One object, or several written behind one another; the same one twice counts once."""
    if (whole := read_arguments(text)) is not None:
        return [whole]
    decoder = json.JSONDecoder(strict=False, parse_constant=_refuse)
    found: list[dict[str, Any]] = []
    rest = text.strip()
    while rest:
        try:
            value, end = decoder.raw_decode(rest)
        except ValueError:
            return []
        if not isinstance(value, dict):
            return []
        if value not in found:
            found.append(value)
        rest = rest[end:].lstrip()
    return found
