"""The agent loop, on one screen.

It starts with what the transcript holds, not with the model: a last word ends the run, open calls are run. So a first
run, a run after an answer and a run after a restart are one path.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from .background import Background
from .compaction import fitting
from .events import ApprovalAsked, Event, Finished, Paused, QuestionAsked, RoundEnded, RoundStarted, TodosChanged
from .messages import Reply, Status, StopReason
from .provider import Provider, Request
from .toolbox import Toolbox
from .transcript import Transcript

__all__ = ["Limits", "request_from", "run", "spent"]

_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run: round-trips, tokens read and written, USD; None is no bound."""

    turns: int = 30
    tokens: int | None = None
    cost: float | None = None
    effort: str | None = None


async def run(
    transcript: Transcript, provider: Provider, toolbox: Toolbox, limits: Limits, system: str
) -> AsyncGenerator[Event, None]:
    """Go on with a conversation until its run ends or waits for the person: the last event says which."""
    while True:
        last, closed = transcript.messages[-1], transcript.turns > limits.turns
        if isinstance(last, Reply) and (closed or last.stop is not StopReason.PAUSE):
            status, error = _ending(last, closing=closed)
            if status is not Status.DONE or not (news := await toolbox.background.more()):
                yield await _end(transcript, toolbox.background, status, error)
                return
            transcript.note(news)
        waiting = []
        async with aclosing(toolbox.run_open(transcript)) as events:
            async for event in events:
                if isinstance(event, (QuestionAsked, ApprovalAsked)):
                    waiting.append(event.ask)
                yield event
        waiting = [ask for ask in waiting if ask.call_id not in transcript.answers]
        if waiting:
            yield Paused(waiting)
            return
        if transcript.open_calls:  # an answer came while its siblings ran
            continue
        if failure := _over(transcript, toolbox, limits):
            yield await _end(transcript, toolbox.background, Status.FAILED, failure)
            return
        closing = transcript.turns >= limits.turns
        yield RoundStarted(transcript.turns + 1)
        if news := toolbox.background.news():
            transcript.note(news)
        todos = transcript.todos
        asked = partial(request_from, transcript, provider, toolbox, limits, system, closing=closing)
        async with aclosing(fitting(transcript, provider, asked)) as events:
            async for event in events:
                yield event
        if transcript.todos is not todos:
            yield TodosChanged(transcript.todos)
        yield RoundEnded(transcript.usage)


def request_from(
    transcript: Transcript,
    provider: Provider,
    toolbox: Toolbox,
    limits: Limits,
    system: str,
    *,
    closing: bool = False,
) -> Request:
    """The next request: all of it follows from the transcript and the tool set."""
    return Request(
        system=system,
        messages=transcript.messages,
        tools=toolbox.bound(transcript),
        deferred=toolbox.deferred,
        max_tokens=provider.facts.ceiling,
        effort=limits.effort,
        allow_calls=not closing,
    )


def _over(transcript: Transcript, toolbox: Toolbox, limits: Limits) -> str | None:
    """Why the run must end before the next request, if it must."""
    name, times = transcript.repeated()
    tool = toolbox.find(name)
    if times >= _REPEATS and not (tool and tool.polling):
        return f"repeated call: {name} was called {times} times in a row with the same arguments and result"
    return spent(transcript, limits)


def spent(transcript: Transcript, limits: Limits) -> str | None:
    """Which limit of tokens or cost the run has reached, its sub-agents included."""
    usage = transcript.usage
    if limits.tokens is not None and usage.input + usage.output >= limits.tokens:
        return f"token limit: {usage.input + usage.output:,} of {limits.tokens:,} tokens (--max-tokens) are used"
    if limits.cost is not None and usage.cost is not None and usage.cost >= limits.cost:
        return f"cost limit: {usage.cost:.4f} of {limits.cost:g} USD (--max-cost) are used"
    return None


async def _end(transcript: Transcript, background: Background, status: Status, error: str | None) -> Finished:
    """End the run, and before it what goes on beside it."""
    if cut := await background.close():
        error = "; ".join(filter(None, (error, f"cut with it: {cut}")))
    return Finished(transcript.end(status, error))


def _ending(reply: Reply, *, closing: bool) -> tuple[Status, str | None]:
    if closing:
        return Status.TURN_LIMIT, None
    if reply.stop is StopReason.REFUSAL:
        return Status.REFUSED, reply.detail or "the model declined to answer"
    if reply.stop in (StopReason.LENGTH, StopReason.CONTEXT):
        return Status.TRUNCATED, reply.detail or "the reply was cut before its end"
    if reply.stop is StopReason.UNKNOWN:
        return Status.FAILED, f"the model's server ended the reply with {reply.detail!r}, which is not known here"
    return Status.DONE, None
