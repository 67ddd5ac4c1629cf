"""A ``%%agent`` cell in a real kernel: it awaits, asks, stops, stores, and says what is wrong in one line."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from .conftest import MIME, Cell, Kernel

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.fixture
def data(work: Path) -> None:
    shutil.copy(NOTEBOOKS / "customers.csv", work / "customers.csv")


def wait_for_form(kernel: Kernel, msg_id: str, seconds: float = 30) -> tuple[str, list[dict]]:
    """Read messages until a widget view is shown; gives the model ids of its buttons by description, and messages."""
    models: dict[str, dict] = {}
    seen = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        message = kernel.client.get_iopub_msg(timeout=seconds)
        seen.append(message)
        if message["msg_type"] == "comm_open":
            models[message["content"]["comm_id"]] = message["content"]["data"].get("state", {})
        shown = message["content"].get("data", {}) if "display" in message["msg_type"] else {}
        if "application/vnd.jupyter.widget-view+json" in shown:
            return models, seen
    raise AssertionError("no form was shown")


def comm(kernel: Kernel, comm_id: str, data: dict) -> None:
    message = kernel.client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
    kernel.client.shell_channel.send(message)


def find(models: dict[str, dict], **state: object) -> str:
    return next(id for id, model in models.items() if all(model.get(k) == v for k, v in state.items()))


def click(kernel: Kernel, comm_id: str) -> None:
    comm(kernel, comm_id, {"method": "custom", "content": {"event": "click"}})


def test_the_analysis_runs_on_a_csv_and_leaves_a_notebook(kernel: Kernel, work: Path, data: None) -> None:
    kernel.stdin = False
    cell = kernel.run('%%agent -m demo --approve all --answers {"Target": "churn"} -o r\nWhat drives churn?')
    assert cell.reply["status"] == "ok", cell.reply
    assert kernel.value("r.status") == "'done'" or "done" in kernel.value("r.status")
    assert kernel.value("r.questions") == "[('Target', 'churn (Recommended)')]"
    assert "image/png" in [kind for shown in cell.displays.values() for kind in shown]
    assert "| contract" in cell.answer
    assert "df" in kernel.value("sorted(n for n in globals() if n == 'df')")
    assert any(work.glob("*-agent.ipynb"))


def test_a_question_waits_and_one_click_of_many_answers(kernel: Kernel) -> None:
    msg_id = kernel.send("%%agent -m demo -o r\nask me: tea or coffee?")
    models, _ = wait_for_form(kernel, msg_id)
    after = kernel.client.execute("ran = True")
    radio = find(models, _model_name="RadioButtonsModel")
    comm(kernel, radio, {"method": "update", "state": {"index": 0}, "buffer_paths": []})
    comm(kernel, radio, {"method": "update", "state": {"index": 1}, "buffer_paths": []})
    answer = find(models, description="Answer")
    for _ in range(3):
        click(kernel, answer)
    cell = kernel.finish(msg_id)
    assert cell.reply["status"] == "ok"
    kernel.finish(after)
    assert kernel.value("r.questions") == "[('Question', 'coffee')]"
    assert kernel.value("ran") == "True"


def test_every_widget_change_is_answered_with_idle(kernel: Kernel) -> None:
    """The widget manager sends the next change only behind an idle for the last one."""
    msg_id = kernel.send("%%agent -m demo\nask me: tea or coffee?")
    models, _ = wait_for_form(kernel, msg_id)
    radio = find(models, _model_name="RadioButtonsModel")
    message = kernel.client.session.msg(
        "comm_msg", {"comm_id": radio, "data": {"method": "update", "state": {"index": 1}, "buffer_paths": []}}
    )
    kernel.client.shell_channel.send(message)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        status = kernel.client.get_iopub_msg(timeout=10)
        if status["parent_header"].get("msg_id") == message["header"]["msg_id"] and status["msg_type"] == "status":
            assert status["content"]["execution_state"] == "idle"
            break
    else:
        raise AssertionError("no idle came")
    kernel.interrupt()
    kernel.finish(msg_id)


def test_an_interrupt_at_a_question_frees_the_kernel_and_the_answer_goes_on(kernel: Kernel) -> None:
    msg_id = kernel.send("%%agent -m demo -o r\nask me: tea or coffee?")
    models, _ = wait_for_form(kernel, msg_id)
    kernel.interrupt()
    cell = kernel.finish(msg_id, seconds=10)
    assert cell.reply["status"] == "ok"
    assert kernel.run("1").reply["status"] == "ok"
    comm(kernel, find(models, _model_name="RadioButtonsModel"), {"method": "update", "state": {"index": 0}})
    click(kernel, find(models, description="Answer"))
    deadline = time.monotonic() + 15
    while "r" not in kernel.value("[n for n in globals() if n == 'r']") and time.monotonic() < deadline:
        time.sleep(0.2)
    assert kernel.value("r.text") == "'You said: Question: tea'"


@pytest.mark.parametrize("prompt", ["count to 300", "ask me: tea or coffee?"])
def test_an_interrupt_ends_a_cell_at_once(kernel: Kernel, prompt: str) -> None:
    msg_id = kernel.send(f"%%agent -m demo\n{prompt}")
    time.sleep(1.5)
    began = time.monotonic()
    kernel.interrupt()
    cell = kernel.finish(msg_id, seconds=10)
    assert time.monotonic() - began < 3  # a guard against a hang; the figure is the benchmark's
    stopped = prompt.startswith("count")
    assert (cell.reply["status"], cell.reply.get("ename")) == (("error", "AgentStopped") if stopped else ("ok", None))
    assert kernel.run("%%agent -m demo\nhi").reply["status"] == "ok"


def test_an_interrupt_in_the_agents_code_ends_the_cell(kernel: Kernel, work: Path, data: None) -> None:
    kernel.run("import pandas, time\npandas.read_csv = lambda *a, **k: time.sleep(30)")
    msg_id = kernel.send("%%agent -m demo --approve all\nanalyse")
    time.sleep(4)
    kernel.interrupt()
    cell = kernel.finish(msg_id, seconds=10)
    assert cell.reply.get("ename") == "AgentStopped", cell.reply
    assert kernel.value("1 + 1") == "2"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("%%agent --no-such-flag\nhello", "no option --no-such-flag"),
        ("%%agent\n", "needs a prompt"),
        ("%%agent -m nonsense-model\nhello", "nonsense-model"),
        ("%%agent -m claude\nhello", "ANTHROPIC_API_KEY"),
        ("%%agent -m x@http://127.0.0.1:9/v1 --max-turns 0\nhello", "--max-turns"),
    ],
)
def test_bad_input_is_one_line(kernel: Kernel, code: str, says: str) -> None:
    cell = kernel.run(code)
    assert cell.reply["status"] == "error"
    told = cell.text + "".join("\n".join(m["content"]["traceback"]) for m in cell.messages if m["msg_type"] == "error")
    assert says in told
    assert len([line for line in told.strip().splitlines() if line.strip()]) == 1, told
    assert kernel.run("%%agent -m demo\nhi").reply["status"] == "ok"


@pytest.mark.parametrize(
    "code",
    [
        "# ask the agent\n%%agent -m demo\nhi",
        "\n\n%%agent -m demo\nhi",
        "%agent hello",
        "%%agent -m demo\r\nhi\r\n",
    ],
)
def test_ways_to_write_a_cell(kernel: Kernel, code: str) -> None:
    cell = kernel.run(code)
    assert cell.reply["status"] == "ok", cell.reply
    assert "scripted demo model" in cell.answer


def test_the_prompt_is_not_expanded_by_ipython(kernel: Kernel) -> None:
    kernel.run("x = 5")
    text = 'count {x} $x %x {"a": {"b": 1}} don\'t \\n'
    kernel.run(f"%%agent -m demo --raw -o r\nhi {{{{x}}}} {text}")
    history = kernel.run("%agent history").text
    assert f"hi {{{{x}}}} {text}" in history


def test_nothing_is_patched_and_no_out_is_made(kernel: Kernel) -> None:
    kernel.run("import asyncio; before = asyncio.run")
    cell = kernel.run("%%agent -m demo\nhi")
    assert not [m for m in cell.messages if m["msg_type"] == "execute_result"]
    assert kernel.value("asyncio.run is before") == "True"


def test_run_cell_magic_works_from_a_coroutine(kernel: Kernel) -> None:
    cell = kernel.run(
        "async def f():\n    await get_ipython().run_cell_magic('agent', '-m demo -o r', 'hi')\nawait f()"
    )
    assert cell.reply["status"] == "ok", cell.reply
    assert "demo model" in kernel.value("r.text")


def test_the_stored_output_is_complete_and_has_no_times_or_ids_in_its_text(kernel: Kernel) -> None:
    cell = kernel.run("%%agent -m demo\nhi")
    for bundle in cell.displays.values():
        assert set(bundle) == {MIME, "text/html", "text/plain"}
        assert bundle[MIME]["state"] == "closed"
        assert bundle[MIME]["session"] not in bundle["text/plain"]
    foot = cell.blocks("status")[-1]
    assert (foot["status"], foot["usage"]["rounds"]) == ("done", 1)


def test_a_fast_stream_makes_few_display_messages(kernel: Kernel) -> None:
    """5,000 deltas in a moment: about ten messages a second, and the whole text at the end."""
    kernel.run(
        "from cumulus_jupyter.providers import demo\n"
        "from cumulus_jupyter.providers.demo import Turn\n"
        "demo._INTENTS.insert(0, ('flood', lambda seen, match: Turn('x ' * 5000, [], 0.0)))"
    )
    began = time.monotonic()
    cell = kernel.run("%%agent -m demo -o r\nflood")
    seconds = time.monotonic() - began
    sent = [m for m in cell.messages if "display" in m["msg_type"]]
    assert len(sent) <= 10 * seconds + 10
    assert len(eval(kernel.value("r.text")).strip()) == 9999


def test_output_of_a_background_run_stays_in_its_cell(kernel: Kernel) -> None:
    first = kernel.send("%%agent -m demo --background -o r\ncount to 8")
    cell = kernel.finish(first)
    assert cell.reply["status"] == "ok"
    second = kernel.run("print('mine')")
    assert second.text == "mine\n"
    assert not second.displays
    late = []
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        message = kernel.client.get_iopub_msg(timeout=15)
        if "display" in message["msg_type"]:
            late.append(message)
            if message["content"]["data"].get(MIME, {}).get("role") == "foot":
                break
    assert {m["parent_header"]["msg_id"] for m in late} == {first}


def test_loading_again_and_unloading(kernel: Kernel) -> None:
    for line in ("%load_ext cumulus_jupyter", "%reload_ext cumulus_jupyter"):
        assert kernel.run(line).reply["status"] == "ok"
    assert kernel.run("%%agent -m demo\nhi").reply["status"] == "ok"
    assert kernel.run("%unload_ext cumulus_jupyter").reply["status"] == "ok"
    assert kernel.run("%%agent -m demo\nhi").reply["status"] == "error"


def test_settings_say_where_they_come_from(kernel: Kernel) -> None:
    kernel.run("%config CumulusAgent.approve = 'all'")
    table = kernel.run("%agent config").text
    assert [line.split()[:3] for line in table.splitlines() if line.startswith("approve")] == [
        ["approve", "all", "magic"]
    ]
    assert "CUMULUS_DATA_DIR" in table


@pytest.mark.parametrize(
    "word",
    [
        "status",
        "model",
        "models",
        "tools",
        "tools run_python",
        "history",
        "usage",
        "show 1",
        "sessions",
        "help",
        "config",
    ],
)
def test_commands(kernel: Kernel, word: str) -> None:
    kernel.run("%%agent -m demo\nhi")
    cell = kernel.run(f"%agent {word}")
    assert cell.reply["status"] == "ok", cell.reply
    assert cell.text.strip()


def test_reset_starts_afresh(kernel: Kernel) -> None:
    kernel.run("%%agent -m demo\nhi")
    kernel.run("%agent reset")
    assert kernel.run("%agent history").reply["status"] == "error"


def test_the_transcript_is_stored_privately_as_json_lines(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("%%agent -m demo\nhi")
    (stored,) = (tmp_path / "data").glob("*.jsonl")
    lines = [json.loads(line) for line in stored.read_text().splitlines()]
    assert [line["type"] for line in lines] == ["user", "assistant", "run_end"]
    assert [line["seq"] for line in lines] == [1, 2, 3]
    assert [line["parent"] for line in lines] == [None, lines[0]["id"], lines[1]["id"]]
    assert stored.stat().st_mode & 0o077 == 0


def plain(cell: Cell) -> str:
    return "\n".join(bundle.get("text/plain", "") for bundle in cell.displays.values())


def test_the_root_follows_a_persons_own_cd(kernel: Kernel, work: Path) -> None:
    (work / "sub").mkdir()
    kernel.run("%cd sub")
    assert f"root: {work / 'sub'}" in kernel.run("%agent status").text


def test_a_vanished_working_directory_is_said(kernel: Kernel, work: Path) -> None:
    shutil.rmtree(work)
    cell = kernel.run("%%agent -m demo\nhi")
    assert cell.reply["status"] == "error"
    assert "is gone" in cell.reply["evalue"]


def test_a_prompt_of_a_megabyte_is_no_trouble(kernel: Kernel) -> None:
    cell = kernel.run("%%agent -m demo -o r\nhi\n" + "x" * 1_000_000)
    assert cell.reply["status"] == "ok"
