"""Front ends without our extension: a kernel as VS Code, Colab and consoles start it says what can't be done there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from .conftest import Kernel, start_kernel

pytestmark = pytest.mark.long  # each call waits seconds for a front end that never answers

_COLAB = "import sys, types; sys.modules['google.colab'] = types.ModuleType('google.colab')"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel with the extension behind a front end that answers no comm."""
    folder = tmp_path_factory.mktemp("elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JPY_SESSION_NAME", raising=False)
        yield from start_kernel(folder, patch, stdin=True)


@pytest.fixture
def book(shell: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A notebook in the kernel's folder, which the kernel forgets afterwards."""
    path = Path(shell.value("__import__('os').getcwd()").strip("'")) / "lecture.ipynb"
    cell = nbformat.v4.new_code_cell("x = 1", id="first")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    yield path
    shell.run(
        "import os, sys; globals().pop('__vsc_ipynb_file__', None); sys.modules.pop('google.colab', None); "
        "os.environ.pop('JPY_SESSION_NAME', None)"
    )


def call(shell: Kernel, tool: str, **arguments: object) -> str:
    return shell.run(f"%agent call {tool} {json.dumps(arguments)}", seconds=90).text


def edit(path: Path | None = None) -> dict[str, object]:
    return {"operation": "insert", "kind": "code", "source": "y = 2", **({"path": path.name} if path else {})}


def test_vs_code_is_named_and_its_notebook_left_alone(shell: Kernel, book: Path) -> None:
    before = book.read_bytes()
    shell.run(f"__vsc_ipynb_file__ = {str(book)!r}")
    refused = call(shell, "notebook_edit", **edit())
    assert "open in VS Code, where the Cumulus extension does not answer" in refused
    assert "Write to lecture-agent.ipynb instead" in refused
    assert "open in VS Code" in call(shell, "notebook_edit", **edit(book))
    assert "x = 1" in call(shell, "notebook_read")
    unrun = call(shell, "notebook_run", cells=["first"])
    assert "can't be run" in unrun
    assert "use run_python" in unrun
    assert book.read_bytes() == before


def test_colab_is_named_and_its_notebook_left_alone(shell: Kernel, book: Path) -> None:
    before = book.read_bytes()
    shell.run(_COLAB + f"; import os; os.environ['JPY_SESSION_NAME'] = {str(book)!r}")
    assert "open in Colab, where the Cumulus extension does not answer" in call(shell, "notebook_edit", **edit())
    assert book.read_bytes() == before


def test_a_console_says_that_it_has_no_notebook(shell: Kernel, book: Path) -> None:
    for tool, arguments in (("notebook_edit", edit()), ("notebook_read", {}), ("notebook_run", {"cells": ["first"]})):
        text = call(shell, tool, **arguments)
        assert "runs in no notebook that can be reached" in text, text
        assert "Give path" in text, text


def test_another_notebook_can_be_edited_from_there(shell: Kernel, book: Path) -> None:
    other = book.with_name("other.ipynb")
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1", id="first")]), other)
    shell.run(f"__vsc_ipynb_file__ = {str(book)!r}")
    assert "x = 1" in call(shell, "notebook_read", path=other.name)
    call(shell, "notebook_edit", after="first", **edit(other))
    assert [cell.source for cell in nbformat.read(other, 4).cells] == ["x = 1", "y = 2"]
