"""update_todos."""

from __future__ import annotations

from cumulus_jupyter.agent.events import TodosChanged

from .conftest import Bench


def step(label: str, status: str = "pending") -> dict[str, str]:
    return {"label": label, "status": status}


def test_an_accepted_list_is_told_and_kept(bench: Bench) -> None:
    todos = [step("a", "completed"), step("b", "in_progress"), step("c")]
    assert "1 completed, 1 in_progress, 1 pending" in bench.text("update_todos", todos=todos)
    assert [event.todos for event in bench.events if isinstance(event, TodosChanged)] == [todos]
    assert bench.transcript.todos == todos
    bench.text("update_todos", todos=[])
    assert bench.transcript.todos == []


def test_faults_leave_the_list_as_it_was(bench: Bench) -> None:
    bench.text("update_todos", todos=[step("a")])
    two = [step("a", "in_progress"), step("b", "in_progress")]
    assert "2 steps are in_progress (a; b), and one at most" in bench.refusal("update_todos", todos=two)
    assert "step 2 is empty" in bench.refusal("update_todos", todos=[step("a"), step(" ")])
    assert "todos[0].status should be" in bench.refusal("update_todos", todos=[step("a", "done")])
    assert "todos[0].id is unknown" in bench.refusal("update_todos", todos=[{**step("a"), "id": 1}])
    assert bench.transcript.todos == [step("a")]
