"""``%agent`` with a word: what there is, what was, what is set."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from ..agent.messages import Outcome, Reply, UserMessage
from ..agent.session import Session
from ..store import SessionInfo
from .options import OPTIONS

if TYPE_CHECKING:
    from .extension import Extension

__all__ = ["AWAITED", "COMMANDS", "command"]


def command(extension: Extension, word: str, rest: str) -> None:
    """Run a command and print what it says."""
    text = COMMANDS[word][0](extension, rest)
    if text:
        print(text)


def _session(extension: Extension, name: str = "main") -> Session:
    session = extension.conversations.sessions.get(name)
    if session is None:
        raise UsageError(f"session {name!r} has said nothing yet; start it with an %%agent cell")
    return session


def _status(extension: Extension, _rest: str) -> str:
    from ..providers.catalog import default_name
    from ..tools.mcp import mcp_status
    from ..tools.sandbox import sandbox_status
    from ..tools.skills import skills_status

    extension.follow()
    app, settings = extension.conversations, extension.settings
    hello = extension.bridge.hello
    through = "edits go through it" if hello else "no Cumulus extension answers"
    lines = [
        f"model: {settings.model or default_name(app.environ)}",
        f"root: {app.root}",
        f"approve: {settings.approve}",
        f"front end: {hello.get('app', 'unknown')}, {through}",
        f"somebody is there: {'yes' if extension.host.person else 'no'}",
        f"sandbox: {sandbox_status(settings.sandbox, app.root)}",
    ]
    lines += [f"MCP server {line}" for line in mcp_status(app.mcp)]
    lines += skills_status(app.root)
    for name, session in app.sessions.items():
        transcript = session.transcript
        lines.append(
            f"session {name}: {transcript.status}, {session.provider.name}, {len(transcript.messages)} messages"
        )
    return "\n".join(lines)


def _model(extension: Extension, rest: str) -> str:
    from ..providers.catalog import default_name, resolve

    if rest:
        provider = resolve(rest, env=extension.conversations.environ)
        extension.settings.model = rest
        return f"model: {provider.name} · {provider.host}"
    return f"model: {extension.settings.model or default_name(extension.conversations.environ)}"


def _models(extension: Extension, _rest: str) -> str:
    """What the configured endpoints offer; asked in a thread of its own, since the kernel's loop runs this command."""
    from concurrent.futures import ThreadPoolExecutor

    from ..agent.errors import CumulusError
    from ..providers.catalog import known_models, resolve

    name = extension.settings.model or None
    env = extension.conversations.environ

    async def ask() -> list[str]:
        provider: Any = resolve(name, env=env)
        try:
            return list(await provider.models()) if hasattr(provider, "models") else [provider.name]
        finally:
            await provider.close()

    try:
        with ThreadPoolExecutor(1) as pool:
            offered = pool.submit(asyncio.run, ask()).result(30)
    except (CumulusError, TimeoutError) as error:
        offered = [f"(the endpoint does not say: {error})"]
    return "\n".join(
        ["offered:", *(f"  {n}" for n in offered), "with known facts:", *(f"  {n}" for n in known_models())]
    )


def _tools(extension: Extension, rest: str) -> str:
    from ..tools import builtin_tools

    app = extension.conversations
    tools = {tool.name: tool for tool in [*builtin_tools(), *app.tools.values(), *app.mcp.tools()]}
    if rest:
        if rest not in tools:
            raise UsageError(f"there is no tool {rest!r}; `%agent tools` lists them")
        tool = tools[rest]
        shape = {"name": tool.name, "description": tool.description, "input_schema": tool.schema()}
        return json.dumps(shape, indent=2, ensure_ascii=False)
    rows = []
    for deferred in (False, True):
        rows.append("deferred, fetched by tool_search:" if deferred else "always bound:")
        rows += [f"  {t.name:<18} {t.summary}" for t in tools.values() if t.deferred is deferred]
    return "\n".join(rows)


def _history(extension: Extension, rest: str) -> str:
    lines = []
    for message in _session(extension, rest or "main").transcript.messages:
        if isinstance(message, UserMessage):
            lines.append(f"you: {message.text}")
        elif isinstance(message, Reply):
            calls = "".join(f"\n  → {call.name}" for call in message.calls)
            lines.append(f"agent: {message.text.strip()}{calls}")
    return "\n".join(lines)


def _usage(extension: Extension, rest: str) -> str:
    transcript = _session(extension, rest or "main").transcript
    # Replies, summaries of older turns, and the rounds of sub-agents.
    used = [(line["usage"], line["cost"]) for line in transcript.lines if line["type"] in ("assistant", "compacted")]
    used += [(line["used"], line["used"]["cost"]) for line in transcript.lines if line.get("used")]
    total = {key: sum(usage[key] for usage, _ in used) for key in ("input", "cached", "output")}
    costs = [cost for _, cost in used]
    cost = "unknown price" if None in costs else f"{sum(costs):.4f} USD"
    return f"{len(used)} rounds · {total['input']:,} in · {total['cached']:,} cached · {total['output']:,} out · {cost}"


def _show(extension: Extension, rest: str) -> str:
    session = _session(extension)
    replies = [line for line in session.transcript.lines if line["type"] == "assistant"]
    if rest and not rest.isdigit():
        raise UsageError("%agent show takes the number of a round")
    number = int(rest) if rest else len(replies)
    if not 1 <= number <= len(replies):
        raise UsageError(f"there are rounds 1 to {len(replies)}")
    request = session.request_of(replies[number - 1])
    body = session.toolbox.redact(session.provider.body(request).decode("utf-8", "replace"))
    with contextlib.suppress(ValueError):
        body = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    reply = json.dumps(replies[number - 1], indent=2, ensure_ascii=False)
    return f"request of round {number}:\n{body}\n\nreply:\n{reply}"


def _reset(extension: Extension, rest: str) -> str:
    name = rest or "main"
    extension.stop()
    extension.conversations.sessions.pop(name, None)
    return f"session {name!r} starts afresh"


def _answer(extension: Extension, rest: str) -> str:
    from ..tools.answers import AnswerBook

    book = AnswerBook.from_json(rest, extension.conversations.root)
    given = []
    for run in extension.runs.values():
        for ask in list(run.waiting.values()):
            answer = None if ask.approval else book.resolve(ask)
            if answer is not None and answer.outcome is Outcome.ANSWERED:
                run.submit(ask, answer)
                given.append(ask.questions[0].header)
    return f"answered: {', '.join(given)}" if given else "no open question fits that answer"


async def _resume(extension: Extension, rest: str) -> str:
    words = rest.split()
    fork = "--fork" in words
    names = [word for word in words if word != "--fork"]
    if len(names) > 1:
        raise UsageError("%agent resume takes one name or uuid, and --fork for a copy of that conversation")
    await extension.resume("".join(names), fork=fork)
    return ""


async def _undo(extension: Extension, rest: str) -> str:
    return await extension.undo(rest or "main")


async def _call(extension: Extension, rest: str) -> str:
    name, _, arguments = rest.partition(" ")
    if not name:
        raise UsageError("%agent call NAME {json} runs a tool; `%agent tools NAME` shows what it takes")
    return await extension.call(name, arguments)


def _stop(extension: Extension, _rest: str) -> str:
    stopped = extension.stop()
    return f"stopped: {', '.join(stopped)}" if stopped else "nothing is running"


def _sessions(extension: Extension, _rest: str) -> str:
    """Conversations of this kernel, then the stored ones, this notebook's first, each newest first."""
    app, notebook = extension.conversations, extension.notebook
    here = {s.transcript.session: (name, s.transcript) for name, s in app.sessions.items()}
    rows = [f"  {name}: {uuid}, {t.status}, {len(t.messages)} messages" for uuid, (name, t) in here.items()]
    parts = [["this kernel:", *rows]] if rows else []
    stored = [info for info in app.stored().sessions() if info.uuid not in here]
    for title, mine in ((f"stored, {notebook or 'of no notebook'}:", True), ("stored, of other notebooks:", False)):
        rows = [_stored(info, named=not mine) for info in stored if (info.notebook == notebook) is mine]
        parts += [[title, *rows]] if rows else []
    return "\n".join(line for part in parts for line in part) or "no conversation yet"


def _stored(info: SessionInfo, *, named: bool) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.modified))
    place = f"  {info.notebook or '-'}" if named else ""
    return f"  {info.uuid}  {when}  {info.name or '-'}{place}  {info.prompt[:60]!r}"


def _config(extension: Extension, _rest: str) -> str:
    """Each setting, its value and where that came from; an option of a cell goes before all of them."""
    rows = [("setting", "value", "from"), *extension.settings.table()]
    shown = [(name, " ".join(value.split())[:60] or "-", origin) for name, value, origin in rows]
    names, values = (max(len(row[column]) for row in shown) for column in (0, 1))
    return "\n".join(f"{name:<{names}}  {value:<{values}}  {origin}" for name, value, origin in shown)


def _help(_extension: Extension, _rest: str) -> str:
    options = [f"  {', '.join(option.names) + ' ' + option.metavar:<34} {option.help}" for option in OPTIONS]
    words = [f"  %agent {word:<12} {text}" for word, (_, text) in COMMANDS.items()]
    return "\n".join(
        ["%%agent [options] [first words]", "the prompt", "", "options:", *options, "", "commands:", *words]
    )


AWAITED: dict[str, Callable[[Any, str], Awaitable[str]]] = {"resume": _resume, "undo": _undo, "call": _call}
"""Commands that wait for something: they are coroutine functions."""

COMMANDS: dict[str, tuple[Callable[[Any, str], Any], str]] = {
    "status": (_status, "model, folder, front end, conversations"),
    "model": (_model, "[NAME] the default model; set it"),
    "models": (_models, "what the endpoint of the default model offers"),
    "tools": (_tools, "[NAME] the tools; one as the model sees it"),
    "answer": (_answer, "JSON answers the open question, as --answers does"),
    "resume": (_resume, "[NAME or uuid] go on with a stored conversation; --fork with a copy of it"),
    "undo": (_undo, "[SESSION] take back the last run's edits of files and notebooks"),
    "call": (_call, "NAME {json} run a tool as the model would; what it gets, and what you get"),
    "sessions": (_sessions, "conversations of this kernel and stored ones"),
    "history": (_history, "[SESSION] the conversation so far"),
    "usage": (_usage, "[SESSION] tokens and cost so far"),
    "show": (_show, "[N] the exact request and reply of round N"),
    "reset": (_reset, "[SESSION] start it afresh"),
    "stop": (_stop, "stop runs in the background"),
    "config": (_config, "settings and where each came from"),
    "help": (_help, "this list"),
}
