"""The scripted model works on any table, and says what its tools returned."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from cumulus_jupyter import Agent
from cumulus_jupyter.agent.messages import RunResult, Status
from cumulus_jupyter.providers import demo_turn

pytestmark = pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(demo_turn.Turn, "__init__", _without_pause(demo_turn.Turn.__init__))


def _without_pause(init):  # type: ignore[no-untyped-def]
    def made(self, text, calls, pause=0.0):  # type: ignore[no-untyped-def]
        init(self, text, calls, 0.0)

    return made


def analyse(folder: Path, prompt: str = "What is in here?", **answers: str) -> RunResult:
    agent = Agent(model="demo", root=folder, approve="all", answers=answers)
    return asyncio.run(agent.run(prompt))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", "city,temp\nrome,20\noslo,5\nrome,22\noslo,4\n", "mean temp"),
        ("b.csv", "city;temp\nrome;20\noslo;5\nrome;22\noslo;4\n", "mean temp"),
        ("c.tsv", "city\ttemp\nrome\t20\noslo\t5\n", "city"),
        ("my data.csv", "a name,b name\n1,2\n2,3\n1,5\n", "name"),
        ("one.csv", "x\n1\n2\n2\n", "rows"),
    ],
)
def test_any_table(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    result = analyse(tmp_path, Target="temp")
    assert result.status is Status.DONE
    assert says in result.text
    assert name in result.text
    (made,) = tmp_path.glob("*-agent.ipynb")
    source = "".join(json.loads(made.read_text())["cells"][0]["source"])
    assert f"pd.read_csv({name!r}" in source


def test_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("group,score\na,1\na,3\nb,10\n")
    assert "| a | 2.0 |" in analyse(tmp_path, Target="score").text
    assert "| b | 10.0 |" in analyse(tmp_path, Target="score").text


def test_the_named_file_is_taken(tmp_path: Path) -> None:
    for name in ("a.csv", "wanted.csv"):
        (tmp_path / name).write_text("group,score\na,1\nb,2\n")
    assert "wanted.csv" in analyse(tmp_path, "look at wanted.csv").text


def test_without_a_table_it_says_what_to_do(tmp_path: Path) -> None:
    result = analyse(tmp_path)
    assert result.status is Status.DONE
    assert "no CSV or TSV file" in result.text


def test_a_broken_table_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\x00\x01\x02" * 100)
    assert "can't" in analyse(tmp_path).text


def test_a_second_run_adds_to_the_notebook_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("group,score\na,1\nb,2\n")
    analyse(tmp_path)
    analyse(tmp_path)
    (made,) = tmp_path.glob("*-agent.ipynb")
    assert len(json.loads(made.read_text())["cells"]) == 2
