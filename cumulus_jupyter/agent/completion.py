"""One whole reply, however often the model is cut: budgets, continuations, and calls that are never run half."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from .errors import ProviderError
from .events import Event, ReplyDiscarded, TextDelta
from .messages import Message, Reply, StopReason, ToolCall, Usage, UserMessage
from .provider import Provider, Request
from .retrying import stream
from .seam import Seam
from .transcript import Transcript

__all__ = ["EXTRA_REQUESTS", "RUNGS", "TODO_BUDGET", "TOTAL", "complete"]

RUNGS = (16_384, 32_768, 65_536)
TODO_BUDGET = 4_096
"""First budget of a reply, beyond its thinking, while a checklist has open steps: then replies are small."""
TOTAL = 65_536
"""Output tokens that one reply may take, its continuations and discarded attempts included."""
EXTRA_REQUESTS = 3
_SMALLEST = 1_024

_CONTINUE = (
    "Your reply was cut by the output limit. Go on exactly where it stopped, without repeating or announcing "
    "anything. It ended with:\n{tail}"
)
_SMALLER = (
    "Your last tool call was cut by the output limit and was not run. Send it again in smaller parts, for example a "
    "file in several edits."
)


@dataclass(slots=True)
class _Draft:
    """What is there of a reply so far."""

    text: str = ""
    usage: Usage = field(default_factory=Usage)
    extra: list[Message] = field(default_factory=list)
    """Messages behind the conversation that only this reply's further requests carry."""
    rungs: tuple[int, ...] = RUNGS
    rung: int = 0
    requests: int = 0


async def complete(
    transcript: Transcript, provider: Provider, request: Request, *, can_shorten: bool = False
) -> AsyncGenerator[Event, None]:
    """Get one whole reply and store it; a stopped one is stored with the text that there is.

    With ``can_shorten`` a reply that filled the model's window is taken back and raised as an overflow.
    """
    draft = _Draft()
    if any(todo["status"] != "completed" for todo in transcript.todos):
        draft.rungs = (TODO_BUDGET + provider.facts.thinking_budget(request.effort), *RUNGS)
    seam = Seam("")
    ceiling = request.max_tokens
    try:
        while True:
            budget = min(draft.rungs[draft.rung], ceiling, TOTAL - draft.usage.output)
            asked = replace(request, messages=[*request.messages, *draft.extra], max_tokens=budget)
            seam = Seam(draft.text)
            reply = None
            async with aclosing(
                stream(provider, asked if draft.extra else replace(request, max_tokens=budget))
            ) as items:
                async for item in items:
                    if type(item) is TextDelta:
                        if piece := seam.feed(item.text):
                            yield item if piece is item.text else TextDelta(piece)
                    elif isinstance(item, Reply):
                        reply = item
                    elif isinstance(item, ReplyDiscarded):
                        if shown := seam.reset():
                            yield replace(item, characters=shown)
                    else:
                        yield item
            assert reply is not None
            # A refusal during the request may have taught the provider a lower limit.
            ceiling = min(ceiling, provider.facts.ceiling)
            budget = min(budget, ceiling)
            if rest := seam.finish():
                yield TextDelta(rest)
            draft.usage += reply.usage
            draft.requests += 1
            if can_shorten and reply.stop is StopReason.CONTEXT:
                yield ReplyDiscarded("the conversation filled the model's window", seam.shown)
                raise ProviderError("The conversation filled the model's window.", overflow=True)
            retry = _judge(draft, reply, seam, budget, ceiling)
            if retry is None:
                break
            if retry:
                yield ReplyDiscarded(retry, seam.reset())
    except ProviderError as error:  # a continuation failed: what was said before it stays said, or is taken back
        if draft.text and error.overflow:
            yield ReplyDiscarded(str(error), len(draft.text))
        elif draft.text:
            said = Reply(draft.text, stop=StopReason.LENGTH, model=provider.name, detail=f"cut: {error}")
            _store(transcript, provider, request, said, draft)
        raise
    except (asyncio.CancelledError, GeneratorExit):
        if text := draft.text + seam.text:
            _store(transcript, provider, request, Reply(text, model=provider.name, detail="stopped"), draft)
        raise
    _store(transcript, provider, request, reply, draft)


def _judge(draft: _Draft, reply: Reply, seam: Seam, budget: int, ceiling: int) -> str | None:
    """Take a reply into the draft.

    None: the reply is whole, or as whole as it gets, and ``reply`` holds all of it. Otherwise another request follows:
    an empty text continues the reply, any other is why this attempt was discarded.
    """
    full = reply.stop is StopReason.CONTEXT
    spent = full or draft.requests > EXTRA_REQUESTS or TOTAL - draft.usage.output < _SMALLEST
    if _cut_call(reply, budget):
        if spent:
            reply.calls, reply.stop = [], StopReason.LENGTH
            by = "model's window" if full else "output limit each time"
            reply.detail = f"a tool call was cut by the {by} and was not run; ask for smaller steps"
            draft.text += seam.text
            _merge(reply, draft)
            return None
        if not _climb(draft, budget, ceiling):
            draft.extra.append(UserMessage(_SMALLER))
        return "the reply's tool call was cut by the output limit; asking again with more room"
    new, before = seam.text, draft.text
    draft.text += new
    if reply.stop is not StopReason.LENGTH:
        _merge(reply, draft)
        return None
    if not draft.text:
        if spent or draft.requests > 1 or not _climb(draft, budget, ceiling):
            reply.detail = (
                "the whole output budget went to thinking; ask for less effort (--effort low) or a smaller step"
            )
            return None
        return "the output budget went to thinking; asking again with more room"
    # A server that says "length" of a whole answer repeats it, or has nothing to add.
    if before and not new.strip():
        reply.stop = StopReason.END
        _merge(reply, draft)
        return None
    lone = reply.usage.output and reply.usage.output * 2 < budget
    if spent or (lone and before):
        reply.stop = StopReason.END if lone else StopReason.LENGTH
        reply.detail = "" if lone else "the answer is longer than the output limits allow; ask for the rest"
        _merge(reply, draft)
        return None
    _climb(draft, budget, ceiling)
    draft.extra = [Reply(draft.text, model=reply.model), UserMessage(_CONTINUE.format(tail=draft.text[-200:]))]
    return ""


def _climb(draft: _Draft, budget: int, ceiling: int) -> bool:
    """Go to a rung that gives a larger budget than the last one; False where there is none."""
    for rung in range(draft.rung + 1, len(draft.rungs)):
        if min(draft.rungs[rung], ceiling, TOTAL - draft.usage.output) > budget:
            draft.rung = rung
            return True
    return False


def _merge(reply: Reply, draft: _Draft) -> None:
    if draft.requests > 1 and reply.text != draft.text:
        # Pieces were joined: what the adapter kept of the last piece is not the whole reply.
        reply.text, reply.native = draft.text, None


def _store(transcript: Transcript, provider: Provider, request: Request, reply: Reply, draft: _Draft) -> None:
    if not request.allow_calls and reply.calls:  # some servers let a model call what it may not
        reply.calls, reply.native = [], None
    if draft.extra:
        reply.native = None  # its thinking followed messages that no later request carries
    usage = draft.usage if draft.usage != Usage() else reply.usage
    cost = provider.facts.cost(usage.input, usage.cached, usage.output)
    asked = {
        "tools": [tool.name for tool in request.tools],
        "max_tokens": request.max_tokens,
    }
    transcript.assistant(replace(reply, usage=usage), cost=cost, requests=draft.requests, asked=asked)


def _cut_call(reply: Reply, budget: int) -> bool:
    """Whether a call of this reply is not whole, said by the server or hidden by it."""
    if not reply.calls:
        return False
    if reply.stop is StopReason.LENGTH or any(_unfinished(call) for call in reply.calls):
        return True
    return 0 < budget <= reply.usage.output


def _unfinished(call: ToolCall) -> bool:
    """Whether the arguments stop short of complete JSON."""
    if call.arguments is not None:
        return False
    raw = call.raw.strip()
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        # Cut text fails at its end; an unfinished literal or escape up to six characters before it.
        return error.msg.startswith("Unterminated") or error.pos >= len(raw) - 6
    return False
