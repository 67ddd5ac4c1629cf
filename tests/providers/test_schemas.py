"""Names and schemas that come from anywhere, at servers that refuse what real ones refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cumulus_jupyter.agent.events import Notice
from cumulus_jupyter.agent.messages import Reply as Said
from cumulus_jupyter.agent.messages import Status, ToolCall, ToolResult, ToolResults, UserMessage
from cumulus_jupyter.agent.provider import Request
from cumulus_jupyter.agent.schemas import is_wrapped, object_schema
from cumulus_jupyter.agent.tool import Output, Tool
from cumulus_jupyter.providers.names import wire_name

from ..wire.harness import MODELS, Calls, converse
from ..wire.schemas import schema_fault
from ..wire.server import Turn
from ..wire.validate import TOOL_NAME

P, Q = ({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]} for name in "pq")
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}
SCHEMAS: dict[str, Any] = {
    "plain": P,
    "nothing": {},
    "true": True,
    "anyOf": {"anyOf": [P, Q]},
    "oneOf with a root": {"type": "object", "properties": {"r": {"type": "integer"}}, "oneOf": [P, Q]},
    "allOf": {"allOf": [P, {"$ref": "#/$defs/Q"}], "$defs": {"Q": Q}},
    "same parameter twice": {"anyOf": [P, {"type": "object", "properties": {"p": {"type": "integer"}}}]},
    "recursive": {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": NODE}},
    "recursive root": {"type": "object", "properties": {"again": {"$ref": "#"}}},
    "root reference": {"$ref": "#/definitions/N", "definitions": {"N": {**NODE, "properties": {"n": {"$ref": "#"}}}}},
    "dead reference": {"type": "object", "properties": {"x": {"$ref": "#/nowhere"}, "y": {"$ref": "http://a.b/c"}}},
    "stringy": {"type": "string"},
    "list": {
        "type": "array",
        "items": {"$ref": "#/$defs/N"},
        "$defs": {"N": {"type": "array", "items": {"$ref": "#"}}},
    },
    "enum root": {"enum": ["a", "b"]},
    "null enum": {"type": "object", "properties": {"k": {"type": "null", "enum": ["A"]}}},
    "enum with null": {"type": "object", "properties": {"k": {"type": "string", "enum": ["A", None]}}},
    "null or object": {"type": ["object", "null"], "properties": {"k": {"type": "string"}}},
    "array without items": {"type": "object", "properties": {"k": {"type": "array"}, "l": {"type": ["array", "null"]}}},
    "tuple": {"type": "object", "properties": {"k": {"type": "array", "items": [{"type": "string"}, True]}}},
    "other dialects": {
        "type": "object",
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {
            "a": {"type": "int", "minimum": 1, "exclusiveMinimum": True, "required": True},
            "b": {"type": "any"},
            "c": True,
            "d": {"type": "STRING", "enum": []},
        },
        "required": None,
    },
    "a maze": {
        "$ref": "#/$defs/d0",
        "$defs": {
            f"d{n}": {"anyOf": [*({"$ref": f"#/$defs/d{m}"} for m in range(12)), {**P, "title": f"d{n}"}]}
            for n in range(12)
        },
    },
    "conditions": {"type": "object", "properties": {}, "if": P, "then": Q, "not": {"enum": [1]}},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_any_schema_becomes_one_that_servers_take(name: str) -> None:
    """What is sent has an object at its top and nothing that a server refuses, and stays as it is when mapped again."""
    mapped = object_schema(SCHEMAS[name])
    assert schema_fault(mapped, keys=True) is None
    assert object_schema(mapped) == mapped


def test_alternatives_keep_their_parameters_and_what_each_of_them_requires() -> None:
    """One object holds all parameters; required is only what every alternative requires."""
    either = object_schema({"anyOf": [P, {**Q, "required": ["q", "p"]}]})
    assert (set(either["properties"]), either["required"]) == ({"p", "q"}, ["p"])
    assert "{p} or {q}" in either["description"]
    both = object_schema(SCHEMAS["allOf"])
    assert (set(both["properties"]), both["required"]) == ({"p", "q"}, ["p", "q"])


def test_a_root_that_is_no_object_becomes_a_parameter() -> None:
    """The parameter is called value, required, and its own references still lead home."""
    assert [name for name in SCHEMAS if isinstance(SCHEMAS[name], dict) and is_wrapped(SCHEMAS[name])] == [
        "stringy",
        "list",
        "enum root",
    ]
    assert object_schema(SCHEMAS["stringy"])["properties"] == {"value": {"type": "string"}}


def circle() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["me"] = schema
    return schema


@pytest.mark.parametrize("wire", MODELS)
def test_k6_04_a_bad_schema_costs_one_tool_and_is_said_once(wire: str, serve: Any, provider: Any, calls: Calls) -> None:
    """Every request is accepted; what can't be sent at all, or is refused by name, is left out and told once."""
    tools = [replace(calls.tool(f"t{n}"), schema=lambda s=s: s) for n, s in enumerate(SCHEMAS.values())]
    tools += [replace(calls.tool("circle"), schema=circle), replace(calls.tool("odd"), schema=lambda: ["x"])]
    tools += [replace(calls.tool("nan"), schema=lambda: {**P, "default": {"p": float("nan")}})]
    fussy = {"type": "object", "properties": {"größe": {"type": "string", "enum": [1.5, "a"]}}}
    tools += [replace(calls.tool("umlaut"), schema=lambda: fussy), calls.tool("good", "p")]
    server = serve(Turn(calls=[("good", {"p": "x"})]), Turn("Done."), Turn("Again."))
    ran = converse(provider(server, MODELS[wire]), ["go", "more"], tools)
    assert [result.status for result in ran.results] == [Status.DONE] * 2
    assert calls.seen == [("good", {"p": "x"})]
    left_out = ["circle", "odd", "nan"] + (["umlaut"] if wire == "messages" else [])
    told = [event.text for event in ran.events if isinstance(event, Notice)]
    assert [text.split()[2] for text in told] == left_out
    assert len(server.refused) == (1 if wire == "messages" else 0)
    assert len(server.bodies[-1]["tools"]) == len(tools) - len(left_out)


CJK = ["查询库存", "查询订单", "señal", "señál", "a" * 65, "a" * 66, "with space", "with_space", "dot.ted", "x" * 64]


def test_k6_06_names_are_legal_unique_and_stable() -> None:
    """A legal name stays; others get a mark made of the whole name, the same at each start."""
    names = [wire_name(name) for name in CJK]
    assert len(set(names)) == len(CJK)
    assert all(TOOL_NAME.fullmatch(name) for name in names)
    assert (wire_name("with_space"), wire_name("x" * 64)) == ("with_space", "x" * 64)
    assert (wire_name("查询库存"), wire_name("dot.ted")) == ("tool_5deb668a4c", "dot_ted_8e4cba94f1")


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("deferred", [False, True])
def test_k6_06_each_call_reaches_its_own_tool(
    deferred: bool, wire: str, serve: Any, provider: Any, calls: Calls
) -> None:
    """Called by its wire name or its own, the right tool runs; history and references have legal names too."""

    async def fetch(context: Any, arguments: dict[str, Any]) -> Output:
        if deferred:
            context.transcript.append("fetched", names=CJK)
        return Output("fetched", {"fetched": CJK if deferred else []})

    tools: list[Tool] = [calls.tool(name, "p", deferred=deferred) for name in CJK]
    tools.append(replace(calls.tool("tool_search"), run=fetch))
    wire_calls = [(wire_name(name), {"p": str(n)}) for n, name in enumerate(CJK)]
    server = serve(
        Turn(calls=[("tool_search", {})]), Turn(calls=wire_calls), Turn(calls=[(CJK[0], {"p": "own"})]), Turn("Done.")
    )
    ran = converse(provider(server, MODELS[wire]), ["go"], tools)
    assert ran.result.status is Status.DONE, ran.result
    assert sorted(calls.seen[:-1], key=lambda call: int(call[1]["p"])) == [
        (n, {"p": str(i)}) for i, n in enumerate(CJK)
    ]
    assert calls.seen[-1] == (CJK[0], {"p": "own"})
    assert server.refused == []
    described = {t.get("name"): t["description"] for t in (t.get("function", t) for t in server.bodies[-1]["tools"])}
    assert described["tool_5deb668a4c"].startswith("查询库存: ")


@pytest.mark.parametrize("wire", MODELS)
def test_invented_names_in_history_are_legal_on_the_wire(wire: str, provider: Any, serve: Any) -> None:
    """A call of no tool, under a name that no server takes, does not make the conversation unusable."""
    call = ToolCall("c1", "google:tool:shell:index:0", {}, "c1")
    history = [
        UserMessage("go"),
        Said("", [call], model="other"),
        ToolResults([call], [ToolResult("c1", call.name, ["there is no such tool"], False)]),
        UserMessage("and now?"),
    ]
    server = serve(Turn("ok"))
    body = json.loads(provider(server, MODELS[wire]).body(Request("", history, [], [], 100)))
    assert "google:tool" not in json.dumps(body["messages"][1])
