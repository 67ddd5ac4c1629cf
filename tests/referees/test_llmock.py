"""An independent server breaks on demand and judges the client: llmock, in a process's thread of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from cumulus_jupyter.agent.messages import Status
from cumulus_jupyter.providers.catalog import resolve

from ..wire.harness import MODELS, Calls, Ran, converse

if not os.environ.get("CUMULUS_EVIDENCE"):  # set by `make test-long`: then what is not installed is a failure
    pytest.importorskip("llmock", reason="llmock is part of the extra `evidence`")
pytestmark = pytest.mark.long

FAULTS: dict[str, Callable[[Any], Any]] = {
    "a pause asked for": lambda mock: mock.rate_limit(times=2, retry_after=1.5),
    "an outage that passes": lambda mock: mock.fail(503, times=2),
    "overloaded": lambda mock: mock.fail(529),
    "a conflict": lambda mock: mock.fail(409),
    "a stream cut without a word": lambda mock: mock.truncate(after_chunks=3),
    "a stream cut at once": lambda mock: mock.truncate(after_chunks=0),
    "a connection that drops": lambda mock: mock.disconnect(after_chunks=2),
    "a damaged chunk": lambda mock: mock.corrupt(after_chunks=2).pace(80),  # slow enough to see that we hang up
    "a call whose connection drops": lambda mock: mock.call_tool("look", {"place": "here"}).disconnect(after_chunks=2),
    "a call cut without a word": lambda mock: mock.call_tool("look", {"place": "here"}).truncate(after_chunks=2),
}
HOPELESS = {
    400: lambda mock: mock.fail(400, times=None),
    401: lambda mock: mock.fail(401, times=None),
    403: lambda mock: mock.fail(403, times=None),
    404: lambda mock: mock.fail(404, times=None),
    422: lambda mock: mock.fail(422, times=None),
    503: lambda mock: mock.outage(),
}


def _run(mock: Any, wire: str, calls: Calls) -> Ran:
    provider = resolve(MODELS[wire], env=mock.env())
    return converse(provider, ["look around"], [calls.tool("look", "place", result=lambda **_: "all quiet")])


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes_is_survived_to_the_letter(fault: str, wire: str, llmock: Any) -> None:
    """The run ends well, each call ran once, and the referee finds not even a warning."""
    FAULTS[fault](llmock)
    calls = Calls()
    ran = _run(llmock, wire, calls)
    assert ran.result.status is Status.DONE, ran.result
    assert [name for name, _ in calls.seen] == ["look"]
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("status", HOPELESS)
def test_what_does_not_pass_is_given_up(status: int, wire: str, llmock: Any) -> None:
    """A refusal is not sent again, an outage at most five times."""
    HOPELESS[status](llmock)
    ran = _run(llmock, wire, Calls())
    assert ran.result.status is Status.FAILED
    llmock.assert_resilient()
    assert len(llmock.requests) == (5 if status == 503 else 1)


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
def test_a_broken_call_is_answered_not_run(kind: str, wire: str, llmock: Any) -> None:
    """A call that can't be meant gets a result that says so, and the run goes on to its end."""
    llmock.break_tool_call(kind)
    calls = Calls()
    ran = _run(llmock, wire, calls)
    assert ran.result.status is Status.DONE, ran.result
    assert all(arguments.keys() == {"place"} for _, arguments in calls.seen)
    llmock.assert_resilient()
