"""``agent_map``: a run for each row, typed results, a journal to go on from, one pace for all rows."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import pandas
import pydantic
import pytest

from cumulus_jupyter import ProviderError, SettingsError, agent_map, tool
from cumulus_jupyter.providers.demo_row import fill
from cumulus_jupyter.tools.submit import SUBMIT, Shape

from .wire.render import Asked, Turn
from .wire.server import ModelServer

Reply = Callable[[str, int], Turn]


class RowServer(ModelServer):
    """Answers by the row that is asked for, once ``at_once`` requests were under way, and counts each row's."""

    def __init__(self, reply: Reply, *, check: bool = False, at_once: int = 1) -> None:
        super().__init__([], check=check)
        self.reply = reply
        self.at_once = at_once
        self.counts: Counter[str] = Counter()
        self.times: list[float] = []
        self.under_way = self.most = 0

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        self.asked.append(asked)
        self.times.append(time.monotonic())
        row = re.search(r"<row>\\n(.*?)\\n</row>", asked.body.decode(), re.DOTALL)
        name = json.loads(f'"{row[1]}"') if row else ""
        self.counts[name] += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            while self.most < self.at_once:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            chat = asked.path.endswith("completions")
            turn = self._refusal(asked, chat=chat) or self.reply(name, self.counts[name])
            await self._send(writer, turn, chat=chat, model=asked.json["model"])
        finally:
            self.under_way -= 1


def ask(server: RowServer, rows: Any, **options: Any) -> Any:
    return asyncio.run(mapped(server, rows, **options))


async def mapped(server: RowServer, rows: Any, **options: Any) -> Any:
    options = {"model": f"m-test@{server.url}/v1", "progress": False, **options}
    return await agent_map(rows, "Judge the row.", **options)


def submitted(**result: Any) -> Turn:
    return Turn("", calls=[(SUBMIT, result)])


class Verdict(pydantic.BaseModel):
    mood: Literal["good", "bad"]
    score: int = pydantic.Field(ge=0, le=10)


def test_each_row_has_a_run_of_its_own_and_results_are_in_row_order() -> None:
    with RowServer(lambda row, _: Turn(row.upper()), check=True, at_once=3) as server:
        results = ask(server, list("abcde"), concurrency=3)
    assert results == list("ABCDE")
    assert server.refused == []
    assert server.most == 3
    assert all(len(body["messages"]) == 2 for body in server.bodies), "no row sees another"
    assert (results.usage.rounds, results.usage.input, results.usage.output) == (5, 500, 100)
    assert results.errors == {}


def test_rows_of_every_kind_are_shown_as_json() -> None:
    @dataclass
    class Point:
        x: int

    frame = pandas.DataFrame({"n": [1, None], "t": pandas.to_datetime(["2024-05-01", None]), "s": ["é", "y"]})
    with RowServer(lambda row, _: Turn(row)) as server:
        assert ask(server, [{"a": 1}, (1, "b"), "text", Point(2), Verdict(mood="good", score=1)]) == [
            '{"a":1}',
            '[1,"b"]',
            "text",
            '{"x":2}',
            '{"mood":"good","score":1}',
        ]
        assert list(ask(server, frame)) == [
            '{"n":1.0,"t":"2024-05-01T00:00:00","s":"é"}',
            '{"n":null,"t":null,"s":"y"}',
        ]


@pytest.mark.parametrize("model", ["openai/gpt-5.4", "anthropic/claude-sonnet-5-5"])
def test_an_accepted_result_ends_the_row_and_faults_go_back_to_be_mended(
    monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    def reply(row: str, times: int) -> Turn:
        return submitted(mood="fine", score=11) if times == 1 else submitted(mood="good", score="7")

    with RowServer(reply, check=True) as server:
        for name, value in server.env().items():
            monkeypatch.setenv(name, value)
        results = ask(server, ["x"], schema=Verdict, model=model)
    assert results == [Verdict(mood="good", score=7)]
    assert results.usage.cost > 0
    assert server.refused == []
    assert len(server.asked) == 2, "no request after the accepted call"
    fault = str(server.bodies[1]["messages"][-1]["content"])
    assert "mood should be " in fault
    assert "score should be less than or equal to 10" in fault


@pytest.mark.parametrize(
    ("schema", "arguments", "result"),
    [
        (Literal["p", "q"], {"result": "p"}, "p"),
        (list[int], {"result": [1, 2]}, [1, 2]),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 1}, {"a": 1}),
        ({"$defs": {"X": {"enum": [1, 2]}}, "type": "array", "items": {"$ref": "#/$defs/X"}}, {"result": [2]}, [2]),
        (Verdict | None, {"result": None}, None),
    ],
    ids=str,
)
def test_any_type_or_json_schema_can_be_asked_for(schema: Any, arguments: dict[str, Any], result: Any) -> None:
    with RowServer(lambda row, times: submitted(**({"wrong": 1} if times == 1 else arguments)), check=True) as server:
        results = ask(server, ["x"], schema=schema)
    assert results == [result]
    assert results.errors == {}
    (made,) = server.bodies[0]["tools"]
    assert made["function"]["parameters"]["type"] == "object"


def test_a_result_that_was_said_instead_of_submitted_counts_and_a_missing_one_is_asked_for() -> None:
    said = {"a": '```json\n{"mood": "bad", "score": 1}\n```', "b": "I think it is good."}

    def reply(row: str, times: int) -> Turn:
        return Turn(said[row]) if times == 1 else submitted(mood="good", score=9)

    with RowServer(reply) as server:
        a, b = ask(server, ["a", "b"], schema=Verdict)
    assert (a.mood, b.mood) == ("bad", "good")
    assert server.counts == {"a": 1, "b": 2}


def test_a_row_that_fails_costs_that_row_and_says_why() -> None:
    def reply(row: str, times: int) -> Turn:
        if row == "refused":
            return Turn(status=400, body=b'{"error":{"message":"content policy"}}')
        return submitted(mood="so-so", score=1) if row == "stubborn" else submitted(mood="good", score=1)

    rows = pandas.DataFrame({"text": ["fine", "refused", "stubborn"]}, index=[10, 20, 30])
    with RowServer(lambda row, times: reply(json.loads(row)["text"], times)) as server:
        table = ask(server, rows, schema=Verdict)
    assert list(table.columns) == ["mood", "score", "error"]
    assert list(table.index) == [10, 20, 30]
    assert table.loc[10, "mood"] == "good"
    assert pandas.isna(table.loc[10, "error"])
    assert "content policy" in table.loc[20, "error"]
    assert "mood should be 'good' or 'bad'" in table.loc[30, "error"]
    assert pandas.isna(table.loc[30, "score"])
    assert set(table.attrs["errors"]) == {"1", "2"}
    json.dumps(table.attrs)


def test_a_series_comes_back_on_its_index_with_missing_values_where_rows_failed() -> None:
    texts = pandas.Series(["a", "b"], index=["x", "y"], name="review")
    with RowServer(lambda row, _: Turn(row) if row == "a" else Turn(status=400, body=b"{}")) as server:
        result = ask(server, texts)
    assert result["x"] == "a"
    assert pandas.isna(result["y"])
    assert list(result.attrs["errors"]) == ["1"]
    assert result.attrs["usage"]["rounds"] == 1


def test_rows_may_use_tools_of_the_person_and_built_in_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("seven")

    @tool
    def price(name: str) -> int:
        """The price."""
        return 7

    def reply(row: str, times: int) -> Turn:
        return Turn("", calls=[("price", {"name": row}), ("read_file", {"path": "a.txt"})]) if times == 1 else Turn("7")

    with RowServer(reply, check=True) as server:
        assert ask(server, ["x"], tools=[price, "read_file"]) == ["7"]
    shown = json.dumps(server.bodies[1]["messages"])
    assert "seven" in shown
    assert [made["function"]["name"] for made in server.bodies[0]["tools"]] == ["price", "read_file"]


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.long)])
def test_a_batch_that_is_stopped_half_way_goes_on_and_asks_no_row_twice_after_its_success(
    tmp_path: Path, count: int
) -> None:
    journal = tmp_path / "deep" / "journal.jsonl"
    rows = [{"id": number, "text": f"row {number}"} for number in range(count)]

    def reply(row: str, times: int) -> Turn:
        return submitted(mood="good", score=json.loads(row)["id"] % 11)

    async def stop_half_way(server: RowServer) -> None:
        task = asyncio.create_task(mapped(server, rows, schema=Verdict, journal=journal))
        while sum(server.counts.values()) < count // 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as stopped:
            await task
        (line,) = stopped.value._render_traceback_()  # type: ignore[attr-defined]
        assert re.match(rf"stopped: {count:,} rows: .* not done .* go on from {journal}", line)

    with RowServer(reply) as server:
        asyncio.run(stop_half_way(server))
        kept = [json.loads(line)["key"] for line in journal.read_text().splitlines()]
        first = Counter(server.counts)
        results = ask(server, rows, schema=Verdict, journal=journal)
        asked_again = server.counts - first
        assert [result.score for result in results] == [number % 11 for number in range(count)]
        assert count // 2 - 10 <= len(kept) < count
        assert len(set(kept)) == len(kept)
        assert sum(asked_again.values()) == count - len(kept), "no row is asked twice after its success"
        assert set(asked_again.values()) == {1}
        third = ask(server, rows, schema=Verdict, journal=journal)
        assert third == results
        assert server.counts == first + asked_again, "all stands in the journal"
        assert third.usage.rounds == 0


def test_the_journal_knows_rows_by_content_task_and_model(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    with RowServer(lambda row, _: Turn(row)) as server:
        ask(server, ["a", "a", "b"], journal=journal)
        assert server.counts["a"] == 2, "equal rows are rows of their own"
        assert ask(server, ["c", "b", "a", "a"], journal=journal) == ["c", "b", "a", "a"]
        assert server.counts == {"a": 2, "b": 1, "c": 1}
        ask(server, ["b"], journal=journal, system="Be kind.")
        ask(server, ["b"], journal=journal, model=f"m-2@{server.url}/v1")
        ask(server, ["b"], journal=journal, schema=int)
        assert server.counts["b"] >= 4


def test_a_torn_last_line_costs_that_line_and_a_failure_is_asked_again(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    fails = {"c"}

    def reply(row: str, _: int) -> Turn:
        return Turn(status=400, body=b"{}") if row in fails else Turn(row)

    with RowServer(reply) as server:
        results = ask(server, ["a", "b", "c"], journal=journal, concurrency=1)
        assert results[2] is None
        assert list(results.errors) == [2]
        journal.write_bytes(journal.read_bytes()[:-9])
        fails.clear()
        assert ask(server, ["a", "b", "c"], journal=journal) == ["a", "b", "c"]
        assert server.counts == {"a": 1, "b": 2, "c": 2}
        assert ask(server, ["a", "b", "c"], journal=journal) == ["a", "b", "c"]
        assert server.counts == {"a": 1, "b": 2, "c": 2}


def test_another_file_is_never_taken_for_a_journal(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    with RowServer(lambda row, _: Turn(row)) as server, pytest.raises(SettingsError, match="no journal"):
        ask(server, ["a"], journal=tmp_path / "data.csv")
    assert (tmp_path / "data.csv").read_text() == "a,b\n1,2\n"


def test_no_key_gets_into_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "loopback-secret-123")
    with RowServer(lambda row, _: Turn("it is loopback-secret-123")) as server:
        ask(server, ["a"], journal=tmp_path / "j")
    assert "loopback-secret-123" not in (tmp_path / "j").read_text()


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, pytest.param(ProcessPoolExecutor, marks=pytest.mark.long)])
def test_rows_can_run_in_another_executor(tmp_path: Path, pool: Any) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    options = {"mp_context": get_context("spawn")} if pool is ProcessPoolExecutor else {}
    with (
        RowServer(lambda row, _: Turn(status=400, body=b"{}") if row == "0" else submitted(n=int(row))) as server,
        pool(2, **options) as workers,
    ):
        results = ask(server, list("0123"), schema=schema, workers=workers, journal=tmp_path / "j")
        assert results == [None, {"n": 1}, {"n": 2}, {"n": 3}]
        assert list(results.errors) == [0]
        assert ask(server, list("0123"), schema=schema, journal=tmp_path / "j") == results, "one journal for both"
    assert server.counts == {"0": 2, "1": 1, "2": 1, "3": 1}


def test_a_server_that_asks_for_a_pause_gets_it_from_all_rows() -> None:
    slow = Turn(status=429, headers={"retry-after": "0.6"}, body=b'{"error":{"message":"slow down"}}')
    refused: list[float] = []

    def reply(row: str, times: int) -> Turn:
        if len(refused) < 4:
            refused.append(time.monotonic())
            return slow
        return Turn(row)

    with RowServer(reply) as server:
        rows = [str(number) for number in range(12)]
        results = ask(server, rows, concurrency=4)
    assert results == rows
    assert results.errors == {}
    asked = [moment for moment in server.times if refused[-1] < moment]
    assert min(asked) - refused[0] > 0.5, "nobody asks during the pause"
    assert len(server.asked) == 12 + 4


def test_a_refusal_that_holds_for_every_row_stops_the_batch(tmp_path: Path) -> None:
    no_key = Turn(status=401, body=b'{"error":{"message":"bad key"}}')
    with RowServer(lambda row, _: no_key) as server:
        with pytest.raises(ProviderError, match="bad key"):
            ask(server, [str(number) for number in range(50)], concurrency=4)
        assert len(server.asked) <= 4
    spent = Turn(status=429, body=b'{"error":{"message":"quota","type":"insufficient_quota"}}')
    with RowServer(lambda row, _: spent if int(row) >= 5 else Turn(row)) as server:
        results = ask(server, [str(number) for number in range(50)], concurrency=1)
    assert results[:5] == list("01234"), "what was paid for is not lost"
    assert len(results.errors) == 45
    assert results.errors[49].startswith("not asked: ")
    assert len(server.asked) == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"rows": "text"}, "give a list"),
        ({"rows": {"a": 1}}, "give a list"),
        ({"rows": pandas.DataFrame([[1, 2]], columns=["a", "a"])}, "two columns"),
        ({"concurrency": 0}, "concurrency"),
        ({"schema": 3}, "pydantic model"),
        ({"schema": {"type": "nonsense"}}, "no JSON schema"),
        ({"tools": ["red_file"]}, "no built-in tool red_file"),
        ({"approve": "yes"}, "approve takes"),
        ({"model": "nonsense"}, "no model"),
    ],
)
def test_a_wrong_argument_is_told_before_anything_is_asked(arguments: dict[str, Any], said: str) -> None:
    given = {"rows": ["a"], "instruction": "Judge.", "model": "demo", **arguments}
    with pytest.raises(SettingsError, match=said):
        asyncio.run(agent_map(given.pop("rows"), given.pop("instruction"), **given))


@pytest.mark.parametrize("schema", [Verdict, list[Verdict], Literal["p", "q"], bool, {"type": "number", "maximum": 1}])
def test_the_scripted_model_gives_a_result_that_fits(schema: Any) -> None:
    shape = Shape(schema)
    ((name, arguments),) = fill(shape.name, shape.schema, "Judge.\n\n<row>\nA bad day\n</row>").calls
    result = shape.parse(arguments)
    assert name == SUBMIT
    assert result == Verdict(mood="bad", score=3) or schema is not Verdict


def test_no_rows_are_no_work() -> None:
    with RowServer(lambda row, _: Turn(row)) as server:
        assert ask(server, []) == []
        empty = ask(server, pandas.DataFrame({"a": []}), schema=Verdict)
    assert list(empty.columns) == ["mood", "score", "error"]
    assert len(empty) == 0


def test_the_bar_ends_with_one_line_of_sums(capsys: pytest.CaptureFixture[str]) -> None:
    with RowServer(lambda row, _: Turn(row) if row != "c" else Turn(status=400, body=b"{}")) as server:
        ask(server, ["a", "b", "c"], progress=True)
    out = capsys.readouterr()
    assert "3 rows: 2 done, 1 failed · 200 tokens in, 40 out" in out.out
    assert "3/3" in out.err


@pytest.mark.long
def test_rows_run_on_a_dask_cluster_with_what_a_notebook_defines() -> None:
    distributed = pytest.importorskip("distributed")

    class Odd(pydantic.BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def is_odd(cls, n: int) -> int:
            assert n % 2, "must be odd"
            return n

    @tool
    def length(text: str) -> int:
        """The length."""
        return len(text)

    def reply(row: str, times: int) -> Turn:
        return Turn("", calls=[("length", {"text": row})]) if times == 1 else submitted(n=times)

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        RowServer(reply) as server,
    ):
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        results = ask(server, list("abcd"), schema=Odd, tools=[length], workers=address)
    assert [result.n for result in results] == [3] * 4, "the validator's fault went back to the model"
    assert results.usage.rounds == 12
