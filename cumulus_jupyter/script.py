"""The surroundings of an agent in a plain script: a namespace of its own, nobody to ask, no notebook."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import sys
import traceback
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TextIO

from .agent.host import CodeRun, LiveNotebook, Place, working_in
from .agent.messages import Answer, Ask, Outcome

__all__ = ["ScriptHost", "printed", "user_variables"]

_target: ContextVar[io.StringIO | None] = ContextVar("cumulus_printed", default=None)


class _ByContext(io.TextIOBase):
    """Writes where the writing task's context says, else to the stream that stands behind it."""

    def __init__(self, behind: TextIO) -> None:
        self._behind = behind

    def write(self, text: str) -> int:
        return (_target.get() or self._behind).write(text)

    def flush(self) -> None:
        self._behind.flush()


@contextlib.contextmanager
def printed() -> Iterator[io.StringIO]:
    """What this task prints, and nothing that others print while it awaits."""
    out = io.StringIO()
    before = sys.stdout, sys.stderr
    token = _target.set(out)
    sys.stdout, sys.stderr = _ByContext(before[0]), _ByContext(before[1])
    try:
        yield out
    finally:
        sys.stdout, sys.stderr = before
        _target.reset(token)


class ScriptHost:
    """Runs code with ``exec`` in ``variables``; what is printed and the last expression's value are its output."""

    person = False

    def __init__(self, variables: dict[str, Any] | None = None) -> None:
        self._variables = variables if variables is not None else {"__name__": "__main__"}

    def namespace(self) -> dict[str, Any]:
        """The variables that code sees and makes."""
        return self._variables

    async def live_notebook(self) -> LiveNotebook | None:
        """No notebook."""
        return None

    def place(self) -> Place:
        """No notebook."""
        return Place()

    async def open_in(self, path: str) -> str:
        """No front end is known."""
        return ""

    async def ask(self, ask: Ask) -> Answer:
        """Nobody is there."""
        return Answer(Outcome.NO_USER)

    async def run_code(
        self, code: str, *, call_id: str, folder: Path, timeout: float, progress: Callable[[str], None]
    ) -> CodeRun:
        """Run in the script's own thread; only code that awaits can be ended at ``timeout``."""
        run = CodeRun()
        before = {name: id(value) for name, value in self._variables.items()}
        with printed() as out, working_in(folder, run):
            try:
                value = await asyncio.wait_for(self._execute(code), timeout)
                if value is not None:
                    print(repr(value))
            except TimeoutError:
                run.timed_out = True
            except (Exception, SystemExit, KeyboardInterrupt) as error:
                trace = "".join(traceback.format_exception(error.with_traceback(_own_frames(error))))
                run.error = (type(error).__name__, str(error), trace)
        if text := out.getvalue():
            run.outputs.append({"output_type": "stream", "name": "stdout", "text": text})
        after = self._variables
        run.created = [name for name in after if name not in before and not name.startswith("__")]
        run.rebound = [name for name in before if name in after and id(after[name]) != before[name]]
        run.deleted = [name for name in before if name not in after]
        return run

    async def _execute(self, code: str) -> Any:
        tree = ast.parse(code, "<agent>")
        last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if last is not None:
            tree.body.pop()
        await self._evaluate(compile(tree, "<agent>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
        if last is None:
            return None
        return await self._evaluate(
            compile(ast.Expression(last.value), "<agent>", "eval", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        )

    async def _evaluate(self, compiled: Any) -> Any:
        value = eval(compiled, self._variables)
        return await value if inspect.iscoroutine(value) else value


def _own_frames(error: BaseException) -> Any:
    """The traceback from the code's own first frame on."""
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename != "<agent>":
        trace = trace.tb_next
    return trace


def user_variables() -> dict[str, Any] | None:
    """The variables of the notebook or terminal that this runs in; None in a plain script."""
    main = vars(sys.modules["__main__"])
    return main if "get_ipython" in main else None
