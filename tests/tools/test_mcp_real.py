"""Real MCP servers over stdio and HTTP, and the client scenarios of the protocol's own conformance programs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cumulus_jupyter.agent.events import ToolProgress
from cumulus_jupyter.agent.messages import Image, RunResult
from cumulus_jupyter.tools.mcp import Mcp
from tests.wire.server import ModelServer, Turn

from ..agent.conftest import Scripted, say
from .conftest import Bench
from .test_mcp import Person, Place, chose, k6, notes, place, run  # noqa: F401  (place is a fixture)

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
PROGRAMS = HERE.parent / "node" / "node_modules" / ".bin"
BESIDE = Path(sys.executable).parent
"""Node.js from PyPI is here."""
PATH = f"{BESIDE}{os.pathsep}{os.environ['PATH']}"


def program(name: str) -> str:
    assert (PROGRAMS / name).exists(), f"{name} is missing: run `jlpm install --immutable` in tests/node"
    return str(PROGRAMS / name)


def python(module: str, *args: str) -> dict[str, object]:
    return {"command": sys.executable, "args": ["-m", module, *args]}


def node(name: str, *args: str) -> dict[str, object]:
    return {"command": program(name), "args": list(args), "env": {"PATH": PATH}}


# Over stdio ------------------------------------------------------------------------------------------------------


def test_the_time_server(place: Place) -> None:  # noqa: F811
    bench = place.started(place.mcp(limit=60, time=python("mcp_server_time")), seconds=60, approve="edits")
    told = json.loads(bench.text("mcp__time__get_current_time", timezone="Europe/Oslo"))
    assert told["timezone"] == "Europe/Oslo"
    assert "nothing was done" in bench.refusal("mcp__time__get_current_time", zone="Europe/Oslo")


def test_the_git_server(place: Place) -> None:  # noqa: F811
    subprocess.run(["git", "init", "-q", str(place.root)], check=True)
    (place.root / "a.txt").write_text("a")
    mcp = place.mcp(limit=60, git=python("mcp_server_git", "--repository", str(place.root)))
    bench = place.started(mcp, seconds=60, approve="edits")
    assert "a.txt" in bench.text("mcp__git__git_status", repo_path=str(place.root))
    assert bench.refusal("mcp__git__git_add", repo_path=str(place.root), files=["a.txt"]).startswith("denied")
    assert not bench.call("mcp__git__git_status", repo_path="/no/such/place").ok


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, Mcp, Person]]:
    place = Place(tmp_path_factory.mktemp("everything"))  # noqa: F811
    host = Person()
    mcp = place.mcp(limit=60, every=node("mcp-server-everything"))
    yield place.started(mcp, seconds=60, host=host), mcp, host
    mcp.close()


def test_the_everything_server_gives_every_kind_of_content(everything: tuple[Bench, Mcp, Person]) -> None:
    bench, mcp, _ = everything
    assert "ready with" in mcp.status()[0]
    assert bench.text("mcp__every__echo", message="hi") == "Echo: hi"
    assert any(isinstance(part, Image) for part in bench.call("mcp__every__get-tiny-image").content)
    assert "[resource " in bench.text("mcp__every__get-resource-links")
    assert "[resource " in bench.text("mcp__every__get-resource-reference")
    assert "temperature" in bench.text("mcp__every__get-structured-content", location="Chicago")
    assert bench.root.as_uri() in bench.text("mcp__every__get-roots-list")


def test_the_everything_server_shows_its_progress(everything: tuple[Bench, Mcp, Person]) -> None:
    bench, _, _ = everything
    bench.events.clear()
    bench.text("mcp__every__trigger-long-running-operation", duration=1, steps=2)
    assert [event.text for event in bench.events if isinstance(event, ToolProgress)] == ["1 of 2", "2 of 2"]


def test_the_everything_server_asks_the_person(everything: tuple[Bench, Mcp, Person]) -> None:
    bench, _, host = everything

    class Fills(Person):
        async def ask(self, ask):  # type: ignore[no-untyped-def]
            self.seen.append(ask)
            wanted = {"integer": "7", "number": "3"}
            given = [q.options[0].label if q.options else wanted.get(kind(q.question), "Ada") for q in ask.questions]
            return chose(*given)

    def kind(question: str) -> str:
        return "integer" if "integer" in question.lower() else "number" if "number" in question.lower() else ""

    bench.toolbox.host = Fills()
    try:
        text = bench.text("mcp__every__trigger-elicitation-request")
    finally:
        bench.toolbox.host = host
    assert "accept" in text or "provided" in text.lower(), text


def test_the_everything_server_shows_the_person_a_page_to_open(everything: tuple[Bench, Mcp, Person]) -> None:
    bench, _, host = everything
    host.answers.append(chose("I have opened it"))
    text = bench.text("mcp__every__trigger-url-elicitation", url="https://example.org/sign-in")
    assert "https://example.org/sign-in" in host.seen[-1].questions[0].question
    assert "accept" in text, text


def test_the_filesystem_server_writes_once_allowed(place: Place) -> None:  # noqa: F811
    mcp = place.mcp(limit=60, files=node("mcp-server-filesystem", str(place.root)))
    bench = place.started(mcp, seconds=60)
    bench.text("mcp__files__write_file", path=str(place.root / "new.txt"), content="one\ntwo\n")
    assert (place.root / "new.txt").read_text() == "one\ntwo\n"
    assert "two" in bench.text("mcp__files__read_text_file", path=str(place.root / "new.txt"))
    assert "denied" in bench.refusal("mcp__files__read_text_file", path="/etc/passwd").lower()


# Over HTTP -------------------------------------------------------------------------------------------------------


class Web:
    """The HTTP server as a process that can be killed and started again on its port."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.tools.mcp_http_server", str(self.port)]
        self.process = subprocess.Popen(command, cwd=PROJECT)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.1)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def entry(self) -> dict[str, object]:
        url = f"http://127.0.0.1:{self.port}/mcp"
        return {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${WORD:-let-me-in}"}}


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    yield web
    web.kill()


def test_a_server_over_http(place: Place, web: Web) -> None:  # noqa: F811
    host = Person(chose("Oslo", "3"))
    mcp = place.mcp(weather=web.entry)
    bench = place.started(mcp, host=host)
    assert mcp.status() == ["weather: http, ready with 4 tools"]
    assert bench.text("mcp__weather__plan") == "Oslo for 3 days"
    assert "Where to?" in host.seen[0].detail
    assert any(isinstance(part, Image) for part in bench.call("mcp__weather__picture").content)
    assert json.loads(bench.text("mcp__weather__steps")) == {"steps": 2}
    assert "step 1 (1 of 2)" in [event.text for event in bench.events if isinstance(event, ToolProgress)]


def test_a_new_tool_over_http_is_told(place: Place, web: Web) -> None:  # noqa: F811
    provider = Scripted(
        say("", ("tool_search", {"query": "select:mcp__weather__grow"})),
        say("", ("mcp__weather__grow", {})),
        say("", ("tool_search", {"query": "select:mcp__weather__late"})),
        say("", ("mcp__weather__late", {})),
        say("done"),
    )
    session = place.session(place.mcp(weather=web.entry), provider)
    _, result = run(session)
    assert [ok for _, _, ok, _ in result.tool_calls] == [True] * 4
    assert "- mcp__weather__late: Comes later." in notes(session)


def test_a_server_over_http_that_dies_is_found_again(place: Place, web: Web) -> None:  # noqa: F811
    mcp = place.mcp(weather=web.entry)
    bench = place.started(mcp)
    web.kill()
    started = time.monotonic()
    assert "weather" in bench.refusal("mcp__weather__picture")
    assert time.monotonic() - started < 20
    web.start()
    assert bench.call("mcp__weather__picture").ok


def test_a_refusal_over_http_says_which(place: Place, web: Web) -> None:  # noqa: F811
    mcp = place.mcp(weather={**web.entry, "headers": {}}, nowhere={"url": "http://127.0.0.1:9/mcp"})
    place.started(mcp)
    told = dict(line.split(": ", 1) for line in mcp.status())
    assert "401 Unauthorized" in told["weather"]
    assert "failed" in told["nowhere"]
    assert "Connect" in told["nowhere"]


# Conformance -----------------------------------------------------------------------------------------------------


SCENARIOS = """
initialize tools_call elicitation-sep1034-client-defaults sse-retry auth/metadata-default auth/metadata-var1
auth/metadata-var2 auth/metadata-var3 auth/basic-cimd auth/scope-from-www-authenticate
auth/scope-from-scopes-supported auth/scope-omitted-when-undefined auth/scope-step-up auth/scope-retry-limit
auth/token-endpoint-auth-basic auth/token-endpoint-auth-post auth/token-endpoint-auth-none auth/pre-registration
auth/2025-03-26-oauth-metadata-backcompat auth/2025-03-26-oauth-endpoint-fallback auth/resource-mismatch
auth/offline-access-scope auth/offline-access-not-supported auth/client-credentials-jwt
auth/client-credentials-basic
""".split()  # noqa: SIM905
OUT = {
    "auth/cross-app-access-complete-flow": "a company's identity provider signs in for the person there; an entry of "
    "ours can't name one"
}


def conformance(*args: str) -> subprocess.CompletedProcess[str]:
    interpreter = shutil.which("node", path=PATH)
    assert interpreter
    return subprocess.run(
        [interpreter, program("conformance"), *args],
        cwd=PROJECT,
        env={**os.environ, "PATH": PATH},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_conformance(scenario: str, tmp_path: Path) -> None:
    command = f"{sys.executable} -m tests.tools.mcp_conformance_client"
    done = conformance("client", "--command", command, "--scenario", scenario, "-o", str(tmp_path))
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]


def test_no_scenario_of_the_programs_is_left_out_unsaid() -> None:
    listed = re.findall(r"^  - (\S+)", conformance("list", "--client").stdout, re.MULTILINE)
    assert set(listed) == {*SCENARIOS, *OUT}


def test_asyncio_has_no_stray_tasks(place: Place) -> None:  # noqa: F811
    """The servers' loop is not the caller's: nothing of theirs stays on it."""

    async def look() -> int:
        await place.mcp(time=python("mcp_server_time")).prepare(Bench(place.root).toolbox, place.root, 30)
        return len(asyncio.all_tasks())

    assert asyncio.run(look()) == 1


# On the wire -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-5-5", "openai/gpt-5.6"])
def test_k6_04_no_request_is_refused_for_a_bad_schema(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cumulus_jupyter import Agent

    tools = [f"mcp__k6__{name}" for name in ("good", "anyof", "refs", "nothing", "nullenum")]
    script = [
        Turn("Starting."),
        Turn("", calls=[("tool_search", {"query": f"select:{','.join(tools)}"})]),
        Turn("", calls=[(name, {}) for name in tools]),
        Turn("Done."),
    ]
    with ModelServer(script) as server:
        for name, value in server.env().items():
            monkeypatch.setenv(name, value)
        agent = Agent(model, root=tmp_path, approve="all", mcp_servers={"k6": k6("badschema")})

        async def both() -> RunResult:
            await agent.run("start the server")
            await asyncio.sleep(5)  # under load it may not be there within the grace of a run
            return await agent.run("use its tools")

        result = asyncio.run(both())
    assert server.refused == []
    assert result.status == "done"
    calls = [name for name, _, ok, _ in result.tool_calls if ok]
    assert {"mcp__k6__good", "mcp__k6__nothing"} <= set(calls)
