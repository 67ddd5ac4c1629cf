"""The transcript: append-only lines, and the state that is folded from them as they come."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

from .checklist import checklist
from .errors import CumulusError, TranscriptError
from .history import shortened
from .messages import (
    Answer,
    Ask,
    Image,
    Message,
    Outcome,
    Reply,
    RunResult,
    RunUsage,
    Status,
    StopReason,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
)
from .policy import SESSION
from .spool import Spool

__all__ = ["VERSION", "Line", "Transcript"]

VERSION = 1
Line = dict[str, Any]


class Transcript:
    """A conversation as lines ``{v, seq, id, parent, t, type, …}``, and the state that they fold to.

    Nothing else holds state of a conversation: a first run, a run after an answer and a run after a kernel restart
    start from the same fields. Fields are read, never written, from outside; ``append`` and its named forms change
    them.

    Parameters
    ----------
    session
        The uuid of the conversation; a new one by default.
    sink
        Gets each new line, to store it.
    spool
        Where whole results are kept.
    """

    def __init__(
        self,
        session: str | None = None,
        *,
        sink: Callable[[Line], None] | None = None,
        spool: Spool | None = None,
    ) -> None:
        self.session = session or str(uuid.uuid4())
        self.spool = spool or Spool()
        self.lines: list[Line] = []
        self.messages: list[Message] = []
        self.calls: dict[str, ToolCall] = {}
        self.answers: dict[str, Answer] = {}
        self.approved: set[str] = set()
        self.fetched: dict[str, None] = {}
        self.todos: list[dict[str, str]] = []
        self.decisions: list[tuple[str, str]] = []
        self.late: list[str] = []
        self.agents: dict[str, dict[str, Any]] = {}
        self.ended: list[str] = []
        self.system = ""
        self.run = ""
        self.turns = 0
        self.repeats = 0
        self.usage = RunUsage()
        self.status = Status.DONE
        self._ids: set[str] = set()
        self._open: dict[str, ToolCall] = {}
        self._slots: dict[str, tuple[ToolResults, int]] = {}
        self._repeated = ""
        self._run_line = 0
        self.sink = sink

    @classmethod
    def load(cls, session: str, lines: Iterable[Line], **stores: Any) -> Transcript:
        """Fold stored lines; ``stores`` are ``sink`` and ``spool``."""
        transcript = cls(session, **stores)
        for line in lines:
            if line.get("v") != VERSION:
                raise TranscriptError(
                    f"this conversation was written by another version of cumulus_jupyter (format {line.get('v')}, "
                    f"this one reads {VERSION}); start a new one with %%agent --new"
                )
            transcript._fold(line)
        return transcript

    # Writing -----------------------------------------------------------------------------------------------------

    def append(self, type: str, **data: Any) -> Line:
        """Store a line and fold it. ``data`` holds JSON values only."""
        seq = len(self.lines) + 1
        line: Line = {
            "v": VERSION,
            "seq": seq,
            "id": f"{self.session[:8]}.{seq}",
            "parent": self.lines[-1]["id"] if self.lines else None,
            "t": round(time.time(), 3),
            "type": type,
            **data,
        }
        if self.sink:
            self.sink(line)
        self._fold(line)
        return line

    @contextlib.contextmanager
    def kept_anyway(self) -> Iterator[None]:
        """Lines that can't be stored now are kept in memory alone: a run must end also where the disk is full."""
        sink = self.sink

        def store(line: Line) -> None:
            if sink:
                with contextlib.suppress(CumulusError, OSError):
                    sink(line)

        self.sink = store
        try:
            yield
        finally:
            self.sink = sink

    def user(self, text: str, note: str = "", **data: Any) -> None:
        """A new prompt starts a new run."""
        note = "\n".join(part for part in (note, *self.ended) if part)
        self.append("user", run=uuid.uuid4().hex[:12], text=text, note=note, **data)

    def note(self, text: str) -> None:
        """A message of the harness or of the person within the run under way: its counts and todos go on."""
        self.append("user", run=self.run, text="", note="\n".join([text, *self.ended]).strip())

    def tell(self) -> None:
        """Tell the model of work that ended after the wait for it, if there is such."""
        if self.ended:
            self.note("")

    def assistant(self, reply: Reply, **data: Any) -> Reply:
        """Store a reply; gives it back with calls that have ids unique in the conversation."""
        seq = len(self.lines) + 1
        calls: list[dict[str, Any]] = []
        for number, call in enumerate(reply.calls):
            taken = not call.raw_id or call.raw_id in self._ids or any(call.raw_id == c["id"] for c in calls)
            calls.append(
                {
                    "id": f"call_{seq}_{number}" if taken else call.raw_id,
                    "raw_id": call.raw_id,
                    "name": call.name,
                    "arguments": call.arguments,
                    **({"raw": call.raw} if call.raw else {}),
                }
            )
        self.append(
            "assistant",
            model=reply.model,
            text=reply.text,
            calls=calls,
            stop=reply.stop,
            usage=asdict(reply.usage),
            native=reply.native,
            detail=reply.detail,
            **data,
        )
        return self.last_reply

    def result(self, result: ToolResult) -> None:
        """Store a call's result."""
        content = [
            {"image": part.media_type, "data": part.data} if isinstance(part, Image) else part
            for part in result.content
        ]
        self.append(
            "result",
            call=result.call_id,
            name=result.name,
            ok=result.ok,
            content=content,
            seconds=round(result.seconds, 4),
            details=result.details,
            **({"handle": result.handle, "size": result.size} if result.handle else {}),
        )

    def answer(self, ask: Ask, answer: Answer) -> None:
        """Settle an open question or approval; the first answer counts."""
        if ask.call_id in self._open and ask.call_id not in self.answers:
            self.append("approval" if ask.approval else "answer", call=ask.call_id, name=ask.name, **asdict(answer))

    def late_answer(self, ask: Ask, answer: Answer) -> None:
        """Keep an answer that came after its question had closed; it stands before the next prompt."""
        if answer.outcome is Outcome.ANSWERED and self.answers.get(ask.call_id) != answer:
            header = ask.questions[0].header
            self.append("answer", call=ask.call_id, name=ask.name, late=True, header=header, **asdict(answer))

    def lose_agents(self) -> list[str]:
        """Note of sub-agents that their kernel left behind that they failed; their names."""
        lost = [agent for agent in self.agents.values() if agent["status"] in ("submitted", "running")]
        for agent in lost:
            error = "the kernel ended while it was at work; what it did stands"
            self.append(
                "agent", agent=agent["agent"], name=agent["name"], status="failed", rounds=agent["rounds"], error=error
            )
        return [agent["name"] for agent in lost]

    def end(self, status: Status, error: str | None = None, **data: Any) -> RunResult:
        """Close the run and give its result."""
        seconds = time.time() - self.lines[self._run_line]["t"] if self.lines else 0.0
        self.append("run_end", status=status, error=error, seconds=round(seconds, 3), **data)
        return self.run_result()

    # Reading -----------------------------------------------------------------------------------------------------

    @property
    def open_calls(self) -> list[ToolCall]:
        """Calls without a result, in call order."""
        return list(self._open.values())

    @property
    def last_reply(self) -> Reply:
        """The newest reply of the model."""
        for message in reversed(self.messages):
            if isinstance(message, Reply):
                return message
        raise TranscriptError("this conversation has no reply yet")

    def repeated(self) -> tuple[str, int]:
        """The call that was last repeated with an identical result, and how often in a row."""
        return self._repeated.partition("\x00")[0], self.repeats

    def run_result(self) -> RunResult:
        """The last run's result, read from its lines."""
        lines = self.lines[self._run_line :]
        calls = {call["id"]: call for line in lines if line["type"] == "assistant" for call in line["calls"]}
        results = {line["call"]: line for line in reversed(lines) if line["type"] == "result"}
        end = lines[-1] if lines and lines[-1]["type"] == "run_end" else {}
        tools, questions = [], []
        for id, call in calls.items():
            if line := results.get(id):
                tools.append((call["name"], call["arguments"] or {}, line["ok"], line["seconds"]))
                questions += [tuple(pair) for pair in line["details"].get("answers", ())]
        replies = [line for line in lines if line["type"] == "assistant"]
        usage = RunUsage(**{**asdict(self.usage), "seconds": end.get("seconds", 0.0)})
        return RunResult(
            text=replies[-1]["text"] if replies else "",
            status=self.status,
            usage=usage,
            questions=questions,
            tool_calls=tools,
            error=end.get("error"),
        )

    # Folding -----------------------------------------------------------------------------------------------------

    def _fold(self, line: Line) -> None:
        self.lines.append(line)
        fold = getattr(self, f"_fold_{line['type']}", None)
        if fold:
            fold(line)

    def _fold_user(self, line: Line) -> None:
        self.messages.append(UserMessage(line["text"], line.get("note", "")))
        self.ended = []
        self.system = line.get("system", self.system)
        if line["run"] == self.run:
            return
        self.run, self.turns, self.repeats, self._repeated = line["run"], 0, 0, ""
        self.fetched.clear()
        self.late = []
        self.todos = []
        self.usage = RunUsage(cost=0.0)
        self.status = Status.RUNNING
        self._run_line = len(self.lines) - 1

    def _fold_assistant(self, line: Line) -> None:
        calls = [ToolCall(c["id"], c["name"], c["arguments"], c["raw_id"], c.get("raw", "")) for c in line["calls"]]
        usage = Usage(**line["usage"])
        self.messages.append(
            Reply(line["text"], calls, StopReason(line["stop"]), usage, line["model"], line["native"], line["detail"])
        )
        self.turns += 1
        self._spend(usage, line.get("cost"))
        if "<" in line["text"] and (todos := checklist(line["text"])) is not None:
            self.todos = todos
        if not calls:
            return
        group = ToolResults(calls, [None] * len(calls))
        self.messages.append(group)
        for slot, call in enumerate(calls):
            self._ids.update((call.id, call.raw_id))
            self.calls[call.id] = self._open[call.id] = call
            self._slots[call.id] = (group, slot)

    def _fold_result(self, line: Line) -> None:
        if "agent" in line:  # a sub-agent's, for the record
            self.calls[line["call"]] = ToolCall(line["call"], line["name"], line["arguments"])
            return
        call = self._open.pop(line["call"], None)
        if call is None:  # a result without a call, or a second one: the first stands
            return
        content = [Image(p["image"], p["data"]) if isinstance(p, dict) else p for p in line["content"]]
        group, slot = self._slots.pop(call.id)
        group.results[slot] = ToolResult(
            call.id,
            line["name"],
            content,
            line["ok"],
            line["seconds"],
            line["details"],
            line.get("handle", ""),
            line.get("size", 0),
        )
        if (todos := line["details"].get("todos")) is not None:
            self.todos = todos
        self.decisions += [(header, answer) for header, answer in line["details"].get("answers", ())]
        if not any(result is None for result in group.results):
            self._count_repeats(group)

    def _count_repeats(self, group: ToolResults) -> None:
        for call, result in zip(group.calls, group.results, strict=True):
            assert result is not None
            told = result.text
            for handle in filter(None, (result.handle, result.details.get("later"))):  # each result has its own
                told = told.replace(f'"{handle}"', "")
            key = f"{call.name}\x00{json.dumps(call.arguments, sort_keys=True)}\x00{told}"
            self.repeats = self.repeats + 1 if key == self._repeated else 1
            self._repeated = key

    def _fold_ended_late(self, line: Line) -> None:
        how = "ended" if line["ok"] else "failed"
        self.ended.append(
            f'[A {line["name"]} call that was waited for in vain has {how} now: read_result(handle="{line["handle"]}")]'
        )

    def _fold_answer(self, line: Line) -> None:
        if line.get("late"):
            self.late.append(f"{line['header']}: {', '.join(line['values'])}")
            return
        self.answers[line["call"]] = Answer(Outcome(line["outcome"]), tuple(line["values"]), line["notes"])

    def _fold_approval(self, line: Line) -> None:
        self._fold_answer(line)
        if line["values"] and line["values"][0] == SESSION:
            self.approved.add(line["name"])

    def _fold_fetched(self, line: Line) -> None:
        for name in line["names"]:
            self.fetched.pop(name, None)
            self.fetched[name] = None

    def _fold_agent(self, line: Line) -> None:
        """How a sub-agent stands; what it has used counts as used by the run."""
        self.agents[line["agent"]] = {"run": self.run, **self.agents.get(line["agent"], {}), **line}
        if used := line.get("used"):
            usage = Usage(used["input"], used["cached"], used["output"])
            self._spend(usage, used["cost"], rounds=used["rounds"])

    def _fold_compacted(self, line: Line) -> None:
        self.messages = shortened(
            self.messages,
            line["tail"],
            line["summary"],
            fetched=self.fetched,
            todos=self.todos,
            decisions=self.decisions,
        )
        self._spend(Usage(**line["usage"]), line["cost"], rounds=0)

    def _spend(self, usage: Usage, cost: float | None, rounds: int = 1) -> None:
        known = cost is not None and self.usage.cost is not None
        self.usage = RunUsage(
            self.usage.rounds + rounds,
            self.usage.input + usage.input,
            self.usage.cached + usage.cached,
            self.usage.output + usage.output,
            0.0,
            (self.usage.cost or 0.0) + (cost or 0.0) if known else None,
        )

    def _fold_run_end(self, line: Line) -> None:
        self.status = Status(line["status"])
