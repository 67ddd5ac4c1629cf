from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent import retrying
from cumulus_jupyter.providers.catalog import resolve

from ..wire.harness import Calls
from ..wire.server import ModelServer

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries come at once; how long they wait is the engine's own test."""
    monkeypatch.setattr(retrying, "_pause", lambda attempt: 0.0)


@pytest.fixture
def case() -> Any:
    """Bytes of a case file."""
    return lambda name: (TESTS / "cases" / name).read_bytes()


@pytest.fixture
def serve() -> Any:
    """Starts a scripted server that ends with the test."""
    servers = []

    def start(*script: Any, **options: Any) -> ModelServer:
        server = ModelServer(script, **options)
        servers.append(server)
        return server.__enter__()

    yield start
    for server in servers:
        server.__exit__(None, None, None)


@pytest.fixture
def calls() -> Calls:
    """Tools that note their calls."""
    return Calls()


@pytest.fixture
def provider() -> Any:
    """The provider for a name at a scripted server."""
    return lambda server, name: resolve(name, env=server.env())
