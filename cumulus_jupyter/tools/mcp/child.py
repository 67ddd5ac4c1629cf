"""The program that stands between the kernel and a server's command on Linux: it ties its life to the kernel's.

A server that reads its input to the end stops by itself when the kernel is gone; this is for the others. It runs as a
file of its own with the standard library only, and then becomes the command.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

__all__ = ["main"]

_PARENT_DEATH = 1
"""``PR_SET_PDEATHSIG``."""


def main(parent: int, command: list[str]) -> None:
    """Ask for a signal when the parent ends, and become the command."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:  # it ended before it was asked
        sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
