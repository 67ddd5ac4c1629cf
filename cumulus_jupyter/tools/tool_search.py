"""``tool_search``: finds deferred tools by name or words, and binds them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Annotated

from ..agent.errors import ToolError
from ..agent.tool import LARGE_CAP, Output, Tool, ToolContext
from ..agent.toolbox import Toolbox
from .function import tool

__all__ = ["deferred_listing", "rank", "tool_search"]

_MOST = 25
_SUMMARY = 120
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_PLAIN_WORDS = set("a an and for from how i in into is it me my of on or the this to tool tools with".split())  # noqa: SIM905
_NAME, _DESCRIPTION, _PARAMETER = 10.0, 3.0, 2.0
_PREFIX, _TYPO = 0.7, 0.5
_LEAST_TYPO = 75.0
"""Likeness, of 100, from which a word counts as a misspelt one."""


@tool(cap=LARGE_CAP, aliases=("ToolSearch",))
async def tool_search(
    ctx: ToolContext,
    query: Annotated[str, 'words ("+word" must match), one exact name, or "select:name,name"'],
    max_results: Annotated[int, "most tools to fetch, up to 25"] = 5,
) -> Output:
    """Find deferred tools and fetch them, so that they can be called from the next reply on.

    Gives their names, descriptions and parameters. Search before saying that something can't be done.
    """
    if not query.strip():
        raise ToolError('the query is empty: give words, a name, or "select:name,name"')
    toolbox = ctx.toolbox
    found, note = _find(toolbox, query.strip(), min(max(max_results, 1), _MOST))
    names = [tool.name for tool in found]
    bound = {tool.name for tool in toolbox.bound(ctx.transcript)}
    if new := [name for name in names if name not in bound]:
        ctx.transcript.append("fetched", names=new)
    tools = [{"name": t.name, "description": t.description, "parameters": t.schema()} for t in found]
    notes = [note] if note else []
    if names:
        notes.append(f"{', '.join(names)} can be called now, until this run ends")
    return Output({"tools": tools, "note": ". ".join(notes)}, {"fetched": names, "output": ", ".join(names)})


def _find(toolbox: Toolbox, query: str, most: int) -> tuple[list[Tool], str]:
    """The tools that a query means, best first, and what to say of the rest."""
    if query.lower().startswith("select:"):
        return _selected(toolbox, [name.strip() for name in query[7:].split(",") if name.strip()])
    exact = toolbox.find(query) or _same_but_case(toolbox, query)
    if exact:
        return (
            ([exact], "") if exact.deferred else ([], _bound_note([exact]) or f"{exact.name} is what you just called")
        )
    ranked = rank(toolbox.deferred, query)
    words = set(_words(query)) - _PLAIN_WORDS
    note = _bound_note(tool for tool in toolbox.eager if words & set(_words(tool.name)))
    if not ranked:
        near = toolbox.nearest(query) or [tool.name for tool in toolbox.deferred][:50]
        there = f"; the nearest names: {', '.join(near)}" if near else ""
        return [], note or f"no tool matches {query!r}{there}"
    if len(ranked) > most:
        rest = ", ".join(tool.name for tool in ranked[most : most + 20])
        note = ". ".join(part for part in (note, f"also matching: {rest}") if part)
    return ranked[:most], note


def _bound_note(tools: Iterable[Tool]) -> str:
    names = [tool.name for tool in tools if tool.name != "tool_search"]
    return f"bound from the start, just call: {', '.join(names[:5])}" if names else ""


def _same_but_case(toolbox: Toolbox, name: str) -> Tool | None:
    return next((tool for tool in toolbox.tools.values() if tool.name.lower() == name.lower()), None)


def _selected(toolbox: Toolbox, names: Sequence[str]) -> tuple[list[Tool], str]:
    found: dict[str, Tool] = {}
    eager, notes = [], []
    for name in names:
        chosen = toolbox.find(name) or _same_but_case(toolbox, name)
        if chosen is None:
            near = toolbox.nearest(name)
            notes.append(f"there is no tool {name!r}" + (f", did you mean {', '.join(near)}?" if near else ""))
        elif chosen.deferred:
            found[chosen.name] = chosen
        else:
            eager.append(chosen)
    if len(found) > _MOST:
        notes.append(f"the first {_MOST} are fetched; select the others in another call")
    notes = [_bound_note(eager), *notes] if eager else notes
    return list(found.values())[:_MOST], ". ".join(note for note in notes if note)


# Ranking ---------------------------------------------------------------------------------------------------------


def rank(tools: Sequence[Tool], query: str) -> list[Tool]:
    """The tools that match the words of a query, best first; ``+word`` must match.

    A word counts most in a name, then in a description, then in a parameter's name, and more the rarer it is. A word
    that is nowhere is taken for a misspelt one.
    """
    required = {word for part in re.findall(r"\+(\S+)", query) for word in _words(part)}
    words = [word for word in _words(query) if word not in _PLAIN_WORDS] or _words(query)
    fields = [_fields(tool) for tool in tools]
    vocabulary = {word for weights in fields for word in weights}
    scores = [0.0] * len(tools)
    missing = set()
    for word in dict.fromkeys(words):
        alike = _alike(word, vocabulary)
        hits = [max((weights[w] * alike[w] for w in alike if w in weights), default=0.0) for weights in fields]
        rarity = math.log(1 + len(tools) / max(sum(hit > 0 for hit in hits), 1))
        for at, hit in enumerate(hits):
            scores[at] += hit * rarity
            if not hit and word in required:
                missing.add(at)
    order = sorted(range(len(tools)), key=lambda at: -scores[at])
    return [tools[at] for at in order if scores[at] > 0 and at not in missing]


def _fields(tool: Tool) -> dict[str, float]:
    """The words of a tool with their weights."""
    weights: dict[str, float] = {}
    parts = [(name, _PARAMETER) for name in tool.schema().get("properties", {})]
    for text, weight in [*parts, (tool.description, _DESCRIPTION), (tool.name, _NAME)]:
        weights |= dict.fromkeys(_words(text), weight)
    return weights


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _alike(word: str, vocabulary: set[str]) -> dict[str, float]:
    """Words that stand for this one, with how well."""
    alike = {known: _PREFIX for known in vocabulary if _stem(word, known)}
    if word in vocabulary:
        alike[word] = 1.0
    if alike or len(word) < 4:
        return alike
    from rapidfuzz import fuzz, process

    close = process.extract(word, vocabulary, scorer=fuzz.ratio, score_cutoff=_LEAST_TYPO, limit=10)
    return {known: _TYPO * score / 100 for known, score, _ in close}


def _stem(word: str, known: str) -> bool:
    shorter, longer = sorted((word, known), key=len)
    return len(shorter) >= 3 and longer.startswith(shorter) and len(longer) - len(shorter) <= 4


def deferred_listing(toolbox: Toolbox) -> str:
    """The deferred tools for the system prompt: a name and one line each, those of MCP servers by server."""
    rows: dict[str, list[str]] = {"": []}
    for each in toolbox.deferred:
        server = getattr(each, "server", "")
        if server not in rows:
            about = _one_line(getattr(each, "about", ""))
            rows[server] = [f"{server}: {about}" if about else f"{server}:"]
        rows[server].append(f"{'- ' if server else ''}{each.name}: {_one_line(each.summary)}")
    own, servers = rows.pop(""), [row for part in rows.values() for row in part]
    parts = [("available-deferred-tools", own), ("available-mcp-servers", servers)]
    return "\n".join("\n".join([f"<{name}>", *lines, f"</{name}>"]) for name, lines in parts if lines)


def _one_line(text: str) -> str:
    text = " ".join(text.split()).replace("</available-", "")
    return text if len(text) <= _SUMMARY else f"{text[: _SUMMARY - 1]}…"
