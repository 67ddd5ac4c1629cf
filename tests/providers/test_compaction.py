"""A conversation that outgrows the window goes on from a summary: nothing that binds the agent is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cumulus_jupyter.agent.events import Compacted, Compacting
from cumulus_jupyter.agent.history import shortened, tail_length, tokens
from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import Message, Reply, Status, ToolCall, ToolResult, ToolResults, UserMessage
from cumulus_jupyter.agent.provider import Request
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.tools.todo import update_todos
from cumulus_jupyter.tools.tool_search import tool_search

from ..wire.harness import MODELS, Calls, converse
from ..wire.server import Turn
from ..wire.validate import chat_fault, messages_fault
from .conftest import TESTS


class Windowed:
    """A server's turns that hold a window: too long a request is refused in its words; rounds, then an answer."""

    def __init__(self, window: int, rounds: list[tuple[str, dict[str, Any]]], words: str, *, status: int = 400) -> None:
        self.window, self.rounds, self.words, self.status = window, list(rounds), words, status
        self.summaries: list[str] = []
        self.refusals: list[bytes] = []
        self.answers = ["finished"]

    def __call__(self, asked: Any) -> Turn:
        size = len(asked.body) // 4
        if size > self.window:
            assert asked.body not in self.refusals, "a refused body was sent again"
            self.refusals.append(asked.body)
            said = self.words.format(size=size, window=self.window)
            return Turn(status=self.status, body=json.dumps({"error": {"message": said}}).encode())
        if b"keep the memory" in asked.body or b"You keep the" in asked.body:
            self.summaries.append(asked.body.decode())
            return Turn("SUMMARY: read files", usage=(size, 20))
        if self.rounds:
            return Turn("next", calls=[self.rounds.pop(0)], usage=(size, 20))
        return Turn(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0], usage=(size, 20))


FULL = {
    "chat": Turn(text="half", stop="model_context_window_exceeded"),
    "messages": Turn(text="half", stop="model_context_window_exceeded"),
}
LLAMA = "request ({size} tokens) exceeds the available context size ({window} tokens), try increasing it"


def texts(body: dict[str, Any]) -> str:
    return json.dumps([body.get("system"), body["messages"]], ensure_ascii=False)


def wider(provider: Any, window: int) -> Any:
    """The provider as settings have it: with that window."""
    provider.facts = replace(provider.facts, window=window, ceiling=8_192)
    return provider


@pytest.mark.parametrize("wire", MODELS)
def test_k8_06_what_binds_the_agent_survives(wire: str, serve: Any, provider: Any, calls: Calls, case: Any) -> None:
    """Task, rules, last prompt and open todos stand word for word in the request after the summary."""
    told = json.loads(case("K8-06.json"))
    todos = [
        {"label": label, "status": "completed" if label in told["todo_done"] else "pending"} for label in told["todo"]
    ]
    filler = [("read", {"path": f"{n}"}) for n in range(told["filler_turns"])]
    turns = Windowed(40_000, [*filler[:30]], LLAMA)
    server = serve(*[turns] * 200)
    model = wider(provider(server, MODELS[wire]), 40_000)
    tools = [calls.tool("read", "path", result=lambda path: f"file {path}\n" + "x" * 1900), update_todos]
    system = f"You are in a test.\n<rules>\n{told['standing_rules']}\n</rules>"
    transcript = converse(model, [told["first_user"]], tools, system=system).transcript
    turns.rounds = [("update_todos", {"todos": todos}), *filler[30:], *filler]
    limits = Limits(turns=200)
    ran = converse(model, [told["last_user"]], tools, system=system, transcript=transcript, limits=limits)
    assert ran.result.status is Status.DONE
    compacted = [event for event in ran.events if isinstance(event, Compacted)]
    assert compacted
    assert all(event.after < event.before for event in compacted)
    assert any(isinstance(event, Compacting) for event in ran.events)
    last = server.asked[-1].json
    for words in (told["first_user"], told["last_user"], told["standing_rules"]):
        assert words in texts(last)
    assert "run checks (pending)" in texts(last)
    assert "SUMMARY" in texts(last)
    prompts = [m["content"] for m in last["messages"] if m["role"] == "user"]
    said = json.dumps(prompts)
    assert said.count(told["last_user"]) == 1
    assert server.refused == []
    assert turns.refusals == [], "the window is known: the summary comes before the refusal"


@pytest.mark.parametrize("wire", MODELS)
def test_k8_07_the_real_window_is_learned_from_a_refusal(
    wire: str, serve: Any, provider: Any, calls: Calls, case: Any
) -> None:
    """A server with a smaller window than the settings say: its number counts, and the run goes on."""
    told = json.loads(case("K8-07.json"))
    turns = Windowed(told["real_context_of_server"], [("read", {"path": str(n)}) for n in range(20)], LLAMA)
    server = serve(*[turns] * 200)
    model = wider(provider(server, MODELS[wire]), told["configured_context"])
    ran = converse(model, ["read all"], [calls.tool("read", "path", result=lambda path: path + "y" * 1900)])
    assert ran.result.status is Status.DONE, ran.result.error
    assert model.facts.window == told["real_context_of_server"]
    assert len(calls.seen) == 20
    assert any(isinstance(event, Compacted) for event in ran.events)
    assert len(turns.refusals) == 1, "once the window is known, no request is refused again"


@pytest.mark.parametrize("wire", MODELS)
def test_a_request_that_cannot_fit_names_both_numbers_and_ends(wire: str, serve: Any, provider: Any) -> None:
    """A first prompt that is larger than the window: one refusal, no loop, the reason and the window."""
    turns = Windowed(6_144, [], LLAMA)
    server = serve(*[turns] * 50)
    ran = converse(wider(provider(server, MODELS[wire]), 49_152), ["z" * 60_000])
    assert ran.result.status is Status.FAILED
    assert "6,144" in ran.result.error
    assert f"{len(server.asked[0].body) // 4}" in ran.result.error
    assert len(server.asked) <= 2


@pytest.mark.parametrize("wire", MODELS)
def test_a_server_that_refuses_every_summary_gets_the_bare_record(
    wire: str, serve: Any, provider: Any, calls: Calls
) -> None:
    """No summary in the model's words can be had: prompts and calls stand for the older turns, and the run goes on."""
    turns = Windowed(6_144, [("read", {"path": str(n)}) for n in range(15)], LLAMA)

    def step(asked: Any) -> Turn:
        if b"You keep the memory" in asked.body:
            return Turn(status=400, body=b'{"error":{"message":"no such thing here"}}')
        return turns(asked)

    server = serve(*[step] * 200)
    ran = converse(
        wider(provider(server, MODELS[wire]), 49_152),
        ["read all of them"],
        [calls.tool("read", "path", result=lambda path: path + "y" * 1900)],
    )
    assert ran.result.status is Status.DONE, ran.result.error
    assert "read all of them" in texts(server.asked[-1].json)
    assert "CALL read" in texts(server.asked[-1].json)


@pytest.mark.parametrize("wire", MODELS)
def test_fetched_tools_stay_fetched(wire: str, serve: Any, provider: Any, calls: Calls) -> None:
    """A tool that was fetched before the summary can be called after it."""
    rounds = [("tool_search", {"query": "select:late"}), *[("read", {"path": str(n)}) for n in range(15)], ("late", {})]
    turns = Windowed(6_000, rounds, LLAMA)
    server = serve(*[turns] * 200)
    tools = [
        tool_search,
        calls.tool("read", "path", result=lambda path: path + "y" * 1900),
        calls.tool("late", deferred=True),
    ]
    ran = converse(wider(provider(server, MODELS[wire]), 6_000), ["go"], tools)
    assert ran.result.status is Status.DONE, ran.result.error
    assert ("late", {}) in calls.seen
    assert server.refused == []
    assert any(isinstance(event, Compacted) for event in ran.events)


@pytest.mark.parametrize("wire", MODELS)
def test_a_shortened_conversation_is_the_same_after_a_restart(
    wire: str, serve: Any, provider: Any, calls: Calls
) -> None:
    """The stored lines fold to the very conversation that the running kernel had, and show each request as sent."""
    turns = Windowed(6_000, [("read", {"path": str(n)}) for n in range(12)], LLAMA)
    server = serve(*[turns] * 100)
    model = wider(provider(server, MODELS[wire]), 6_000)
    tools = [calls.tool("read", "path", result=lambda path: path + "y" * 1900)]
    ran = converse(model, ["go"], tools)
    loaded = Transcript.load(ran.transcript.session, json.loads(json.dumps(ran.transcript.lines)))
    assert loaded.messages == ran.transcript.messages
    assert loaded.usage == ran.transcript.usage
    spent = sum(line["usage"]["input"] for line in loaded.lines if line["type"] in ("assistant", "compacted"))
    assert loaded.usage.input == spent


REFUSALS = json.loads((TESTS / "cases" / "K8-02.json").read_text())


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("number", range(len(REFUSALS["overflow"])))
def test_k8_02_each_way_to_say_too_long_is_understood(
    number: int, wire: str, serve: Any, provider: Any, calls: Calls
) -> None:
    """The older turns become a summary, or the reply is asked shorter, and the run goes on; no body is sent twice."""
    said = REFUSALS["overflow"][number]
    refusal = Turn(status=said["status"], body=json.dumps(said["body"]).encode()) if "status" in said else FULL[wire]
    rounds = [Turn("next", calls=[("read", {"path": str(n)}, f"id_{n}")]) for n in range(4)]
    server = serve(*rounds, refusal, Turn("SUMMARY or answer"), Turn("done"), Turn("done"))
    ran = converse(provider(server, MODELS[wire]), ["go"], [calls.tool("read", "path")])
    assert ran.result.status is Status.DONE, ran.result.error
    bodies = [asked.body for asked in server.asked]
    assert len(set(bodies)) == len(bodies)
    shorter = server.bodies[-1].get("max_tokens", 0) < server.bodies[4].get("max_tokens", 0)
    assert shorter or any(isinstance(event, Compacted) for event in ran.events)
    assert len(calls.seen) == 4


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("number", range(len(REFUSALS["not_overflow"])))
def test_k8_02_what_only_sounds_like_it_shortens_nothing(
    number: int, wire: str, serve: Any, provider: Any, calls: Calls
) -> None:
    """A cap, a rate, a picture or a key is not the window: no summary, and a 400 is never sent again unchanged."""
    said = REFUSALS["not_overflow"][number]
    refusal = Turn(status=said["status"], body=json.dumps(said["body"]).encode())
    rounds = [Turn("next", calls=[("read", {"path": str(n)}, f"id_{n}")]) for n in range(4)]
    server = serve(*rounds, refusal, Turn("done"), Turn("done"))
    ran = converse(provider(server, MODELS[wire]), ["go"], [calls.tool("read", "path")])
    assert not any(isinstance(event, Compacted) for event in ran.events)
    bodies = [asked.body for asked in server.asked]
    assert len(set(bodies)) == len(bodies) or said["status"] == 429


@pytest.mark.parametrize("answered", [True, False])
def test_k8_01_a_batch_of_calls_is_never_split(answered: bool, case: Any, provider: Any, serve: Any) -> None:
    """Whatever tail is kept, each result follows its call and each call has its result, on both wires."""
    history = json.loads(case("K8-01.json"))["history"]
    for tail in range(1, len(history) + 1):
        messages = _messages(history, answered=answered)
        short = shortened(messages, min(tail, len(messages)), "what was done")
        assert isinstance(short[0], UserMessage)
        assert short[0].text == history[0]["content"]
        for at, message in enumerate(short):
            if isinstance(message, ToolResults):
                assert isinstance(short[at - 1], Reply)
                assert short[at - 1].calls == message.calls
        request = Request("s", short, (), (), 1_000)
        server = serve()
        assert chat_fault(json.loads(provider(server, MODELS["chat"]).body(request))) is None
        assert messages_fault(json.loads(provider(server, MODELS["messages"]).body(request)), set()) is None


def _messages(history: list[dict[str, Any]], *, answered: bool) -> list[Message]:
    messages: list[Message] = []
    for line in history:
        if line["role"] == "user":
            messages.append(UserMessage(line["content"]))
        elif line["role"] == "assistant":
            made = [
                ToolCall(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"]), c["id"])
                for c in line["tool_calls"]
            ]
            messages += [Reply(line["content"], made), ToolResults(made, [None] * len(made))]
        else:
            group = messages[-1]
            assert isinstance(group, ToolResults)
            slot = [call.id for call in group.calls].index(line["tool_call_id"])
            group.results[slot] = ToolResult(line["tool_call_id"], "read_file", [line["content"]])
    if not answered:
        group = messages[-1]
        assert isinstance(group, ToolResults)
        group.results[-1] = None
    return messages


def test_thinking_goes_whole_and_the_last_messages_fit_the_budget() -> None:
    """Thinking is bound to what stood before it: none is kept. A tail is as long as the budget, pairs kept together."""
    call = ToolCall("a", "read", {}, "a")
    pair: list[Message] = [
        Reply("x" * 300, [call], native=[{"type": "thinking"}]),
        ToolResults([call], [ToolResult("a", "read", ["y" * 300])]),
    ]
    messages: list[Message] = [UserMessage("task"), *pair, *pair, *pair]
    assert tail_length(messages, sum(map(tokens, pair))) == 2
    assert tail_length(messages, sum(map(tokens, pair)) - 1) == 0
    short = shortened(messages, 4, "so far")
    assert [m.native for m in short if isinstance(m, Reply)] == [None, None]
