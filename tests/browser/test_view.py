"""What a person sees: every state of a cell, hostile text in every place, questions that run out of time."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from .conftest import cell_shot
from .lab import NotebookPage

Open = Callable[..., NotebookPage]

PATH = "<img src=x onerror=window.ran=1>\u202e'\"&\u2066.ipynb"
HOSTILE = """
import base64, pathlib
from cumulus_jupyter.providers import demo
from cumulus_jupyter.agent.errors import ProviderError
evil = ('<script>window.ran=1</script><img src="https://evil.example/i.png" onerror="window.ran=1">'
        '<svg onload="window.ran=1"></svg><iframe src="https://evil.example/f"></iframe>'
        '<style>*{position:fixed!important;background:url(https://evil.example/c)}</style>'
        '<div style="position:fixed;inset:0;z-index:9999;background:url(https://evil.example/s)">over</div>'
        '<a href="javascript:window.ran=1">a</a> [b](javascript:window.ran=1) [c](data:text/html,<script>1</script>)'
        ' ![d](https://evil.example/m.png) \\x1b[2J\\x1b]0;t\\x07 \\u202egnirts\\u2066 ')
long_line = 'x' * 1_000_000
pathlib.Path('evil.txt').write_text(evil + long_line)
ask = {'notes_placeholder': evil[:120], 'questions': [{'question': evil, 'header': evil[:40], 'options': [
    {'label': evil[:180] + '1', 'description': evil, 'preview': evil}, {'label': evil[:180] + '2'}]}]}
calls = [('update_todos', {'todos': [{'label': evil + long_line[:300], 'status': 'in_progress'}]}),
         (evil[:60], {evil: evil}), ('read_file', {'path': 'evil.txt'}), ('read_file', {'path': evil}),
         ('run_python', {'code': f'print({evil!r})'}), ('notebook_read', {}),
         ('notebook_edit', {'operation': 'insert', 'source': evil}), ('AskUserQuestion', ask)]
def script(seen, match):
    if not seen.result('tool_search'):
        return demo.Turn('', [('tool_search', {'query': 'select:notebook_read,notebook_edit'})])
    if seen.result('AskUserQuestion'):
        raise ProviderError(evil + long_line[:5000], status=400, retryable=False)
    return demo.Turn(evil + '\\n\\n' + evil.replace(' ', '\\n\\n') + '\\n\\n' + long_line[:20_000], calls)
demo._INTENTS.insert(0, ('hostile', script))
"""

LEAVING = """
() => [...document.querySelectorAll('.cu-block, .cu-block *, .cu-form, .cu-form *')].filter(node => {
    const area = node.closest('.jp-OutputArea').getBoundingClientRect(), box = node.getBoundingClientRect();
    if (!box.width || ['fixed'].includes(getComputedStyle(node).position)) return box.width > 0;
    for (let up = node.parentElement; up && !up.matches('.jp-OutputArea'); up = up.parentElement)
        if (getComputedStyle(up).overflowX !== 'visible') return false;
    return box.left < area.left - 2 || box.right > area.right + 2;
}).map(node => node.outerHTML.slice(0, 200))
"""


@pytest.mark.long
def test_hostile_text_stays_in_its_box(notebook: Open) -> None:
    """In texts, calls, results, todos, questions, errors, the notebook's path: nothing runs, loads, covers the page."""
    book = notebook("%load_ext cumulus_jupyter", HOSTILE, "%%agent -m demo --approve all\nhostile", name=PATH)
    asked: list[str] = []
    book.page.on("request", lambda request: asked.append(request.url))
    book.run_all()
    form = book.page.locator(".cu-form")
    form.locator(".cu-answer").wait_for(timeout=60_000)
    expect(form.get_by_role("radio").first).to_be_focused()  # not the notes, which may be drawn before it
    for fold in book.page.locator(".cu-block details summary").all():
        fold.click()
    assert book.page.evaluate(LEAVING) == []
    form.get_by_role("radio").first.check()
    form.locator(".cu-answer").click()
    cell = book.wait_done(2)
    assert "failed" in cell["text"]
    assert book.page.evaluate(LEAVING) == []
    assert book.page.evaluate("() => window.ran") is None
    assert [url for url in asked if "evil.example" in url] == []
    assert (
        book.page.locator(".cu-block :is(script, iframe, style, [onerror], [onload], [href^=javascript])").count() == 0
    )
    assert "read notebook" in cell["text"]
    assert "inserted cell" in cell["text"]
    assert not set(cell["text"]) & set("\u202e\u2066\x1b\x07")


LATE = """
from cumulus_jupyter.providers import demo
def script(seen, match):
    if (answer := seen.result('AskUserQuestion')) is not None:
        return demo.Turn('The tool said: ' + answer.text, [])
    return demo.Turn('I ask.', [('AskUserQuestion', {'timeout_seconds': 4, 'questions': [
        {'question': 'Which title?', 'header': 'Title'}]})])
demo._INTENTS.insert(0, ('limited', script))
"""


def test_an_answer_after_the_time_is_kept_for_the_next_prompt(notebook: Open) -> None:
    """The run goes on; the form stays, says where a late answer goes, keeps it, and the next cell says that it went."""
    book = notebook("%load_ext cumulus_jupyter", LATE, "%%agent -m demo\nlimited", "%%agent -m demo\nhello")
    for index in range(3):
        book.run(index)
    form = book.page.locator(".cu-form")
    expect(form.get_by_role("timer")).to_contain_text("closes in", timeout=60_000)
    field = form.get_by_role("textbox", name="Which title?")
    field.fill("Churn by con")
    cell = book.wait_done(2)
    assert "no answer within 4 s" in cell["text"]
    stored = json.dumps(book.save()["cells"][2]["outputs"])
    assert "Churn by con" in stored
    assert "not sent" in stored
    expect(form.get_by_role("status")).to_contain_text("goes before your next prompt")
    cell_shot(book.page, 2, "view-timed-out")
    expect(field).to_have_value("Churn by con")
    field.press_sequentially("tract")
    form.get_by_role("button", name="Keep").click()
    expect(book.output(2)).to_contain_text("Title (kept for your next prompt): Churn by contract")
    expect(form).to_have_count(0)
    book.run(3)
    assert "with this prompt goes what you answered late: Title: Churn by contract" in book.wait_done(3)["text"]
