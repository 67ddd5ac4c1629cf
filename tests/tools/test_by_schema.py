"""Arguments checked against a JSON schema from outside, before the tool runs."""

from __future__ import annotations

from typing import Any

import pytest

from cumulus_jupyter.agent.errors import ToolError
from cumulus_jupyter.tools.arguments import validated

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "size": {"type": "number", "default": 2.5},
        "deep": {"$ref": "#/$defs/Deep"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "names": {"type": "array", "items": {"type": "string"}},
        "level": {"enum": [1, 2, "high"]},
        "text": {"type": "string"},
        "on": {"type": "boolean"},
        "either": {"anyOf": [{"type": "string"}, {"type": "object"}]},
    },
    "required": ["count"],
    "additionalProperties": False,
    "$defs": {"Deep": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
}
MENDED = {
    "number in quotes": ({"count": "5"}, {"count": 5}),
    "fraction in quotes": ({"count": 1, "size": "1.5"}, {"count": 1, "size": 1.5}),
    "text of an object, and inside of it": ({"count": 1, "deep": '{"x": "2"}'}, {"count": 1, "deep": {"x": 2}}),
    "text of a list": ({"count": 1, "names": '["a"]'}, {"count": 1, "names": ["a"]}),
    "one of several": ({"count": 1, "maybe": "7"}, {"count": 1, "maybe": 7}),
    "a listed number": ({"count": 1, "level": "2"}, {"count": 1, "level": 2}),
    "truth in quotes": ({"count": 1, "on": "True"}, {"count": 1, "on": True}),
    "null where nothing need be": ({"count": 1, "text": None}, {"count": 1}),
}
REFUSED = {
    "nothing given": ({}, "count is missing"),
    "null where something must be": ({"count": None}, "count should be integer, got null"),
    "a word for a number": ({"count": "five"}, 'count should be integer, got "five"'),
    "a fraction for a whole number": ({"count": "1.5"}, "count should be integer"),
    "words for a list": ({"count": 1, "names": "a, b"}, "names should be array"),
    "a number for a text": ({"count": 1, "text": 5}, "text should be string, got 5"),
    "unknown, near": ({"count": 1, "nmes": []}, "nmes is unknown: did you mean names?"),
    "not listed": ({"count": 1, "level": "low"}, "level should be one of 1, 2"),
    "missing inside": ({"count": 1, "deep": {}}, "deep.x is missing"),
}


@pytest.mark.parametrize("name", MENDED)
def test_what_can_mean_one_thing_is_mended_and_said(name: str) -> None:
    """The tool gets the thing itself, what was done is told, and what the model sent stays as it was."""
    sent, wanted = MENDED[name]
    before = repr(sent)
    values, notes = validated(SCHEMA, sent)
    assert values == wanted
    assert notes
    assert repr(sent) == before


@pytest.mark.parametrize("name", REFUSED)
def test_all_else_is_refused_with_its_path_and_the_right_shape(name: str) -> None:
    """Every fault is named; no default is filled in."""
    sent, words = REFUSED[name]
    with pytest.raises(ToolError) as caught:
        validated(SCHEMA, sent, name="measure")
    assert words in str(caught.value)
    assert "The right shape: measure(count: integer" in str(caught.value)


def test_what_fits_is_left_alone() -> None:
    """No note, no default, the same object: a text that looks like JSON stays a text where texts are allowed."""
    sent = {"count": 5, "text": '{"a": 1}', "either": "[1]", "maybe": None}
    assert validated(SCHEMA, sent) == (sent, [])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"k": {"type": "string", "pattern": "(("}}},
        {"type": "object", "properties": {"k": {"$ref": "https://example.org/never-fetched.json"}}},
        {"type": "object", "properties": {"k": {"type": "null", "enum": ["A"]}}},
        {"type": "object", "properties": {"k": {"type": "any"}}},
        {},
    ],
)
def test_a_broken_schema_leaves_the_decision_to_the_server(schema: dict[str, Any]) -> None:
    """Nothing is fetched and nothing is refused that the schema can't speak about."""
    assert validated(schema, {"k": "A"}) == ({"k": "A"}, [])


def test_a_root_that_is_no_object_is_checked_under_its_parameter() -> None:
    """The model was told to give it as value."""
    assert validated({"type": "integer"}, {"value": "3"}) == ({"value": 3}, ['value: "3" taken as 3'])
    with pytest.raises(ToolError, match="value is missing"):
        validated({"type": "string"}, {})
