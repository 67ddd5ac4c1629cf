"""Pictures of each state of an agent cell, in light and dark: ``python -m tests.browser.pictures FOLDER [SCENE ...]``.

They are taken from a real JupyterLab with the scripted model, so that what the documentation shows is what is built.
``--docs`` behind the folder also puts those of the documentation, made small, into ``notebooks/images``. ``WIDTH`` and
``ZOOM`` are the page's, in pixels and as a factor.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Locator

from .lab import LabServer, NotebookPage, chromium, copy_notebooks

Draw = Callable[["Scene"], None]
_THEMES = ("Light", "Dark")


class Scene:
    """A notebook whose second cell is the agent's."""

    def __init__(self, book: NotebookPage, folder: Path) -> None:
        self.book, self.page, self.folder = book, book.page, folder
        self.themes: tuple[str, ...] = _THEMES

    def ask(self, prompt: str, options: str = "", **plan: Any) -> None:
        """Run a prompt in the agent's cell; ``steps`` say what the model's server does besides."""
        self.source(2, f"plan.clear(); plan.update({plan!r})")
        self.book.run(2)
        self.page.wait_for_timeout(300)
        self.source(1, f"%%agent -m demo {options}".rstrip() + f"\n{prompt}")
        self.book.run(1)

    def source(self, index: int, text: str) -> None:
        self.page.evaluate(
            "([i, text]) => window.jupyterapp.shell.currentWidget.content.widgets[i].model.sharedModel.setSource(text)",
            [index, text],
        )

    def see(self, selector: str, text: str = "", seconds: float = 30) -> Locator:
        """Wait until something is shown in the agent's cell."""
        found = self.book.output(1).locator(selector)
        found = (found.filter(has_text=text) if text else found).first
        found.wait_for(timeout=seconds * 1000)
        return found

    def ended(self, seconds: float = 60) -> None:
        self.see(".cu-foot", seconds=seconds)
        self.page.wait_for_timeout(400)

    def unfold(self) -> None:
        for fold in self.book.output(1).locator(".cu-fold-toggle[aria-expanded=false]").all():
            fold.click()

    def open(self, *texts: str) -> None:
        for text in texts:
            self.book.output(1).locator("summary").filter(has_text=text).first.click()

    def shoot(self, name: str) -> None:
        """Take the agent's cell in each theme."""
        self.page.mouse.move(0, 0)
        for theme in self.themes:
            if len(self.themes) > 1:
                self.book.theme(f"JupyterLab {theme}")
            path = self.folder / f"{name}-{theme.lower()}.png"
            self.page.locator(".jp-Notebook-cell").nth(1).screenshot(path=path)

    def answer(self, label: str = "Answer") -> None:
        self.book.page.locator(".cu-form").get_by_role("button", name=label).click()


# Scenes ----------------------------------------------------------------------------------------------------------


def stream(s: Scene) -> None:
    s.ask("What drives churn in customers.csv?", steps=[{"wait": 5}])
    s.see(".cu-live", "thinking")
    s.page.wait_for_timeout(1500)
    s.shoot("waiting")
    s.see(".cu-text", "Two things")
    s.shoot("streaming")
    s.ended()
    s.shoot("done")


def tools(s: Scene) -> None:
    s.ask("Please profile customers.csv.", "--approve all")
    s.see(".cu-tail", "fold 2")
    s.shoot("tools-running")
    s.ended()
    s.shoot("tools-folded")
    s.unfold()
    s.open("long.csv", "churn.png", "p = Image")
    s.shoot("tools-open")


def tour(s: Scene) -> None:
    s.ask("What drives churn in customers.csv? Add a chart that I can run again.", "--approve all")
    s.see(".cu-form .cu-answer")
    s.page.wait_for_timeout(500)
    s.shoot("cell")
    s.answer()
    s.ended(90)
    s.shoot("cell-done")


def faults(s: Scene) -> None:
    s.ask("The server is overloaded, it seems.", steps=[{"fails": "before", "after": 20}])
    s.see(".cu-live", "again in")
    s.shoot("retry")
    s.book.interrupt()
    s.ended()
    s.shoot("stopped")
    s.ask("The line breaks off.", steps=[{"fails": "behind", "after": 4}])
    s.see(".cu-note", "taken back")
    s.shoot("discard")
    s.ended()


def question(s: Scene) -> None:
    s.ask("Please ask one question.")
    s.see(".cu-form .cu-answer")
    s.page.wait_for_timeout(500)
    s.shoot("question")
    s.book.page.locator(".cu-form input[type=text]").first.fill("contract_end")
    s.page.wait_for_timeout(500)
    s.shoot("question-other")
    s.answer()
    s.ended()
    s.shoot("answered-folded")
    s.unfold()
    s.shoot("answered")
    s.ask("Please ask one question.")
    s.see(".cu-form .cu-answer")
    s.answer("Decline")
    s.ended()
    s.shoot("declined")


def questions(s: Scene) -> None:
    s.ask("Please ask many questions.")
    s.see(".cu-form .cu-answer")
    s.book.page.locator(".cu-form").get_by_role("checkbox").first.check()
    s.page.wait_for_timeout(500)
    s.shoot("carousel-1")
    s.answer("Next")
    s.see(".cu-form", "2 of 3")
    s.shoot("carousel-2")
    s.answer("Next")
    s.see(".cu-form", "3 of 3")
    s.shoot("carousel-3")
    s.answer()
    s.page.wait_for_timeout(600)
    s.shoot("carousel-empty")
    s.book.page.locator(".cu-form input[type=text]").first.fill("Churn by contract")
    s.answer()
    s.ended()
    s.unfold()
    s.shoot("carousel-answered")


def late(s: Scene) -> None:
    s.ask("Please ask briefly.")
    s.book.page.locator(".cu-form input[type=text]").first.fill("Churn by con")
    s.ended()
    s.shoot("timed-out")


def approval(s: Scene) -> None:
    s.ask("Please run it.")
    s.see(".cu-form .cu-answer")
    s.page.wait_for_timeout(500)
    s.shoot("approval")
    s.book.page.locator(".cu-form").get_by_role("radio").last.check()
    notes = s.book.page.locator(".cu-form .cu-notes input")
    if notes.count():
        notes.fill("not on the live table")
    s.page.wait_for_timeout(500)
    s.shoot("approval-deny")
    s.answer()
    s.ended()
    s.unfold()
    s.shoot("denied")


def agents(s: Scene) -> None:
    s.ask("Start three helpers.", "--approve all")
    s.see("[data-kind=agent]", "missing values")
    s.page.wait_for_timeout(1500)
    s.shoot("agents-live")
    s.ended()
    s.unfold()
    s.open("agent contract types", "agent first model")
    s.shoot("agents-done")


def panels(s: Scene) -> None:
    s.ask("Show all components.")
    s.ended()
    s.shoot("panel")
    s.ask("Show fifty rows.")
    s.ended()
    s.shoot("panel-table")


def live(s: Scene) -> None:
    s.ask("Let me smooth it.")
    s.see(".cu-form .cu-answer")
    s.page.wait_for_timeout(500)
    s.shoot("live-approval")
    s.page.locator(".cu-form").get_by_role("radio").first.check()
    s.answer()
    s.ended()
    s.see(".cu-widget .cu-p-output img")
    s.page.wait_for_timeout(800)
    s.shoot("live")


def endings(s: Scene) -> None:
    s.ask("Please ask one question.", "--no-wait")
    s.see(".cu-form .cu-answer")
    s.page.wait_for_timeout(500)
    s.shoot("needs-input")
    s.answer("Decline")
    s.ended()
    s.ask("Please go on for ever.", "--max-turns 2")
    s.ended()
    s.shoot("turn-limit")
    s.ask("Please be cut.", steps=[{"stop": "length"}] * 5)
    s.ended()
    s.shoot("truncated")
    s.ask("Please be refused.", steps=[{"stop": "refusal"}])
    s.ended()
    s.shoot("refused")
    s.ask("Please fail.", steps=[{"fails": "before", "after": 0.1}] * 5)
    s.ended()
    s.shoot("failed")


def other_scripts(s: Scene) -> None:
    s.ask("ما الذي يحدد الرحيل حسب العقد؟")
    s.see(".cu-form .cu-answer")
    s.page.wait_for_timeout(500)
    s.shoot("bidi")
    s.page.locator(".cu-form").get_by_role("radio").nth(1).check()
    s.answer()
    s.ended()
    s.unfold()
    s.shoot("bidi-done")


SCENES: dict[str, Draw] = {
    draw.__name__: draw
    for draw in (tour, stream, tools, faults, question, questions, late, approval, agents, panels, live, endings)
} | {"bidi": other_scripts}


def take(folder: Path, names: list[str], *, width: int = 900, zoom: float = 1.0) -> None:
    """Draw these scenes (all of them when none is named) into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    with tempfile.TemporaryDirectory() as home, chromium() as browser:
        root = Path(home) / "notebooks"
        root.mkdir()
        copy_notebooks(root)
        server = LabServer(Path(home), root)
        size = {"width": int(width / zoom), "height": int(2600 / zoom)}
        page = browser.new_context(viewport=size, device_scale_factor=zoom).new_page()
        try:
            cells = [
                "%load_ext cumulus_jupyter\nfrom tests.browser import scenes\nglobals().update(scenes.prepare())",
                "",
                "",
            ]
            book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
            book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
            nbformat.write(book, root / "pictures.ipynb")
            scene = Scene(NotebookPage(server, page, "pictures.ipynb").open(), folder)
            scene.book.command("application:toggle-left-area")
            scene.book.run(0)
            scene.book.wait_done(0)
            for name in names or SCENES:
                try:
                    SCENES[name](scene)
                except Exception as error:
                    print(f"{name}: {error}", file=sys.stderr)
                    scene.shoot(f"{name}-broken")
                    scene.book.interrupt()
        finally:
            server.stop()


def keep(folder: Path) -> None:
    """Put the documentation's pictures, in few colours but all that carry a state, where it shows them."""
    from PIL import Image

    for name, kept in DOCS.items():
        with Image.open(folder / f"{name}.png") as picture:
            small = picture.convert("RGB").quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
            small.save(Path(__file__).parents[2] / "notebooks" / "images" / f"{kept}.png", optimize=True)


DOCS = {
    "cell-light": "cell",
    "cell-done-light": "done",
    "tools-open-light": "tools",
    "carousel-1-light": "questions",
    "approval-deny-light": "approval",
    "agents-live-dark": "agents-dark",
    "retry-light": "retry",
    "panel-light": "panel",
    "panel-dark": "panel-dark",
    "live-light": "panel-live",
    "bidi-light": "right-to-left",
    "failed-light": "failed",
}

if __name__ == "__main__":
    folder, scenes = Path(sys.argv[1]), [name for name in sys.argv[2:] if name != "--docs"]
    take(folder, scenes, width=int(os.environ.get("WIDTH", "900")), zoom=float(os.environ.get("ZOOM", "1")))
    if "--docs" in sys.argv:
        keep(folder)
