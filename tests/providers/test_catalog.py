"""Names, keys, addresses and what is known of models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent.errors import SettingsError
from cumulus_jupyter.agent.provider import ModelFacts
from cumulus_jupyter.providers.catalog import (
    default_name,
    full_name,
    known_models,
    known_secrets,
    model_facts,
    resolve,
)
from cumulus_jupyter.providers.limits import Limits, read_limits

from ..wire.harness import converse
from ..wire.server import Turn

ENV = {"ANTHROPIC_API_KEY": "key-anthropic", "OPENAI_API_KEY": "key-openai", "HF_TOKEN": "hf_token_value"}


@pytest.mark.parametrize(
    ("name", "model", "url", "host"),
    [
        ("claude", "claude-sonnet-5-5", "https://api.anthropic.com", "api.anthropic.com"),
        ("anthropic/claude-opus-5", "claude-opus-5", "https://api.anthropic.com", "api.anthropic.com"),
        ("openai/gpt-5.4", "gpt-5.4", "https://api.openai.com/v1", "api.openai.com"),
        ("hf/moonshotai/Kimi-K3", "moonshotai/Kimi-K3", "https://router.huggingface.co/v1", "router.huggingface.co"),
        ("qwen3:8b@http://localhost:11434/v1", "qwen3:8b", "http://localhost:11434/v1", "this machine"),
        ("a/b@https://gpu.example.org/v1/", "a/b", "https://gpu.example.org/v1", "gpu.example.org"),
    ],
)
def test_names(name: str, model: str, url: str, host: str) -> None:
    """Each form of a name leads to its server, by its model's own name."""
    provider: Any = resolve(name, env=ENV)
    assert (provider._target.model, provider._target.url, provider.host) == (model, url, host)


def test_the_demo_needs_nothing() -> None:
    """Without a name and without keys the demo answers; HF_TOKEN alone changes nothing."""
    assert resolve(None, env={}).name == "demo"
    assert resolve("demo", env={}).name == "demo"
    assert default_name({"HF_TOKEN": "x"}) == "demo"


@pytest.mark.parametrize(
    ("env", "name"),
    [
        (ENV, "anthropic/claude-sonnet-5-5"),
        ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": " "}, "openai/gpt-6-sol"),
        ({}, "demo"),
    ],
)
def test_the_default_follows_the_keys(env: dict[str, str], name: str) -> None:
    """Claude where its key is there, else OpenAI, else the demo."""
    assert full_name(None, env) == name


@pytest.mark.parametrize(
    ("name", "variable"), [("claude", "ANTHROPIC_API_KEY"), ("openai/x", "OPENAI_API_KEY"), ("hf/a/b", "HF_TOKEN")]
)
def test_a_missing_key_is_named(name: str, variable: str) -> None:
    """The error names the variable, how to set it, and what needs none."""
    with pytest.raises(SettingsError) as caught:
        resolve(name, env={})
    text = str(caught.value)
    assert variable in text
    assert "-m demo" in text
    assert f"%env {variable}" in text


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpt-5.4", "openai/gpt-5.4"),
        ("claude-sonnet-5-5", "anthropic/claude-sonnet-5-5"),
        ("cluade", "claude"),
        ("x/y", "hf/ORG/NAME"),
    ],
)
def test_an_unknown_name_lists_the_forms(name: str, hint: str) -> None:
    """A name of no known form is refused with the nearest ones and all forms."""
    with pytest.raises(SettingsError, match="replay:FILE") as caught:
        resolve(name, env=ENV)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("url", "env", "sent"),
    [
        ("http://localhost:1/v1", {}, "own-key"),
        ("http://127.0.0.1:1/v1", {}, "own-key"),
        ("https://gpu.example.org/v1", {}, ""),
        ("https://gpu.example.org/v1", {"CUMULUS_BASE_URL": "https://gpu.example.org"}, "own-key"),
        ("https://gpu.example.org.evil.net/v1", {"CUMULUS_BASE_URL": "https://gpu.example.org"}, ""),
        ("http://localhost.evil.net/v1", {}, ""),
    ],
)
def test_our_key_goes_to_the_persons_own_servers_only(url: str, env: dict[str, str], sent: str) -> None:
    """CUMULUS_API_KEY is for loopback hosts and the host of CUMULUS_BASE_URL."""
    provider: Any = resolve(f"m@{url}", env={"CUMULUS_API_KEY": "own-key", **env})
    assert provider._target.key == sent


def test_what_other_servers_see(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is not OpenAI sees neither its account headers nor, without a key, any authorization."""
    for variable in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, f"secret-{variable}")
    server = serve(Turn("ok"), Turn("ok"))
    converse(resolve(f"m@{server.url}/v1", env={}), ["go"])
    converse(resolve(f"m@{server.url}/v1", env={"CUMULUS_API_KEY": "mine"}), ["go"])
    first, second = (asked.headers for asked in server.asked)
    assert "authorization" not in first
    assert second["authorization"] == "Bearer mine"
    assert "secret" not in str(first) + str(second)


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/"])
def test_base_urls_with_and_without_v1(tail: str, serve: Any) -> None:
    """Anthropic's address may end in /v1 or not; given arguments go before the environment."""
    server = serve(Turn("hi"))
    model = resolve("anthropic/claude-x", env=ENV, base_url=server.url + tail, api_key="given")
    assert converse(model, ["go"]).result.text == "hi"
    assert "given" in server.asked[0].headers["authorization"] + server.asked[0].headers.get("x-api-key", "")


def test_an_address_that_is_none() -> None:
    """An address without http is refused."""
    with pytest.raises(SettingsError, match="http://"):
        resolve("openai/x", env=ENV, base_url="localhost:8000")


def test_a_login_in_an_address_is_not_shown() -> None:
    """User and password of an address are no part of the model's name."""
    provider = resolve("m@http://me:secret@localhost:1/v1", env={})
    assert "secret" not in provider.name + provider.host


def test_facts() -> None:
    """The longest beginning counts, organisation or not; unknown names get the defaults."""
    assert model_facts("no-such-model")[0] == ModelFacts()
    assert model_facts("claude-sonnet-5-5-20261001")[0].price == (2.0, 0.1, 10.0)
    assert model_facts("zai-org/GLM-5.3")[0].window == 1_048_576
    assert model_facts("claude-haiku-4-5")[1] == "budget"
    assert all(facts.ceiling >= 4_096 for facts in (model_facts(name.partition("/")[2])[0] for name in known_models()))


def test_facts_can_be_overridden(tmp_path: Path) -> None:
    """A file of the person's own goes before ours, field by field; a wrong field is named."""
    path = tmp_path / "models.toml"
    path.write_text('[models]\n"claude-sonnet" = { ceiling = 1_000 }\nmine = { window = 5 }\nbad = { size = 1 }\n')
    facts = model_facts("claude-sonnet-5-5", path)[0]
    assert (facts.ceiling, facts.window) == (1_000, 1_000_000)
    assert model_facts("mine", path)[0].window == 5
    with pytest.raises(SettingsError, match="bad"):
        model_facts("bad", path)
    assert model_facts("x", tmp_path / "none.toml")[0] == ModelFacts()


def test_prices_hold_for_the_vendor_only(tmp_path: Path) -> None:
    """A model on another's server has no price but one that the person wrote down."""
    assert resolve("openai/gpt-5.4", env=ENV).facts.price
    assert resolve("hf/moonshotai/Kimi-K3", env=ENV).facts.price is None
    path = tmp_path / "models.toml"
    path.write_text('[models]\n"gpt-5.4" = { price = [1.0, 0.1, 2.0] }\n')
    for own, price in ((None, None), (path, (1.0, 0.1, 2.0))):
        facts = resolve("gpt-5.4@http://localhost:1/v1", env={}, overrides=own).facts
        assert (facts.price, facts.window) == (price, 1_050_000)


@pytest.mark.parametrize(
    ("model", "priced"),
    [
        ("gpt-5.4-2026-03-05", True),
        ("claude-opus-5-5@20261001", True),
        ("kimi-k3-latest", True),
        ("gpt-5.4-pro", False),
        ("o3-deep-research", False),
        ("kimi-k2.6-highspeed", False),
    ],
)
def test_a_variant_has_no_price_of_its_plain_model(model: str, priced: bool) -> None:
    """A version or a date keeps the price; a variant can cost ten times as much, so its price is unknown."""
    assert (model_facts(model)[0].price is not None) == priced


def test_a_price_of_ones_own_holds_for_variants_too(tmp_path: Path) -> None:
    """What the person wrote counts for all names that begin so."""
    path = tmp_path / "models.toml"
    path.write_text('[models]\n"gpt-5.4" = { price = [1.0, 0.1, 2.0] }\n')
    assert model_facts("gpt-5.4-pro", path)[0].price == (1.0, 0.1, 2.0)


def test_known_secrets() -> None:
    """Keys of model servers and what looks like one are secrets, other variables are not."""
    env = {**ENV, "CUMULUS_API_KEY": "c", "MISTRAL_API_KEY": "m", "HOME": "/home/me", "EMPTY_API_KEY": ""}
    assert set(known_secrets(env)) == {*ENV.values(), "c", "m"}


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    """Making a provider imports no SDK and no HTTP client."""
    code = (
        "import sys; from cumulus_jupyter.providers.catalog import resolve\n"
        "resolve('openai/x', env={'OPENAI_API_KEY': 'k'}); resolve('claude', env={'ANTHROPIC_API_KEY': 'k'})\n"
        "print(sorted({'openai', 'anthropic', 'httpx2', 'pydantic'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("asked", "text", "limits"),
    [
        (
            70_000,
            "max_tokens: 70000 > 64000, which is the maximum allowed number of output tokens for claude-3-20241022",
            Limits(64_000),
        ),
        (65_536, "max_tokens is too large: 65536. This model supports at most 16384 completion tokens", Limits(16_384)),
        (65_536, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", Limits(8_192)),
        (
            65_536,
            "maxOutputTokens value of 65536 but the supported range is from 1 (inclusive) to 8193 (exclusive).",
            Limits(8_192),
        ),
        (65_536, "`max_tokens` must be less than or equal to `8192`, less than the `context_window`", Limits(8_192)),
        (
            65_536,
            "maximum context length is 40960 tokens. However, you requested 66036 tokens (500 in the messages, 65536 "
            "in the completion).",
            Limits(40_460, 40_960, shared=True),
        ),
        (
            16_384,
            "maximum context length is 32768 tokens. However, you requested 16384 output tokens and your prompt "
            "contains at least 20000 input tokens",
            Limits(12_768, 32_768, shared=True),
        ),
        (
            21_000,
            "input length and `max_tokens` exceed context limit: 190000 + 21000 > 200000",
            Limits(10_000, 200_000, shared=True),
        ),
        (16_384, "prompt is too long: 210000 tokens > 200000 maximum", Limits(0, 200_000, overflow=True)),
        (
            16_384,
            "request (9000 tokens) exceeds the available context size (8192 tokens)",
            Limits(0, 8_192, overflow=True),
        ),
        (16_384, "Unsupported parameter: 'max_tokens' is not supported with this model.", None),
        (16_384, "messages: at least one message is required", None),
    ],
)
def test_limits_in_the_words_of_servers(asked: int, text: str, limits: Limits | None) -> None:
    """The numbers in a refusal are read, however they are put."""
    assert read_limits(text, asked) == limits
