"""Panels as twins that carry nothing but text, and as live widgets in a real kernel."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import mistune
import pytest

from cumulus_jupyter.jupyter.panels_html import is_numeric, link_place
from cumulus_jupyter.jupyter.twins import html_twin, markdown_twin, plain_twin

from .conftest import MIME, Cell, Kernel, start_kernel
from .panel_samples import EVERYTHING, LIVE, PLAIN, hostile, script
from .test_cell import click, comm, find, wait_for_form

WIDGET = "application/vnd.jupyter.widget-view+json"


def block(panel: dict[str, Any]) -> dict[str, Any]:
    """A panel as a block, its nodes with their defaults."""
    from cumulus_jupyter.tools.panel_check import checked
    from cumulus_jupyter.tools.panel_mend import mend

    given, faults = checked(mend({k: v for k, v in panel.items() if k != "live"})[0])
    assert not faults
    return {"kind": "panel", **given}


class Tags(HTMLParser):
    """Tags and attributes of a text that a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.urls: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.urls |= {value or "" for name, value in attrs if name in ("href", "src")}


OURS = {"class", "dir", "role", "aria-label", "data-status", "tabindex", "scope", "href", "target", "rel"}


def test_the_html_twin_holds_our_tags_and_attributes_only() -> None:
    panel = hostile()
    leaves = panel["root"][0]["children"]
    safe, evil = Tags(html_twin(block(EVERYTHING))), Tags(html_twin(block(panel)))
    assert evil.tags <= safe.tags | {"h4"}
    assert evil.attributes <= OURS
    assert evil.urls == {next(node["href"] for node in leaves if "href" in node)}


def test_the_markdown_twin_renders_to_text_without_links_images_or_tags() -> None:
    panel = hostile()
    panel["root"][0]["children"] = [node for node in panel["root"][0]["children"] if node["component"] != "Link"]
    text = markdown_twin(block(panel))["text/markdown"]
    html = mistune.create_markdown(escape=False, plugins=["table", "url"])(text)
    seen = Tags(str(html))
    assert not seen.tags & {"img", "script", "svg", "style"}
    assert not [url for url in seen.urls if not url.startswith("https://evil.example")], "a bare address may be a link"


def test_the_text_twin_reads_like_a_report() -> None:
    text = plain_twin(block(EVERYTHING))
    assert text.splitlines()[:2] == [
        "What drives churn",
        "Short contracts and high monthly charges. Read with `pd.read_csv`; **11 rows** are left out.",
    ]
    assert "  month-to-month      3,875   43 %" in text
    assert "! Not yet a cause: Charges and contract length move together." in text
    assert "How the test works: https://example.org/method" in text


def test_a_table_wider_than_a_terminal_is_told_row_by_row() -> None:
    table = {"component": "Table", "columns": ["a", "b"], "rows": [["x" * 80, "y" * 80]]}
    text = plain_twin(block({"summary": "s", "root": [table]}))
    assert text == f"s\na: {'x' * 80} · b: {'y' * 80}"


@pytest.mark.parametrize(
    ("href", "place"),
    [
        ("https://example.org/x", "example.org"),
        ("https://good.example@evil.example/", "evil.example"),
        ("https://evil.example\\@good.example/", ""),
        ("https://еxample.org/", "xn--xample-2of.org"),
        ("mailto:a@example.org?subject=x", "a@example.org"),
        ("javascript:alert(1)", ""),
        ("https://[x", ""),
    ],
)
def test_a_link_shows_where_it_goes(href: str, place: str) -> None:
    assert link_place(href) == place


def test_number_columns_are_told_from_others() -> None:
    assert is_numeric(["1", "-2.5", "1,000", "43 %", "$5", "", "–", "1e-3"])
    assert not is_numeric(["1", "two"])
    assert not is_numeric(["", ""])
    assert not is_numeric(["2025-01-02"])


# In a kernel -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with pytest.MonkeyPatch.context() as patch:
        yield from start_kernel(tmp_path_factory.mktemp("panels"), patch, stdin=True)


def show(kernel: Kernel, *calls: dict[str, Any], options: str = "", before: str = "") -> Cell:
    assert kernel.run(f"{before}\n{script(*calls)}").reply["status"] == "ok"
    return kernel.run(f"%%agent -m demo --new {options}\nshow")


def panels(cell: Cell) -> list[dict[str, Any]]:
    return [data for data in cell.displays.values() if data.get(MIME, {}).get("kind") == "panel"]


def test_a_panel_is_one_display_with_widget_and_twins(shared: Kernel) -> None:
    """Append and update change it in place; what the file keeps is complete without a widget."""
    more = {"summary": "s", "ui_id": "churn", "operation": "append", "root": [{"component": "Text", "value": "More."}]}
    cell = show(shared, EVERYTHING, more)
    (bundle,) = panels(cell)
    assert set(bundle) == {MIME, WIDGET, "text/html", "text/plain", "text/markdown"}
    assert all("More." in bundle[kind] for kind in ("text/html", "text/plain", "text/markdown"))
    assert [node["component"] for node in bundle[MIME]["root"]][-1] == "Text"
    kinds = [data[MIME]["kind"] for data in cell.displays.values() if MIME in data]
    assert "tool" not in kinds, "a panel that is there needs no line that says so"
    closed = {m["content"]["comm_id"] for m in cell.messages if m["msg_type"] == "comm_close"}
    opened = [m["content"]["comm_id"] for m in cell.messages if m["msg_type"] == "comm_open"]
    assert closed < set(opened), "the panel that was replaced is closed, the new one lives"


def test_a_refused_panel_is_a_failed_step(shared: Kernel) -> None:
    cell = show(shared, {"summary": "s", "root": [{"component": "Tabel"}]})
    assert not panels(cell)
    (line,) = cell.blocks("tool")
    assert line["status"] == "error"
    assert "did you mean Table" in line["result"]


def test_inputs_set_variables_and_run_the_function_once_allowed(shared: Kernel) -> None:
    """The pause names what is touched; then values arrive, the function runs, and what it raises stays in the panel."""
    faults = "    if window == 5: 1 / 0\n    if window == 7: exit()\n    while window == 8: pass\n"
    shared.run(f"{PLAIN.rpartition('    return')[0]}{faults}\n{script(LIVE)}")
    msg_id = shared.send("%%agent -m demo --new\nshow")
    models, _ = wait_for_form(shared, msg_id)
    comm(shared, find(models, _model_name="RadioButtonsModel"), {"method": "update", "state": {"index": 0}})
    click(shared, find(models, description="Answer"))
    cell = shared.finish(msg_id)
    (bundle,) = panels(cell)
    assert "Signal 9 sine True" in bundle["text/plain"], "the function has run before the panel shows"
    states = {
        m["content"]["comm_id"]: m["content"]["data"].get("state", {})
        for m in cell.messages
        if m["msg_type"] == "comm_open"
    }
    slider, output = find(states, _model_name="IntSliderModel"), find(states, _model_name="OutputModel")
    assert states[slider]["description"] == "window"
    comm(shared, slider, {"method": "update", "state": {"value": 12}})
    assert "Signal 12 sine True" in outputs_of(shared, output, "12")
    assert shared.value("window") == "12"
    comm(shared, slider, {"method": "update", "state": {"value": 5}})
    assert "ZeroDivisionError" in outputs_of(shared, output, "ZeroDivisionError")
    comm(shared, slider, {"method": "update", "state": {"value": 7}})
    assert "exit() does nothing here" in outputs_of(shared, output, "exit()")
    comm(shared, slider, {"method": "update", "state": {"value": 8}})
    time.sleep(1)
    shared.interrupt()
    assert "KeyboardInterrupt" in outputs_of(shared, output, "KeyboardInterrupt"), "■ ends the function, not the kernel"
    comm(shared, slider, {"method": "update", "state": {"value": 7}})
    text = find(states, _model_name="TextModel")
    comm(shared, text, {"method": "update", "state": {"value": "New"}})
    click(shared, find(states, description="Draw again"))
    assert "New 7" in outputs_of(shared, output, "New")
    assert shared.value("title") == "'New'"


def test_inputs_of_one_variable_show_its_value_alike(shared: Kernel) -> None:
    """What one of them sets, the others show as far as they can; that an input can't reach it changes nothing."""
    shared.run("window = 3")
    inputs = [
        {"component": "Slider", "variable": "window", "min": 1, "max": 41},
        {"component": "Slider", "variable": "window", "min": 1, "max": 10},
        {"component": "Select", "variable": "window", "options": [3, 12]},
    ]
    panel = {"summary": "s", "ui_id": "twice", "root": inputs, "live": {"variables": ["window"]}}
    cell = show(shared, panel, options="--approve all")
    states = {
        m["content"]["comm_id"]: m["content"]["data"].get("state", {})
        for m in cell.messages
        if m["msg_type"] == "comm_open"
    }
    wide, narrow = (find(states, _model_name="IntSliderModel", max=end) for end in (41, 10))
    comm(shared, wide, {"method": "update", "state": {"value": 12}})
    told = {narrow: ("value", 10), find(states, _model_name="DropdownModel"): ("index", 1)}
    while told:
        message = shared.client.get_iopub_msg(timeout=20)
        changed = message["content"].get("data", {}).get("state", {}) if message["msg_type"] == "comm_msg" else {}
        name, expected = told.get(message["content"].get("comm_id"), ("", None))
        if name in changed:
            assert changed[name] == expected
            del told[message["content"]["comm_id"]]
    assert shared.value("window") == "12"


def outputs_of(kernel: Kernel, output: str, awaited: str) -> str:
    """The outputs that an Output widget was last given, once they hold the awaited text."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            message = kernel.client.get_iopub_msg(timeout=5)
        except queue.Empty:
            continue
        content = message["content"]
        if message["msg_type"] == "comm_msg" and content["comm_id"] == output:
            told = json.dumps(content["data"].get("state", {}).get("outputs", ""))
            if awaited in told:
                return told
    raise AssertionError(f"{awaited} was not shown")


def test_what_a_rerun_leaves_behind_is_dead(shared: Kernel) -> None:
    """A cell that runs again closes its panels: late changes touch nothing."""
    shared.run(f"{PLAIN}\n{script(LIVE)}\nfrom cumulus_jupyter.jupyter import panels\nwindow = 3")
    metadata = {"cellId": "the-cell"}
    for _ in range(2):
        message = shared.client.session.msg("execute_request", request("%%agent -m demo --new --approve all\nshow"))
        message["metadata"] = metadata
        shared.client.shell_channel.send(message)
        shared.finish(message["header"]["msg_id"])
    assert shared.value("len(panels._by_cell['the-cell'])") == "1"
    assert shared.value("[p._closed for p in panels._by_cell['the-cell']]") == "[False]"


def request(code: str) -> dict[str, Any]:
    return {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": True,
        "stop_on_error": True,
    }


@pytest.mark.long
def test_a_panel_is_taken_up_by_the_next_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its nodes come from the transcript: what is added is shown with all that was there."""
    panel = {"summary": "s", "ui_id": "kept", "root": [{"component": "Card", "id": "box", "title": "Here before"}]}
    for kernel in start_kernel(tmp_path, monkeypatch, stdin=False):
        denied = show(kernel, LIVE, before=PLAIN)
        assert not panels(denied)
        assert "denied: this needs a person's approval" in denied.blocks("tool")[0]["result"]
        cell = show(kernel, panel)
        (bundle,) = panels(cell)
        assert WIDGET not in bundle, "nobody is there: no widget"
    (tmp_path / "work").rmdir()
    more = {**panel, "operation": "append", "target": "box", "root": [{"component": "Text", "value": "More."}]}
    for kernel in start_kernel(tmp_path, monkeypatch, stdin=False):
        stored = kernel.run("%agent sessions").text
        uuid = next(word for word in stored.split() if len(word) >= 8 and word[:8].isalnum() and "-" in word)
        assert kernel.run(f"%agent resume {uuid}").reply["status"] == "ok"
        kernel.run(script(more))
        cell = kernel.run("%%agent -m demo\nshow")
        (bundle,) = panels(cell)
        assert bundle["text/plain"] == "s\nHere before\n  More."
