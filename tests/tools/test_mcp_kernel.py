"""MCP servers in a real kernel: started without a descriptor on stderr, allowed in the cell, ended with the kernel."""

from __future__ import annotations

import html
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.wire.server import ModelServer, Turn

from ..jupyter.conftest import Kernel, start_kernel
from ..jupyter.test_cell import click, comm
from .mcp_oauth_server import Guarded, browse
from .test_mcp import k6, small

pytestmark = pytest.mark.kernel

STUBBORN = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_DFL); time.sleep(600)"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Kernel, ModelServer, Path]]:
    folder = tmp_path
    own = {"s": small(), "gone": {"command": "no-such-command"}}
    with pytest.MonkeyPatch.context() as patch, ModelServer() as server:
        for name, value in server.env().items():
            patch.setenv(name, value)
        patch.setenv("CUMULUS_MCP", json.dumps(own))
        for kernel in start_kernel(folder, patch, stdin=True, keep=tuple(server.env())):
            yield kernel, server, folder / "work"


def servers(kernel: Kernel, word: str) -> list[psutil.Process]:
    family = psutil.Process(kernel.manager.provisioner.pid).children(recursive=True)
    return [process for process in family if word in " ".join(process.cmdline())]


class Forms:
    """What a front end knows of the widgets of one cell."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.models: dict[str, dict] = {}

    def next(self) -> list[dict]:
        """Wait for a form that was not there yet; its widgets, each with its ``id``."""
        while True:
            message = self.kernel.client.get_iopub_msg(timeout=60)
            content = message["content"]
            if message["msg_type"] == "comm_open":
                self.models[content["comm_id"]] = content["data"].get("state", {})
            if message["msg_type"] == "comm_msg" and content["data"].get("method") == "update":
                self.models.setdefault(content["comm_id"], {}).update(content["data"]["state"])
            data = content.get("data", {}) if message["msg_type"].endswith("display_data") else {}
            if view := data.get("application/vnd.jupyter.widget-view+json"):
                return list(self.tree(view["model_id"]))

    def tree(self, id: str) -> Iterator[dict]:
        model = self.models.get(id, {})
        yield {**model, "id": id}
        for child in model.get("children", ()):
            yield from self.tree(child.removeprefix("IPY_MODEL_"))

    def set(self, form: list[dict], kind: str, **state: object) -> None:
        id = next(widget["id"] for widget in form if widget.get("_model_name") == kind)
        comm(self.kernel, id, {"method": "update", "state": state, "buffer_paths": []})

    def press(self, form: list[dict], *names: str) -> None:
        click(self.kernel, next(widget["id"] for widget in form if widget.get("description") in names))


def ready(kernel: Kernel, *names: str) -> str:
    """Wait until these servers are ready; the status."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        status = kernel.run("%agent status").text
        if all(f"MCP server {name}: stdio, ready" in status for name in names):
            return status
        time.sleep(0.3)
    raise AssertionError(status)


def gone(processes: list[psutil.Process], seconds: float = 10) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return not alive


def test_servers_are_allowed_in_the_cell_named_in_the_status_and_end_with_the_extension_and_the_kernel(
    served: tuple[Kernel, ModelServer, Path],
) -> None:
    kernel, _, work = served
    (work / ".mcp.json").write_text(json.dumps({"mcpServers": {"loud": k6("stderr")}}))
    msg_id = kernel.send("%%agent -m demo --approve edits\nhello")
    forms = Forms(kernel)
    form = forms.next()
    forms.set(form, "RadioButtonsModel", index=1)
    forms.press(form, "Answer")
    assert kernel.finish(msg_id).reply["status"] == "ok"
    status = ready(kernel, "s", "loud")
    assert "MCP server gone: stdio, failed: the command 'no-such-command' was not found on the PATH" in status
    assert "mcp__loud__echo" in kernel.run("%agent tools").text

    running = servers(kernel, "mcp_server") + servers(kernel, "K6-fake")
    assert len(running) == 2
    assert kernel.run("%unload_ext cumulus_jupyter").reply["status"] == "ok"
    assert gone(running)

    entry = {"command": sys.executable, "args": ["-c", STUBBORN]}  # it does not read its input to the end
    kernel.run("%load_ext cumulus_jupyter")
    kernel.run(f"%config CumulusAgent.mcp_servers = {{'stubborn': {entry!r}}}")
    cell = kernel.run("%%agent -m demo --approve none\nhello")
    assert cell.reply["status"] == "ok", cell.reply
    running = servers(kernel, "time.sleep(600)")
    assert len(running) == 1
    psutil.Process(kernel.manager.provisioner.pid).kill()
    assert gone(running)


@pytest.mark.long
def test_a_servers_question_is_answered_in_the_cell(served: tuple[Kernel, ModelServer, Path]) -> None:
    kernel, server, _ = served
    server.script[:] = [
        Turn("Starting."),
        Turn("", calls=[("tool_search", {"query": "select:mcp__s__look,mcp__s__ask"})]),
        Turn("", calls=[("mcp__s__look", {}), ("mcp__s__ask", {})]),
        Turn("All done."),
    ]
    kernel.run("%%agent -m claude --approve all\nstart the servers")
    ready(kernel, "s")
    msg_id = kernel.send("%%agent -m claude --approve all -o r\nuse the servers")
    forms = Forms(kernel)
    form = forms.next()
    forms.press(form, "Decline")
    cell = kernel.finish(msg_id)
    assert cell.reply["status"] == "ok", cell.reply
    last = json.dumps(server.bodies[-1]["messages"])
    assert "looked" in last
    assert "they declined" in last
    assert server.refused == []
    assert "'All done.'" in kernel.value("r.text")


@pytest.mark.long
def test_a_sign_in_page_stands_in_the_cell_and_goes_away_by_itself(served: tuple[Kernel, ModelServer, Path]) -> None:
    kernel, _, _ = served
    guarded = Guarded()
    try:
        kernel.run(f"%config CumulusAgent.mcp_servers = {{'g': {{'url': {guarded.url!r}}}}}")
        # What takes long on a busy machine: a page that comes after the beginning of the run is only a link in it.
        kernel.run("import cumulus_jupyter.tools.mcp.oauth, mcp.client.subscriptions, mcp.client.streamable_http")
        msg_id = kernel.send("%%agent -m demo --approve edits\nhello")
        form = Forms(kernel).next()
        link = re.search(r"sign in: (http\S+)", " ".join(str(widget.get("value", "")) for widget in form))
        assert link
        browse(html.unescape(link[1]))
        cell = kernel.finish(msg_id)
        assert cell.reply["status"] == "ok", cell.reply
        shown = json.dumps(cell.messages, default=str)
        assert "you are signed in" in shown
        status = kernel.run("%agent status").text
        assert "MCP server g: http, ready with 1 tool" in status
        called = kernel.run("%agent call mcp__g__tell {}").text
        assert "it says [key]" in called
        secrets = {*guarded.accounts.access, *guarded.accounts.refresh}
        assert not any(secret in shown + status + called for secret in secrets)
    finally:
        guarded.close()
