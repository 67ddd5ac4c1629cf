"""read_file, write_file and edit_file."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import stat
from pathlib import Path

import pytest

from .conftest import CASES, Bench

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def put(bench: Bench, name: str, data: bytes | str) -> Path:
    path = bench.root / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


# Reading ---------------------------------------------------------------------------------------------------------


def test_total_lines_come_first_then_numbered_lines(bench: Bench) -> None:
    path = put(bench, "a.txt", "one\ntwo\nthree")
    head, *rows = bench.text("read_file", path="a.txt").splitlines()
    assert head == f"{path}: 3 lines"
    assert [row.split("\t") for row in rows] == [["     1", "one"], ["     2", "two"], ["     3", "three"]]


@pytest.mark.parametrize("text", ["", "a", "a\n", "a\nb", "a\nb\n", "\n", "\n\n", "a\n\nb\n"])
@pytest.mark.parametrize("offset", [0, 1, 2, 5])
@pytest.mark.parametrize("limit", [1, 2, 2000])
def test_a_slice_is_what_python_would_give(bench: Bench, text: str, offset: int, limit: int) -> None:
    put(bench, "a.txt", text)
    lines = text.removesuffix("\n").split("\n") if text else []
    head, *rows = bench.text("read_file", path="a.txt", offset=offset, limit=limit).split("\n")
    assert f"{len(lines)} line" in head
    assert [row.split("\t", 1)[1] for row in rows] == lines[offset : offset + limit]
    assert ("go on with offset" in head) is (offset < len(lines) and offset + limit < len(lines))


def test_lines_of_large_files_are_found_across_blocks(bench: Bench) -> None:
    lines = [f"line {number} {'x' * (number % 300)}" for number in range(20_000)]
    put(bench, "a.txt", "\n".join(lines))
    for offset in (0, 9_999, 19_998):
        head, row = bench.text("read_file", path="a.txt", offset=offset, limit=1).split("\n")
        assert "20,000 lines" in head
        assert row.split("\t")[1] == lines[offset]


@pytest.mark.parametrize(
    ("data", "note", "line"),
    [
        (b"\xef\xbb\xbfid\r\n1\r\n", "UTF-8 with a byte order mark; CRLF line ends", "id"),
        ("\ufeffaé\n".encode("utf-16-le"), "UTF-16-LE with a byte order mark", "aé"),
        ("\ufeffaé\n".encode("utf-16-be"), "UTF-16-BE with a byte order mark", "aé"),
        (b"caf\xe9\n", "1 bytes are not UTF-8", r"caf\xe9"),
        (b"a\r\nb\n", "mixed CRLF and LF", "a"),
        ("日本\n".encode(), "1 line", "日本"),
    ],
)
def test_encodings_are_told_and_never_replaced(bench: Bench, data: bytes, note: str, line: str) -> None:
    put(bench, "a.txt", data)
    head, first, *_ = bench.text("read_file", path="a.txt").split("\n")
    assert note in head
    assert first.split("\t")[1] == line


@pytest.mark.parametrize(
    "data", [b"a\0b" * 50, b"%PDF-1.7\nx", random.Random(1).randbytes(5_000).replace(b"\0", b"\1")]
)
def test_binary_files_are_refused_with_their_size(bench: Bench, data: bytes) -> None:
    put(bench, "a.bin", data)
    assert f"binary file of {len(data):,} bytes" in bench.refusal("read_file", path="a.bin")


def test_a_missing_file_names_the_nearest(bench: Bench) -> None:
    put(bench, "sales_2024.csv", "x")
    assert "Did you mean sales_2024.csv?" in bench.refusal("read_file", path="sales2024.csv")
    assert "does not exist either" in bench.refusal("read_file", path="nowhere/a.csv")


def test_a_folder_a_pipe_and_a_device_are_no_files(bench: Bench) -> None:
    os.mkfifo(bench.root / "pipe")
    assert "list_files" in bench.refusal("read_file", path=".")
    assert "pipe" in bench.refusal("read_file", path="pipe")
    assert "device" in bench.refusal("read_file", path="/dev/zero")
    assert "pipe" in bench.refusal("edit_file", path="pipe", old="a", new="b")


def test_an_image_comes_as_an_image_and_a_damaged_one_is_refused(bench: Bench) -> None:
    put(bench, "a.png", PNG)
    result = bench.call("read_file", path="a.png")
    assert result.content[1].media_type == "image/png"
    assert base64.b64decode(result.content[1].data) == PNG
    put(bench, "b.png", PNG[:40])
    assert "damaged" in bench.refusal("read_file", path="b.png")
    put(bench, "c.png", PNG[:8] + bytes(6_000_000))
    assert "smaller copy" in bench.refusal("read_file", path="c.png")


def test_a_notebook_is_read_as_cells(bench: Bench) -> None:
    put(bench, "a.ipynb", (CASES / "K1-01.ipynb").read_bytes())
    result = bench.call("read_file", path="a.ipynb")
    assert "id=imp" in result.text
    assert result.details["seen"][str(bench.root / "a.ipynb")]["imp"]
    put(bench, "b.ipynb", "<<<<<<< HEAD\n{}")
    assert "<<<<<<< HEAD" in bench.text("read_file", path="b.ipynb")


def test_a_line_of_many_megabytes_is_cut_and_told(bench: Bench) -> None:
    with open(bench.root / "one.json", "wb") as file:
        file.write(b"[" + b"1," * 30_000_000 + b"1]")
    text = bench.text("read_file", path="one.json")
    assert "cut at 52,428,800 bytes" in text
    assert len(text) <= 30_000


# Writing ---------------------------------------------------------------------------------------------------------


def test_folders_are_made_and_the_umask_holds(bench: Bench) -> None:
    before = os.umask(0o027)
    try:
        assert "created" in bench.text("write_file", path="new/deep/a.txt", content="hi\n")
    finally:
        os.umask(before)
    path = bench.root / "new/deep/a.txt"
    assert path.read_text() == "hi\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [item.name for item in path.parent.iterdir()] == ["a.txt"]


def test_replacing_keeps_byte_order_mark_and_encoding(bench: Bench) -> None:
    path = put(bench, "a.csv", "\ufeffa\n".encode("utf-16-le"))
    assert "UTF-16-LE" in bench.text("write_file", path="a.csv", content="é\n")
    assert path.read_bytes() == "\ufeffé\n".encode("utf-16-le")


def test_a_mark_in_the_content_is_not_doubled_and_a_broken_file_can_be_replaced(bench: Bench) -> None:
    path = put(bench, "a.txt", b"\xef\xbb\xbfa\n")
    bench.text("write_file", path="a.txt", content="\ufeffb\n")
    assert path.read_bytes() == b"\xef\xbb\xbfb\n"
    path.write_bytes(b"\xff\xfea")
    assert "is not" in bench.refusal("edit_file", path="a.txt", old="a", new="b")
    bench.text("write_file", path="a.txt", content="b\n")
    assert path.read_bytes() == b"b\n"


def test_a_write_that_changes_nothing_says_so(bench: Bench) -> None:
    path = put(bench, "a.txt", "same\n")
    before = path.stat().st_mtime_ns
    assert "no change" in bench.text("write_file", path="a.txt", content="same\n")
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("path", ["a.txt/b.txt", "."])
def test_what_can_not_be_written_is_told(bench: Bench, path: str) -> None:
    put(bench, "a.txt", "x")
    bench.refusal("write_file", path=path, content="y")
    assert (bench.root / "a.txt").read_text() == "x"


def test_half_a_character_is_refused_before_anything_is_written(bench: Bench) -> None:
    assert "surrogate" in bench.refusal("write_file", path="a.txt", content="x\ud800")
    assert not (bench.root / "a.txt").exists()


def test_a_notebook_is_never_written_as_text(bench: Bench) -> None:
    path = put(bench, "a.ipynb", (CASES / "K1-01.ipynb").read_bytes())
    before = path.read_bytes()
    assert "notebook_edit" in bench.refusal("write_file", path="a.ipynb", content="{}")
    assert "notebook_edit" in bench.refusal("edit_file", path="a.ipynb", old="math", new="json")
    assert "no notebook" in bench.refusal("write_file", path="b.ipynb", content="print(1)")
    assert path.read_bytes() == before
    bench.text(
        "write_file", path="c.ipynb", content='{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    )


# Editing ---------------------------------------------------------------------------------------------------------


def test_an_edit_gives_a_diff_with_the_files_line_numbers(bench: Bench) -> None:
    put(bench, "a.txt", "".join(f"{number}\n" for number in range(1, 101)))
    text = bench.text("edit_file", path="a.txt", old="50\n", new="fifty\n")
    assert "(line 50)" in text
    assert "@@ -47,7 +47,7 @@" in text
    assert "-50\n+fifty" in text


def test_a_text_that_is_not_there_shows_the_nearest_line(bench: Bench) -> None:
    put(bench, "a.py", "def f():\n\treturn 1\n")
    assert "line 2:\n\treturn 1" in bench.refusal("edit_file", path="a.py", old="    return 1", new="x")
    assert "line 1:\ndef f():" in bench.refusal("edit_file", path="a.py", old="def g():", new="x")
    assert "line numbers" in bench.refusal("edit_file", path="a.py", old="     2\t\treturn 1", new="x")
    assert "nothing was changed" in bench.refusal("edit_file", path="a.py", old="zzzzzzz", new="x")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nnew\nc", b"a\r\nB\nnew\nc\r\n"),
        (b"a\r\nb\nc\n", "b", "b\nb2", b"a\r\nb\r\nb2\nc\n"),
        (b"a\nb\r\nc\r\n", "a\nb\n", "", b"c\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        (b"a\nb\n", "a\nb", "x\r\ny", b"x\r\ny\n"),
        (b"one\r\n", "one\n", "one\ntwo\n", b"one\r\ntwo\r\n"),
    ],
)
def test_line_ends_of_edits(bench: Bench, before: bytes, old: str, new: str, after: bytes) -> None:
    path = put(bench, "a.txt", before)
    bench.text("edit_file", path="a.txt", old=old, new=new)
    assert path.read_bytes() == after


@pytest.mark.parametrize("size", [10, 2_000_000])
def test_undo_has_what_it_needs(bench: Bench, size: int) -> None:
    before = b"x" * size + b"end"
    path = put(bench, "a.txt", before)
    undo = bench.call("edit_file", path="a.txt", old="end", new="END").details["undo"]
    kept = undo.get("before") or bench.transcript.spool.get(undo["handle"])
    assert undo["path"] == str(path)
    assert base64.b64decode(kept) == before
    assert undo["before_sha"] == hashlib.sha256(before).hexdigest()
    assert undo["after_sha"] == hashlib.sha256(path.read_bytes()).hexdigest()
    json.dumps(undo)
    assert bench.call("write_file", path="b.txt", content="x").details["undo"]["before_sha"] is None


def test_edits_of_one_file_in_one_reply_run_in_call_order(bench: Bench) -> None:
    path = put(bench, "a.txt", "0")
    edits = [
        ("edit_file", {"path": name, "old": str(n), "new": str(n + 1)})
        for n, name in enumerate(["a.txt", "./a.txt"] * 8)
    ]
    results = bench.calls(*edits)
    assert all(result is not None and result.ok for result in results)
    assert path.read_text() == "16"
