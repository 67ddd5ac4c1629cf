"""The live tests themselves, tried on the stand-in, so that they are right before somebody needs them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .stand_in import stand_in


@pytest.mark.long
@pytest.mark.parametrize("name", ["m-test@{url}/v1", "anthropic/claude-test", "openai/gpt-test"])
def test_the_live_tests_pass_where_a_model_does_as_it_is_told(name: str) -> None:
    """All of them run, none is skipped, on both wires."""
    with stand_in() as server:
        env = {**os.environ, **server.env(), "CUMULUS_TEST_MODEL": name.format(url=server.url)}
        command = [sys.executable, "-m", "pytest", "-q", "tests/live/test_own_endpoint.py"]
        ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert ran.returncode == 0, ran.stdout
        assert "skipped" not in ran.stdout
        assert server.refused == []
