"""``%agent call``: a tool call that a person typed, run as the loop runs a model's, and shown from both sides."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from ..agent.errors import ProviderError
from ..agent.events import ApprovalAsked, Event, Finished, Paused, QuestionAsked, TextDelta
from ..agent.loop import Limits
from ..agent.messages import Image, Reply, Status, StopReason, ToolResult
from ..agent.provider import ModelFacts, Request
from ..agent.session import Session
from ..agent.spool import Spool
from ..agent.transcript import Transcript
from ..app import Conversations, RunOptions, compose

__all__ = ["TypedCalls", "faces"]

_LONGEST = 400
"""Characters of one text in the details that are shown."""


class _Nobody:
    """Stands where a model would: a typed call asks none."""

    name, host, notice, facts = "%agent call", "no model", "", ModelFacts()

    async def stream(self, request: Request) -> AsyncGenerator[TextDelta | Reply, None]:
        """Not used."""
        raise ProviderError("no model takes part in %agent call")
        yield  # makes it a generator

    def body(self, request: Request) -> bytes:
        """Not used."""
        return b""

    async def close(self) -> None:
        """Nothing is open."""


class _Results(Spool):
    """Whole results of typed calls, and beneath them those of the conversation: ``read_result`` pages both."""

    def __init__(self, below: Callable[[], Spool | None]) -> None:
        super().__init__()
        self._below = below

    def get(self, handle: str) -> str | None:
        """The whole result, the typed calls' own first."""
        below = self._below()
        return super().get(handle) or (below.get(handle) if below else None)


class TypedCalls(Session):
    """A conversation of typed calls: held in memory, apart from what is said to a model."""

    def __init__(self, app: Conversations) -> None:
        self._app = app

        def below() -> Spool | None:
            main = app.sessions.get("main")
            return main.transcript.spool if main else None

        super().__init__(Transcript(spool=_Results(below)), _Nobody(), self._toolbox(RunOptions()), Limits(), "")

    def _toolbox(self, options: RunOptions) -> Any:
        app = self._app
        made = compose(
            app.settings,
            app.host,
            app.root,
            options,
            transcript=Transcript(),
            added=app.tools.values(),
            environ=app.environ,
            provider=_Nobody(),
            system="-",
            mcp=app.mcp,
        )
        return made.toolbox

    async def call(self, name: str, text: str) -> AsyncGenerator[Event, None]:
        """Run a tool with the arguments that the JSON ``text`` holds, as the loop takes them from a model."""
        from ..providers.calls import RawCall, to_calls

        if name.startswith("mcp__"):  # servers start as for a run; typing a tool's name approves none
            app = self._app
            await app.mcp.prepare(self._toolbox(RunOptions()), app.root, app.settings.mcp_start_timeout)
        self.toolbox = self._toolbox(RunOptions(approve="all"))
        self.transcript.user(f"%agent call {name} {text}")
        self.transcript.append("fetched", names=[tool.name for tool in self.toolbox.deferred])
        calls = to_calls([RawCall(name, parts=[text])], self.toolbox.tools)
        self.transcript.assistant(Reply("", calls, StopReason.TOOL_CALLS, model=_Nobody.name), cost=0.0)
        async for event in self.resume():
            yield event

    async def resume(self) -> AsyncGenerator[Event, None]:
        """Run what is open; the last event is :class:`Paused` or :class:`Finished`."""
        while self.transcript.open_calls:
            waiting = []
            async for event in self.toolbox.run_open(self.transcript):
                if isinstance(event, QuestionAsked | ApprovalAsked):
                    waiting.append(event.ask)
                yield event
            if waiting := [ask for ask in waiting if ask.call_id not in self.transcript.answers]:
                yield Paused(waiting)
                return
        yield Finished(self.transcript.end(Status.DONE))

    def results(self) -> list[ToolResult]:
        """The results of the last call, as far as they are there."""
        return [result for result in self.transcript.messages[-1].results if result]  # type: ignore[union-attr]


def faces(result: ToolResult) -> str:
    """A result's two faces in words: what a model gets of it, and what the screen and the transcript get."""
    given = "\n".join(
        f"[image: {part.media_type}, {len(part.data) * 3 // 4:,} bytes]" if isinstance(part, Image) else part
        for part in result.content
    )
    window = f", a window on {result.size:,} characters" if result.handle else ""
    kind = "result" if result.ok else "error"
    details = json.dumps(_brief(result.details), indent=2, ensure_ascii=False, default=str)
    return f"the model gets this {kind}{window}:\n{given}\n\nscreen and transcript get besides:\n{details}"


def _brief(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]}… ({len(value):,} characters)"
    if isinstance(value, dict):
        return {key: _brief(item) for key, item in value.items()}
    return [_brief(item) for item in value] if isinstance(value, list | tuple) else value
