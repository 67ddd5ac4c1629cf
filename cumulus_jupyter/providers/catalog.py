"""From a model's name to its provider: which wire, which server, which key, and what is known of the model."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ..agent.errors import SettingsError
from ..agent.provider import ModelFacts, Provider
from ..agent.redact import Redactor
from .failures import Target

__all__ = ["default_name", "full_name", "known_models", "known_secrets", "model_facts", "resolve"]

_ANTHROPIC = "https://api.anthropic.com"
_OPENAI = "https://api.openai.com/v1"
_ROUTER = "https://router.huggingface.co/v1"
_LOOPBACK = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}
_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "HF_TOKEN", "CUMULUS_API_KEY")
_SECRET_NAME = re.compile(r"(?:_API_KEY|_AUTH_TOKEN|^HF_TOKEN|_ACCESS_KEY|_SECRET_KEY|_ADMIN_KEY)$")
_FORMS = (
    "demo · claude · anthropic/NAME · openai/NAME · hf/ORG/NAME · NAME@URL (any OpenAI-compatible server, "
    "qwen3@http://localhost:11434/v1 say) · replay:FILE"
)

Env = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Vendor:
    """A service with a key of its own."""

    prefix: str
    key: str
    url: str
    url_variable: str = ""


_VENDORS = (
    _Vendor("anthropic", "ANTHROPIC_API_KEY", _ANTHROPIC, "ANTHROPIC_BASE_URL"),
    _Vendor("openai", "OPENAI_API_KEY", _OPENAI, "OPENAI_BASE_URL"),
    _Vendor("hf", "HF_TOKEN", _ROUTER),
)


def resolve(
    name: str | None,
    *,
    env: Env,
    base_url: str | None = None,
    api_key: str | None = None,
    overrides: Path | None = None,
) -> Provider:
    """The provider for a model's name; None takes the default.

    ``base_url`` and ``api_key`` go before the environment's. ``overrides`` is a file of the form of ``models.toml``
    whose entries go before ours. Raises :class:`SettingsError` for a name of no known form or a missing key.
    """
    name = full_name(name, env)
    if name == "demo":
        from .demo import DemoProvider

        return DemoProvider()
    if name.startswith("replay:"):
        from .replay import ReplayProvider

        return ReplayProvider(Path(name.removeprefix("replay:")), Redactor(known_secrets(env)))
    if match := re.fullmatch(r"(.+?)@(https?://.+)", name, re.DOTALL):
        return _elsewhere(match[1], match[2], env, api_key, overrides)
    prefix, _, model = name.partition("/")
    vendor = next((vendor for vendor in _VENDORS if vendor.prefix == prefix), None)
    if vendor is None or not model:
        raise SettingsError(_unknown(name))
    return _at_vendor(vendor, name, model, env, base_url, api_key, overrides)


def full_name(name: str | None, env: Env) -> str:
    """The name without abbreviations, as its provider bears it."""
    name = (name or default_name(env)).strip()
    if name == "claude":
        return f"anthropic/{_data(None)['newest']['claude']}"
    return name


def default_name(env: Env) -> str:
    """What is asked where nobody named a model: the first service whose key is there, else the demo."""
    if _value(env, "ANTHROPIC_API_KEY"):
        return "claude"
    if _value(env, "OPENAI_API_KEY"):
        return f"openai/{_data(None)['newest']['openai']}"
    return "demo"


def known_secrets(env: Env) -> list[str]:
    """The values of all variables that hold a key for a model's server, or look like one."""
    return [
        value.strip() for name, value in env.items() if value.strip() and (name in _KEYS or _SECRET_NAME.search(name))
    ]


def known_models() -> list[str]:
    """Names that can be given, of the models in the data file."""
    models = _data(None)["models"]
    claude = [f"anthropic/{model}" for model in models if model.startswith("claude-")]
    return ["demo", "claude", *claude, *(f"openai/{model}" for model in models if re.match(r"gpt-\d|o\d", model))]


def model_facts(model: str, overrides: Path | None = None, *, vendor: bool = True) -> tuple[ModelFacts, str]:
    """What is known of a model, and how it takes an effort (``adaptive`` or ``budget``).

    Our prices hold only where the vendor itself serves the model, and not for its variants (``-pro``, ``-fast``);
    a price of the person's own holds wherever its entry does.
    """
    entry: dict[str, Any] = {}
    for source in (None, overrides):
        models = _data(source)["models"]
        names = [known for known in models if _begins(model.lower(), known.lower())]
        if names:
            longest = max(names, key=len)
            entry = {**entry, **models[longest]}
            if source is None and not (vendor and _same_price(model.lower(), longest)):
                entry.pop("price", None)
    effort = entry.pop("effort", "adaptive")
    if price := entry.get("price"):
        entry["price"] = tuple(price)
    try:
        return ModelFacts(**entry), effort
    except TypeError:
        raise SettingsError(f"{overrides}: the entry for {model} has a field that models.toml does not know") from None


def _begins(model: str, known: str) -> bool:
    return model.startswith(known) or model.rpartition("/")[2].startswith(known)


def _same_price(model: str, known: str) -> bool:
    """Whether the model's name adds no more than a version or a date to the known one."""
    return re.fullmatch(r"(?:[-@](?:latest|[\d.-]+))*", model.rpartition("/")[2].removeprefix(known)) is not None


def _at_vendor(
    vendor: _Vendor, name: str, model: str, env: Env, base_url: str | None, api_key: str | None, overrides: Path | None
) -> Provider:
    url = _clean(base_url or _value(env, vendor.url_variable) or vendor.url)
    key = (api_key or _value(env, vendor.key)).strip()
    if not key and not _is_loopback(url):
        raise SettingsError(
            f"{name} needs a key: set the environment variable {vendor.key} before the kernel starts "
            f"(or in a cell: %env {vendor.key}=…). `-m demo` needs none."
        )
    facts, effort = model_facts(model, overrides, vendor=vendor.prefix != "hf")
    if vendor.prefix == "anthropic":
        from .anthropic import AnthropicProvider

        root = re.sub(r"/v1$", "", url)
        return AnthropicProvider(Target(name, model, root, _host(root), vendor.key, key), facts, effort=effort)
    from .openai import OpenAIProvider

    return OpenAIProvider(Target(name, model, url, _host(url), vendor.key, key), facts)


def _elsewhere(model: str, url: str, env: Env, api_key: str | None, overrides: Path | None) -> Provider:
    """Any server that speaks Chat Completions; our key is shown to the person's own servers only."""
    from .openai import OpenAIProvider

    url, key = _clean(url), api_key or ""
    own = urlsplit(_value(env, "CUMULUS_BASE_URL")).hostname
    if not key and (_is_loopback(url) or urlsplit(url).hostname == own):
        key = _value(env, "CUMULUS_API_KEY")
    facts, _ = model_facts(model, overrides, vendor=False)
    target = Target(f"{model}@{_without_login(url)}", model, url, _host(url), "CUMULUS_API_KEY", key.strip())
    return OpenAIProvider(target, facts)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, known_models(), n=2, cutoff=0.6)
    near += [known for known in known_models() if known.endswith(f"/{name}")]
    hint = f" Did you mean {' or '.join(dict.fromkeys(near))}?" if near else ""
    return f"there is no model of the name {name!r}.{hint} Names are: {_FORMS}"


def _clean(url: str) -> str:
    url = url.strip().rstrip("/")
    if not re.match(r"https?://[^/]", url):
        raise SettingsError(f"{url!r} is no address of a server: it must begin with http:// or https://")
    return url


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in _LOOPBACK or host.startswith("127.")


def _host(url: str) -> str:
    return "this machine" if _is_loopback(url) else urlsplit(url).hostname or url


def _value(env: Env, variable: str) -> str:
    return env.get(variable, "").strip() if variable else ""


@cache
def _data(path: Path | None) -> dict[str, Any]:
    if path is None:
        return tomllib.loads(files("cumulus_jupyter").joinpath("models.toml").read_text(encoding="utf-8"))
    if not path.is_file():
        return {"models": {}}
    try:
        return {"models": {}, **tomllib.loads(path.read_text(encoding="utf-8"))}
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} can't be read: {error}") from None
