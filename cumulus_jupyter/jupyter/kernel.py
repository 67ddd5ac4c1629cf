"""Running code in the user's namespace: live in the agent's cell, captured for the model."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..agent.errors import ToolError
from ..agent.host import CodeRun, working_in
from ..tools.terminal import plain_text
from .interrupt import InterruptHandler
from .staying import without_exit

__all__ = ["Capture", "KernelRunner"]

MARK = "cumulus_call"
"""Key in the parent header that tells one call's messages from all others."""
_TAIL = 4_000
_PER_SECOND = 8
_AGENT_MAGIC = re.compile(r"^\s*%%?agent\b", re.MULTILINE)
_RICH = ("image/", "text/html", "application/vnd.", "application/javascript", "text/latex", "text/markdown")

Message = dict[str, Any]
Tail = Callable[[str], "tuple[str, dict[str, Any]] | None"]


class KernelRunner:
    """Runs code through IPython's own cell machinery, one call at a time."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    async def run(
        self,
        code: str,
        *,
        call_id: str,
        folder: Path,
        timeout: float,
        tail: Tail,
        interrupts: InterruptHandler,
        redact: Callable[[Any], Any] = lambda value: value,
    ) -> CodeRun:
        """Run ``code``; what it raises is in the result.

        Text goes to ``tail`` as it comes: a function of the text so far that gives the display id and bundle to
        update. Rich outputs appear in the cell as they are.
        """
        if _AGENT_MAGIC.search(code):
            raise ToolError("code can't start another agent with %%agent; do the work yourself")
        shell, run = self._shell, CodeRun()
        capture = Capture(shell, call_id, code, tail, redact)
        before = _snapshot(shell)
        with working_in(folder, run), capture.on(), _guarded(shell, run), interrupts.running_code(timeout) as limit_hit:
            result = await self._execute(code)
        run.outputs = capture.outputs
        error = result.error_before_exec or result.error_in_exec
        run.timed_out = limit_hit()
        if error is not None:
            run.interrupted = isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
            run.error = run.error or (type(error).__name__, str(error), _plain_traceback(error))
        _compare(before, _snapshot(shell), run)
        return run

    async def _execute(self, code: str) -> Any:
        shell, bad = self._shell, None
        try:
            transformed = shell.transform_cell(code)
        except Exception:
            transformed, bad = code, sys.exc_info()
        result = await shell.run_cell_async(
            code, store_history=False, transformed_cell=transformed, preprocessing_exc_tuple=bad
        )
        # run_cell_async leaves these out; without them a figure waits for the end of the agent's cell.
        shell.events.trigger("post_execute")
        shell.events.trigger("post_run_cell", result)
        return result


class Capture:
    """Takes what one call sends: a copy for the model, text into the call's own line, the rest through."""

    def __init__(
        self, shell: Any, call_id: str, code: str, tail: Tail, redact: Callable[[Any], Any] = lambda value: value
    ) -> None:
        self.outputs: list[Message] = []
        self._redact = redact
        self._shell, self._id, self._tail = shell, call_id, tail
        self._silent = code.rstrip().endswith(";")
        self._text, self._shown, self._timer, self._ended = "", 0.0, False, False

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Capture for the time of the block."""
        shell = self._shell
        out: Any = sys.stdout
        err: Any = sys.stderr
        parent = shell.get_parent()
        hooks = [(shell.display_pub, self._display), (shell.displayhook, self._result)]
        hooks = [(place, hook) for place, hook in hooks if hasattr(place, "register_hook")]  # displayhook: 7.4
        self._on_iopub(lambda: [stream.register_hook(self._stream) for stream in (out, err)])
        for place, hook in hooks:
            place.register_hook(hook)
        shell.set_parent({**parent, "header": {**parent["header"], MARK: self._id}})
        try:
            yield
        finally:
            out.flush()
            err.flush()
            self._ended = True
            shell.set_parent(parent)
            for place, hook in hooks:
                place.unregister_hook(hook)
            self._on_iopub(lambda: [stream.unregister_hook(self._stream) for stream in (out, err)])

    def _on_iopub(self, work: Callable[[], Any]) -> None:
        # Stream hooks are kept per thread, and the one that counts is the thread that sends.
        done = threading.Event()

        def there() -> None:
            work()
            done.set()

        _pub_thread().schedule(there)
        done.wait(2)

    def _mine(self, message: Message) -> bool:
        return bool(message["parent_header"].get(MARK) == self._id)

    def _stream(self, message: Message) -> Message | None:
        """On the IOPub thread: works while the main thread is busy in the user's code."""
        if not self._mine(message):
            return message
        text = message["content"]["text"]
        self.outputs.append({"output_type": "stream", **message["content"]})
        self._text = (self._text + text)[-_TAIL:]
        wait = 1 / _PER_SECOND - (time.monotonic() - self._shown)
        if wait <= 0:
            return self._update(message["parent_header"])
        if not self._timer:
            self._timer = True
            asyncio.get_event_loop().call_later(wait, self._late, message["parent_header"])
        return None

    def _update(self, parent: Message) -> Message | None:
        self._shown = time.monotonic()
        shown = self._tail(plain_text(self._text))
        if shown is None:
            return None
        display_id, bundle = shown
        content = {"data": bundle, "metadata": {}, "transient": {"display_id": display_id}}
        message: Message = self._shell.display_pub.session.msg("update_display_data", content, parent=parent)
        return message

    def _late(self, parent: Message) -> None:
        self._timer = False
        if not self._ended and (message := self._update(parent)):
            self._shell.display_pub.session.send(
                _pub_thread(),
                message,
                ident=b"display_data",
            )

    def _display(self, message: Message) -> Message | None:
        if not self._mine(message):
            return message
        kind = message["header"]["msg_type"]
        if kind == "clear_output":  # it would wipe the whole agent cell
            self.outputs.clear()
            return None
        content = message["content"]
        content["data"] = self._redact(content["data"])
        self.outputs.append({"output_type": "display_data", "data": content["data"], "metadata": content["metadata"]})
        return message

    def _result(self, message: Message) -> Message | None:
        if not self._mine(message):
            return message
        content = message["content"]
        if self._silent:
            return None
        if any(kind.startswith(_RICH) for kind in content["data"]):
            self._shell.display_pub.publish(content["data"], content["metadata"])
        else:
            self.outputs.append({"output_type": "display_data", "data": content["data"], "metadata": {}})
        return None  # an agent's cell has no Out


@contextlib.contextmanager
def _guarded(shell: Any, run: CodeRun) -> Iterator[None]:
    """Errors as data instead of red output, ``exit()`` without the kernel's end, help texts as output."""

    def keep(etype: type, value: BaseException, stb: list[str]) -> None:
        run.error = (etype.__name__, str(value), plain_text("\n".join(stb)))

    page = {"text": ""}

    def pager(_shell: Any, text: Any, *_: Any, **__: Any) -> None:
        page["text"] += text.get("text/plain", "") if isinstance(text, dict) else str(text)
        print(plain_text(page["text"]))

    hook = shell.hooks.show_in_pager
    shell._showtraceback = keep
    shell.set_hook("show_in_pager", pager, 0)
    try:
        with without_exit(shell):
            yield
    finally:
        del shell._showtraceback
        shell.hooks.show_in_pager = hook


def _pub_thread() -> Any:
    stream: Any = sys.stdout
    return stream.pub_thread


def _snapshot(shell: Any) -> dict[str, int]:
    hidden = shell.user_ns_hidden
    return {name: id(value) for name, value in shell.user_ns.items() if not name.startswith("_") and name not in hidden}


def _compare(before: dict[str, int], after: dict[str, int], run: CodeRun) -> None:
    run.created = [name for name in after if name not in before]
    run.rebound = [name for name, identity in after.items() if before.get(name, identity) != identity]
    run.deleted = [name for name in before if name not in after]


def _plain_traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-8))
