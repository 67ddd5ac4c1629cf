"""Chat Completions: OpenAI's wire, and that of the many servers that speak it in their own way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from ..agent.errors import ProviderError
from ..agent.messages import Reply
from ..agent.provider import ModelFacts, Request
from ..agent.tool import Tool
from .accumulate import ChatReply
from .chat_messages import ChatMessages, Habits, encode_tool
from .encoding import ToolCache, encode, images_in
from .failures import Target
from .names import faulty_tool, wire_name
from .streaming import Folding, WireProvider
from .transport import Transport

__all__ = ["OpenAIProvider"]

_ACCOUNT = ("openai-organization", "openai-project")
"""Headers for OpenAI's own eyes."""
_UNKNOWN = re.compile(
    r"un(?:supported|recognized|known|expected)|not (?:supported|permitted|allowed)"
    r"|extra (?:inputs|fields)|does not support",
    re.IGNORECASE,
)


class OpenAIProvider(WireProvider):
    """A model behind a Chat Completions API.

    Parameters
    ----------
    target
        Server and model; ``url`` is the API's base, ``https://api.openai.com/v1`` say.
    """

    def __init__(self, target: Target, facts: ModelFacts) -> None:
        official = urlsplit(target.url).hostname == "api.openai.com"
        omitted = () if official else _ACCOUNT if target.key else (*_ACCOUNT, "authorization")
        super().__init__(target, facts, Transport(target, "openai", self._client, "/chat/completions", omitted))
        limit = "max_completion_tokens" if official else "max_tokens"
        self._messages = ChatMessages(self.name, Habits(limit, images=facts.images))
        self._tools = ToolCache(encode_tool, self._left_out)
        self._known: tuple[tuple[Tool, ...], dict[str, Tool]] = ((), {})
        self._learned: set[str] = set()
        self._streamed = True

    def body(self, request: Request) -> bytes:
        """The exact bytes that ``stream`` would send."""
        habits = self._messages.habits
        messages = self._messages(request.system, request.messages)
        tail: dict[str, Any] = {habits.max_tokens: self._budget(request), "stream": self._streamed}
        if habits.usage and self._streamed:
            tail["stream_options"] = {"include_usage": True}
        tools = self._tools(request.tools)
        if tools and not habits.reasons:
            tail["reasoning_effort"] = "none"
        elif request.effort and self.facts.thinking and habits.effort:
            tail["reasoning_effort"] = request.effort
        if tools and not request.allow_calls and habits.choice:
            tail["tool_choice"] = "none"
        parts = [b'{"model":', encode(self._target.model)]
        if tools:
            parts += [b',"tools":[', tools, b"]"]
        parts += [b',"messages":[', messages, b"],", encode(tail)[1:]]
        return b"".join(parts)

    def _client(self, sdk: Any, common: dict[str, Any]) -> Any:
        key = self._target.key or "none"
        # Said outright, the key goes before one that OPENAI_CUSTOM_HEADERS may hold.
        headers = {"Authorization": f"Bearer {key}"}
        return sdk.AsyncOpenAI(api_key=key, base_url=self._target.url, default_headers=headers, **common)

    def _folding(self, request: Request) -> Folding:
        tools = (*request.tools, *request.deferred)
        if tools != self._known[0]:
            self._known = (tools, _by_name(tools))
        return ChatReply(self._known[1])

    def _adapt(self, text: str, request: Request) -> bool:
        """Change the habit that a refusal complains about, each at most once; leave out a tool that it names."""
        if faulty := faulty_tool(text, [tool for tool in request.tools if self._tools.each(tool)]):
            self._tools.leave_out(faulty, text)
            return True
        for name, applies in self._complaints(text, request):
            if applies and name not in self._learned:
                self._learned.add(name)
                self._learn(name, text)
                return True
        return False

    def _complaints(self, text: str, request: Request) -> Iterable[tuple[str, bool]]:
        """What a refusal may be about, most telling first, and whether it is."""
        habits, text = self._messages.habits, text.lower()
        unknown = _UNKNOWN.search(text) is not None
        reasoning = re.search(r"\breasoning(?:_content)?\b", text) is not None and habits.reasoning != "never"
        yield "max_tokens", unknown and re.search(rf"\b{habits.max_tokens}\b", text) is not None
        yield "usage", "stream_options" in text
        yield "reasons", bool(request.tools) and "tools with reasoning_effort" in text
        yield "effort", request.effort is not None and "reasoning_effort" in text
        yield "choice", not request.allow_calls and "tool_choice" in text
        yield "never", reasoning and unknown
        yield "always", reasoning and habits.reasoning == "received"
        yield "filled", reasoning and habits.reasoning == "always"
        yield "images", "image" in text and bool(images_in(request.messages))
        yield "null", "content" in text and any(type(m) is Reply and not m.text for m in request.messages)

    def _learn(self, name: str, text: str) -> None:
        habits = self._messages.habits
        if name == "max_tokens":
            other = "max_tokens" if habits.max_tokens == "max_completion_tokens" else "max_completion_tokens"
            habits.max_tokens = other
        elif name in ("always", "filled", "never"):
            habits.reasoning = name
            habits.field = "reasoning_content" if "reasoning_content" in text else "reasoning"
        else:
            setattr(habits, name, False)
        if name == "reasons":
            self._news.append(f"{self.name} calls tools here only without reasoning, so it works without.")

    def _check(self, fold: Folding, done: bool, request: Request) -> None:
        # A server that loses calls in its stream often has them whole in a reply that it does not stream.
        self._streamed = True
        try:
            super()._check(fold, done, request)
        except ProviderError:
            self._streamed = not (isinstance(fold, ChatReply) and fold.hollow)
            raise


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Tools by every name that they answer to."""
    known = {alias: tool for tool in tools for alias in tool.aliases}
    known.update({wire_name(tool.name): tool for tool in tools})
    known.update({tool.name: tool for tool in tools})
    return known
