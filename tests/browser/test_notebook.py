"""The agent edits and runs the notebook that the person is looking at, while its own cell is running."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import expect

from tests.wire.server import Asked, ModelServer, Turn

from .lab import LabServer, NotebookPage

Open = Callable[..., NotebookPage]
Script = list[Turn | Callable[[Asked], Turn]]
SEARCH = Turn(calls=[("tool_search", {"query": "select:notebook_read,notebook_edit,notebook_run"}, "c-search")])
CASES = Path(__file__).parents[1] / "cases"
SHARED = "window.jupyterapp.shell.currentWidget.content.model.sharedModel"


def write(server: LabServer, name: str, prompt: str, **cells: str) -> None:
    """A notebook of the extension's cell, the agent's cell ``own`` and these code cells by id."""
    sources = {"ext": "%load_ext cumulus_jupyter", "own": prompt, **cells}
    made = [nbformat.v4.new_code_cell(source, id=id) for id, source in sources.items()]
    book = nbformat.v4.new_notebook(cells=made)
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, server.root / name)


def edit(operation: str, **arguments: Any) -> tuple[str, dict[str, Any], str]:
    return ("notebook_edit", {"operation": operation, **arguments}, f"c-{operation}-{time.monotonic_ns()}")


def prompt(model: ModelServer, text: str = "go") -> str:
    return f"%%agent -m m@{model.url}/v1 --no-context --approve all\n{text}"


def told(asked: Asked) -> str:
    """The last result that the model was given."""
    return str(asked.json["messages"][-1]["content"])


def ids(book: NotebookPage) -> list[str]:
    return [cell["id"] for cell in book.cells()]


def new_id(asked: Asked) -> str:
    found = re.search(r"inserted code cell: id=(\S+),", told(asked))
    assert found, told(asked)
    return found[1]


def test_edits_and_runs_in_one_turn_each_undone_by_itself(notebook: Open, server: LabServer) -> None:
    """Replace, insert, run, move, set_kind, delete act while the agent's cell runs; each is one step of undo."""
    ran: list[str] = []

    def run_new(asked: Asked) -> Turn:
        return Turn(calls=[("notebook_run", {"cells": ["one", new_id(asked)]}, "c-run")])

    def after_run(asked: Asked) -> Turn:
        ran.append(told(asked))
        return Turn(calls=[edit("move", cell_id="two", before="one")])

    script: Script = [
        SEARCH,
        Turn(calls=[("notebook_read", {}, "c-read")]),
        Turn(calls=[edit("replace", cell_id="one", source="a = 10")]),
        Turn(calls=[edit("insert", after="one", source="print('sum', a + 1)\na + 2")]),
        run_new,
        after_run,
        Turn(calls=[edit("set_kind", cell_id="three", kind="markdown")]),
        Turn(calls=[edit("delete", cell_id="four")]),
        Turn("done"),
    ]
    with ModelServer(script, check=False) as model:
        write(server, "live.ipynb", prompt(model), one="a = 1", two="b = 2", three="c = 3", four="d = 4")
        book = notebook(name="live.ipynb")
        book.run(0)
        book.wait_done(0)
        book.run(1)
        book.wait_done(1)
        cells = {cell["id"]: cell for cell in book.cells()}
    assert "sum 11" in ran[0], ran
    assert "12" in ran[0], ran
    order = list(cells)
    new = order[4]
    assert order[:4] == ["ext", "own", "two", "one"]
    assert order[5:] == ["three"]
    assert [out["output_type"] for out in cells[new]["outputs"]] == ["stream", "execute_result"]
    assert cells["one"]["source"] == "a = 10"
    assert cells["three"]["type"] == "markdown"
    expected = [
        ["ext", "own", "two", "one", new, "three", "four"],
        ["ext", "own", "two", "one", new, "three", "four"],
        ["ext", "own", "one", new, "two", "three", "four"],
        ["ext", "own", "one", "two", "three", "four"],
    ]
    for step, state in enumerate(expected):
        book.page.evaluate(f"() => {SHARED}.undo()")
        assert ids(book) == state, step
    assert book.cells()[2]["source"] == "a = 10"
    book.page.evaluate(f"() => {SHARED}.undo()")
    assert book.cells()[2]["source"] == "a = 1"


@pytest.mark.long
def test_typing_meanwhile_is_never_lost(notebook: Open, server: LabServer) -> None:
    """What the person types between reading and editing stays; the edit is refused and says to read again."""
    results: list[str] = []
    book: list[NotebookPage] = []

    def note(asked: Asked) -> Turn:
        results.append(told(asked))
        return Turn("done")

    script: Script = [
        SEARCH,
        Turn(calls=[("notebook_read", {}, "c-read")]),
        Turn(calls=[edit("replace", cell_id="one", source="mine")], delay=4),
        note,
    ]
    with ModelServer(script, check=False) as model:
        write(server, "typing.ipynb", prompt(model), one="a = 1", two="b = 2")
        book.append(notebook(name="typing.ipynb"))
        book[0].run(0)
        book[0].wait_done(0)
        book[0].run(1)
        deadline = time.monotonic() + 60
        while len(model.asked) < 3 and time.monotonic() < deadline:
            book[0].page.wait_for_timeout(50)
        book[0].page.evaluate(f"() => {SHARED}.cells[2].setSource('a = 1  # a person was here')")
        book[0].wait_done(1)
    assert results
    assert "has changed since you read it" in results[0]
    assert book[0].cells()[2]["source"] == "a = 1  # a person was here"


@pytest.mark.long
def test_a_run_stops_at_the_first_error_and_refuses_agent_cells(notebook: Open, server: LabServer) -> None:
    """An error ends the series; a limit interrupts; the agent's own cell and the unknown are refused."""
    results: list[str] = []

    def then(turn: Turn) -> Callable[[Asked], Turn]:
        def answer(asked: Asked) -> Turn:
            results.append(told(asked))
            return turn

        return answer

    def run(*cells: str, **arguments: Any) -> Turn:
        return Turn(calls=[("notebook_run", {"cells": [*cells], **arguments}, f"c-{'-'.join(cells)}")])

    script: Script = [
        SEARCH,
        run("bad", "late"),
        then(run("own")),
        then(run("slow", timeout=0.5)),
        then(run("late")),
        then(Turn("done")),
    ]
    with ModelServer(script, check=False) as model:
        cells = {"bad": "1 / 0", "late": "print('late ' * 2)", "slow": "import time; time.sleep(60)"}
        write(server, "errors.ipynb", prompt(model), **cells)
        book = notebook(name="errors.ipynb")
        book.run(0)
        book.wait_done(0)
        book.run(1)
        book.wait_done(1)
        shown = {cell["id"]: cell for cell in book.cells()}
    assert "ZeroDivisionError" in results[0]
    assert "not run: late" in results[0]
    assert "agent's cell" in results[1]
    assert "longer than 0.5 s" in results[2]
    assert "late late" in results[3]
    assert "late late" in shown["late"]["text"]
    assert "ZeroDivisionError" in shown["bad"]["text"]
    assert shown["own"]["state"] != "running"
    assert shown["late"]["state"] != "running"


@pytest.mark.long
def test_500_cells_two_tabs_and_a_rename(notebook: Open, server: LabServer) -> None:
    """One insertion in a notebook of 500 cells that two tabs show, and renamed: once, in the renamed notebook."""

    def look(asked: Asked) -> Turn:
        results.append(told(asked))
        return Turn("done")

    results: list[str] = []
    script: Script = [SEARCH, Turn(calls=[edit("insert", after="c400", source="x = 1")]), look]
    with ModelServer(script, check=False) as model:
        write(server, "many.ipynb", prompt(model), **{f"c{n}": f"x{n} = {n}" for n in range(498)})
        book = notebook(name="many.ipynb")
        book.run(0)
        book.wait_done(0)
        other = book.page.context.new_page()
        second = NotebookPage(server, other, "many.ipynb").open()
        book.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.context.rename('renamed.ipynb')",
        )
        book.page.wait_for_timeout(500)
        book.run(1)
        book.wait_done(1)
        other.close()
    assert len(book.cells()) == 501, (results, book.cells()[1])
    assert second is not book
    assert "cell 404 of 501" in results[0]
    assert "renamed.ipynb" in results[0]


@pytest.mark.long
def test_undo_takes_back_live_edits(notebook: Open, server: LabServer) -> None:
    """`%agent undo` restores what the agent changed and inserted in the open notebook, and leaves the rest."""
    script: Script = [
        SEARCH,
        Turn(calls=[("notebook_read", {}, "c-read")]),
        Turn(calls=[edit("replace", cell_id="one", source="a = 10"), edit("insert", after="two", source="new = 1")]),
        Turn("done"),
    ]
    with ModelServer(script, check=False) as model:
        write(server, "undo.ipynb", prompt(model), one="a = 1", two="b = 2", back="%agent undo")
        book = notebook(name="undo.ipynb")
        book.run(0)
        book.wait_done(0)
        book.run(1)
        book.wait_done(1)
        changed = book.cells()
        assert [cell["source"] for cell in changed[2:]] == ["a = 10", "b = 2", "new = 1", "%agent undo"]
        book.run(5)
        book.page.wait_for_function(f"() => {SHARED}.cells.length === 5", timeout=15_000)
        said = book.wait_done(4)["text"]
    assert [cell["source"] for cell in book.cells()[2:]] == ["a = 1", "b = 2", "%agent undo"]
    assert "restored cell one" in said
    assert "removed cell" in said


@pytest.mark.long
def test_stop_during_a_cell_that_the_agent_runs(notebook: Open, server: LabServer) -> None:
    """■ ends that cell's code and the agent's cell; the kernel lives and other cells run."""
    script: Script = [SEARCH, Turn(calls=[("notebook_run", {"cells": ["slow"]}, "c-run")]), Turn("never")]
    with ModelServer(script, check=False) as model:
        slow = "import time\nprint('started', flush=True)\ntime.sleep(60)"
        write(server, "stop.ipynb", prompt(model), slow=slow, after="1 + 1")
        book = notebook(name="stop.ipynb")
        book.run(0)
        book.wait_done(0)
        book.run(1)
        expect(book.output(2)).to_contain_text("started", timeout=60_000)
        book.interrupt()
        own = book.wait_done(1, seconds=10)
    assert "AgentStopped" in str(own["outputs"])
    book.run(3)
    assert "2" in book.wait_done(3)["text"]


@pytest.mark.long
def test_after_a_kernel_restart_edits_reach_the_page_again(notebook: Open, server: LabServer) -> None:
    script: Script = [SEARCH, Turn(calls=[edit("insert", after="one", source="again = 1")]), Turn("done")]
    with ModelServer([*script, *script], check=False) as model:
        write(server, "restart.ipynb", prompt(model), one="a = 1")
        book = notebook(name="restart.ipynb")
        for round in (1, 2):
            book.run(0)
            book.wait_done(0)
            book.run(1)
            book.page.wait_for_function(f"n => {SHARED}.cells.length === n", arg=3 + round, timeout=60_000)
            book.wait_done(1)
            if round == 1:
                book.page.evaluate(
                    "async () => { const w = window.jupyterapp.shell.currentWidget;"
                    "await w.sessionContext.restartKernel();"
                    "for (const c of w.content.widgets) { if (c.model.type === 'code') c.model.clearExecution(); } }"
                )
    assert [cell["source"] for cell in book.cells()[3:]] == ["again = 1", "again = 1"]


@pytest.mark.long
def test_another_notebook_that_is_open_is_not_written_on_disk(notebook: Open, server: LabServer) -> None:
    """A notebook that another tab shows, with unsaved work, is refused by name, with the offer of a copy."""
    results: list[str] = []

    def look(asked: Asked) -> Turn:
        results.append(told(asked))
        return Turn("done")

    script: Script = [SEARCH, Turn(calls=[edit("insert", path="other.ipynb", source="lost = 1")]), look]
    with ModelServer(script, check=False) as model:
        write(server, "other.ipynb", "1", one="a = 1")
        write(server, "mine.ipynb", prompt(model), one="a = 1")
        book = notebook(name="mine.ipynb")
        page = book.page.context.new_page()
        other = NotebookPage(server, page, "other.ipynb").open()
        page.evaluate(f"() => {SHARED}.cells[2].setSource('unsaved = 1')")
        before = (server.root / "other.ipynb").read_bytes()
        book.run(0)
        book.wait_done(0)
        book.run(1)
        book.wait_done(1)
        unsaved = other.cells()[2]["source"]
        page.close()
    assert "other.ipynb is open in" in results[0]
    assert "other-agent.ipynb" in results[0]
    assert (server.root / "other.ipynb").read_bytes() == before
    assert unsaved == "unsaved = 1"


@pytest.mark.long
@pytest.mark.parametrize("case", ["K1-01", "K1-02", "K1-07-before", "K1-11"])
def test_untouched_cells_stay_as_they_are(notebook: Open, server: LabServer, case: str) -> None:
    """A live edit of one cell of somebody's notebook leaves every other cell the same JSON once it is saved."""
    told_of: list[str] = []

    def replace_first(asked: Asked) -> Turn:
        told_of.append(told(asked))
        return Turn(calls=[edit("replace", cell_id=str(cells[0]["id"]), source="changed = 1")])

    script: Script = [
        SEARCH,
        Turn(calls=[("notebook_read", {"outputs": False}, "c-read")]),
        replace_first,
        Turn("done"),
    ]
    book_file = json.loads((CASES / f"{case}.ipynb").read_text())
    cells = [cell for cell in book_file["cells"] if "id" in cell]
    with ModelServer(script, check=False) as model:
        for id, source in (("ext", "%load_ext cumulus_jupyter"), ("own", prompt(model))):
            book_file["cells"].append(dict(nbformat.v4.new_code_cell(source, id=id)))
        (server.root / f"{case}.ipynb").write_text(json.dumps(book_file))
        book = notebook(name=f"{case}.ipynb")
        last = len(book_file["cells"]) - 1
        book.run(last - 1)
        book.wait_done(last - 1)
        book.run(last)
        book.wait_done(last)
        saved = book.save()["cells"]
    assert "".join(saved[0]["source"]) == "changed = 1", told_of
    before = [plain(cell) for cell in book_file["cells"][1:-2]]
    assert [plain(cell) for cell in saved[1:-2]] == before


def plain(cell: dict[str, Any]) -> dict[str, Any]:
    """The cell with its texts joined: whether they are lists of lines is the writer's choice."""
    joined = {
        key: "".join(value) if isinstance(value, list) and key == "source" else value for key, value in cell.items()
    }
    for output in joined.get("outputs", ()):
        for key in ("text",):
            if isinstance(output.get(key), list):
                output[key] = "".join(output[key])
        for mime, value in output.get("data", {}).items():
            if isinstance(value, list):
                output["data"][mime] = "".join(value)
    return joined
