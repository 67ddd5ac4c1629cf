"""Recordings: what is written, and that it plays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent.errors import SettingsError
from cumulus_jupyter.agent.messages import Status
from cumulus_jupyter.agent.redact import Redactor
from cumulus_jupyter.providers.catalog import resolve
from cumulus_jupyter.providers.replay import RecordingProvider, ReplayProvider

from ..wire.harness import MODELS, Calls, Ran, converse
from ..wire.server import Turn

KEY = "sk-very-secret-key-12345"


def record(wire: str, path: Path, serve: Any, provider: Any, calls: Calls) -> Ran:
    server = serve(
        Turn("I'll look. ", thinking="hm", calls=[("now", {"zone": "UTC"}), ("nope", {})]),
        Turn("It is late; your key is " + KEY),
        Turn("You're welcome 🧪."),
    )
    recording = RecordingProvider(provider(server, MODELS[wire]), path, Redactor([KEY]))
    return converse(
        recording, [f"what time? {KEY}", "thanks"], [calls.tool("now", "zone", result=lambda zone: "12:00")]
    )


@pytest.mark.parametrize("wire", MODELS)
def test_a_recording_plays_again(wire: str, serve: Any, provider: Any, calls: Calls, tmp_path: Path) -> None:
    """With no server, the same prompts give the same texts; tools run for real and may return something else."""
    path = tmp_path / "a.jsonl"
    first = record(wire, path, serve, provider, calls)
    again = Calls()
    tool = again.tool("now", "zone", result=lambda zone: "13:00")
    replay = ReplayProvider(path, Redactor([KEY]))
    ran = converse(replay, [f"what time? {KEY}", "thanks"], [tool])
    assert [r.status for r in ran.results] == [Status.DONE] * 2
    assert ran.shown == first.shown.replace(KEY, "[key]")
    assert again.seen == [("now", {"zone": "UTC"})]
    assert (ran.result.usage.input, ran.result.usage.cost) == (first.result.usage.input, 0.0)
    replies = [line["native"] for line in ran.transcript.lines if line["type"] == "assistant"]
    assert replies[0] == next(line["native"] for line in first.transcript.lines if line["type"] == "assistant")
    assert "no model is asked" in replay.notice
    assert MODELS[wire] in replay.notice


def test_a_recording_holds_no_key_and_no_results(serve: Any, provider: Any, calls: Calls, tmp_path: Path) -> None:
    """One JSON line a reply, keys replaced, results of tools left out."""
    path = tmp_path / "a.jsonl"
    record("chat", path, serve, provider, calls)
    text = path.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) == 3
    assert KEY not in text
    assert "12:00" not in text
    assert lines[0]["request"] == {"prompt": "what time? [key]", "messages": 1, "tools": ["now"]}


@pytest.mark.parametrize(
    ("prompts", "names", "words"),
    [
        (["another"], ["now"], ["'another'", "what time?"]),
        (["what time? [key]"], ["now", "more"], ["tools differ", "more"]),
        (["what time? [key]", "thanks", "and?"], ["now"], ["ends here", "3 replies"]),
    ],
)
def test_a_mismatch_is_named(
    prompts: list[str], names: list[str], words: list[str], serve: Any, provider: Any, calls: Calls, tmp_path: Path
) -> None:
    """Both sides of a difference are told, and it is not tried again."""
    path = tmp_path / "a.jsonl"
    record("chat", path, serve, provider, calls)
    ran = converse(ReplayProvider(path), prompts, [Calls().tool(name, "zone") for name in names])
    assert ran.result.status is Status.FAILED
    assert all(word in (ran.result.error or "") for word in words)


def test_a_recording_starts_afresh_and_waits_for_a_reply(
    serve: Any, provider: Any, calls: Calls, tmp_path: Path
) -> None:
    """A run that fails at once leaves an older recording alone; one that does not replaces it."""
    path = tmp_path / "a.jsonl"
    record("chat", path, serve, provider, calls)
    old = path.read_text(encoding="utf-8")
    broken = serve(Turn(status=401, body=b"{}"))
    converse(RecordingProvider(provider(broken, MODELS["chat"]), path), ["x"])
    assert path.read_text(encoding="utf-8") == old
    converse(RecordingProvider(provider(serve(Turn("new")), MODELS["chat"]), path), ["x"])
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1


def test_files_that_are_no_recordings(tmp_path: Path) -> None:
    """A missing, damaged or foreign file is refused with its name."""
    for text in (None, "", "not json\n", '{"a": 1}\n', '{"v": 99}\n'):
        path = tmp_path / "b.jsonl"
        if text is not None:
            path.write_text(text, encoding="utf-8")
        with pytest.raises(SettingsError, match=r"b\.jsonl"):
            resolve(f"replay:{path}", env={})


def test_a_place_that_cannot_be_written(serve: Any, provider: Any, tmp_path: Path) -> None:
    """A recording that can't be written is refused before a model is asked."""
    server = serve(Turn("x"))
    for path in (tmp_path / "no" / "a.jsonl", tmp_path):
        with pytest.raises(SettingsError, match="--record"):
            RecordingProvider(provider(server, MODELS["chat"]), path)
    assert server.asked == []
