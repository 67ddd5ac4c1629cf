"""Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..agent.provider import THINKING_BUDGETS, ModelFacts, Request
from ..agent.tool import Tool
from .anthropic_messages import AnthropicMessages, encode_deferred, encode_tool, marked
from .blocks import BlockReply
from .encoding import ToolCache, encode, images_in
from .failures import Target
from .names import faulty_tool
from .streaming import Folding, WireProvider
from .transport import Transport

__all__ = ["AnthropicProvider"]

_LEAST_BUDGET = 1_024


class AnthropicProvider(WireProvider):
    """A Claude model, or another behind the same API.

    Deferred tools go along as such: their definitions stay out of the context until a search refers to them, and the
    request's ``tools`` and ``system`` stay the same bytes for the whole conversation. A server that refuses that gets
    fetched tools behind the eager ones.

    Parameters
    ----------
    target
        Server and model; ``url`` is the API's root, ``https://api.anthropic.com`` say.
    effort
        How the model takes ``effort``: ``adaptive`` (a word) or ``budget`` (tokens of thinking).
    """

    _models_path = "/v1/models"

    def __init__(self, target: Target, facts: ModelFacts, *, effort: str = "adaptive") -> None:
        super().__init__(target, facts, Transport(target, "anthropic", self._client, "/v1/messages"))
        self._effort = effort
        self._messages = AnthropicMessages(self.name, images=facts.images, left_out=self._left_out)
        self._eager = ToolCache(encode_tool, self._left_out)
        self._deferred = ToolCache(encode_deferred, self._left_out)
        self._sent: tuple[tuple[tuple[Tool, ...], tuple[Tool, ...]], bytes] = (((), ()), b"")
        self._system = ("", b"")
        self._choice = True
        self._learned: set[str] = set()

    def body(self, request: Request) -> bytes:
        """The exact bytes that ``stream`` would send."""
        tools = self._tools(request)  # first: messages refer only to tools that are sent
        messages = self._messages(request.messages)
        tail: dict[str, Any] = {"max_tokens": self._budget(request), "stream": True}
        if tools and not request.allow_calls and self._choice:
            tail["tool_choice"] = {"type": "none"}
        if request.effort and self.facts.thinking and self._effort:
            tail.update(_thinking(self._effort, request.effort, tail["max_tokens"]))
        parts = [b'{"model":', encode(self._target.model)]
        if tools:
            parts += [b',"tools":[', tools, b"]"]
        if request.system:
            parts += [b',"system":[', self._encoded_system(request.system), b"]"]
        parts += [b',"messages":[', messages, b"],", encode(tail)[1:]]
        return b"".join(parts)

    def _client(self, sdk: Any, common: dict[str, Any]) -> Any:
        return sdk.AsyncAnthropic(api_key=self._target.key or "none", base_url=self._target.url, **common)

    def _folding(self, request: Request) -> Folding:
        return BlockReply()

    def _tools(self, request: Request) -> bytes:
        key = (tuple(request.tools), tuple(request.deferred) if self._messages.native else ())
        if key != self._sent[0]:
            self._sent = (key, self._joined(*key))
        return self._sent[1]

    def _joined(self, bound: Sequence[Tool], deferred: Sequence[Tool]) -> bytes:
        """Bound tools, and behind them the deferred ones as such; a fetched tool is one of these."""
        eager = [tool for tool in bound if tool not in deferred]
        parts = [piece for tool in eager if (piece := self._eager.each(tool))]
        if parts and self._messages.cached:
            parts[-1] = marked(parts[-1])
        return b",".join([*parts, *filter(None, map(self._deferred.each, deferred))])

    def _present(self) -> list[Tool]:
        """The tools of the last request, in its order."""
        bound, deferred = self._sent[0]
        eager = [tool for tool in bound if tool not in deferred and self._eager.each(tool)]
        return [*eager, *(tool for tool in deferred if self._deferred.each(tool))]

    def _encoded_system(self, system: str) -> bytes:
        if self._system[0] != system:
            block = encode({"type": "text", "text": system})
            self._system = (system, marked(block) if self._messages.cached else block)
        return self._system[1]

    def _adapt(self, text: str, request: Request) -> bool:
        """Change what a refusal complains about; each but old thinking at most once."""
        if faulty := faulty_tool(text, self._present()):
            self._eager.leave_out(faulty, text)
            self._deferred.leave_out(faulty, text)
            self._sent = (((), ()), b"")
            return True
        for name, applies in self._complaints(text.lower(), request):
            if not applies or name in self._learned:
                continue
            if name == "thinking":
                if not self._messages.drop_thinking(request.messages):
                    continue
            else:
                self._learned.add(name)
                self._learn(name)
            return True
        return False

    def _complaints(self, text: str, request: Request) -> Iterable[tuple[str, bool]]:
        """What a refusal may be about, most telling first, and whether it is."""
        bound = re.search(
            r"signature|bound to|prefix|cannot be modified|must remain|different (?:model|conversation)", text
        )
        yield "native", self._messages.native and re.search(r"defer_loading|tool[ _]reference", text) is not None
        yield "cached", "cache_control" in text
        yield "thinking", "thinking" in text and bound is not None
        yield "effort", request.effort is not None and re.search(r"thinking|effort|output_config", text) is not None
        yield "choice", not request.allow_calls and "tool_choice" in text
        yield "images", "image" in text and bool(images_in(request.messages))

    def _learn(self, name: str) -> None:
        if name == "effort":
            self._effort = ""
        elif name == "choice":
            self._choice = False
        else:
            setattr(self._messages, name, False)
            self._sent, self._system = (((), ()), b""), ("", b"")
        if name == "images":
            self.facts = replace(self.facts, images=False)


def _thinking(style: str, effort: str, max_tokens: int) -> dict[str, Any]:
    """The parameters for an effort; a budget leaves room for an answer."""
    if style == "adaptive":
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": effort}}
    budget = min(THINKING_BUDGETS.get(effort, THINKING_BUDGETS["medium"]), max_tokens // 2)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _LEAST_BUDGET else {}
