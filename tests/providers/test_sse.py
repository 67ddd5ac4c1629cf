from __future__ import annotations

import json

import pytest

from cumulus_jupyter.providers.sse import DamagedStream, EventDecoder, NotAStream


def decode(stream: bytes, cuts: list[int] | int) -> list[dict]:
    ends = list(range(cuts, len(stream), cuts)) if isinstance(cuts, int) else cuts
    decoder, events = EventDecoder(), []
    for start, end in zip([0, *ends], [*ends, len(stream)], strict=True):
        events += decoder.feed(stream[start:end])
    return events + decoder.finish()


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("cuts", [1, 2, 3, 7, 10_000])
def test_events_survive_any_cut_and_any_line_end(end: bytes, cuts: int) -> None:
    """The same events come out however the bytes are cut and lines are ended."""
    lines = [
        b": hello",
        b"event: x",
        'data: {"a":"café 東京 🧪"}'.encode(),
        b"",
        b'data:{"b":1}',
        b"",
        b"data: [DONE]",
        b"",
        b"",
    ]
    assert decode(end.join(lines), cuts) == [{"a": "café 東京 🧪"}, {"b": 1}]


@pytest.mark.parametrize(
    "noise", [b"data: : keepalive", b"data: : OPENROUTER PROCESSING", b"data:", b"data: ", b": ping", b"id: 3"]
)
def test_noise_is_no_event(noise: bytes) -> None:
    """Comments, comments as data and empty data give nothing."""
    assert decode(noise + b'\n\ndata: {"a":1}\n\n' + noise + b"\n\n", 5) == [{"a": 1}]


def test_data_over_several_lines_is_one_event() -> None:
    """JSON spread over data lines is joined at the blank line."""
    assert decode(b'data: {\ndata: "a":\ndata: 1}\n\ndata: {"b":2}\n\n', 4) == [{"a": 1}, {"b": 2}]


def test_an_event_does_not_wait_for_its_blank_line() -> None:
    """A whole data line is given at once."""
    assert EventDecoder().feed(b'data: {"a":1}\n') == [{"a": 1}]


def test_half_a_surrogate_pair_is_let_through() -> None:
    """A server may cut an escaped emoji in two deltas."""
    assert decode(b'data: {"a":"\\ud83e"}\n\ndata: {"a":"\\uddea"}\n\n', 9) == [{"a": "\ud83e"}, {"a": "\uddea"}]


def test_damaged_json_is_said() -> None:
    """An event that is no JSON raises, whether in the middle or at the end."""
    for stream in (b'data: {"a":\n\ndata: {"b":2}\n\n', b'data: {"a":'):
        with pytest.raises(DamagedStream):
            decode(stream, 3)


@pytest.mark.parametrize("cuts", [1, 8, 10_000])
def test_a_body_that_is_no_stream_is_one_object(cuts: int) -> None:
    """A server that does not stream sends one JSON object, maybe over several lines."""
    assert decode(b"\n" + json.dumps({"a": {"b": [1]}}, indent=1).encode(), cuts) == [{"a": {"b": [1]}}]


def test_a_web_page_is_no_stream() -> None:
    """HTML raises with its beginning."""
    with pytest.raises(NotAStream, match="<title>Login"):
        decode(b"<html><title>Login</title></html>", 5)
