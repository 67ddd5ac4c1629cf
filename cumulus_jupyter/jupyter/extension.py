"""``%load_ext cumulus_jupyter``: the magics, and what one kernel keeps for them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import no_var_expand

from ..agent.errors import CumulusError, SettingsError
from ..agent.events import Event, Notice
from ..agent.host import LiveNotebook, Place
from ..agent.messages import RunResult, Status
from ..agent.session import Session
from ..agent.transcript import Transcript
from ..app import Conversations
from ..settings import CumulusAgent
from ..undo import undo, undone_since
from . import comms
from .bridge import Bridge
from .commands import AWAITED, COMMANDS, command
from .context import ContextNotes, notebook_rules
from .expand import expand
from .host import CellContext, KernelHost, current_cell
from .interrupt import InterruptHandler
from .options import CellOptions, parse_cell
from .run import Run
from .terminal import TerminalHost, TerminalView
from .typed import TypedCalls, faces
from .view import CellView
from .widgets import KernelPublisher

__all__ = ["Extension", "load", "unload"]

_NAME = "_cumulus"
_CELL = re.compile(r"\s*%%agent(?:[ \t](?P<line>.*))?$")
_LINE = re.compile(r"%agent[ \t]+(?P<line>\S.*)$")
_TYPED = "%agent call"
_UNPRICED = "*--max-cost can't hold here: the price of {name} is not known. --max-tokens holds for every model.*"


class Extension:
    """What a kernel with the extension holds: settings, conversations, runs under way."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.settings = CumulusAgent(config=shell.config)
        self.kernel = getattr(shell, "kernel", None)
        self.bridge = Bridge(_version(), self.stop, self._moved)
        host: Any = KernelHost(shell, self.bridge) if self.kernel is not None else TerminalHost(shell)
        self.host = host
        self.conversations = Conversations(self.settings, host, Path.cwd())
        self.runs: dict[str, Run] = {}
        self.typed: TypedCalls | None = None
        self.notes = ContextNotes(shell)
        self.tasks: set[asyncio.Task[Any]] = set()

    # Running -----------------------------------------------------------------------------------------------------

    async def cell(self, line: str, body: str) -> None:
        """Run a ``%%agent`` cell."""
        try:
            options = parse_cell(line, body)
            options = replace(options, run=replace(options.run, system=self._text(options.run.system)))
        except SettingsError as error:
            raise UsageError(str(error)) from None
        await self._ready(options.session)
        prompt, shown = (options.prompt, []) if options.raw else expand(options.prompt, self.shell.user_ns)
        fresh = options.new or options.session not in self.conversations.sessions
        rules = await notebook_rules(self.bridge, self._place().path) if fresh else ""
        session = self.conversations.open(options.session, options.run, new=options.new, rules=rules)

        def events(view: Any) -> AsyncGenerator[Event, None]:
            for expression, value in shown:
                view.expanded(expression, value)
            if options.run.max_cost and session.provider.facts.price is None:
                view.handle(Notice(_UNPRICED.format(name=session.provider.name)))
            note = "" if options.no_context else self.notes.note(self.host.place())
            return session.stream(prompt, "\n".join(filter(None, (note, undone_since(session.transcript)))))

        await self._run(options, session, events)

    async def resume(self, name: str, *, fork: bool = False) -> None:
        """Go on with a stored conversation, or with a copy of it."""
        options = CellOptions("", session="main")
        await self._ready(options.session)
        await self._live()  # a kernel that was started before a rename knows the old name
        session = self.conversations.resume(options.session, name, self._place().path, fork=fork)
        if fork and session.transcript.status is Status.RUNNING:  # that run goes on where it was begun, if anywhere
            session.close_open_calls(
                "unknown: this conversation is a copy; the call was left to the one that it is of."
            )
            session.transcript.end(Status.STOPPED)
        if session.recover():
            await self._run(options, session, lambda view: session.resume())
            return
        self._remember(options.session, session.transcript)
        said = f"{session.transcript.session} ({len(session.transcript.messages)} messages)"
        taken = f"a copy of it is conversation {said}" if fork else f"conversation {said} is taken up"
        print(f"{taken}; the next %%agent cell goes on")

    async def undo(self, name: str) -> str:
        """Take back the last run's edits of a conversation; what came of it, in lines."""
        run, session = self.runs.get(name), self.conversations.sessions.get(name)
        if session is None:
            raise UsageError(f"session {name!r} has said nothing yet; `%agent resume` takes up a stored one")
        if run is not None and not run.task.done():
            raise UsageError(f"session {name!r} is not at its end: answer its question, or stop it with %agent stop")
        self.follow()
        return await undo(session, self._live)

    async def _live(self) -> LiveNotebook | None:
        return self.bridge if self.kernel is not None and self.host.person and await self.bridge.ready() else None

    async def call(self, name: str, text: str) -> str:
        """Run one tool as the loop runs it, with the arguments that a JSON text holds; both faces of what it gave."""
        await self._ready(_TYPED)
        self.typed = self.typed or TypedCalls(self.conversations)
        typed = self.typed
        await self._run(CellOptions("", session=_TYPED), typed, lambda view: typed.call(name, text))
        return "\n\n".join(map(faces, typed.results())) or "it waits for your answer"

    async def _ready(self, name: str) -> None:
        await self._previous(name)
        self.follow()
        if self.kernel is not None and self.host.person:
            self.bridge.start()

    def _place(self) -> Place:
        place: Place = self.host.locate() if self.kernel is not None else self.host.place()
        return place

    async def _run(
        self, options: CellOptions, session: Session, events: Callable[[Any], AsyncGenerator[Event, None]]
    ) -> None:
        """Start a run in this cell, and wait for it as the options say."""
        stop = asyncio.Event()
        handler = InterruptHandler(stop.set)
        view = self._view(options, session, handler)
        view.begin(session.provider, stoppable=options.background)
        run = self.runs[options.session] = Run(session, view, events(view), self._save)
        run.task.add_done_callback(lambda _: self._ended(options, run))
        self._remember(options.session, session.transcript, options.prompt)
        if options.background:
            view.detach(stoppable=True)
            return
        self._save()
        comms.waiting.append(self.shell.get_parent() if self.kernel is not None else {})
        try:
            ended = await run.wait(handler, stop, detach=options.no_wait or not self._clicks_arrive())
        finally:
            comms.waiting.pop()
        if ended:
            run.raise_for(strict=options.strict)

    def follow(self) -> None:
        """See who is there, and where: the root is the kernel's working directory, which a person's cell may change."""
        if self.kernel is not None:
            self.host.look()
        with contextlib.suppress(OSError):  # the folder is gone: the root says so when it is used
            self.conversations.root = Path.cwd()

    def _view(self, options: CellOptions, session: Session, handler: InterruptHandler) -> Any:
        if self.kernel is None:
            return TerminalView(quiet=options.quiet)
        redact = session.toolbox.redact
        view = CellView(
            KernelPublisher(self.shell),
            session.transcript.session,
            uuid.uuid4().hex[:8],
            watched=self.host.person,
            twins=lambda: not self.bridge.connected,
            quiet=options.quiet,
            redact=redact,
        )
        current_cell.set(CellContext(view, handler, redact, self.host.locate()))
        return view

    async def _previous(self, name: str) -> None:
        """One run a session: an open question is closed, a run in the background is waited for."""
        run = self.runs.get(name)
        if run is None or run.task.done():
            return
        if run.paused.is_set():
            await run.stop()
            return
        print(f"waiting for the run that session {name!r} has in the background; stop it with %agent stop")
        await asyncio.wait({run.task})

    def _ended(self, options: CellOptions, run: Run) -> None:
        if options.out and run.result is not None:
            self.shell.user_ns[options.out] = run.result
        self._save()

    def _save(self) -> None:
        """Have the front end save: what is shown and not saved is lost when the page is reloaded."""
        if self.kernel is not None and self.host.person:
            self._keep(asyncio.ensure_future(_quietly(self._saved())))

    async def _saved(self) -> None:
        if await self.bridge.ready():
            await self.bridge.save()

    def _keep(self, task: asyncio.Task[Any]) -> None:
        # The loop holds tasks weakly: one that nobody holds may vanish before its end.
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _moved(self) -> None:
        """The notebook was renamed: its conversations go with it, even if no cell comes before the kernel's end."""
        for name, session in self.conversations.sessions.items():
            self._remember(name, session.transcript)

    def _remember(self, name: str, transcript: Transcript, prompt: str = "") -> None:
        if self.conversations.store is not None and transcript.sink is not None:
            place = self._place().path
            self.conversations.store.note(transcript.session, notebook=place, name=name, prompt=prompt)

    def _clicks_arrive(self) -> bool:
        """Whether a widget's message is served while a cell awaits: from ipykernel 7.4 on, whatever the front end."""
        if self.kernel is None or not self.host.person:
            return True
        from ipykernel import version_info

        return tuple(version_info[:2]) >= (7, 4)

    def _text(self, value: str) -> str:
        if not value.startswith("@"):
            return value
        path = self.conversations.root / value[1:]
        try:
            return path.read_text(encoding="utf-8")
        except OSError as error:
            raise SettingsError(f"--system {value}: {error.strerror or error}") from None

    # Commands ----------------------------------------------------------------------------------------------------

    async def command(self, word: str, rest: str) -> None:
        """Run a command that waits for something, and print what it says."""
        if text := await AWAITED[word](self, rest):
            print(text)

    def stop(self, run: str = "") -> list[str]:
        """Stop the runs under way (all of them, or the one whose blocks carry this id); names of their sessions."""
        stopped = []
        for name, active in self.runs.items():
            if not active.task.done() and (not run or getattr(active.view, "run", "") == run):
                active.task.cancel()
                stopped.append(name)
        return stopped

    @property
    def notebook(self) -> str:
        """The notebook's path, as far as it is known."""
        return self._place().path

    @property
    def last_result(self) -> RunResult | None:
        """The result of the run that ended last."""
        results = [run.result for run in self.runs.values() if run.result is not None]
        return results[-1] if results else None


async def _quietly(work: Any) -> None:
    """Await what may fail without harm: a save that did not work shows in the front end itself."""
    try:
        await work
    except CumulusError:
        return


# The magics ------------------------------------------------------------------------------------------------------


def transform(lines: list[str]) -> list[str]:
    """Rewrite a ``%%agent`` cell, or a cell that is one ``%agent`` prompt, to an awaited call.

    IPython does not await a magic. Comments and blank lines above are passed over.
    """
    first = next((i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), None)
    if first is None or not _autoawait():
        return lines
    head = lines[first].rstrip("\r\n")
    if match := _CELL.match(head):
        return [_awaited(match["line"] or "", "".join(lines[first + 1 :]))]
    match = _LINE.match(head)
    if match and (word := match["line"].split()[0]) in AWAITED:
        rest = match["line"].strip()[len(word) :].strip()
        return [f"await get_ipython().{_NAME}.command({word!r}, {rest!r})\n", *lines[first + 1 :]]
    alone = not any(line.strip() for line in lines[first + 1 :])
    if match and alone and match["line"].split()[0] not in COMMANDS:
        return [_awaited(match["line"], "")]
    return lines


def _awaited(line: str, body: str) -> str:
    return f"await get_ipython().{_NAME}.cell({line!r}, {body!r})\n"


def _autoawait() -> bool:
    from IPython import get_ipython

    shell = get_ipython()
    return bool(shell is not None and shell.autoawait)


def _magics(extension: Extension) -> tuple[Callable[..., Any], Callable[..., Any]]:
    @no_var_expand
    def cell_magic(line: str, cell: str) -> Any:
        """Run an agent: ``%%agent [options] [first words of the prompt]``; ``%agent help`` lists the options."""
        return _scheduled(extension, extension.cell(line, cell))

    @no_var_expand
    def line_magic(line: str) -> Any:
        """``%agent help`` lists the commands; any other words are a one-line prompt."""
        word, _, rest = line.strip().partition(" ")
        if not word:
            word = "help"
        if word in AWAITED:
            return _scheduled(extension, extension.command(word, rest.strip()))
        if word in COMMANDS:
            return command(extension, word, rest.strip())
        return _scheduled(extension, extension.cell(line, ""))

    return cell_magic, line_magic


def _scheduled(extension: Extension, work: Coroutine[Any, Any, None]) -> Any:
    """Without ``await`` (``%autoawait off``, ``run_cell_magic``): as a task on the running loop, else to its end."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return None
    task = loop.create_task(work)
    extension._keep(task)
    return task


def load(shell: Any) -> None:
    """Register the magics; again is harmless."""
    if getattr(shell, _NAME, None) is not None:
        unload(shell)
    other = shell.magics_manager.magics["cell"].get("agent")
    if other is not None:
        print("cumulus_jupyter: %%agent was another extension's; it is ours now")
    extension = Extension(shell)
    setattr(shell, _NAME, extension)
    cell_magic, line_magic = _magics(extension)
    shell.register_magic_function(cell_magic, "cell", "agent")
    shell.register_magic_function(line_magic, "line", "agent")
    shell.configurables.append(extension.settings)
    shell.input_transformers_cleanup.append(transform)
    if extension.kernel is not None:
        comms.install(extension.kernel)


def unload(shell: Any) -> None:
    """Take the magics away; runs under way are stopped."""
    extension: Extension | None = getattr(shell, _NAME, None)
    if extension is None:
        return
    extension.stop()
    extension.notes.close()
    extension.bridge.close()
    extension.conversations.mcp.close()
    if extension.conversations.store is not None:
        extension.conversations.store.close()
    setattr(shell, _NAME, None)
    for kind in ("cell", "line"):
        shell.magics_manager.magics[kind].pop("agent", None)
    if extension.settings in shell.configurables:
        shell.configurables.remove(extension.settings)
    if transform in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(transform)
    if extension.kernel is not None:
        comms.uninstall(extension.kernel)


def _version() -> str:
    from .. import __version__

    return __version__
