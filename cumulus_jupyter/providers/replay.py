"""Recordings: a model's replies in a file, to be played again without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..agent.errors import ProviderError, SettingsError
from ..agent.events import Notice, TextDelta, ThinkingDelta
from ..agent.messages import Reply, StopReason, ToolCall, Usage, UserMessage
from ..agent.provider import ModelFacts, Provider, Request
from .encoding import dumps

__all__ = ["RecordingProvider", "ReplayProvider"]

VERSION = 1
Delta = TextDelta | ThinkingDelta
Redact = Callable[[Any], Any]


class RecordingProvider:
    """Passes another provider through and writes each whole reply to a file, one JSON line each.

    A line is ``{v, model, ceiling, request, deltas, reply}``. ``request`` is what a person can tell a request by: the
    last prompt, the number of messages and the tools' names; results of tools are not in it, since they run for real.
    The file starts afresh with the first reply.

    Parameters
    ----------
    redact
        Takes secrets out of what is written.
    """

    def __init__(self, inner: Provider, path: Path, redact: Redact = lambda value: value) -> None:
        if not path.parent.is_dir() or path.is_dir():
            raise SettingsError(f"--record {path}: there is no folder {path.parent} to write a file of this name in")
        self._inner = inner
        self._path = path
        self._redact = redact
        self._started = False
        self.name = inner.name
        self.host = inner.host
        self.notice = inner.notice

    @property
    def facts(self) -> ModelFacts:
        """The recorded model's."""
        return self._inner.facts

    async def stream(self, request: Request) -> AsyncGenerator[TextDelta | ThinkingDelta | Notice | Reply, None]:
        """Stream the reply, and write it down once it is whole."""
        deltas: list[list[str]] = []
        async with aclosing(self._inner.stream(request)) as items:
            async for item in items:
                if isinstance(item, Reply):
                    self._write(request, deltas, item)
                elif not isinstance(item, Notice):
                    _join(deltas, item)
                yield item

    def body(self, request: Request) -> bytes:
        """The exact bytes that ``stream`` would send."""
        return self._inner.body(request)

    async def close(self) -> None:
        """Release connections."""
        await self._inner.close()

    def _write(self, request: Request, deltas: list[list[str]], reply: Reply) -> None:
        entry = {
            "v": VERSION,
            "model": self.name,
            "ceiling": self.facts.ceiling,
            "request": _told_by(request),
            "deltas": deltas,
            "reply": _stored(reply),
        }
        try:
            with self._path.open("a" if self._started else "w", encoding="utf-8", errors="replace") as file:
                file.write(dumps(self._redact(entry)) + "\n")
        except OSError as error:
            raise SettingsError(f"--record {self._path}: {error.strerror or error}") from None
        self._started = True


class ReplayProvider:
    """Plays a recording: each request gets the first reply not yet played that was recorded for its like."""

    host = "this machine"

    def __init__(self, path: Path, redact: Redact = lambda value: value) -> None:
        self._path = path
        self._redact = redact
        self._entries = _read(path)
        self._left = list(self._entries)
        self.name = f"replay:{path}"
        self.facts = ModelFacts(ceiling=self._entries[0]["ceiling"], price=(0.0, 0.0, 0.0))
        self.notice = f"replay of {path.name}, recorded from {self._entries[0]['model']}: no model is asked."

    async def stream(self, request: Request) -> AsyncGenerator[TextDelta | ThinkingDelta | Reply, None]:
        """Stream the recorded reply. Raises :class:`ProviderError` where none was recorded for such a request."""
        entry = self._take(self._redact(_told_by(request)))
        for kind, text in entry["deltas"]:
            await asyncio.sleep(0)
            yield ThinkingDelta(text) if kind == "thinking" else TextDelta(text)
        yield _restored(entry["reply"], self.name)

    def body(self, request: Request) -> bytes:
        """What a request is told by; nothing is sent."""
        return json.dumps(_told_by(request), ensure_ascii=False, indent=1).encode("utf-8", "replace")

    async def close(self) -> None:
        """Nothing to release."""

    def _take(self, asked: dict[str, Any]) -> dict[str, Any]:
        for number, entry in enumerate(self._left):
            if entry["request"] == asked:
                return self._left.pop(number)
        if not self._left:
            raise ProviderError(
                f"{self._path.name} ends here: all of its {len(self._entries)} replies were played, and the run asks "
                "for another. Record it again with --record."
            )
        raise ProviderError(f"{self._path.name} does not fit this run. {_difference(asked, self._left[0]['request'])}")


def _told_by(request: Request) -> dict[str, Any]:
    prompts = [message.text for message in request.messages if isinstance(message, UserMessage)]
    return {
        "prompt": prompts[-1] if prompts else "",
        "messages": len(request.messages),
        "tools": sorted(tool.name for tool in request.tools),
    }


def _difference(asked: dict[str, Any], recorded: dict[str, Any]) -> str:
    """Both sides of the first difference, in words."""
    if asked["prompt"] != recorded["prompt"]:
        return f"Recorded was the prompt {_cut(recorded['prompt'])}, asked is {_cut(asked['prompt'])}."
    if asked["tools"] != recorded["tools"]:
        more = [name for name in asked["tools"] if name not in recorded["tools"]]
        less = [name for name in recorded["tools"] if name not in asked["tools"]]
        return f"The tools differ: recorded without {', '.join(more) or '-'}; now missing {', '.join(less) or '-'}."
    return f"Recorded was a request of {recorded['messages']} messages, asked is one of {asked['messages']}."


def _cut(text: str) -> str:
    return repr(text if len(text) <= 200 else text[:200] + " …")


def _join(deltas: list[list[str]], item: Delta) -> None:
    """Pieces of one kind that follow one another are one in the file."""
    kind = "thinking" if isinstance(item, ThinkingDelta) else "text"
    if deltas and deltas[-1][0] == kind and len(deltas[-1][1]) < 200:
        deltas[-1][1] += item.text
    else:
        deltas.append([kind, item.text])


def _stored(reply: Reply) -> dict[str, Any]:
    entry = {name: getattr(reply, name) for name in ("text", "stop", "model", "native", "detail")}
    return {**entry, "calls": [asdict(call) for call in reply.calls], "usage": asdict(reply.usage)}


def _restored(entry: dict[str, Any], name: str) -> Reply:
    calls = [ToolCall(**call) for call in entry["calls"]]
    usage, stop = Usage(**entry["usage"]), StopReason(entry["stop"])
    return Reply(entry["text"], calls, stop, usage, entry["model"] or name, entry["native"], entry["detail"])


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingsError(f"the recording {path} can't be read: {error.strerror or error}") from None
    try:
        entries = [json.loads(line) for line in lines if line.strip()]
        whole = all({"request", "deltas", "reply", "ceiling", "model"} <= entry.keys() for entry in entries)
    except (ValueError, AttributeError):
        whole = False
    if not whole or not entries or any(entry.get("v") != VERSION for entry in entries):
        raise SettingsError(f"{path} is no recording of this version; make one with --record")
    return entries
