"""Where everything is put together: settings become a provider, a toolbox and a transcript, and these a session."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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
from .script import ScriptHost
from .settings import CumulusAgent
from .store import Store, data_folder
from .usertools import given_tools, registered

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
    _told: dict[str, set[str]] = field(default_factory=dict)
    _providers: dict[tuple[Any, ...], Provider] = field(default_factory=dict)

    def open(self, name: str, options: RunOptions, *, new: bool = False) -> Session:
        """The named conversation, made ready for a run with these options."""
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
            system=old.system if old else None,
        )
        self.sessions[name] = session
        session.news = self._news(transcript.session, session.toolbox, first=old is None)
        return session

    def resume(self, name: str, wanted: str, notebook: str) -> Session:
        """Take up a stored conversation: by uuid or its beginning, by name, or the notebook's newest.

        Raises
        ------
        TranscriptError
            There is none, or another kernel has it.
        """
        store = self.stored()
        here = {session.transcript.session for session in self.sessions.values()}
        stored = [info for info in store.sessions() if info.uuid not in here]
        fitting = [
            info
            for info in stored
            if (info.uuid.startswith(wanted) or info.name == wanted if wanted else info.notebook == notebook)
        ]
        if not fitting:
            raise TranscriptError(
                "no stored conversation fits; `%agent sessions` lists them, `%agent resume UUID` takes one"
            )
        transcript = store.load(fitting[0].uuid)
        self.sessions[name] = compose(
            self.settings,
            self.host,
            self.root,
            RunOptions(),
            transcript=transcript,
            added=self.tools.values(),
            environ=self.environ,
            provider=self._provider(RunOptions()),
        )
        return self.sessions[name]

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
        """Tools that came since the system prompt listed them: it stays as it is, so a note tells them."""
        known = self._told.setdefault(uuid, set())
        new = [tool for tool in toolbox.deferred if tool.name not in known and not first]
        known.update(toolbox.tools)
        lines = [f"- {tool.name}: {tool.summary}" for tool in new]
        return "\n".join(["<new-deferred-tools>", *lines, "</new-deferred-tools>"]) if lines else ""

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
    system: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
) -> Session:
    """A session on this transcript.

    ``system`` is the system prompt that the conversation already has: it stays byte for byte, since what a model wrote
    under it is only valid with it.
    """
    from .tools import builtin_tools
    from .tools.answers import AnswerBook, headless_resolver
    from .tools.tool_search import deferred_listing

    redact = redact or Redactor(_secrets(environ))
    approve = options.approve or settings.approve
    if approve not in APPROVE_MODES:
        raise SettingsError(f"--approve takes {', '.join(APPROVE_MODES)}, not {approve!r}")
    place = _run_root(root, options.cwd)
    answers = options.answers or settings.answers
    book = AnswerBook.from_json(answers, root) if answers else AnswerBook({})
    toolbox = Toolbox(
        _chosen([*builtin_tools(), *added], options.tools),
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
    if system is None:
        system = system_prompt(place, listing=deferred_listing(toolbox), added=options.system)
    return Session(transcript, provider, toolbox, limits, system)


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
        self._session = compose(
            CumulusAgent(),
            host or ScriptHost(_user_variables()),
            place.absolute(),
            options,
            transcript=store.create() if store else Transcript(),
            added=given_tools(tools),
            redact=redact,
            base_url=base_url,
            api_key=api_key,
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


def _user_variables() -> dict[str, Any] | None:
    """The variables of the notebook or terminal that this runs in; None in a plain script."""
    main = vars(sys.modules["__main__"])
    return main if "get_ipython" in main else None
