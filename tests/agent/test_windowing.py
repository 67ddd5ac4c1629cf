"""Windows on long results: what holds for any text and any cap."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from cumulus_jupyter.agent.windowing import BYTES_BOUND, OUTER_CAP, as_text, window

OMITTED = re.compile(r"^\[\.\.\. (\d+) characters omitted \.\.\.\]$", re.MULTILINE)
ALPHABETS = ("ab \n", "日本語é", "😀\n", "[... 5 characters omitted ...]\n", '{"a":1}')


def texts() -> list[str]:
    chance = random.Random(7)
    lengths = (0, 1, 99, 2_000, 2_001, 5_000, 29_999, 30_001, 60_000, 150_000)
    return ["x" + "".join(chance.choices(letters, k=length)) for letters in ALPHABETS for length in lengths]


@pytest.mark.parametrize("cap", [400, 2_000, 30_000, OUTER_CAP])
@pytest.mark.parametrize("text", texts(), ids=lambda text: f"{text[1:2]!a}{len(text)}")
def test_a_text_fits_and_what_is_left_out_is_counted_exactly(text: str, cap: int) -> None:
    shown = window(text, cap, "r12")
    assert len(shown) <= cap
    if cap < OUTER_CAP:
        assert len(shown.encode()) <= BYTES_BOUND
    if shown == text:
        return
    gaps = [match for match in OMITTED.finditer(shown) if shown[match.end() :].startswith("\n[the whole result: ")]
    (gap,) = gaps
    note = '\n[the whole result: read_result(handle="r12")]\n'
    head, tail = shown[: gap.start() - 1], shown[gap.end() + len(note) :]
    assert shown[gap.end() :].startswith(note)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert int(gap[1]) == len(text) - len(head) - len(tail)
    assert abs(len(tail) - 3 * len(head)) <= 3


@pytest.mark.parametrize("text", ["", "x" * 2_000, "日" * 2_000, "[1, 2]", '{"a": 1}'])
def test_what_fits_stays_as_it_is(text: str) -> None:
    assert window(text, 2_000, "r1") == text


def test_a_declared_outer_cap_lifts_the_bound_of_bytes() -> None:
    assert window("日" * 190_000, OUTER_CAP, "r1") == "日" * 190_000
    assert len(window("日" * 190_000, OUTER_CAP - 1, "r1").encode()) <= BYTES_BOUND


def values() -> list[Any]:
    chance = random.Random(3)
    rows = [{"n": n, "text": "é" * chance.randrange(60)} for n in range(2_000)]
    return [
        rows,
        list(range(20_000)),
        {f"key{n}": row for n, row in enumerate(rows)},
        {"omitted": rows[:9], **{str(n): n for n in range(9_000)}},
    ]


@pytest.mark.parametrize("cap", [400, 2_000, 30_000])
@pytest.mark.parametrize("value", values(), ids=["rows", "numbers", "object", "clash"])
def test_json_stays_json_and_says_how_much_is_left_out(value: Any, cap: int) -> None:
    text = as_text(value)
    shown = window(text, cap, "r12")
    assert len(shown) <= cap
    kept = json.loads(shown)
    assert type(kept) is type(value)
    if isinstance(value, list):
        (note,) = [item["omitted"] for item in kept if isinstance(item, dict) and "omitted" in item]
        at = next(n for n, item in enumerate(kept) if isinstance(item, dict) and "omitted" in item)
        assert kept[:at] == value[:at]
        assert kept[at + 1 :] == value[len(value) - (len(kept) - at - 1) :]
    else:
        key = "omitted" if "omitted" not in value else "omitted (window)"
        note = kept.pop(key)
        assert kept.items() <= value.items()
        kept[key] = note
    assert note["elements"] == len(value) - (len(kept) - 1)
    assert note["handle"] == "r12"
    assert 0 < note["characters"] < len(text)


def test_json_that_holds_one_huge_element_says_so() -> None:
    shown = window(json.dumps({"log": "x" * 50_000}), 2_000, "r1")
    assert len(shown) <= 2_000
    assert "r1" in shown
    json.loads(shown)


@pytest.mark.parametrize("cap", [0, 1, 10, 60])
def test_no_cap_is_ever_passed(cap: int) -> None:
    for text in ("x" * 500, json.dumps(list(range(500)))):
        assert len(window(text, cap, "r1")) <= cap


@pytest.mark.parametrize(
    "value", [{"stdout": "ab" * 50_000, "code": 0}, ["x" * 9_000, "y\n" * 9_000, 3], {"t": 'é"' * 9_000}]
)
@pytest.mark.parametrize("cap", [2_000, 1_000, 400, 200])
def test_a_huge_text_in_json_keeps_its_ends(value: Any, cap: int) -> None:
    """JSON with one value that is larger than the window stays valid and shows both ends of that value."""
    shown = window(json.dumps(value, ensure_ascii=False), cap, "r1")
    assert len(shown) <= cap
    kept = json.loads(shown)
    if cap >= 1_000:
        texts = [text for text in (kept.values() if isinstance(kept, dict) else kept) if isinstance(text, str)]
        assert sum(map(len, texts)) > cap // 4
        assert all("characters omitted" in text for text in texts)
