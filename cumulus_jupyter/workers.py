"""Where runs go that one machine is too small for: engines behind ``concurrent.futures``, and what runs on them."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from .agent.errors import CumulusError, SettingsError

__all__ = ["TRAVELLING", "Engine", "open_engine", "run_child"]

TRAVELLING = (
    "read_file",
    "write_file",
    "edit_file",
    "list_files",
    "search_files",
    "run_python",
    "run_shell",
    "update_todos",
    "activate_skill",
    "read_result",
)
"""Built-in tools that work on another machine: on files of a shared path, with variables of the worker's own."""
_CONNECT = 10.0

Work = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Engine:
    """Workers elsewhere, as one executor.

    ``name`` is the setting that it was opened by. Close it when nothing runs on it any more.
    """

    name: str
    executor: Executor
    close: Callable[[], None]
    wrap: Callable[[Work], Work] = lambda work: work

    def submit(self, fn: Work, spec: dict[str, Any]) -> Future[Any]:
        """Run ``fn(spec)`` on a worker, at most once: where the worker dies, the future gets an error.

        ``fn`` is a function of an importable module, and ``spec`` and what comes back can be pickled. The package is
        installed on the workers; keys come from their own environment. Cancelling works while nothing has begun.
        """
        return self.executor.submit(self.wrap(fn), spec)


def open_engine(setting: str) -> Engine | None:
    """The engine that the setting ``workers`` names; None for ``local``. Blocks until it is connected, or 10 s.

    Parameters
    ----------
    setting
        ``local``, ``dask://HOST:PORT`` (a running scheduler), or ``ipyparallel`` with ``:PROFILE`` or none.

    Raises
    ------
    SettingsError
        It is no such name, its package is missing, or nobody answers there.
    """
    kind = setting.partition(":")[0]
    if kind in ("", "local"):
        return None
    if kind not in ("dask", "ipyparallel"):
        raise SettingsError(f"workers takes local, dask://HOST:PORT or ipyparallel[:PROFILE], not {setting!r}")
    package = {"dask": "distributed"}.get(kind, kind)
    try:
        module = import_module(package)
    except ImportError:
        raise SettingsError(f"workers={setting!r} needs a package that is not here: pip install {package}") from None
    try:
        return _dask(module, setting) if kind == "dask" else _ipyparallel(module, setting)
    except Exception as error:  # each has its own errors for a scheduler that isn't there
        told = str(error).strip().partition("\n")[0]
        raise SettingsError(f"workers={setting!r} can't be reached: {told or type(error).__name__}") from None


def _dask(module: Any, setting: str) -> Engine:
    client = module.Client(setting.replace("dask://", "tcp://", 1), timeout=_CONNECT, set_as_default=False)
    return Engine(setting, client.get_executor(pure=False), client.close, lambda work: _Once(work, uuid.uuid4().hex))


def _ipyparallel(module: Any, setting: str) -> Engine:
    profile = setting.partition(":")[2]
    client = module.Client(timeout=_CONNECT, **({"profile": profile} if profile else {}))
    view = client.load_balanced_view()
    return Engine(setting, view.executor, client.close)


@dataclass(frozen=True, slots=True)
class _Once:
    """Dask gives a dead worker's task to the next one; what an agent did must not be done again."""

    work: Work
    id: str

    def __call__(self, spec: dict[str, Any]) -> Any:
        distributed = import_module("distributed")
        begun = distributed.Event(f"cumulus-{self.id}", client=distributed.get_client())
        if begun.is_set():
            raise RuntimeError("the worker that ran it is gone; it was not run again, and effects may have happened")
        begun.set()
        return self.work(spec)


# On the worker ---------------------------------------------------------------------------------------------------


def run_child(spec: dict[str, Any]) -> dict[str, Any]:
    """Run one sub-agent from plain data, to its end.

    Parameters
    ----------
    spec
        ``task``, ``name``, ``model``, ``tools`` (names out of :data:`TRAVELLING`), ``root`` (a path that is the same
        here), ``approve``, ``sandbox``, and ``limits`` (as :class:`~.agent.loop.Limits` takes them).

    Returns
    -------
    dict
        ``status`` and ``error`` of the run, ``text``, ``usage`` (a :class:`~.agent.messages.RunUsage` as a dict).
        A model that can't be used here, or a root that isn't here, is ``failed`` too.
    """
    try:
        with ThreadPoolExecutor(1) as thread:  # an engine may call this on a thread whose event loop runs
            return thread.submit(asyncio.run, _run_child(spec)).result()
    except CumulusError as error:
        return {"status": "failed", "error": str(error), "text": "", "usage": None}


async def _run_child(spec: dict[str, Any]) -> dict[str, Any]:
    from .agent.events import Finished
    from .agent.loop import Limits
    from .agent.session import Session
    from .agent.transcript import Transcript
    from .prompts import child_prompt
    from .providers.catalog import known_secrets, resolve

    root = Path(spec["root"])
    if not root.is_dir():
        raise SettingsError(f"the folder {root} is not on this worker: workers need the root on a shared path")
    toolbox = _toolbox(spec, root, known_secrets(os.environ))
    provider = resolve(spec["model"], env=os.environ)
    system = child_prompt(root, spec["name"], remote=True)
    session = Session(Transcript(), provider, toolbox, Limits(**spec["limits"]), system)
    try:
        async for event in session.stream(spec["task"]):
            if isinstance(event, Finished):
                result = event.result
    finally:
        await provider.close()
    return {"status": str(result.status), "error": result.error, "text": result.text, "usage": asdict(result.usage)}


def _toolbox(spec: dict[str, Any], root: Path, secrets: list[str]) -> Any:
    from dataclasses import replace

    from .agent.policy import Policy
    from .agent.redact import Redactor
    from .agent.toolbox import Toolbox
    from .script import ScriptHost
    from .tools import builtin_tools

    names = set(spec["tools"]).intersection(TRAVELLING)
    return Toolbox(
        [replace(tool, deferred=False) for tool in builtin_tools() if tool.name in names],
        host=ScriptHost(),
        root=root,
        policy=Policy(spec["approve"], person=False),
        redact=Redactor(secrets),
        sandbox=spec["sandbox"],
    )
