"""run_shell: nobody waits, nothing stays, nothing leaks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from cumulus_jupyter.agent.events import ToolProgress
from cumulus_jupyter.tools import jobs
from cumulus_jupyter.tools.terminal import plain

from .conftest import Bench

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the commands are for a POSIX shell")


def body(text: str) -> str:
    return text.partition("\n")[2]


def sleepers(seconds: str) -> list[int]:
    """Processes that sleep for exactly this long."""
    found = psutil.process_iter(["cmdline", "status"])
    return [
        process.pid
        for process in found
        if process.info["cmdline"] == ["sleep", seconds] and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def gone(seconds: str) -> bool:
    """Whether no sleeper of this length is left; waits a while for the last one."""
    until = time.monotonic() + 10
    while sleepers(seconds) and time.monotonic() < until:
        time.sleep(0.02)
    return not sleepers(seconds)


def test_both_streams_in_order_and_the_exit_code(bench: Bench) -> None:
    result = bench.call("run_shell", command="echo one; echo two >&2; echo three; exit 3")
    assert not result.ok
    assert result.text.startswith("exit code 3, after ")
    assert body(result.text) == "one\ntwo\nthree"
    assert result.details["exit_code"] == 3
    assert body(bench.text("run_shell", command="true")) == "(no output)"


def test_it_starts_in_the_root_without_a_terminal(bench: Bench) -> None:
    assert body(bench.text("run_shell", command="pwd; tty; cat; test -t 1 || echo no tty")) == (
        f"{bench.root}\nnot a tty\nno tty"
    )
    assert not bench.call("run_shell", command="read x </dev/tty").ok


@pytest.mark.parametrize(
    "command",
    [
        "git commit --amend",
        "git rebase -i HEAD~2",
        "git -c credential.helper= ls-remote http://user@127.0.0.1:9/x",
        "python -c 'import getpass; getpass.getpass()'",
        "passwd",
        "vim",
        "less /etc/passwd",
        "sudo -k true",
        "ssh-keygen -f key",
        "cat | cat",
    ],
)
def test_what_waits_for_a_person_elsewhere_ends_here(bench: Bench, command: str) -> None:
    subprocess.run(
        "git init -q . && git -c user.name=t -c user.email=t@e.org commit -q --allow-empty -m one",
        shell=True,
        cwd=bench.root,
    )
    assert "ended here" not in bench.call("run_shell", command=command, timeout=30).text


def test_a_background_process_that_keeps_the_output_open_does_not_hang_the_call(bench: Bench) -> None:
    text = bench.text("run_shell", command="sleep 411 & echo started", timeout=30)
    assert "started" in text
    assert "still running in the background" in text
    handle = text.partition('handle="')[2].partition('"')[0]
    assert "still running" in bench.text("read_result", handle=handle)
    jobs.JOBS[handle].end()
    assert gone("411")


@pytest.mark.parametrize(
    "command",
    [
        "sleep 412",
        "bash -c 'sleep 412; true'",
        "sleep 412 & sleep 412",
        "(trap '' TERM; sleep 412)",
        "setsid sleep 412 & sleep 412",
    ],
)
def test_at_its_limit_a_command_ends_with_all_it_started(bench: Bench, command: str) -> None:
    text = bench.refusal("run_shell", command=f"echo before; {command}", timeout=0.5)
    assert "ran longer than 0.5 s" in text
    assert "before" in text
    assert "still running" not in text
    assert not sleepers("412")


def test_what_leaves_its_session_is_told_and_can_be_ended(bench: Bench) -> None:
    text = bench.text("run_shell", command="setsid sleep 416 & sleep 0.2; echo started")
    assert "still running in the background" in text
    assert len(sleepers("416")) == 1
    bench.call("run_shell", command=text.partition('to stop: run_shell(command="')[2].partition('"')[0])
    assert gone("416")


def test_a_stopped_call_ends_its_command(bench: Bench) -> None:
    async def main() -> None:
        task = asyncio.create_task(bench.run(("run_shell", {"command": "sleep 413 & sleep 413"})))
        while len(sleepers("413")) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert gone("413")


def test_jobs_end_with_the_process(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.tools.conftest import Bench\n"
        "bench = Bench(Path(sys.argv[1]))\n"
        "print(bench.text('run_shell', command='sleep 414', background=True))\n"
        "print(bench.text('run_shell', command='sleep 414 & echo x; echo $TMPDIR'))\n"
    )
    source = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, cwd=source, check=True, timeout=60
    )
    folder = done.stdout.strip().splitlines()[-1]
    assert folder.startswith("/")
    assert not Path(folder).exists()
    assert gone("414")


def test_a_background_job_is_read_polled_and_stopped(bench: Bench) -> None:
    text = bench.text("run_shell", command="echo one; sleep 415", background=True)
    handle = text.partition("background as ")[2].partition(" ")[0]
    polls = [bench.text("read_result", handle=handle) for _ in range(3)]
    assert all("running for" in poll and body(poll) == "one\n" for poll in polls)
    assert "Nothing new" not in polls[1]
    assert "Nothing new since 3 reads. To stop it: run_shell" in polls[2]
    stop = polls[2].partition('command="')[2].partition('"')[0]
    bench.text("run_shell", command=stop)
    assert gone("415")
    assert "ended by signal SIGTERM" in bench.text("read_result", handle=handle)


def test_a_background_job_that_fails_at_once_says_so(bench: Bench) -> None:
    assert "exit code 4" in bench.refusal("run_shell", command="exit 4", background=True)


def test_output_without_bounds_is_stopped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LARGEST_OUTPUT", 1_000_000)
    text = bench.refusal("run_shell", command="yes", timeout=60)
    assert "it wrote over 1,000,000 bytes" in text
    assert len(text) <= 30_000


def test_the_output_is_shown_while_it_runs(bench: Bench) -> None:
    bench.text("run_shell", command="for i in 1 2 3; do echo step $i; sleep 0.25; done")
    shown = [event.text for event in bench.events if isinstance(event, ToolProgress)]
    assert shown[0] == "step 1"
    assert shown[-1] == "step 1\nstep 2\nstep 3"
    assert len(shown) <= 10


def test_keys_of_models_do_not_reach_a_command(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "HF_TOKEN",
        "CUMULUS_API_KEY",
        "AZURE_OPENAI_API_KEY",
        "HUGGINGFACE_TOKEN",
    )
    for name in names:
        monkeypatch.setenv(name, "hidden-value-1")
    monkeypatch.setenv("DATABASE_URL", "kept-value-1")
    text = bench.text("run_shell", command="env")
    assert "hidden-value-1" not in text
    assert "kept-value-1" in text


@pytest.mark.parametrize(
    ("command", "said"),
    [(" ", "empty"), ("echo a\0b", "NUL"), ("true", "timeout must be")],
)
def test_what_can_not_run_is_refused(bench: Bench, command: str, said: str) -> None:
    timeout = -1 if said.startswith("timeout") else 5
    assert said in bench.refusal("run_shell", command=command, timeout=timeout)


def test_a_very_long_command_runs(bench: Bench) -> None:
    command = f"cat <<'END' | wc -c\n{'x' * 300_000}\nEND\n"
    assert body(bench.text("run_shell", command=command)).strip() == "300001"


def test_approval_is_needed_below_all(tmp_path: Path) -> None:
    for approve in ("none", "ask", "edits"):
        assert "denied" in Bench(tmp_path, approve=approve).refusal("run_shell", command="touch made")
    bench = Bench(tmp_path, approve="edits", person=True)
    assert bench.calls(("run_shell", {"command": "touch made"})) == [None]
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_is_gone_is_told(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    bench = Bench(root)
    root.rmdir()
    assert "is gone" in bench.refusal("run_shell", command="true")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "red link"),
        (b"  1%\r 50%\r100%\ndone\r\n", "100%\ndone\n"),
        (b"b\x08bo\x08o", "bo"),
        (b"a\x00b\x07c\td", "abc\td"),
        ("日本 é 😀".encode(), "日本 é 😀"),
        (b"caf\xe9", "caf�"),
    ],
)
def test_terminal_output_as_plain_text(data: bytes, text: str) -> None:
    assert plain(data) == text
