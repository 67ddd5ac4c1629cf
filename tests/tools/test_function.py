"""Functions as tools: schema, check and mending of arguments, what is returned."""

from __future__ import annotations

import asyncio
import contextvars
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas
import pytest

from cumulus_jupyter.agent.errors import SettingsError
from cumulus_jupyter.agent.messages import Image
from cumulus_jupyter.agent.tool import Access, Output, ToolContext
from cumulus_jupyter.tools.function import FunctionTool, tool

from .conftest import Bench


@dataclass
class Step:
    label: str
    done: bool = False


@tool
def report(  # noqa: D417
    ctx: ToolContext,
    path: str,
    title: Annotated[int, "how it is called"] = 3,
    steps: list[Step] | None = None,
    schema: float = 1.0,
    kind: Literal["a", "b"] = "a",
    loud: bool = False,
) -> dict[str, Any]:
    """Write a report.

    In two paragraphs.

    Parameters
    ----------
    path
        Where it
        goes.
    schema, kind
        Both.
    """
    return {"path": path, "title": title, "steps": len(steps or []), "schema": schema, "kind": kind, "loud": loud}


def value(bench: Bench, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """What was mended, and what the function got."""
    text = bench.text("report", **arguments)
    note, _, body = text.partition("\n") if text.startswith("(") else ("", "", text)
    return note, json.loads(body)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, extra=[report])


def test_importing_the_tools_imports_nothing_heavy() -> None:
    code = (
        "import sys; from cumulus_jupyter.tools import builtin_tools; builtin_tools();"
        "heavy = 'pydantic rapidfuzz pathspec psutil docstring_parser regex nbformat'.split();"
        "print([module for module in heavy if module in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_schema_comes_from_signature_and_docstring() -> None:
    schema = report.schema()
    assert report.description == "Write a report.\n\nIn two paragraphs."
    assert list(schema["properties"]) == ["path", "title", "steps", "schema", "kind", "loud"]
    assert schema["required"] == ["path"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["path"] == {"type": "string", "description": "Where it goes."}
    assert schema["properties"]["title"] == {"type": "integer", "default": 3, "description": "how it is called"}
    assert schema["properties"]["schema"]["description"] == schema["properties"]["kind"]["description"] == "Both."
    assert schema["properties"]["kind"]["enum"] == ["a", "b"]
    assert schema["$defs"]["Step"]["properties"]["label"] == {"type": "string"}


@pytest.mark.parametrize(
    "doc",
    [
        "Do.\n\nArgs:\n    x: The x.\n",
        "Do.\n\n:param x: The x.\n",
        "Do.\n\nParameters\n----------\nx : int\n    The x.\n",
    ],
)
def test_docstrings_of_each_style_are_read(doc: str) -> None:
    def work(x: int) -> int:
        return x

    work.__doc__ = doc
    made = tool(work)
    assert made.description == "Do."
    assert made.schema()["properties"]["x"] == {"type": "integer", "description": "The x."}


def test_a_tool_is_still_its_function() -> None:
    assert isinstance(report, FunctionTool)
    assert report(None, "p")["title"] == 3
    assert isinstance(replace(report, deferred=True), FunctionTool)


def test_options_of_the_decorator() -> None:
    @tool(name="other", deferred=True, timeout=5, cap=10, exclusive=True, approve=True, aliases=("o",), polling=True)
    def work() -> None:
        """Work."""

    assert (work.name, work.deferred, work.seconds({}), work.cap, work.polling) == ("other", True, 5, 10, True)
    assert list(work.locks(Path(), {})) == ["kernel-exclusive:other"]
    assert work.access(Path(), {}) is Access.RUN
    assert report.cap == 200_000
    assert report.access(Path(), {}) is Access.FREE


@pytest.mark.parametrize(
    ("given", "note", "got"),
    [
        ({"title": "5"}, "title", {"title": 5}),
        ({"title": 5.0}, "title", {"title": 5}),
        ({"schema": "2.5"}, "schema", {"schema": 2.5}),
        ({"schema": 2}, "", {"schema": 2.0}),
        ({"loud": "true"}, "loud", {"loud": True}),
        ({"steps": '[{"label": "x"}]'}, "steps", {"steps": 1}),
        ({"steps": ['{"label": "x", "done": "true"}']}, "steps[0]", {"steps": 1}),
        ({"steps": {"label": "x"}}, "steps", {"steps": 1}),
        ({"steps": {"steps": [{"label": "x"}, {"label": "y"}]}}, "steps", {"steps": 2}),
        ({"title": None}, "title: null taken as not given", {"title": 3}),
        ({"steps": None}, "", {"steps": 0}),
    ],
)
def test_what_can_mean_one_thing_is_mended_and_said(
    bench: Bench, given: dict[str, Any], note: str, got: dict[str, Any]
) -> None:
    said, values = value(bench, path="p", **given)
    assert values == values | got
    assert note in said
    assert bool(said) is bool(note)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "path is missing"),
        ({"path": 3}, "path should be a valid string, got 3"),
        ({"path": "p", "title": "five"}, 'title should be a valid integer, got "five"'),
        ({"path": "p", "title": 5.5}, "title"),
        ({"path": "p", "title": True}, "title should be a valid integer, got true"),
        ({"path": "p", "loud": "yes"}, "loud"),
        ({"path": "p", "loud": 1}, "loud"),
        ({"path": None}, "path should be a valid string, got null"),
        ({"path": "p", "kind": "c"}, "kind should be 'a' or 'b', got \"c\""),
        ({"path": "p", "steps": [{"label": "x"}, {"lable": "y"}]}, "steps[1].label is missing"),
        ({"path": "p", "steps": "[1"}, "steps"),
        ({"file_path": "p"}, "file_path is unknown: did you mean path?"),
        ({"path": "p", "zzz": 1}, "zzz is unknown; there are: path, title"),
    ],
)
def test_other_faults_are_told_with_the_right_shape(bench: Bench, given: dict[str, Any], said: str) -> None:
    text = bench.refusal("report", **given)
    assert said in text
    assert "The right shape: report(path: string, title?: integer = 3, steps?: [{label: string" in text


def test_all_faults_are_told_at_once(bench: Bench) -> None:
    text = bench.refusal("report", title="x", kind="c", steps=[{"label": 1}])
    assert text.startswith("4 faults in the arguments of report")


def test_arguments_given_are_never_changed(bench: Bench) -> None:
    given = {"path": "p", "steps": ['{"label": "x"}']}
    bench.text("report", **given)
    assert (
        bench.transcript.calls[next(iter(bench.transcript.calls))].arguments
        == given
        == {
            "path": "p",
            "steps": ['{"label": "x"}'],
        }
    )


@pytest.mark.parametrize("bad", ["*args", "**kwargs"])
def test_a_function_that_names_no_parameters_is_refused(bad: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def work({bad}): pass", scope)
    with pytest.raises(TypeError, match="need names"):
        tool(scope["work"])


def test_functions_that_can_be_no_tool_are_refused() -> None:
    def yields() -> Any:
        yield 1

    def frame(df: pandas.DataFrame) -> None: ...

    def unknown(x: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037

    with pytest.raises(TypeError, match="yields"):
        tool(yields)
    with pytest.raises(TypeError, match="name="):
        tool(lambda: None)
    for function in (frame, unknown):
        with pytest.raises(SettingsError, match="can't be a tool"):
            tool(function).schema()


PNG = b"\x89PNG"


class Picture:
    def __repr__(self) -> str:
        return "a picture"

    def _repr_png_(self) -> bytes:
        return PNG


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        ("text", ["text"]),
        (None, ["done (no value was returned)"]),
        ({"a": [1]}, ['{\n "a": [\n  1\n ]\n}']),
        ([], ["[]"]),
        (3.5, ["3.5"]),
        ({(1, 2): 3}, ["{(1, 2): 3}"]),
        ({"b"}, ['[\n "b"\n]']),
        (pandas.DataFrame({"a": [1]}), ["   a\n0  1"]),
        (Image("image/png", "AA"), [Image("image/png", "AA")]),
        (["x", Image("image/png", "AA")], ["x", Image("image/png", "AA")]),
        (Picture(), [Image("image/png", "iVBORw==")]),
        (Output("own", ok=True), ["own"]),
    ],
    ids=repr,
)
def test_whatever_is_returned_reaches_the_model(tmp_path: Path, returned: Any, content: list[Any]) -> None:
    def work() -> Any:
        """Work."""
        return returned

    assert list(Bench(tmp_path, extra=[tool(work)]).call("work").content) == content


def test_an_awaitable_that_a_plain_function_gives_is_awaited(tmp_path: Path) -> None:
    async def inner() -> str:
        return "inner"

    def work() -> Any:
        """Work."""
        return inner()

    assert Bench(tmp_path, extra=[tool(work)]).text("work") == "inner"


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), StopIteration()], ids=repr)
def test_whatever_is_raised_is_the_calls_result(tmp_path: Path, error: BaseException) -> None:
    def work() -> None:
        """Work."""
        raise error

    result = Bench(tmp_path, extra=[tool(work)]).call("work")
    assert not result.ok
    assert type(error).__name__ in result.text
    assert "work" in result.details["traceback"]


def test_plain_functions_run_side_by_side_off_the_loop_with_the_callers_context(tmp_path: Path) -> None:
    word = contextvars.ContextVar("word", default="")
    barrier = threading.Barrier(16, timeout=20)

    def work() -> str:
        """Work."""
        barrier.wait()
        assert threading.current_thread() is not threading.main_thread()
        return word.get()

    async def main() -> list[Any]:
        word.set("mine")
        return await Bench(tmp_path, extra=[tool(work)]).run(*[("work", {})] * 16)

    assert [result.text for result in asyncio.run(main())] == ["mine"] * 16


def test_exclusive_calls_run_one_after_another_in_call_order(tmp_path: Path) -> None:
    log: list[str] = []

    @tool(exclusive=True)
    def alone(n: int) -> None:
        """Alone."""
        log.append(f"start {n}")
        time.sleep(0.01)
        log.append(f"end {n}")

    Bench(tmp_path, extra=[alone]).calls(*[("alone", {"n": n}) for n in range(5)])
    assert log == [f"{word} {n}" for n in range(5) for word in ("start", "end")]


def test_a_call_that_takes_too_long_says_that_it_may_still_run(tmp_path: Path) -> None:
    done = threading.Event()

    @tool(timeout=0.05)
    def slow() -> None:
        """Slow."""
        done.wait(20)

    text = Bench(tmp_path, extra=[slow]).refusal("slow")
    done.set()
    assert "may still be running" in text


def test_a_stuck_function_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    code = (
        "import asyncio, time\nfrom cumulus_jupyter.tools.threads import in_thread\n"
        "async def main():\n    task = asyncio.create_task(in_thread(time.sleep, 600))\n"
        "    await asyncio.sleep(0.1)\n    task.cancel()\nasyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
