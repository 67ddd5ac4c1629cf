"""Sub-agents: admission, states, rights, messages, usage, and their end with the run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent import crew as crew_module
from cumulus_jupyter.agent import retrying
from cumulus_jupyter.agent.errors import ProviderError, SettingsError
from cumulus_jupyter.agent.events import AgentState, Event, Finished, Nested, Paused, TextDelta, ToolFinished
from cumulus_jupyter.agent.loop import Limits
from cumulus_jupyter.agent.messages import Answer, Ask, Outcome, Reply, RunResult, Status, StopReason, UserMessage
from cumulus_jupyter.agent.policy import DENY, ONCE, SESSION, Policy
from cumulus_jupyter.agent.provider import ModelFacts, Request
from cumulus_jupyter.agent.session import Session
from cumulus_jupyter.agent.tool import Access, Tool
from cumulus_jupyter.agent.toolbox import Toolbox
from cumulus_jupyter.agent.transcript import Transcript
from cumulus_jupyter.script import ScriptHost
from cumulus_jupyter.subagents import crew
from cumulus_jupyter.tools.agents import check_agents, spawn_agent, spawn_agents, steer_agent
from cumulus_jupyter.tools.ask import ask_user_question
from cumulus_jupyter.tools.files import write_file
from cumulus_jupyter.undo import undo

from .conftest import drain, make, say

CASES = Path(__file__).parents[1] / "cases"
OURS = [replace(tool, deferred=False) for tool in (spawn_agent, spawn_agents, check_agents, steer_agent)]
Line = Reply | ProviderError | Callable[[Request], Any]


class Cast:
    """A model that plays a part for each conversation, chosen by its first prompt; a part's last line is repeated."""

    name, host, notice = "cast", "here", ""
    facts = ModelFacts(price=(1.0, 1.0, 1.0))

    def __init__(self, **parts: list[Line]) -> None:
        self.parts = {name: list(lines) for name, lines in parts.items()}
        self.requests: dict[str, list[Request]] = {name: [] for name in parts}

    async def stream(self, request: Request) -> AsyncGenerator[Any, None]:
        first = next(message.text for message in request.messages if isinstance(message, UserMessage) and message.text)
        lines = self.parts[first]
        self.requests[first].append(replace(request, messages=list(request.messages)))
        line = lines.pop(0) if len(lines) > 1 else lines[0]
        while callable(line):
            line = line(request)
            line = await line if asyncio.iscoroutine(line) else line
        if isinstance(line, ProviderError):
            raise line
        if line.text:
            yield TextDelta(line.text)
        yield replace(line, calls=list(line.calls))

    def body(self, request: Request) -> bytes:
        return b""

    async def close(self) -> None:
        pass


class Person(ScriptHost):
    """Somebody who answers each question with the next of these words."""

    person = True

    def __init__(self, *words: str) -> None:
        super().__init__()
        self.words, self.asked = list(words), []

    async def ask(self, ask: Ask) -> Answer:
        self.asked.append(ask)
        await asyncio.sleep(0.02)
        return Answer(Outcome.ANSWERED, (self.words.pop(0),))


def later(seconds: float, reply: Reply) -> Line:
    async def wait(request: Request) -> Reply:
        await asyncio.sleep(seconds)
        return reply

    return wait


async def until(condition: Callable[[], Any]) -> None:
    """Wait for what must come."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def after(condition: Callable[[], Any], reply: Reply) -> Line:
    async def wait(request: Request) -> Reply:
        await until(condition)
        return reply

    return wait


def spawning(*names: str, **options: Any) -> Reply:
    return say("", *[("spawn_agent", {"task": name, "name": name.upper(), **options}) for name in names])


@pytest.fixture
def parent(tmp_path: Path) -> Callable[..., Session]:
    """Make a session that can have sub-agents."""

    def build(
        cast: Cast, *tools: Tool, host: Any = None, limits: Limits | None = None, patience: float = 5.0, **options: Any
    ) -> Session:
        transcript, limits = options.pop("transcript", Transcript()), limits or Limits()
        policy = options.pop("policy", Policy("all", person=False))
        toolbox = Toolbox([*OURS, *tools], host=host or ScriptHost(), root=tmp_path, policy=policy, **options)

        def other(model: str) -> Cast:
            raise SettingsError(f"no model {model}")

        toolbox.background = crew(transcript, toolbox, limits, cast, workers="local", others=other)
        toolbox.background.patience = patience
        return Session(transcript, cast, toolbox, limits, "system")

    return build


def run(session: Session) -> tuple[list[Event], RunResult]:
    async def whole() -> list[Event]:
        events = await drain(session.stream("go"))
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing runs after the run"
        return events

    events = asyncio.run(whole())
    assert isinstance(events[-1], Finished)
    return events, events[-1].result


def states(session: Session) -> dict[str, str]:
    return {agent["name"]: agent["status"] for agent in session.transcript.agents.values()}


def results(session: Session, name: str) -> list[dict[str, Any]]:
    lines = [line for line in session.transcript.lines if line["type"] == "result" and line["name"] == name]
    return [json.loads(line["content"][0]) if line["content"][0][:1] == "{" else line for line in lines]


# The cases -------------------------------------------------------------------------------------------------------


def test_k9_01_agents_that_always_spawn_stay_under_the_limit(parent: Callable[..., Session]) -> None:
    """One level deep and 32 a run, however often models ask for more; each refusal names its limit."""
    assert "3 spawn calls" in json.loads((CASES / "K9-01.json").read_text())["model_script"]
    more = say("", *[("spawn_agent", {"task": "again"})] * 3)
    cast = Cast(go=[more], again=[more])
    session = parent(cast, limits=Limits(turns=14))
    _, result = run(session)
    admitted = [agent for agent in session.transcript.agents.values() if agent["status"] != "rejected"]
    rejected = [agent for agent in session.transcript.agents.values() if agent["status"] == "rejected"]
    assert len(admitted) == 32
    assert {agent["error"] for agent in rejected} == {
        "this run has had its 32 sub-agents (the limit); do the rest without more of them"
    }
    inside = [line for line in session.transcript.lines if line["type"] == "result" and line.get("agent")]
    assert inside
    assert all("one level deep (limit 1)" in line["content"][0] and not line["ok"] for line in inside)
    assert result.status is Status.TURN_LIMIT


def test_k9_02_a_parent_that_ends_to_wait_gets_the_results(parent: Callable[..., Session]) -> None:
    """A parent that says it will wait is given each result as its next message, and ends with them."""
    case = json.loads((CASES / "K9-02.json").read_text())
    wait = say("I will wait for them.")
    cast = Cast(
        go=[spawning("a", "b"), wait, wait, lambda request: say(request.messages[-1].note)],
        a=[later(case["A_takes_s"] / 50, say("A found 1"))],
        b=[later(case["B_takes_s"] / 50, say("B found 2"))],
    )
    session = parent(cast)
    _, result = run(session)
    assert result.status is Status.DONE
    assert states(session) == {"A": "completed", "B": "completed"}
    notes = [m.note for m in session.transcript.messages if isinstance(m, UserMessage) and m.note]
    assert ["A found 1" in note for note in notes] == [True, False], "each result is told once"
    assert "B found 2" in notes[1]


@pytest.mark.parametrize("limit", ["patience", "turns"])
def test_k9_02_a_run_that_had_to_cut_its_children_is_no_success(parent: Callable[..., Session], limit: str) -> None:
    """Children that come to nothing are cancelled, and the run that cut them names them and is not done."""
    cast = Cast(go=[spawning("a", "b"), say("I wait.")], a=[later(60, say("x"))], b=[later(60, say("y"))])
    limits = Limits(turns=1) if limit == "turns" else Limits()
    session = parent(cast, limits=limits, patience=0.02)
    _, result = run(session)
    assert result.status is (Status.TURN_LIMIT if limit == "turns" else Status.FAILED)
    assert "A, B" in str(result.error)
    assert states(session) == {"A": "cancelled", "B": "cancelled"}
    assert len(cast.requests["go"]) == (2 if limit == "turns" else 4)


def test_k9_04_each_way_to_end_has_one_final_state(parent: Callable[..., Session]) -> None:
    """Ending well, a fault, a cancel, a task that is killed and a turn limit: each one right state, once, for good."""
    assert len(json.loads((CASES / "K9-04.json").read_text())["children"]) == 5

    def fault(request: Request) -> Reply:
        raise RuntimeError("its loop is broken")

    def kill(request: Request) -> Reply:
        killed = next(child for child in session.toolbox.background._children.values() if child.name == "KILLED")
        killed.task.cancel()
        return say("", ("check_agents", {"wait": True, "timeout": 10}))

    check = say("", ("check_agents", {"wait": True, "timeout": 10}))
    cast = Cast(
        go=[
            spawning("well", "faulty", "cancelled", "killed"),
            spawning("long", max_turns=2),
            say("", ("steer_agent", {"agent_id": "agent-3", "action": "cancel"})),
            kill,
            check,
            check,
            check,
            check,
            say("all told"),
        ],
        well=[say("done well")],
        faulty=[fault],
        cancelled=[later(60, say("never"))],
        killed=[later(60, say("never"))],
        long=[say("step", ("note", {"n": 1})), say("step", ("note", {"n": 2})), say("that far")],
    )
    session = parent(cast, make("note"))
    events, result = run(session)
    assert result.status is Status.DONE
    expected = {
        "WELL": "completed",
        "FAULTY": "failed",
        "CANCELLED": "cancelled",
        "KILLED": "failed",
        "LONG": "failed",
    }
    assert states(session) == expected
    final = [e.name for e in events if isinstance(e, Nested) and isinstance(e.event, AgentState) and _final(e.event)]
    assert sorted(final) == sorted(expected), "one notice each"
    last = {agent["name"]: agent for agent in results(session, "check_agents")[-1]["agents"]}
    assert last["LONG"]["error"] == "its turn limit was reached"
    assert last["LONG"]["result"] == "that far"
    assert "its loop is broken" in last["FAULTY"]["error"]
    assert last["KILLED"]["error"] == "it was ended from outside"


def _final(state: AgentState) -> bool:
    return state.status not in ("submitted", "running")


@pytest.mark.parametrize("status", [529, 401, None])
def test_k9_05_a_provider_error_is_no_success(
    parent: Callable[..., Session], monkeypatch: pytest.MonkeyPatch, status: int | None
) -> None:
    """A child whose requests all fail has failed, with the provider's reason and no empty result."""
    assert json.loads((CASES / "K9-05.json").read_text())["child_requests"][0]["status"] == 529
    monkeypatch.setattr(retrying, "_pause", lambda attempt: 0.001)
    error = ProviderError("the server said: overloaded", status=status, retryable=status != 401)
    session = parent(Cast(go=[spawning("receipt"), say("waiting"), say("not made")], receipt=[error]))
    run(session)
    (agent,) = session.transcript.agents.values()
    assert agent["status"] == "failed"
    assert "overloaded" in agent["error"]
    told = session.transcript.messages[-2].note
    assert '"failed"' in told
    assert "overloaded" in told


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (say("half", stop=StopReason.LENGTH, output=65_536), "limits"),
        (replace(say("", stop=StopReason.REFUSAL), detail="not that"), "not that"),
        (say(""), "without an answer"),
    ],
)
def test_an_ending_that_is_no_answer_is_failed(parent: Callable[..., Session], reply: Reply, reason: str) -> None:
    """Truncation, refusal and silence of a child are failed, with the reason and what text there is."""
    session = parent(Cast(go=[spawning("a"), say("w"), say("end")], a=[reply]))
    run(session)
    (agent,) = session.transcript.agents.values()
    assert (agent["status"], agent["text"]) == ("failed", reply.text)
    assert reason in agent["error"]


def test_k7_04_a_child_that_asks_gets_an_error(parent: Callable[..., Session]) -> None:
    """A sub-agent has no question tool: its call fails in words, and nothing waits."""
    call = json.loads((CASES / "K7-04.json").read_text())["child_calls"]
    cast = Cast(go=[spawning("a"), say("w"), say("end")], a=[say("", (call["name"], call["input"])), say("took a")])
    session = parent(cast, ask_user_question, host=Person(), policy=Policy("all", person=True))
    _, result = run(session)
    assert result.status is Status.DONE
    (inside,) = [line for line in session.transcript.lines if line["type"] == "result" and line.get("agent")]
    assert "can't ask the person" in inside["content"][0]
    assert "AskUserQuestion" not in {tool.name for tool in cast.requests["a"][0].tools}


def test_k7_04_an_approval_of_a_child_is_asked_under_its_name(parent: Callable[..., Session]) -> None:
    """The person is asked with the child's name and the call; the answer goes to that child, a session's to all."""
    ran: list[str] = []
    risky = make("risky", lambda ctx, arguments: ran.append(arguments["by"]) or "ok", access=lambda root, a: Access.RUN)

    def asks(by: str) -> list[Line]:
        return [say("", ("risky", {"by": by})), lambda request: say(request.messages[-1].results[0].text)]

    host = Person(DENY, ONCE, SESSION)
    cast = Cast(
        go=[
            spawning("a"),
            say("w"),
            spawning("b"),
            say("w"),
            spawning("c"),
            say("w"),
            spawning("d"),
            say("w"),
            say(""),
        ],
        a=asks("a"),
        b=asks("b"),
        c=asks("c"),
        d=asks("d"),
    )
    session = parent(cast, risky, host=host, policy=Policy("edits", person=True))
    run(session)
    assert ran == ["b", "c", "d"]
    assert [ask.name for ask in host.asked] == ["A · risky", "B · risky", "C · risky"]
    assert "Sub-agent A: Allow risky?" in host.asked[0].questions[0].question
    assert "by: a" in host.asked[0].detail
    texts = [agent["text"] for agent in session.transcript.agents.values()]
    assert "denied by the person" in texts[0]
    assert texts[1:] == ["ok", "ok", "ok"]


def test_nobody_there_denies_a_child_in_words(parent: Callable[..., Session]) -> None:
    """Without a person a child's call that needs approval is denied, as its parent's is."""
    risky = make("risky", access=lambda root, arguments: Access.RUN)
    cast = Cast(go=[spawning("a"), say("w"), say("end")], a=[say("", ("risky", {})), say("could not")])
    session = parent(cast, risky, policy=Policy("edits", person=False))
    run(session)
    (inside,) = [line for line in session.transcript.lines if line["type"] == "result" and line.get("agent")]
    assert "nobody is there" in inside["content"][0]


# Admission and rights --------------------------------------------------------------------------------------------


def test_eight_run_and_the_others_wait(parent: Callable[..., Session]) -> None:
    """Of ten children eight run at once, two wait as submitted, and all complete."""
    names = [f"t{number}" for number in range(10)]
    most, now, looked = 0, 0, asyncio.Event()

    async def part(request: Request) -> Reply:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await looked.wait()
        now -= 1
        return say("ready")

    async def after_look(request: Request) -> Reply:
        looked.set()
        return say("w")

    tasks = {"tasks": [{"task": name, "name": name} for name in names]}
    cast = Cast(
        go=[say("", ("spawn_agents", tasks)), say("", ("check_agents", {})), after_look],
        **{name: [part] for name in names},
    )
    session = parent(cast)
    run(session)
    first = results(session, "check_agents")[0]["agents"]
    assert [agent["status"] for agent in first] == ["running"] * 8 + ["submitted"] * 2
    assert most == 8
    assert set(states(session).values()) == {"completed"}


def test_a_child_has_its_parents_tools_or_fewer(parent: Callable[..., Session]) -> None:
    """None is all but the parent's own, a list narrows, [] is none; what it can't have is rejected with the reason."""
    cast = Cast(
        go=[
            spawning("all"),
            spawning("one", tools=["read"]),
            spawning("none", tools=[]),
            spawning("much", tools=["spawn_agent"]),
            spawning("odd", tools=["launch"]),
            spawning("model", model="nobody/knows"),
            say("w"),
        ],
        all=[say("1")],
        one=[say("2")],
        none=[say("3")],
    )
    session = parent(cast, make("read"), make("rare", deferred=True), ask_user_question)
    run(session)
    bound = {
        name: [tool.name for tool in requests[0].tools] for name, requests in cast.requests.items() if name != "go"
    }
    assert bound == {"all": ["read"], "one": ["read"], "none": []}
    assert [tool.name for tool in cast.requests["all"][0].deferred] == ["rare"]
    told = results(session, "spawn_agent")
    assert [entry["status"] for entry in told] == ["running"] * 3 + ["rejected"] * 3
    assert "one level deep" in told[3]["error"]
    assert "no such tool" in told[4]["error"]
    assert "no model nobody/knows" in told[5]["error"]


def test_children_and_parent_share_locks(parent: Callable[..., Session]) -> None:
    """Calls that need the same thing run one after another, whichever agent makes them."""
    inside = 0

    async def alone(ctx: Any, arguments: dict[str, Any]) -> str:
        nonlocal inside
        inside += 1
        assert inside == 1
        await asyncio.sleep(0.01)
        inside -= 1
        return "ok"

    only = make("only", alone, locks=lambda root, arguments: ["file"])
    call = say("", ("only", {}))
    cast = Cast(go=[spawning("a", "b"), call, say("w")], a=[call, say("a")], b=[call, say("b")])
    session = parent(cast, only)
    run(session)
    assert all(line["ok"] for line in session.transcript.lines if line["type"] == "result")


# Messages, results, usage ----------------------------------------------------------------------------------------


def test_a_message_reaches_a_child_before_its_next_round(parent: Callable[..., Session]) -> None:
    """A child at work reads its parent's message with its next request, also where it would have ended."""
    cast = Cast(
        go=[
            spawning("a"),
            say("", ("steer_agent", {"agent_id": "A", "action": "message", "message": "use metres"})),
            say("w"),
            say("", ("steer_agent", {"agent_id": "A", "action": "message", "message": "too late"})),
            say("end"),
        ],
        a=[after(lambda: results(session, "steer_agent"), say("in feet")), lambda r: say(r.messages[-1].note)],
    )
    session = parent(cast)
    run(session)
    (agent,) = session.transcript.agents.values()
    assert "use metres" in agent["text"]
    late = results(session, "steer_agent")[-1]
    assert not late["ok"]
    assert "has ended (completed)" in late["content"][0]


def test_a_childs_usage_is_its_parents(parent: Callable[..., Session]) -> None:
    """Rounds, tokens and cost of children stand in the run's usage, and fold again from the lines."""
    cast = Cast(go=[spawning("a"), say("w"), say("end")], a=[say("", ("read", {})), say("a")])
    session = parent(cast, make("read"))
    _, result = run(session)
    assert (result.usage.rounds, result.usage.input, result.usage.output) == (5, 500, 50)
    assert result.usage.cost == pytest.approx(550 / 1e6)
    again = Transcript.load("again", json.loads(json.dumps(session.transcript.lines)))
    assert again.usage == session.transcript.usage
    assert again.agents == session.transcript.agents


def test_children_count_for_the_token_limit(parent: Callable[..., Session]) -> None:
    """A child that uses the run's tokens up is ended as failed, and so is the run."""
    cast = Cast(go=[spawning("a"), say("w")], a=[lambda request: say("", ("read", {"n": len(request.messages)}))])
    session = parent(cast, make("read"), limits=Limits(tokens=1_000))
    _, result = run(session)
    assert result.status is Status.FAILED
    assert "token limit" in str(result.error)
    (agent,) = session.transcript.agents.values()
    assert agent["status"] == "failed"
    assert "--max-tokens" in agent["error"]
    assert agent["rounds"] <= 9


def test_results_are_bounded_for_the_model_and_whole_in_the_transcript(parent: Callable[..., Session]) -> None:
    """What check_agents and the harness tell is a window of 30,000 characters with a handle to the whole."""
    text = "result " * 10_000
    check = say("", ("check_agents", {"wait": True}))
    cast = Cast(go=[spawning("a"), check, spawning("b"), say("w"), say("end")], a=[say(text)], b=[say(text)])
    session = parent(cast)
    run(session)
    assert [agent["text"] for agent in session.transcript.agents.values()] == [text, text]
    line = next(line for line in session.transcript.lines if line.get("name") == "check_agents")
    handed = next(m.note for m in session.transcript.messages if isinstance(m, UserMessage) and m.note)
    assert len(line["content"][0]) <= 30_000
    assert len(handed) <= 30_200
    assert line["handle"] in line["content"][0]
    assert text[:100] in session.transcript.spool.get(line["handle"])
    assert "omitted" in handed


def test_polling_without_news_is_told_its_age(parent: Callable[..., Session]) -> None:
    """From the third check with nothing new the result says for how long, and how to stop."""
    check = say("", ("check_agents", {}))
    four = after(lambda: len(results(session, "check_agents")) == 4, say("a"))
    cast = Cast(go=[spawning("a"), check, check, check, check, say("w")], a=[four])
    session = parent(cast)
    run(session)
    notes = ["nothing new in" in entry.get("note", "") for entry in results(session, "check_agents")]
    assert notes == [False, False, True, True]


def test_childrens_edits_are_undone_with_the_run(parent: Callable[..., Session], tmp_path: Path) -> None:
    """An undo of the parent's run takes back what its children wrote."""
    (tmp_path / "kept.txt").write_text("before")
    write = say("", ("write_file", {"path": "kept.txt", "content": "x" * 100_000}), ("run_shell", {"command": "ls"}))
    shell = make("run_shell")
    session = parent(Cast(go=[spawning("a"), say("w"), say("end")], a=[write, say("written")]), write_file, shell)
    run(session)
    assert (tmp_path / "kept.txt").read_text() == "x" * 100_000

    async def nobody() -> None:
        return None

    told = asyncio.run(undo(session, nobody))
    assert "run_shell: ls" in told, "what can't be taken back is named"
    assert (tmp_path / "kept.txt").read_text() == "before"


# The run and its children ----------------------------------------------------------------------------------------


def test_childrens_events_come_while_the_parent_works(parent: Callable[..., Session]) -> None:
    """Events of a child reach the outside before a call of its parent has ended."""
    cast = Cast(go=[spawning("a"), say("", ("slow", {})), say("end")], a=[say("", ("read", {})), say("a")])
    ended = after(lambda: states(session) == {"A": "completed"}, say("ok"))
    session = parent(cast, make("read"), make("slow", lambda ctx, arguments: ended(None)))
    events, _ = run(session)
    slow = next(n for n, e in enumerate(events) if isinstance(e, ToolFinished) and e.call.name == "slow")
    ended = next(n for n, e in enumerate(events) if isinstance(e, Nested) and _final_of(e.event))
    assert ended < slow


def _final_of(event: Event) -> bool:
    return isinstance(event, AgentState) and _final(event)


def test_a_stop_ends_the_children(parent: Callable[..., Session]) -> None:
    """A run that is cancelled leaves no child at work, and its transcript says so."""
    cast = Cast(go=[spawning("a", "b"), later(60, say("never"))], a=[later(60, say("x"))], b=[later(60, say("y"))])
    session = parent(cast)

    async def stopped() -> None:
        task = asyncio.create_task(drain(session.stream("go")))
        await until(lambda: list(states(session).values()) == ["running"] * 2 and len(cast.requests["go"]) == 2)
        task.cancel()
        await asyncio.wait({task})
        session.stopped()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(stopped())
    assert states(session) == {"A": "cancelled", "B": "cancelled"}
    assert session.transcript.lines[-1]["type"] == "run_end"


def test_children_work_on_while_the_parent_waits_for_the_person(parent: Callable[..., Session]) -> None:
    """A question of the parent does not hold its children; they are told of meanwhile, and end with a stop."""
    question = {"questions": [{"question": "Which?", "options": ["a", "b"]}]}
    both = say("", ("spawn_agent", {"task": "a", "name": "A"}), ("AskUserQuestion", question))
    cast = Cast(go=[both, say("end"), say("end")], a=[later(0.05, say("found"))])
    session = parent(cast, ask_user_question, host=Person(), policy=Policy("all", person=True))

    async def whole() -> list[Event]:
        events = await drain(session.stream("go"))
        assert isinstance(events[-1], Paused)
        async for event in session.beside():
            if isinstance(event, Nested) and _final_of(event.event):
                break
        session.answer(events[-1].waiting[0], Answer(Outcome.ANSWERED, ("a",)))
        return await drain(session.resume())

    events = asyncio.run(whole())
    assert events[-1].result.status is Status.DONE
    assert states(session) == {"A": "completed"}


def test_a_resumed_parent_learns_that_its_children_are_gone(parent: Callable[..., Session]) -> None:
    """After the kernel's death children count as failed, and the parent is told before its next request."""
    cast = Cast(go=[spawning("a"), later(60, say("never"))], a=[later(60, say("x"))])
    session = parent(cast)

    async def killed() -> list[dict[str, Any]]:
        task = asyncio.create_task(drain(session.stream("go")))
        await until(lambda: len(cast.requests["go"]) == 2 and cast.requests["a"])
        lines = json.loads(json.dumps(session.transcript.lines))
        task.cancel()
        await asyncio.wait({task})
        return lines

    lines = asyncio.run(killed())
    check = say("", ("check_agents", {}))
    again = parent(Cast(go=[check, say("end")]), transcript=Transcript.load("again", lines))
    assert again.recover()
    events = asyncio.run(drain(again.resume()))
    assert events[-1].result.status is Status.DONE
    assert "these sub-agents: A." in again.transcript.messages[-4].note
    (agent,) = results(again, "check_agents")[0]["agents"]
    assert agent["status"] == "failed"
    assert "kernel ended" in agent["error"]


def test_a_run_without_children_is_a_plain_generator(
    parent: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing stands between a run and its reader while there is no child."""
    from cumulus_jupyter.agent import session as module

    monkeypatch.setattr(module, "interleaved", None)
    _, result = run(parent(Cast(go=[say("", ("read", {})), say("end")]), make("read")))
    assert result.status is Status.DONE


def test_the_defaults_are_the_contracts() -> None:
    """Eight at once, 32 a run, 600 s of patience."""
    assert (crew_module.PARALLEL, crew_module.MOST, crew_module._PATIENCE) == (8, 32, 600.0)
