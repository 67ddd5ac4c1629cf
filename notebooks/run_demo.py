"""Run the quickstart on a copy and print the conversation as it goes; `make demo` calls this."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
BUILD = HERE.parent / "build" / "demo"


def main() -> None:
    """Copy, run, say where it is."""
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    for name in ("quickstart.ipynb", "customers.csv"):
        shutil.copy(HERE / name, BUILD / name)
    notebook = nbformat.read(BUILD / "quickstart.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(BUILD)}})
    client.on_cell_executed = lambda cell, cell_index, **_: _show(cell)
    client.execute()
    nbformat.write(notebook, BUILD / "quickstart.ipynb")
    print(f"\nThe executed notebook: {BUILD / 'quickstart.ipynb'}\nOpen it with: make lab")


def _show(cell: nbformat.NotebookNode) -> None:
    """A cell and its outputs as text."""
    print("\n".join(f"│ {line}" for line in cell.source.splitlines()))
    for output in cell.outputs:
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        if text.strip():
            print(text.rstrip())
    print()


if __name__ == "__main__":
    main()
