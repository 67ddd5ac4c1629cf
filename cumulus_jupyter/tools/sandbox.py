"""How subprocesses are confined: by Landlock where the Linux kernel has it."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..agent.errors import ToolError

__all__ = ["Confinement", "confine", "hidden_paths", "sandbox_status"]

_HIDDEN = (
    "~/.ssh",
    "~/.gnupg",
    "~/.aws",
    "~/.azure",
    "~/.kube",
    "~/.kaggle",
    "~/.netrc",
    "~/.pypirc",
    "~/.git-credentials",
    "~/.docker/config.json",
    "~/.config/gcloud",
    "~/.config/gh",
    "~/.config/git/credentials",
    "~/.cache/huggingface/token",
    "~/.cache/huggingface/stored_tokens",
    "~/.huggingface/token",
    "~/.local/share/jupyter/runtime",
    "~/Library/Jupyter/runtime",
)
"""Keys, and what lets a process talk to Jupyter as the person."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """A command as it is started, and what holds for it: ``note`` is for the model where something fails."""

    command: list[str]
    confined: bool
    note: str = ""


@functools.cache
def _missing() -> str:
    """Why there is no Landlock; empty where there is."""
    if sys.platform != "linux":
        return "only Linux has Landlock"
    if not sys.executable:
        return "the path of the Python interpreter is not known"
    try:
        import landlockpy
    except ImportError:
        return "the package landlockpy is not installed"
    return "" if landlockpy.supported() else "this Linux kernel has no Landlock, or it is switched off"


def sandbox_status(mode: str, root: Path | None = None, private: Sequence[Path] = ()) -> str:
    """What holds for subprocesses under a sandbox setting, in a sentence."""
    if mode == "off":
        return "sandbox off: subprocesses can do what you can"
    if missing := _missing():
        if mode == "require":
            return f"sandbox required but not there ({missing}): no subprocess is started"
        return f"sandbox not there ({missing}): subprocesses can do what you can"
    text = (
        "sandbox on (Landlock): subprocesses write beneath the root and a private temporary folder only, and can't "
        "read keys and stored conversations"
    )
    if root is not None and (inside := _inside(root, hidden_paths(private))):
        verdict = "no subprocess is started" if mode == "require" else "they can be read"
        text += f"; but these lie inside the root, so {verdict}: {', '.join(inside[:5])}"
    return text


def hidden_paths(private: Sequence[Path] = ()) -> list[str]:
    """What subprocesses can't read: usual places of keys, stored conversations, and ``private``."""
    import platformdirs

    places = [*_HIDDEN, platformdirs.user_data_dir("cumulus-jupyter", appauthor=False), *map(str, private)]
    places += [os.environ[name] for name in ("CUMULUS_DATA_DIR", "JUPYTER_RUNTIME_DIR") if os.environ.get(name)]
    paths = (os.path.realpath(os.path.expanduser(place)) for place in places)
    return sorted({path for path in paths if os.path.exists(path)})


def _inside(root: Path, hidden: list[str]) -> list[str]:
    base = Path(os.path.realpath(root))
    return [path for path in hidden if Path(path).is_relative_to(base)]


def confine(command: list[str], mode: str, root: Path, temporary: Path, private: Sequence[Path] = ()) -> Confinement:
    """The command as the sandbox setting has it started.

    Landlock can only allow: what lies inside a folder that may be written can't be hidden. So with keys inside the
    root (a home folder as root), ``require`` refuses, and ``auto`` lets them be read.

    Raises
    ------
    ToolError
        The setting is ``require`` and it can't be met.
    """
    if mode == "off":
        return Confinement(command, confined=False)
    if missing := _missing():
        if mode == "require":
            raise ToolError(f"refused: the sandbox is required (CUMULUS_SANDBOX=require), but {missing}")
        return Confinement(command, confined=False)
    hidden = hidden_paths(private)
    if mode == "require" and (inside := _inside(root, hidden)):
        raise ToolError(
            f"refused: the sandbox is required (CUMULUS_SANDBOX=require), but {inside[0]} lies inside the root and "
            "could be read. Start Jupyter in a project's folder."
        )
    library = importlib.util.find_spec("landlockpy")
    assert library is not None
    assert library.origin is not None
    spec = {
        "library": str(Path(library.origin).parents[1]),
        "write": [os.path.realpath(root), str(temporary)],
        "hidden": hidden,
        "command": command,
    }
    launcher = str(Path(__file__).with_name("confine.py"))
    note = f"confined: only {root} and {temporary} can be written, and key files can't be read"
    return Confinement([sys.executable, "-I", "-S", launcher, json.dumps(spec)], confined=True, note=note)
