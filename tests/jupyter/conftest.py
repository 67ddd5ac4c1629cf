from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

MIME = "application/vnd.cumulus.agent+json"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.kernel)


@dataclass
class Cell:
    """What running a cell gave: messages in order, and the displays as they stand at the end."""

    reply: dict[str, Any]
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(m["content"]["text"] for m in self.messages if m["msg_type"] == "stream")

    @property
    def displays(self) -> dict[str, dict[str, Any]]:
        """The last bundle of each display id, in order of first display."""
        shown: dict[str, dict[str, Any]] = {}
        for number, message in enumerate(self.messages):
            if message["msg_type"] in ("display_data", "update_display_data"):
                key = message["content"]["transient"].get("display_id") or f"anonymous-{number}"
                shown[key] = message["content"]["data"]
        return shown

    def blocks(self, kind: str) -> list[dict[str, Any]]:
        """Our own bundles of a kind."""
        return [data[MIME] for data in self.displays.values() if data.get(MIME, {}).get("kind") == kind]

    @property
    def answer(self) -> str:
        """The agent's text, paragraphs joined."""
        return "\n\n".join(block["markdown"] for block in self.blocks("text"))


class Kernel:
    """A real ipykernel, driven as a front end drives it."""

    def __init__(self, manager: KernelManager, *, stdin: bool) -> None:
        self.manager, self.stdin = manager, stdin
        self.client = manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def send(self, code: str) -> str:
        return str(self.client.execute(code, allow_stdin=self.stdin))

    def finish(self, msg_id: str, *, seconds: float = 60) -> Cell:
        """Collect a sent cell's messages until its end."""
        messages = []
        deadline = time.monotonic() + seconds
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=max(deadline - time.monotonic(), 0.01))
            except queue.Empty:
                raise AssertionError(f"the cell did not end in {seconds} s; it said {messages[-3:]}") from None
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            messages.append(message)
            idle = message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
            if idle and message["parent_header"].get("msg_type") == "execute_request":
                break
        reply = self.client.get_shell_msg(timeout=10)
        while reply["parent_header"].get("msg_id") != msg_id:
            reply = self.client.get_shell_msg(timeout=10)
        return Cell(reply["content"], messages)

    def run(self, code: str, *, seconds: float = 60) -> Cell:
        return self.finish(self.send(code), seconds=seconds)

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def value(self, expression: str) -> str:
        """The repr of an expression in the kernel."""
        msg_id = self.client.execute("", user_expressions={"v": expression}, store_history=False)
        reply = self.client.get_shell_msg(timeout=30)
        while reply["parent_header"].get("msg_id") != msg_id:
            reply = self.client.get_shell_msg(timeout=30)
        value = reply["content"]["user_expressions"]["v"]
        return str(value["data"]["text/plain"]) if value["status"] == "ok" else f"{value['ename']}: {value['evalue']}"


VARIABLES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "HF_TOKEN", "CUMULUS_MODEL", "CUMULUS_ANSWERS", "CUMULUS_APPROVE")


def start_kernel(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, stdin: bool, keep: tuple[str, ...] = ()
) -> Iterator[Kernel]:
    """A kernel with the extension, its folders beneath ``folder``, with none of our variables but ``keep``."""
    for name in VARIABLES:
        if name not in keep:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUMULUS_DATA_DIR", str(folder / "data"))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    work = folder / "work"
    work.mkdir()
    kernel = _ready_kernel(work, stdin=stdin)
    try:
        loaded = kernel.run("%load_ext cumulus_jupyter")
        assert loaded.reply["status"] == "ok", loaded.reply
        yield kernel
        kernel.client.stop_channels()
    finally:
        kernel.manager.shutdown_kernel(now=True)


def _ready_kernel(work: Path, *, stdin: bool) -> Kernel:
    """A kernel that answers. Its ports are chosen before they are bound: beside other tests one may be gone by then."""
    for attempt in range(3):
        manager = KernelManager()
        manager.start_kernel(cwd=str(work))
        try:
            return Kernel(manager, stdin=stdin)
        except RuntimeError:
            manager.shutdown_kernel(now=True)
            if attempt == 2:
                raise
    raise AssertionError("unreachable")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """A kernel with the extension, whose front end takes input, as JupyterLab's does."""
    yield from start_kernel(tmp_path, monkeypatch, stdin=True)


@pytest.fixture
def headless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """A kernel with the extension and nobody there, as under nbclient."""
    yield from start_kernel(tmp_path, monkeypatch, stdin=False)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The kernels' working directory."""
    return tmp_path / "work"
