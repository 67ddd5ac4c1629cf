"""Public bug reports about file and shell tools, each with the outcome that is right."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import CASES, Bench

Case = Callable[[str], Path]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


@pytest.fixture
def proj(tmp_path: Path) -> Bench:
    subprocess.run(["bash", str(CASES / "K5-01.sh")], cwd=tmp_path, check=True)
    return Bench(tmp_path / "base" / "proj", approve="edits")


PATHS = (CASES / "K5-01.txt").read_bytes().decode().splitlines()
GOOD = ("./sub/./a.txt", "sub//a.txt")


@pytest.mark.parametrize("path", PATHS)
def test_k5_01_only_paths_inside_the_root_are_reached(proj: Bench, tmp_path: Path, path: str) -> None:
    before = snapshot(tmp_path)
    good = path in GOOD
    assert proj.call("read_file", path=path).ok is good
    assert proj.call("search_files", regex=".", path=path).ok is good
    assert not proj.call("list_files", path=path).ok
    assert not proj.call("notebook_edit", operation="insert", source="x = 1", path=path).ok
    assert snapshot(tmp_path) == before
    assert proj.call("write_file", path=path, content="new\n").ok is good
    changed = {name for name, data in snapshot(tmp_path).items() if before.get(name) != data}
    assert changed == ({str(proj.root / "sub/a.txt")} if good else set())


@pytest.mark.parametrize("path", [path for path in PATHS if path not in GOOD])
def test_k5_01_nothing_of_outside_files_is_told(proj: Bench, path: str) -> None:
    for name, arguments in (("read_file", {}), ("search_files", {"regex": "."}), ("list_files", {})):
        text = proj.refusal(name, path=path, **arguments)
        assert "key" not in text.replace(path, "")


def test_k5_01_absolute_paths_count_by_where_they_lead(proj: Bench, tmp_path: Path) -> None:
    assert "ok" in proj.text("read_file", path=str(proj.root / "sub" / "a.txt"))
    assert "denied" in proj.refusal("read_file", path=str(tmp_path / "base" / "proj-secret" / "k.txt"))


@pytest.mark.parametrize(
    ("name", "old", "new", "before", "after"),
    [
        ("K5-03-latin1.py", "rate = 4", "rate = 6", b"rate = 4", b"rate = 6"),
        ("K5-03-bom.txt", "1", "2", b"1", b"2"),
        ("K5-03-utf16.csv", "1", "2", b"1\0", b"2\0"),
        ("K5-03-cut.txt", "ok", "no", b"ok", b"no"),
    ],
)
def test_k5_03_all_other_bytes_stay(
    bench: Bench, case: Case, name: str, old: str, new: str, before: bytes, after: bytes
) -> None:
    path = case(name)
    wanted = path.read_bytes().replace(before, after, 1)
    bench.text("read_file", path=name)
    bench.text("edit_file", path=name, old=old, new=new)
    assert path.read_bytes() == wanted
    assert b"\xef\xbf\xbd" not in path.read_bytes()


def test_k5_03_text_that_an_unknown_encoding_can_not_take_is_refused(bench: Bench, case: Case) -> None:
    path = case("K5-03-latin1.py")
    before = path.read_bytes()
    assert "only ASCII" in bench.refusal("edit_file", path=path.name, old="rate = 4", new="größe = 4")
    assert path.read_bytes() == before


def test_k5_04_line_ends_stay_line_by_line(bench: Bench, case: Case) -> None:
    crlf, mixed = case("K5-04-crlf.txt"), case("K5-04-mixed.txt")
    bench.text("edit_file", path=crlf.name, old="one\ntwo", new="one\nTWO")
    assert crlf.read_bytes() == b"one\r\nTWO\r\nthree\r\n"
    bench.text("edit_file", path=mixed.name, old="three", new="3")
    assert mixed.read_bytes() == b"one\r\ntwo\n3\r\nfour"


def test_k5_04_a_replaced_file_keeps_crlf_and_says_so(bench: Bench, case: Case) -> None:
    path = case("K5-04-crlf.txt")
    assert "CRLF" in bench.text("write_file", path=path.name, content="a\nb\n")
    assert path.read_bytes() == b"a\r\nb\r\n"
    bench.text("write_file", path=path.name, content="a\r\nb\nc\n")
    assert path.read_bytes() == b"a\r\nb\nc\n"


def test_k5_05_ambiguous_edits_are_refused_with_their_places(bench: Bench, case: Case) -> None:
    oven, overlap = case("K5-05.py"), case("K5-05-overlap.txt")
    before = oven.read_bytes(), overlap.read_bytes()
    assert "2 times, at lines 2, 5" in bench.refusal("edit_file", path=oven.name, old="    limit = 90", new="x")
    assert "2 times, at lines 1, 2" in bench.refusal("edit_file", path=overlap.name, old="--\n--\n", new="x")
    assert "overlap" in bench.refusal("edit_file", path=overlap.name, old="--\n--\n", new="x", all=True)
    assert "empty" in bench.refusal("edit_file", path=oven.name, old="", new="x")
    assert "equal" in bench.refusal("edit_file", path=oven.name, old="limit", new="limit")
    assert (oven.read_bytes(), overlap.read_bytes()) == before
    bench.text("edit_file", path=oven.name, old="    limit = 90", new="    limit = 80", all=True)
    assert oven.read_bytes().count(b"limit = 80") == 2


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository of 200 commits with a staged file."""
    folder = tmp_path_factory.mktemp("repo")

    def git(*arguments: str, text: str | None = None) -> None:
        subprocess.run(["git", *arguments], cwd=folder, check=True, input=text, text=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for key, value in (("user.name", "t"), ("user.email", "t@example.com")):
        git("config", key, value)
    commits = "".join(
        f"commit refs/heads/main\ncommitter t <t@example.com> {10**9 + n} +0000\ndata 9\nchange {n % 10}\n\n"
        for n in range(200)
    )
    git("fast-import", "--quiet", text=commits)
    (folder / "staged.txt").write_text("x\n")
    git("add", "staged.txt")
    return folder


@pytest.mark.parametrize("command", [part.strip() for part in (CASES / "K5-07.txt").read_text().split("---")])
def test_k5_07_nothing_waits_for_a_person(repository: Path, command: str) -> None:
    result = Bench(repository).call("run_shell", command=command, timeout=10)
    assert "ended here" not in result.text
    assert "non-interactive" in result.text
    if command == "git log":
        assert result.text.count("change") == 200


def made(tmp_path: Path, *, small: bool) -> Path:
    script = (CASES / "K5-09.sh").read_text()
    if small:
        script = script.replace("seq 200", "seq 10").replace("seq 300", "seq 10")
    subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True)
    return tmp_path / "big"


@pytest.mark.parametrize("small", [True, pytest.param(False, marks=pytest.mark.long)])
def test_k5_09_search_skips_what_is_no_source_and_says_so(tmp_path: Path, small: bool) -> None:
    bench = Bench(made(tmp_path, small=small))
    found = bench.text("search_files", regex="needle")
    assert "src/a.py:1: needle here" in found
    for said in ("node_modules/", ".git/", "1 over 20 MB (model.bin)", "1 link not followed"):
        assert said in found
    for pattern in ("**", "**/*"):
        listed = bench.text("list_files", pattern=pattern)
        assert "2 match" in listed
        assert "src/a.py" in listed
        assert "node_modules/" in listed.splitlines()[1]


def test_k5_09_the_list_is_capped_with_the_real_count(tmp_path: Path) -> None:
    for number in range(2_100):
        (tmp_path / f"f{number}.txt").touch()
    bench = Bench(tmp_path)
    text = bench.text("list_files")
    assert "2,100 match" in text
    assert "the first 2,000 listed" in text


def test_k5_10_binary_long_and_empty_files(bench: Bench) -> None:
    subprocess.run([sys.executable, str(CASES / "K5-10-bin.py")], cwd=bench.root, check=True)
    assert "binary file of 1,024,000 bytes" in bench.refusal("read_file", path="a.bin")
    assert "(empty file)" in bench.text("read_file", path="empty.txt")
    first = bench.call("read_file", path="one.json")
    assert first.handle
    assert len(first.text) <= 30_000
    pages, offset = [], 0
    while True:
        head, _, page = bench.text("read_result", handle=first.handle, offset=offset).partition("\n")
        pages.append(page)
        if "next offset" not in head:
            break
        offset = int(head.rpartition(" ")[2])
    assert "".join(pages).endswith((bench.root / "one.json").read_text())


@pytest.fixture
def linked(bench: Bench) -> Bench:
    subprocess.run(["bash", str(CASES / "K5-12.sh")], cwd=bench.root, check=True)
    return bench


def test_k5_12_mode_and_links_stay(linked: Bench) -> None:
    root = linked.root
    linked.text("edit_file", path="go.sh", old="red", new="blue")
    assert stat.S_IMODE((root / "go.sh").stat().st_mode) == 0o755
    linked.text("edit_file", path="alias.txt", old="blue", new="grey")
    assert (root / "alias.txt").is_symlink()
    assert (root / "colours.txt").read_text() == "sky: grey\n"
    assert (root / "hard.txt").read_text() == "sky: grey\n"


def test_k5_12_a_read_only_file_is_refused(linked: Bench) -> None:
    assert "read-only (mode 0444)" in linked.refusal("edit_file", path="ro.txt", old="a", new="b")
    assert "read-only" in linked.refusal("write_file", path="ro.txt", content="b")
    assert (linked.root / "ro.txt").read_bytes() == b"a"


WRITER = """
from pathlib import Path
from cumulus_jupyter.tools.textfile import write_bytes
print("go", flush=True)
while True:
    for letter in (b"a", b"b"):
        write_bytes(Path("big.txt"), letter * 20_000_000)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_k5_12_a_killed_write_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "big.txt"
    path.write_bytes(b"b" * 20_000_000)
    for delay in (0.01, 0.03, 0.06):
        source = str(Path(__file__).parents[2])
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": source},
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        data = path.read_bytes()
        assert len(data) == 20_000_000
        assert data.count(data[:1]) == len(data)
