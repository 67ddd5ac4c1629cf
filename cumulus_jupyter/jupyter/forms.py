"""Questions as ipywidgets: choices, other words, several questions one after another, one submit."""

from __future__ import annotations

import asyncio
import html
import time
from collections.abc import Callable
from typing import Any

import ipywidgets as w

from ..agent.messages import Answer, Ask, Option, Outcome, Question
from .direction import is_right_to_left
from .twins import visible

__all__ = ["QuestionForm"]

_OTHER = "Other"
_RECENT, _SETTLE = 1.0, 0.3
"""Seconds: a click so soon behind a change waits so long for values that it may have overtaken."""
_WIDE = {"width": "auto"}
_PLAIN = ".cu-form label{white-space:pre-line;height:auto}"
"""What front ends without our style sheet need: an option's description stands on a line of its own."""
_LATE = "The agent went on without an answer. What you keep here goes before your next prompt."


class QuestionForm:
    """The live form of an :class:`Ask`; calls ``submit`` once, with the first answer.

    A browser holds back a widget's second change until the kernel has answered the first, but not a click: "b, then c,
    then Answer" may arrive as b, Answer, c. So a click behind a recent change waits a moment for what it overtook.
    """

    def __init__(self, ask: Ask, submit: Callable[[Answer], None]) -> None:
        self._ask, self._submit, self._done = ask, submit, False
        self._loop = asyncio.get_running_loop()
        self._changed_at, self._entering, self._expired = 0.0, False, False
        self._pages = [_Page(question, ask, self._changed, self._enter) for question in ask.questions]
        self._at = 0
        self._notes = w.Text(placeholder=ask.notes_placeholder or "", layout=_WIDE, description_allow_html=False)
        self._notes.add_class("cu-notes")
        self._answer = _button("Answer", "cu-answer", "primary")
        self._decline = _button("Decline", "cu-decline")
        self._back = _button("Back", "cu-back")
        self._progress = w.HTML()
        self._answer.on_click(lambda _: self._enter())
        self._decline.on_click(lambda _: self._finish(Answer(Outcome.DECLINED, notes=self._notes.value.strip())))
        self._back.on_click(lambda _: self._turn(-1))
        self._hint = w.HTML()
        self._clock = w.HTML()
        self._tick: asyncio.TimerHandle | None = None
        buttons = [self._answer] if ask.approval else [self._answer, self._decline]
        clock = [self._clock] if ask.timeout_seconds else []
        row = w.HBox([*([self._back] if len(self._pages) > 1 else []), *buttons, self._progress, *clock, self._hint])
        row.add_class("cu-row")
        self._page = w.VBox([])
        notes = [self._notes] if ask.notes_placeholder else []
        self.widget = w.VBox([self._page, *notes, row])
        self.widget.add_class("cu-form")
        if is_right_to_left(" ".join(question.question for question in ask.questions)):
            self.widget.add_class("cu-rtl")
        self._turn(0)
        self._changed_at = 0.0
        if ask.timeout_seconds:
            self._count_down(time.monotonic() + ask.timeout_seconds)

    @property
    def bundle(self) -> dict[str, Any]:
        """The form as a widget view, to be shown beside a static twin."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return {"application/vnd.jupyter.widget-view+json": view}

    @property
    def draft(self) -> list[tuple[str, str]]:
        """What was chosen and typed so far, as headers with texts."""
        given = [(page.header, page.value) for page in self._pages if page.touched]
        notes = self._notes.value.strip()
        return [*given, *([("Notes", notes)] if notes else [])]

    def expire(self) -> None:
        """Say that the run went on, and that an answer goes before the next prompt."""
        if self._tick:
            self._tick.cancel()
        self._expired = True
        self._clock.value = ""
        self._decline.description = "Dismiss"
        self.widget.add_class("cu-expired")
        self._turn(0)

    def close(self) -> None:
        """Take the form and all its parts away."""
        if self._tick:
            self._tick.cancel()
        _close(self.widget)

    def _count_down(self, end: float) -> None:
        left = max(round(end - time.monotonic()), 0)
        shown = f"{left} s" if left < 120 else f"{-(-left // 60)} min"
        self._clock.value = f'<span class="cu-progress" role="timer">closes in {shown}</span>'
        if left and not self._done:
            pause = 1 if left <= 120 else min(60, left - 120)
            self._tick = self._loop.call_later(pause, self._count_down, end)

    # ------------------------------------------------------------------------------------------------------------

    def _turn(self, step: int) -> None:
        self._at += step
        self._page.children = [self._pages[self._at].widget]
        self._answer.description = ("Keep" if self._expired else "Answer") if self._is_last else "Next"
        self._back.disabled = self._at == 0
        if len(self._pages) > 1:
            self._progress.value = f'<span class="cu-progress">{self._at + 1} of {len(self._pages)}</span>'
        self._changed()

    def _changed(self) -> None:
        self._changed_at = time.monotonic()
        keys = "↑ ↓ choose · " if self._pages[self._at].is_radio else ""
        hint = f'<span class="cu-hint" dir="ltr">{keys}Enter {"answers" if self._is_last else "goes on"}</span>'
        if self._expired:
            hint = f'<span class="cu-hint" role="status">{_LATE}</span>'
        if self._hint.value != hint:
            self._hint.value = hint

    @property
    def _is_last(self) -> bool:
        return self._at == len(self._pages) - 1

    def _enter(self) -> None:
        """On whichever thread the front end's message is served."""
        if self._entering or self._done:
            return
        self._entering = True
        wait = _SETTLE if time.monotonic() - self._changed_at < _RECENT else 0.0
        self._loop.call_soon_threadsafe(self._loop.call_later, wait, self._entered)

    def _entered(self) -> None:
        self._entering = False
        if self._done:
            return
        if not self._pages[self._at].ready:
            # The button is never disabled for this: a key may be quicker than the change that would enable it.
            self._hint.value = '<span class="cu-hint" role="alert">choose or write an answer first</span>'
            return
        if not self._is_last:
            self._turn(1)
            return
        values = tuple(page.value for page in self._pages)
        self._finish(Answer(Outcome.ANSWERED, values, self._notes.value.strip()))

    def _finish(self, answer: Answer) -> None:
        if self._done:  # a second click on its way
            return
        self._done = True
        for widget in (self._answer, self._decline, self._back, self._notes):
            widget.disabled = True
        self._submit(answer)


class _Page:
    """One question: ``value`` is the answer as text, ``ready`` whether there is one."""

    def __init__(self, question: Question, ask: Ask, changed: Callable[[], None], enter: Callable[[], None]) -> None:
        self._question, self._approval = question, ask.approval
        self._changed = changed
        self._other = w.Text(placeholder="say it in your words", layout=_WIDE)
        self._other.observe(self._typed, "value")
        self._other.on_submit(lambda _: enter())
        self._boxes: list[w.Checkbox] = []
        self._radio: w.RadioButtons | None = None
        self._recommended: int | None = None
        header, asked = (html.escape(visible(text)) for text in (question.header, question.question))
        head = w.HTML(
            f'<style>{_PLAIN}</style><span class="cu-chip" dir="auto">{header}</span>'
            f'<div class="cu-question" dir="auto" style="font-weight:600">{asked}</div>'
        )
        detail = [w.HTML(f'<pre class="cu-detail">{html.escape(visible(ask.detail))}</pre>')] if ask.detail else []
        self.widget = w.VBox([head, *detail, *self._choices(), *self._previews()])
        self.widget.add_class("cu-page")

    def _choices(self) -> list[w.Widget]:
        options = self._question.options
        if not options:
            return [self._other]
        if self._question.multi:
            self._boxes = [w.Checkbox(False, description=_text(o), indent=False, layout=_WIDE) for o in options]
            for box in self._boxes:
                box.observe(lambda _: self._changed(), "value")
            return [*self._boxes, self._other]
        labels = [_text(option) for option in options]
        if not self._approval:
            labels.append(_OTHER)
        self._recommended = next((i for i, o in enumerate(options) if "recommended" in o.label.lower()), None)
        self._radio = w.RadioButtons(options=list(zip(labels, range(len(labels)), strict=True)), layout=_WIDE)
        self._radio.index = self._recommended
        self._radio.observe(lambda _: self._changed(), "index")
        if self._approval:
            return [self._radio]
        self._radio.add_class("cu-with-other")
        self._other.add_class("cu-other")
        return [self._radio, self._other]

    def _previews(self) -> list[w.Widget]:
        return [
            w.HTML(
                f'<div class="cu-preview-of" dir="auto">{html.escape(visible(o.label))}</div>'
                f'<pre class="cu-preview">{html.escape(visible(o.preview))}</pre>'
            )
            for o in self._question.options
            if o.preview
        ]

    @property
    def header(self) -> str:
        return self._question.header

    @property
    def is_radio(self) -> bool:
        return self._radio is not None

    @property
    def touched(self) -> bool:
        """Whether the person has chosen or typed something: an option that was marked beforehand is no choice."""
        return self.ready and (self._radio is None or self._radio.index != self._recommended)

    def _typed(self, _change: Any) -> None:
        if self._radio is not None and self._other.value:
            self._radio.index = len(self._question.options)
        self._changed()

    @property
    def ready(self) -> bool:
        if self._radio is not None and self._radio.index is not None:
            return self._radio.index < len(self._question.options) or bool(self._other.value.strip())
        return bool(self._other.value.strip()) or any(box.value for box in self._boxes)

    @property
    def value(self) -> str:
        labels = [option.label for option in self._question.options]
        if self._radio is not None and self._radio.index is not None and self._radio.index < len(labels):
            return str(labels[self._radio.index])
        chosen = [label for label, box in zip(labels, self._boxes, strict=False) if box.value]
        return ", ".join([*chosen, *([self._other.value.strip()] if self._other.value.strip() else [])])


def _text(option: Option) -> str:
    # The stylesheet sets what follows the first line as the description.
    lines = [" ".join(visible(part).split()) for part in (option.label, option.description) if part]
    return "\n".join(lines)


def _button(text: str, name: str, style: str = "") -> w.Button:
    button = w.Button(description=text, button_style=style)
    button.add_class(name)
    return button


def _close(widget: w.Widget) -> None:
    for child in getattr(widget, "children", ()):
        _close(child)
    widget.close()
