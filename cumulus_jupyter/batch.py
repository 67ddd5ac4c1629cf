"""``agent_map``: one small run for each row of a table.

What comes back has the form of what was given, on the same index. A DataFrame or Series gives a DataFrame where the
results are objects (a column for each field, and ``error``; ``agent_error`` where a field has that name), else a Series
named ``result``; ``.attrs["usage"]`` and ``.attrs["errors"]`` are plain dictionaries. Any other rows give a
:class:`~.tables.MappedRows`: a list with ``.usage`` and ``.errors``. A row that failed has missing values, or None, and
its error by position.

The journal is a file of JSON lines, one for each success. A row is known there by its content, the instruction, the
schema, the model, the added system text and the tools' names; one that stands there is not asked again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from .agent.errors import CumulusError, ProviderError, SettingsError
from .agent.loop import Limits
from .agent.messages import RunUsage
from .journal import Journal
from .rowtask import Outcome, RowTask, Task, answer_elsewhere
from .settings import CumulusAgent
from .tables import collected, rows_of, shown

if TYPE_CHECKING:
    from .workers import Engine

__all__ = ["agent_map"]


async def agent_map(
    rows: Any,
    instruction: str,
    *,
    schema: Any = None,
    model: str | None = None,
    tools: Iterable[Any] = (),
    concurrency: int = 8,
    journal: str | os.PathLike[str] | None = None,
    workers: str | Executor | None = None,
    progress: bool = True,
    **options: Any,
) -> Any:
    """Have a model do the same small task for each row; the results in the form of the rows (see the module).

    A row that fails costs that row only. Where the server asks for slower requests, all rows wait.

    Parameters
    ----------
    rows
        A DataFrame, a Series, or any iterable of dicts, texts, tuples or objects.
    instruction
        What to do with one row. The model sees it with the row: a text as it is, anything else as JSON.
    schema
        What a result must be: a pydantic model, a dataclass, a type (``Literal["a", "b"]``, ``list[str]``), or a JSON
        schema. What the model gives is checked, and faults go back to it to be mended. None for plain texts.
    tools
        Functions (with ``@tool`` or plain) and names of built-in tools that a row's run may use.
    concurrency
        Rows under way at once.
    journal
        A file that keeps each success, so that a stopped batch goes on where it was when it is run again.
    workers
        Where the rows run: ``local``, ``dask://HOST:PORT``, ``ipyparallel[:PROFILE]`` or an executor; by default as set
        for sub-agents. Elsewhere, model keys come from the workers' environment, and each worker keeps its own pace.
    progress
        Show a bar, and a line of sums at the end.
    model, **options
        ``system``, ``effort``, ``max_turns`` (10), ``approve``, ``base_url``, ``api_key``: as an ``Agent`` takes them.

    Raises SettingsError for a wrong argument, and ProviderError where no row succeeded since the server refused in a
    way that holds for all (a wrong key, say); later that is the error of the rows that are left.
    """
    if concurrency < 1:
        raise SettingsError("concurrency is the number of rows under way at once: 1 or more")
    task, api_key = _task(instruction, schema, model, tools, **options)
    given = rows_of(rows)
    made = task.made(api_key)
    try:
        with Journal(journal, made.toolbox.redact) as kept, _interruptible():
            batch = _Batch(made, [shown(row) for row in given], kept, replace(task, model=made.provider.name))
            async with _engine(workers) as batch.engine:
                await batch.run(concurrency, progress=progress)
    finally:
        await made.provider.close()
    return collected(rows, batch.values, batch.errors, batch.usage, made.shape.fields if made.shape else None)


def _task(
    instruction: str,
    schema: Any,
    model: str | None,
    tools: Iterable[Any],
    *,
    system: str = "",
    effort: str | None = None,
    max_turns: int = 10,
    approve: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
) -> tuple[Task, str | None]:
    limits = Limits(max_turns, effort=effort)
    return Task(instruction, schema, model, tuple(tools), limits, system, approve, base_url, os.getcwd()), api_key


@contextlib.asynccontextmanager
async def _engine(workers: str | Executor | None) -> AsyncIterator[Engine | Executor | None]:
    """What runs the rows elsewhere, None for here; what was opened for this is closed behind it."""
    if isinstance(workers, Executor):
        yield workers
        return
    from .workers import open_engine

    engine = await asyncio.to_thread(open_engine, CumulusAgent().workers if workers is None else workers)
    try:
        yield engine
    finally:
        if engine is not None:
            await asyncio.to_thread(engine.close)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGINT wakes the event loop: a kernel's handler only leaves a note, which an idle loop would read much later."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    loop = asyncio.get_running_loop()

    def handle(number: int, frame: FrameType | None) -> None:
        try:
            before(number, frame)
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lambda: None)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handle:
            signal.signal(signal.SIGINT, before)


class _Batch:
    """The rows of one call, and what becomes of them."""

    def __init__(self, made: RowTask, texts: list[str], journal: Journal, task: Task) -> None:
        self.made = made
        self.texts = texts
        self.journal = journal
        self.task = task
        self.engine: Engine | Executor | None = None
        self.keys = made.keys(texts)
        self.values: list[Any] = [None] * len(texts)
        self.errors: dict[int, str] = {}
        self.usage = RunUsage(cost=0.0)
        self.known = self.done = 0
        self.hopeless = ""

    async def run(self, concurrency: int, *, progress: bool) -> None:
        """Do all rows that the journal lacks."""
        from tqdm.auto import tqdm

        started = time.monotonic()
        left = deque(at for at in range(len(self.texts)) if not self._stands(at))
        self.known = len(self.texts) - len(left)
        try:
            with tqdm(total=len(self.texts), initial=self.known, unit="row", disable=not progress) as bar:
                self.made.provider.told = lambda wait: bar.set_postfix_str(f"the server asked to wait {wait:.0f} s")
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(concurrency, len(left))):
                        group.create_task(self._work(left, bar))
        except asyncio.CancelledError as stop:
            # It stays what it is, for whoever cancelled; in a notebook this line stands for its traceback.
            stop._render_traceback_ = lambda: [self._stopped()]  # type: ignore[attr-defined]
            raise
        self.usage = replace(self.usage, seconds=time.monotonic() - started)
        if progress:
            print(self.summary())
        if self.hopeless and not (self.known or self.done):
            raise self.made.provider.hopeless or ProviderError(self.hopeless)

    def summary(self) -> str:
        """What became of the rows, on one line."""
        left = len(self.texts) - self.known - self.done - len(self.errors)
        counts = {"from the journal": self.known, "done": self.done, "failed": len(self.errors), "not done": left}
        parts = [f"{len(self.texts):,} rows: " + ", ".join(f"{n:,} {word}" for word, n in counts.items() if n)]
        parts.append(f"{self.usage.input:,} tokens in, {self.usage.output:,} out")
        if self.usage.cost is not None:
            parts.append(f"{self.usage.cost:.4f} USD")
        if self.errors:
            error, times = Counter(self.errors.values()).most_common(1)[0]
            parts.append(f"most often ({times:,}): {error}")
        return " · ".join([*parts, *([self.journal.broken] if self.journal.broken else [])])

    def _stopped(self) -> str:
        file = self.journal.path
        advice = f"run the cell again to go on from {file}" if file else "give a journal=FILE to go on after a stop"
        return f"stopped: {self.summary()} · {advice}"

    def _stands(self, at: int) -> bool:
        """Whether the journal has this row's value; it is taken from there."""
        if self.keys[at] not in self.journal.values:
            return False
        try:
            self.values[at] = self.made.value(self.journal.values[self.keys[at]])
        except CumulusError:  # a validator of the schema changed since
            return False
        return True

    async def _work(self, left: deque[int], bar: Any) -> None:
        while left:
            at = left.popleft()
            error = f"not asked: {self.hopeless}" if self.hopeless else await self._do(at)
            if error:
                self.errors[at] = error
                bar.set_postfix_str(f"{len(self.errors)} failed")
            bar.update()

    async def _do(self, at: int) -> str:
        """One row's run; why it failed, empty where it did not."""
        outcome = await (self._here(at) if self.engine is None else self._elsewhere(at, self.engine))
        used, one = self.usage, outcome.usage
        self.usage = RunUsage(
            used.rounds + one.rounds,
            used.input + one.input,
            used.cached + one.cached,
            used.output + one.output,
            cost=None if used.cost is None or one.cost is None else used.cost + one.cost,
        )
        return outcome.error

    async def _here(self, at: int) -> Outcome:
        outcome = await self.made.answer(self.texts[at], lambda given: self._succeed(at, given))
        self.hopeless = self.hopeless or str(self.made.provider.hopeless or "")
        return outcome

    async def _elsewhere(self, at: int, engine: Engine | Executor) -> Outcome:
        try:
            work = engine.submit(answer_elsewhere, {"task": self.task, "text": self.texts[at]})
            outcome: Outcome
            given, outcome, hopeless = await asyncio.wrap_future(work)
            for value in given:
                self._succeed(at, value)
        except Exception as error:  # a worker that died, something that can't travel
            return Outcome(f"{type(error).__name__}: {error}", RunUsage(cost=0.0))
        self.hopeless = self.hopeless or hopeless
        return outcome

    def _succeed(self, at: int, given: Any) -> None:
        # Value and journal in one step: a stop that comes now finds the row in both or in neither.
        self.values[at] = self.made.value(given)
        self.journal.add(self.keys[at], given)
        self.done += 1
