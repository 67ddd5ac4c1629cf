"""SIGINT while an agent cell waits or runs code.

The kernel's own handler neither wakes an idle event loop nor is it safe here: a KeyboardInterrupt raised in any frame
but the user's leaves asyncio's loop and ends the kernel. So one handler of ours serves a cell's whole life.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

__all__ = ["InterruptHandler"]


class InterruptHandler:
    """Turns SIGINT into a stop of the run, or into a KeyboardInterrupt of the code that it runs.

    Parameters
    ----------
    stop
        Called on the loop's thread when the person interrupts.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = stop
        self._code: asyncio.Task[object] | None = None
        self._limit_hit = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Handle SIGINT for the time of the block; elsewhere than on the main thread this changes nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextlib.contextmanager
    def running_code(self, seconds: float) -> Iterator[Callable[[], bool]]:
        """The current task runs the user's code, for at most ``seconds``; gives whether the limit ended it."""
        self._code, self._limit_hit = asyncio.current_task(), False
        timer = threading.Timer(seconds, self._end_code)
        timer.daemon = True
        with self.installed():
            timer.start()
            try:
                yield lambda: self._limit_hit
            finally:
                timer.cancel()
                self._code = None

    def _end_code(self) -> None:
        self._limit_hit = True
        # Blocking code must be reached where it blocks: a signal ends a sleep or a C loop that checks for signals.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _handle(self, _signal: int, frame: FrameType | None) -> None:
        code = self._code
        if not (code and self._limit_hit):
            self._loop.call_soon_threadsafe(self._stop)
        if code is None:
            return
        if asyncio.current_task(self._loop) is code and _in_user_code(frame):
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(code.cancel)


def _in_user_code(frame: FrameType | None) -> bool:
    """Whether the frame belongs to what IPython runs for the user."""
    while frame:
        if frame.f_code.co_name == "run_code" and "interactiveshell" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
