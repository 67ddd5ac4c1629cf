"""Server-sent events: the bytes of a response, cut anywhere, become decoded JSON objects."""

from __future__ import annotations

import json
from typing import Any

from jiter import from_json

__all__ = ["DamagedStream", "EventDecoder", "NotAStream", "StreamFault", "decode_object", "mended"]

_BOM = b"\xef\xbb\xbf"


class DamagedStream(ValueError):
    """An event that is no JSON."""


class NotAStream(ValueError):
    """The response is something else than events or JSON, a web page say; the text is its beginning."""


class StreamFault(Exception):
    """An error that a server sent inside a stream that began well: the ``error`` value as it came."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


class EventDecoder:
    """Cuts a response into events and decodes them.

    A ``data:`` line that is a whole JSON object is an event at once: the blank line behind it may come late or never.
    Other lines are joined until a blank one. Comments, ``event:`` lines, empty data, ``data: : comment`` and ``[DONE]``
    give no event. A response that is one JSON object instead of a stream is one event, given by :meth:`finish`.
    """

    __slots__ = ("_after_cr", "_body", "_joined", "_parts", "done")

    def __init__(self) -> None:
        self.done = False
        """``[DONE]`` was seen."""
        self._body: list[bytes] | None = []
        """Where the response is no stream, its pieces; an empty list until the first byte tells."""
        self._parts: list[bytes] = []
        self._joined: list[bytes] = []
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[dict[str, Any]]:
        """The events that end in this piece of the response."""
        if self._body is not None and self._is_body(chunk):
            return []
        if self._after_cr or b"\r" in chunk:
            chunk = self._without_cr(chunk)
        if b"\n" not in chunk:
            self._parts.append(chunk)
            return []
        if self._parts:
            self._parts.append(chunk)
            chunk = b"".join(self._parts)
            self._parts.clear()
        *lines, rest = chunk.split(b"\n")
        if rest:
            self._parts.append(rest)
        events: list[dict[str, Any]] = []
        joined = self._joined
        for line in lines:
            if not line and not joined:
                continue
            if line.startswith(b"data:") and not joined:
                try:
                    value = from_json(line[5:])
                except ValueError:
                    self._odd(line, events)
                else:
                    if type(value) is dict:
                        events.append(value)
            elif joined or not line.startswith(b"event:"):
                self._odd(line, events)
        return events

    def finish(self) -> list[dict[str, Any]]:
        """The events that the end of the response completes."""
        if self._body:
            text = b"".join(self._body)
            value = decode_object(text)
            if value is None:
                raise NotAStream(text[:2_000].decode("utf-8", "replace").strip())
            return [value]
        events: list[dict[str, Any]] = []
        self._odd(b"".join(self._parts), events)
        self._parts.clear()
        if self._joined:
            self._odd(b"", events)
        return events

    def _is_body(self, chunk: bytes) -> bool:
        """Whether this is no stream, told by its first character."""
        assert self._body is not None
        if not self._body:
            start = chunk.lstrip(_BOM).lstrip()
            if not start:
                return False
            if not start.startswith((b"{", b"[", b"<")):
                self._body = None
                return False
        self._body.append(chunk)
        return True

    def _without_cr(self, chunk: bytes) -> bytes:
        """Line ends as LF; a CR LF may be cut between two pieces."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r") or (self._after_cr and not chunk)
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _odd(self, line: bytes, events: list[dict[str, Any]]) -> None:
        """Any line but a JSON object on its own."""
        line = line.removeprefix(_BOM)
        if not line and self._joined:
            text = b"\n".join(self._joined)
            self._joined.clear()
            if (value := decode_object(text)) is None:
                raise DamagedStream(text[:200].decode("utf-8", "replace"))
            events.append(value)
        if not line.startswith(b"data:"):
            return
        data = line[5:].strip()
        if data == b"[DONE]":
            self.done = True
        elif not data or data.startswith(b":"):
            return
        elif not self._joined and (value := decode_object(data)) is not None:
            events.append(value)
        else:
            self._joined.append(data)


def decode_object(text: bytes) -> dict[str, Any] | None:
    """A JSON object, read leniently; None for anything else."""
    try:
        value = from_json(text)
    except ValueError:
        try:  # half a surrogate pair, or a raw line end within a text: json takes both
            value = json.loads(text, strict=False)
        except ValueError:
            return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, dict) else None


def mended(text: str) -> tuple[str, str]:
    """A text with surrogate pairs joined, and a first half at its end whose second is yet to come."""
    high = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
    text = text[: len(text) - len(high)]
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text, high
