"""Tool calls that a server let through as text, in the markup that the model was trained on.

Kimi, Qwen and Hermes, GLM, DeepSeek and gpt-oss each have their own; a server that does not know a model's markup, or
meets it where it did not expect it, sends it on as the answer or as reasoning. Markup counts as a call only where it
names a tool that the request has; all else is text, since people do ask about markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..agent.tool import Tool
from .calls import RawCall, read_arguments

__all__ = ["LeakFilter", "scan"]

_DSML = r"(?:[｜‖|]{1,2}DSML[｜‖|]{1,2})?"
_MARKERS = (
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<tool_call>",
    "<function=",
    "<invoke name=",
    *(f"<{bar}DSML{bar}" for bar in ("｜", "‖", "｜｜", "‖‖", "|", "||")),
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<|channel|>",
    "<|start|>assistant",
)
_NAME = re.compile(
    r"(?:<\|tool_calls_section_begin\|>\s*)?<\|tool_call_begin\|>\s*(?:functions\.)?([\w.-]+)(?=[^\w.-])"
    r'|<tool_call>\s*(?:\{\s*"name"\s*:\s*"([^"]+)"|<function=([^>\s]+)>|([\w.-]+)(?=[\s<]))'
    r"|<function=([^>\s]+)>"
    rf'|(?:<{_DSML}(?:function_calls|tool_calls)>\s*)?<{_DSML}invoke name="([^"]+)"'
    r"|(?:<｜tool▁calls▁begin｜>\s*)?<｜tool▁call▁begin｜>\s*"
    r"(?:function<｜tool▁sep｜>([\w.-]+)(?=[^\w.-])|(?!function<)([\w.-]+)(?=[^\w.-]))"
    r"|(?:<\|start\|>assistant[^<]*)?<\|channel\|>(?:final|analysis|commentary)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
)
_UNDECIDED = 400
"""Characters within which the markup must have named its tool."""

_KIMI = re.compile(
    r"<\|tool_call_begin\|>\s*(?P<id>(?:functions\.)?(?P<name>[\w.-]+)(?::\d+)?)"
    r"(?:\s*<\|tool_call_argument_begin\|>|[^{<]{0,40})(?P<body>.*?)"
    r"(?:<\|tool_call_end\|>|(?=<\|tool_call_begin\|>)|(?=<\|tool_calls_section_end\|>)|\Z)",
    re.DOTALL,
)
_TAGGED = re.compile(r"<tool_call>\s*(?P<body>.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_FUNCTION = re.compile(r"<function=(?P<name>[^>\s]+)>(?P<body>.*?)(?:</function>|(?=<function=)|\Z)", re.DOTALL)
_PARAMETER = re.compile(
    r"<parameter=(?P<key>[^>\s]+)>(?P<attributes>)\n?(?P<value>.*?)\n?"
    r"(?P<end></parameter>|(?=<parameter=)|(?=</function>)|\Z)",
    re.DOTALL,
)
_GLM = re.compile(
    r"<arg_key>(?P<key>.*?)</arg_key>(?P<attributes>)\s*<arg_value>(?P<value>.*?)(?P<end></arg_value>|\Z)", re.DOTALL
)
_INVOKE = re.compile(
    rf'<{_DSML}invoke name="(?P<name>[^"]+)"\s*>(?P<body>.*?)'
    rf"(?:</{_DSML}invoke>|(?=<{_DSML}invoke name=)|(?=</{_DSML}(?:function_calls|tool_calls)>)|\Z)",
    re.DOTALL,
)
_DSML_PARAMETER = re.compile(
    rf'<{_DSML}parameter name="(?P<key>[^"]+)"(?P<attributes>[^>]*)>(?P<value>.*?)'
    rf"(?P<end></{_DSML}parameter>|(?=<{_DSML}parameter name=)|\Z)",
    re.DOTALL,
)
_DEEPSEEK = re.compile(
    r"<｜tool▁call▁begin｜>\s*(?:function<｜tool▁sep｜>)?(?P<name>[\w.-]+)\s*(?:<｜tool▁sep｜>)?\s*(?:```json\s*)?"
    r"(?P<body>.*?)\s*(?:```\s*)?(?:<｜tool▁call▁end｜>|(?=<｜tool▁call▁begin｜>)|\Z)",
    re.DOTALL,
)
_HARMONY = re.compile(
    r"(?:<\|start\|>assistant(?P<before>[^<]*))?<\|channel\|>(?P<channel>\w+)(?P<after>[^<]*(?:<\|constrain\|>[^<]*)?)"
    r"<\|message\|>(?P<body>.*?)(?:<\|call\|>|<\|end\|>|<\|return\|>|(?=<\|start\|>)|(?=<\|channel\|>)|\Z)",
    re.DOTALL,
)
_RECIPIENT = re.compile(r"to=(?:functions\.)?([\w.-]+)")
_WRAPPERS = re.compile(
    rf"<\|tool_calls_section_(?:begin|end)\|>|</tool_call>|</?{_DSML}(?:function_calls|tool_calls)>"
    r"|<｜tool▁calls▁(?:begin|end)｜>"
)


class LeakFilter:
    """Lets an answer through as it streams, except what is, or may become, the markup of a call."""

    __slots__ = ("_found", "_held", "_known")

    def __init__(self, known: Mapping[str, Tool]) -> None:
        self._known = known
        self._held = ""
        self._found = False

    def feed(self, text: str) -> str:
        """Take a piece; gives what may be shown now."""
        if not self._held and ("<" not in text or not self._known):
            return text
        self._held += text
        return "" if self._found else self._release()

    def finish(self, *, cut: bool) -> tuple[str, list[RawCall]]:
        """The end of the answer: what is still to be shown, and the calls that were found in it.

        ``cut`` says that the server stopped at its limit: then markup that has not even named its tool is a call too.
        """
        held, self._held = self._held, ""
        if not self._found:
            whole = held.startswith(_MARKERS)
            return ("", [RawCall("", parts=[held])]) if cut and whole else (held, [])
        text, calls = scan(held, self._known)
        return (text, calls) if calls or not cut else ("", [RawCall("", parts=[held])])

    def _release(self) -> str:
        held, start = self._held, self._held.find("<")
        while start >= 0:
            tail = held[start:]
            if tail.startswith(_MARKERS):
                match = _NAME.match(tail)
                if match is None and len(tail) <= _UNDECIDED:
                    break
                if match is not None and (match.lastindex is None or _known(match[match.lastindex], self._known)):
                    self._found = True
                    break
            elif any(marker.startswith(tail) for marker in _MARKERS):
                break
            start = held.find("<", start + 1)
        shown = held if start < 0 else held[:start]
        self._held = held[len(shown) :]
        return shown


def scan(text: str, known: Mapping[str, Tool]) -> tuple[str, list[RawCall]]:
    """A text without the calls in it, and these calls. Where there are none, the text comes back as it is."""
    calls: list[RawCall] = []
    kept = text
    for pattern, read in _FAMILIES:

        def take(match: re.Match[str], read: _Reader = read) -> str:
            found = read(match, known)
            if isinstance(found, RawCall):
                calls.append(found)
                return ""
            return match[0] if found is None else found

        kept = pattern.sub(take, kept)
    return (_WRAPPERS.sub("", kept).strip(), calls) if calls else (kept, [])


_Reader = Callable[[re.Match[str], Mapping[str, Tool]], "RawCall | str | None"]


def _known(name: str, known: Mapping[str, Tool]) -> str:
    """The tool's name as the request has it; empty for no such tool."""
    bare = name.strip().removeprefix("functions.")
    return name.strip() if name.strip() in known else bare if bare in known else ""


def _kimi(match: re.Match[str], known: Mapping[str, Tool]) -> RawCall | None:
    name = _known(match["name"], known)
    return RawCall(name, match["id"], [match["body"].strip()]) if name else None


def _deepseek(match: re.Match[str], known: Mapping[str, Tool]) -> RawCall | None:
    name = _known(match["name"], known)
    return RawCall(name, parts=[match["body"].strip()]) if name else None


def _tagged(match: re.Match[str], known: Mapping[str, Tool]) -> RawCall | None:
    """``<tool_call>``: JSON (Hermes, Qwen), ``<function=…>`` (Qwen coder) or name and pairs (GLM)."""
    body = match["body"].strip()
    if inner := _FUNCTION.match(body):
        return _function(inner, known)
    if body.startswith("{"):
        return _json_call(body, known)
    head = re.match(r"[\w.-]+", body)
    name = _known(head[0], known) if head else ""
    if not head or not name:
        return None
    return _with_parameters(name, body[head.end() :], _GLM, known[name])


def _json_call(body: str, known: Mapping[str, Tool]) -> RawCall | None:
    value = read_arguments(body)
    if value is None:
        head = re.search(r'"name"\s*:\s*"([^"]+)"', body)
        name = _known(head[1], known) if head else ""
        return RawCall(name, parts=[body]) if name else None
    name = _known(str(value.get("name", "")), known)
    arguments = value.get("arguments", value.get("parameters", {}))
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return RawCall(name, parts=[text]) if name else None


def _function(match: re.Match[str], known: Mapping[str, Tool]) -> RawCall | None:
    name = _known(match["name"], known)
    return _with_parameters(name, match["body"], _PARAMETER, known[name]) if name else None


def _invoke(match: re.Match[str], known: Mapping[str, Tool]) -> RawCall | None:
    name = _known(match["name"], known)
    return _with_parameters(name, match["body"], _DSML_PARAMETER, known[name]) if name else None


def _harmony(match: re.Match[str], known: Mapping[str, Tool]) -> RawCall | str | None:
    """gpt-oss: a channel with a recipient is a call, the final one is the answer, the others are thinking."""
    recipient = _RECIPIENT.search((match["before"] or "") + match["after"])
    if recipient:
        name = _known(recipient[1].partition("<|")[0], known)
        return RawCall(name, parts=[match["body"].strip()]) if name else None
    if match["channel"] == "commentary" and read_arguments(match["body"]):
        return None  # arguments without a tool: nothing can be made of them
    return "" if match["channel"] == "analysis" else match["body"]


def _with_parameters(name: str, body: str, pattern: re.Pattern[str], tool: Tool) -> RawCall:
    """A call whose arguments are written one by one; a value that stops short makes the call unreadable."""
    properties = tool.schema().get("properties", {})
    arguments: dict[str, Any] = {}
    for match in pattern.finditer(body):
        if not match["end"]:
            return RawCall(name, parts=[body])
        key = match["key"].strip()
        arguments[key] = _typed(match["value"], match["attributes"], properties.get(key, {}))
    if not arguments and body.strip():  # something is there that was not understood
        return RawCall(name, parts=[body.strip()])
    return RawCall(name, parts=[json.dumps(arguments, ensure_ascii=False)])


def _typed(value: str, attributes: str, schema: Any) -> Any:
    """The value as the schema types it: markup does not tell a text from a number."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    kinds = kind if isinstance(kind, list) else [kind]
    if 'string="true"' in attributes or ("string" in kinds and 'string="false"' not in attributes):
        return value
    if kind is None and "string=" not in attributes:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


_FAMILIES: tuple[tuple[re.Pattern[str], _Reader], ...] = (
    (_KIMI, _kimi),
    (_DEEPSEEK, _deepseek),
    (_TAGGED, _tagged),
    (_FUNCTION, _function),
    (_INVOKE, _invoke),
    (_HARMONY, _harmony),
)
