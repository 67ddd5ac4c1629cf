"""Signing in to MCP servers over HTTP: the page in the cell, the kept tokens, nobody there, credentials, headers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent.events import Notice
from cumulus_jupyter.agent.messages import Answer, Ask, Outcome
from cumulus_jupyter.agent.redact import Redactor
from cumulus_jupyter.script import ScriptHost
from cumulus_jupyter.tools.mcp import Mcp
from cumulus_jupyter.tools.mcp.callback import Callback, free_port
from cumulus_jupyter.tools.mcp.config import parse

from ..agent.conftest import Scripted, say
from .conftest import Bench
from .mcp_oauth_server import Guarded, browse, browse_to_nowhere
from .test_mcp import Place, notes, place, run  # noqa: F401  (place is a fixture)


class Signs(ScriptHost):
    """A person at a browser: opens the page and lets it come back, or does what ``way`` says."""

    person = True

    def __init__(self, way: str = "opens") -> None:
        super().__init__()
        self.way, self.seen, self.withdrawn = way, [], 0
        self.page = ""

    async def ask(self, ask: Ask) -> Answer:
        self.seen.append(ask)
        link = re.search(r"https?://\S+", ask.detail)
        assert link
        if self.way == "later":
            return Answer(Outcome.ANSWERED, ("Not now",))
        if self.way == "copies":
            return Answer(Outcome.ANSWERED, (await asyncio.to_thread(browse_to_nowhere, link[0]),))
        if self.way == "opens":
            self.page = await asyncio.to_thread(browse, link[0])
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.withdrawn += 1
            raise
        raise AssertionError


@pytest.fixture(scope="module")
def server() -> Iterator[Guarded]:
    server = Guarded()
    yield server
    server.close()


@pytest.fixture
def guarded(server: Guarded) -> Guarded:
    server.accounts.forget()
    return server


def started(place: Place, guarded: Guarded, host: ScriptHost | None = None, **more: Any) -> tuple[Mcp, Bench]:  # noqa: F811
    """The server started as a run's beginning does it, and a bench with its tools."""
    limit = more.pop("limit", 20)
    mcp = place.mcp(limit=limit, g={"url": guarded.url, **more})
    bench = Bench(place.root, person=bool(host and host.person), redact=Redactor())
    bench.toolbox.host = host or bench.toolbox.host

    async def begin() -> None:
        await mcp.prepare(bench.toolbox, place.root, 20)
        await mcp.sign_in(bench.toolbox)

    asyncio.run(begin())
    for tool in mcp.tools():
        bench.toolbox.add(tool)
    bench.transcript.append("fetched", names=[tool.name for tool in mcp.tools()])
    return mcp, bench


def kept(place: Place) -> Path:  # noqa: F811
    (file,) = (place.root / "data" / "mcp-sign-in").iterdir()
    return file


def secrets_of(guarded: Guarded) -> set[str]:
    return {*guarded.accounts.access, *guarded.accounts.refresh}


def test_a_person_signs_in_once_and_the_tokens_are_kept_and_hidden(place: Place, guarded: Guarded) -> None:  # noqa: F811
    host = Signs()
    mcp, bench = started(place, guarded, host)
    assert mcp.status() == ["g: http, ready with 1 tool"]
    assert "You are signed in" in host.page
    assert len(host.seen) == host.withdrawn == 1
    result = bench.call("mcp__g__tell")
    assert result.ok
    assert result.text == "it says [key]"
    assert not any(secret in repr(bench.transcript.messages) for secret in secrets_of(guarded))
    if os.name != "nt":
        assert stat.S_IMODE(kept(place).stat().st_mode) == 0o600
    assert json.loads(kept(place).read_text())["url"] == guarded.url
    mcp.close()
    # Another kernel, even one without a person, uses what is kept.
    mcp, bench = started(place, guarded)
    assert bench.call("mcp__g__tell").ok
    assert guarded.accounts.signed_in == 1


def test_tokens_that_have_ended_are_renewed_after_a_restart(place: Place, guarded: Guarded) -> None:  # noqa: F811
    mcp, _ = started(place, guarded, Signs())
    mcp.close()
    file = kept(place)
    file.write_text(json.dumps({**json.loads(file.read_text()), "expires": time.time() - 5}))
    guarded.accounts.access.clear()
    mcp, bench = started(place, guarded)
    assert bench.call("mcp__g__tell").ok, mcp.status()
    assert (guarded.accounts.signed_in, guarded.accounts.renewed) == (1, 1)


def test_with_nobody_there_a_sentence_says_what_to_do(place: Place, guarded: Guarded) -> None:  # noqa: F811
    mcp, _ = started(place, guarded)
    (line,) = mcp.status()
    assert "nobody is here" in line
    assert "headers" in line
    assert "client_id" in line
    assert "Traceback" not in line
    # The same kernel finds a sign-in that another one has made since.
    other, _ = started(place, guarded, Signs())
    other.close()
    asyncio.run(mcp.prepare(Bench(place.root).toolbox, place.root, 20))
    assert mcp.status() == ["g: http, ready with 1 tool"]


def test_who_sits_elsewhere_copies_the_address(place: Place, guarded: Guarded) -> None:  # noqa: F811
    mcp, _ = started(place, guarded, Signs("copies"))
    assert mcp.status() == ["g: http, ready with 1 tool"]


def test_put_off_it_waits_unseen_and_the_tools_come_later(place: Place, guarded: Guarded) -> None:  # noqa: F811
    host = Signs("later")
    provider = Scripted(say("first"), say("second"))
    mcp = place.mcp(g={"url": guarded.url})
    session = place.session(mcp, provider, host)
    events, result = run(session)
    assert result.text == "first"
    told = " ".join(event.text for event in events if isinstance(event, Notice))
    link = re.search(r"\[sign in\]\(<(\S+)>\)", told)
    assert link
    assert link[1] in mcp.status()[0]
    assert "waits for you to sign in" in notes(session)
    assert link[1] not in notes(session)
    browse(link[1])
    run(session)
    assert len(host.seen) == 1
    assert "mcp__g__tell" in notes(session)


def test_a_person_who_does_nothing_holds_the_cell_no_longer_than_a_start(place: Place, guarded: Guarded) -> None:  # noqa: F811
    host = Signs("sleeps")
    begun = time.monotonic()
    mcp, _ = started(place, guarded, host, limit=1.5)
    assert time.monotonic() - begun < 15  # a guard against a hang: the page itself is open for minutes
    assert host.withdrawn == 1
    assert "waits for you to sign in" in mcp.status()[0]


def test_a_token_revoked_in_mid_session_is_asked_for_within_the_call(place: Place, guarded: Guarded) -> None:  # noqa: F811
    host = Signs()
    _, bench = started(place, guarded, host)
    guarded.accounts.access.clear()
    assert bench.text("mcp__g__tell").startswith("it says")
    assert (len(host.seen), guarded.accounts.signed_in) == (2, 2)
    guarded.accounts.access.clear()
    host.way = "later"
    assert "nothing was done" in bench.refusal("mcp__g__tell")
    host.way = "opens"
    assert bench.text("mcp__g__tell").startswith("it says")


def test_a_header_of_the_person_wins(place: Place, guarded: Guarded) -> None:  # noqa: F811
    mcp, _ = started(place, guarded, Signs())
    mcp.close()
    (token,) = guarded.accounts.access
    signed = kept(place)
    signed.unlink()
    host = Signs()
    mcp, bench = started(place, guarded, host, headers={"authorization": f"Bearer {token}"})
    assert bench.text("mcp__g__tell") == "it says [key]"
    mcp.close()
    mcp, _ = started(place, guarded, host, headers={"Authorization": "Bearer wrong-one"})
    assert "wants a sign-in" in mcp.status()[0]
    assert not host.seen
    assert not signed.exists()


def test_only_who_knows_the_state_ends_a_sign_in() -> None:
    """Another page in the person's browser may call the loopback address too."""
    came: list[Any] = []
    port = free_port(0)
    callback = Callback(port, "s3cret", came.append)
    try:
        for path in ("callback?code=evil", "callback?code=evil&state=guess", "other?code=evil&state=s3cret"):
            with pytest.raises(OSError, match="404"):
                browse(f"http://127.0.0.1:{port}/{path}")
        assert came == []
        browse(f"http://127.0.0.1:{port}/callback?code=good&state=s3cret")
    finally:
        callback.close()
    assert came == [{"code": "good", "state": "s3cret"}]


def test_oauth_entries_are_checked() -> None:
    def entry(**oauth: Any) -> dict[str, Any]:
        return {"s": {"url": "https://x.example/mcp", "oauth": oauth}}

    environ = {"ID": "me", "SECRET": "hush-hush"}
    specs, _ = parse(entry(client_id="${ID}", client_secret="${SECRET}"), Path(), environ)
    assert specs["s"].oauth.client_secret == "hush-hush"
    assert specs["s"].oauth.grant_type == "client_credentials"
    assert "hush" not in repr(specs["s"])
    specs, _ = parse(entry(clientId="me", callbackPort=8123), Path(), environ)
    assert (specs["s"].oauth.grant_type, specs["s"].oauth.callback_port) == ("authorization_code", 8123)
    for wrong, told in (
        ({"client_id": "${NONE}"}, "NONE is not set"),
        ({"secret": "x"}, "does not know secret"),
        ({"grant_type": "password"}, "grant_type must be"),
        ({"grant_type": "client_credentials"}, "needs client_id"),
        ({"callback_port": "0"}, "port number"),
    ):
        _, problems = parse(entry(**wrong), Path(), environ)
        assert told in problems["s"]
