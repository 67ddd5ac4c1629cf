"""A run as displays in its cell: one block a display, at most ten updates a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ..agent import events as e
from ..agent.messages import Answer, Ask, Outcome, RunResult, Status
from ..agent.provider import Provider
from .agents_view import Agents
from .board import Block, Board, Publisher, Submit
from .labels import arguments_text, label, result_note, result_pictures, result_text
from .panels_view import Panels
from .texts import Texts, note

__all__ = ["CellView"]

_OUTCOMES = {
    Outcome.DECLINED: "declined",
    Outcome.TIMED_OUT: "no answer in time, so the question closed; tell it in the next %%agent cell",
    Outcome.NO_USER: "nobody there",
}


class CellView:
    """Draws a run's events.

    Parameters
    ----------
    publisher
        Where bundles go.
    session, run
        Identifiers that each bundle carries.
    watched
        Somebody looks on: blocks are shown while they are open. Otherwise each is shown once, when it is whole.
    twins
        Open blocks carry their text twins too, for front ends without our renderer.
    quiet
        Only the final answer is shown.
    redact
        Takes secrets out of a block before it is shown.
    """

    def __init__(
        self,
        publisher: Publisher,
        session: str,
        run: str,
        *,
        watched: bool,
        twins: Callable[[], bool] = lambda: False,
        quiet: bool = False,
        redact: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        self.run = run
        """The run's id in the bundles."""
        self._quiet = quiet
        self._board = Board(
            publisher,
            {"v": 1, "session": session, "run": run},
            watched=watched,
            twins=twins,
            redact=redact,
            hidden=self._hidden,
            prepare=lambda: self._texts.split(),
        )
        self._texts = Texts(self._board)
        self._panels = Panels(self._board)
        self._agents = Agents(self._board)
        self._by_call: dict[str, Block] = {}
        self._head: Block | None = None
        self._todos: Block | None = None
        self._done = False

    # Beginning and end -------------------------------------------------------------------------------------------

    def begin(self, provider: Provider, *, stoppable: bool = False) -> None:
        """Say who answers, and that it has begun."""
        self._head = self._board.new(
            "status",
            role="head",
            status="running",
            model=provider.name,
            host=provider.host,
            notice=provider.notice,
            message="",
            usage=None,
            started=int(time.time() * 1000),
            activity="thinking",
            stoppable=stoppable,
        )
        if not self._board.watched:  # shown once, and first
            self._head.data |= {"state": "closed", "activity": ""}
        self._board.touch(self._head)

    def finish(self, result: RunResult, advice: str = "") -> None:
        """Close what is open and say how the run ended."""
        self._texts.close()
        self._agents.finish()
        for block in self._board.blocks:
            if block.open and block.data["kind"] == "tool":
                block.data |= {"state": "closed", "status": "stopped"}
                self._board.touch(block)
            elif block.open and block.form:
                self._settle_question(block, "closed", [])
            elif block.open and block.data["kind"] == "todos":
                block.data["state"] = "closed"
                self._board.touch(block)
        if self._head and self._head.open:
            self._head.data |= {"state": "closed", "status": str(result.status)}
            self._board.touch(self._head)
        foot = self._board.new(
            "status",
            role="foot",
            status=str(result.status),
            model=self._head.data["model"] if self._head else "",
            host=self._head.data["host"] if self._head else "",
            message=result.error or "",
            usage=asdict(result.usage),
            next=advice,
            stoppable=False,
        )
        foot.data["state"] = "closed"
        self._done = True
        for block in [*self._texts.round, foot]:
            if not block.shown:
                self._board.touch(block)
        self._board.settle()

    def expanded(self, expression: str, value: str) -> None:
        """Show what an expression of the prompt became."""
        shown = value if len(value) <= 200 else f"{value[:200]}… ({len(value):,} characters)"
        self._notice(e.Notice(f"`{{{{{expression}}}}}` is\n\n```\n{shown.replace('```', '` ` `')}\n```"))

    def detach(self, *, stoppable: bool) -> None:
        """The cell has ended, the run has not: it waits, or goes on in the background."""
        if self._head:
            self._head.data["stoppable"] = stoppable
            self._board.touch(self._head)
        self._board.settle()

    # Events ------------------------------------------------------------------------------------------------------

    def handle(self, event: e.Event) -> None:
        """Draw one event."""
        if type(event) is e.TextDelta:
            self._texts.add(event.text)
        elif draw := self._DRAW.get(type(event)):
            draw(self, event)

    def _round_started(self, event: e.RoundStarted) -> None:
        self._texts.begin()
        self._activity("thinking" if event.number == 1 else f"thinking · round {event.number}")

    def _thinking(self, _event: e.ThinkingDelta) -> None:
        if self._head and self._head.data["activity"] != "reasoning":
            self._activity("reasoning")

    def _round_ended(self, _event: e.RoundEnded) -> None:
        self._texts.close()
        if self._agents.live:
            self._activity("waiting for its agents")

    def _tool_started(self, event: e.ToolStarted) -> None:
        self._texts.close()
        if event.call.name in ("update_todos", "AskUserQuestion", "present_ui"):  # drawn as what they are
            return
        self._line(event)

    def _line(self, event: e.ToolStarted | e.ToolFinished) -> Block:
        verb, thing, how = label(event.call)
        block = self._board.new(
            "tool",
            name=event.call.name,
            verb=verb,
            object=thing,
            object_kind=how,
            status="running",
            seconds=None,
            started=int(time.time() * 1000),
            aside="",
            arguments=arguments_text(event.call),
            result="",
        )
        self._by_call[event.call.id] = block
        self._activity(f"{verb} {thing}".strip()[:80])
        self._board.touch(block)
        return block

    def _tool_progress(self, event: e.ToolProgress) -> None:
        if block := self._by_call.get(event.call_id):
            block.data["tail"] = event.text[-2_000:]
            self._board.touch(block)

    def _tool_finished(self, event: e.ToolFinished) -> None:
        result, block = event.result, self._by_call.get(event.call.id)
        if block is None and not result.ok and event.call.name == "present_ui":
            block = self._line(event)
        if block is None:
            return
        verb, thing, how = label(event.call, result)
        stopped = result.text.startswith(("denied", "stopped"))
        status = "ok" if result.ok else result.text.partition(" ")[0].strip(":.,") if stopped else "error"
        block.data |= {
            "state": "closed",
            "status": status,
            "verb": verb,
            "object": thing,
            "object_kind": how,
            "seconds": round(result.seconds, 2),
            "note": result_note(result),
            "result": result_text(result),
        }
        if pictures := result_pictures(result):
            block.data["pictures"] = pictures
        block.data.pop("tail", None)
        if result.handle:
            block.data["window"] = {"shown": len(result.text), "total": result.size}
        self._board.touch(block)
        self._activity("thinking")

    def _todos_changed(self, event: e.TodosChanged) -> None:
        if self._todos is None:
            self._texts.close()
            self._todos = self._board.new("todos", items=[])
        closed = all(item["status"] == "completed" for item in event.todos)
        self._todos.data |= {"items": event.todos, "state": "closed" if closed else "open"}
        self._board.touch(self._todos)

    def _panel_shown(self, event: e.PanelShown) -> None:
        self._texts.close()
        self._panels.show(event.panel)

    def _retrying(self, event: e.Retrying) -> None:
        until = int((time.time() + event.seconds) * 1000)
        self._activity(f"{event.reason} — attempt {event.attempt} of {event.attempts}", until)

    def _discarded(self, event: e.ReplyDiscarded) -> None:
        """Take back the last characters of this round's text; say so, quietly, where they stood."""
        self._texts.take_back(event.characters)
        note(self._board, f"*taken back: {event.reason}*")

    def _compacting(self, event: e.Compacting) -> None:
        self._texts.close()
        self._activity(f"summarising earlier turns: {event.tokens:,} of {event.window:,} tokens are used")

    def _compacted(self, event: e.Compacted) -> None:
        self._notice(e.Notice(f"*earlier turns were summarised: {event.before:,} → {event.after:,} tokens*"))

    def _notice(self, event: e.Notice) -> None:
        self._texts.close()
        note(self._board, event.text)

    _DRAW: dict[type, Callable[..., None]] = {  # noqa: RUF012
        e.RoundStarted: _round_started,
        e.ThinkingDelta: _thinking,
        e.RoundEnded: _round_ended,
        e.ToolStarted: _tool_started,
        e.ToolProgress: _tool_progress,
        e.ToolFinished: _tool_finished,
        e.TodosChanged: _todos_changed,
        e.PanelShown: _panel_shown,
        e.Nested: lambda view, event: view._agents.show(event),
        e.Retrying: _retrying,
        e.ReplyDiscarded: _discarded,
        e.Compacting: _compacting,
        e.Compacted: _compacted,
        e.Notice: _notice,
    }

    # Questions ---------------------------------------------------------------------------------------------------

    def ask(self, ask: Ask, submit: Submit) -> None:
        """Show a question, with a live form where one can live."""
        if ask.call_id in self._by_call:
            return
        block = self._question(ask)
        block.form = self._board.form(ask, submit)
        until = int((time.time() + ask.timeout_seconds) * 1000) if ask.timeout_seconds else None
        self._status("waiting", "waiting for you", until)
        self._board.touch(block)
        self._board.settle()

    def answered(self, ask: Ask, answer: Answer) -> None:
        """Put the static answer in the form's place."""
        block = self._by_call.pop(ask.call_id, None) or self._question(ask)
        pairs = [
            {"header": question.header, "answer": value}
            for question, value in zip(ask.questions, answer.values, strict=False)
        ]
        if answer.outcome is not Outcome.ANSWERED:
            pairs = [{"header": ask.questions[0].header, "answer": _OUTCOMES[answer.outcome]}]
        if answer.outcome is Outcome.TIMED_OUT and block.form:
            pairs += [{"header": f"{header} (not sent)", "answer": text} for header, text in block.form.draft]
            self._leave_open(ask, block, pairs)
            return
        if ask.approval and answer.values:
            pairs = [{"header": ask.name, "answer": answer.values[0]}]
        if answer.notes:
            pairs.append({"header": "Reason" if ask.approval else "Notes", "answer": answer.notes})
        self._settle_question(block, str(answer.outcome), pairs)
        self._status("running", "thinking")
        self.flush()

    def _leave_open(self, ask: Ask, block: Block, pairs: list[dict[str, str]]) -> None:
        """The run goes on without an answer; the form stays for a late one."""
        assert block.form
        self._by_call[ask.call_id] = block
        block.data |= {"state": "closed", "outcome": "timed_out", "answers": pairs}
        block.form.expire()
        self._board.publish(block)
        self._status("running", "thinking")
        self.flush()

    def late(self, ask: Ask, answer: Answer) -> None:
        """Say in the form's place that the answer is kept for the next prompt."""
        block = self._by_call.pop(ask.call_id, None)
        if block is None or block.form is None:
            return
        pairs = [{"header": ask.questions[0].header, "answer": "no answer in time"}]
        for question, value in zip(ask.questions, answer.values, strict=False):
            pairs.append({"header": f"{question.header} (kept for your next prompt)", "answer": value})
        self._settle_question(block, str(Outcome.TIMED_OUT), pairs)
        self.flush()

    def _question(self, ask: Ask) -> Block:
        self._texts.close()
        questions = [asdict(question) for question in ask.questions]
        block = self._board.new("question", questions=questions, outcome="open", answers=[], detail=ask.detail)
        self._by_call[ask.call_id] = block
        return block

    def _settle_question(self, block: Block, outcome: str, answers: list[dict[str, str]]) -> None:
        form, block.form = block.form, None
        closed = answers or [{"header": q["header"], "answer": "closed"} for q in block.data["questions"]]
        block.data |= {"state": "closed", "outcome": outcome, "answers": closed}
        self._board.publish(block)
        if form:
            form.close()

    # Publishing --------------------------------------------------------------------------------------------------

    def has(self, call_id: str) -> bool:
        """Whether a call's line is there."""
        return call_id in self._by_call or call_id in self._agents.calls

    def tail(self, call_id: str, text: str) -> tuple[str, dict[str, Any]] | None:
        """The display id and bundle of a running call's line with live output; safe from any thread."""
        block = self._by_call.get(call_id)
        if block is None or not block.shown or not block.open or self._quiet:
            return None
        return block.id, self._board.bundle(block, {**block.data, "tail": text}, rich=self._board.twins())

    def flush(self) -> None:
        """Publish what has changed."""
        self._board.flush()

    def _hidden(self, block: Block) -> bool:
        if not self._quiet or block.form or block.data["kind"] in ("question", "panel"):
            return False
        return not (self._done and block in self._texts.round)

    def _activity(self, text: str, until: int | None = None) -> None:
        self._status("running", text, until)

    def _status(self, status: str, activity: str, until: int | None = None) -> None:
        if self._head and self._head.open:
            if self._head.data["status"] == status and self._head.data["activity"] == activity:
                return
            waiting = any(block.form and block.open for block in self._board.blocks)
            if waiting and status == "running":
                return
            self._head.data |= {"status": status, "activity": activity, "until": until}
            self._board.touch(self._head)

    def needs_input(self) -> None:
        """The cell ends at an open question."""
        if self._head:
            self._head.data |= {"status": str(Status.NEEDS_INPUT), "activity": "waiting for you", "stoppable": True}
            self._board.touch(self._head)
        self._board.settle()
