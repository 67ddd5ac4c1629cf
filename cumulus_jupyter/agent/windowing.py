"""Windows: what a model sees of a result that is too long, and how it asks for the rest."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["BYTES_BOUND", "OUTER_CAP", "as_text", "window"]

BYTES_BOUND = 102_400
"""UTF-8 bytes of any result whose tool does not declare ``OUTER_CAP``."""
OUTER_CAP = 200_000


def as_text(content: Any) -> str:
    """A text as it is, anything else as JSON."""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1, default=str)


def window(text: str, cap: int, handle: str) -> str:
    """Fit ``text`` into ``cap`` characters (and ``BYTES_BOUND`` bytes, unless the cap is ``OUTER_CAP``).

    A fitting text comes back as it is. Of a longer one the head (a quarter) and the tail stay; the middle becomes a
    line that counts the characters left out and a line that names ``handle``. A JSON object or list stays valid JSON:
    it loses elements and gains an ``omitted`` entry; a text in it that fills most of the room by itself is cut inside.
    """
    bound = 4 * len(text) if cap >= OUTER_CAP else BYTES_BOUND
    if len(text) <= cap and (len(text) * 4 <= bound or _bytes(text) <= bound):
        return text
    value = _container(text)
    while True:
        shown = _window_json(value, len(text), cap, handle) if value is not None else None
        if shown is None:
            shown = _window_text(text, cap, handle)
        size = _bytes(shown)
        if size <= bound:
            return shown
        cap = min(cap - 1, len(shown) * bound // size)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _container(text: str) -> dict[str, Any] | list[Any] | None:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, (dict, list)) else None


def _window_text(text: str, cap: int, handle: str) -> str:
    note = f'[the whole result: read_result(handle="{handle}")]'
    # The gap's own length depends on the number in it; the longest number leaves room for any.
    room = cap - len(f"\n[... {len(text)} characters omitted ...]\n{note}\n")
    if room <= 0:
        return f"[... {len(text)} characters omitted ...]\n{note}"[: max(cap, 0)]
    head, tail = room // 4, room - room // 4
    gap = f"\n[... {len(text) - head - tail} characters omitted ...]\n{note}\n"
    return text[:head] + gap + text[len(text) - tail :]


def _window_json(value: dict[str, Any] | list[Any], size: int, cap: int, handle: str) -> str | None:
    """Elements from both ends, as many as fit; None where not even the note fits."""
    names = [f"{_dump(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    items = list(value.values()) if isinstance(value, dict) else value
    key = "omitted (window)" if isinstance(value, dict) and "omitted" in value else "omitted"
    note = {key: {"elements": len(items), "characters": size, "handle": handle}}
    room = cap - len(json.dumps(note)) - 4
    if room < 0:
        return None
    texts = [name + text for name, text in zip(names, _cut_inside(items, room), strict=True)]
    head = _fitting(texts, room // 4)
    tail = _fitting(texts[head:][::-1], room - sum(len(text) + 2 for text in texts[:head]))
    kept = texts[:head] + texts[len(texts) - tail :]
    note[key]["elements"] = len(items) - len(kept)
    note[key]["characters"] = max(size - sum(map(len, kept)), 0)
    entry = json.dumps(note)
    if isinstance(value, dict):
        entry = f"{json.dumps(key)}: {json.dumps(note[key])}"
    parts = [*texts[:head], entry, *texts[len(texts) - tail :]]
    shown = ", ".join(parts)
    return f"{{{shown}}}" if isinstance(value, dict) else f"[{shown}]"


def _cut_inside(items: list[Any], room: int) -> list[str]:
    """The elements as JSON; texts that would each fill a quarter of the room are cut to what the others leave."""
    texts = [_dump(item) for item in items]
    large = [at for at, item in enumerate(items) if isinstance(item, str) and len(texts[at]) > room // 4]
    left = room - sum(map(len, texts)) + sum(len(texts[at]) for at in large)
    for at in large:
        texts[at] = _cut_text(items[at], max(left, room // 2) // len(large) - 60)
    return texts


def _cut_text(text: str, room: int) -> str:
    """A JSON string of at most about ``room`` characters: the text's head and tail, and how much is missing."""
    keep = min(max(room, 0), len(text))
    while keep > 0:
        head, tail = keep // 4, keep - keep // 4
        shown = _dump(f"{text[:head]}[... {len(text) - keep} characters omitted ...]{text[len(text) - tail :]}")
        if len(shown) <= room + 40:
            return shown
        keep = keep * room // (len(shown) + 1)
    return _dump(f"[... {len(text)} characters omitted ...]")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _fitting(texts: list[str], room: int) -> int:
    count = 0
    for text in texts:
        room -= len(text) + 2
        if room < 0:
            break
        count += 1
    return count
