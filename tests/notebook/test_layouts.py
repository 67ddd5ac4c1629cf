"""Hand-made and foreign layouts: what an edit doesn't name keeps its bytes."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from cumulus_jupyter.notebook.disk import DiskNotebook, create_notebook

MIXED = """{
  "nbformat": 4, "nbformat_minor": 5,
  "metadata": {"title": "caf\\u00e9 \\/ \u00fc", "big": 1.50e+2, "none": NaN},
  "cells": [
    { "cell_type" : "code", "id": "a", "metadata": {}, "execution_count": 1,
      "outputs": [{"output_type": "stream", "name": "stdout", "text": "\\u00e9\\n"}],
      "source": ["x = '\\u00e9'\\n", "y = '\u00e9'\\n", "z = 1"] },

    {"cell_type": "markdown", "metadata": {"tags": ["t"]}, "id": "b", "source": "one \\/ \\u00e9\\ntwo\\nthree"}
  ]
}
"""


def written(tmp_path: Path, text: str, name: str = "nb.ipynb") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def test_a_changed_line_leaves_the_escapes_and_spaces_of_all_others(tmp_path):
    path = written(tmp_path, MIXED)
    DiskNotebook(path).edit("a", "z = 1", "z = 'ö'\nw = 2")
    DiskNotebook(path).edit("b", "two", "deux é")
    expected = MIXED.replace('"z = 1"', '"z = \'ö\'\\n", "w = 2"').replace("two", "deux é")
    assert path.read_bytes().decode() == expected


def test_edits_of_whole_cells_keep_the_bytes_of_the_others_in_a_mixed_layout(tmp_path):
    path = written(tmp_path, MIXED)
    first, second = MIXED[MIXED.index('{ "cell') : MIXED.index(",\n\n")], MIXED[MIXED.index('{"cell_type": "mark') : -8]
    DiskNotebook(path).move("a", after="b")
    assert path.read_text(encoding="utf-8").index(second) < path.read_text(encoding="utf-8").index(first)
    made = DiskNotebook(path).insert("markdown", "new", before="b")
    text = path.read_text(encoding="utf-8")
    assert first in text
    assert second in text
    assert f'{{"cell_type": "markdown", "metadata": {{}}, "id": "{made.cell_id}", "source": "new"}}' in text
    DiskNotebook(path).delete("a")
    DiskNotebook(path).delete(made.cell_id)
    assert path.read_text(encoding="utf-8") == MIXED.replace(first + ",\n\n    ", "")


def test_the_only_cell_of_a_text_form_file_keeps_its_form(tmp_path):
    path = written(
        tmp_path,
        '{"cells":[{"cell_type":"raw","metadata":{},"source":""}],"metadata":{},"nbformat":4,"nbformat_minor":4}',
    )
    cell = DiskNotebook(path).read().cells[0]
    DiskNotebook(path).replace(cell.id, 'a "b"\n')
    assert '"source":"a \\"b\\"\\n"}' in path.read_text()


def test_lists_split_at_line_feeds_only_stay_so(tmp_path):
    lines = ["a\x0cb\n", "c\u2028d\n", "e"]
    value = {"cells": [{"cell_type": "raw", "id": "r", "metadata": {}, "source": lines}], "metadata": {}}
    path = written(tmp_path, json.dumps({**value, "nbformat": 4, "nbformat_minor": 5}, indent=1))
    before = path.read_text()
    DiskNotebook(path).edit("r", "e", "f")
    assert path.read_text() == before.replace('"e"', '"f"')


def test_repeated_keys_are_edited_where_readers_look(tmp_path):
    text = (
        '{"cells": [], "metadata": {}, "cells": [{"cell_type": "raw", "outputs": [], "cell_type": "code", "id": "a", '
        '"outputs": [], "metadata": {}, "execution_count": null, "source": ["old"], "source": ["x"]}], '
        '"nbformat": 4, "nbformat_minor": 5}'
    )
    path = written(tmp_path, text)
    DiskNotebook(path).replace("a", "y")
    assert path.read_text() == text.replace('["x"]', '["y"]')
    DiskNotebook(path).set_kind("a", "markdown")
    assert '"outputs"' not in path.read_text()
    nbformat.validate(json.loads(path.read_text()))


def test_a_source_with_carriage_returns_keeps_them(tmp_path):
    value = {"cells": [{"cell_type": "raw", "id": "r", "metadata": {}, "source": ["a\r\n", "b\r\n", "c"]}]}
    path = written(tmp_path, json.dumps({**value, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1))
    before = path.read_text()
    DiskNotebook(path).edit("r", "a\nb", "a\nB")
    assert path.read_text() == before.replace('"b', '"B')
    assert not DiskNotebook(path).replace("r", "a\nB\nc").changed


def test_a_list_without_line_ends_is_read_as_every_reader_joins_it(tmp_path):
    value = {"cells": [{"cell_type": "raw", "id": "r", "metadata": {}, "source": ["a = 1", "b = 2"]}], "metadata": {}}
    path = written(tmp_path, json.dumps({**value, "nbformat": 4, "nbformat_minor": 5}))
    assert DiskNotebook(path).read().cells[0].source == "a = 1b = 2"
    DiskNotebook(path).replace("r", "a = 1\nb = 2")
    assert json.loads(path.read_text())["cells"][0]["source"] == ["a = 1\n", "b = 2"]


@pytest.mark.parametrize(
    "text",
    [
        '{\n "cells": [],\n "metadata": {},\n "nbformat": 4,\n "nbformat_minor": 5\n}',
        '{\r\n\t"cells": [\r\n\t],\r\n\t"metadata": {},\r\n\t"nbformat": 4,\r\n\t"nbformat_minor": 5\r\n}\r\n',
        '{"cells":[],"metadata":{},"nbformat":4,"nbformat_minor":5}',
    ],
)
def test_the_first_cell_of_an_empty_notebook_is_laid_out_as_the_file_is(tmp_path, text):
    path = written(tmp_path, text)
    DiskNotebook(path).insert("code", "a\nb")
    data = path.read_bytes().decode()
    unit = "\t" if "\t" in text else 1 if "\n" in text else None
    style = {"indent": unit, "separators": (",", ": ") if unit else (",", ":")}
    expected = json.dumps(json.loads(data), **style).replace("\n", "\r\n" if "\r" in text else "\n")
    assert data.rstrip() == expected
    assert data.endswith("\n") == text.endswith("\n")
    DiskNotebook(path).delete(DiskNotebook(path).read().cells[0].id)
    assert json.loads(path.read_bytes()) == json.loads(text)


def test_unknown_keys_and_an_invalid_cell_elsewhere_stay_and_are_told(tmp_path):
    value = {
        "cells": [
            {"cell_type": "code", "id": "a", "metadata": {}, "source": ["x"], "outputs": [], "extra": {"k": [1]}},
            {"cell_type": "markdown", "id": "b", "metadata": {}, "source": ["text"]},
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
        "mine": 1,
    }
    path = written(tmp_path, json.dumps(value, indent=2))
    before = path.read_text()
    result = DiskNotebook(path).edit("b", "text", "words")
    assert path.read_text() == before.replace("text", "words")
    assert "was not valid before either (the notebook: " in result.note
    DiskNotebook(path).edit("a", "x", "y")
    assert path.read_text() == before.replace("text", "words").replace('"x"', '"y"')


def test_a_new_cell_in_a_future_minor_version_has_an_id(tmp_path):
    path = written(tmp_path, '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 9, "new_key": 1}')
    assert DiskNotebook(path).insert("code", "1").cell_id == json.loads(path.read_text())["cells"][0]["id"]


def test_deeply_nested_metadata_and_huge_numbers_are_passed_over(tmp_path):
    deep = "[" * 300 + "1e400, 0.1000, 12345678901234567890123" + "]" * 300
    text = '{"cells": [{"cell_type": "raw", "id": "r", "metadata": {"d": ' + deep + '}, "source": ["x"]}],'
    text += ' "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    path = written(tmp_path, text)
    DiskNotebook(path).replace("r", "y")
    assert path.read_text() == text.replace('["x"]', '["y"]')


def test_a_created_notebook_may_be_empty_and_in_a_new_folder(tmp_path):
    path = tmp_path / "a" / "b" / "new.ipynb"
    create_notebook(path, [])
    assert DiskNotebook(path).read().cells == []
    nbformat.validate(json.loads(path.read_text()))
