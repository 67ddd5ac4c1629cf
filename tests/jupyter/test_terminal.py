"""A terminal IPython, in a real pseudo-terminal: colours where they are wanted, never a model's own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pexpect
import pytest

EVIL = "\x1b[2J\x1b]0;owned\x07\x1b[35mred\u202e"
STARTUP = f"""
from cumulus_jupyter.providers import demo
evil = {EVIL!r}
ask = {{'question': 'Which?' + evil, 'header': 'Pick', 'multiSelect': True, 'options': ['one' + evil, 'two', 'three']}}
def script(seen, match):
    if answer := seen.result('AskUserQuestion'):
        return demo.Turn('You chose ' + answer.text, [])
    return demo.Turn('I look. ' + evil, [('read_file', {{'path': evil}}), ('list_files', {{}}),
                                         ('AskUserQuestion', {{'questions': [ask]}})])
demo._INTENTS.insert(0, ('look', script))
"""


def transcript(folder: Path, colours: str, **variables: str) -> str:
    """What a terminal shows of a run in which the person takes the first and the last option."""
    startup = folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "script.py").write_text(STARTUP)
    environ = {k: v for k, v in os.environ.items() if k != "NO_COLOR" and not k.startswith("CUMULUS_")}
    environ |= {"TERM": "xterm-256color", "IPYTHONDIR": str(folder / "ipython"), "CUMULUS_DATA_DIR": str(folder / "d")}
    command = ["-m", "IPython", "--no-banner", f"--colors={colours}", "--ext=cumulus_jupyter", "-c"]
    terminal = pexpect.spawn(
        sys.executable,
        [*command, "%%agent -m demo\nlook"],
        env=environ | variables,
        cwd=str(folder),
        timeout=60,
        encoding="utf-8",
        dimensions=(50, 120),
    )
    terminal.expect("\n> ")
    shown = terminal.before
    terminal.sendline("1, 3")
    terminal.expect(pexpect.EOF)
    return str(shown + terminal.before)


@pytest.mark.parametrize(("colours", "variables"), [("linux", {}), ("nocolor", {}), ("linux", {"NO_COLOR": "1"})])
def test_colours_are_ours_and_can_be_switched_off(tmp_path: Path, colours: str, variables: dict[str, str]) -> None:
    """Marks, questions and the end are coloured unless IPython or NO_COLOR says no; no escape comes from a text."""
    shown = transcript(tmp_path, colours, **variables)
    wanted = colours == "linux" and not variables
    for code in ("\x1b[32m✓", "\x1b[31m✗", "\x1b[34m?", "\x1b[32mdone"):
        assert (code in shown) == wanted
    assert "You chose" in shown
    assert "one" in shown.partition("You chose")[2]
    assert "three" in shown.partition("You chose")[2]
    for code in ("\x1b[2J", "owned\x07", "\x1b[35m", "\u202e"):
        assert code not in shown
