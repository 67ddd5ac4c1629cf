"""The files of a folder, streamed: ignored and skipped ones left out and counted, links never followed."""

from __future__ import annotations

import functools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["SKIPPED_FOLDERS", "Skipped", "glob_matcher", "walk"]

SKIPPED_FOLDERS = frozenset(
    [
        ".git",
        ".hg",
        ".svn",
        "node_modules",
        ".venv",
        "venv",
        "__pycache__",
        ".ipynb_checkpoints",
        ".cache",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".hypothesis",
        ".tox",
        ".nox",
        ".eggs",
        ".gradle",
        ".terraform",
        ".next",
        ".yarn",
        "bower_components",
        "site-packages",
    ]
)
_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(slots=True)
class Skipped:
    """What a walk left out: ``names`` counts folders by name, the rest are counts of files and folders."""

    names: Counter[str] = field(default_factory=Counter)
    ignored: int = 0
    links: int = 0
    unreadable: int = 0

    def told(self) -> list[str]:
        """In words, nothing for nothing."""
        parts = [f"{name}/" + (f" ({count} times)" if count > 1 else "") for name, count in self.names.most_common(8)]
        if len(self.names) > 8:
            parts.append("…")
        if self.ignored:
            parts.append(f"{self.ignored:,} ignored by .gitignore")
        if self.links:
            parts.append(f"{self.links:,} {'link' if self.links == 1 else 'links'} not followed")
        if self.unreadable:
            parts.append(f"{self.unreadable:,} folders that can't be read")
        return parts


def walk(start: Path, root: Path, skipped: Skipped, *, folders: bool = False) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Entries beneath ``start`` with their paths relative to it, files of a folder before its subfolders.

    ``.gitignore`` files hold from ``root`` downwards, unless they ignore ``start`` itself, which was asked for by name.
    With ``folders`` they are given too, with a slash at the end.
    """
    ignores = _ignores_above(start, root)
    yield from _walk(str(start), "", ignores, skipped, folders=folders)


def _walk(
    folder: str, prefix: str, ignores: Sequence[_Ignore], skipped: Skipped, *, folders: bool
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        skipped.unreadable += 1
        return
    if any(entry.name == ".gitignore" for entry in listed):
        ignores = [*ignores, *_Ignore.of(folder)]
    below = []
    for entry in listed:
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder and _is_skipped(entry):
            skipped.names[entry.name] += 1
        elif _ignored(entry.path, is_folder, ignores):
            skipped.ignored += 1
        elif is_folder:
            below.append(entry)
        elif entry.is_symlink() and entry.is_dir():
            skipped.links += 1
        else:
            yield prefix + entry.name, entry
    for entry in below:
        if folders:
            yield f"{prefix}{entry.name}/", entry
        yield from _walk(entry.path, f"{prefix}{entry.name}/", ignores, skipped, folders=folders)


def _is_skipped(entry: os.DirEntry[str]) -> bool:
    return entry.name in SKIPPED_FOLDERS or os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))


# Ignore files ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ignore:
    """One ``.gitignore``: its patterns count from its folder."""

    folder: str
    spec: GitIgnoreSpec

    @classmethod
    def of(cls, folder: str) -> list[_Ignore]:
        from pathspec import GitIgnoreSpec

        try:
            with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:
                return [cls(folder, GitIgnoreSpec.from_lines(file.read(1_000_000).splitlines()))]
        except (OSError, ValueError):  # unreadable, or a pattern that git would pass over too
            return []


def _ignored(path: str, is_folder: bool, ignores: Sequence[_Ignore]) -> bool:
    """The deepest ``.gitignore`` with an opinion decides."""
    for ignore in reversed(ignores):
        relative = os.path.relpath(path, ignore.folder).replace(os.sep, "/") + ("/" if is_folder else "")
        verdict = ignore.spec.check_file(relative).include
        if verdict is not None:
            return verdict
    return False


def _ignores_above(start: Path, root: Path) -> list[_Ignore]:
    """The ``.gitignore`` files from ``root`` to above ``start``; none where they ignore ``start``."""
    if not start.is_relative_to(root) or start == root:
        return []
    found: list[_Ignore] = []
    at = root
    for part in start.relative_to(root).parts:
        found += _Ignore.of(str(at))
        at /= part
        if _ignored(str(at), True, found):
            return []
    return found


# Patterns --------------------------------------------------------------------------------------------------------


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """A test of relative paths: ``**`` is any folders, ``{a,b}`` either, and a name alone is sought at any depth.

    ``*`` alone is the folder's own entries.
    """
    pattern = pattern.strip().removeprefix("./").replace("**.", "**/*.") or "*"
    if pattern.endswith("/"):
        pattern += "**"
    if "/" not in pattern and pattern not in ("*", "**"):
        pattern = f"**/{pattern}"
    choices = [tuple(choice.split("/")) for choice in _unbraced(pattern)]
    return lambda path: any(_matches(tuple(path.rstrip("/").split("/")), parts) for parts in choices)


def _unbraced(pattern: str) -> list[str]:
    braces = _BRACES.search(pattern)
    if not braces:
        return [pattern]
    head, tail = pattern[: braces.start()], pattern[braces.end() :]
    return [whole for choice in braces[1].split(",") for whole in _unbraced(head + choice + tail)]


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(parts)
        return any(_matches(parts[at:], pattern[1:]) for at in range(len(parts)))
    return bool(parts) and _segment(pattern[0])(parts[0]) is not None and _matches(parts[1:], pattern[1:])


@functools.lru_cache(256)
def _segment(pattern: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(translate(pattern)).match
