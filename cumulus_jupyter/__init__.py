"""An agent in a notebook cell.

``%load_ext cumulus_jupyter`` gives the ``%%agent`` magic; :class:`Agent` and :func:`tool` serve programs. Importing
this package does no I/O and imports no vendor's SDK.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .agent.errors import (
    AgentError,
    AgentStopped,
    BridgeError,
    CumulusError,
    ProviderError,
    SettingsError,
    ToolError,
    TranscriptError,
)

if TYPE_CHECKING:
    from .agent.events import Finished, TextDelta, ToolFinished, ToolStarted
    from .app import Agent
    from .batch import agent_map
    from .usertools import tool

__all__ = [
    "Agent",
    "AgentError",
    "AgentStopped",
    "BridgeError",
    "CumulusError",
    "Finished",
    "ProviderError",
    "SettingsError",
    "TextDelta",
    "ToolError",
    "ToolFinished",
    "ToolStarted",
    "TranscriptError",
    "agent_map",
    "load_ipython_extension",
    "tool",
    "unload_ipython_extension",
]

__version__ = "0.1.0"

_LATER = {
    "Agent": ".app",
    "agent_map": ".batch",
    "tool": ".usertools",
    **dict.fromkeys(("Finished", "TextDelta", "ToolFinished", "ToolStarted"), ".agent.events"),
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext cumulus_jupyter``."""
    from .jupyter.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext cumulus_jupyter``."""
    from .jupyter.extension import unload

    unload(shell)
