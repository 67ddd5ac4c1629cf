"""Which MCP servers are wanted: entries of ``.mcp.json`` and of the settings, checked one by one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...agent.tool import DEFAULT_TIMEOUT

__all__ = ["PROJECT_FILE", "OAuth", "ProjectFile", "Spec", "parse", "read_project"]

PROJECT_FILE = ".mcp.json"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_CAMEL = re.compile(r"(?<=[a-z])[A-Z]")
_TRANSPORTS = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_MILLISECONDS = 1_000.0
"""A time limit from here on is in milliseconds, as other clients write it."""


@dataclass(frozen=True, slots=True)
class OAuth:
    """What the person gives for signing in to a server; all of it may be left out.

    ``client_id`` is a client registered beforehand, or the https address of its metadata.
    """

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)
    """PEM; signs in instead of a secret."""
    signing_algorithm: str = "RS256"
    grant_type: str = ""
    """``client_credentials`` (the default with an id and a secret or key) or ``authorization_code``."""
    issuer: str = ""
    """The only authorization server that gets the credentials."""
    callback_port: int = 0


@dataclass(frozen=True, slots=True)
class Spec:
    """How to reach one server: a command with its surroundings (``stdio``), or an address (``http``, ``sse``)."""

    name: str
    transport: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    oauth: OAuth = field(default_factory=OAuth)
    timeout: float = DEFAULT_TIMEOUT
    """Seconds that a call is waited for."""


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A root's ``.mcp.json``: what it asks for, and which content that is."""

    path: Path
    specs: Mapping[str, Spec]
    problems: Mapping[str, str]
    digest: str
    shown: str
    """The servers as a person should see them before they start: variables stay names."""


def read_project(root: Path, environ: Mapping[str, str]) -> ProjectFile | None:
    """The root's ``.mcp.json``; None where there is none. What is wrong with it stands in ``problems``."""
    path = root / PROJECT_FILE
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return ProjectFile(path, {}, {PROJECT_FILE: f"can't be read: {error.strerror or error}"}, "", "")
    digest = hashlib.sha256(f"{root}\n".encode() + raw).hexdigest()
    try:
        entries = json.loads(raw.decode("utf-8-sig"))
    except ValueError as error:
        return ProjectFile(path, {}, {PROJECT_FILE: f"is not JSON: {error}"}, digest, "")
    if not isinstance(entries, dict) or not isinstance(entries.get("mcpServers", {}), dict):
        return ProjectFile(path, {}, {PROJECT_FILE: 'must be {"mcpServers": {NAME: …}}'}, digest, "")
    specs, problems = parse(entries, root, environ)
    shown = "\n".join(f"{name}: {_shown(entry)}" for name, entry in _servers(entries).items())
    return ProjectFile(path, specs, problems, digest, shown)


def parse(
    entries: Mapping[str, Any], folder: Path, environ: Mapping[str, str]
) -> tuple[dict[str, Spec], dict[str, str]]:
    """Servers by name, and for each entry that can't be used the reason."""
    specs: dict[str, Spec] = {}
    problems: dict[str, str] = {}
    for name, entry in _servers(entries).items():
        try:
            if spec := _spec(str(name), entry, folder, environ):
                specs[spec.name] = spec
        except ValueError as error:
            problems[str(name)] = str(error)
    return specs, problems


def _servers(entries: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = entries.get("mcpServers", entries)
    return inner if isinstance(inner, Mapping) else {}


def _spec(name: str, entry: Any, folder: Path, environ: Mapping[str, str]) -> Spec | None:
    if not isinstance(entry, Mapping):
        raise ValueError("the entry must be an object with command or url")
    if entry.get("disabled"):
        return None
    entry = _expanded(entry, environ)
    kind = str(entry.get("type") or entry.get("transport") or ("http" if "url" in entry else "stdio"))
    if kind not in _TRANSPORTS:
        raise ValueError(f"type must be stdio, http or sse, not {kind!r}")
    transport, timeout = _TRANSPORTS[kind], _seconds(entry.get("timeout", DEFAULT_TIMEOUT))
    if transport != "stdio":
        url = _text(entry, "url")
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url must start with http:// or https://, not {url!r}")
        headers, oauth = _texts(entry, "headers"), _oauth(entry)
        return Spec(name, transport, url=url, headers=headers, oauth=oauth, timeout=timeout)
    args = entry.get("args", [])
    if not isinstance(args, list):
        raise ValueError("args must be a list")
    cwd = folder / Path(str(entry["cwd"])).expanduser() if entry.get("cwd") else None
    command = _text(entry, "command")
    return Spec(name, transport, command, tuple(map(str, args)), _texts(entry, "env"), cwd, timeout=timeout)


def _oauth(entry: Mapping[str, Any]) -> OAuth:
    given = _texts(entry, "oauth")
    names = {_CAMEL.sub(lambda match: f"_{match[0].lower()}", key): key for key in given}
    if unknown := names.keys() - set(OAuth.__dataclass_fields__):
        known = ", ".join(OAuth.__dataclass_fields__)
        raise ValueError(f"oauth does not know {', '.join(sorted(unknown))}; it takes {known}")
    values: dict[str, Any] = {name: given[key] for name, key in names.items()}
    if "callback_port" in values:
        values["callback_port"] = _port(values["callback_port"])
    made = OAuth(**values)
    own = bool(made.client_id and (made.client_secret or made.private_key))
    grant = made.grant_type or ("client_credentials" if own else "authorization_code")
    if grant not in ("client_credentials", "authorization_code"):
        raise ValueError(f"grant_type must be client_credentials or authorization_code, not {grant!r}")
    if grant == "client_credentials" and not own:
        raise ValueError("oauth with client_credentials needs client_id and client_secret (or private_key)")
    return replace(made, grant_type=grant)


def _port(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65_536:
        raise ValueError(f"callback_port must be a port number, not {text!r}")
    return int(text)


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} is missing")
    return value


def _texts(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    value = entry.get(key) or {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{key} must be an object")
    return {str(name): str(text) for name, text in value.items()}


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ValueError("timeout must be a number of seconds")
    return value / 1_000 if value >= _MILLISECONDS else float(value)


def _expanded(value: Any, environ: Mapping[str, str]) -> Any:
    """The value with ``${NAME}`` and ``${NAME:-default}`` in its texts replaced."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _variable(match, environ), value)
    if isinstance(value, list):
        return [_expanded(part, environ) for part in value]
    if isinstance(value, Mapping):
        return {key: _expanded(part, environ) for key, part in value.items()}
    return value


def _variable(match: re.Match[str], environ: Mapping[str, str]) -> str:
    name, default = match[1], match[2]
    value = environ.get(name) or default if default is not None else environ.get(name)
    if value is None:
        raise ValueError(f"the variable {name} is not set; set it, or write ${{{name}:-DEFAULT}}")
    return value


def _shown(entry: Any) -> str:
    if not isinstance(entry, Mapping):
        return "(no object)"
    if "url" in entry:
        hidden = json.dumps([entry.get("headers"), entry.get("oauth")], default=str)
        sent = ", ".join(sorted({match[1] for match in _VARIABLE.finditer(hidden)}))
        return f"{entry['url']} (is sent {sent} of your environment)" if sent else str(entry["url"])
    args = entry.get("args", [])
    words = [str(entry.get("command", "")), *(map(str, args) if isinstance(args, list) else [])]
    env = entry.get("env")
    names = [f"{key}={value}" for key, value in env.items()] if isinstance(env, Mapping) else []
    return " ".join([*names, *words])
