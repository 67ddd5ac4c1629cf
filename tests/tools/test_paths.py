"""Paths count by where they lead, not by how they are spelt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cumulus_jupyter.agent.errors import ToolError
from cumulus_jupyter.agent.tool import Access
from cumulus_jupyter.tools.paths import is_guarded, read_access, resolve, resolve_for_writing, write_access

from .conftest import Bench


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with links in it, a neighbour whose name begins like it, and a file outside."""
    root = tmp_path / "proj"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("in\n")
    (tmp_path / "proj-secret").mkdir()
    (tmp_path / "secret.txt").write_text("out\n")
    links = {
        "out-file": "../secret.txt",
        "out-folder": "../proj-secret",
        "dangling": "../nothing/there.txt",
        "in-file": "a.txt",
        "chain": "out-folder",
        "sub/up": "../..",
        "loop": "loop",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    return root


INSIDE = ["a.txt", "./a.txt", "sub/../a.txt", "in-file", "new/deep/file.txt", "sub", ".", "sub/up/proj/a.txt"]
OUTSIDE = [
    "..",
    "../secret.txt",
    "../proj-secret/x",
    "sub/../../secret.txt",
    "out-file",
    "out-folder/x",
    "out-folder/../secret.txt",
    "dangling",
    "chain/new.txt",
    "sub/up/secret.txt",
    "/etc/hostname",
    "~/x",
    "~",
    "/",
]


@pytest.mark.parametrize("path", INSIDE)
def test_inside_is_free_to_read_and_an_edit_to_write(root: Path, path: str) -> None:
    assert read_access(root, {"path": path}) is Access.FREE
    assert write_access(root, {"path": path}) is Access.EDIT
    assert resolve_for_writing(root, path).is_relative_to(root)


@pytest.mark.parametrize("path", OUTSIDE)
def test_outside_reading_needs_approval_and_writing_is_refused(root: Path, path: str) -> None:
    assert read_access(root, {"path": path}) is Access.RUN
    with pytest.raises(ToolError, match="outside the root"):
        write_access(root, {"path": path})
    with pytest.raises(ToolError, match="outside the root"):
        resolve_for_writing(root, path)


def test_a_root_that_is_a_link_itself_holds_its_files(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    assert read_access(tmp_path / "alias", {"path": "a.txt"}) is Access.FREE
    assert read_access(tmp_path / "alias", {"path": str(root / "a.txt")}) is Access.FREE
    assert resolve(tmp_path / "alias", "a.txt") == root / "a.txt"


@pytest.mark.parametrize("path", ["", "  ", "a\0b", "x" * 300, "d/" * 3000, "\ud800"])
def test_what_can_be_no_path_is_refused(root: Path, path: str) -> None:
    with pytest.raises(ToolError):
        resolve(root, path)


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a backslash separates")
@pytest.mark.parametrize("path", ["$HOME/x", "file:///a.txt", "%2e%2e/x", "sub\\a.txt", "https://example.com/a"])
def test_spellings_that_are_no_plain_path_make_no_file(root: Path, path: str) -> None:
    with pytest.raises(ToolError, match="taken as it stands"):
        resolve(root, path)
    (root / path.replace("/", "_")).write_text("there")
    assert resolve(root, path.replace("/", "_")).exists()


@pytest.mark.parametrize(
    "path", [".env", ".mcp.json", ".git/hooks/pre-commit", "sub/.ipython/x.py", "sitecustomize.py", "x.pth", "hidden"]
)
def test_files_that_take_effect_by_being_there_are_guarded(root: Path, path: str) -> None:
    (root / "hidden").symlink_to(".env")
    assert is_guarded(root, path)
    assert write_access(root, {"path": path}) is Access.GUARDED


@pytest.mark.parametrize(
    "path",
    [
        ".bashrc",
        "sub/.mcp.json",
        "usercustomize.py",
        "SiteCustomize.py",
        "sub/a.PTH",
        "ipython_config.py",
        "jupyter_server_config.d/on.json",
        "profile_default/startup/10-mine.py",
        "sub/../.zshrc",
        "started.py",
    ],
)
def test_startup_files_are_guarded_wherever_the_root_is(root: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSTARTUP", str(root / "started.py"))
    assert write_access(root, {"path": path}) is Access.GUARDED
    startup = root / "profile_x" / "startup"
    startup.mkdir(parents=True)
    assert write_access(startup, {"path": "mine.py"}) is Access.GUARDED


@pytest.mark.parametrize("path", ["a.txt", "sub/conftest.py", "./a.txt", "sub/../a.txt", "AGENTS.md"])
def test_ordinary_files_are_not_guarded(root: Path, path: str) -> None:
    assert not is_guarded(root, path)


def test_a_root_inside_a_dot_folder_guards_nothing_by_that(tmp_path: Path) -> None:
    root = tmp_path / ".work" / "proj"
    root.mkdir(parents=True)
    assert not is_guarded(root, "a.txt")


@pytest.mark.parametrize(
    ("approve", "person", "path", "outcome"),
    [
        ("none", True, "a.txt", "runs"),
        ("none", True, "../secret.txt", "denied"),
        ("edits", True, "../secret.txt", "asked"),
        ("edits", False, "../secret.txt", "denied"),
        ("all", False, "../secret.txt", "runs"),
    ],
)
def test_reading_follows_the_approval_mode(root: Path, approve: str, person: bool, path: str, outcome: str) -> None:
    bench = Bench(root, approve=approve, person=person)
    (result,) = bench.calls(("read_file", {"path": path}))
    if outcome == "asked":
        assert result is None
        assert len(bench.asked) == 1
    else:
        assert result is not None
        assert result.ok is (outcome == "runs")


@pytest.mark.parametrize(
    ("approve", "person", "path", "outcome"),
    [
        ("none", True, "a.txt", "denied"),
        ("ask", True, "a.txt", "asked"),
        ("edits", False, "a.txt", "runs"),
        ("edits", True, ".env", "asked"),
        ("edits", False, ".env", "denied"),
        ("all", False, ".env", "runs"),
        ("all", True, "../secret.txt", "refused"),
        ("ask", True, "out-file", "refused"),
    ],
)
def test_writing_follows_the_approval_mode(root: Path, approve: str, person: bool, path: str, outcome: str) -> None:
    bench = Bench(root, approve=approve, person=person)
    (result,) = bench.calls(("write_file", {"path": path, "content": "new"}))
    if outcome == "asked":
        assert result is None
        assert len(bench.asked) == 1
        return
    assert result is not None
    assert result.ok is (outcome == "runs")
    assert ("refused" in result.text) is (outcome == "refused")
    assert (root.parent / "secret.txt").read_text() == "out\n"


def test_a_link_loop_is_told(root: Path) -> None:
    assert "loop" in Bench(root).refusal("read_file", path="loop")
