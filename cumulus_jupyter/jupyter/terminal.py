"""Agents in a terminal IPython: text as it comes, one line a tool call, questions by ``input()``."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..agent import events as e
from ..agent.host import CodeRun, LiveNotebook, Place, working_in
from ..agent.messages import Answer, Ask, Outcome, Question, RunResult, Status
from ..agent.provider import Provider
from ..script import printed
from ..tools.terminal import plain_text
from .board import Submit
from .labels import label, result_note
from .panels_text import panel_text
from .twins import visible

__all__ = ["TerminalHost", "TerminalView"]

_TODOS = {"completed": "☑", "in_progress": "▸", "pending": "☐"}


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
    """Prints a run; in colours where the terminal has them, and the person wants them.

    What a model, a tool or a file says is freed of escape codes first: the colours are ours alone.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._at_start = True
        self._coloured = _has_colours()

    def begin(self, provider: Provider, *, stoppable: bool = False) -> None:
        """Say who answers."""
        notice = f" — {provider.notice}" if provider.notice else ""
        self._line(("faint", f"{provider.name} · {provider.host}{notice}"))

    def expanded(self, expression: str, value: str) -> None:
        """Show what an expression became."""
        self._line(("faint", f"{{{{{expression}}}}} = {value[:200]}"))

    def handle(self, event: e.Event) -> None:
        """Print one event."""
        if isinstance(event, e.TextDelta):
            self._write(visible(event.text))
        elif isinstance(event, e.ToolFinished):
            self._tool(event)
        elif isinstance(event, e.TodosChanged):
            self._line(("faint", "\n".join(f"  {_TODOS[todo['status']]} {todo['label']}" for todo in event.todos)))
        elif isinstance(event, e.Nested):
            self._nested(event)
        elif isinstance(event, e.PanelShown):
            self._line(("", panel_text(event.panel)))
        elif isinstance(event, e.Retrying):
            again = f"attempt {event.attempt} of {event.attempts} in {event.seconds:.0f} s"
            self._line(("yellow", f"  {event.reason}; {again}"))
        elif isinstance(event, e.ReplyDiscarded):
            self._line(("yellow", f"  (taken back: {event.reason})"))
        elif isinstance(event, e.Compacted):
            self._line(("faint", f"  earlier turns were summarised: {event.before:,} → {event.after:,} tokens"))
        elif isinstance(event, e.Notice):
            self._line(("faint", f"  {event.text.strip('*')}"))
        elif isinstance(event, e.RoundEnded):
            self._line(("", ""))

    def _tool(self, event: e.ToolFinished, before: str = "  ") -> None:
        if event.result.ok and event.call.name in ("update_todos", "present_ui", "AskUserQuestion"):
            return  # shown as what they are
        verb, thing, _ = label(event.call, event.result)
        note = result_note(event.result)
        sign = ("green", "✓ ") if event.result.ok else ("red", "✗ ")
        self._line(("", before), sign, ("faint", f"{verb} {thing}".rstrip() + (f" — {note}" if note else "")))

    def _nested(self, event: e.Nested) -> None:
        inner = event.event
        if isinstance(inner, e.ToolFinished):
            self._tool(inner, f"    {event.name}: ")
        elif (
            isinstance(inner, e.AgentState)
            and inner.status != "submitted"
            and not (inner.status == "running" and inner.rounds)
        ):
            sign = {"completed": ("green", "✓ "), "running": ("blue", "● ")}.get(inner.status, ("red", "✗ "))
            error = f": {inner.error}" if inner.error else ""
            self._line(("", "  "), sign, ("", f"agent {event.name} — {inner.status}{error}"))

    def ask(self, ask: Ask, submit: Submit) -> None:
        """Ask on the terminal."""
        try:
            values = tuple(self._input(question, ask) for question in ask.questions)
            submit(Answer(Outcome.ANSWERED, values))
        except (EOFError, KeyboardInterrupt):
            submit(Answer(Outcome.DECLINED))

    def _input(self, question: Question, ask: Ask) -> str:
        if ask.detail:
            self._line(("faint", ask.detail))
        self._line(("blue", "? "), ("bold", f"{question.header}: {question.question}"))
        for number, option in enumerate(question.options, 1):
            said = f" — {option.description}" if option.description else ""
            self._line(("", f"  {number}. {option.label}"), ("faint", said))
        if question.multi:
            self._line(("faint", "  numbers with commas between, or your own words"))
        return _chosen(question, input("> ").strip())

    def answered(self, ask: Ask, answer: Answer) -> None:
        """The answer stands in the terminal already."""

    def late(self, ask: Ask, answer: Answer) -> None:
        """A terminal waits for each answer."""

    def needs_input(self) -> None:
        """A terminal asks at once."""

    def detach(self, *, stoppable: bool) -> None:
        """Nothing to change."""

    def finish(self, result: RunResult, advice: str = "") -> None:
        """Say how it ended."""
        usage = result.usage
        counts = f" · {usage.rounds} rounds · {usage.input:,} in · {usage.output:,} out · {usage.seconds:.1f} s"
        counts += f" · ${usage.cost:.4f}" if usage.cost else ""
        error = f": {result.error}" if result.error else ""
        colour = {Status.DONE: "green", Status.FAILED: "red"}.get(result.status, "yellow")
        word = result.status.replace("_", " ")
        self._line((colour, word), ("", error), ("faint", counts + (f" · {advice}" if advice else "")))

    def _line(self, *parts: tuple[str, str]) -> None:
        """Print a line of its own, of parts with their styles."""
        if not self._quiet:
            text = "".join(self._styled(style, visible(part)) for style, part in parts)
            self._write(("" if self._at_start else "\n") + text + "\n")

    def _styled(self, style: str, text: str) -> str:
        if not (style and text and self._coloured):
            return text
        from pygments.console import colorize  # type: ignore[import-untyped]

        return str(colorize(style, text))

    def _write(self, text: str) -> None:
        if text:
            print(text, end="", flush=True)
            self._at_start = text.endswith("\n")


def _has_colours() -> bool:
    from IPython import get_ipython

    wanted = str(getattr(get_ipython(), "colors", "")).lower() != "nocolor"
    return wanted and sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _chosen(question: Question, said: str) -> str:
    """The labels of the numbers that were typed; else the words as they are."""
    numbers = [part.strip() for part in said.split(",")] if question.multi else [said]
    if all(number.isdecimal() and 1 <= int(number) <= len(question.options) for number in numbers):
        return ", ".join(question.options[int(number) - 1].label for number in numbers)
    return said
