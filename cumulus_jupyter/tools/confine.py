"""The program that stands between the kernel and a confined command: it applies Landlock to itself, then becomes it.

It runs as a file of its own, with the standard library and ``landlockpy`` only: it starts quickly, and the kernel's own
process is never confined. Its one argument is JSON: ``library`` (folder of landlockpy), ``write``
(folders that may be written), ``hidden`` (files and folders that may not be read) and ``command`` (an argument list).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator

__all__ = ["main", "readable"]

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts")
_SHARED_MEMORY = "/dev/shm"
"""Python's ``multiprocessing`` keeps its semaphores there: memory, not files."""
_DROP = 24
"""``PR_CAPBSET_DROP``: the capability is gone with the next exec."""
_CAPABILITIES = (19, 21, 38)
"""``CAP_SYS_PTRACE``, ``CAP_SYS_ADMIN``, ``CAP_PERFMON``."""


def main(library: str, write: list[str], hidden: list[str], command: list[str]) -> None:
    """Confine this process and become the command."""
    sys.path.append(library)
    from landlockpy import AccessFS, AccessNet, Ruleset

    put = AccessFS.WRITE_FILE | AccessFS.TRUNCATE
    change = put | AccessFS.REFER | AccessFS.REMOVE_DIR | AccessFS.REMOVE_FILE
    for made in ("CHAR", "DIR", "REG", "SOCK", "FIFO", "BLOCK", "SYM"):
        change |= AccessFS[f"MAKE_{made}"]
    with Ruleset(handled_fs=change | AccessFS.READ_FILE, handled_net=AccessNet.NONE) as rules:
        for path in readable("/", [os.path.realpath(path) for path in hidden]):
            with contextlib.suppress(OSError):
                rules.allow_path(path, AccessFS.READ_FILE)
        for path in [*write, _SHARED_MEMORY]:
            with contextlib.suppress(OSError):
                rules.allow_path(path, change | AccessFS.READ_FILE)
        for path in _DEVICES:
            with contextlib.suppress(OSError):
                rules.allow_path(path, put | AccessFS.READ_FILE)
        _drop_capabilities()
        rules.restrict()
    os.execvp(command[0], command)


def _drop_capabilities() -> None:
    """Take from root what would let it read the kernel process's environment, with its keys, past Landlock."""
    import ctypes

    library = ctypes.CDLL(None)
    for capability in _CAPABILITIES:  # fails where the process has none to drop
        library.prctl(_DROP, capability, 0, 0, 0)


def readable(top: str, hidden: list[str]) -> Iterator[str]:
    """The fewest paths beneath ``top`` that together hold all that is there but what is hidden."""
    prefix = top.rstrip("/") + "/"
    inside = [path for path in hidden if path.startswith(prefix)]
    if top in hidden:
        return
    if not inside:
        yield top
        return
    with contextlib.suppress(OSError), os.scandir(top) as entries:
        for entry in entries:
            path = prefix + entry.name
            # A link grants what it leads to, so it is passed over: that has its own place in the tree.
            if not entry.is_symlink():
                yield from readable(path, inside)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
