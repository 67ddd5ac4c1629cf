"""A real ipykernel, driven as a front end drives it, with the time at which each of its messages came."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

__all__ = ["MIME", "Kernel", "Ran", "kernel"]

MIME = "application/vnd.cumulus.agent+json"
_TARGET = "cumulus.notebook"


@dataclass
class Ran:
    """A cell's messages, each with the epoch seconds of its arrival."""

    messages: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What was printed."""
        return "".join(m["content"]["text"] for _, m in self.messages if m["msg_type"] == "stream")

    @property
    def displays(self) -> list[tuple[float, dict[str, Any]]]:
        """The bundles that were shown, in order."""
        kinds = ("display_data", "update_display_data")
        return [(at, m["content"]["data"]) for at, m in self.messages if m["msg_type"] in kinds]


class Kernel:
    """Runs cells. With ``extension`` it answers for our labextension, so that no text twins are sent."""

    def __init__(self, client: BlockingKernelClient, *, extension: bool) -> None:
        self._client, self._extension = client, extension
        self._comm = ""

    def run(self, code: str, seconds: float = 60) -> Ran:
        """Run a cell; it must end well."""
        sent = self._client.execute(code, allow_stdin=True)
        ran = Ran()
        while True:
            message = self._client.get_iopub_msg(timeout=seconds)
            now = time.time()
            if self._extension and message["msg_type"] in ("comm_open", "comm_msg"):
                self._answer(message["content"])
            if message["parent_header"].get("msg_id") != sent:
                continue
            ran.messages.append((now, message))
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        reply = self._client.get_shell_msg(timeout=seconds)
        assert reply["content"]["status"] == "ok", reply["content"]
        return ran

    def _answer(self, content: dict[str, Any]) -> None:
        """Say hello to our comm, and yes to what it asks."""
        if content.get("target_name") == _TARGET:
            self._comm = content["comm_id"]
        elif content["comm_id"] == self._comm:
            data = {"id": content["data"]["id"], "ok": True, "protocol": 1, "mine": True, "client": "benchmark"}
            self._client.shell_channel.send(self._client.session.msg("comm_msg", {"comm_id": self._comm, "data": data}))


@contextmanager
def kernel(folder: Path, *, extension: bool = False) -> Iterator[Kernel]:
    """A kernel that has run a cell, its folders beneath ``folder``, without keys."""
    # A package that pip installed is compiled, so ours must be too.
    dropped = ("CUMULUS_", "ANTHROPIC_", "OPENAI_", "PYTHONDONTWRITEBYTECODE")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    environment |= {"CUMULUS_DATA_DIR": str(folder / "data"), "IPYTHONDIR": str(folder / "ipython")}
    manager = KernelManager()
    manager.start_kernel(cwd=str(folder), env=environment, stderr=subprocess.DEVNULL)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        made = Kernel(client, extension=extension)
        made.run("import os, time, psutil; 6 * 7")
        yield made
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
