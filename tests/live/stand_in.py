"""A small server in place of a model, to try the live tests without one: ``python -m tests.live.stand_in [PORT]``.

It does what each prompt of these tests asks for, and cuts its replies at the asked budget, in words for tokens.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from ..wire.render import Asked, Turn
from ..wire.server import ModelServer

_WRITTEN = 30


def answer(asked: Asked) -> Turn:
    """The next turn of a model that does as it is told."""
    body = asked.json
    messages = body["messages"]
    prompt = next(_text(m) for m in reversed(messages) if m["role"] == "user" and not _results(m))
    found = [text for m in messages for text in _results(m)]
    new = [text for m in messages[_last(messages) :] for text in _results(m)]
    budget = body.get("max_tokens") or body.get("max_completion_tokens")
    if "Count from" in prompt or "write_text" in prompt:
        return _cut(prompt, budget)
    if "Read the probe" in prompt and not new:
        places = [place for place in ("north", "south") if place in prompt]
        return Turn(calls=[("read_probe", {"place": place}, f"toolu_{at}") for at, place in enumerate(places)])
    if "Ask me with" in prompt and not new:
        question = {"question": "Which colour?", "header": "Colour", "options": [{"label": "red"}, {"label": "blue"}]}
        return Turn(calls=[(re.findall(r"tool (\w+)", prompt)[0], {"questions": [question]}, "toolu_q")])
    return Turn("heron" if not found else f"It is {' and '.join(found)}.")


def _cut(prompt: str, budget: int) -> Turn:
    usage = (100, budget)
    if "Count from" in prompt:
        return Turn("\n".join(map(str, range(1, budget))), stop="length", usage=usage)
    whole = json.dumps({"path": "poem.txt", "text": prompt})
    return Turn(calls=[("write_text", whole[: budget * 4], "toolu_w")], stop="length", usage=usage)


def _last(messages: list[dict[str, Any]]) -> int:
    return max(at for at, m in enumerate(messages) if m["role"] == "user" and not _results(m))


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _results(message: dict[str, Any]) -> list[str]:
    if message["role"] == "tool":
        return [message["content"]]
    content = message["content"] if isinstance(message["content"], list) else []
    return [str(part["content"]) for part in content if part.get("type") == "tool_result"]


class _Endless(list[Any]):
    def pop(self, index: Any = 0) -> Any:
        return answer


def stand_in() -> ModelServer:
    """The server, not yet started."""
    server = ModelServer([answer])
    server.script = _Endless([answer])
    return server


if __name__ == "__main__":
    with stand_in() as running:
        print(running.url, flush=True)
        sys.stdin.read()
