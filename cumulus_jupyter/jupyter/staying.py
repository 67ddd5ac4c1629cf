"""``exit()`` in code that an agent runs does not end the person's kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["without_exit"]


@contextlib.contextmanager
def without_exit(shell: Any) -> Iterator[None]:
    """For the time of the block ``exit()`` ends the code that calls it, and nothing else."""

    def no_exit() -> None:
        raise SystemExit("exit() does nothing here: the kernel belongs to the person")

    before = shell.ask_exit
    exits = {name: shell.user_ns.get(name) for name in ("exit", "quit")}
    shell.ask_exit = no_exit
    try:
        yield
    finally:
        shell.ask_exit = before
        shell.exit_now = False
        shell.user_ns.update({name: value for name, value in exits.items() if value is not None})
