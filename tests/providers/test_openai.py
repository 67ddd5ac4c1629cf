"""What Chat Completions servers want differently from one another, learned from their refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cumulus_jupyter.agent.errors import ProviderError
from cumulus_jupyter.agent.events import Notice
from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import Image, Reply, Status, ToolCall, ToolResult, ToolResults, UserMessage
from cumulus_jupyter.agent.provider import Request
from cumulus_jupyter.agent.tool import Output
from cumulus_jupyter.providers.catalog import resolve

from ..wire.harness import Calls, ask, converse
from ..wire.server import Asked, Turn

CHAT = "openai/m-test"


def refusing(words: str, when: Callable[[dict[str, Any]], bool]) -> Callable[[Asked], Turn]:
    """A server that answers 400 with these words to some requests."""

    def answer(asked: Asked) -> Turn:
        if when(asked.json):
            return Turn(
                status=400, body=json.dumps({"error": {"message": words, "type": "invalid_request_error"}}).encode()
            )
        return Turn("ok")

    return answer


@pytest.mark.parametrize(
    ("words", "when"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
            lambda body: "max_tokens" in body,
        ),
        ("stream_options: Extra inputs are not permitted", lambda body: "stream_options" in body),
        ("Unrecognized request argument supplied: reasoning_effort", lambda body: "reasoning_effort" in body),
    ],
)
def test_a_refused_parameter_is_changed_once_and_for_good(words: str, when: Any, serve: Any, provider: Any) -> None:
    """The next request goes without what was refused, and so does every later one."""
    server = serve(*[refusing(words, when)] * 9)
    ran = converse(provider(server, "openai/gpt-5-test"), ["a", "b"], limits=Limits(effort="high"))
    assert [result.status for result in ran.results] == [Status.DONE] * 2
    assert len(server.asked) == 3
    assert "reasoning_effort" in server.bodies[0]


def test_the_official_server_and_others_name_the_limit_differently() -> None:
    """OpenAI's own server is asked in its new word, others in the old one."""
    request = Request("", [UserMessage("go")], [], [], 100)
    own = resolve("openai/gpt-x", env={"OPENAI_API_KEY": "k"})
    other = resolve("m@http://localhost:1/v1", env={})
    assert json.loads(own.body(request))["max_completion_tokens"] == 100
    assert json.loads(other.body(request))["max_tokens"] == 100


@pytest.mark.parametrize(
    "words", ["messages.1.content: none is not allowed", "Invalid 'content': expected string, got null"]
)
def test_49_content_null_or_empty(words: str, serve: Any, provider: Any, calls: Calls) -> None:
    """An assistant message without text has null content until a server refuses that."""
    asked_null = lambda body: any("content" in m and m["content"] is None for m in body["messages"])  # noqa: E731
    server = serve(Turn(calls=[("ls", {"path": "a"})]), *[refusing(words, asked_null)] * 9)
    ran = converse(provider(server, CHAT), ["a", "b"], [calls.tool("ls", "path")])
    assert [result.status for result in ran.results] == [Status.DONE] * 2
    assert [asked_null(body) for body in server.bodies] == [False, True, False, False]


def test_pictures_follow_all_results(serve: Any, provider: Any, calls: Calls) -> None:
    """Tool messages are text; pictures come in one user message behind the last of them."""
    look = calls.tool("look", "n", result=lambda n: Output([f"shot {n}", Image("image/png", "aGk=")]))
    server = serve(Turn(calls=[("look", {"n": "1"}), ("look", {"n": "2"})]), Turn("ok"))
    converse(provider(server, CHAT), ["go"], [look])
    roles = [message["role"] for message in server.bodies[1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]
    pictures = [part for part in server.bodies[1]["messages"][-1]["content"] if part["type"] == "image_url"]
    assert [p["image_url"]["url"] for p in pictures] == ["data:image/png;base64,aGk="] * 2
    assert server.refused == []


def test_a_server_that_takes_no_pictures(serve: Any, provider: Any, calls: Calls) -> None:
    """A refusal of pictures leaves them out from then on, with a word for the model."""
    look = calls.tool("look", result=lambda: Output([Image("image/png", "aGk=")]))
    server = serve(
        Turn(calls=[("look", {})]),
        *[refusing("this model does not support image input", lambda body: "image_url" in json.dumps(body))] * 9,
    )
    ran = converse(provider(server, CHAT), ["a", "b"], [look])
    assert ran.result.status is Status.DONE
    assert "left out" in json.dumps(server.bodies[-1])
    assert len(server.asked) == 4


def test_39_reasoning_goes_back_under_its_own_name(serve: Any, provider: Any, calls: Calls) -> None:
    """What came as ``reasoning`` goes back as ``reasoning``."""
    server = serve(Turn(thinking="hm", calls=[("ls", {"path": "a"})], reasoning_field="reasoning"), Turn("ok"))
    converse(provider(server, CHAT), ["go"], [calls.tool("ls", "path")])
    assert server.bodies[1]["messages"][2]["reasoning"] == "hm"
    assert "reasoning_content" not in server.bodies[1]["messages"][2]


def test_reasoning_of_another_model_stays_at_home(serve: Any, provider: Any) -> None:
    """Reasoning goes to the model that wrote it only."""
    messages = [
        UserMessage("a"),
        Reply("b", model="openai/else", native={"field": "reasoning", "text": "hm"}),
        UserMessage("c"),
    ]
    server = serve(Turn("ok"))
    ask(provider(server, CHAT), Request("", messages, [], [], 100))
    assert "reasoning" not in json.dumps(server.bodies[0]["messages"])


def test_15_native_ids_and_arguments_go_back_to_the_letter(serve: Any, provider: Any, calls: Calls) -> None:
    """Kimi's ids and the exact text of arguments are sent back as they came, so that a server's cache fits."""
    text = '{"path": "a",  "n": 1.0}'
    server = serve(Turn(calls=[("ls", text, "functions.ls:3")]), Turn("ok"))
    converse(provider(server, CHAT), ["go"], [calls.tool("ls", "path")])
    (call,) = server.bodies[1]["messages"][2]["tool_calls"]
    assert (call["id"], call["function"]["arguments"]) == ("functions.ls:3", text)


def test_fetched_tools_stand_behind_the_eager_ones(serve: Any, provider: Any) -> None:
    """Tools go in the order of the request; deferred ones do not go."""
    calls = Calls()
    eager, fetched, other = calls.tool("a"), calls.tool("b", deferred=True), calls.tool("c", deferred=True)
    server = serve(Turn("ok"))
    ask(provider(server, CHAT), Request("", [UserMessage("go")], [eager, fetched], [fetched, other], 100))
    assert [tool["function"]["name"] for tool in server.bodies[0]["tools"]] == ["a", "b"]


def test_a_conversation_is_always_valid(serve: Any, provider: Any) -> None:
    """Empty replies and results without calls are left out, calls without results get some."""
    call = ToolCall("call_1", "ls", {}, "call_1")
    messages = [
        UserMessage("a", "note"),
        Reply("", model=CHAT),
        ToolResults([call], [ToolResult("call_1", "ls", ["orphan"])]),
        Reply("", [call, call], model=CHAT),
        UserMessage("c"),
        Reply("", [call], model=CHAT),
    ]
    server = serve(Turn("ok"))
    ask(provider(server, CHAT), Request("s", messages, [], [], 100))
    sent = server.bodies[0]["messages"]
    assert [message["role"] for message in sent] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "assistant",
        "tool",
    ]
    assert sent[1]["content"] == "a\n\nnote"
    assert "orphan" not in json.dumps(sent)
    assert server.refused == []


def test_texts_that_utf8_cannot_hold(serve: Any, provider: Any) -> None:
    """Half a surrogate pair in a prompt does not break the request."""
    server = serve(Turn("ok"), Turn("ok"))
    for name in (CHAT, "anthropic/claude-x"):
        ask(provider(server, name), Request("s\ud83d", [UserMessage("a\udc80b")], [], [], 100))
    assert "a?b" in json.dumps(server.bodies)


def test_a_shared_window(serve: Any, provider: Any) -> None:
    """Where reply and conversation share the window, the refusal's numbers give what is left, and it stays minded."""
    window = 40_960

    def small(asked: Asked) -> Turn:
        used, limit = len(asked.body) // 4, asked.json["max_tokens"]
        if used + limit <= window:
            return Turn("ok", usage=(used, 40))
        words = (
            f"'max_tokens' is too large: {limit}. This model's maximum context length is {window} tokens and your "
            f"request has {used} input tokens ({limit} > {window} - {used})."
        )
        return Turn(status=400, body=json.dumps({"error": {"message": words}}).encode())

    server = serve(*[small] * 99)
    model = provider(server, CHAT)
    ran = converse(model, ["x" * 120_000, "more", "and more"])
    assert [result.status for result in ran.results] == [Status.DONE] * 3
    assert len(server.asked) == 4
    assert model.facts.window == window


def test_a_conversation_that_is_too_long(serve: Any, provider: Any) -> None:
    """Where the conversation itself does not fit, the error says so in a form that a program can tell."""
    words = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
    server = serve(Turn(status=400, body=json.dumps({"error": {"message": words}}).encode()))
    model = provider(server, CHAT)
    with pytest.raises(ProviderError, match="too long") as caught:
        ask(model, Request("", [UserMessage("x")], [], [], 100))
    assert (caught.value.overflow, caught.value.retryable, model.facts.window) == (True, False, 8_192)


NO_REASONING = {
    "error": {
        "message": "Function tools with reasoning_effort are not supported for gpt-6-sol in /v1/chat/completions. To "
        "use function tools, use /v1/responses or set reasoning_effort to 'none'.",
        "type": "invalid_request_error",
        "param": "reasoning_effort",
        "code": None,
    }
}
NO_NONE = {
    "error": {
        "message": "Unsupported value: 'reasoning_effort' does not support 'none' with this model.",
        "type": "invalid_request_error",
        "param": "reasoning_effort",
        "code": "unsupported_value",
    }
}


def test_a_model_that_calls_tools_only_without_reasoning(serve: Any, provider: Any, calls: Calls) -> None:
    """From the refusal on, requests with tools switch reasoning off, and the person is told once."""
    refusal = Turn(status=400, body=json.dumps(NO_REASONING).encode())
    server = serve(refusal, Turn(calls=[("ls", {"path": "."})]), Turn("Done."))
    ran = converse(provider(server, CHAT), ["go"], [calls.tool("ls", "path")])
    assert (ran.result.status, len(calls.seen)) == (Status.DONE, 1), ran.result
    assert [body.get("reasoning_effort") for body in server.bodies][1:] == ["none"] * 2
    told = [event.text for event in ran.events if isinstance(event, Notice)]
    assert len(told) == 1
    assert "without reasoning" in told[0]


def test_a_model_that_calls_no_tools_here_says_so(serve: Any, provider: Any, calls: Calls) -> None:
    """One that can't switch reasoning off either fails at once, in words that lead on."""
    server = serve(*[Turn(status=400, body=json.dumps(body).encode()) for body in (NO_REASONING, NO_NONE, NO_NONE)])
    ran = converse(provider(server, CHAT), ["go"], [calls.tool("ls", "path")])
    assert ran.result.status is Status.FAILED
    assert "can't call tools" in ran.result.error
    assert len(server.asked) == 2
