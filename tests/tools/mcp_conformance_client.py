"""Our client as the conformance programs want it: ``python mcp_conformance_client.py URL`` calls every tool once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from cumulus_jupyter.agent.messages import Answer, Ask, Outcome
from cumulus_jupyter.script import ScriptHost
from cumulus_jupyter.tools.mcp import Mcp

from .conftest import Bench
from .mcp_oauth_server import browse

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
METADATA = "https://conformance-test.local/client-metadata.json"
ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 2, "b": 3}}


class TakesDefaults(ScriptHost):
    """A person who takes what the form offers, and signs in where a page asks for it."""

    person = True

    async def ask(self, ask: Ask) -> Answer:
        if "sign in" in ask.detail and (link := re.search(r"https?://\S+", ask.detail)):
            with contextlib.suppress(OSError):  # what the page refuses, the client is told
                await asyncio.to_thread(browse, link[0])
            return Answer(Outcome.ANSWERED, ("I have signed in",))
        return Answer(Outcome.ANSWERED, tuple(_offered(question.options) for question in ask.questions))


def _offered(options: Any) -> str:
    return next(option.label for option in options if option.description or option is options[-1])


def entry(url: str) -> dict[str, Any]:
    """The server's entry as a person would write it with what the scenario gives them."""
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    oauth = {"client_id": METADATA} if SCENARIO == "auth/basic-cimd" else {}
    if given:
        names = {"private_key_pem": "private_key"}
        oauth = {names.get(name, name): text for name, text in given.items() if name != "name"}
    if SCENARIO == "auth/pre-registration":
        oauth["grant_type"] = "authorization_code"
    if SCENARIO == "auth/2025-03-26-oauth-metadata-backcompat":
        # Its metadata lie where another issuer's would, which RFC 8414 (3.3) has a client refuse unless it is told.
        oauth["issuer"] = url.removesuffix("/mcp") + "/oauth"
    return {"type": "http", "url": url, "oauth": oauth}


async def begin(mcp: Mcp, bench: Bench) -> None:
    await mcp.prepare(bench.toolbox, bench.root, 20)
    await mcp.sign_in(bench.toolbox)


def main(url: str) -> int:
    bench = Bench(Path(tempfile.mkdtemp()), person=True)
    bench.toolbox.host = TakesDefaults()
    mcp = Mcp(lambda: {"s": entry(url)}, project=False)
    asyncio.run(begin(mcp, bench))
    tools = mcp.tools()
    for tool in tools:
        bench.toolbox.add(tool)
    bench.transcript.append("fetched", names=[tool.name for tool in tools])
    results = [bench.call(tool.name, **ARGUMENTS.get(tool.listed.name, {})) for tool in tools]
    failed = [result.text for result in results if not result.ok]
    ready = "ready" in mcp.status()[0]
    print(mcp.status(), failed)
    mcp.close()
    return 1 if failed or not ready else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1]))
