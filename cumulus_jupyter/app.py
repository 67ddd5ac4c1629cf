"""Where everything is put together: settings become a provider, a toolbox and a transcript, and these a session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .agent.errors import AgentError, CumulusError, SettingsError, TranscriptError
from .agent.events import Event, Finished
from .agent.host import Host
from .agent.loop import Limits
from .agent.messages import RunResult, Status
from .agent.policy import APPROVE_MODES, Policy
from .agent.provider import Provider
from .agent.redact import Redactor
from .agent.session import Session
from .agent.tool import Tool
from .agent.toolbox import Toolbox
from .agent.transcript import Transcript
from .prompts import system_prompt
from .script import ScriptHost, user_variables
from .settings import CumulusAgent
from .store import Store, data_folder
from .usertools import given_tools, registered

if TYPE_CHECKING:
    from .tools.listing import Told
    from .tools.mcp import Mcp

__all__ = ["Agent", "Conversations", "RunOptions", "compose"]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What one run asks for; None or empty takes the setting."""

    model: str | None = None
    approve: str | None = None
    answers: str | None = None
    cwd: str | None = None
    tools: tuple[str, ...] | None = None
    system: str = ""
    effort: str | None = None
    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    record: str | None = None
    replay: str | None = None


@dataclass(slots=True)
class Conversations:
    """The named conversations of one kernel, and what they are made of."""

    settings: CumulusAgent
    host: Host
    root: Path
    tools: Mapping[str, Tool] = field(default_factory=lambda: registered)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    sessions: dict[str, Session] = field(default_factory=dict)
    store: Store | None = None
    _mcp: Mcp | None = None
    _told: dict[str, Told] = field(default_factory=dict)
    _providers: dict[tuple[Any, ...], Provider] = field(default_factory=dict)

    def open(self, name: str, options: RunOptions, *, new: bool = False, rules: str = "") -> Session:
        """The named conversation, made ready for a run with these options; ``rules`` are those of a new one."""
        old = None if new else self.sessions.get(name)
        transcript = old.transcript if old else self.stored().create()
        session = compose(
            self.settings,
            self.host,
            self.root,
            options,
            transcript=transcript,
            added=self.tools.values(),
            environ=self.environ,
            provider=self._provider(options),
            others=lambda model: self._provider(replace(options, model=model)),
            system=old.system if old else None,
            rules=rules,
            mcp=self.mcp,
            told=self._told_of(transcript.session),
        )
        self.sessions[name] = session
        session.news = self._news(transcript.session, session.toolbox, first=old is None)
        return session

    def resume(self, name: str, wanted: str, notebook: str, *, fork: bool = False) -> Session:
        """Take up a stored conversation, or a copy of it: by uuid or its beginning, by name, or the notebook's newest.

        Raises
        ------
        TranscriptError
            There is none, or it is in use: by another kernel, or by this one.
        """
        store = self.stored()
        here = {session.transcript.session: known for known, session in self.sessions.items()}
        fitting = store.find(wanted, notebook)
        free = [info for info in fitting if fork or info.uuid not in here]
        if not free:
            raise TranscriptError(
                f"that conversation is session {here[fitting[0].uuid]!r} of this kernel: %%agent goes on with it"
                if fitting
                else "no stored conversation fits; `%agent sessions` lists them, `%agent resume UUID` takes one"
            )
        transcript = store.fork(free[0].uuid) if fork else store.load(free[0].uuid)
        self.sessions[name] = compose(
            self.settings,
            self.host,
            self.root,
            RunOptions(),
            transcript=transcript,
            added=self.tools.values(),
            environ=self.environ,
            provider=self._provider(RunOptions()),
            others=lambda model: self._provider(RunOptions(model=model)),
            mcp=self.mcp,
            told=self._told_of(transcript.session),
        )
        session = self.sessions[name]
        self._told_of(transcript.session).take_up(session.toolbox, session.system)
        return session

    def _provider(self, options: RunOptions) -> Provider | None:
        """A model's provider is kept, with its connections and the limits that it learned."""
        from .providers.catalog import full_name, resolve

        if options.record or options.replay:
            return None
        name = full_name(options.model or self.settings.model or None, self.environ)
        urls = tuple(value for key, value in self.environ.items() if key.endswith("_BASE_URL"))
        # Connections belong to the loop that made them.
        key = (name, urls, *_secrets(self.environ), id(asyncio.get_running_loop()))
        if key not in self._providers:
            self._providers[key] = resolve(name, env=self.environ, overrides=self._overrides())
        return self._providers[key]

    def _overrides(self) -> Path | None:
        """The person's own facts of models: ``models.toml`` in the data folder."""
        path = data_folder(self.settings.data_dir) / "models.toml"
        return path if path.is_file() else None

    def _news(self, uuid: str, toolbox: Toolbox, *, first: bool) -> str:
        """Tools and skills that came or changed since the system prompt listed them."""
        news = self._told_of(uuid).news(toolbox)
        return "" if first else news

    def _told_of(self, uuid: str) -> Told:
        from .tools.listing import Told

        return self._told.setdefault(uuid, Told())

    @property
    def mcp(self) -> Mcp:
        """The MCP servers, started by the first run that wants them."""
        if self._mcp is None:
            from .tools.mcp import Mcp

            self._mcp = Mcp(
                lambda: self.settings.mcp_servers,
                limit=lambda: self.settings.mcp_start_timeout,
                folder=lambda: data_folder(self.settings.data_dir),
                environ=self.environ,
            )
        return self._mcp

    def stored(self) -> Store:
        """The folder of stored conversations."""
        if self.store is None:
            self.store = Store(data_folder(self.settings.data_dir), Redactor(_secrets(self.environ)))
        return self.store


def compose(
    settings: CumulusAgent,
    host: Host,
    root: Path,
    options: RunOptions,
    *,
    transcript: Transcript,
    added: Iterable[Tool] = (),
    environ: Mapping[str, str] = os.environ,
    redact: Redactor | None = None,
    provider: Provider | None = None,
    others: Callable[[str], Provider | None] | None = None,
    system: str | None = None,
    rules: str = "",
    base_url: str | None = None,
    api_key: str | None = None,
    mcp: Mcp | None = None,
    told: Told | None = None,
) -> Session:
    """A session on this transcript.

    ``system`` is the prompt that the conversation already has: it stays byte for byte, since what was written under it
    is only valid with it. ``rules`` are the notebook's own, for a new one; ``others`` gives sub-agents other models.
    """
    from .subagents import crew
    from .tools import builtin_tools
    from .tools.answers import AnswerBook, headless_resolver
    from .tools.listing import listing

    redact = redact or Redactor(_secrets(environ))
    approve = options.approve or settings.approve
    if approve not in APPROVE_MODES:
        raise SettingsError(f"--approve takes {', '.join(APPROVE_MODES)}, not {approve!r}")
    place = _run_root(root, options.cwd)
    book = AnswerBook.from_json(options.answers or settings.answers or "{}", root)
    toolbox = Toolbox(
        _chosen([*builtin_tools(), *added, *(mcp.tools() if mcp else ())], options.tools),
        host=host,
        root=place,
        policy=Policy(approve, host.person),
        resolve=(lambda ask: None) if host.person else headless_resolver(book, settings.headless),
        redact=redact,
        sandbox=settings.sandbox,
        private=[data_folder(settings.data_dir)],
    )
    provider = provider or _provider(settings, options, environ, redact, base_url, api_key, root)
    limits = Limits(options.max_turns or settings.max_turns, options.max_tokens, options.max_cost, options.effort)
    toolbox.background = crew(transcript, toolbox, limits, provider, workers=settings.workers, others=others)
    system = transcript.system if system is None else system
    if not system:
        system = system_prompt(place, listing=listing(toolbox), added=options.system, rules=rules)
    if mcp is None:
        return Session(transcript, provider, toolbox, limits, system)
    from .tools.mcp import McpSession

    return McpSession(transcript, provider, toolbox, limits, system, mcp=mcp, root=root, told=told)


def _provider(
    settings: CumulusAgent,
    options: RunOptions,
    environ: Mapping[str, str],
    redact: Redactor,
    base_url: str | None,
    api_key: str | None,
    root: Path,
) -> Provider:
    from .providers.catalog import resolve

    name = f"replay:{root / options.replay}" if options.replay else options.model or settings.model or None
    provider = resolve(name, env=environ, base_url=base_url, api_key=api_key)
    if not options.record:
        return provider
    from .providers.replay import RecordingProvider

    return RecordingProvider(provider, root / options.record, redact)


def _secrets(environ: Mapping[str, str]) -> list[str]:
    from .providers.catalog import known_secrets

    return known_secrets(environ)


def _run_root(root: Path, cwd: str | None) -> Path:
    if not root.is_dir():
        raise SettingsError(
            f"the working folder {root} is gone. Restore it, or go elsewhere with %cd FOLDER and "
            "%reload_ext cumulus_jupyter."
        )
    if cwd is None:
        return root
    place = (root / cwd).resolve()
    if not place.is_relative_to(root.resolve()):
        raise SettingsError(f"--cwd {cwd}: {place} is not inside {root}")
    if not place.is_dir():
        raise SettingsError(f"--cwd {cwd}: {place} is no folder")
    return place


def _chosen(tools: Sequence[Tool], eager: tuple[str, ...] | None) -> list[Tool]:
    """All tools; with ``eager``, just those of them are bound from the start, and tool_search for the rest."""
    if eager is None:
        return list(tools)
    names = {tool.name for tool in tools}
    unknown = [name for name in eager if name not in names]
    if unknown:
        raise SettingsError(f"--tools: there is no tool {', '.join(unknown)}; `%agent tools` lists them")
    always = {*eager, "tool_search"}
    return [replace(tool, deferred=tool.name not in always) for tool in tools]


class Agent:
    """An agent for scripts, terminals and notebooks; it keeps its conversation.

    Parameters
    ----------
    model
        A name as ``%%agent -m`` takes it; by default the setting's, or by the keys that are there.
    root
        Folder that paths are relative to; the working directory by default.
    tools
        Functions (decorated with ``@tool`` or plain) that it may call besides the built-in ones.
    approve, answers, max_turns
        As the options of the magic.
    base_url, api_key
        For the model's server, instead of the environment's.
    data_dir
        Folder to store the conversation in; by default nothing is written.
    mcp_servers
        MCP servers by name, each as an entry of ``mcpServers`` in ``.mcp.json``.
    host
        Surroundings to run in; by default a notebook's or a terminal IPython's variables, in a script its own.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        root: str | os.PathLike[str] | None = None,
        tools: Iterable[Any] = (),
        approve: str = "edits",
        answers: Mapping[str, Any] | str | None = None,
        max_turns: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        mcp_servers: Mapping[str, Any] | None = None,
        system: str = "",
        record: str | None = None,
        replay: str | None = None,
        host: Host | None = None,
    ) -> None:
        import json

        text = answers if isinstance(answers, str) or answers is None else json.dumps(answers)
        options = RunOptions(
            model=model, approve=approve, answers=text, max_turns=max_turns, system=system, record=record, replay=replay
        )
        place = Path(root) if root is not None else Path.cwd()
        secrets = [*_secrets(os.environ), *([api_key] if api_key else [])]
        redact = Redactor(secrets)
        store = Store(Path(data_dir), redact) if data_dir is not None else None
        settings = CumulusAgent()
        self._session = compose(
            settings,
            host or ScriptHost(user_variables()),
            place.absolute(),
            options,
            transcript=store.create() if store else Transcript(),
            added=given_tools(tools),
            redact=redact,
            others=lambda name: (
                None
                if record or replay
                else _provider(settings, RunOptions(name), os.environ, redact, base_url, api_key, place)
            ),
            base_url=base_url,
            api_key=api_key,
            mcp=_own_servers(mcp_servers, settings) if mcp_servers else None,
        )

    @property
    def transcript(self) -> Transcript:
        """The conversation so far."""
        return self._session.transcript

    async def stream(self, prompt: str) -> AsyncGenerator[Event, None]:
        """Run a prompt; the engine's events, the last one :class:`Finished` with the result."""
        try:
            async with aclosing(self._session.stream(prompt)) as events:
                async for event in events:
                    yield event
        except CumulusError as error:
            yield Finished(self._session.failed(error))
        except BaseException:
            if self._session.transcript.status is Status.RUNNING:
                self._session.stopped()
            raise

    async def run(self, prompt: str, *, strict: bool = False) -> RunResult:
        """Run a prompt to its end.

        With ``strict`` every ending but ``done`` raises :class:`AgentError`.
        """
        result = None
        async with aclosing(self.stream(prompt)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    result = event.result
        if result is None:
            result = self._session.transcript.run_result()
        if strict and result.status is not Status.DONE:
            raise AgentError(f"the run ended {result.status}: {result.error or 'see its text'}")
        return result


def _own_servers(entries: Mapping[str, Any], settings: CumulusAgent) -> Mcp:
    from .tools.mcp import Mcp

    folder = data_folder(settings.data_dir)  # a sign-in from a notebook serves scripts too
    return Mcp(lambda: entries, limit=lambda: settings.mcp_start_timeout, folder=lambda: folder, project=False)
