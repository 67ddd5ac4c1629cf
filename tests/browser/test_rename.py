"""A notebook's conversations follow it when it is renamed."""

from __future__ import annotations

import pytest

from tests.wire.server import ModelServer, Turn

from .lab import LabServer
from .test_notebook import Open, prompt, write


@pytest.mark.long
def test_a_renamed_notebook_keeps_its_conversation_over_a_restart(notebook: Open, server: LabServer) -> None:
    """Nothing of the agent runs between the rename and the kernel's end; the new kernel was told the old name."""
    with ModelServer([Turn("first answer")], check=False) as model:
        write(server, "draft.ipynb", prompt(model), back="%agent resume")
        book = notebook(name="draft.ipynb")
        book.run(0)
        book.wait_done(0)
        book.run(1)
        book.wait_done(1)
        book.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.rename('final.ipynb')")
        book.page.wait_for_timeout(1000)
        book.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
        book.run(0)
        book.wait_done(0)
        book.run(2)
        taken = book.wait_done(2)["text"]
    assert "is taken up; the next %%agent cell goes on" in taken, taken
