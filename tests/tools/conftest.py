from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent.events import ApprovalAsked, Event, QuestionAsked
from cumulus_jupyter.agent.messages import Reply, StopReason, ToolCall, ToolResult, ToolResults
from cumulus_jupyter.agent.policy import Policy
from cumulus_jupyter.agent.tool import Tool
from cumulus_jupyter.agent.toolbox import Toolbox
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.script import ScriptHost
from cumulus_jupyter.tools import builtin_tools

from ..agent.conftest import session  # noqa: F401  (the fixture)

CASES = Path(__file__).parent.parent / "cases"


class Bench:
    """The built-in tools in a folder, called as a model calls them; all deferred ones are fetched."""

    def __init__(
        self, root: Path, *, approve: str = "all", person: bool = False, extra: Iterable[Tool] = (), **options: Any
    ):
        self.root = root
        self.toolbox = Toolbox(
            [*builtin_tools(), *extra], host=ScriptHost(), root=root, policy=Policy(approve, person), **options
        )
        self.transcript = Transcript()
        self.transcript.user("go")
        self.transcript.append("fetched", names=[tool.name for tool in self.toolbox.deferred])
        self.events: list[Event] = []

    async def run(self, *calls: tuple[str, dict[str, Any]]) -> list[ToolResult | None]:
        """Run the calls of one reply; None for a call that waits for the person."""
        made = [ToolCall("", name, arguments) for name, arguments in calls]
        reply = self.transcript.assistant(Reply("", made, StopReason.TOOL_CALLS, model="test"))
        async for event in self.toolbox.run_open(self.transcript):
            self.events.append(event)
        results = next(m for m in reversed(self.transcript.messages) if isinstance(m, ToolResults))
        by_id = {result.call_id: result for result in results.results if result}
        return [by_id.get(call.id) for call in reply.calls]

    def calls(self, *calls: tuple[str, dict[str, Any]]) -> list[ToolResult | None]:
        return asyncio.run(self.run(*calls))

    def call(self, name: str, /, **arguments: Any) -> ToolResult:
        (result,) = self.calls((name, arguments))
        assert result is not None, "the call waits for the person"
        return result

    def text(self, name: str, /, **arguments: Any) -> str:
        """The text of a call that must succeed."""
        result = self.call(name, **arguments)
        assert result.ok, result.text
        return result.text

    def refusal(self, name: str, /, **arguments: Any) -> str:
        """The text of a call that must fail, in words."""
        result = self.call(name, **arguments)
        assert not result.ok, result.text
        assert "traceback" not in result.details, result.details
        return result.text

    @property
    def asked(self) -> list[Event]:
        return [event for event in self.events if isinstance(event, QuestionAsked | ApprovalAsked)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def case(tmp_path: Path) -> Callable[[str], Path]:
    """Copy a case's file into the test's folder."""
    return lambda name: Path(shutil.copyfile(CASES / name, tmp_path / name))
