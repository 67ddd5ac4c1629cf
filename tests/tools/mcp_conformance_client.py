"""Our client as the conformance programs want it: ``python mcp_conformance_client.py URL`` calls every tool once."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from cumulus_jupyter.agent.messages import Answer, Ask, Outcome
from cumulus_jupyter.script import ScriptHost
from cumulus_jupyter.tools.mcp import Mcp

from .conftest import Bench

ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 2, "b": 3}}


class TakesDefaults(ScriptHost):
    """A person who takes what the form offers."""

    person = True

    async def ask(self, ask: Ask) -> Answer:
        return Answer(Outcome.ANSWERED, tuple(_offered(question.options) for question in ask.questions))


def _offered(options: Any) -> str:
    return next(option.label for option in options if option.description or option is options[-1])


def main(url: str) -> int:
    bench = Bench(Path(tempfile.mkdtemp()), person=True)
    bench.toolbox.host = TakesDefaults()
    mcp = Mcp(lambda: {"s": {"type": "http", "url": url}}, project=False)
    asyncio.run(mcp.prepare(bench.toolbox, bench.root, 20))
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
