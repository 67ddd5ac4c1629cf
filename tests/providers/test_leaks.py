"""Calls that leaked into text; numbers in names are rows of the list of failures it was built against."""

from __future__ import annotations

from typing import Any

import pytest

from cumulus_jupyter.agent.messages import Reply, StopReason
from cumulus_jupyter.agent.tool import Tool
from cumulus_jupyter.providers.accumulate import ChatReply
from cumulus_jupyter.providers.leaks import LeakFilter

from ..wire.harness import Calls


def tool(name: str, **kinds: str) -> Tool:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in kinds.items()}}
    return Tool(name=name, description="d", schema=lambda: schema, run=Calls().tool("x").run)


KNOWN = {
    t.name: t
    for t in (
        tool("get_weather", city="string"),
        tool("Bash", command="string", timeout="integer"),
        tool("Finish", answer="string"),
        tool("ls", path="string", depth="integer"),
    )
}
BAR = "｜"
DSML = f"<{BAR}DSML{BAR}"

LEAKS: dict[str, tuple[str, str, list[tuple[str, Any, str]]]] = {
    "29 Kimi": (
        "Sure. <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        '{"city":"Tokyo"}<|tool_call_end|><|tool_call_begin|>functions.ls:1<|tool_call_argument_begin|>{"path":"a"}'
        "<|tool_call_end|><|tool_calls_section_end|>",
        "Sure. ",
        [("get_weather", {"city": "Tokyo"}, "functions.get_weather:0"), ("ls", {"path": "a"}, "functions.ls:1")],
    ),
    "29 Kimi, bare": (
        '<|tool_call_begin|>functions.get_weather:0 {"city":"Tokyo"}<|tool_call_end|>',
        "",
        [("get_weather", {"city": "Tokyo"}, "functions.get_weather:0")],
    ),
    "Hermes": (
        'ok <tool_call>\n{"name": "get_weather", "arguments": {"city": "X"}}\n</tool_call>',
        "ok ",
        [("get_weather", {"city": "X"}, "")],
    ),
    "36 Qwen": (
        "<tool_call>\n<function=Finish>\n<parameter=answer>\n42\n</parameter>\n</function>\n</tool_call>",
        "",
        [("Finish", {"answer": "42"}, "")],
    ),
    "Qwen, bare": (
        "<function=ls><parameter=path>a</parameter><parameter=depth>2</parameter></function>",
        "",
        [("ls", {"path": "a", "depth": 2}, "")],
    ),
    "GLM": (
        "<tool_call>ls\n<arg_key>path</arg_key>\n<arg_value>a b</arg_value>\n<arg_key>depth</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call>",
        "",
        [("ls", {"path": "a b", "depth": 3}, "")],
    ),
    "32 DeepSeek": (
        f'{DSML}function_calls>\n{DSML}invoke name="Bash">\n{DSML}parameter name="command" string="true">ls -la'
        f'</{BAR}DSML{BAR}parameter>\n{DSML}parameter name="timeout" string="false">5</{BAR}DSML{BAR}parameter>\n'
        f"</{BAR}DSML{BAR}invoke>\n</{BAR}DSML{BAR}function_calls>",
        "",
        [("Bash", {"command": "ls -la", "timeout": 5}, "")],
    ),
    "32 bare, unterminated": (
        f'{DSML}invoke name="Bash">{DSML}parameter name="command" string="true">x</{BAR}DSML{BAR}parameter>',
        "",
        [("Bash", {"command": "x"}, "")],
    ),
    "32 malformed sibling": (
        f'{DSML}invoke name="Bash">{DSML}parameter name="command" string="true">x</{BAR}DSML{BAR}parameter>'
        f'</{BAR}DSML{BAR}invoke>{DSML}invoke name="ls">rubbish</{BAR}DSML{BAR}invoke>',
        "",
        [("Bash", {"command": "x"}, ""), ("ls", None, "")],
    ),
    "33 other bars": (
        'hello<‖DSML‖invoke name="Bash"><‖DSML‖parameter name="command" string="true">x</‖DSML‖parameter>'
        "</‖DSML‖invoke>",
        "hello",
        [("Bash", {"command": "x"}, "")],
    ),
    "33 doubled bars": (
        '<｜｜DSML｜｜invoke name="Bash"><｜｜DSML｜｜parameter name="command" string="true">x</｜｜DSML｜｜parameter>',
        "",
        [("Bash", {"command": "x"}, "")],
    ),
    "DeepSeek V3": (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>ls\n```json\n{"path":"q"}\n```<｜tool▁call▁end｜>'
        "<｜tool▁calls▁end｜>",
        "",
        [("ls", {"path": "q"}, "")],
    ),
    "35 gpt-oss": (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.ls "
        '<|constrain|>json<|message|>{"path":"z"}<|call|>',
        "",
        [("ls", {"path": "z"}, "")],
    ),
    "35 gpt-oss, the answer": ("<|channel|>final<|message|>The answer.<|return|>", "The answer.", []),
}
PLAIN = {
    "unknown tool": 'write <tool_call>{"name":"nope","arguments":{}}</tool_call> so',
    "no markup": "if a < b and x<y: <div><tool></div> <|end",
    "unknown invoke": '<invoke name="zzz"> b <function=none>',
    "half a marker at the end": "hello<｜DS",
}


def fold(content: list[str], reasoning: str = "", finish: str = "stop", blank: bool = True) -> tuple[str, Reply, str]:
    reply = ChatReply(KNOWN)
    shown = []
    if blank:
        reply.take({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
    if reasoning:
        reply.take({"choices": [{"delta": {"reasoning_content": reasoning}}]})
    for piece in content:
        shown += reply.take({"choices": [{"delta": {"content": piece}}]})
    reply.take({"choices": [{"delta": {}, "finish_reason": finish}]})
    doubt = reply.doubt()
    rest, whole = reply.end("m", lambda: 1)
    return "".join(delta.text for delta in [*shown, *rest]) if not reasoning else "", whole, doubt


@pytest.mark.parametrize("size", [1, 2, 5, 13, 1_000])
@pytest.mark.parametrize("name", LEAKS)
def test_leaked_calls_are_calls(name: str, size: int) -> None:
    """Markup that names a known tool is a call, not text, however the stream is cut."""
    text, shown, calls = LEAKS[name]
    seen, reply, doubt = fold([text[i : i + size] for i in range(0, len(text), size)])
    assert (seen.strip(), doubt) == (shown.strip(), "")
    assert [(c.name, c.arguments, c.raw_id) for c in reply.calls] == calls
    assert reply.stop is (StopReason.TOOL_CALLS if calls else StopReason.END)


@pytest.mark.parametrize("size", [1, 4, 1_000])
@pytest.mark.parametrize("name", PLAIN)
def test_other_markup_is_text(name: str, size: int) -> None:
    """What names no tool of the request is shown to the last character."""
    text = PLAIN[name]
    seen, reply, _ = fold([text[i : i + size] for i in range(0, len(text), size)])
    assert (seen, reply.text, reply.calls) == (text, text, [])


def test_33_only_what_may_be_markup_is_held_back() -> None:
    """Text streams on; just a tail that could begin a marker waits."""
    leaks = LeakFilter(KNOWN)
    assert leaks.feed("hello<‖DS") == "hello"
    assert leaks.feed("K and more") == "<‖DSK and more"
    assert leaks.feed("1 < 2") == "1 < 2"


@pytest.mark.parametrize("name", ["29 Kimi", "36 Qwen"])
def test_30_and_36_calls_in_reasoning(name: str) -> None:
    """Where there is neither text nor call, reasoning is searched for one."""
    text, _, calls = LEAKS[name]
    _, reply, doubt = fold([], reasoning=text)
    assert [(c.name, c.arguments, c.raw_id) for c in reply.calls] == calls
    assert doubt == ""


def test_reasoning_beside_an_answer_is_left_alone() -> None:
    """Thinking about a call is not calling."""
    _, reply, _ = fold(["done"], reasoning=LEAKS["Hermes"][0])
    assert (reply.text, reply.calls) == ("done", [])


@pytest.mark.parametrize("text", ['<tool_call>{"name": "ls", "argum', "x <tool_call>", LEAKS["29 Kimi"][0][:112]])
def test_37_a_cut_call_is_a_call_that_is_not_whole(text: str) -> None:
    """At the limit, markup that was begun is a cut call: nothing of it is shown or run."""
    seen, reply, _ = fold([text], finish="length")
    assert "<" not in seen
    assert reply.stop is StopReason.LENGTH
    assert reply.calls
    assert reply.calls[-1].arguments is None


def test_35_arguments_without_a_tool_are_doubted() -> None:
    """gpt-oss arguments that name no tool are asked for again, and shown if they come again."""
    _, reply, doubt = fold(['<|channel|>commentary<|message|>{"path":"z"}<|end|>'])
    assert "names no tool" in doubt
    assert not reply.calls
