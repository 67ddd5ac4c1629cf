"""``read_result``: the whole of a windowed result, and what a background command has written."""

from __future__ import annotations

import time
from typing import Annotated

from ..agent.errors import ToolError
from ..agent.tool import LARGE_CAP, Output, ToolContext
from ..agent.windowing import BYTES_BOUND
from .function import tool
from .jobs import JOBS, Job
from .shell import stop_hint
from .threads import in_thread

__all__ = ["read_result"]

_HEAD = 600
"""Characters left for the lines above a page."""
_KNOWN = 30


@tool(deferred=True, cap=LARGE_CAP, polling=True)
async def read_result(
    ctx: ToolContext,
    handle: Annotated[str, "as the windowed result or the background command named it"],
    offset: Annotated[int, "characters to skip"] = 0,
    limit: Annotated[int, "most characters to show"] = 20000,
) -> Output:
    """Read more of a result that was too long to show, or the output of a background command."""
    if offset < 0 or limit < 1:
        raise ToolError("offset must be 0 or more and limit 1 or more")
    if job := JOBS.get(handle):
        return await in_thread(_job, job, offset, limit)
    text = ctx.transcript.spool.get(handle)
    if text is None and (age := _awaited(ctx, handle)) is not None:
        return Output(
            f"{handle}: the call behind it was given up {age:.0f} s ago and its work has not ended in this kernel. It "
            "can't be stopped from here; you will be told when it ends, so don't wait for it: go on, or end your turn."
        )
    if text is None:
        raise ToolError(_unknown(ctx, handle))
    return Output(_page(f"{handle}:", text, offset, limit))


def _awaited(ctx: ToolContext, handle: str) -> float | None:
    """Seconds since a call with this handle ran into its time limit; None where there is none."""
    for line in reversed(ctx.transcript.lines):
        if line["type"] == "result" and line["details"].get("later") == handle:
            return time.time() - float(line["t"])
    return None


def _unknown(ctx: ToolContext, handle: str) -> str:
    known = [name for name in ctx.transcript.spool.handles() if not name.startswith("before")]
    known = [*known[-_KNOWN:], *JOBS]
    there = f"known: {', '.join(known)}" if known else "there are none in this conversation"
    gone = " Background commands end with the kernel that started them." if handle.startswith("job") else ""
    return f"there is no result {handle!r}; {there}.{gone}"


def _page(head: str, text: str, offset: int, limit: int) -> str:
    """A page that fits the cap whole, so that paging reaches the last character."""
    if offset >= len(text) and text:
        return f"{head} offset {offset:,} is beyond its end ({len(text):,} characters)"
    page = text[offset : offset + min(limit, LARGE_CAP - _HEAD)]
    while len(page.encode("utf-8", "surrogatepass")) > BYTES_BOUND - 4 * _HEAD:
        page = page[: len(page) * 3 // 4]
    end = offset + len(page)
    rest = f"next offset {end}" if end < len(text) else "this is its end"
    return f"{head} characters {offset}-{end} of {len(text)}, {rest}\n{page}"


def _job(job: Job, offset: int, limit: int) -> Output:
    running = job.running
    left = [] if running else job.left()
    state = f"running for {job.seconds:.0f} s" if running else f"{job.verdict}, after {job.seconds:.0f} s"
    if left:
        state += f"; still running in the background: pid {', '.join(map(str, left[:10]))}"
    now = (job.size, running or bool(left))
    job.polls = job.polls + 1 if now == job.seen else 1
    job.seen = now
    if now[1] and job.polls >= 3:
        state += f". Nothing new since {job.polls} reads. To stop it: {stop_hint(job)}"
    return Output(_page(f"{job.handle} ({state}):", job.text(), offset, limit), {"job": job.handle, "running": now[1]})
