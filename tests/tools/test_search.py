"""list_files and search_files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cumulus_jupyter.tools import search
from cumulus_jupyter.tools.walk import glob_matcher

from .conftest import CASES, Bench


def tree(root: Path, *names: str, text: str = "needle\n") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def listed(bench: Bench, **arguments: object) -> list[str]:
    return [row for row in bench.text("list_files", **arguments).splitlines()[1:] if not row.startswith("(")]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("**/*", ["a", "d/a", "d/e/a.py"], []),
        ("**", ["a", "d/a"], []),
        ("*", ["a", "b.py"], ["d/a"]),
        ("*.py", ["b.py", "d/b.py"], ["b.pyc", "b.py/c"]),
        ("d/*.py", ["d/b.py"], ["b.py", "d/e/b.py", "x/d/b.py"]),
        ("d/**", ["d/b", "d/e/b"], ["b", "dd/b"]),
        ("d/", ["d/b", "d/e/b"], ["e/d2"]),
        ("**/e/*", ["d/e/a", "e/a"], ["d/a", "d/e/f/a"]),
        ("src/**/test_?.{py,md}", ["src/test_a.py", "src/x/y/test_b.md"], ["src/test_ab.py", "test_a.py"]),
        ("[ab].txt", ["a.txt", "d/b.txt"], ["c.txt"]),
        ("./a/*", ["a/b"], ["b"]),
        ("a*b?.txt", ["axxbc.txt"], ["ab.txt"]),
    ],
)
def test_globs(pattern: str, yes: list[str], no: list[str]) -> None:
    matches = glob_matcher(pattern)
    assert [path for path in yes if not matches(path)] == []
    assert [path for path in no if matches(path)] == []


def test_gitignore_nested_negated_and_anchored(bench: Bench) -> None:
    tree(
        bench.root, "a.log", "keep.log", "build/x.py", "src/build/y.py", "src/z.tmp", "src/deep/w.tmp", "src/deep/v.tmp"
    )
    (bench.root / ".gitignore").write_text("*.log\n!keep.log\n/build/\n*.tmp\n# comment\n")
    (bench.root / "src/deep/.gitignore").write_text("!w.tmp\n")
    assert listed(bench) == [".gitignore", "keep.log", "src/build/y.py", "src/deep/.gitignore", "src/deep/w.tmp"]
    assert listed(bench, path="src") == ["build/y.py", "deep/.gitignore", "deep/w.tmp"]


def test_what_is_named_is_listed_though_it_is_ignored(bench: Bench) -> None:
    tree(bench.root, "build/x.py", "node_modules/m/i.js")
    (bench.root / ".gitignore").write_text("build/\n")
    assert listed(bench, path="build") == ["x.py"]
    assert listed(bench, path="node_modules") == ["m/i.js"]


def test_virtual_environments_are_skipped_whatever_their_name(bench: Bench) -> None:
    tree(bench.root, "myenv/pyvenv.cfg", "myenv/lib/a.py", "b.py")
    assert listed(bench) == ["b.py"]
    assert "myenv/" in bench.text("list_files")


def test_links_are_listed_but_never_followed(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    tree(outside, "secret.txt", text="needle secret\n")
    tree(bench.root, "a.txt")
    (bench.root / "link.txt").symlink_to(outside / "secret.txt")
    (bench.root / "folder").symlink_to(outside)
    (bench.root / "gone").symlink_to("nowhere")
    assert listed(bench) == ["a.txt", "gone -> nowhere", f"link.txt -> {outside}/secret.txt"]
    text = bench.text("search_files", regex="needle")
    assert "secret" not in text
    assert "1 matching line in 1 of 1 files" in text
    assert "3 links not followed" in text


def test_folders_show_where_the_pattern_asks_for_one_level(bench: Bench) -> None:
    tree(bench.root, "a.txt", "d/b.txt", "d/e/c.txt")
    assert listed(bench, pattern="*") == ["a.txt", "d/"]
    assert listed(bench, pattern="d/*") == ["d/b.txt", "d/e/"]


def test_context_lines_and_long_lines(bench: Bench) -> None:
    rows = [f"row {number}" for number in range(1, 21)]
    rows[4] = rows[6] = "needle"
    rows[14] = "x" * 5_000 + "needle" + "y" * 5_000
    tree(bench.root, "a.txt", text="\n".join(rows))
    found = bench.text("search_files", regex="needle", context=1).splitlines()[1:]
    assert [row.split(" ")[0] for row in found[:6]] == [
        "a.txt:4-",
        "a.txt:5:",
        "a.txt:6-",
        "a.txt:7:",
        "a.txt:8-",
        "--",
    ]
    long = next(row for row in found if row.startswith("a.txt:15:"))
    assert "needle" in long
    assert "(10,006 characters)" in long
    assert len(long) < 600


def test_matches_are_counted_beyond_those_shown(bench: Bench) -> None:
    tree(bench.root, "a.txt", "b.txt", text="needle\n" * 300)
    text = bench.text("search_files", regex="needle", max=10)
    assert "600 matching lines in 2 of 2 files" in text
    assert text.count("needle") == 10


@pytest.mark.parametrize(
    ("regex", "count"),
    [("^b$", 1), (r"a\nb", 0), (r"\Ab", 1), (r"b\Z", 1), (r"^\s*$", 1), ("a(?!b)", 1), ("(?i)B", 1), (r"c\r?$", 1)],
)
def test_a_line_is_matched_alone(bench: Bench, regex: str, count: int) -> None:
    tree(bench.root, "a.txt", text="a\nb\n\nc\r\n")
    assert f"{count} matching" in bench.text("search_files", regex=regex)


def test_a_wrong_expression_is_told(bench: Bench) -> None:
    assert "is wrong" in bench.refusal("search_files", regex="a(b")


def test_an_expression_without_end_is_stopped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_SECONDS", 0.3)
    tree(bench.root, "a.txt", text="a" * 60 + "b")
    text = bench.text("search_files", regex=r"(?:a|a|aa)+(?:x|y|(?:a|aa)+)+$")
    assert "stopped after 0.3 s in a.txt" in text


def test_notebooks_are_searched_by_their_cells_source(bench: Bench) -> None:
    shutil.copyfile(CASES / "K1-01.ipynb", bench.root / "a.ipynb")
    assert "a.ipynb [cell imp]:1: import math" in bench.text("search_files", regex="import math")
    assert "0 matching" in bench.text("search_files", regex="nbformat_minor")


def test_binary_files_are_counted_and_utf16_is_read(bench: Bench) -> None:
    (bench.root / "a.bin").write_bytes(b"\0needle")
    (bench.root / "b.txt").write_bytes("\ufeffneedle é\n".encode("utf-16-le"))
    (bench.root / "c.txt").write_bytes(b"needle \xe9\n")
    text = bench.text("search_files", regex="needle")
    assert "2 matching lines in 2 of 2 files" in text
    assert "1 binary" in text
    assert "b.txt:1: needle é" in text


def test_one_file_can_be_searched(bench: Bench) -> None:
    tree(bench.root, "a.txt", "b.txt")
    assert "1 matching line in 1 of 1 files" in bench.text("search_files", regex="needle", path="a.txt")
    assert "is a file" in bench.refusal("list_files", path="a.txt")
    assert "there is no file" in bench.refusal("search_files", regex="x", path="nowhere")
