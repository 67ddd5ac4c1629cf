"""MCP servers over stdio: the K6 cases, results, questions, approvals, names."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cumulus_jupyter.agent.events import Event, Notice, ToolProgress
from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import Answer, Ask, Image, Outcome, RunResult, ToolResult, UserMessage
from cumulus_jupyter.agent.policy import DENY, Policy
from cumulus_jupyter.agent.toolbox import Toolbox
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.script import ScriptHost
from cumulus_jupyter.tools import builtin_tools
from cumulus_jupyter.tools.mcp import Mcp, McpSession, mcp_status
from cumulus_jupyter.tools.mcp.config import parse, read_project
from cumulus_jupyter.tools.mcp.names import tool_name
from cumulus_jupyter.tools.tool_search import deferred_listing

from ..agent.conftest import Scripted, drain, say
from .conftest import CASES, Bench

SERVER = Path(__file__).with_name("mcp_server.py")
LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


def k6(mode: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(CASES / "K6-fake_mcp.py"), mode], **more}


def small(**env: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(SERVER)], "env": env}


class Person(ScriptHost):
    """A host whose person gives prepared answers, and notes what was asked."""

    person = True

    def __init__(self, *answers: Answer) -> None:
        super().__init__()
        self.answers, self.seen = list(answers), []

    async def ask(self, ask: Ask) -> Answer:
        self.seen.append(ask)
        return self.answers.pop(0)


def chose(*values: str) -> Answer:
    return Answer(Outcome.ANSWERED, values)


class Place:
    """A folder with servers; ``tools()`` starts them and gives a bench with their tools."""

    def __init__(self, root: Path) -> None:
        self.root, self.made = root, []

    def mcp(self, limit: float = 20, **entries: Any) -> Mcp:
        data = self.root / "data"
        mcp = Mcp(lambda: entries, limit=lambda: limit, folder=lambda: data)
        self.made.append(mcp)
        return mcp

    def started(self, mcp: Mcp, *, seconds: float = 20, host: ScriptHost | None = None, approve: str = "all") -> Bench:
        bench = Bench(self.root, approve=approve, person=bool(host and host.person))
        bench.toolbox.host = host or bench.toolbox.host
        asyncio.run(mcp.prepare(bench.toolbox, self.root, seconds))
        for tool in mcp.tools():
            bench.toolbox.add(tool)
        bench.transcript.append("fetched", names=[tool.name for tool in mcp.tools()])
        return bench

    def bench(self, **entries: Any) -> Bench:
        return self.started(self.mcp(**entries))

    def session(self, mcp: Mcp, provider: Scripted, host: ScriptHost | None = None, **policy: Any) -> McpSession:
        host = host or ScriptHost()
        policy = {"approve": "all", "person": host.person, **policy}
        toolbox = Toolbox([*builtin_tools(), *mcp.tools()], host=host, root=self.root, policy=Policy(**policy))
        system = f"system\n\n{deferred_listing(toolbox)}"
        return McpSession(Transcript(), provider, toolbox, Limits(), system, mcp=mcp, root=self.root)

    def project(self, **entries: Any) -> None:
        (self.root / ".mcp.json").write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    for mcp in place.made:
        mcp.close()


def run(session: McpSession) -> tuple[list[Event], RunResult]:
    events = asyncio.run(drain(session.stream("go")))
    return events, session.transcript.run_result()


def notes(session: McpSession) -> str:
    """All that the harness told the model behind a message."""
    return "\n".join(message.note for message in session.transcript.messages if isinstance(message, UserMessage))


# The K6 cases ----------------------------------------------------------------------------------------------------


def test_k6_01_servers_start_and_a_missing_command_is_named(place: Place) -> None:
    mcp = place.mcp(ok=k6("ok"), loud=k6("stderr"), gone={"command": "no-such-command"})
    bench = place.started(mcp)
    assert bench.text("mcp__ok__echo", a="x") == "called echo"
    assert bench.text("mcp__loud__echo") == "called echo"
    status = mcp_status(mcp)
    assert status[:2] == ["ok: stdio, ready with 3 tools", "loud: stdio, ready with 3 tools"]
    assert len(status) == 3
    assert "'no-such-command' was not found" in status[2]
    assert "\n" not in status[2]


def test_k6_01_what_a_server_says_before_it_dies_is_told(place: Place) -> None:
    dying = "import sys; sys.stderr.write('y' * 100_000 + '\\nno database\\n'); sys.exit(3)"
    mcp = place.mcp(dying={"command": sys.executable, "args": ["-c", dying]})
    place.started(mcp)
    (status,) = mcp_status(mcp)
    assert "it ended (exit 3)" in status
    assert status.endswith("no database")
    assert len(status) < 600


def test_k6_02_a_dead_server_costs_one_call_and_starts_again(place: Place) -> None:
    ledger = place.root / "ledger.txt"
    mcp = place.mcp(k6=k6("die", env={"K6_LEDGER": str(ledger)}))
    bench = place.started(mcp)
    started = time.monotonic()
    assert "server k6 ended (exit 1) during this call" in bench.refusal("mcp__k6__pay")
    assert time.monotonic() - started < 10  # not the call's time limit
    assert ledger.read_text() == "paid\n"
    assert "the next call starts it again" in mcp_status(mcp)[0]
    for number in (2, 3, 4):
        assert "ended (exit 1) during" in bench.refusal("mcp__k6__echo")
        assert ledger.read_text() == "paid\n" * number
    assert "was started again 3 times" in bench.refusal("mcp__k6__echo")
    assert ledger.read_text() == "paid\n" * 4


def test_k6_02_a_hanging_call_ends_at_its_limit(place: Place) -> None:
    bench = place.bench(k6=k6("hang", timeout=0.5))
    assert "no result from server k6 within 0.5 s" in bench.refusal("mcp__k6__echo")
    assert bench.text("run_python", code="1 + 1").startswith("2")


def test_k6_04_a_bad_schema_costs_its_own_tool_only(place: Place) -> None:
    mcp = place.mcp(k6=k6("badschema"))
    bench = place.started(mcp)
    names = [tool.name.removeprefix("mcp__k6__") for tool in mcp.tools()]
    assert {"good", "nothing"} <= set(names)
    assert "stringy" not in names
    assert mcp.troubles() == [
        "k6: its tool anyof is changed: the alternatives at the top of its arguments are shown as one object",
        "k6: its tool stringy is left out: it takes a string, and a tool's arguments are always an object",
        "k6: its tool nullenum is changed: a type that none of its choices has is dropped",
    ]
    assert bench.text("mcp__k6__good", a="x") == "called good"
    assert bench.text("mcp__k6__nothing") == "called nothing"
    assert bench.text("mcp__k6__nullenum", k="A") == "called nullenum"
    assert bench.text("mcp__k6__refs", n={"next": {}}) == "called refs"
    assert bench.text("mcp__k6__anyof", p="x") == "called anyof"
    assert all(tool.schema()["type"] == "object" for tool in mcp.tools())


def test_k6_06_names_in_other_letters_are_legal_and_stable(place: Place) -> None:
    first, second = place.mcp(仓库=k6("cjk")), place.mcp(仓库=k6("cjk"))
    bench = place.started(first)
    place.started(second)
    names = [tool.name for tool in first.tools()]
    assert names == [tool.name for tool in second.tools()]
    assert len(set(names)) == 4
    assert all(map(LEGAL.match, names))
    for name, original in zip(names, ["查询库存", "查询订单", "señal", "señál"], strict=True):
        result = bench.call(name)
        assert result.text == f"called {original}"
        assert result.details["title"] == f"仓库 · {original}"
        assert bench.toolbox.tools[name].description.startswith(f"{original} (server 仓库)")


def test_k6_06_long_and_alike_names_stay_apart() -> None:
    names = {tool_name("s" * 80, "t" * 80), tool_name("s" * 80, "t" * 81), tool_name("a.b", "c"), tool_name("a_b", "c")}
    assert len(names) == 4
    assert all(map(LEGAL.match, names))


@pytest.mark.parametrize("mode", ["paged", "loop"])
def test_k6_07_all_pages_are_read_once(place: Place, mode: str) -> None:
    mcp = place.mcp(k6=k6(mode))
    bench = place.started(mcp)
    assert [tool.listed.name for tool in mcp.tools()] == [f"t{number:02}" for number in range(25)]
    assert bench.text("mcp__k6__t24") == "called t24"


def test_k6_07_a_tool_that_comes_later_can_be_called_in_the_same_run(place: Place) -> None:
    provider = Scripted(
        say("", ("tool_search", {"query": "select:mcp__k6__echo"})),
        say("", ("mcp__k6__echo", {})),
        say("", ("tool_search", {"query": "late"})),
        say("", ("mcp__k6__late", {})),
        say("done"),
    )
    session = place.session(place.mcp(k6=k6("list_changed")), provider)
    _, result = run(session)
    assert [ok for _, _, ok, _ in result.tool_calls] == [True] * 4
    assert "mcp__k6__late" not in session.system
    assert "- mcp__k6__late: test tool" in notes(session)
    assert "called late" in str(session.transcript.messages[-2])


def test_k6_09_a_slow_server_joins_while_the_run_goes_on(place: Place) -> None:
    entries = {"ok": k6("ok"), "slow": k6("slow", env={"K6_SLEEP": "4"})}
    provider = Scripted(
        say("", ("tool_search", {"query": "select:mcp__ok__echo"})),
        say("", ("mcp__ok__echo", {})),
        say("", ("run_python", {"code": "import time; time.sleep(3)"})),
        say("", ("tool_search", {"query": "select:mcp__slow__echo"})),
        say("", ("mcp__slow__echo", {})),
        say("done"),
    )
    session = place.session(place.mcp(**entries), provider)
    events, result = run(session)
    assert [ok for _, _, ok, _ in result.tool_calls] == [True] * 5
    assert "mcp__ok__echo" in session.system
    assert "`slow: still starting" in next(event.text for event in events if isinstance(event, Notice))
    assert "mcp__slow__echo" in notes(session)


def test_k6_09_a_server_that_is_too_slow_is_named_with_the_setting(place: Place) -> None:
    mcp = place.mcp(limit=1, ok=k6("ok"), slow=k6("slow"))
    session = place.session(mcp, Scripted(say("", ("run_python", {"code": "1"})), say("done")))
    run(session)
    assert mcp_status(mcp)[0] == "ok: stdio, ready with 3 tools"
    assert "gave up after 1 s; raise CUMULUS_MCP_START_TIMEOUT" in mcp_status(mcp)[1]
    assert "gave up after 1 s" in notes(session)
    servers = mcp._servers.connections["slow"]
    run(session)
    assert mcp._servers.connections["slow"] is servers, "it was started again"


# Results, progress, stopping -------------------------------------------------------------------------------------


def test_every_kind_of_content_reaches_the_model(place: Place) -> None:
    result = place.bench(s=small()).call("mcp__s__mix")
    assert result.ok
    assert [part.media_type for part in result.content if isinstance(part, Image)] == ["image/png"] * 2
    assert "a text" in result.text
    assert "[image, image/tiff, " in result.text
    assert "[audio audio/wav, " in result.text
    assert "[resource file:///notes.txt]\nthe notes" in result.text
    assert "[resource file:///big.csv: big.csv, all rows]" in result.text
    assert json.loads(result.content[-1]) == {"rows": 3}


def test_an_error_of_the_tool_is_no_success(place: Place) -> None:
    assert place.bench(s=small()).refusal("mcp__s__fail") == "no such row"


def test_progress_is_shown_and_noise_does_no_harm(place: Place) -> None:
    bench = place.bench(s=small())
    assert bench.text("mcp__s__count", n=3) == "counted"
    shown = [event.text for event in bench.events if isinstance(event, ToolProgress)]
    assert shown[0] == "row 1 (1 of 3)"


def test_wrong_arguments_are_refused_before_the_server_sees_them(place: Place) -> None:
    refusal = place.bench(s=small()).refusal("mcp__s__count", n="many")
    assert "nothing was done" in refusal


def test_a_stopped_call_is_cancelled_at_the_server(place: Place) -> None:
    ledger = place.root / "ledger.txt"
    bench = place.bench(s=small(MCP_LEDGER=str(ledger)))

    async def stopped() -> None:
        task = asyncio.create_task(bench.run(("mcp__s__wait", {})))
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(stopped())
    deadline = time.monotonic() + 10
    while not ledger.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ledger.read_text().startswith("cancelled ")


def test_read_only_tools_are_free_and_others_are_asked(place: Place) -> None:
    bench = place.started(place.mcp(s=small()), approve="edits")
    assert bench.text("mcp__s__look") == "looked"
    assert bench.refusal("mcp__s__mix").startswith("denied")


def test_servers_get_no_keys_and_the_root(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-12345678")
    bench = place.bench(s=small(OWN="1"))
    names = bench.text("mcp__s__env").split()
    assert "OWN" in names
    assert "ANTHROPIC_API_KEY" not in names
    assert place.root.as_uri() in bench.text("mcp__s__roots")


def test_servers_end_when_they_are_closed(place: Place) -> None:
    mcp = place.mcp(ok=k6("ok"), hang=k6("hang", timeout=0.3))
    bench = place.started(mcp)
    bench.refusal("mcp__hang__echo")
    before = [process for process in psutil.Process().children(recursive=True) if "K6-fake" in str(process.cmdline())]
    assert len(before) == 2
    mcp.close()
    assert not [process for process in before if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


# Questions -------------------------------------------------------------------------------------------------------


def elicited(result: ToolResult) -> Any:
    return json.loads(result.text.splitlines()[-1])


def test_a_servers_form_is_asked_in_the_cell_and_faults_are_asked_again(place: Place) -> None:
    host = Person(chose("Oslo", "many", "Celsius", "Yes"), chose("Oslo", "3", "Fahrenheit", "Leave empty"))
    bench = place.started(place.mcp(s=small()), host=host)
    result = bench.call("mcp__s__ask")
    assert elicited(result) == {"action": "accept", "content": {"city": "Oslo", "days": 3, "unit": "f"}}
    assert host.seen[0].detail == "The MCP server s asks: For the report:"
    assert "'many' is not a whole number" in host.seen[1].detail
    assert [option.label for option in host.seen[0].questions[2].options] == ["Celsius", "Fahrenheit", "Leave empty"]
    assert ("City", "Oslo") in result.details["answers"]


def test_a_server_that_knows_only_the_newest_revision_asks_too(place: Place) -> None:
    host = Person(chose("Oslo", "3", "Celsius", "Yes"))
    mcp = place.mcp(s=small(MCP_NEWER="1"))
    bench = place.started(mcp, host=host)
    result = bench.call("mcp__s__ask")
    assert result.ok, (result.text, mcp.status())
    assert elicited(result)["content"] == {"city": "Oslo", "days": 3, "unit": "c", "alarm": True}


def test_a_declined_form_is_declined_and_said(place: Place) -> None:
    bench = place.started(place.mcp(s=small()), host=Person(Answer(Outcome.DECLINED)))
    result = bench.call("mcp__s__ask")
    assert elicited(result) == {"action": "decline"}
    assert "the server asked the person: 'For the report:'; they declined" in result.text


def test_with_nobody_there_a_form_is_declined_in_words(place: Place) -> None:
    result = place.bench(s=small()).call("mcp__s__ask")
    assert elicited(result) == {"action": "decline"}
    assert "nobody is there to answer" in result.text


def test_time_spent_on_an_answer_does_not_count(place: Place) -> None:
    class Slow(Person):
        async def ask(self, ask: Ask) -> Answer:
            await asyncio.sleep(1)
            return await super().ask(ask)

    entry = {**small(), "timeout": 0.7}
    bench = place.started(place.mcp(s=entry), host=Slow(chose("Oslo", "3", "Celsius", "No")))
    assert elicited(bench.call("mcp__s__ask"))["content"]["alarm"] is False


# A project's servers ---------------------------------------------------------------------------------------------


def names(mcp: Mcp) -> list[str]:
    return [line.partition(":")[0] for line in mcp.status() if "ready" in line]


def test_a_projects_servers_need_a_persons_word(place: Place) -> None:
    place.project(ok=k6("ok"))
    mcp = place.mcp()
    place.started(mcp, approve="edits")
    assert names(mcp) == []
    assert "nobody is there" in mcp.status()[0]
    place.started(mcp, approve="none", host=Person())
    assert "may only read" in mcp.status()[0]
    place.started(mcp, approve="all")
    assert names(mcp) == ["ok"]


def test_the_word_for_a_projects_file_holds_for_its_content(place: Place) -> None:
    place.project(ok=k6("ok"))
    always = "Start them, and again as long as the file is the same"
    host = Person(chose(always), chose(DENY))
    place.started(place.mcp(), approve="edits", host=host)
    assert "K6-fake_mcp.py ok" in host.seen[0].detail
    again = place.mcp()
    place.started(again, approve="edits")
    assert names(again) == ["ok"], "another kernel asks again"
    place.project(ok=k6("ok"), more=k6("ok"))
    place.started(again, approve="edits", host=host)
    assert names(again) == []
    assert "did not allow" in again.status()[0]
    place.started(again, approve="edits", host=host)
    assert len(host.seen) == 2, "a denial is asked again"


def test_the_person_is_asked_before_the_first_request(place: Place) -> None:
    place.project(ok=k6("ok"))
    host = Person(chose("Start them this time"))
    session = place.session(place.mcp(), Scripted(say("done")), host, approve="edits")
    run(session)
    assert "<available-mcp-servers>\nok:\n- mcp__ok__echo: test tool" in session.system
    assert host.seen[0].approval


# Settings --------------------------------------------------------------------------------------------------------


def test_entries_expand_variables_and_a_bad_one_costs_itself() -> None:
    entries = {
        "a": {"command": "run", "args": ["${HERE}", "${GONE:-there}"], "env": {"T": "x${HERE}"}},
        "b": {"command": "run", "args": ["${GONE}"]},
        "c": {"type": "http", "url": "https://${HERE}/mcp", "headers": {"Authorization": "Bearer ${HERE}"}},
        "d": {"type": "carrier pigeon"},
        "e": {"command": "run", "disabled": True},
        "f": {"command": "run", "timeout": 600_000},
    }
    specs, problems = parse(entries, Path("/root"), {"HERE": "here"})
    assert specs["a"].args == ("here", "there")
    assert specs["a"].env == {"T": "xhere"}
    assert specs["c"].headers == {"Authorization": "Bearer here"}
    assert specs["f"].timeout == 600
    assert sorted(specs) == ["a", "c", "f"]
    assert "GONE is not set" in problems["b"]
    assert "carrier pigeon" in problems["d"]


def test_a_broken_project_file_is_named_not_raised(place: Place) -> None:
    (place.root / ".mcp.json").write_text("{")
    file = read_project(place.root, os.environ)
    assert file
    assert "is not JSON" in file.problems[".mcp.json"]
    mcp = place.mcp()
    place.started(mcp)
    assert "is not JSON" in mcp.troubles()[0]


def test_what_a_person_sees_keeps_variables_as_names(place: Place) -> None:
    headers = {"Authorization": "Bearer ${TOKEN}"}
    place.project(
        a={"command": "run", "args": ["--key", "${SECRET}"]},
        b={"url": "https://x/${SECRET}"},
        c={"url": "https://x", "headers": headers, "oauth": {"client_id": "${ID:-none}"}},
    )
    file = read_project(place.root, {"SECRET": "s3cret", "TOKEN": "t0ken", "ID": "1"})
    assert file
    assert file.shown.split("\n") == [
        "a: run --key ${SECRET}",
        "b: https://x/${SECRET}",
        "c: https://x (is sent ID, TOKEN of your environment)",
    ]


def test_the_setting_takes_json_and_files(tmp_path: Path, monkeypatch: Callable[..., Any]) -> None:
    from cumulus_jupyter.settings import CumulusAgent

    entry = {"t": {"command": "run", "env": {"KEY": "s3cret"}}}
    file = tmp_path / "servers.json"
    file.write_text(json.dumps(entry))
    for text in (json.dumps(entry), f"@{file}"):
        settings = CumulusAgent(environ={"CUMULUS_MCP": text})
        assert settings.mcp_servers == entry
        assert "s3cret" not in str(settings.table())
