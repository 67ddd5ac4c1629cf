"""``%agent`` with a word, in a real kernel: each command says what is so, and does what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.server import ModelServer, Turn

from .conftest import Cell, Kernel, start_kernel
from .test_cell import click, comm, find, wait_for_form

VARIABLES = {"CUMULUS_MAX_TURNS": "12", "CUMULUS_SANDBOX": "off"}
FILE = "c.CumulusAgent.max_turns = 7\nc.CumulusAgent.approve = 'ask'\nc.CumulusAgent.headless = 'recommended'\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def shell(folder: Path, server: ModelServer) -> Iterator[Kernel]:
    """One kernel for all of these, with a configuration file and some variables."""
    profile = folder / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    (profile / "ipython_config.py").write_text(f"c = get_config()\n{FILE}")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**VARIABLES, **server.env()}.items():
            patch.setenv(name, value)
        yield from start_kernel(folder, patch, stdin=True, keep=tuple(server.env()))


@pytest.fixture
def root(folder: Path) -> Path:
    return folder / "work"


def agent(kernel: Kernel, server: ModelServer, options: str, *turns: Turn, model: str = "kimi-k2@{url}/v1") -> Cell:
    """Run a prompt on a model that says these turns."""
    server.script[:] = turns
    cell = kernel.run(f"%%agent -m {model.format(url=server.url)} --approve all {options}\ngo on")
    assert server.refused == []
    return cell


def config(kernel: Kernel) -> dict[str, tuple[str, str]]:
    rows = [line.split() for line in kernel.run("%agent config").text.splitlines()[1:]]
    return {row[0]: (row[1], " ".join(row[2:])) for row in rows}


def test_a_setting_comes_from_the_nearest_place_that_sets_it(shell: Kernel) -> None:
    table = config(shell)
    assert table["workers"] == ("local", "built-in")
    assert table["headless"] == ("recommended", "file")
    assert table["max_turns"] == ("12", "CUMULUS_MAX_TURNS")  # the file says 7
    shell.run("%config CumulusAgent.headless = 'fail'")
    after = config(shell)
    assert after["headless"] == ("fail", "magic")
    assert after["max_turns"] == table["max_turns"]  # setting one value brings none of the others back
    assert after["approve"] == ("ask", "file")
    shell.run("%agent model demo")
    assert config(shell)["model"] == ("demo", "magic")
    shell.run("%config CumulusAgent.approve = 'sometimes'")  # IPython prints what is wrong with it
    assert config(shell)["approve"] == ("ask", "file")


def test_an_option_wins_over_every_setting(shell: Kernel, server: ModelServer) -> None:
    turns = [Turn("", calls=[("run_python", {"code": "1"})]), Turn("as far as it goes")]
    agent(shell, server, "--new --max-turns 1 -o limited", *turns)
    assert shell.value("limited.status.value") == "'turn_limit'"


def test_a_tool_is_called_as_the_loop_calls_it_and_both_faces_are_shown(shell: Kernel, root: Path) -> None:
    cell = shell.run('%agent call write_file {"path": "typed.txt", "content": "one\\ntwo\\n"}')
    assert cell.reply["status"] == "ok", cell.reply
    assert (root / "typed.txt").read_text() == "one\ntwo\n"
    assert "the model gets this result:\ncreated " in cell.text
    assert '"after_sha"' in cell.text.partition("screen and transcript get besides:")[2]
    assert cell.blocks("tool")[0]["status"] == "ok"
    mended = shell.run('%agent call read_file {"path": "typed.txt", "offset": "1"}').text
    assert 'mended: offset: "1" taken as 1' in mended
    assert "\ttwo" in mended


def test_a_typed_call_waits_for_async_tools_and_sees_the_kernel(shell: Kernel) -> None:
    shell.run(
        "import asyncio\nfrom cumulus_jupyter import tool\n\n@tool\nasync def later(n: int) -> int:\n"
        '    """Later."""\n    await asyncio.sleep(0.05)\n    return n + 1\n'
    )
    assert "the model gets this result:\n43\n" in shell.run('%agent call later {"n": 42}').text
    assert "from code" in shell.run('%agent call run_python {"code": "made = \'from code\'; made"}').text
    assert shell.value("made") == "'from code'"


def test_a_typed_question_is_asked(shell: Kernel) -> None:
    question = {"question": "Which drink?", "header": "Drink", "options": ["tea", "coffee"]}
    msg_id = shell.send(f"%agent call AskUserQuestion {json.dumps({'questions': [question]})}")
    models, _ = wait_for_form(shell, msg_id)
    comm(shell, find(models, _model_name="RadioButtonsModel"), {"method": "update", "state": {"index": 1}})
    click(shell, find(models, description="Answer"))
    assert "the model gets this result:\nDrink: coffee" in shell.finish(msg_id).text


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("write_fil {}", "there is no tool 'write_fil'. Did you mean write_file"),
        ('read_file {"path": ', "not a JSON object"),
        ('read_file {"pth": "x"}', "path"),
        ('write_file {"path": "../x.txt", "content": ""}', "outside the root"),
        ('read_file {"path": "nowhere.txt"}', "there is no file"),
    ],
)
def test_what_a_model_would_be_told_is_told(shell: Kernel, line: str, says: str) -> None:
    cell = shell.run(f"%agent call {line}")
    assert cell.reply["status"] == "ok", cell.reply
    assert "the model gets this error:" in cell.text
    assert says in cell.text


def test_a_windowed_result_of_a_typed_call_can_be_paged(shell: Kernel) -> None:
    text = shell.run("%agent call run_python {\"code\": \"print('x' * 40_000 + 'end')\"}").text
    assert "a window on 40,0" in text
    handle = text.partition('handle="')[2].partition('"')[0] or text.partition("handle=")[2].split()[0].strip("'\",.)")
    assert "end" in shell.run(f"%agent call read_result {json.dumps({'handle': handle, 'offset': 39_990})}").text


def test_undo_takes_back_the_last_runs_edits_and_the_next_prompt_says_so(
    shell: Kernel, server: ModelServer, root: Path
) -> None:
    assert "has said nothing" in shell.run("%agent undo nobody").reply["evalue"]
    turns = [Turn("", calls=[("write_file", {"path": "notes.txt", "content": "first words"})]), Turn("Written.")]
    agent(shell, server, "-s edits", *turns)
    assert (root / "notes.txt").exists()
    assert "removed notes.txt" in shell.run("%agent undo edits").text
    assert not (root / "notes.txt").exists()
    assert "no edit" in shell.run("%agent undo edits").text
    agent(shell, server, "-s edits --no-context", Turn("I see."))
    said = json.dumps(server.bodies[-1])
    assert "with %agent undo" in said
    assert "removed notes.txt" in said


def test_undo_waits_for_the_end_of_a_run(shell: Kernel) -> None:
    shell.run("%%agent -m demo -s asking --no-wait\nask me: tea or coffee?")
    assert "answer its question" in shell.run("%agent undo asking").reply["evalue"]
    assert "stopped: asking" in shell.run("%agent stop").text
    assert "nothing is running" in shell.run("%agent stop").text


def test_show_gives_the_exact_request_and_reply_of_a_round(shell: Kernel) -> None:
    shell.run("%%agent -m demo --new\nhello")
    text = shell.run("%agent show 1").text
    assert "hello" in text
    assert text.startswith("request of round 1:")
    assert "rounds 1 to 1" in shell.run("%agent show 9").reply["evalue"]


def test_a_cost_limit_that_can_not_hold_says_so_at_the_start(shell: Kernel, server: ModelServer) -> None:
    cell = agent(shell, server, "--new --max-cost 0.01", Turn("Hi."))
    assert "--max-cost can't hold here: the price of kimi-k2" in cell.blocks("text")[0]["markdown"]
    assert cell.blocks("status")[-1]["usage"]["cost"] is None


def test_cost_stands_in_the_foot_where_the_price_is_known(shell: Kernel, server: ModelServer, folder: Path) -> None:
    (folder / "data" / "models.toml").write_text('[models]\n"priced-1" = { price = [200.0, 20.0, 1000.0] }\n')
    cell = agent(shell, server, "--new --max-cost 5 -s priced", Turn("Hi."), model="openai/priced-1")
    assert cell.answer == "Hi."  # and no word on the limit
    cost = cell.blocks("status")[-1]["usage"]["cost"]
    assert cost > 0
    assert f"${cost:.4f}" in list(cell.displays.values())[-1]["text/plain"]
    assert f"{cost:.4f} USD" in shell.run("%agent usage priced").text


@pytest.mark.parametrize("limit", ["--max-cost 0.000001", "--max-tokens 1"])
def test_a_limit_that_is_reached_ends_the_run_before_the_next_request(
    shell: Kernel, server: ModelServer, limit: str
) -> None:
    turns = [Turn("", calls=[("run_python", {"code": "1"})]), Turn("never said")]
    cell = agent(shell, server, f"--new -s priced {limit}", *turns, model="openai/priced-1")
    assert cell.reply["ename"] == "AgentError"
    assert limit.split()[0] in cell.reply["evalue"]
    assert len(server.script) == 1


def test_sessions_lists_this_notebooks_first(shell: Kernel) -> None:
    text = shell.run("%agent sessions").text
    assert text.startswith("this kernel:\n  main: ")


def test_a_fork_goes_on_from_a_copy_of_a_conversation_in_use(
    shell: Kernel, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [Turn("", calls=[("run_python", {"code": "print('y' * 50_000)"})]), Turn("Long.")]
    agent(shell, server, "-s long", *turns)
    shell.run("%%agent -m demo -s long --no-wait\nask me: tea or coffee?")
    uuid = shell.value("get_ipython()._cumulus.conversations.sessions['long'].transcript.session").strip("'")
    data = shell.value("str(get_ipython()._cumulus.conversations.store.folder)").strip("'")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    for second in start_kernel(tmp_path, monkeypatch, stdin=True):
        second.run(f"%config CumulusAgent.data_dir = {data!r}")
        refused = second.run(f"%agent resume {uuid}")
        assert refused.reply["ename"] == "TranscriptError"
        assert f"%agent resume {uuid[:8]} --fork" in refused.reply["evalue"]
        forked = second.run(f"%agent resume {uuid[:8]} --fork")
        assert "a copy of it is conversation" in forked.text
        assert forked.blocks("question") == []  # it is the first one's to answer
        assert "agent: Long." in second.run("%agent history").text
        assert second.run("%%agent -m demo\nhi").reply["status"] == "ok"
    assert "answered: Question" in shell.run('%agent answer {"Question": "tea"}').text
    lengths = {path.stem: len(path.read_text().splitlines()) for path in Path(data).glob("*.jsonl")}
    copies = [name for name in lengths if name != uuid and (Path(data) / f"{name}.results").is_dir()]
    assert len(copies) == 1
