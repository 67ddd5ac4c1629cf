"""Running a panel's function: what it prints, shows, returns and raises, as outputs of the panel alone."""

from __future__ import annotations

import contextlib
import inspect
import json
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

from .staying import without_exit

__all__ = ["NbOutput", "run_function", "shown"]

NbOutput = dict[str, Any]
_LONGEST_TEXT = 20_000
_LARGEST = 5_000_000
"""Characters of one rich output."""
_LARGEST_STORED = 1_000_000
"""Characters of an image that the static twin keeps."""


def run_function(shell: Any, name: str, variables: list[str]) -> list[NbOutput]:
    """Call the function of that name with the variables that it takes; outputs as nbformat has them.

    Runs on the kernel's main thread, between two steps of its loop.
    """
    from IPython.utils.capture import capture_output

    error: BaseException | None = None
    with capture_output() as captured:
        try:
            with _interruptible(), without_exit(shell):
                _show(shell, _called(shell, name, variables))
        except (Exception, SystemExit, KeyboardInterrupt) as raised:
            error = raised
            with contextlib.suppress(Exception):
                _flush_figures()
    outputs = [_stream(kind, text) for kind in ("stdout", "stderr") if (text := getattr(captured, kind))]
    outputs += [_rich(part.data, part.metadata or {}) for part in captured.outputs]
    return [*outputs, _error(error)] if error else outputs


def _called(shell: Any, name: str, variables: list[str]) -> Any:
    function = shell.user_ns.get(name)
    if not callable(function):
        raise NameError(f"the function {name!r} is gone: define it again")
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return function()
    return function(**{key: shell.user_ns[key] for key in parameters if key in variables and key in shell.user_ns})


def _show(shell: Any, value: Any) -> None:
    """Show open figures, and what the function returned."""
    from IPython.display import display

    figures = _flush_figures()
    if value is None or (figures and type(value).__module__.startswith("matplotlib")):
        return
    show: Any = display
    show(value)


def _flush_figures() -> bool:
    """Show the figures that pyplot holds, as the end of a cell does; whether there were any."""
    backend = sys.modules.get("matplotlib_inline.backend_inline")
    pyplot = sys.modules.get("matplotlib.pyplot")
    there = bool(backend and pyplot and pyplot.get_fignums())
    if backend and there:
        backend.flush_figures()
    return there


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """■ ends the function: no await is inside, so that the exception arises where it is caught."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _stream(name: str, text: str) -> NbOutput:
    cut = f"\n[... {len(text) - _LONGEST_TEXT:,} characters not shown ...]\n"
    shown = text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + cut
    return {"output_type": "stream", "name": name, "text": shown}


def _rich(data: dict[str, Any], metadata: dict[str, Any]) -> NbOutput:
    size = sum(len(value) if isinstance(value, str) else len(json.dumps(value, default=str)) for value in data.values())
    if size > _LARGEST:
        return _stream("stdout", f"[an output of {size:,} characters is not shown]\n")
    return {"output_type": "display_data", "data": data, "metadata": metadata}


def _error(error: BaseException) -> NbOutput:
    # The frames of this module are none of the person's business.
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace, limit=-8)
    return {
        "output_type": "error",
        "ename": type(error).__name__,
        "evalue": str(error)[:2_000],
        "traceback": ["".join(lines)[-_LONGEST_TEXT:]],
    }


def shown(outputs: list[NbOutput]) -> list[dict[str, str]]:
    """Outputs as the static twin keeps them: texts and PNG images."""
    parts = []
    for output in outputs:
        data = output.get("data", {})
        png = data.get("image/png")
        if isinstance(png, str) and len(png) <= _LARGEST_STORED:
            parts.append({"png": png})
            continue
        text = output.get("text") or "".join(output.get("traceback", ())) or data.get("text/plain", "")
        parts.append({"text": str(text)[:_LONGEST_TEXT].rstrip("\n")})
    return [part for part in parts if part.get("text") or part.get("png")]
