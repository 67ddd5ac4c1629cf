"""llama.cpp's server and others like it: loading, dropped connections, error bodies and ids of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cumulus_jupyter.agent import retrying
from cumulus_jupyter.agent.errors import ProviderError
from cumulus_jupyter.agent.events import Retrying
from cumulus_jupyter.agent.messages import Status, UserMessage
from cumulus_jupyter.agent.provider import Request

from ..wire.harness import MODELS, Calls, ask, converse
from ..wire.server import Turn

LOADING = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}


@pytest.mark.parametrize("wire", MODELS)
def test_a_server_that_loads_its_model_is_waited_for(
    wire: str, serve: Any, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pause is longer than the last, over a minute in all, and the person sees each."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(retrying, "sleep", sleep)
    loading = Turn(status=503, body=json.dumps(LOADING).encode())
    ran = converse(provider(serve(*[loading] * 4, Turn("ok")), MODELS[wire]), ["go"])
    assert (ran.result.status, waited) == (Status.DONE, [3.0, 10.0, 30.0, 60.0])
    assert [event.seconds for event in ran.events if isinstance(event, Retrying)] == waited


@pytest.mark.parametrize("wire", MODELS)
def test_a_kept_connection_that_drops_before_any_byte_is_made_anew(
    wire: str, serve: Any, provider: Any, calls: Calls
) -> None:
    """The request goes out again, and the call of the round before it does not run again."""
    server = serve(Turn(calls=[("ls", {"path": "."})]), Turn(mute=True), Turn("Done."))
    ran = converse(provider(server, MODELS[wire]), ["go"], [calls.tool("ls", "path")])
    assert (ran.result.text, len(calls.seen), len(server.asked)) == ("Done.", 1, 3)


def test_random_ids_go_back_as_they_came(serve: Any, provider: Any, calls: Calls) -> None:
    """An id without a prefix, and none at all, pair with their results."""
    server = serve(
        Turn(calls=[("ls", {"path": "a"}, "Xw3k0aQzM1"), ("ls", {"path": "b"}, "")]), Turn("Done."), check=True
    )
    ran = converse(provider(server, MODELS["chat"]), ["go"], [calls.tool("ls", "path")])
    messages = server.bodies[1]["messages"]
    ids = [call["id"] for call in messages[2]["tool_calls"]]
    assert ids[0] == "Xw3k0aQzM1"
    assert [message["tool_call_id"] for message in messages[3:]] == ids
    assert (ran.result.status, server.refused) == (Status.DONE, [])


ERRORS = {
    "request (7000 tokens) exceeds the available context size (6144 tokens), try increasing it": 6_144,
    "the request exceeds the available context size. try increasing the context size or enable context shift": 0,
    "This model's maximum context length is 32768 tokens. However, you requested 0 output tokens and your prompt "
    "contains at least 32769 input tokens, for a total of at least 32769 tokens.": 32_768,
    "prompt is too long: 100417 tokens > 100000 maximum": 100_000,
    "The prompt is too long: 131900, model maximum context length: 131071": 131_071,
    "This endpoint's maximum context length is 131070 tokens. However, you requested about 140000 tokens (120000 of "
    "text input, 4000 of tool input, 16000 in the output).": 131_070,
    "Input length 9000 exceeds the maximum context length of 8192": 8_192,
}


@pytest.mark.parametrize("words", ERRORS)
@pytest.mark.parametrize("wire", MODELS)
def test_a_window_that_is_named_is_learned(wire: str, words: str, serve: Any, provider: Any) -> None:
    """The refusal is an overflow, or names a smaller reply, and the facts have the window from then on."""
    body = {"error": {"code": 400, "message": words, "type": "exceed_context_size_error"}}
    model = provider(serve(Turn(status=400, body=json.dumps(body).encode())), MODELS[wire])
    before = model.facts.window
    with pytest.raises(ProviderError) as caught:
        ask(model, Request("", [UserMessage("go")], [], [], 16_000))
    assert caught.value.overflow or caught.value.ceiling
    assert not caught.value.retryable
    assert model.facts.window == min(ERRORS[words] or before, before)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {"error": {"code": 501, "message": "tools param requires --jinja flag", "type": "not_supported_error"}},
            "jinja",
        ),
        ({"error": "model 'x' does not support tools"}, "can't call tools"),
        ({"error": {"message": "No endpoints found that support tool use."}}, "can't call tools"),
        ({"detail": [{"loc": ["body", "tools"], "msg": "extra fields not permitted"}]}, "tools"),
    ],
)
def test_a_server_without_tools_says_so(body: Any, words: str, serve: Any, provider: Any, calls: Calls) -> None:
    """The run fails at once and in words that lead on; nothing is sent again."""
    server = serve(*[Turn(status=501 if "jinja" in str(body) else 400, body=json.dumps(body).encode())] * 9)
    ran = converse(provider(server, MODELS["chat"]), ["go"], [calls.tool("ls")])
    assert ran.result.status is Status.FAILED
    assert words in ran.result.error
    assert len(server.asked) == 1
