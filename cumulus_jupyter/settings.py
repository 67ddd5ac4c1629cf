"""Settings: defaults of every run, each value with where it came from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from traitlets import Dict, Enum, Float, Integer, Unicode
from traitlets.config import Config, Configurable

from .agent.errors import SettingsError
from .agent.policy import APPROVE_MODES

__all__ = ["HEADLESS_MODES", "CumulusAgent"]

_VARIABLES = {"mcp_servers": "CUMULUS_MCP"}
HEADLESS_MODES = ("tell", "recommended", "fail")


class _Servers(Dict):
    """Entries of MCP servers by name; from the environment as JSON or ``@FILE``."""

    def from_string(self, text: str) -> dict[str, Any]:
        """Read a JSON object, or the one in a file."""
        value = json.loads(Path(text[1:]).expanduser().read_text(encoding="utf-8-sig") if text[:1] == "@" else text)
        if not isinstance(value, dict):
            raise ValueError("it must be a JSON object from a server's name to its entry, or @FILE with one")
        return value


class CumulusAgent(Configurable):
    """Defaults of ``%%agent``.

    A value is the built-in one, or comes from an IPython configuration file (``c.CumulusAgent.model = …``), or from
    the environment (``CUMULUS_MODEL``), or from ``%config CumulusAgent.model = …`` in the notebook; the later in this
    list wins, and an option of the cell wins over all.
    """

    model = Unicode("", help="Model of a cell without -m; empty: by the keys that are there.").tag(config=True)
    approve = Enum(APPROVE_MODES, "edits", help="What runs without asking: ask, edits, all, none.").tag(config=True)
    answers = Unicode("", help="Answers for questions where nobody is there: JSON or @FILE.").tag(config=True)
    headless = Enum(HEADLESS_MODES, "tell", help="What an unanswered question comes to where nobody is there.").tag(
        config=True
    )
    max_turns = Integer(30, min=1, help="Round-trips to the model per prompt.").tag(config=True)
    sandbox = Enum(("auto", "off", "require"), "auto", help="Confinement of shell commands.").tag(config=True)
    mcp_servers = _Servers({}, help="MCP servers of your own, as in mcpServers of .mcp.json (CUMULUS_MCP).").tag(
        config=True
    )
    mcp_start_timeout = Float(30.0, min=1.0, help="Seconds that an MCP server may take to start.").tag(config=True)
    workers = Unicode("local", help="Where sub-agents run.").tag(config=True)
    data_dir = Unicode("", help="Where conversations are kept; empty: the platform's folder.").tag(config=True)

    def __init__(self, config: Config | None = None, environ: Mapping[str, str] = os.environ, **kwargs: Any) -> None:
        super().__init__(config=config or Config(), **kwargs)
        self.origins = dict.fromkeys(self.names(), "built-in")
        for name in (config or Config()).get("CumulusAgent", {}):
            if name in self.origins:
                self.origins[name] = "file"
        for name in self.origins:
            variable = _VARIABLES.get(name, f"CUMULUS_{name.upper()}")
            if variable in environ:
                self._set(name, environ[variable], variable)
        self.observe(self._changed, names=list(self.origins))

    @classmethod
    def names(cls) -> list[str]:
        """All settings' names."""
        return list(cls.class_own_traits(config=True))

    def _set(self, name: str, text: str, variable: str) -> None:
        try:
            setattr(self, name, self.traits()[name].from_string(text))
        except Exception as error:
            raise SettingsError(f"{variable}={text!r} can't be used: {error}") from None
        self.origins[name] = variable

    def _changed(self, change: Any) -> None:
        self.origins[change.name] = "magic"

    def table(self) -> list[tuple[str, str, str]]:
        """(name, value, where it came from) of each setting."""
        return [(name, _shown(getattr(self, name)), origin) for name, origin in self.origins.items()]


def _shown(value: Any) -> str:
    # Only the names: what stands behind them may hold keys.
    return ", ".join(value) if isinstance(value, dict) else str(value)
