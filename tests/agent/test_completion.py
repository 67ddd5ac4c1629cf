"""Cut, repeated and broken replies: one whole reply comes of them, or an honest end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from cumulus_jupyter.agent import retrying
from cumulus_jupyter.agent.errors import ProviderError
from cumulus_jupyter.agent.events import ReplyDiscarded, Retrying, TextDelta
from cumulus_jupyter.agent.messages import Reply, Status, StopReason, ToolCall, Usage
from cumulus_jupyter.agent.seam import Seam
from cumulus_jupyter.agent.session import Session

from .conftest import Scripted, make, run, say

Build = Callable[..., Session]
LENGTH = StopReason.LENGTH


def shown(events: list) -> str:
    """The text that stands on the screen: what was streamed less what was taken back."""
    text = ""
    for event in events:
        if isinstance(event, TextDelta):
            text += event.text
        elif isinstance(event, ReplyDiscarded):
            text = text[: len(text) - event.characters]
    return text


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses between attempts."""

    async def at_once(_seconds: float) -> None:
        pass

    monkeypatch.setattr(retrying, "sleep", at_once)


def test_a_cut_text_is_continued_into_one_answer(session: Build) -> None:
    provider = Scripted(say("The three causes are heat, ", stop=LENGTH, output=16_384), say("dust and age."))
    events, result = run(session(provider))
    assert result.text == "The three causes are heat, dust and age."
    assert shown(events) == result.text
    assert result.status is Status.DONE


def test_a_continuation_that_starts_over_is_joined_without_a_repeat(session: Build) -> None:
    whole = "The three causes are heat, dust and age."
    provider = Scripted(say("The three causes are heat, ", stop=LENGTH, output=16_384), say(whole))
    events, result = run(session(provider))
    assert shown(events) == result.text == whole


def test_a_whole_answer_under_length_is_shown_once_and_asked_on_once(session: Build) -> None:
    provider = Scripted(say("Saved to out/summary.md.", stop=LENGTH))
    events, result = run(session(provider))
    assert shown(events) == result.text == "Saved to out/summary.md."
    assert len(provider.requests) == 2
    assert result.status is Status.DONE


@pytest.mark.parametrize("hidden", [False, True])
def test_a_cut_call_is_never_run_and_asked_again_with_a_higher_rung(session: Build, hidden: bool) -> None:
    cut = Reply(
        "I'll write. ",
        [ToolCall("", "t", None, "c", '{"path": "a", "content": "')],
        StopReason.TOOL_CALLS if hidden else LENGTH,
        Usage(1, 0, 16_384),
        "scripted",
    )
    provider = Scripted(cut, say("I'll write. ", ("t", {"path": "a"})), say("done"))
    made = session(provider, [make("t")])
    events, result = run(made)
    assert [r.max_tokens for r in provider.requests[:2]] == [16_384, 32_768]
    assert [call[1] for call in result.tool_calls] == [{"path": "a"}]
    assert shown(events) == "I'll write. done"


def test_at_the_ceiling_the_model_is_told_to_send_smaller_parts(session: Build) -> None:
    cut = Reply("", [ToolCall("", "t", None, "c", '{"a": "')], LENGTH, Usage(1, 0, 4_000), "scripted")
    provider = Scripted(cut, say("", ("t", {})), say("done"), ceiling=4_000)
    run(session(provider, [make("t")]))
    assert "smaller parts" in provider.requests[1].messages[-1].text
    assert provider.requests[1].max_tokens == 4_000


def test_calls_that_are_always_cut_end_as_truncated(session: Build) -> None:
    cut = Reply("", [ToolCall("", "t", None, "c", '{"a": "')], LENGTH, Usage(1, 0, 5_000), "scripted")
    provider = Scripted(cut)
    _, result = run(session(provider, [make("t")]))
    assert result.status is Status.TRUNCATED
    assert result.tool_calls == []
    assert len(provider.requests) == 4


def test_thinking_alone_is_no_success(session: Build) -> None:
    provider = Scripted(Reply("", [], LENGTH, Usage(1, 0, 16_384), "scripted"))
    _, result = run(session(provider))
    assert result.status is Status.TRUNCATED
    assert "thinking" in (result.error or "")
    assert len(provider.requests) == 2


def fault(text: str, said: str = "", **options: object) -> ProviderError:
    error = ProviderError(text, **options)
    error.said = said
    return error


@pytest.mark.usefixtures("quick")
def test_a_passing_fault_is_tried_again_and_its_half_text_taken_back(session: Build) -> None:
    provider = Scripted(fault("overloaded", "half an", status=529, retryable=True), say("the answer"))
    events, result = run(session(provider))
    assert shown(events) == result.text == "the answer"
    assert [e.attempt for e in events if isinstance(e, Retrying)] == [2]


@pytest.mark.usefixtures("quick")
def test_a_fault_that_stays_ends_the_run_with_its_reason_and_no_half_text(session: Build) -> None:
    provider = Scripted(fault("the server is overloaded", "half", status=529, retryable=True))
    events, result = run(session(provider))
    assert (result.status, result.error) == (Status.FAILED, "the server is overloaded")
    assert len(provider.requests) == 5
    assert shown(events) == ""


def test_a_refused_request_is_not_sent_again(session: Build) -> None:
    provider = Scripted(fault("no such model", status=404))
    _, result = run(session(provider))
    assert result.status is Status.FAILED
    assert len(provider.requests) == 1


def test_a_refused_budget_is_lowered_to_what_the_server_allows(session: Build) -> None:
    provider = Scripted(fault("at most 8192", status=400, ceiling=8_192), say("fine"))
    _, result = run(session(provider))
    assert [r.max_tokens for r in provider.requests] == [16_384, 8_192]
    assert result.status is Status.DONE


def test_the_next_prompt_works_after_a_failure(session: Build) -> None:
    made = session(Scripted(fault("down", status=400), say("up")))
    assert run(made)[1].status is Status.FAILED
    assert run(made)[1].text == "up"


@pytest.mark.parametrize(
    ("before", "pieces", "joined"),
    [
        ("a long first part that ends here", [" and goes on"], " and goes on"),
        ("the end of the text is near", ["text is near", " and over"], " and over"),
        ("whole answer", ["whole", " answer"], ""),
        ("```python\nx = 1\n", ["y = 2\n```"], "y = 2\n```"),
        ("naïve café 日本", ["語です"], "語です"),
        ("aaaa", ["aa tail"], "aa tail"),
    ],
)
def test_seams_show_neither_gap_nor_repeat(before: str, pieces: list[str], joined: str) -> None:
    seam = Seam(before)
    out = "".join(seam.feed(piece) for piece in pieces) + seam.finish()
    assert out == joined
    assert seam.text == joined


def test_a_stopped_reply_keeps_what_was_said(session: Build) -> None:
    class Slow(Scripted):
        async def stream(self, request):  # type: ignore[no-untyped-def]
            yield TextDelta("half an answer")
            await asyncio.sleep(30)

    made = session(Slow(say("")))

    async def stopped() -> None:
        events = made.stream("go")
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()
        made.stopped()

    asyncio.run(stopped())
    assert made.transcript.run_result().text == "half an answer"
