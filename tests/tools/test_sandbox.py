"""Subprocesses are confined where the Linux kernel has Landlock."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cumulus_jupyter.agent.errors import ToolError
from cumulus_jupyter.tools import sandbox
from cumulus_jupyter.tools.confine import readable
from cumulus_jupyter.tools.sandbox import confine, sandbox_status

from .conftest import Bench

landlock = pytest.mark.skipif(bool(sandbox._missing()), reason=f"no Landlock: {sandbox._missing()}")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a key, a stored conversation and a project."""
    for name in (".ssh/id_rsa", "data/talk.jsonl", "proj/a.txt", "other/b.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CUMULUS_DATA_DIR", str(tmp_path / "data"))
    return tmp_path


@landlock
@pytest.mark.parametrize(
    "command",
    [
        "echo x > ../other/new.txt",
        "echo x >> ../other/b.txt",
        "truncate -s 0 ../other/b.txt",
        "rm ../other/b.txt",
        "mv ../other/b.txt .",
        "mkdir ../new",
        "ln -s a ../link",
        "cp a.txt $HOME/stolen",
        "touch /tmp/cumulus-outside-$$",
        "cat ~/.ssh/id_rsa",
        "ln -s ~/.ssh/id_rsa key; cat key",
        "cat $HOME/data/talk.jsonl",
        "cat /proc/KERNEL/environ",
        'python3 -c \'open("../other/b.txt", "w")\'',
    ],
)
def test_what_is_outside_can_not_be_changed_nor_keys_be_read(home: Path, command: str) -> None:
    bench = Bench(home / "proj")
    text = bench.refusal("run_shell", command=command.replace("KERNEL", str(os.getpid())))
    assert "content of" not in text
    assert (home / "other/b.txt").read_text() == "content of other/b.txt\n"
    assert {path.name for path in home.iterdir()} == {".ssh", "data", "proj", "other"}
    assert "confined: only" in text


@landlock
@pytest.mark.parametrize(
    "command",
    [
        "echo x > new.txt && cat new.txt",
        "mkdir d && mv a.txt d/ && rm -r d",
        "cat ../other/b.txt /etc/passwd",
        "f=$(mktemp) && echo x > $f && cat $f",
        "echo x > /dev/null; head -c 1 /dev/urandom",
        "echo x > /dev/stderr",
        "ls ~/.ssh",
        "python3 -c 'import multiprocessing; multiprocessing.Lock()'",
        "python3 -c 'import socket; socket.socket().bind((\"127.0.0.1\", 0))'",
        "sh -c 'sh -c \"echo x > deep.txt\"'",
    ],
)
def test_ordinary_work_goes_on(home: Path, command: str) -> None:
    result = Bench(home / "proj").call("run_shell", command=command)
    assert result.ok, result.text
    assert result.details["confined"]


@landlock
def test_the_kernels_own_process_is_not_confined(home: Path) -> None:
    Bench(home / "proj").text("run_shell", command="true")
    (home / "other" / "mine.txt").write_text("x")
    assert (home / ".ssh/id_rsa").read_text()


@landlock
def test_folders_that_the_toolbox_names_are_hidden(home: Path) -> None:
    bench = Bench(home / "proj", private=[home / "other"])
    assert "content of" not in bench.refusal("run_shell", command="cat ../other/b.txt")


def test_off_confines_nothing(home: Path) -> None:
    bench = Bench(home / "proj", sandbox="off")
    bench.text("run_shell", command="echo x > ../other/new.txt")
    assert (home / "other/new.txt").exists()
    assert "off" in sandbox_status("off")


@landlock
def test_keys_inside_the_root_are_told_and_refused_where_confinement_is_required(home: Path) -> None:
    Bench(home, sandbox="auto").text("run_shell", command="echo x > new.txt && cat new.txt")
    assert "lies inside the root" in Bench(home, sandbox="require").refusal("run_shell", command="true")
    assert ".ssh" in sandbox_status("auto", home)
    assert "no subprocess is started" in sandbox_status("require", home)
    assert ".ssh" not in sandbox_status("require", home / "proj")


def test_without_landlock_require_refuses_and_auto_goes_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_missing", lambda: "it is not here")
    assert "it is not here" in Bench(home / "proj", sandbox="require").refusal("run_shell", command="true")
    assert not Bench(home / "proj").call("run_shell", command="true").details["confined"]
    assert "not there" in sandbox_status("auto")
    assert "no subprocess is started" in sandbox_status("require")
    with pytest.raises(ToolError):
        confine(["true"], "require", home, home)


def test_readable_paths_hold_all_but_the_hidden(tmp_path: Path) -> None:
    for name in ("a/b/secret", "a/b/plain", "a/c", "d"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/b/secret")
    top = str(tmp_path)
    found = {path.removeprefix(top) for path in readable(top, [f"{top}/a/b/secret"])}
    assert found == {"/a/b/plain", "/a/c", "/d"}
    assert list(readable(top, [])) == [top]
    assert list(readable(top, [top])) == []


@pytest.mark.skipif(sys.platform == "linux", reason="Linux may have it")
def test_elsewhere_the_status_says_why() -> None:
    assert "only Linux" in sandbox_status("auto")
