"""Faults of a model's server, and the places that give no good answer."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

from .render import Turn, chat_body, event, messages_body

__all__ = ["ENDS", "FAULTS", "Elsewhere", "Fault", "body_of"]


@dataclass(frozen=True)
class Fault:
    """What goes wrong: the turn that comes instead of the true one, or the place that answers instead.

    ``words`` are in what the person reads; ``retried`` is how often the request is sent again for it, at most once.
    """

    words: str
    turn: Callable[[str, Turn], Turn] | None = None
    place: str = ""
    passes: bool = True
    retried: tuple[int, ...] = (1,)
    seconds: float | None = None


def refusal(status: int, words: str, message: str, *, passes: bool, **headers: str) -> Fault:
    body = json.dumps({"type": "error", "error": {"type": "x", "message": message}}).encode()
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    turn = Turn(status=status, body=body, headers={"content-type": "application/json", **headers})
    seconds = float(headers["retry-after"]) if "retry-after" in headers else None
    return Fault(words, lambda wire, true: turn, passes=passes, retried=(1,) if passes else (0,), seconds=seconds)


def body_of(wire: str, true: Turn) -> bytes:
    return chat_body(true) if wire == "chat" else messages_body(true, "sig-of-a-dead-attempt")


FULL = Turn(
    "A dead attempt's words. ", thinking="A dead attempt's thoughts.", calls=[("look", {"where": "a dead end"})]
)
"""What a stream that is cut would have said; its call must never run."""
ENDS = {
    "chat": {
        "before its first byte": b"",
        "after its first event": b'"content": ""}',
        "in thinking": b'"reasoning_content"',
        "in text": b'"content": "A dead',
        "at a call's beginning": b'"name": "look"',
        "inside a call's arguments": b'"function": {"arguments": "{',
        "between the arguments and the finish": b'd\\"}"}',
        "between the finish and its end": b'"finish_reason": "tool_calls"}]}\n\n',
    },
    "messages": {
        "before its first byte": b"",
        "after its first event": b'"stop_reason": null}}\n\n',
        "in thinking": b'"thinking_delta"',
        "in text": b'"text": "A dead',
        "at a call's beginning": b'"name": "look"',
        "inside a call's arguments": b'"partial_json": "{',
        "between the arguments and the finish": b'd\\"}"}}\n\n',
        "between the finish and its end": b'"stop_reason": "tool_use"',
    },
}
"""How far a cut stream comes: behind these bytes of it."""


def cut(where: str, *, abort: bool) -> Fault:
    def turn(wire: str, true: Turn) -> Turn:
        body, mark = body_of(wire, FULL), ENDS[wire][where]
        assert mark in body, mark
        body = body[: body.index(mark) + len(mark)]
        return Turn(body=body, drop=len(body) if abort else None)

    return Fault("", turn)


def said_inside(kind: str, message: str, words: str, *, passes: bool) -> Fault:
    def turn(wire: str, true: Turn) -> Turn:
        body, mark = body_of(wire, FULL), ENDS[wire]["in text"]
        body = body[: body.index(b"\n\n", body.index(mark)) + 2]
        return Turn(body=body + event({"type": "error", "error": {"type": kind, "message": message}}, "error"))

    return Fault(words, turn, passes=passes, retried=(1,) if passes else (0,))


def silent(part: str) -> Fault:
    def turn(wire: str, true: Turn) -> Turn:
        body, mark = body_of(wire, FULL), ENDS[wire][part]
        return Turn(body=body[: body.index(mark) + len(mark)], linger=60)

    return Fault("silent for", turn)


FAULTS: dict[str, Fault] = {
    "429": refusal(429, "slower", "Rate limit reached", passes=True),
    "429 with Retry-After": refusal(429, "slower", "Rate limit reached", passes=True, retry_after="7"),
    **{str(status): refusal(status, "trouble", "oh no", passes=True) for status in (408, 409, 500, 502, 503)},
    "503 with Retry-After": refusal(503, "trouble", "soon back", passes=True, retry_after="2.5"),
    "529": refusal(529, "overloaded", "Overloaded", passes=True),
    "connection refused": Fault("Is the server running", place="refused"),
    "reset before any byte": Fault("broke", place="reset"),
    "silence before any byte": Fault("silent for", place="hang"),
    "silence before the stream": silent("before its first byte"),
    "silence in text": silent("in text"),
    **{f"cut {where}": cut(where, abort=True) for where in list(ENDS["chat"])[:-1]},
    **{f"ended {where}": cut(where, abort=False) for where in list(ENDS["chat"])[:-1]},
    "overloaded inside the stream": said_inside("overloaded_error", "Overloaded", "overloaded", passes=True),
    "refused inside the stream": said_inside("invalid_request_error", "no, not so", "not so", passes=False),
    "no secure connection": Fault("No secure connection", place="tls", passes=False, retried=(0,)),
    "spend limit": refusal(429, "money or quota", "You exceeded your current quota (insufficient_quota)", passes=False),
    "credit used up": refusal(400, "money or quota", "Your credit balance is too low", passes=False),
    "400": refusal(400, "refused the request", "something else", passes=False),
    "401": refusal(401, "did not accept the key", "invalid x-api-key", passes=False),
    "403": refusal(403, "does not allow this", "no access", passes=False),
    "404": refusal(404, "no such address", "no route", passes=False),
    "413": refusal(413, "too large", "Request too large", passes=False),
}


class Elsewhere:
    """Places where no good answer comes from: nobody, one who resets, one who never answers."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def address(self, place: str) -> str:
        """The address of one."""
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        if place == "refused":
            listening.close()
            return f"http://127.0.0.1:{port}"
        listening.listen()
        self._sockets.append(listening)
        if place == "hang":  # the system takes the connection, and nobody ever reads it
            return f"http://127.0.0.1:{port}"
        threading.Thread(target=self._serve, args=(listening, place), daemon=True).start()
        return f"http{'s' if place == 'tls' else ''}://127.0.0.1:{port}"

    def _serve(self, listening: socket.socket, place: str) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                connection.recv(1 << 16)
                if place == "tls":
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                else:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

    def close(self) -> None:
        for listening in self._sockets:
            listening.close()
