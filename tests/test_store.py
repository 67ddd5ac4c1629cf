"""Stored conversations: private, crash-safe at every line, held by one process, found again."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from cumulus_jupyter import TranscriptError
from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import Reply, Status, ToolCall, ToolResult, ToolResults
from cumulus_jupyter.agent.policy import Policy
from cumulus_jupyter.agent.redact import Redactor
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.agent.toolbox import Toolbox
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.script import ScriptHost
from cumulus_jupyter.store import Store

from .agent.conftest import Scripted, make, run, say


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


def test_a_fork_is_a_conversation_of_its_own_also_while_the_first_is_in_use(tmp_path: Path) -> None:
    store, other = Store(tmp_path), Store(tmp_path)
    first = store.create()
    talk(first)
    first.spool.put("r9", "whole")
    with pytest.raises(TranscriptError, match=f"resume {first.session[:8]} --fork"):
        other.load(first.session)
    copy = other.fork(first.session)
    assert copy.session != first.session
    assert copy.lines == first.lines
    assert copy.spool.get("r9") == "whole"
    copy.spool.put("r9", "other")
    copy.user("in the copy")
    first.user("in the first")
    other.close()
    store.close()
    texts = [Store(tmp_path).load(uuid).lines[-1]["text"] for uuid in (first.session, copy.session)]
    assert texts == ["in the first", "in the copy"]
    assert first.spool.get("r9") == "whole"


def test_a_fork_leaves_a_torn_line_behind(tmp_path: Path) -> None:
    store = Store(tmp_path)
    transcript = store.create()
    talk(transcript)
    path = tmp_path / f"{transcript.session}.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    copy = Store(tmp_path).fork(transcript.session)
    assert copy.lines == transcript.lines[:-1]


def test_a_name_means_this_notebooks_conversation_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    uuids = []
    for notebook in ("a.ipynb", "b.ipynb"):
        transcript = store.create()
        transcript.user("hello")
        uuids.append(transcript.session)
        store.note(transcript.session, notebook=notebook, name="main", prompt="hello")
    assert store.find("main", "a.ipynb")[0].uuid == uuids[0]
    assert store.find("", "b.ipynb")[0].uuid == uuids[1]
    assert [info.uuid for info in store.find(uuids[0][:8], "b.ipynb")] == [uuids[0]]
    assert store.find("", "c.ipynb") == []


def test_what_an_undo_needs_is_never_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cumulus_jupyter.store._LARGEST_RESULT", 10)
    transcript = Store(tmp_path).create()
    for handle in ("r1", "before1"):
        transcript.spool.put(handle, "x" * 50)
    assert (len(transcript.spool.get("r1") or ""), len(transcript.spool.get("before1") or "")) == (10, 50)


@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("lines", [1, 2, 3])
def test_a_full_disk_ends_the_run_with_the_reason_and_spoils_nothing(
    lines: int, half: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that fits in part is taken back; when there is room again, the conversation goes on."""
    write, room = os.write, [lines]

    def full(fd: int, data: bytes) -> int:
        room[0] -= 1
        if room[0] >= 0:
            return write(fd, data)
        if half and len(data) > 20:
            return write(fd, data[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    store = Store(tmp_path)
    toolbox = Toolbox([make("t")], host=ScriptHost(), root=tmp_path, policy=Policy("all"))
    provider = Scripted(say("", ("t", {})), say("done"))
    session = Session(store.create(), provider, toolbox, Limits(), "system")
    monkeypatch.setattr(os, "write", full)
    result = run(session)[1]
    monkeypatch.undo()
    assert (result.status, len(result.tool_calls)) == (Status.FAILED, min(lines - 1, 1))
    assert "disk is full" in (result.error or "") or "No space left" in (result.error or "")
    provider.replies = [say("I go on")]
    assert run(session, "and now?")[1].status is Status.DONE
    store.close()
    loaded = Session(Store(tmp_path).load(session.transcript.session), provider, toolbox, Limits(), "system")
    loaded.recover()
    assert loaded.transcript.open_calls == []
    assert run(loaded, "still there?")[1].status is Status.DONE
