"""A real JupyterLab on loopback and a real Chromium, for tests that do what a person does."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

TOKEN = "test"
CHROMIUM = next((p for p in ("/usr/bin/chromium", "/usr/bin/chromium-browser") if Path(p).exists()), None)
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class LabServer:
    """JupyterLab serving ``root``, with settings and data folders of its own."""

    def __init__(self, home: Path, root: Path) -> None:
        self.root, self.port = root, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        folders = {
            "IPYTHONDIR": "ipython",
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "HOME": "home",
            "CUMULUS_DATA_DIR": "cumulus",
        }
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CUMULUS_", "ANTHROPIC_", "OPENAI_"))}
        for variable, folder in folders.items():
            (home / folder).mkdir(parents=True, exist_ok=True)
            env[variable] = str(home / folder)
        config = home / "config" / "labconfig"
        config.mkdir()
        news = "@jupyterlab/apputils-extension:announcements"
        (config / "page_config.json").write_text(json.dumps({"disabledExtensions": {news: True}}))
        command = [
            os.environ.get("CUMULUS_TEST_PYTHON", sys.executable),  # another environment's JupyterLab
            "-m",
            "jupyterlab",
            "--no-browser",
            "--ip=127.0.0.1",
            f"--port={self.port}",
            f"--IdentityProvider.token={TOKEN}",
            f"--ServerApp.root_dir={root}",
            "--LabApp.expose_app_in_browser=True",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--LabApp.news_url=None",
            "--allow-root",
        ]
        self._log = open(home / "server.log", "w")  # noqa: SIM115 - lives as long as the server
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT, env=env)
        self._await(home / "server.log")

    def _await(self, log: Path) -> None:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{self.url}/api/status?token={TOKEN}", timeout=2).read()
                return
            except OSError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.25)
        raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")

    def api(self, path: str, method: str = "GET") -> Any:
        request = urllib.request.Request(
            f"{self.url}{path}", method=method, headers={"Authorization": f"token {TOKEN}"}
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            data = response.read()
        return json.loads(data) if data else None

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        try:
            yield browser
        finally:
            browser.close()


_NOTEBOOK = "window.jupyterapp.shell.currentWidget"


class NotebookPage:
    """A notebook open in JupyterLab."""

    def __init__(self, server: LabServer, page: Page, name: str) -> None:
        self.server, self.page, self.name = server, page, name

    def open(self, *, reset: bool = True) -> NotebookPage:
        self.page.goto(f"{self.server.url}/lab/tree/{self.name}?token={TOKEN}{'&reset' if reset else ''}")
        self.page.wait_for_function(f"() => window.jupyterapp && {_NOTEBOOK}?.context?.isReady", timeout=90_000)
        self.page.wait_for_function(
            f"() => {{ const k = {_NOTEBOOK}.sessionContext.session?.kernel;"
            "return k && k.connectionStatus === 'connected' && k.status !== 'starting' && k.status !== 'unknown' }",
            timeout=90_000,
        )
        return self

    def command(self, name: str, **args: Any) -> None:
        self.page.evaluate("([name, args]) => { void window.jupyterapp.commands.execute(name, args) }", [name, args])

    def run(self, index: int) -> None:
        self.page.evaluate(
            f"i => {{ const n = {_NOTEBOOK}.content; n.deselectAll(); n.activeCellIndex = i; n.mode = 'command' }}",
            index,
        )
        self.command("notebook:run-cell")

    def run_all(self) -> None:
        self.command("notebook:run-all-cells")

    def cells(self) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = self.page.evaluate(
            f"() => [...{_NOTEBOOK}.content.widgets].map(w => ({{"
            "id: w.model.id, type: w.model.type, source: w.model.sharedModel.getSource(),"
            "count: w.model.executionCount ?? null, state: w.model.executionState ?? null,"
            "outputs: w.model.outputs ? w.model.outputs.toJSON() : [],"
            "text: w.outputArea ? w.outputArea.node.innerText : ''}))"
        )
        return result

    def wait_done(self, index: int, *, seconds: float = 60) -> dict[str, Any]:
        """Wait until a cell has been run; gives it."""
        for _ in range(int(seconds / 0.1)):
            cell = self.cells()[index]
            if cell["count"] is not None and cell["state"] != "running":
                return cell
            self.page.wait_for_timeout(100)
        raise AssertionError(f"cell {index} did not end in {seconds} s: {self.cells()[index]['text'][-2000:]}")

    def output(self, index: int) -> Any:
        """The output area of a cell, as a locator."""
        return self.page.locator(".jp-Notebook-cell").nth(index).locator(".jp-OutputArea").first

    def interrupt(self) -> None:
        kernel = self.page.evaluate(f"() => {_NOTEBOOK}.sessionContext.session.kernel.id")
        self.server.api(f"/api/kernels/{kernel}/interrupt", "POST")

    def save(self) -> dict[str, Any]:
        """Save and give the file's content."""
        # A save that asks something waits for a click, and `evaluate` has no limit of its own.
        self.page.evaluate(f"() => {{ void {_NOTEBOOK}.context.save().then(() => {{ window.saved = true }}) }}")
        self.page.wait_for_function("() => window.saved", timeout=30_000)
        self.page.evaluate("() => { window.saved = false }")
        content: dict[str, Any] = json.loads((self.server.root / self.name).read_text())
        return content

    def theme(self, name: str) -> None:
        self.page.evaluate("n => window.jupyterapp.commands.execute('apputils:change-theme', {theme: n})", name)
        self.page.wait_for_timeout(600)

    def shut_down(self) -> None:
        for session in self.server.api("/api/sessions"):
            self.server.api(f"/api/sessions/{session['id']}", "DELETE")


def copy_notebooks(target: Path) -> None:
    source = Path(__file__).parents[2] / "notebooks"
    for name in ("quickstart.ipynb", "customers.csv"):
        shutil.copy(source / name, target / name)
