"""Stored conversations: private, crash-safe at every line, held by one process, found again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cumulus_jupyter import TranscriptError
from cumulus_jupyter.agent.messages import Reply, ToolCall, ToolResult, ToolResults
from cumulus_jupyter.agent.redact import Redactor
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.store import Store


def talk(transcript: Transcript) -> None:
    transcript.user("hello")
    transcript.assistant(Reply("looking", [ToolCall("", "t", {"a": 1}, "x")], model="m"))
    transcript.result(ToolResult("x", "t", ["found"]))


def test_a_conversation_is_read_back_as_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path)
    transcript = store.create()
    talk(transcript)
    store.close()
    again = Store(tmp_path).load(transcript.session)
    assert again.lines == transcript.lines
    assert [type(m) for m in again.messages] == [type(m) for m in transcript.messages]
    group = again.messages[-1]
    assert isinstance(group, ToolResults)
    assert group.results[0].text == "found"
    again.user("more")
    assert again.lines[-1]["parent"] == transcript.lines[-1]["id"]


def test_a_torn_last_line_costs_that_line(tmp_path: Path) -> None:
    store = Store(tmp_path)
    transcript = store.create()
    talk(transcript)
    store.close()
    path = tmp_path / f"{transcript.session}.jsonl"
    for length in range(1, 60, 7):
        whole = path.read_bytes()
        path.write_bytes(whole[:-length])
        loaded = Store(tmp_path)
        kept = 3 if length == 1 else 2  # the line's end alone is no loss
        assert loaded.load(transcript.session).lines == transcript.lines[:kept]
        loaded.close()
        path.write_bytes(whole)


def test_going_on_behind_a_torn_line_keeps_what_follows(tmp_path: Path) -> None:
    store = Store(tmp_path)
    transcript = store.create()
    talk(transcript)
    store.close()
    path = tmp_path / f"{transcript.session}.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    store = Store(tmp_path)
    store.load(transcript.session).user("after the crash")
    store.close()
    texts = [line.get("text") for line in Store(tmp_path).load(transcript.session).lines]
    assert texts[-1] == "after the crash"


def test_a_damaged_line_inside_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"v": 1, "type": "user"\n{"v": 1}\n')
    with pytest.raises(TranscriptError, match="line 1"):
        list(Store(tmp_path).lines("s"))


def test_files_and_folders_are_private_and_keys_stay_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "data", Redactor(["secret-key-1"]))
    transcript = store.create()
    transcript.user("my key is secret-key-1")
    transcript.spool.put("r1", "x" * 10)
    store.note(transcript.session, notebook="a.ipynb", name="main", prompt="secret-key-1 please")
    for path in (tmp_path / "deep" / "data").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
        if path.is_file():
            assert "secret-key-1" not in path.read_text()
    assert "[key]" in json.dumps(Store(store.folder).sessions()[0].prompt)


def test_a_folder_that_cannot_be_written_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TranscriptError, match="CUMULUS_DATA_DIR"):
        Store(tmp_path / "file" / "data").create().user("hello")


def test_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match="another version"):
        Transcript.load("s", [{"v": 99, "type": "user"}])
