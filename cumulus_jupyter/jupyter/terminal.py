"""Agents in a terminal IPython: text as it comes, one line a tool call, questions by ``input()``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..agent import events as e
from ..agent.host import CodeRun, LiveNotebook, Place, working_in
from ..agent.messages import Answer, Ask, Outcome, RunResult
from ..agent.provider import Provider
from ..script import printed
from ..tools.terminal import plain_text
from .board import Submit
from .labels import label, result_note
from .panels_text import panel_text
from .twins import visible

__all__ = ["TerminalHost", "TerminalView"]


class TerminalHost:
    """A terminal IPython's shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    @property
    def person(self) -> bool:
        """Somebody types."""
        return sys.stdin.isatty()

    def namespace(self) -> dict[str, Any]:
        """The user's variables."""
        namespace: dict[str, Any] = self._shell.user_ns
        return namespace

    async def live_notebook(self) -> LiveNotebook | None:
        """No notebook."""
        return None

    def place(self) -> Place:
        """No notebook."""
        return Place()

    async def open_in(self, path: str) -> str:
        """No front end is known."""
        return ""

    async def ask(self, ask: Ask) -> Answer:
        """Ask on the terminal, once what was printed is out."""
        answers: list[Answer] = []
        if self.person:
            TerminalView().ask(ask, answers.append)
        return answers[0] if answers else Answer(Outcome.NO_USER)

    async def run_code(
        self, code: str, *, call_id: str, folder: Path, timeout: float, progress: Callable[[str], None]
    ) -> CodeRun:
        """Run in the shell's namespace; what it prints is captured."""
        run = CodeRun()
        with printed() as out, working_in(folder, run):
            try:
                result = await asyncio.wait_for(
                    self._shell.run_cell_async(
                        code, store_history=False, transformed_cell=self._shell.transform_cell(code)
                    ),
                    timeout,
                )
                error = result.error_before_exec or result.error_in_exec
                run.error = (type(error).__name__, str(error), "") if error else None
            except TimeoutError:
                run.timed_out = True
        if text := plain_text(out.getvalue()):
            run.outputs.append({"output_type": "stream", "name": "stdout", "text": text})
        return run


class TerminalView:
    """Prints a run."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._at_start = True

    def begin(self, provider: Provider, *, stoppable: bool = False) -> None:
        """Say who answers."""
        notice = f" — {provider.notice}" if provider.notice else ""
        self._line(f"{provider.name} · {provider.host}{notice}")

    def expanded(self, expression: str, value: str) -> None:
        """Show what an expression became."""
        self._line(f"{{{{{expression}}}}} = {value[:200]}")

    def handle(self, event: e.Event) -> None:
        """Print one event."""
        if isinstance(event, e.TextDelta):
            self._write(visible(event.text))
        elif isinstance(event, e.ToolFinished):
            verb, thing, _ = label(event.call, event.result)
            note = result_note(event.result)
            mark = "✓" if event.result.ok else "✗"
            self._line(f"  {mark} {verb} {thing}".rstrip() + (f" — {note}" if note else ""))
        elif isinstance(event, e.Nested):
            self._nested(event)
        elif isinstance(event, e.PanelShown):
            self._line(visible(panel_text(event.panel)))
        elif isinstance(event, e.Retrying):
            self._line(f"  {event.reason}; attempt {event.attempt} of {event.attempts} in {event.seconds:.0f} s")
        elif isinstance(event, e.ReplyDiscarded):
            self._line(f"  (taken back: {event.reason})")
        elif isinstance(event, e.Compacted):
            self._line(f"  earlier turns were summarised: {event.before:,} → {event.after:,} tokens")
        elif isinstance(event, e.Notice):
            self._line(f"  {visible(event.text.strip('*'))}")
        elif isinstance(event, e.RoundEnded):
            self._line("")

    def _nested(self, event: e.Nested) -> None:
        inner = event.event
        if isinstance(inner, e.ToolFinished):
            verb, thing, _ = label(inner.call, inner.result)
            self._line(f"    {event.name}: {'✓' if inner.result.ok else '✗'} {verb} {thing}".rstrip())
        elif (
            isinstance(inner, e.AgentState)
            and inner.status != "submitted"
            and not (inner.status == "running" and inner.rounds)
        ):
            mark = {"completed": "✓", "running": "●"}.get(inner.status, "✗")
            error = f": {inner.error}" if inner.error else ""
            self._line(visible(f"  {mark} agent {event.name} — {inner.status}{error}"))

    def ask(self, ask: Ask, submit: Submit) -> None:
        """Ask on the terminal."""
        try:
            values = tuple(self._input(question, ask) for question in ask.questions)
            submit(Answer(Outcome.ANSWERED, values))
        except (EOFError, KeyboardInterrupt):
            submit(Answer(Outcome.DECLINED))

    def _input(self, question: Any, ask: Ask) -> str:
        if ask.detail:
            self._line(visible(ask.detail))
        self._line(f"? {question.header}: {question.question}")
        for number, option in enumerate(question.options, 1):
            self._line(f"  {number}. {option.label}{' — ' + option.description if option.description else ''}")
        said = input("> ").strip()
        if said.isdigit() and 1 <= int(said) <= len(question.options):
            return str(question.options[int(said) - 1].label)
        return said

    def answered(self, ask: Ask, answer: Answer) -> None:
        """The answer stands in the terminal already."""

    def needs_input(self) -> None:
        """A terminal asks at once."""

    def detach(self, *, stoppable: bool) -> None:
        """Nothing to change."""

    def finish(self, result: RunResult, advice: str = "") -> None:
        """Say how it ended."""
        usage = result.usage
        counts = f"{usage.rounds} rounds · {usage.input:,} in · {usage.output:,} out · {usage.seconds:.1f} s"
        counts += f" · ${usage.cost:.4f}" if usage.cost else ""
        error = f": {result.error}" if result.error else ""
        self._line(f"{result.status.replace('_', ' ')}{error} · {counts}{' · ' + advice if advice else ''}")

    def _line(self, text: str) -> None:
        if not self._quiet:
            self._write(("" if self._at_start else "\n") + text + "\n")

    def _write(self, text: str) -> None:
        if text:
            print(text, end="", flush=True)
            self._at_start = text.endswith("\n")
