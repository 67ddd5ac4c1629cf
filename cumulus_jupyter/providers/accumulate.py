"""A Chat Completions reply, folded from the chunks of its stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..agent.events import TextDelta, ThinkingDelta
from ..agent.messages import Reply, StopReason, ToolCall, Usage
from ..agent.tool import Tool
from .calls import CallFold, RawCall, to_calls
from .encoding import dumps
from .leaks import LeakFilter, scan
from .sse import StreamFault, mended
from .think import ThinkFilter

__all__ = ["ChatReply"]

Delta = TextDelta | ThinkingDelta

_STOPS = {
    "stop": StopReason.END,
    "eos": StopReason.END,
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_calls": StopReason.TOOL_CALLS,
    "tool_use": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "max_output_tokens": StopReason.LENGTH,
    "content_filter": StopReason.REFUSAL,
    "sensitive": StopReason.REFUSAL,
    "refusal": StopReason.REFUSAL,
    "model_length": StopReason.CONTEXT,
    "model_context_window_exceeded": StopReason.CONTEXT,
}
_BROKEN_OFF = {"error", "abort", "network_error", "insufficient_system_resource"}
"""Words that end a reply which the server did not finish."""


class ChatReply:
    """Folds chunks; :meth:`end` gives the reply.

    Parameters
    ----------
    known
        The tools that the model may call, by every name that they answer to.
    """

    __slots__ = (
        "_calls",
        "_content",
        "_high",
        "_inline",
        "_known",
        "_late",
        "_leaks",
        "_raw",
        "_refusal",
        "_rest",
        "_tags",
        "_thinking",
        "_usage",
        "blank",
        "field",
        "finish",
        "hollow",
    )

    def __init__(self, known: Mapping[str, Tool]) -> None:
        self._known = known
        self._calls = CallFold(known)
        self._leaks = LeakFilter(known)
        self._content: list[str] = []
        self._thinking: list[str] = []
        self._tags = ThinkFilter()
        self._inline: list[str] = []
        self._refusal: list[str] = []
        self._usage: dict[str, Any] = {}
        self._high = ""
        self._raw: list[RawCall] = []
        self._rest = ""
        self._late = ""
        self.field = ""
        """The name under which this server sends reasoning."""
        self.finish = ""
        self.hollow = False
        """``tool_calls`` came, but empty."""
        self.blank = False
        """``content`` came, but empty."""

    def take(self, chunk: dict[str, Any]) -> Sequence[Delta]:
        """Take a chunk; gives what of it is to be shown."""
        choices = chunk.get("choices")
        if not choices or chunk.get("error"):
            choices = self._unusual(chunk)
            if not choices:
                return ()
        choice = choices[0]
        if choice.get("index"):  # only the first answer counts
            choice = next((c for c in choices if not c.get("index")), {})
        if usage := chunk.get("usage"):
            self._usage = usage
        if (finish := choice.get("finish_reason")) and not self.finish:
            self._finish(finish)
        delta = choice.get("delta") or choice.get("message")
        if not delta:
            return ()
        shown: Sequence[Delta] = ()
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if thought and isinstance(thought, str):
            self.field = "reasoning_content" if delta.get("reasoning_content") else "reasoning"
            if not thought.isascii():
                thought, _ = mended(thought)
            self._thinking.append(thought)
            shown = (ThinkingDelta(thought),)
        text = delta.get("content")
        if text:
            shown = self._text(text, shown)
        elif text is not None:
            self.blank = True
        if calls := delta.get("tool_calls"):
            self._calls.take(calls)
        elif calls is not None:
            self.hollow = True
        if refusal := delta.get("refusal"):
            self._refusal.append(refusal)
        return shown

    @property
    def closed(self) -> bool:
        """A usage chunk may follow the last word, so only the end of the stream is the end."""
        return False

    @property
    def finished(self) -> bool:
        """A finish reason came."""
        return bool(self.finish)

    def doubt(self) -> str:
        """Why this can't be meant: nothing came where something was announced, or the model never left its thinking.

        Called once, when the stream has ended.
        """
        self._settle()
        text = "".join(self._content) + self._rest
        if not self.finish:
            return "it never said why it ended"
        if self._raw or self._refusal:
            return ""
        if "<|channel|>" in text and self._known:
            return "it wrote the markup of a call that names no tool"
        if text.strip():
            return ""
        thought = self._thinking or self._inline
        if self.finish in ("tool_calls", "function_call") or (self.hollow and not thought):
            return "tool calls were announced, but none came"
        if thought and (self.blank or self._inline) and _STOPS.get(self.finish) is StopReason.END:
            return "the model stopped in its thinking"
        return ""

    def end(self, model: str, estimate: Callable[[], int]) -> tuple[list[Delta], Reply]:
        """The reply, and what of it is still to be shown.

        ``estimate`` gives the tokens read, for a server that did not count them.
        """
        shown: list[Delta] = [ThinkingDelta(self._late)] if self._late else []
        shown += [TextDelta(self._rest)] if self._rest else []
        text, thinking, raw = "".join(self._content) + self._rest, "".join(self._thinking), self._raw
        calls = to_calls(raw, self._known)
        native = self._native(thinking, raw, calls)
        stop, detail = self._stop(calls)
        thinking += "".join(self._inline)
        if thinking and stop is StopReason.END and not text.strip():
            text, native, detail = thinking, None, "the answer came as reasoning"
            shown.append(TextDelta(text))
        size = sum(len(part.encode("utf-8", "replace")) for part in (text, thinking, *(call.text for call in raw)))
        return shown, Reply(text, calls, stop, self._counted(estimate, size), model, native, detail)

    def _settle(self) -> None:
        """Look for calls in what was held back, and in the reasoning where there are none anywhere else."""
        cut = _STOPS.get(self.finish) is StopReason.LENGTH
        self._late, held = self._tags.finish()
        self._inline += [self._late] if self._late else []
        held = self._leaks.feed(held) if held else ""
        rest, leaked = self._leaks.finish(cut=cut)
        self._rest = held + rest
        self._raw = [*self._calls.calls, *leaked]
        if not self._raw and not self._rest.strip() and not "".join(self._content).strip():
            self._raw = scan("".join((*self._thinking, *self._inline)), self._known)[1]

    def _stop(self, calls: list[ToolCall]) -> tuple[StopReason, str]:
        """Why the reply ended, and what there is to say about it; calls count more than the server's word."""
        stop = _STOPS.get(self.finish or "stop", StopReason.UNKNOWN)
        if self._refusal and not calls:
            return StopReason.REFUSAL, "".join(self._refusal)
        if calls and stop is not StopReason.LENGTH:
            return StopReason.TOOL_CALLS, ""
        if stop is StopReason.TOOL_CALLS:
            return StopReason.END, ""
        return stop, self.finish if stop is StopReason.UNKNOWN else ""

    def _text(self, content: Any, shown: Sequence[Delta]) -> Sequence[Delta]:
        text = content if isinstance(content, str) else _joined(content)
        if self._high or not text.isascii():
            text, self._high = mended(self._high + text)
        if not self._tags.done:
            thought, text = self._tags.feed(text)
            if thought:
                self._inline.append(thought)
                shown = (*shown, ThinkingDelta(thought))
        text = self._leaks.feed(text)
        if not text:
            return shown
        self._content.append(text)
        return (*shown, TextDelta(text)) if shown else (TextDelta(text),)

    def _finish(self, finish: str) -> None:
        if finish in _BROKEN_OFF:
            raise StreamFault({"message": f"the provider broke the reply off ({finish})", "code": 502})
        self.finish = finish

    def _unusual(self, chunk: dict[str, Any]) -> Any:
        """A chunk without choices: an error, the usage alone, or an answer in an envelope of its own."""
        if error := chunk.get("error"):
            raise StreamFault(error)
        if isinstance(inner := chunk.get("data"), dict):
            if inner.get("error"):
                raise StreamFault(inner["error"])
            chunk = inner
        elif chunk.get("success") is False or chunk.get("object") == "error":
            raise StreamFault({**chunk, "message": chunk.get("message") or chunk.get("msg") or str(chunk)[:300]})
        if usage := chunk.get("usage"):
            self._usage = usage
        return chunk.get("choices")

    def _native(self, thinking: str, raw: list[RawCall], calls: list[ToolCall]) -> dict[str, Any] | None:
        """What goes back as it came: reasoning under its name, and the exact text of arguments."""
        native: dict[str, Any] = {"field": self.field, "text": thinking} if thinking else {}
        if raw == self._calls.calls and len(raw) == len(calls):
            texts = [r.text if c.arguments else "{}" for r, c in zip(raw, calls, strict=True)]
            if any(c.arguments and text != dumps(c.arguments) for text, c in zip(texts, calls, strict=True)):
                native["arguments"] = texts
        return native or None

    def _counted(self, estimate: Callable[[], int], size: int) -> Usage:
        usage = self._usage if isinstance(self._usage, dict) else {}
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else usage.get("prompt_cache_hit_tokens")
        read = usage.get("prompt_tokens") or estimate()
        return Usage(read, min(cached or 0, read), usage.get("completion_tokens") or max(size // 4, 1))


def _joined(content: Any) -> str:
    """Content that came as a list of parts."""
    if not isinstance(content, list):
        return ""
    return "".join(part.get("text") or "" for part in content if isinstance(part, dict) and part.get("type") == "text")
