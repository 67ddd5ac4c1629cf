"""Random edits of notebooks in many formats: the file is always what its own writer would have made of the outcome."""

from __future__ import annotations

import copy
import json
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from cumulus_jupyter.notebook.disk import DiskNotebook

LINES = ["x = 1", "", "  y = 'é'", 'print("\\n")', "# 日本語 😀", "\ttab", "a\\b", "</script>", "z\x0b\x1b[0m", "end"]
ORDERS = {
    "sorted": sorted(["cell_type", "execution_count", "id", "metadata", "outputs", "source", "attachments"]),
    "source first": ["cell_type", "source", "metadata", "execution_count", "outputs", "id", "attachments"],
}


@dataclass
class Format:
    """How one writer lays a notebook out."""

    indent: int | str | None
    separators: tuple[str, str]
    ascii: bool
    crlf: bool
    bom: bool
    final: bool
    lists: bool
    order: str
    minor: int

    def encode(self, notebook: dict[str, Any]) -> bytes:
        value = copy.deepcopy(notebook)
        for at, cell in enumerate(value["cells"]):
            if self.lists:
                cell["source"] = cell["source"].splitlines(keepends=True)
            value["cells"][at] = {key: cell[key] for key in ORDERS[self.order] if key in cell}
        text = json.dumps(value, indent=self.indent, separators=self.separators, ensure_ascii=self.ascii)
        text = re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)
        text = text.replace("\n", "\r\n") if self.crlf else text
        end = ("\r\n" if self.crlf else "\n") if self.final else ""
        return (b"\xef\xbb\xbf" if self.bom else b"") + (text + end).encode()


def any_format(rng: random.Random) -> Format:
    indent = rng.choice([1, 1, 2, 4, 0, "\t", None, None])
    separators = rng.choice([(", ", ": "), (",", ":")]) if indent is None else rng.choice([(",", ": "), (",", " : ")])
    flags = [rng.random() < 0.4 for _ in range(4)]
    return Format(indent, separators, *flags, rng.random() < 0.6, rng.choice(list(ORDERS)), rng.choice([0, 2, 4, 5, 5]))


def any_source(rng: random.Random) -> str:
    return "\n".join(rng.choice(LINES) for _ in range(rng.randrange(5)))


def any_cell(rng: random.Random, fmt: Format, number: int) -> dict[str, Any]:
    kind = rng.choice(["code", "code", "markdown", "raw"])
    source = f"# {number}\n{any_source(rng)}" + ("\ud83d" if fmt.ascii and rng.random() < 0.2 else "")
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {"tags": ["ä"], "deep": [[{"n": [1.50, None]}]]}}
    cell["source"] = source
    if kind == "code":
        text = {"output_type": "stream", "name": "stdout", "text": ["1\n", "2"]}
        cell |= {"execution_count": rng.choice([None, 7]), "outputs": [text] * rng.randrange(3)}
    if fmt.minor >= 5:
        cell["id"] = f"cell-{number}"
    return cell


def any_notebook(rng: random.Random, fmt: Format) -> dict[str, Any]:
    cells = [any_cell(rng, fmt, number) for number in range(rng.randrange(1, 7))]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Pÿthon"}, "unknown": {"cells": [1, "cells"]}}
    return {"metadata": kernel, "cells": cells, "nbformat": 4, "nbformat_minor": fmt.minor}


def any_edit(rng: random.Random, notebook: DiskNotebook, value: dict[str, Any]) -> bool:
    """Do one edit in the file and, in its own way, in ``value``; whether its layout is that of the file's writer."""
    views, cells = notebook.read().cells, value["cells"]
    if not cells or rng.random() < 0.3:
        return insert(rng, notebook, views, cells)
    at = rng.randrange(len(cells))
    operation = rng.choice(["replace", "edit", "delete", "move", "set_kind", "clear_outputs"])
    guard = {"expected_hash": views[at].hash}
    if operation == "replace":
        cells[at]["source"] = any_source(rng)
        notebook.replace(views[at].id, cells[at]["source"], **guard)
    elif operation == "edit":
        old = cells[at]["source"].split("\n")[0]
        if not old or cells[at]["source"].count(old) > 1:
            return True
        cells[at]["source"] = cells[at]["source"].replace(old, "# ö\nnew")
        notebook.edit(views[at].id, old, "# ö\nnew", **guard)
    elif operation == "delete":
        notebook.delete(views[at].id, **guard)
        del cells[at]
    elif operation == "move":
        to = rng.randrange(len(cells))
        notebook.move(views[at].id, **{"before" if to <= at else "after": views[to].id}, **guard)
        cells.insert(to, cells.pop(at))
    elif operation == "set_kind":
        return set_kind(rng, notebook, views[at].id, cells[at])
    elif cells[at]["cell_type"] == "code":
        notebook.clear_outputs(views[at].id, **guard)
        cells[at] |= {"outputs": [], "execution_count": None}
    return True


def insert(rng: random.Random, notebook: DiskNotebook, views: list[Any], cells: list[dict[str, Any]]) -> bool:
    kind, source, at = rng.choice(["code", "markdown", "raw"]), any_source(rng), rng.randrange(len(cells) + 1)
    where = {} if at == len(cells) else {"before": views[at].id}
    shown = any(cell["cell_type"] == kind for cell in cells) and any(cell["source"] for cell in cells)
    made = notebook.insert(kind, source, **where)
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": source}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    if not made.cell_id.startswith("#"):
        cell["id"] = made.cell_id
    cells.insert(at, cell)
    return shown


def set_kind(rng: random.Random, notebook: DiskNotebook, cell_id: str, cell: dict[str, Any]) -> bool:
    kind = rng.choice(["code", "markdown", "raw"])
    notebook.set_kind(cell_id, kind)
    grows = kind == "code" and cell["cell_type"] != "code"
    cell["cell_type"] = kind
    if kind != "code":
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
    cell |= {"outputs": [], "execution_count": None} if grows else {}
    return not grows


@pytest.mark.parametrize("seed", range(80))
def test_after_random_edits_every_byte_is_as_the_files_own_writer_would_write_it(tmp_path: Path, seed: int):
    rng = random.Random(seed)
    fmt = any_format(rng)
    value = any_notebook(rng, fmt)
    path = tmp_path / "nb.ipynb"
    path.write_bytes(fmt.encode(value))
    same_layout = True
    for _ in range(6):
        shown = any_edit(rng, DiskNotebook(path), value)
        same_layout = same_layout and (shown or (fmt.order == "sorted" and fmt.lists))
        data = path.read_bytes()
        found = json.loads(data.decode("utf-8-sig"))
        nbformat.validate(copy.deepcopy(found))
        expected = json.loads(fmt.encode(value).decode("utf-8-sig"))
        joined = [{**cell, "source": "".join(cell["source"])} for cell in found["cells"]]
        assert joined == [{**cell, "source": "".join(cell["source"])} for cell in expected["cells"]]
        assert data.count(b"\r\n") == (data.count(b"\n") if fmt.crlf else 0)
        if same_layout:
            assert data == fmt.encode(value)
