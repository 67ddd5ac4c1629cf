"""One row of a batch: the task that all rows share, and the small run that does it for one of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .agent.errors import CumulusError, SettingsError
from .agent.events import ToolFinished
from .agent.loop import Limits
from .agent.messages import RunUsage, Status
from .agent.policy import APPROVE_MODES, Policy
from .agent.redact import Redactor
from .agent.session import Session
from .agent.tool import Tool
from .agent.toolbox import Toolbox
from .agent.transcript import Transcript
from .prompts import row_prompt
from .script import ScriptHost
from .settings import CumulusAgent
from .usertools import given_tools

if TYPE_CHECKING:
    from .providers.pacing import PacedProvider
    from .tools.submit import Shape

__all__ = ["Outcome", "RowTask", "Task", "answer_elsewhere"]

_PROMPTS = 3
"""How often a row is asked, where an answer holds no result."""
_TYPED = "\n\nWhen the result is certain, call submit_result with it; that ends the task."
_PLAIN = "\n\nAnswer with the result alone: it becomes a cell of a table, so no preface, no comment, no Markdown."
_REMIND = {True: "That was no result yet. Call submit_result with it.", False: "That was empty. Give the result."}


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of every row, as it was given: it can travel to another process.

    ``model`` is None for the default one, and ``approve`` for the setting's mode. ``root`` is the folder that tools
    start in.
    """

    instruction: str
    schema: Any = None
    model: str | None = None
    tools: tuple[Any, ...] = ()
    limits: Limits = field(default_factory=lambda: Limits(10))
    system: str = ""
    approve: str | None = None
    base_url: str | None = None
    root: str = ""

    def made(self, api_key: str | None = None) -> RowTask:
        """The task with its provider and tools, for the event loop that runs now.

        Raises
        ------
        SettingsError
            Something in it is wrong.
        """
        from .providers.catalog import known_secrets, resolve
        from .providers.pacing import PacedProvider

        if not self.instruction.strip():
            raise SettingsError("agent_map needs an instruction: what to do with one row")
        settings = CumulusAgent()
        approve = self.approve or settings.approve
        if approve not in APPROVE_MODES:
            raise SettingsError(f"approve takes {', '.join(APPROVE_MODES)}, not {approve!r}")
        shape = _shape(self.schema)
        redact = Redactor([*known_secrets(os.environ), *([api_key] if api_key else [])])
        tools = [*_bound(self.tools), *([shape.tool()] if shape else [])]
        root = Path(self.root or os.getcwd())
        if self.tools and not root.is_dir():
            raise SettingsError(f"the folder {root} is not on this worker: tools need it on a shared path")
        toolbox = _toolbox(tools, root, approve, settings.sandbox, redact)
        name = self.model or settings.model or None
        provider = PacedProvider(resolve(name, env=os.environ, base_url=self.base_url, api_key=api_key))
        return RowTask(provider, toolbox, self.limits, self.instruction, row_prompt(self.system), shape)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a row's run came to: why it failed (empty where it did not), and what it took."""

    error: str
    usage: RunUsage


@dataclass(frozen=True, slots=True)
class RowTask:
    """A task that is ready to be done for rows, side by side; they share its provider and its tools' locks."""

    provider: PacedProvider
    toolbox: Toolbox
    limits: Limits
    instruction: str
    system: str
    shape: Shape | None

    def keys(self, texts: Iterable[str]) -> list[str]:
        """A key for each row in a journal: the same for the same row and task. Equal rows are told by their number."""
        shape = self.shape.schema if self.shape else None
        fixed = [self.instruction, self.system, shape, self.provider.name, sorted(self.toolbox.tools)]
        task = hashlib.sha256(json.dumps(fixed, sort_keys=True, default=str).encode()).digest()
        seen: Counter[str] = Counter()
        keys = []
        for text in texts:
            digest = hashlib.sha256(task + text.encode("utf-8", "replace")).hexdigest()[:32]
            keys.append(f"{digest}-{seen[digest]}")
            seen[digest] += 1
        return keys

    def value(self, given: Any) -> Any:
        """The result that a model's words or arguments spell. Raises :class:`ToolError` where they spell none."""
        return self.shape.parse(given) if self.shape else given

    async def answer(self, text: str, accept: Callable[[Any], None]) -> Outcome:
        """Do the task for one row; ``accept`` gets what the model gave, at once, before anything else is awaited."""
        session = Session(Transcript(), self.provider, self.toolbox, self.limits, self.system)
        try:
            error = await self._answer(text, session, accept)
        except Exception as fault:  # whatever goes wrong with a row costs that row
            error = f"{type(fault).__name__}: {fault}"
        return Outcome(error, _spent(session.transcript))

    async def _answer(self, text: str, session: Session, accept: Callable[[Any], None]) -> str:
        typed, fault = self.shape is not None, ""
        prompt = f"{self.instruction}\n\n<row>\n{text}\n</row>{_TYPED if typed else _PLAIN}"
        for _ in range(_PROMPTS):
            async with aclosing(session.stream(prompt)) as events:
                async for event in events:
                    if self.shape and isinstance(event, ToolFinished) and event.result.name == self.shape.name:
                        if event.result.ok:
                            accept(event.call.arguments)
                            return ""
                        fault = f" The last result was refused: {event.result.text}"
            result = session.transcript.run_result()
            if result.status is not Status.DONE:
                return f"{result.error or f'the run ended: {result.status}'}{fault}"
            given = self.shape.spoken(result.text) if self.shape else result.text.strip() or None
            if given is not None:
                accept(given)
                return ""
            prompt = _REMIND[typed]
        return f"the model gave no result in {_PROMPTS} answers.{fault}"


def answer_elsewhere(spec: dict[str, Any]) -> tuple[list[Any], Outcome, str]:
    """Do the ``task`` for the row ``text`` in this process, with the keys of its environment.

    Gives what the model gave (an empty list for nothing), the outcome, and a refusal that holds for every row.
    """

    async def main() -> tuple[list[Any], Outcome, str]:
        given: list[Any] = []
        task: Task = spec["task"]
        made = task.made()
        try:
            outcome = await made.answer(spec["text"], given.append)
        finally:
            await made.provider.close()
        return given, outcome, str(made.provider.hopeless or "")

    try:
        return asyncio.run(main())
    except CumulusError as error:  # a missing key, a tool that is not there: so it is for every row
        return [], Outcome(str(error), RunUsage(cost=0.0)), str(error)


def _shape(schema: Any) -> Shape | None:
    if schema is None or schema is str:
        return None
    from .tools.submit import Shape

    return Shape(schema)


def _bound(tools: Iterable[Any]) -> list[Tool]:
    """The given tools, all bound from the start: there are few, and no row should have to look for them."""
    from .tools import builtin_tools

    known = {tool.name: tool for tool in builtin_tools()}
    items = list(tools)
    if unknown := [item for item in items if isinstance(item, str) and item not in known]:
        raise SettingsError(f"there is no built-in tool {', '.join(unknown)}; there are: {', '.join(known)}")
    made = given_tools(known[item] if isinstance(item, str) else item for item in items)
    return [replace(tool, deferred=False) for tool in made]


def _toolbox(tools: Iterable[Tool], root: Path, approve: str, sandbox: str, redact: Redactor) -> Toolbox:
    from .tools.answers import AnswerBook, headless_resolver

    return Toolbox(
        tools,
        host=ScriptHost(),
        root=root,
        policy=Policy(approve, person=False),
        resolve=headless_resolver(AnswerBook({}), "tell"),
        redact=redact,
        sandbox=sandbox,
    )


def _spent(transcript: Transcript) -> RunUsage:
    """All that a row's conversation took."""
    lines = [line for line in transcript.lines if line["type"] in ("assistant", "compacted")]
    costs: list[Any] = [line.get("cost") for line in lines]
    return RunUsage(
        rounds=sum(line["type"] == "assistant" for line in lines),
        input=sum(line["usage"]["input"] for line in lines),
        cached=sum(line["usage"]["cached"] for line in lines),
        output=sum(line["usage"]["output"] for line in lines),
        cost=None if None in costs else sum(costs),
    )
