"""Functions as tools: schema, check and mending of arguments, what is returned."""

from __future__ import annotations

import asyncio
import contextvars
import json
import math
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas
import pydantic
import pytest

from cumulus_jupyter import usertools
from cumulus_jupyter.agent.errors import SettingsError
from cumulus_jupyter.agent.messages import Image
from cumulus_jupyter.agent.tool import Access, Output, ToolContext
from cumulus_jupyter.tools.function import FunctionTool, tool
from cumulus_jupyter.tools.listing import Told

from .conftest import Bench


@dataclass
class Step:
    label: str
    done: bool = False


class Place(pydantic.BaseModel):
    name: str
    at: float = pydantic.Field(0, ge=0, description="how far")


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
    for wrong in (3, dict):
        with pytest.raises(TypeError, match="is no function"):
            tool(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no option tiemout; it has name, deferred, timeout"):
        tool(tiemout=3)  # type: ignore[call-overload]
    for function in (frame, unknown):
        with pytest.raises(SettingsError, match="can't be a tool"):
            tool(function).schema()


def test_the_parameter_that_no_model_can_send_is_named() -> None:
    def frame(n: int, df: pandas.DataFrame) -> None: ...

    with pytest.raises(SettingsError, match=r"can't send df: DataFrame, only .* a variable's name instead"):
        tool(frame).schema()


def test_a_default_that_json_lacks_is_not_told_but_holds(tmp_path: Path) -> None:
    @tool
    def work(x: float = math.nan, y: float = math.inf, z: Any = pandas, *, n: int = 1) -> str:
        """Work."""
        return f"{x} {y} {z.__name__} {n}"

    schema = json.dumps(work.schema(), allow_nan=False)
    assert schema.count("default") == 1
    assert Bench(tmp_path, extra=[work]).text("work") == "nan inf pandas 1"


def test_a_parameter_without_annotation_or_by_position_only_takes_what_comes(tmp_path: Path) -> None:
    @tool
    def work(a, /, b=2):  # type: ignore[no-untyped-def]
        """Work."""
        return [a, b]

    assert work.schema()["required"] == ["a"]
    assert json.loads(Bench(tmp_path, extra=[work]).text("work", a={"x": [1]})) == [{"x": [1]}, 2]


def test_pydantic_models_are_arguments_and_results(tmp_path: Path) -> None:
    @tool
    def move(to: Place, by: list[Place] | None = None) -> Place:
        """Move."""
        assert isinstance(to, Place)
        return Place(name=to.name, at=to.at + len(by or []))

    assert move.schema()["$defs"]["Place"]["properties"]["at"]["description"] == "how far"
    bench = Bench(tmp_path, extra=[move])
    assert json.loads(bench.text("move", to={"name": "x", "at": 1.5}, by=[{"name": "y"}])) == {"name": "x", "at": 2.5}
    assert "to.at should be greater than or equal to 0" in bench.refusal("move", to={"name": "x", "at": -1})


# In a notebook ---------------------------------------------------------------------------------------------------


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, FunctionTool]:
    monkeypatch.setattr(usertools, "registered", {})
    monkeypatch.setattr(usertools, "_undecided", set())
    return usertools.registered


def test_running_the_cell_again_replaces_the_tool(registry: dict[str, FunctionTool]) -> None:
    for source in ("def work(n: int) -> int: return n", "async def work(n: int, m: int = 2) -> int: return n * m"):
        scope: dict[str, Any] = {}
        exec(source, scope)
        usertools.tool(scope["work"])
    assert list(registry) == ["work"]
    assert list(registry["work"].schema()["properties"]) == ["n", "m"]
    assert registry["work"].deferred


@pytest.mark.parametrize("name", ["read_file", "ToolSearch", "ask_user_question"])
def test_a_built_in_tools_name_is_taken(registry: dict[str, FunctionTool], name: str) -> None:
    with pytest.raises(SettingsError, match="built-in"):
        usertools.tool(name=name)(lambda: 1)
    assert registry == {}


def test_what_can_be_no_tool_is_one_line_in_a_notebook(registry: dict[str, FunctionTool]) -> None:
    for wrong in (lambda *args: 1, 3, lambda: 1):
        with pytest.raises(SettingsError):
            usertools.tool(wrong)
    with pytest.raises(SettingsError, match="two tools are named work"):
        usertools.given_tools([tool(name="work")(lambda: 1), tool(name="work")(lambda: 2)])
    assert registry == {}


def test_a_changed_signature_is_news_and_a_changed_body_is_not(tmp_path: Path) -> None:
    def made(source: str) -> FunctionTool:
        scope: dict[str, Any] = {}
        exec(source, scope)
        return tool(deferred=True)(scope["work"])

    first = made("def work(n: int) -> int:\n    'Work.'\n    return n")
    toolbox = Bench(tmp_path, extra=[first]).toolbox
    told = Told()
    told.news(toolbox)
    toolbox.add(made("def work(n: int) -> int:\n    'Work.'\n    return -n"))
    assert told.news(toolbox) == ""
    toolbox.add(made("def work(n: int, unit: str = 'm') -> int:\n    'Work.'"))
    row = '- work(n: integer, unit?: string = "m"): Work.'
    assert told.news(toolbox) == f"<changed-tools>\n{row}\n</changed-tools>"
    toolbox.remove("work")
    assert told.news(toolbox) == "<removed-tools>\n- work\n</removed-tools>"


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
