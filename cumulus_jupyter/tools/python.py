"""``run_python``: code in the user's live namespace, with what it printed, showed and changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from ..agent.errors import ToolError
from ..agent.host import CodeRun
from ..agent.messages import Image
from ..agent.tool import LARGE_CAP, Access, Output, ToolContext
from .function import tool
from .terminal import plain_text

__all__ = ["KERNEL_LOCK", "outputs_for_model", "run_python"]

KERNEL_LOCK = "kernel"
"""What a call holds while it uses the kernel's main thread."""
_LONGEST = 3_600.0
_IMAGES = ("image/png", "image/jpeg")
_MOST_IMAGES = 4


def _runs(_root: Path, _arguments: dict[str, Any]) -> Access:
    return Access.RUN


@tool(cap=LARGE_CAP, timeout=None, access=_runs, locks=lambda root, arguments: (KERNEL_LOCK,))
async def run_python(
    ctx: ToolContext,
    code: Annotated[str, "as in a notebook cell: the last expression's value is shown; await, not asyncio.run"],
    timeout: Annotated[float, "seconds after which the code is interrupted, at most 3600"] = 120,
) -> Output:
    """Run Python in the user's live kernel, with all of their variables.

    Gives what was printed and shown, images included, the error if there was one, and the variables that were
    created, rebound or deleted. State stays for the next call.
    """
    if not code.strip():
        raise ToolError("the code is empty")
    if not 0 < timeout <= _LONGEST:
        raise ToolError(f"timeout must be over 0 and at most {_LONGEST:g} seconds, not {timeout:g}")
    run = await ctx.host.run_code(code, call_id=ctx.call.id, folder=ctx.root, timeout=timeout, progress=ctx.progress)
    text, images = outputs_for_model(run.outputs)
    parts = [text] if text else []
    parts += _after(run, timeout)
    shown = [text, *([run.error[2] or f"{run.error[0]}: {run.error[1]}"] if run.error else [])]
    details = {
        "output": "\n".join(part for part in shown if part)[-20_000:],
        "images": len(images),
        "created": run.created,
        "rebound": run.rebound,
        "deleted": run.deleted,
    }
    told = "\n".join(parts) or "(no output)"
    return Output([told, *images] if images else told, details, ok=run.error is None)


def _after(run: CodeRun, timeout: float) -> list[str]:
    """The lines behind the output: error, limit, notes, changed variables."""
    lines = []
    if run.timed_out:
        lines.append(f"interrupted: it ran longer than {timeout:g} s. Do less at once or give a longer timeout.")
    elif run.interrupted:
        lines.append("interrupted by the person")
    elif run.error:
        name, value, trace = run.error
        lines.append(trace or f"{name}: {value}")
    lines += run.notes
    for word, names in (("created", run.created), ("rebound", run.rebound), ("deleted", run.deleted)):
        if names:
            lines.append(f"variables {word}: {', '.join(names[:50])}{' …' if len(names) > 50 else ''}")
    return lines


def outputs_for_model(outputs: list[dict[str, Any]]) -> tuple[str, list[Image]]:
    """Text and images of nbformat outputs; what a model can't read is named with its size."""
    texts: list[str] = []
    images: list[Image] = []
    for output in outputs:
        if output["output_type"] == "stream":
            texts.append(plain_text(output["text"]))
            continue
        data = output.get("data", {})
        picture = next((kind for kind in _IMAGES if kind in data), None)
        if picture and len(images) < _MOST_IMAGES:
            images.append(Image(picture, data[picture].replace("\n", "")))
            texts.append(f"[image {len(images)}]\n")
        elif "text/plain" in data:
            texts.append(data["text/plain"] + "\n")
        elif data:
            kind = next(iter(data))
            texts.append(f"[{kind}, {len(str(data[kind])):,} characters]\n")
    return "".join(texts).rstrip("\n"), images
