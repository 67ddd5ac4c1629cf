"""Names of cells, and cells as text for a model."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path

import pytest

from cumulus_jupyter.agent.errors import ToolError
from cumulus_jupyter.notebook.cells import cell_views, find_cell, render_cells, unified_diff
from cumulus_jupyter.notebook.disk import DiskNotebook
from cumulus_jupyter.notebook.outputs import render_outputs, usable_image


def raw(source: str, **more) -> dict:
    return {"cell_type": "raw", "metadata": {}, "source": source, **more}


def written(tmp_path: Path, cells: list[dict], minor: int) -> DiskNotebook:
    path = tmp_path / "nb.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": minor}, indent=1))
    return DiskNotebook(path)


def sources(notebook: DiskNotebook) -> list[str]:
    return [cell.source for cell in notebook.read().cells]


def test_an_alias_still_names_its_cell_after_edits_above_it(tmp_path):
    notebook = written(tmp_path, [raw("a"), raw("b"), raw("c")], 4)
    a, b, c = (cell.id for cell in notebook.read().cells)
    notebook.insert("raw", "new", before=a)
    notebook.delete(b)
    notebook.replace(c, "C")
    assert sources(notebook) == ["new", "a", "C"]
    with pytest.raises(ToolError, match="changed or is gone since it was read"):
        notebook.replace(b, "x")


def test_equal_cells_have_aliases_of_their_own_that_fail_once_their_number_changes(tmp_path):
    notebook = written(tmp_path, [raw(""), raw("x"), raw(""), raw("")], 4)
    one, x, two, three = (cell.id for cell in notebook.read().cells)
    assert len({one, two, three}) == 3
    notebook.insert("raw", "above", before=one)
    notebook.replace(two, "second")
    assert sources(notebook) == ["above", "", "x", "second", ""]
    with pytest.raises(ToolError, match="now has equals"):
        notebook.replace(three, "third")
    notebook.replace(x, "X")
    assert sources(notebook) == ["above", "", "X", "second", ""]


def test_a_repeated_id_names_no_cell_but_each_has_an_alias(tmp_path):
    notebook = written(tmp_path, [raw("a", id="twin"), raw("b", id="twin"), raw("c", id="own")], 5)
    before = Path(notebook.path).read_bytes()
    first, second, third = notebook.read().cells
    assert third.id == "own"
    with pytest.raises(ToolError, match=rf"2 cells of this notebook share the id 'twin'. .*{first.id} \(cell 1\)"):
        notebook.delete("twin")
    assert Path(notebook.path).read_bytes() == before
    result = notebook.replace(second.id, "B")
    assert sources(notebook) == ["a", "B", "c"]
    assert "not valid before either (id 'twin': 2 cells have it)" in result.note


def test_ids_that_are_missing_or_malformed_get_aliases_and_stay_as_they_are(tmp_path):
    odd = [raw("a"), raw("b", id="x" * 5000), raw("c", id=""), raw("d", id=7), raw("e", id="two words")]
    notebook = written(tmp_path, odd, 5)
    assert all(cell.id == f"#{cell.hash}" for cell in notebook.read().cells)
    notebook.edit("two words", "e", "E")
    for cell in notebook.read().cells:
        notebook.replace(cell.id, cell.source * 2)
    stored = json.loads(Path(notebook.path).read_text())["cells"]
    assert [cell.get("id") for cell in stored] == [cell.get("id") for cell in odd]
    assert ["".join(cell["source"]) for cell in stored] == ["aa", "bb", "cc", "dd", "EE"]


def test_the_list_of_real_ids_is_bounded():
    views = cell_views([raw("long line " * 50, id=f"cell{at}") for at in range(2000)])
    with pytest.raises(ToolError, match="and 1,970 more") as error:
        find_cell(views, "z" * 10_000)
    assert len(str(error.value)) < 5000


def test_a_header_gives_id_kind_count_size_hash_tags_attachments():
    code = {"cell_type": "code", "id": "c", "metadata": {"tags": ["parameters"]}, "execution_count": 5, "outputs": []}
    cells = [{**code, "source": ["a\n", "b"]}, raw("r", id="r", attachments={"dot.png": {}})]
    views = cell_views(cells)
    text, _ = render_cells(views)
    assert text == (
        f"[1] id=c code In [5] (2 lines, hash {views[0].hash}, tags parameters)\na\nb\n\n"
        f"[2] id=r raw (1 line, hash {views[1].hash}, attachments dot.png)\nr"
    )


def with_outputs(*outputs: dict) -> list:
    cell = {"cell_type": "code", "id": "c", "metadata": {}, "execution_count": None, "source": "s"}
    return cell_views([{**cell, "outputs": list(outputs)}])


def bundle(**data) -> dict:
    return {"output_type": "display_data", "metadata": {}, "data": {key.replace("_", "/"): data[key] for key in data}}


def test_outputs_are_shown_without_colour_codes_and_other_kinds_by_their_size():
    error = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[0;31mE\x1b[0m", "last: v"]}
    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "Slider()"}
    views = with_outputs(
        error,
        bundle(text_html="<b>" * 100, text_plain=["a\n", "b"]),
        {"output_type": "display_data", "metadata": {}, "data": widget},
        bundle(text_html=["<p>", "</p>"]),
        {"output_type": "odd"},
    )
    text, images = render_cells(views)
    assert images == []
    assert text.split("--- ")[1:] == [
        "output 1/5: error\nE\nlast: v\n",
        "output 2/5: display_data\na\nb\n(text/html, 300 characters: not shown)\n",
        "output 3/5: display_data\nSlider()\n(widget view)\n",
        "output 4/5: display_data\n(text/html, 7 characters: not shown)\n",
        "output 5/5: odd without data",
    ]
    assert render_cells(views, outputs=False)[0].endswith("\ns\n(5 outputs not shown)")


def test_a_long_output_keeps_its_head_and_tail():
    text, _ = render_cells(with_outputs({"output_type": "stream", "name": "stderr", "text": "a" * 5000 + "END"}))
    assert "… 3,003 of 5,003 characters left out …" in text
    assert text.endswith("END")
    assert len(text) < 2200


def test_many_outputs_are_shown_from_both_ends():
    text, _ = render_cells(with_outputs(*[bundle(text_plain=f"<{at}>") for at in range(10_000)]))
    assert "… 9,980 outputs left out …" in text
    assert [f"<{at}>" in text for at in (0, 9, 10, 9989, 9990, 9999)] == [True, True, False, False, True, True]


def png(width: int = 1, height: int = 1, padding: int = 0) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(bytes((width + 1) * height)) if width * height < 100 else b""
    text = [chunk(b"tEXt", b"k\0" + bytes(padding))] if padding else []
    return b"".join([b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", header), *text, chunk(b"IDAT", body), chunk(b"IEND", b"")])


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("media_type", "data", "good"),
    [
        ("image/png", base64.encodebytes(png()).decode(), True),
        ("image/png", encoded(png()[:-20]), False),
        ("image/png", encoded(png()[:30] + b"?" + png()[31:]), False),
        ("image/png", encoded(png(9000, 1)), False),
        ("image/png", encoded(b"\xff\xd8\xff\xe0 jpeg \xff\xd9"), False),
        ("image/png", "A" * 1000, False),
        ("image/png", "not*base64", False),
        ("image/png", "é", False),
        ("image/png", "", False),
        ("image/jpeg", encoded(b"\xff\xd8\xff\xe0 body \xff\xd9\n"), True),
        ("image/jpeg", encoded(b"\xff\xd8\xff\xe0 cut"), False),
    ],
)
def test_only_whole_pictures_of_the_declared_type_are_sent(media_type, data, good):
    assert (usable_image(media_type, data) is not None) == good


def test_pictures_are_bounded_in_size_and_number():
    views = with_outputs(bundle(image_png=encoded(png(padding=1_200_000))), *[bundle(image_png=encoded(png()))] * 12)
    text, images = render_cells(views)
    assert len(images) == 10
    assert "characters of base64: too large to show)" in text
    assert text.count("image not shown, there are too many") == 2


def test_a_lone_surrogate_of_a_file_is_not_passed_on_to_a_request():
    text, _ = render_cells(cell_views([raw("half \ud83d", id="r")]))
    text.encode()


def test_a_diff_shows_the_lines_that_changed():
    assert unified_diff("a\nb\nc", "a\nB\nc") == "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"
    assert unified_diff("same", "same") == ""
    assert "too long for a diff" in unified_diff("x\n" * 6000, "y")


def test_what_a_page_did_not_send_counts() -> None:
    """A page cuts long texts in their middle; the model is told the true size."""
    sent = "a" * 2_000 + "\n[… 21000 characters left out …]\n" + "b" * 2_000
    stream = {"output_type": "stream", "name": "stdout", "text": sent}
    picture = {"output_type": "display_data", "data": {"image/png": sent}}
    text, images = render_outputs([stream, picture])
    assert "… 23,000 of 25,000 characters left out …" in text
    assert "25,000 characters of base64: not shown, read this cell alone" in text
    assert not images
