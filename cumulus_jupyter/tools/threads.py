"""Plain functions off the event loop, on threads of our own."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["THREADS", "in_thread"]

THREADS = 32
"""The loop's default pool has as few as six: sixteen calls would take three waves."""

T = TypeVar("T")


class _Pool:
    """Threads started as they are needed and kept.

    They are daemons: a tool that never returns must not keep the process from ending, as one on a
    ``ThreadPoolExecutor`` would.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._started = 0
        self._idle = 0
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def submit(self, work: Callable[[], None]) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._started < self._size:
                self._started += 1
                threading.Thread(target=self._serve, name=f"cumulus-tool-{self._started}", daemon=True).start()
        self._work.put(work)

    def _serve(self) -> None:
        while True:
            self._work.get()()
            with self._lock:
                self._idle += 1


_pool = _Pool(THREADS)


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a plain function on a thread, with the caller's context variables.

    Cancelling the wait leaves the function running. An exception that is no :class:`Exception` (``SystemExit``, say)
    would end the loop and comes as a ``RuntimeError``.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(function, *arguments)
            settle = _settled(future, lambda: future.set_result(result))
        except BaseException as caught:
            error = caught if isinstance(caught, Exception) and not isinstance(caught, StopIteration) else None
            fault = error or RuntimeError(f"{type(caught).__name__}: {caught}")
            settle = _settled(future, lambda: future.set_exception(fault))
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle)

    _pool.submit(work)
    return await future


def _settled(future: asyncio.Future[Any], settle: Callable[[], None]) -> Callable[[], None]:
    return lambda: None if future.done() else settle()
