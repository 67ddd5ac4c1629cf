"""A run as displays in its cell: one block a display, at most ten updates a second."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from ..agent import events as e
from ..agent.messages import Answer, Ask, Outcome, RunResult, Status
from ..agent.provider import Provider
from .labels import arguments_text, label, result_note, result_text
from .twins import html_twin, plain_twin

__all__ = ["MIME", "CellView", "Publisher", "Submit"]

MIME = "application/vnd.cumulus.agent+json"
_INTERVAL = 0.1
_LONGEST_PAUSE = 0.5
_SPLIT_FROM = 400
"""Characters from which an open text is split at a paragraph's end."""
_BYTES_PER_SECOND = 40_000
"""What an open block that can't be split may cost."""

_OUTCOMES = {
    Outcome.DECLINED: "declined",
    Outcome.TIMED_OUT: "no answer in time",
    Outcome.NO_USER: "nobody there",
}

Submit = Callable[[Answer], None]


class Publisher(Protocol):
    """How bundles reach the front end."""

    def publish(self, bundle: dict[str, Any], display_id: str, *, update: bool) -> None:
        """Show a bundle, or replace the one shown under that id."""
        ...

    def form(self, ask: Ask, submit: Submit) -> Form | None:
        """A live form for a question; None where widgets can't live."""
        ...


class Form(Protocol):
    """A live form."""

    @property
    def bundle(self) -> dict[str, Any]:
        """Its widget view, to be shown beside the static twin."""
        ...

    def close(self) -> None:
        """Take the form away."""
        ...


@dataclass(slots=True)
class _Block:
    id: str
    data: dict[str, Any]
    shown: bool = False
    form: Form | None = None
    started: float = field(default_factory=time.monotonic)

    @property
    def open(self) -> bool:
        return bool(self.data["state"] == "open")


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
        self._publisher, self._redact = publisher, redact
        self._common: dict[str, Any] = {"v": 1, "session": session, "run": run}
        self._watched, self._twins, self._quiet = watched, twins, quiet
        self._blocks: list[_Block] = []
        self._dirty: dict[str, _Block] = {}
        self._by_call: dict[str, _Block] = {}
        self._text: _Block | None = None
        self._round: list[_Block] = []
        self._head: _Block | None = None
        self._todos: _Block | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._free_at = self._first_at = 0.0
        self._done = False

    # Beginning and end -------------------------------------------------------------------------------------------

    def begin(self, provider: Provider, *, stoppable: bool = False) -> None:
        """Say who answers, and that it has begun."""
        self._head = self._new(
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
        self._touch(self._head)

    def finish(self, result: RunResult, advice: str = "") -> None:
        """Close what is open and say how the run ended."""
        self._close_text()
        for block in self._blocks:
            if block.open and block.data["kind"] == "tool":
                block.data |= {"state": "closed", "status": "stopped"}
                self._touch(block)
            elif block.open and block.form:
                self._settle_question(block, "closed", [])
        if self._head:
            self._head.data |= {"state": "closed", "status": str(result.status)}
            self._touch(self._head)
        foot = self._new(
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
        for block in [*self._round, foot]:
            if not block.shown:
                self._dirty[block.id] = block
        self.flush()

    def expanded(self, expression: str, value: str) -> None:
        """Show what an expression of the prompt became."""
        shown = value if len(value) <= 200 else f"{value[:200]}… ({len(value):,} characters)"
        self._notice(e.Notice(f"`{{{{{expression}}}}}` is\n\n```\n{shown.replace('```', '` ` `')}\n```"))

    @property
    def run(self) -> str:
        """The run's id in the bundles."""
        return str(self._common["run"])

    def detach(self, *, stoppable: bool) -> None:
        """The cell has ended, the run has not: it waits, or goes on in the background."""
        if self._head:
            self._head.data["stoppable"] = stoppable
            self._touch(self._head)
        self.flush()

    # Events ------------------------------------------------------------------------------------------------------

    def handle(self, event: e.Event) -> None:
        """Draw one event."""
        if type(event) is e.TextDelta:
            self._add_text(event.text)
        elif draw := self._DRAW.get(type(event)):
            draw(self, event)

    def _round_started(self, event: e.RoundStarted) -> None:
        self._close_text()
        self._round = []
        self._activity("thinking" if event.number == 1 else f"thinking · round {event.number}")

    def _thinking(self, _event: e.ThinkingDelta) -> None:
        if self._head and self._head.data["activity"] != "reasoning":
            self._activity("reasoning")

    def _round_ended(self, _event: e.RoundEnded) -> None:
        self._close_text()

    def _tool_started(self, event: e.ToolStarted) -> None:
        self._close_text()
        if event.call.name in ("update_todos", "AskUserQuestion"):  # drawn as what they are
            return
        verb, thing, how = label(event.call)
        block = self._new(
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
        self._touch(block)

    def _tool_progress(self, event: e.ToolProgress) -> None:
        if block := self._by_call.get(event.call_id):
            block.data["tail"] = event.text[-2_000:]
            self._touch(block)

    def _tool_finished(self, event: e.ToolFinished) -> None:
        result, block = event.result, self._by_call.get(event.call.id)
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
        block.data.pop("tail", None)
        if result.handle:
            block.data["window"] = {"shown": len(result.text), "total": result.size}
        self._touch(block)
        self._activity("thinking")

    def _todos_changed(self, event: e.TodosChanged) -> None:
        if self._todos is None:
            self._close_text()
            self._todos = self._new("todos", items=[])
        closed = all(item["status"] == "completed" for item in event.todos)
        self._todos.data |= {"items": event.todos, "state": "closed" if closed else "open"}
        self._touch(self._todos)

    def _retrying(self, event: e.Retrying) -> None:
        self._activity(f"{event.reason} — attempt {event.attempt} of {event.attempts} in {event.seconds:.0f} s")

    def _discarded(self, event: e.ReplyDiscarded) -> None:
        """Take back the last characters of this round's text; say so, quietly, where they stood."""
        left = event.characters
        for block in reversed(self._round):
            if left <= 0:
                break
            text = block.data["markdown"]
            block.data["markdown"] = text[: max(len(text) - left, 0)]
            left -= len(text)
            self._touch(block)
        self._text = None
        note = self._new("text", markdown=f"*taken back: {event.reason}*", tone="note")
        note.data["state"] = "closed"
        self._touch(note)

    def _notice(self, event: e.Notice) -> None:
        self._close_text()
        note = self._new("text", markdown=event.text, tone="note")
        note.data["state"] = "closed"
        self._touch(note)

    _DRAW: dict[type, Callable[..., None]] = {  # noqa: RUF012
        e.RoundStarted: _round_started,
        e.ThinkingDelta: _thinking,
        e.RoundEnded: _round_ended,
        e.ToolStarted: _tool_started,
        e.ToolProgress: _tool_progress,
        e.ToolFinished: _tool_finished,
        e.TodosChanged: _todos_changed,
        e.Retrying: _retrying,
        e.ReplyDiscarded: _discarded,
        e.Notice: _notice,
    }

    # Text --------------------------------------------------------------------------------------------------------

    def _add_text(self, text: str) -> None:
        block = self._text
        if block is None:
            if not text.strip():
                return
            block = self._open_text(text.lstrip("\n"))
            if len(self._round) == 1:
                self._show_first()
        else:
            block.data["markdown"] += text
        self._touch(block)

    def _open_text(self, text: str) -> _Block:
        block = self._text = self._new("text", markdown=text)
        self._round.append(block)
        return block

    def _show_first(self) -> None:
        """A reply's first piece waits for nothing; the pause is kept between the first pieces of very short rounds."""
        now = time.monotonic()
        if now >= self._first_at:
            self._first_at, self._free_at = now + _INTERVAL, now
            self._unschedule()

    def _split_text(self) -> None:
        """Close the open text up to its last paragraph end, so that updates carry what is open only."""
        block = self._text
        if block is None or len(block.data["markdown"]) < _SPLIT_FROM:
            return
        cut = last_paragraph_end(block.data["markdown"])
        if cut <= 0:
            return
        text = block.data["markdown"]
        block.data |= {"markdown": text[:cut].rstrip("\n"), "state": "closed"}
        self._text = None
        if rest := text[cut:].lstrip("\n"):
            block = self._open_text(rest)
            self._dirty[block.id] = block

    def _close_text(self) -> None:
        if self._text is not None:
            self._text.data["state"] = "closed"
            self._touch(self._text)
            self._text = None

    # Questions ---------------------------------------------------------------------------------------------------

    def ask(self, ask: Ask, submit: Submit) -> None:
        """Show a question, with a live form where one can live."""
        if ask.call_id in self._by_call:
            return
        block = self._question(ask)
        block.form = self._publisher.form(ask, submit) if self._watched else None
        self._status("waiting", "waiting for you")
        self._touch(block)
        self.flush()

    def answered(self, ask: Ask, answer: Answer) -> None:
        """Put the static answer in the form's place."""
        block = self._by_call.pop(ask.call_id, None) or self._question(ask)
        pairs = [
            {"header": question.header, "answer": value}
            for question, value in zip(ask.questions, answer.values, strict=False)
        ]
        if answer.outcome is not Outcome.ANSWERED:
            words = {
                Outcome.DECLINED: "declined",
                Outcome.TIMED_OUT: "no answer in time",
                Outcome.NO_USER: "nobody there",
            }
            pairs = [{"header": ask.questions[0].header, "answer": words[answer.outcome]}]
        if ask.approval and answer.values:
            pairs = [{"header": ask.name, "answer": answer.values[0]}]
        if answer.notes:
            pairs.append({"header": "Reason" if ask.approval else "Notes", "answer": answer.notes})
        self._settle_question(block, str(answer.outcome), pairs)
        self._status("running", "thinking")
        self.flush()

    def _question(self, ask: Ask) -> _Block:
        self._close_text()
        questions = [asdict(question) for question in ask.questions]
        block = self._new("question", questions=questions, outcome="open", answers=[], detail=ask.detail)
        self._by_call[ask.call_id] = block
        return block

    def _settle_question(self, block: _Block, outcome: str, answers: list[dict[str, str]]) -> None:
        form, block.form = block.form, None
        closed = answers or [{"header": q["header"], "answer": "closed"} for q in block.data["questions"]]
        block.data |= {"state": "closed", "outcome": outcome, "answers": closed}
        self._dirty[block.id] = block
        self._publish(block)
        self._dirty.pop(block.id, None)
        if form:
            form.close()

    # Publishing --------------------------------------------------------------------------------------------------

    def has(self, call_id: str) -> bool:
        """Whether a call's line is there."""
        return call_id in self._by_call

    def tail(self, call_id: str, text: str) -> tuple[str, dict[str, Any]] | None:
        """The display id and bundle of a running call's line with live output; safe from any thread."""
        block = self._by_call.get(call_id)
        if block is None or not block.shown or not block.open or self._quiet:
            return None
        return block.id, self._bundle(block, {**block.data, "tail": text})

    def flush(self) -> None:
        """Publish what has changed, in the order of the blocks."""
        self._unschedule()
        self._split_text()
        dirty = [block for block in self._blocks if block.id in self._dirty]
        self._dirty.clear()
        sent = sum(self._publish(block) for block in dirty)
        pause = min(_INTERVAL * max(sent, 1), _LONGEST_PAUSE)
        if self._text is not None:
            copies = 3 if self._twins() else 1
            pause = max(pause, copies * len(self._text.data["markdown"]) / _BYTES_PER_SECOND)
        self._free_at = time.monotonic() + pause

    def _touch(self, block: _Block) -> None:
        """Have a block published, now if nothing was for a while."""
        self._dirty[block.id] = block
        if self._timer is not None:
            return
        wait = self._free_at - time.monotonic()
        if wait <= 0:
            self.flush()
        else:
            self._timer = asyncio.get_running_loop().call_later(wait, self._late)

    def _unschedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        self.flush()

    def _publish(self, block: _Block) -> bool:
        if self._hidden(block) or (not self._watched and block.open):
            return False
        self._publisher.publish(self._bundle(block, block.data), block.id, update=block.shown)
        block.shown = True
        return True

    def _hidden(self, block: _Block) -> bool:
        if not self._quiet or block.form or block.data["kind"] == "question":
            return False
        return not (self._done and block in self._round)

    def _bundle(self, block: _Block, data: dict[str, Any]) -> dict[str, Any]:
        data = self._redact(data)
        bundle: dict[str, Any] = {MIME: data}
        if block.form:
            bundle |= block.form.bundle
        if not block.open or block.form or self._twins():
            bundle |= {"text/html": html_twin(data), "text/plain": plain_twin(data)}
        else:
            bundle["text/plain"] = ""
        return bundle

    def _new(self, kind: str, **data: Any) -> _Block:
        number = len(self._blocks) + 1
        id = f"{self._common['run']}-{number}"
        block = _Block(id, {**self._common, "block": id, "kind": kind, "state": "open", **data})
        self._blocks.append(block)
        return block

    def _activity(self, text: str) -> None:
        self._status("running", text)

    def _status(self, status: str, activity: str) -> None:
        if self._head and self._head.open:
            if self._head.data["status"] == status and self._head.data["activity"] == activity:
                return
            waiting = any(block.form for block in self._blocks)
            if waiting and status == "running":
                return
            self._head.data |= {"status": status, "activity": activity}
            self._touch(self._head)

    def needs_input(self) -> None:
        """The cell ends at an open question."""
        if self._head:
            self._head.data |= {"status": str(Status.NEEDS_INPUT), "activity": "waiting for you", "stoppable": True}
            self._touch(self._head)
        self.flush()


_FENCE = re.compile(r"^\s{0,3}(?:[-*+]\s+|\d+[.)]\s+)*(`{3,}|~{3,})(.*)$")


def last_paragraph_end(text: str) -> int:
    """Where the last blank line outside a code fence and outside an indented continuation begins; 0 for none."""
    fence, cut, position = "", 0, 0
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1]):
        match = _FENCE.match(line)
        if match and not fence:
            fence = match[1]
        elif match and match[1][0] == fence[0] and len(match[1]) >= len(fence) and not match[2].strip():
            fence = ""
        following = lines[number + 1]
        if not fence and not line.strip() and not following.startswith((" ", "\t")) and following.strip():
            cut = position
        position += len(line) + 1
    return cut
