"""With nobody there: prepared answers, honest words, never a hang, never an invented answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from .conftest import MIME, Kernel

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CUMULUS_ANSWERS", "CUMULUS_HEADLESS", "CUMULUS_MODEL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUMULUS_DATA_DIR", str(tmp_path / "data"))
    shutil.copy(NOTEBOOKS / "quickstart.ipynb", tmp_path)
    shutil.copy(NOTEBOOKS / "customers.csv", tmp_path)
    return tmp_path


def execute(path: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}}).execute()
    nbformat.write(notebook, path)
    nbformat.validate(notebook)
    return notebook


def text(notebook: nbformat.NotebookNode) -> str:
    parts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            parts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return "\n".join(parts)


def test_the_quickstart_runs_under_nbclient(folder: Path) -> None:
    notebook = execute(folder / "quickstart.ipynb")
    said = text(notebook)
    assert "Target: churn" in said
    assert "| contract" in said
    assert not [o for c in notebook.cells for o in c.get("outputs", []) if o.output_type == "error"]
    (made,) = folder.glob("*-agent.ipynb")
    assert "plt.subplots" in made.read_text()


def test_each_block_is_stored_once_and_whole(folder: Path) -> None:
    notebook = execute(folder / "quickstart.ipynb")
    blocks = [o.data[MIME] for c in notebook.cells for o in c.get("outputs", []) if MIME in o.get("data", {})]
    assert blocks
    assert {block["state"] for block in blocks} == {"closed"}
    assert len({block["block"] for block in blocks}) == len(blocks)


def test_papermill_runs_it(folder: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "papermill", "quickstart.ipynb", "out.ipynb", "--no-progress-bar"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=180,
        env=dict(os.environ),
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert "Target: churn" in text(nbformat.read(folder / "out.ipynb", as_version=4))


def test_an_unanswered_question_is_told_and_not_invented(headless: Kernel) -> None:
    cell = headless.run("%%agent -m demo -o r\nask me: tea or coffee?")
    assert cell.reply["status"] == "ok"
    assert "no user" in headless.value("r.text")
    assert headless.value("r.questions") in ("[]", "[('Question', 'no user could be reached')]")


def test_recommended_takes_the_marked_option_only(headless: Kernel) -> None:
    headless.run("%config CumulusAgent.headless = 'recommended'")
    headless.run("%%agent -m demo -o r\nask me: tea or coffee (Recommended)?")
    assert "coffee" in headless.value("r.text")
    headless.run("%%agent -m demo -o r\nask me: tea or coffee?")
    assert "no user" in headless.value("r.text")


def test_fail_ends_the_run_as_failed(headless: Kernel) -> None:
    headless.run("%config CumulusAgent.headless = 'fail'")
    cell = headless.run("%%agent -m demo -o r\nask me: tea or coffee?")
    assert (cell.reply["status"], cell.reply["ename"]) == ("error", "AgentError")


def test_answers_grant_no_approval(headless: Kernel, work: Path) -> None:
    shutil.copy(NOTEBOOKS / "customers.csv", work)
    cell = headless.run('%%agent -m demo --answers {"Approval": "once"}\nanalyse')
    assert cell.reply["status"] == "ok"
    assert "approve all" in cell.answer
    assert headless.value("'df' in globals()") == "False"


def test_answers_may_come_from_a_file_or_the_setting(headless: Kernel, work: Path) -> None:
    (work / "answers.json").write_text('{"Question": 1}')
    headless.run("%%agent -m demo -o r --answers @answers.json\nask me: tea or coffee?")
    assert "coffee" in headless.value("r.text")
    headless.run("""%config CumulusAgent.answers = '{"Question": "tea"}'""")
    headless.run("%%agent -m demo -o r\nask me: tea or coffee?")
    assert "tea" in headless.value("r.text")
