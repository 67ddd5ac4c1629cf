"""Outputs of cells as text and pictures for a model."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cumulus_jupyter.agent.messages import Image

__all__ = ["IMAGES_SHOWN", "joined", "render_outputs", "usable_image"]

_OUTPUTS_SHOWN = 20
IMAGES_SHOWN = 10
_IMAGE_CAP = 1_500_000  # characters of base64
_PIXEL_CAP = 8_000
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_READABLE = ("text/markdown", "text/plain", "text/latex")
_WIDGET = "application/vnd.jupyter.widget-view+json"
_LEFT_OUT = re.compile(r"\n\[… (\d+) characters left out …\]\n")
"""The line by which a page says what of a long text it did not send."""


def joined(value: Any) -> str:
    """A text of a notebook, which may be a list of lines; empty where it is neither."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def render_outputs(
    outputs: Sequence[Mapping[str, Any]], *, cap: int = 2000, images: int = IMAGES_SHOWN, of: int = 0
) -> tuple[str, list[Image]]:
    """Outputs as text, ANSI codes removed, and at most ``images`` pictures, counted on from ``of``."""
    total, half = len(outputs), _OUTPUTS_SHOWN // 2
    shown = range(total) if total <= _OUTPUTS_SHOWN else [*range(half), *range(total - half, total)]
    lines: list[str] = []
    pictures: list[Image] = []
    for at in shown:
        if at == total - half and total > _OUTPUTS_SHOWN:
            lines.append(f"… {total - _OUTPUTS_SHOWN:,} outputs left out …")
        parts: list[str] = []
        for part in _output_parts(outputs[at], cap):
            if isinstance(part, str):
                parts.append(part)
                continue
            shows = len(pictures) < images
            pictures += [part] * shows
            label = f"image {of + len(pictures)}" if shows else "image not shown, there are too many"
            parts.append(f"({label}: {part.media_type}, {len(part.data):,} characters of base64)")
        lines.append(f"--- output {at + 1}/{total}: " + "\n".join(parts))
    return "\n".join(lines), pictures


def _output_parts(output: Mapping[str, Any], cap: int) -> Iterator[str | Image]:
    kind, data = output.get("output_type"), output.get("data")
    if kind == "stream":
        yield str(output.get("name", "stream"))
        yield _cut(joined(output.get("text")), cap)
    elif kind == "error":
        yield "error"
        trace = output.get("traceback")
        trace = "\n".join(map(str, trace)) if isinstance(trace, list) else ""
        yield _cut(trace or f"{output.get('ename')}: {output.get('evalue')}", cap)
    elif isinstance(data, dict):
        yield str(kind)
        yield from _bundle_parts(data, cap)
    else:
        yield f"{str(kind)[:100]} without data"


def _bundle_parts(data: Mapping[str, Any], cap: int) -> Iterator[str | Image]:
    best = next((mime for mime in _READABLE if joined(data.get(mime))), None)
    if best:
        yield _cut(joined(data[best]), cap)
    for mime, value in data.items():
        text = joined(value) if isinstance(value, str | list) else json.dumps(value)
        sent, unsent = _size(text)
        size = sent + unsent
        if mime in ("image/png", "image/jpeg"):
            small = size <= _IMAGE_CAP
            good = usable_image(mime, text) if small and not unsent else None
            why = "not shown, read this cell alone" if small and unsent else "damaged" if small else "too large to show"
            yield Image(mime, good) if good else f"({mime}, {size:,} characters of base64: {why})"
        elif mime == _WIDGET:
            yield "(widget view)"
        elif mime != best:
            yield f"({str(mime)[:100]}, {size:,} characters: not shown)"


def _cut(text: str, cap: int) -> str:
    text, half = _ANSI.sub("", text), cap // 2
    if len(text) > cap:
        size = sum(_size(text))
        left = f"… {size - 2 * half:,} of {size:,} characters left out …"
        text = f"{text[:half]}\n{left}\n{text[len(text) - half :]}"
    return text.removesuffix("\n")


def _size(text: str) -> tuple[int, int]:
    """The characters of a text that are here, and those that the page did not send."""
    found = _LEFT_OUT.search(text)
    return (len(text) - len(found[0]), int(found[1])) if found else (len(text), 0)


def usable_image(media_type: str, data: str) -> str | None:
    """The base64 of a PNG or JPEG without line breaks, or None where a server would refuse it."""
    compact = "".join(data.split())
    try:
        raw = base64.b64decode(compact, validate=True)
    except ValueError:
        return None
    jpeg = raw[:3] == b"\xff\xd8\xff" and b"\xff\xd9" in raw[-1024:]
    return compact if (_png_is_whole(raw) if media_type == "image/png" else jpeg) else None


def _png_is_whole(raw: bytes) -> bool:
    """Whether the chunks are all there, their checksums right, and no side is longer than servers take."""
    if raw[:8] != b"\x89PNG\r\n\x1a\n" or max(raw[16:20], raw[20:24]) > _PIXEL_CAP.to_bytes(4):
        return False
    at = 8
    while at + 12 <= len(raw):
        end = at + 12 + int.from_bytes(raw[at : at + 4])
        if end > len(raw) or zlib.crc32(raw[at + 4 : end - 4]) != int.from_bytes(raw[end - 4 : end]):
            return False
        if raw[at + 4 : at + 8] == b"IEND":
            return True
        at = end
    return False
