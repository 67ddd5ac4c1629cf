"""Approvals, cell by cell: what is free, asked and denied, and what a person's answer comes to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cumulus_jupyter.agent.events import ApprovalAsked
from cumulus_jupyter.agent.messages import Answer, Outcome
from cumulus_jupyter.agent.policy import DENY, ONCE, SESSION, Policy
from cumulus_jupyter.agent.redact import Redactor
from cumulus_jupyter.agent.tool import Access
from cumulus_jupyter.tools.function import tool
from cumulus_jupyter.tools.mcp.tool import McpTool

from ..tools.conftest import Bench


@tool
def plain() -> str:
    """The person's own."""
    return "ran"


@tool(approve=True)
def careful() -> str:
    """The person's own, to be asked for."""
    return "ran"


def server_tool(name: str, access: Access) -> McpTool:
    async def run(context: Any, arguments: dict[str, Any]) -> Any:
        from cumulus_jupyter.agent.tool import Output

        return Output("ran")

    return McpTool(
        name=name,
        description=name,
        schema=lambda: {"type": "object"},
        run=run,
        access=lambda root, arguments: access,
        server="s",
        listed=None,  # type: ignore[arg-type]
    )


READING = {
    "read_file": {"path": "a.txt"},
    "list_files": {},
    "search_files": {"regex": "x"},
    "notebook_read": {"path": "n.ipynb"},
    "update_todos": {"todos": [{"label": "one", "status": "pending"}]},
    "tool_search": {"query": "select:run_shell"},
    "inspect_variables": {},
    "present_ui": {"root": [{"type": "text", "text": "hi"}], "summary": "hi"},
    "plain": {},
    "mcp__s__look": {},
}
EDITS = {
    "write_file": {"path": "new.txt", "content": "x"},
    "edit_file": {"path": "a.txt", "old": "x", "new": "y"},
    "notebook_edit": {"operation": "delete", "path": "n.ipynb", "cell_id": "one"},
}
RUNS = {
    "run_python": {"code": "1"},
    "run_shell": {"command": "rm a.txt"},  # files are deleted by commands and code only
    "careful": {},
    "mcp__s__change": {},
    "read_file": {"path": "../outside.txt"},
    "list_files": {"path": ".."},
    "search_files": {"regex": "x", "path": ".."},
    "notebook_read": {"path": "../n.ipynb"},
}
GUARDED = {
    "write_file": {"path": ".bashrc", "content": "x"},
    "edit_file": {"path": ".env", "old": "x", "new": "y"},
    "notebook_edit": {"operation": "create", "path": ".hidden/n.ipynb"},
}
TABLE = {  # as the contract has it: none, ask, edits, all
    "reading": (READING, "free free free free"),
    "edits": (EDITS, "denied asked free free"),
    "runs": (RUNS, "denied asked asked free"),
    "guarded": (GUARDED, "denied asked asked free"),
}
MODES = ("none", "ask", "edits", "all")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    root = tmp_path_factory.mktemp("policy") / "root"
    root.mkdir()
    extra = [plain, careful, server_tool("mcp__s__look", Access.FREE), server_tool("mcp__s__change", Access.RUN)]
    return Bench(root, extra=extra)


@pytest.mark.parametrize("person", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", TABLE)
def test_every_cell_of_the_table(bench: Bench, kind: str, mode: str, person: bool) -> None:
    calls, row = TABLE[kind]
    words = {"run": "free", "ask": "asked", "deny": "denied"}
    found = {}
    for name, arguments in calls.items():
        access = bench.toolbox.tools[name].access(bench.root, arguments)
        found[name] = words[Policy(mode, person).verdict(access, approved=False)]
    assert found == dict.fromkeys(calls, row.split()[MODES.index(mode)])


@pytest.mark.parametrize("kind", ["runs", "guarded"])
def test_asked_is_a_question_where_a_person_is_there_and_else_a_denial_in_words(tmp_path: Path, kind: str) -> None:
    name, arguments = next(iter(TABLE[kind][0].items()))
    there = Bench(tmp_path, approve="edits", person=True)
    assert there.calls((name, arguments)) == [None]
    assert isinstance(there.asked[0], ApprovalAsked)
    alone = Bench(tmp_path, approve="edits", person=False)
    assert "nobody is there" in alone.refusal(name, **arguments)
    assert alone.asked == []
    assert "may only read" in Bench(tmp_path, approve="none", person=True).refusal(name, **arguments)


def answered(bench: Bench, call: tuple[str, dict[str, Any]], answer: Answer) -> Any:
    """The result of a call that waited, once this answer is given."""

    async def main() -> Any:
        await bench.run(call)
        bench.transcript.answer(bench.asked[-1].ask, answer)  # type: ignore[union-attr]
        async for event in bench.toolbox.run_open(bench.transcript):
            bench.events.append(event)
        return bench.transcript.messages[-1].results[0]  # type: ignore[union-attr]

    return asyncio.run(main())


def test_a_denials_reason_reaches_the_model_and_nothing_ran(tmp_path: Path) -> None:
    bench = Bench(tmp_path, approve="edits", person=True)
    denied = Answer(Outcome.ANSWERED, (DENY,), notes="use the copy in data/ instead")
    result = answered(bench, ("run_python", {"code": "open('made', 'w')"}), denied)
    assert not result.ok
    assert "use the copy in data/ instead" in result.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("outcome", [Outcome.DECLINED, Outcome.TIMED_OUT, Outcome.NO_USER])
def test_no_word_is_no_approval(tmp_path: Path, outcome: Outcome) -> None:
    bench = Bench(tmp_path, approve="edits", person=True)
    assert not answered(bench, ("run_python", {"code": "open('made', 'w')"}), Answer(outcome)).ok
    assert list(tmp_path.iterdir()) == []


def test_an_answer_in_other_words_is_a_denial_with_its_reason(tmp_path: Path) -> None:
    bench = Bench(tmp_path, approve="edits", person=True)
    said = Answer(Outcome.ANSWERED, ("not in this folder",))
    result = answered(bench, ("run_shell", {"command": "touch made"}), said)
    assert not result.ok
    assert "Their reason: not in this folder" in result.text


def test_once_holds_for_one_call_and_the_session_for_that_tool_but_never_for_guarded_files(tmp_path: Path) -> None:
    bench = Bench(tmp_path, approve="ask", person=True)
    assert answered(bench, ("write_file", {"path": "a", "content": "x"}), Answer(Outcome.ANSWERED, (ONCE,))).ok
    assert answered(bench, ("write_file", {"path": "b", "content": "x"}), Answer(Outcome.ANSWERED, (SESSION,))).ok
    assert bench.call("write_file", path="c", content="x").ok
    assert bench.calls(("write_file", {"path": ".env", "content": "x"})) == [None]
    assert bench.calls(("edit_file", {"path": "a", "old": "x", "new": "y"})) == [None]


def test_keys_are_hidden_from_what_the_person_is_shown(tmp_path: Path) -> None:
    bench = Bench(tmp_path, approve="ask", person=True, redact=Redactor(["sk-very-secret-1"]))
    bench.calls(("run_shell", {"command": "curl -H 'x-api-key: sk-very-secret-1' http://localhost"}))
    detail = bench.asked[0].ask.detail  # type: ignore[union-attr]
    assert "[key]" in detail
    assert "sk-very-secret-1" not in detail


def test_answers_given_beforehand_approve_nothing(tmp_path: Path) -> None:
    from cumulus_jupyter.tools.answers import AnswerBook, headless_resolver

    book = AnswerBook({"Approval": ONCE, "Allow run_python?": ONCE})
    for mode in ("tell", "recommended", "fail"):
        bench = Bench(tmp_path, approve="edits", resolve=headless_resolver(book, mode))
        assert "nobody is there" in bench.refusal("run_python", code="open('made', 'w')")
    assert list(tmp_path.iterdir()) == []
