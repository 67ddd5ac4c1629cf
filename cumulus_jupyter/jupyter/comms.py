"""Widget values while an agent cell waits.

The widget manager in the browser sends the next change of a trait only when the kernel has said ``idle`` for the last
one. ipykernel serves comm messages during an awaiting cell without saying so: of "abcd" typed into a text field, "a"
would arrive and nothing after it. This says it.
"""

from __future__ import annotations

import inspect
import threading
from typing import Any

__all__ = ["install", "uninstall", "waiting"]

waiting: list[dict[str, Any]] = []
"""Parent messages of the agent cells that wait now."""

_ORIGINAL = "_cumulus_original_comm_msg"


def install(kernel: Any) -> None:
    """Answer each comm message with ``idle`` while a cell waits; again is harmless."""
    handlers = getattr(kernel, "shell_handlers", {})
    original = handlers.get("comm_msg")
    if original is None or hasattr(original, _ORIGINAL):
        return

    async def comm_msg(stream: Any, ident: Any, message: Any) -> None:
        try:
            result = original(stream, ident, message)
            if inspect.isawaitable(result):
                await result
        finally:
            # Off the main thread (a subshell) ipykernel says it itself.
            if waiting and threading.current_thread() is threading.main_thread():
                for state, parent in (("idle", message), ("busy", waiting[-1])):
                    kernel.session.send(
                        kernel.iopub_socket,
                        "status",
                        {"execution_state": state},
                        parent,
                        ident=kernel._topic("status"),
                    )

    setattr(comm_msg, _ORIGINAL, original)
    handlers["comm_msg"] = comm_msg


def uninstall(kernel: Any) -> None:
    """Put the kernel's own handler back."""
    handlers = getattr(kernel, "shell_handlers", {})
    if original := getattr(handlers.get("comm_msg"), _ORIGINAL, None):
        handlers["comm_msg"] = original
