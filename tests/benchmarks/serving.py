"""Model servers in processes of their own, so that they and what is measured don't share an interpreter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["WIRES", "served"]

WIRES = {"chat": "Chat Completions", "messages": "Messages"}
_ROOT = Path(__file__).parents[2]


@contextmanager
def served(module: str, *arguments: str | int) -> Iterator[str]:
    """Run a module that prints its address and serves until its standard input ends; gives the address."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError(f"{' '.join(command)} did not start")
        yield url
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(10)
