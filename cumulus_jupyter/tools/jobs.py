"""Shell commands as processes: started without a terminal, ended as a whole, their output in a file."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..agent.errors import ToolError
from ..agent.tool import ToolContext
from .sandbox import Confinement, confine
from .terminal import plain

if TYPE_CHECKING:
    import psutil

__all__ = ["JOBS", "LARGEST_OUTPUT", "Job", "environment", "start"]

LARGEST_OUTPUT = 50 * 1024 * 1024
"""Bytes of output after which a command is ended."""
_GRACE = 1.0
_MARK = "CUMULUS_JOB"
_LONGEST_ARGUMENT = 100_000
_SERVERS = "CUMULUS_MCP"
"""Entries of MCP servers, which hold tokens."""
_KEYS = re.compile(
    r"(?:CUMULUS|ANTHROPIC|CLAUDE|OPENAI|AZURE_OPENAI|HF|HUGGING_?FACE(?:HUB)?|GEMINI|GOOGLE|MISTRAL|COHERE|GROQ|TOGETHER"
    r"|FIREWORKS|DEEPSEEK|MOONSHOT|KIMI|ZAI|ZHIPU(?:AI)?|DASHSCOPE|QWEN|OPENROUTER|XAI|PERPLEXITY|REPLICATE|CEREBRAS"
    r"|NEBIUS|VOYAGE|JINA|BEDROCK)(?:_[A-Z0-9]+)*_(?:API_KEY|KEY|TOKEN|SECRET|SECRET_KEY)"
)
_QUIET = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "GH_PAGER": "cat",
    "AWS_PAGER": "",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PYTHONUNBUFFERED": "1",
}

JOBS: dict[str, Job] = {}
"""Commands that may still run, by handle."""


@dataclass(slots=True)
class Job:
    """A started command. Times are of the monotonic clock, in seconds."""

    handle: str
    command: str
    process: subprocess.Popen[bytes]
    output: Path
    confinement: Confinement
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    too_long: bool = False
    seen: tuple[int, bool] = (-1, True)
    polls: int = 0

    @property
    def running(self) -> bool:
        """Whether the command itself, not what it left behind, still runs."""
        if self.process.poll() is None:
            return True
        if self.ended is None:
            self.ended = time.monotonic()
        return False

    @property
    def seconds(self) -> float:
        """Its age, or how long it ran."""
        return (self.ended or time.monotonic()) - self.started

    @property
    def size(self) -> int:
        """Bytes of output so far."""
        return self.output.stat().st_size if self.output.exists() else 0

    def text(self, last: int | None = None) -> str:
        """The output as plain text, or what the last so many bytes of it say."""
        with contextlib.suppress(FileNotFoundError), open(self.output, "rb") as file:
            if last is not None:
                file.seek(max(self.size - last, 0))
            return plain(file.read(LARGEST_OUTPUT + 1))
        return ""

    @property
    def verdict(self) -> str:
        """How it ended, in words."""
        code = self.process.returncode
        if self.too_long:
            return f"ended here: it wrote over {LARGEST_OUTPUT:,} bytes; send the output to a file instead"
        if code is not None and code < 0:
            return f"ended by signal {_signal_name(-code)}"
        return f"exit code {code}"

    def check_output(self) -> None:
        """End it where it writes without bounds."""
        if self.size > LARGEST_OUTPUT and not self.too_long:
            self.too_long = True
            self.end()

    def end(self, grace: float = _GRACE) -> None:
        """End the command and all that it started: asked first, then forced."""
        import psutil

        tree = self._tree()
        for process in tree:
            with contextlib.suppress(psutil.Error):
                process.terminate()
        self._wait_gone(tree, grace)
        tree = list({*tree, *self._tree()})
        for process in tree:
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._wait_gone(tree, _GRACE)

    def _wait_gone(self, tree: list[psutil.Process], seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and (self.running or any(map(_lives, tree))):
            time.sleep(0.02)

    def _tree(self) -> list[psutil.Process]:
        """The command, its descendants, and whoever else is in its session."""
        import psutil

        found: dict[int, psutil.Process] = {}
        with contextlib.suppress(psutil.Error):
            own = psutil.Process(self.process.pid)
            found = {process.pid: process for process in [own, *own.children(recursive=True)]}
        for pid in self.left():
            with contextlib.suppress(psutil.Error):
                found.setdefault(pid, psutil.Process(pid))
        return list(found.values())

    def left(self) -> list[int]:
        """What it started and still runs beside it: its session, and what left that (``setsid``, daemons)."""
        import psutil

        if not hasattr(os, "getsid"):
            return []
        own = self.process.pid
        found = [pid for pid in psutil.pids() if pid != own and (_session(pid) == own or _bears(pid, self.mark))]
        return [pid for pid in found if psutil.pid_exists(pid) and _lives(psutil.Process(pid))]

    def apart(self) -> list[int]:
        """Those of :meth:`left` that are not in its session."""
        return [pid for pid in self.left() if _session(pid) != self.process.pid]

    @property
    def mark(self) -> str:
        """What its processes bear in their environment."""
        return f"{os.getpid()}.{self.handle}"


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _bears(pid: int, mark: str) -> bool:
    import psutil

    try:
        return bool(psutil.Process(pid).environ().get(_MARK) == mark)
    except (psutil.Error, OSError):  # another user's, or gone
        return False


def _lives(process: psutil.Process) -> bool:
    import psutil

    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def environment(temporary: Path) -> dict[str, str]:
    """The kernel's variables without keys of models, with nothing that waits for a person."""
    kept = {name: value for name, value in os.environ.items() if not (_KEYS.fullmatch(name) or name == _SERVERS)}
    return {**kept, **_QUIET, "TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary)}


def start(ctx: ToolContext, command: str) -> Job:
    """Start a command in the root.

    Raises
    ------
    ToolError
        It can't be started, or not as confined as is required.
    """
    if not ctx.root.is_dir():
        raise ToolError(f"the root {ctx.root} is gone; nothing can be run in it")
    temporary = _temporary()
    number = _number()
    if "\0" in command:
        raise ToolError("the command holds a NUL character, which no command can; nothing was run")
    arguments = _shell(command, temporary / f"command{number}.sh")
    confinement = confine(arguments, ctx.toolbox.sandbox, ctx.root, temporary, ctx.toolbox.private)
    output = temporary / f"output{number}.txt"
    handle = f"job{number}"
    try:
        with open(output, "ab") as file:  # appending: both streams keep their order
            process = subprocess.Popen(
                confinement.command,
                cwd=ctx.root,
                env={**environment(temporary), _MARK: f"{os.getpid()}.{handle}"},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # without a controlling terminal there is nobody to ask
            )
    except (OSError, ValueError) as error:
        raise ToolError(f"the command could not be started: {error}") from None
    job = Job(handle, command, process, output, confinement)
    JOBS[job.handle] = job
    threading.Thread(target=_watch, args=(job,), name=f"cumulus-{job.handle}", daemon=True).start()
    return job


def _watch(job: Job) -> None:
    while job.running:
        job.check_output()
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.process.wait(0.1)
    while job.handle in JOBS and job.left():  # what it left behind writes into the same file
        job.check_output()
        time.sleep(1)


def _shell(command: str, script: Path) -> list[str]:
    if os.name == "nt":
        return [os.environ.get("COMSPEC", "cmd.exe"), "/d", "/c", command]
    shell = shutil.which("bash") or "/bin/sh"
    if len(command.encode("utf-8", "surrogateescape")) <= _LONGEST_ARGUMENT:
        return [shell, "-c", command]
    script.write_text(command, encoding="utf-8")
    return [shell, str(script)]


_numbers = iter(range(1, 1_000_000))
_lock = threading.Lock()


def _number() -> int:
    with _lock:
        return next(_numbers)


@functools.cache
def _temporary() -> Path:
    """The private temporary folder, removed, with what still runs ended, when the process ends."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="cumulus-")))
    atexit.register(_end_all, folder)
    return folder


def _end_all(folder: Path) -> None:
    for job in JOBS.values():
        if job.running or job.left():
            job.end(0.2)
    shutil.rmtree(folder, ignore_errors=True)
