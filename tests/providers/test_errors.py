"""What a person reads when a server refuses, fails or is not there."""

from __future__ import annotations

import asyncio
import json
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from cumulus_jupyter.agent.errors import ProviderError
from cumulus_jupyter.agent.messages import UserMessage
from cumulus_jupyter.agent.provider import Request
from cumulus_jupyter.providers import failures, transport
from cumulus_jupyter.providers.catalog import resolve

from ..wire.harness import MODELS, ask
from ..wire.server import Turn

REQUEST = Request("", [UserMessage("go")], [], [], 1_000)
KEYS = {"chat": "loopback-key-openai", "messages": "loopback-key-anthropic"}


def failing(server: Any, provider: Any, wire: str = "chat") -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(provider(server, MODELS[wire]), REQUEST)
    return caught.value


def error(message: str, **fields: Any) -> bytes:
    return json.dumps({"error": {"message": message, **fields}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "words", "retryable"),
    [
        (401, error("Incorrect API key provided"), ["did not accept the key", "OPENAI_API_KEY", "-m demo"], False),
        (401, b'{"error":"Invalid username or password."}', ["Invalid username or password"], False),
        (403, error("no access"), ["OPENAI_API_KEY", "m-test"], False),
        (404, error("The model 'm-test' does not exist", code="model_not_found"), ["m-test", "%agent models"], False),
        (
            400,
            error("The requested model is not supported by any provider you have enabled."),
            ["%agent models"],
            False,
        ),
        (404, b"<html><title>404 Not Found</title></html>", ["no such address", "404 Not Found"], False),
        (402, error("Insufficient Balance"), ["money or quota", "Insufficient Balance"], False),
        (429, error("You exceeded your current quota", code="insufficient_quota"), ["money or quota"], False),
        (429, error("slow down", details={"error_code": "enforced_spend_limit_reached"}), ["money or quota"], False),
        (429, error("Rate limit reached"), ["slower"], True),
        (408, error("timeout"), ["trouble", "408"], True),
        (409, error("conflict"), ["trouble"], True),
        (500, b"Internal Server Error", ["trouble", "500", "Internal Server Error"], True),
        (503, b"<html><head><title>503 Service Unavailable</title></head></html>", ["503 Service Unavailable"], True),
        (529, error("Overloaded", type="overloaded_error"), ["overloaded"], True),
        (400, error("something else"), ["refused the request", "something else", "%agent show"], False),
        (400, b"", ["no reason given"], False),
        (413, error("Request too large"), ["too large"], False),
        (400, error("registry.ollama.ai/library/gemma:2b does not support tools"), ["can't call tools"], False),
        (404, error("No endpoints found that support tool use."), ["can't call tools"], False),
        (422, b'{"detail":[{"msg":"field required"}]}', ["field required"], False),
    ],
)
def test_statuses(status: int, body: bytes, words: list[str], retryable: bool, serve: Any, provider: Any) -> None:
    """Each refusal says what happened and what to do, and whether it may pass."""
    caught = failing(serve(Turn(status=status, body=body)), provider)
    text = str(caught)
    assert all(word in text for word in words), text
    assert (caught.retryable, caught.status) == (retryable, status)
    assert "\n" not in text
    assert len(text) < 700


def test_anthropics_words(serve: Any, provider: Any) -> None:
    """The other wire names its own variable."""
    body = json.dumps(
        {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
    ).encode()
    text = str(failing(serve(Turn(status=401, body=body)), provider, "messages"))
    assert "ANTHROPIC_API_KEY" in text
    assert "invalid x-api-key" in text


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, (7, 7)),
        ({"retry-after": "0.5"}, (0.5, 0.5)),
        ({"retry-after-ms": "1500", "retry-after": "9"}, (1.5, 1.5)),
        ({"retry-after": format_datetime(datetime.now(UTC) + timedelta(hours=9), usegmt=True)}, (8 * 3600, 9 * 3600)),
        ({"retry-after": format_datetime(datetime.now(UTC) - timedelta(seconds=9), usegmt=True)}, (0, 0)),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: Any, serve: Any, provider: Any) -> None:
    """The pause that the server asks for is given in seconds, whatever form it has."""
    caught = failing(serve(Turn(status=429, body=error("slow"), headers=headers)), provider)
    if seconds is None:
        assert caught.retry_after is None
    else:
        assert caught.retry_after is not None
        assert seconds[0] <= caught.retry_after <= seconds[1]


def test_a_server_may_say_not_to_retry(serve: Any, provider: Any) -> None:
    """x-should-retry: false is minded."""
    assert not failing(serve(Turn(status=500, body=b"no", headers={"x-should-retry": "false"})), provider).retryable


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("where", ["status", "stream"])
def test_no_key_in_any_message(wire: str, where: str, serve: Any, provider: Any) -> None:
    """A server that repeats the key in its error does not get it shown."""
    said = {
        "type": "error",
        "error": {"type": "authentication_error", "message": f"bad key {KEYS[wire]}!", "code": 401},
    }
    body = json.dumps(said).encode()
    turn = Turn(status=401, body=body) if where == "status" else Turn(body=b"data: " + body + b"\n\n")
    caught = failing(serve(turn), provider, wire)
    assert KEYS[wire] not in str(caught)
    assert "[key]" in str(caught)
    assert KEYS[wire] not in repr(caught.__cause__) + repr(caught.__context__)


def test_nothing_answers() -> None:
    """A refused connection asks whether the server runs, with its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = resolve(f"m@http://127.0.0.1:{port}/v1", env={})
    with pytest.raises(ProviderError, match=f"127.0.0.1:{port}/v1. Is the server running") as caught:
        ask(model, REQUEST)
    assert caught.value.retryable


def test_no_such_host() -> None:
    """A name that nobody knows is told as that."""
    with pytest.raises(ProviderError, match="no host of the name"):
        ask(resolve("m@http://no-such-host.invalid/v1", env={}), REQUEST)


def test_no_secure_connection() -> None:
    """Plain HTTP where TLS was expected is no secure connection, and is not tried again."""

    async def go() -> None:
        async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            model = resolve(f"m@https://127.0.0.1:{port}/v1", env={})
            with pytest.raises(ProviderError, match="No secure connection") as caught:
                await anext(model.stream(REQUEST))
            assert not caught.value.retryable
            await model.close()

    asyncio.run(go())


@pytest.mark.parametrize("wire", MODELS)
def test_silence(wire: str, serve: Any, provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stops talking is given up after the time-out and may be asked again."""
    monkeypatch.setattr(transport, "SILENCE", 0.2)
    monkeypatch.setattr(failures, "SILENCE", 0.2)
    caught = failing(serve(Turn("a long answer " * 20, every=200, delay=1.0)), provider, wire)
    assert "silent" in str(caught)
    assert caught.retryable


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("bytes_sent", [0, 1, 300])
def test_a_stream_that_dies(wire: str, bytes_sent: int, serve: Any, provider: Any) -> None:
    """A connection that breaks before or in the stream may be tried again."""
    caught = failing(serve(Turn("a long answer " * 20, drop=bytes_sent)), provider, wire)
    assert caught.retryable
    assert any(word in str(caught) for word in ("broke", "incomplete"))


@pytest.mark.parametrize("wire", MODELS)
def test_a_web_page_instead_of_an_answer(wire: str, serve: Any, provider: Any) -> None:
    """A login page with status 200 is no answer; its title is told."""
    caught = failing(serve(Turn(body=b"<html><title>Sign in</title></html>")), provider, wire)
    assert "Sign in" in str(caught)
    assert not caught.retryable


def test_one_provider_serves_several_event_loops(serve: Any, provider: Any) -> None:
    """A script may use an agent in one asyncio.run after another."""
    model = provider(serve(Turn("a"), Turn("b")), MODELS["chat"])

    async def once() -> str:
        return [item async for item in model.stream(REQUEST)][-1].text

    assert [asyncio.run(once()), asyncio.run(once())] == ["a", "b"]


@pytest.mark.parametrize("wire", MODELS)
def test_a_stream_that_is_left_is_closed(wire: str, serve: Any, provider: Any) -> None:
    """Leaving a stream in the middle ends its request at once."""
    model = provider(serve(Turn("a long answer " * 50, every=50, delay=0.05), Turn("next")), MODELS[wire])

    async def leave() -> str:
        items = model.stream(REQUEST)
        await anext(items)
        await items.aclose()
        text = [item async for item in model.stream(REQUEST)][-1].text
        await model.close()
        return text

    assert asyncio.run(asyncio.wait_for(leave(), 20)) == "next"


def test_models_are_listed(serve: Any, provider: Any) -> None:
    """The server's models can be listed on both wires."""
    for wire in MODELS:
        model = provider(serve(), MODELS[wire])
        assert asyncio.run(model.models()) == ["m-test", "m-2"]
