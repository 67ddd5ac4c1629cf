"""Skills: folders with a ``SKILL.md``, named in the system prompt and loaded when the model asks for one.

They stand in the root's ``.claude/skills``, in ``~/.claude/skills`` and in this package, and of one name the first of
these counts. A ``SKILL.md`` begins with YAML front matter (``name``, ``description``); what is left out there, the
folder's name and the body's first line give.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from ..agent.errors import ToolError
from ..agent.tool import Output, ToolContext
from ..agent.windowing import OUTER_CAP
from .function import tool
from .walk import Skipped, walk

__all__ = ["Skill", "Skills", "activate_skill", "find_skills", "in_skill", "skills_listing", "skills_status"]

_SHIPPED = Path(__file__).parent.parent / "skills"
_FRONT = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_HEAD = 65_536
"""Characters of a file that are read to list it."""
_LONGEST_NAME = 64
_SUMMARY = 120
_LISTING = 12_000
"""Characters of the listing; skills beyond them are listed by name alone."""
_MOST_FILES = 200


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that can be loaded. ``path`` is its ``SKILL.md``; one that is not ``listed`` waits to be asked for."""

    name: str
    description: str
    path: Path
    listed: bool = True

    @property
    def summary(self) -> str:
        """The description on one line, cut where it is long."""
        text = " ".join(self.description.split()).replace("</available-skills>", "")
        return text if len(text) <= _SUMMARY else f"{text[: _SUMMARY - 1]}…"


@dataclass(slots=True)
class Skills:
    """What was found: skills by name, and for each one that can't be used its folder's name and why."""

    found: dict[str, Skill] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)

    def named(self, name: str) -> Skill:
        """The skill of that name, whatever its case.

        Raises
        ------
        ToolError
            There is none, or it can't be used.
        """
        wanted = name.strip().lstrip("/").casefold()
        for skill in self.found.values():
            if skill.name.casefold() == wanted:
                return skill
        broken = [reason for folder, reason in self.faults if folder.casefold() == wanted]
        if broken:
            raise ToolError(f"the skill {name!r} can't be loaded. {broken[0]}")
        raise ToolError(f"there is no skill {name!r}. {self._instead(wanted)}")

    def _instead(self, wanted: str) -> str:
        from rapidfuzz import process

        names = sorted(self.found)
        near = [found for found, _, _ in process.extract(wanted, names, limit=3, score_cutoff=60)]
        return f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(names[:50])}"


def find_skills(root: Path) -> Skills:
    """All skills that an agent with this root may load; read anew, so that edits count at once."""
    skills = Skills()
    for place, inside in ((root / ".claude" / "skills", root), (_own_folder(), None), (_SHIPPED, None)):
        here: dict[str, Skill] = {}
        for file in _files(place):
            try:
                skill = _listed(file, inside)
                if skill.name in here:
                    raise ToolError(f"{file} has the name {skill.name!r} of {here[skill.name].path}: give another")
                here[skill.name] = skill
            except ToolError as error:
                skills.faults.append((file.parent.name, str(error)))
        skills.found = {**here, **skills.found}
    return skills


def in_skill(real: Path) -> bool:
    """Whether a resolved path is a skill's of the person or of ours: these may be read without asking."""
    places = (os.path.realpath(file.parent) for place in (_own_folder(), _SHIPPED) for file in _files(place))
    return any(real.is_relative_to(place) for place in places)


def skills_status(root: Path) -> list[str]:
    """Lines for the person: the skills that there are, and why others can't be loaded."""
    skills = find_skills(root)
    names = ", ".join(sorted(skills.found)) or "none"
    return [f"skills: {names}", *(f"skill {folder} is left out: {reason}" for folder, reason in skills.faults)]


def skills_listing(skills: Skills) -> str:
    """The skills for the system prompt: a name and one line each; empty where there are none."""
    listed = sorted((skill for skill in skills.found.values() if skill.listed), key=lambda skill: skill.name)
    if not listed:
        return ""
    rows, room = ["Load the one that fits with activate_skill before you start such a task."], _LISTING
    for skill in listed:
        row = f"{skill.name}: {skill.summary}" if room > 0 else skill.name
        rows.append(row)
        room -= len(row)
    return "\n".join(["<available-skills>", *rows, "</available-skills>"])


@tool(cap=OUTER_CAP)
def activate_skill(
    ctx: ToolContext,
    skill_name: Annotated[str, "a name under <available-skills>"],
    args: Annotated[str, "what the skill is to work on, if it takes anything"] = "",
) -> Output:
    """Load a skill: instructions for one kind of task, and the paths of the files that belong to it."""
    skill = find_skills(ctx.root).named(skill_name)
    body = _parts(_text(skill.path), skill.path)[1].strip()
    if "$ARGUMENTS" in body:
        body = body.replace("$ARGUMENTS", args)
    elif args.strip():
        body += f"\n\nARGUMENTS: {args}"
    folder = Path(os.path.realpath(skill.path.parent))
    head = [f"Skill {skill.name}, from {folder}. Relative paths in it start there."]
    if files := _belonging(folder):
        head.append("\n".join(["Its files:", *files]))
    return Output("\n\n".join([*head, body]), {"path": str(skill.path), "output": skill.summary})


def _belonging(folder: Path) -> list[str]:
    """The paths of a skill's files beside its ``SKILL.md``."""
    names = (name for name, _ in walk(folder, folder, Skipped()) if name != "SKILL.md")
    paths = [str(folder / name) for name in islice(names, _MOST_FILES + 1)]
    return [*paths[:_MOST_FILES], "… and more"] if len(paths) > _MOST_FILES else paths


# Reading ---------------------------------------------------------------------------------------------------------


def _own_folder() -> Path:
    return Path(os.path.expanduser("~/.claude/skills"))


def _files(place: Path) -> Iterator[Path]:
    yield from sorted(place.glob("*/SKILL.md"))


def _listed(file: Path, inside: Path | None) -> Skill:
    """The skill of a file. Raises :class:`ToolError` with what must be mended."""
    real = Path(os.path.realpath(file))
    if inside is not None and not real.is_relative_to(os.path.realpath(inside)):
        raise ToolError(f"{file} is a link to {real}, outside the root: copy it, or link it into ~/.claude/skills")
    try:
        stat = real.stat()
    except OSError as error:
        raise ToolError(f"{file} can't be read: {error.strerror}") from None
    return _parsed(file, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=512)
def _parsed(file: Path, _changed: int, _size: int) -> Skill:
    facts, body = _parts(_text(file, _HEAD), file)
    first = next((line.strip("# \t") for line in body.splitlines() if line.strip("# \t")), "")
    name = _fact(facts, "name", file) or file.parent.name
    description = _fact(facts, "description", file) or first
    if not description:
        raise ToolError(f"{file} says nothing: give it a description in its front matter, and a body")
    if len(name) > _LONGEST_NAME or "\n" in name:
        raise ToolError(f"{file}: its name must be one line of at most {_LONGEST_NAME} characters")
    return Skill(name, description, file, listed=facts.get("disable-model-invocation") is not True)


def _fact(facts: dict[str, Any], key: str, file: Path) -> str:
    value = facts.get(key)
    if value is not None and not isinstance(value, str):
        raise ToolError(f"{file}: {key} in its front matter is no text: put it in quotes")
    return (value or "").strip()


def _text(file: Path, most: int = -1) -> str:
    try:
        with open(file, encoding="utf-8-sig") as stream:
            return stream.read(most)
    except UnicodeDecodeError:
        raise ToolError(f"{file} is not UTF-8: save it as UTF-8") from None
    except OSError as error:
        raise ToolError(f"{file} can't be read: {error.strerror}") from None


def _parts(text: str, file: Path) -> tuple[dict[str, Any], str]:
    """What a file's front matter says, and its body."""
    if not re.match(r"---[ \t]*\n", text):
        return {}, text
    match = _FRONT.match(text)
    if match is None:
        raise ToolError(f"{file}: its front matter has no end: close it with a line ---")
    import yaml

    try:
        facts = yaml.load(match[1], getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ToolError(f"{file}: its front matter is no YAML: {_reason(error)}") from None
    if not isinstance(facts, dict | None):
        raise ToolError(f"{file}: its front matter must be lines of the form name: value")
    return facts or {}, text[match.end() :]


def _reason(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return f"{' '.join(str(error).split())[:200]}"
    return f"line {mark.line + 2}: {getattr(error, 'problem', '')}. A value with ': ' or '#' in it needs quotes"
