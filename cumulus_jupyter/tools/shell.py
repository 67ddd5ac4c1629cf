"""``run_shell``: a command in the root, with nobody at a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

from ..agent.errors import ToolError
from ..agent.tool import DEFAULT_TIMEOUT, LARGE_CAP, Output, ToolContext
from .function import tool
from .jobs import JOBS, Job, start
from .threads import in_thread

__all__ = ["run_shell", "stop_hint"]

_LONGEST = 3_600.0
_EARLY = 0.5
"""Seconds that a background command is watched for an early end."""
_TAIL = 2_000
_SHOWN = 20_000
_DENIED = re.compile(r"permission denied|operation not permitted|read-only file system|errno 13|eacces", re.IGNORECASE)


def _seconds(arguments: dict[str, Any]) -> float:
    """The call ends its command itself; the wait for it is a little longer."""
    with contextlib.suppress(TypeError, ValueError):
        return float(arguments.get("timeout", DEFAULT_TIMEOUT)) + 15
    return DEFAULT_TIMEOUT


@tool(deferred=True, cap=LARGE_CAP, approve=True, timeout=_seconds)
async def run_shell(
    ctx: ToolContext,
    command: Annotated[str, "for bash (sh where there is none, cmd on Windows)"],
    timeout: Annotated[float, "seconds after which the command and all it started are ended, at most 3600"] = 120,
    background: Annotated[bool, "return at once with a handle that read_result reads; it ends with the kernel"] = False,
) -> Output:
    """Run a shell command in the root folder: bash, git, tests, build tools. There is no terminal.

    Standard input is at its end; pagers, editors and prompts are off. Gives the exit code and the output, both streams
    in order.
    """
    if not command.strip():
        raise ToolError("the command is empty")
    if not 0 < timeout <= _LONGEST:
        raise ToolError(f"timeout must be over 0 and at most {_LONGEST:g} seconds, not {timeout:g}")
    job = await in_thread(start, ctx, command)
    try:
        ended = await _wait(job, _EARLY if background else timeout, ctx.progress)
        if not ended and background:
            return _started(job)
        if not ended:
            await in_thread(job.end)
    except asyncio.CancelledError:
        threading.Thread(target=job.end, daemon=True).start()
        raise
    return await in_thread(_ended, job, None if ended else timeout)


async def _wait(job: Job, seconds: float, progress: Callable[[str], None]) -> bool:
    """Wait for the command's end, showing the end of its output; False where it still runs."""
    until = time.monotonic() + seconds
    pause, shown, told = 0.002, 0, 0.0
    while job.running:
        now = time.monotonic()
        if now >= until:
            return False
        if now - told >= 0.1 and (size := job.size) != shown:
            shown, told = size, now
            progress("\n".join(job.text(_TAIL).rstrip().splitlines()[-8:]))
        await asyncio.sleep(min(pause, until - now))
        pause = min(pause * 2, 0.05)
    return True


def stop_hint(job: Job) -> str:
    """How the model ends a command and what it left: by its group, with those that left that by their own number."""
    return f'run_shell(command="kill -- {" ".join([f"-{job.process.pid}", *map(str, job.apart())])}")'


def _started(job: Job) -> Output:
    text = (
        f"running in the background as {job.handle} (pid {job.process.pid}). Its output: "
        f'read_result(handle="{job.handle}"). To stop it: {stop_hint(job)}. It ends with the kernel.'
    )
    return Output(text, {"job": job.handle, "command": job.command, "confined": job.confinement.confined})


def _ended(job: Job, timeout: float | None) -> Output:
    text = job.text()
    ok = timeout is None and job.process.returncode == 0 and not job.too_long
    verdict = job.verdict
    if timeout is not None:
        verdict = f"ended here with all it had started: it ran longer than {timeout:g} s"
    head = f"{verdict}, after {job.seconds:.1f} s (non-interactive: no terminal, nothing on standard input)"
    notes = []
    if not ok and job.confinement.confined and _DENIED.search(text[-_SHOWN:]):
        notes.append(f"[{job.confinement.note}]")
    if left := job.left():
        pids = ", ".join(map(str, left[:10]))
        notes.append(
            f'[still running in the background: pid {pids}; later output: read_result(handle="{job.handle}"); to stop: '
            f"{stop_hint(job)}]"
        )
    else:
        JOBS.pop(job.handle, None)
        job.output.unlink(missing_ok=True)
    details = {
        "command": job.command,
        "output": text[-_SHOWN:],
        "exit_code": job.process.returncode,
        "confined": job.confinement.confined,
    }
    return Output("\n".join([head, *notes, text.rstrip("\n") or "(no output)"]), details, ok)
