"""Code that the agent runs: live in the cell, captured for the model, and never the kernel's end."""

from __future__ import annotations

import json
import time

import pytest

from .conftest import Cell, Kernel

HARNESS = """
import asyncio, pathlib
from cumulus_jupyter.jupyter.host import CellContext, KernelHost, current_cell
from cumulus_jupyter.jupyter.interrupt import InterruptHandler
from cumulus_jupyter.jupyter.view import CellView
from cumulus_jupyter.jupyter.widgets import KernelPublisher
from cumulus_jupyter.agent.events import ToolStarted
from cumulus_jupyter.agent.messages import ToolCall

_shell, _stops = get_ipython(), []

async def _run(code, timeout=30.0, id="c1"):
    import json
    view = CellView(KernelPublisher(_shell), "s", "r" + id, watched=True)
    handler = InterruptHandler(lambda: _stops.append(1))
    current_cell.set(CellContext(view, handler))
    view.handle(ToolStarted(ToolCall(id, "run_python", {"code": code})))
    host = KernelHost(_shell, None)
    call = dict(call_id=id, folder=pathlib.Path.cwd(), timeout=timeout, progress=lambda text: None)
    work = asyncio.create_task(host.run_code(code, **call))
    with handler.installed():
        try:
            run = await work
        except asyncio.CancelledError:
            run = None
    view.flush()
    global last
    last = None if run is None else {name: getattr(run, name) for name in run.__dataclass_fields__}
"""


@pytest.fixture
def runner(kernel: Kernel) -> Kernel:
    assert kernel.run(HARNESS).reply["status"] == "ok"
    return kernel


def run(kernel: Kernel, code: str, timeout: float = 30) -> tuple[dict, Cell]:
    cell = kernel.run(f"await _run({code!r}, {timeout})")
    assert cell.reply["status"] == "ok", cell.reply
    last = json.loads(eval(kernel.value("__import__('json').dumps(last)")))
    return last, cell


def texts(run: dict) -> str:
    parts = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in run["outputs"]]
    return "".join(parts)


def test_prints_values_and_variables_come_back_and_stay(runner: Kernel) -> None:
    result, _ = run(runner, "print('one')\nx = 41\nx + 1")
    assert texts(result) == "one\n42"
    assert result["created"] == ["x"]
    assert runner.value("x") == "41"


def test_text_goes_into_the_calls_line_and_not_beside_it(runner: Kernel) -> None:
    result, cell = run(runner, "for i in range(5000): print(i, flush=True)")
    assert texts(result) == "".join(f"{i}\n" for i in range(5000))
    assert not [m for m in cell.messages if m["msg_type"] == "stream"]
    updates = [m for m in cell.messages if m["msg_type"] == "update_display_data"]
    assert 1 <= len(updates) < 40
    assert cell.blocks("tool")


def test_rich_outputs_stand_behind_the_line(runner: Kernel) -> None:
    result, cell = run(runner, "import pandas as pd\npd.DataFrame({'a': [1]})")
    kinds = [next(iter(data)) for data in cell.displays.values()]
    assert "text/html" in [k for data in cell.displays.values() for k in data]
    assert kinds[0].startswith("application/vnd.cumulus")
    assert not [m for m in cell.messages if m["msg_type"] == "execute_result"]
    assert "a" in texts(result)


def test_a_figure_without_show_is_captured(runner: Kernel) -> None:
    result, _ = run(runner, "import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    assert any("image/png" in o.get("data", {}) for o in result["outputs"])
    assert "Line2D" not in texts(result)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("1/0", "ZeroDivisionError"),
        ("def f(:", "SyntaxError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("exit()", "SystemExit"),
        ("raise SystemExit(3)", "SystemExit"),
        ("import asyncio; asyncio.run(asyncio.sleep(0))", "RuntimeError"),
        ("await __import__('asyncio').sleep(0)\nundefined_name", "NameError"),
    ],
)
def test_errors_are_results_and_the_kernel_lives(runner: Kernel, code: str, name: str) -> None:
    result, cell = run(runner, code)
    assert result["error"][0] == name
    assert not [m for m in cell.messages if m["msg_type"] == "error"]
    assert runner.value("1 + 1") == "2"


def test_a_time_limit_interrupts_code_that_blocks_or_awaits(runner: Kernel) -> None:
    for code in ("print('a'); import time; time.sleep(30)", "while True: pass", "await asyncio.sleep(30)"):
        result, _ = run(runner, code, 0.5)
        assert result["timed_out"]
        assert result["error"] is not None
    assert runner.value("_stops") == "[]"


@pytest.mark.parametrize(
    "code", ["import time; time.sleep(30)", "await asyncio.sleep(30)", "while True: pass", "!sleep 30"]
)
def test_an_interrupt_ends_the_code_and_not_the_kernel(runner: Kernel, code: str) -> None:
    msg_id = runner.send(f"await _run({code!r})")
    time.sleep(1.0)
    runner.interrupt()
    cell = runner.finish(msg_id, seconds=10)
    assert cell.reply["status"] == "ok", cell.reply
    assert runner.value("_stops") == "[1]"
    assert runner.value("1 + 1") == "2"


def test_clear_output_leaves_the_cell(runner: Kernel) -> None:
    result, cell = run(runner, "from IPython.display import clear_output\nprint('gone')\nclear_output()\nprint('kept')")
    assert not [m for m in cell.messages if m["msg_type"] == "clear_output"]
    assert "kept" in texts(result)


def test_a_changed_directory_is_set_back_and_told(runner: Kernel) -> None:
    before = runner.value("__import__('os').getcwd()")
    result, _ = run(runner, "import os; os.chdir('/')")
    assert runner.value("__import__('os').getcwd()") == before
    assert "set back" in result["notes"][0]


def test_help_is_captured(runner: Kernel) -> None:
    result, _ = run(runner, "len?")
    assert "number of items" in texts(result)
