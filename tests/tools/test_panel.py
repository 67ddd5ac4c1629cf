"""present_ui: what is accepted, what is refused and how, and what a panel becomes."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent.events import ApprovalAsked, PanelShown
from cumulus_jupyter.agent.messages import Answer, Outcome
from cumulus_jupyter.agent.policy import DENY, ONCE, SESSION
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.tools.panel import panels, present_ui
from cumulus_jupyter.tools.panel_schema import COMPONENTS, INPUTS, SHAPES

from .conftest import CASES, Bench

CONTRACT = json.loads((CASES / "present_ui.json").read_text())
DIVIDER = {"component": "Divider"}


def text(value: str = "hi") -> dict[str, Any]:
    return {"component": "Text", "value": value}


def card(*children: Any, **fields: Any) -> dict[str, Any]:
    return {"component": "Card", "children": list(children), **fields}


def nested(levels: int) -> dict[str, Any]:
    node = text()
    for _ in range(levels - 1):
        node = card(node)
    return node


def receipt(bench: Bench, **arguments: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(bench.text("present_ui", **{"summary": "s", **arguments}))
    return told


def refused(bench: Bench, **arguments: Any) -> str:
    """The refusal of a call that must show and change nothing."""
    before = json.dumps(panels(bench.transcript))
    said = bench.refusal("present_ui", **{"summary": "s", **arguments})
    assert json.dumps(panels(bench.transcript)) == before
    return said


# The contract ----------------------------------------------------------------------------------------------------


def test_the_accepted_examples_are_accepted(bench: Bench) -> None:
    first, *others = CONTRACT["accepted"]
    bench.text("present_ui", **{**first, "ui_id": "churn-1"})
    for arguments in others:
        bench.text("present_ui", **arguments)
    shown = [event.panel for event in bench.events if isinstance(event, PanelShown)]
    assert [len(panel["root"]) for panel in shown] == [2, 2, 2]
    assert shown[-1]["root"][0]["children"][1]["href"] == "https://example.org/doc"


@pytest.mark.parametrize("example", CONTRACT["refused"], ids=lambda example: example["why"][:30])
def test_the_refused_examples_are_refused(bench: Bench, example: dict[str, Any]) -> None:
    said = bench.refusal("present_ui", **example["arguments"])
    assert "nothing was shown or changed" in said
    assert "The right shape" in said
    assert not [event for event in bench.events if isinstance(event, PanelShown)]


@pytest.mark.parametrize("example", CONTRACT["accepted_near_misses"], ids=lambda example: example["what"])
def test_the_near_misses_of_the_contract_are_accepted(bench: Bench, example: dict[str, Any]) -> None:
    assert receipt(bench, **example["arguments"])["nodes"] == 1


def test_each_component_of_the_contract_is_known() -> None:
    assert set(COMPONENTS) == {name for name in CONTRACT["schema"]["$defs"] if name != "KV"}
    assert set(SHAPES) == {*COMPONENTS, *INPUTS, ""}


def test_what_goes_with_each_request_is_short_and_names_each_component() -> None:
    sent = present_ui.description + json.dumps(present_ui.schema())
    assert len(sent) < 2_000
    assert all(f"{name}{{" in present_ui.description for name in COMPONENTS)


# Near misses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"component": "Text", "value": 5}, {"value": "5"}),
        (
            {"component": "Table", "column": ["a", 2024], "row": [[1.5, "x"]]},
            {"columns": ["a", "2024"], "rows": [["1.5", "x"]]},
        ),
        (
            {"component": "Table", "columns": '["a"]', "rows": '[["1"], [2]]'},
            {"columns": ["a"], "rows": [["1"], ["2"]]},
        ),
        ({"component": "Table", "columns": ["a"], "rows": {"rows": [["1"]]}}, {"rows": [["1"]]}),
        (
            {"component": "KeyValue", "items": [["a", 1], {"label": "b", "value": 2}]},
            {"items": [{"label": "a", "value": "1"}, {"label": "b", "value": "2"}]},
        ),
        ({"component": "Card", "title": None, "children": {"children": [DIVIDER]}}, {"children": [DIVIDER]}),
        ({"component": "Card", "children": json.dumps([DIVIDER])}, {"children": [DIVIDER]}),
    ],
)
def test_near_misses_become_what_they_mean(bench: Bench, given: dict[str, Any], meant: dict[str, Any]) -> None:
    told = receipt(bench, root=[given])
    (node,) = panels(bench.transcript)[told["ui_id"]]["root"]
    assert {key: node[key] for key in meant} == meant


def test_a_root_in_its_own_wrapper_and_behind_garbage_is_taken_with_a_note(bench: Bench) -> None:
    assert "notes" not in receipt(bench, root={"root": [DIVIDER]})
    told = receipt(bench, root=json.dumps([DIVIDER]) + "]}  trailing")
    assert told["nodes"] == 1
    assert "12 characters behind the end" in told["notes"][0]


def test_what_can_mean_two_things_is_not_mended(bench: Bench) -> None:
    assert "root[0].text is unknown" in refused(bench, root=[{"component": "Text", "value": "a", "text": "b"}])
    assert "rows[0][0] should be a text; it is true" in refused(
        bench, root=[{"component": "Table", "columns": ["a"], "rows": [[True]]}]
    )
    assert "root should be a list" in refused(bench, root="not JSON")


# Faults ----------------------------------------------------------------------------------------------------------


def test_every_fault_is_told_with_path_and_shape_at_once(bench: Bench) -> None:
    root = [
        {"component": "Tabel", "columns": ["a"]},
        card({"component": "Text"}, {"component": "Badge", "label": "", "status": "good"}, 7, id="9"),
        {"component": "Table", "columns": ["a", "b"], "rows": [["1"], ["1", "2", "3"]]},
        {"component": "Link", "href": "https://a.example/\\@b.example", "label": "x", "title": "t"},
        {"value": "no component"},
    ]
    said = refused(bench, root=root, operation="remove", ui_id="1", extra=1)
    for fault in (
        'root[0] has the unknown component "Tabel": did you mean Table?',
        "root[1].id should be a letter",
        "root[1].children[0].value is missing",
        "root[1].children[1].label is empty",
        "root[1].children[1].status should be 'neutral'",
        "root[1].children[2] should be an object; it is 7",
        "root[2].rows[0] holds 1 cells, and there are 2 columns",
        "root[2].rows[1] holds 3 cells",
        "root[3].href may hold no space, backslash",
        "root[3].title is unknown",
        "root[4] has no component",
        "ui_id should be a letter, then 2 to 63",
        "operation should be 'replace'",
        "extra is unknown",
        "14 faults",
        "Table{columns: 1-8 texts",
        "Badge{label",
    ):
        assert fault in said


@pytest.mark.parametrize(
    ("root", "fault"),
    [
        ([nested(9)], "comes to 9 levels of nesting in all, and 8 is the most"),
        ([nested(100)], "comes to 100 levels"),
        ([card(*[DIVIDER] * 100), card(*[DIVIDER] * 99)], "comes to 201 nodes in all, and 200 is the most"),
        ([DIVIDER] * 201, "root holds 201, and 200 is the most"),
        ([], "root is empty"),
        ([card(id="a"), card(card(id="a"))], "2 containers with the id 'a'"),
        ([{"component": "CodeBlock", "code": "x" * 20_000}] * 11, "comes to 220,000 characters"),
        ([text("x" * 2_001)], "root[0].value has 2,001 characters, and 2,000 is the most"),
        ([text("\ud800")], "root[0].value should be a text"),
        ([{"component": "CodeBlock", "code": "x" * 1_000_000}], "has 1,000,000 characters"),
        ([{"component": "Table", "columns": list("abcdefghi")}], "root[0].columns holds 9, and 8 is the most"),
        ([{"component": "Table", "columns": ["a"], "rows": [["1"]] * 51}], "root[0].rows holds 51, and 50"),
    ],
)
def test_beyond_the_limits(bench: Bench, root: list[Any], fault: str) -> None:
    assert fault in refused(bench, root=root)


def test_the_limits_themselves_fit(bench: Bench) -> None:
    assert receipt(bench, root=[nested(8)])["depth"] == 8
    assert receipt(bench, root=[card(*[DIVIDER] * 199)])["nodes"] == 200
    rows = [["x" * 500] * 8] * 49
    receipt(bench, root=[{"component": "Table", "columns": list("abcdefgh"), "rows": rows}])


@pytest.mark.parametrize(
    "href",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        " https://a.example",
        "file:///etc",
        "//a.b",
        "mailto:a",
        "https://a.example/\n",
        "JAVASCRIPT:x",
    ],
)
def test_links_go_to_the_web_and_to_mail_only(bench: Bench, href: str) -> None:
    assert "root[0].href" in refused(bench, root=[{"component": "Link", "href": href, "label": "x"}])


# Operations ------------------------------------------------------------------------------------------------------


def test_append_update_and_replace(bench: Bench) -> None:
    told = receipt(bench, root=[card(text("a"), id="one"), card(card(id="deep"), id="two")])
    id = told["ui_id"]
    assert re.fullmatch(r"gui-[0-9a-f]{8}", id)
    assert told == {"ui_id": id, "nodes": 4, "depth": 2, "containers": ["one", "two", "deep"]}
    told = receipt(bench, ui_id=id, operation="append", target="deep", root=[text("b"), text("c")])
    assert (told["nodes"], told["depth"]) == (6, 3)
    told = receipt(bench, ui_id=id, operation="append", root=[DIVIDER])
    assert panels(bench.transcript)[id]["root"][-1] == DIVIDER
    told = receipt(bench, ui_id=id, operation="update", target="two", root=[card(id="three")])
    assert told["containers"] == ["one", "three"]
    told = receipt(bench, ui_id=id, root=[DIVIDER])
    assert (told["ui_id"], told["nodes"]) == (id, 1)


def test_a_change_of_what_is_not_there_names_what_is(bench: Bench) -> None:
    assert "ui_id is missing: append changes a panel" in refused(bench, operation="append", root=[DIVIDER])
    assert "There is none yet" in refused(bench, operation="append", ui_id="none", root=[DIVIDER])
    receipt(bench, ui_id="here", root=[card(id="box")])
    said = refused(bench, operation="update", ui_id="there", target="box", root=[DIVIDER, DIVIDER])
    assert "ui_id names no panel of this conversation. There are: here" in said
    assert "root holds 2 nodes; update puts exactly one" in said
    said = refused(bench, operation="update", ui_id="here", target="bix", root=[DIVIDER])
    assert "target names no container of here; there are: box" in said
    assert "target is missing" in refused(bench, operation="update", ui_id="here", root=[DIVIDER])
    assert "target is for append and update" in refused(bench, ui_id="here", target="box", root=[DIVIDER])


def test_limits_hold_for_what_a_panel_grows_to(bench: Bench) -> None:
    receipt(bench, ui_id="big", root=[card(*[DIVIDER] * 150, id="a")])
    assert "201 nodes" in refused(bench, ui_id="big", operation="append", root=[DIVIDER] * 50)
    assert "2 containers with the id 'a'" in refused(bench, ui_id="big", operation="append", root=[card(id="a")])
    receipt(bench, ui_id="big", operation="append", root=[DIVIDER] * 49)


def test_calls_of_one_reply_build_on_each_other(bench: Bench) -> None:
    """Three calls side by side come to one panel, in call order."""
    calls = [("present_ui", {"summary": "s", "ui_id": "abc", "root": [text("1")]})]
    more = {"summary": "s", "ui_id": "abc", "operation": "append"}
    calls += [("present_ui", {**more, "root": [text(str(n))]}) for n in range(2, 12)]
    results = bench.calls(*calls)
    assert all(result and result.ok for result in results)
    assert [node["value"] for node in panels(bench.transcript)["abc"]["root"]] == [str(n) for n in range(1, 12)]


def test_panels_are_read_from_a_stored_transcript(bench: Bench) -> None:
    receipt(bench, ui_id="kept", root=[card(id="box")])
    lines = json.loads(json.dumps(bench.transcript.lines))
    bench.transcript = Transcript.load(bench.transcript.session, lines)
    bench.transcript.user("go on")
    assert receipt(bench, ui_id="kept", operation="append", target="box", root=[DIVIDER])["nodes"] == 2


# Live ------------------------------------------------------------------------------------------------------------

LIVE = {"variables": ["n"], "function": "draw"}
SLIDER = {"component": "Slider", "variable": "n", "min": 0, "max": 9}
PLACES = [{"component": "Button", "label": "go"}, {"component": "Output"}]


def live_bench(root: Path, **options: Any) -> Bench:
    bench = Bench(root, **options)
    bench.toolbox.host.namespace().update({"draw": lambda n: n, "np": json, "later": _later, "both": _both, "n": 3})
    return bench


async def _later() -> None: ...


def _both(n: int, other: int, more: int = 1) -> None: ...


def test_inputs_need_live_and_touch_what_it_names(tmp_path: Path) -> None:
    bench = live_bench(tmp_path)
    assert "root[0] is a Slider, which only a live panel may hold" in refused(bench, root=[SLIDER])
    said = refused(bench, root=[{**SLIDER, "variable": "m"}, *PLACES], live=LIVE)
    assert "root[0].variable 'm' is not among live.variables" in said
    assert receipt(bench, root=[SLIDER, *PLACES], live=LIVE)["nodes"] == 3


@pytest.mark.parametrize(
    ("live", "fault"),
    [
        ({"variables": ["n", "np"], "function": "draw"}, "'np' holds a module; inputs set numbers"),
        ({"variables": ["_x"]}, "'_x' can't be a variable"),
        ({"variables": ["x.y"]}, "'x.y' can't be a variable"),
        ({"variables": ["open"]}, "'open' is taken"),
        ({"variables": ["get_ipython"]}, "'get_ipython' is taken"),
        ({"variables": ["n"], "function": "gone"}, "there is no function 'gone' in the kernel"),
        ({"variables": ["n"], "function": "exit"}, "there is no function 'exit'"),
        ({"variables": ["n"], "function": "later"}, "'later' must be a plain function"),
        ({"variables": ["n"], "function": "both"}, "'both' needs other, which is none of live.variables"),
        ({"variables": ["n"]}, "root[1] is a Button, and the panel has no live.function"),
        ({"variables": ["n"], "functions": "draw"}, "live.functions is unknown"),
    ],
)
def test_what_a_panel_may_not_touch(tmp_path: Path, live: dict[str, Any], fault: str) -> None:
    assert fault in refused(live_bench(tmp_path), root=[SLIDER, *PLACES], live=live)


@pytest.mark.parametrize(
    ("node", "fault"),
    [
        ({**SLIDER, "min": 9, "max": 0}, "min must be the smaller one"),
        ({**SLIDER, "value": 10}, "root[0].value is 10, outside of 0 to 9"),
        ({**SLIDER, "step": 0}, "root[0].step is 0"),
        (
            {"component": "Select", "variable": "n", "options": ["a"], "value": "b"},
            "root[0].value is none of the options",
        ),
        ({"component": "Toggle", "variable": "n", "value": "yes"}, "root[0].value should be true or false"),
        ({"component": "Output"}, "root[2] is a second Output"),
    ],
)
def test_faults_of_inputs(tmp_path: Path, node: dict[str, Any], fault: str) -> None:
    assert fault in refused(live_bench(tmp_path), root=[node, *PLACES], live=LIVE)


def settle(bench: Bench, choice: str, **arguments: Any) -> Any:
    """Call, answer the approval, and give the result."""

    async def run() -> Any:
        (first,) = await bench.run(("present_ui", {"summary": "s", **arguments}))
        assert first is None, f"the call did not wait: {first}"
        bench.transcript.answer(bench.asked[-1].ask, Answer(Outcome.ANSWERED, (choice,), "no"))  # type: ignore[union-attr]
        async for event in bench.toolbox.run_open(bench.transcript):
            bench.events.append(event)
        return bench.transcript.messages[-1].results[0]  # type: ignore[union-attr]

    return asyncio.run(run())


def test_the_person_allows_a_live_panel_each_time(tmp_path: Path) -> None:
    """The pause names variables and function; a word for the session covers no second panel; denied is denied."""
    bench = live_bench(tmp_path, approve="edits", person=True)
    assert settle(bench, SESSION, root=[SLIDER, *PLACES], live=LIVE, ui_id="abc").ok
    (asked,) = bench.asked
    assert isinstance(asked, ApprovalAsked)
    assert asked.ask.detail == "panel: s\nits inputs set: n\nand call: draw()"
    assert [option.label for option in asked.ask.questions[0].options] == [ONCE, DENY]
    denied = settle(bench, DENY, root=[SLIDER, *PLACES], live=LIVE)
    assert not denied.ok
    assert denied.text.startswith("denied by the person")
    assert list(panels(bench.transcript)) == ["abc"]
    assert receipt(bench, root=[DIVIDER])["nodes"] == 1, "a panel without inputs asks nobody"
    assert receipt(bench, ui_id="abc", operation="append", root=[SLIDER])["nodes"] == 4, "allowed before"


def test_a_faulty_live_panel_asks_nobody(tmp_path: Path) -> None:
    bench = live_bench(tmp_path, approve="edits", person=True)
    assert "root[0].max is missing" in refused(bench, root=[{k: v for k, v in SLIDER.items() if k != "max"}], live=LIVE)
    assert not bench.asked


@pytest.mark.parametrize("approve", ["edits", "ask", "none"])
def test_with_nobody_there_a_live_panel_is_denied_in_words(tmp_path: Path, approve: str) -> None:
    bench = live_bench(tmp_path, approve=approve)
    for wrapped in (LIVE, json.dumps(LIVE), {"live": LIVE}):
        assert refused(bench, root=[SLIDER, *PLACES], live=wrapped).startswith("denied: ")


def test_inputs_of_another_kernels_panel_are_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was allowed holds for its process: a follow-up elsewhere is shown, and no new input gets in."""
    bench = live_bench(tmp_path, approve="edits", person=True)
    settle(bench, ONCE, root=[SLIDER, *PLACES], live=LIVE, ui_id="abc")
    monkeypatch.setattr("cumulus_jupyter.tools.panel_live.PROCESS", "another")
    told = receipt(bench, ui_id="abc", operation="append", root=[DIVIDER])
    assert "no longer live" in told["notes"][0]
    assert "only a live panel may hold" in refused(bench, ui_id="abc", operation="append", root=[SLIDER])
