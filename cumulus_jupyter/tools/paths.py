"""Paths that a model gives: where they lead, whether that is inside the root, and what writing there would touch."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Any

from ..agent.errors import ToolError
from ..agent.tool import Access

__all__ = [
    "file_lock",
    "is_guarded",
    "is_inside",
    "no_such_file",
    "read_access",
    "resolve",
    "resolve_for_writing",
    "write_access",
]

_LONGEST = 4_096
_LONGEST_NAME = 255
_NOT_A_PATH = re.compile(r"^[a-zA-Z][\w+.-]*://|^file:|^\$|^%\w+%|%2e|%2f|\\", re.IGNORECASE)
"""Spellings of URLs, shell variables, escapes and Windows paths: as a POSIX name, surely a mistake."""
_STARTUP = ("sitecustomize.py", "usercustomize.py", "ipython_config.py")
_STARTUP_NAME = re.compile(r".+\.pth|jupyter(_\w+)?_config\.(py|json)")
_STARTUP_FOLDER = re.compile(r"/profile_[^/]+/startup/[^/]+$|/jupyter(_\w+)?_config\.d/[^/]+$", re.IGNORECASE)


def resolve(root: Path, path: str) -> Path:
    """The real, absolute path that ``path`` names; relative ones start at ``root``, ``~`` is the home folder.

    Symlinks are followed, also dangling ones and in the middle, so what comes back is where a read or a write would
    end up. It need not exist.

    Raises
    ------
    ToolError
        The text can't be a path.
    """
    if not path.strip():
        raise ToolError("the path is empty; give one relative to the root, or absolute")
    if "\0" in path:
        raise ToolError("the path holds a NUL character, which no file name can; nothing was read or written")
    encoded = os.fsencode(path) if _encodable(path) else b"x" * (_LONGEST + 1)
    if len(encoded) > _LONGEST or any(len(part) > _LONGEST_NAME for part in encoded.split(b"/")):
        raise ToolError(f"the path is too long or can't be encoded: {path[:80]!r}…")
    given = os.path.join(root, os.path.expanduser(path))
    if os.name == "posix" and _NOT_A_PATH.search(path) and not os.path.lexists(given):
        raise ToolError(
            f"there is no file {path!r}. A path is taken as it stands: no URL, variable, escape or backslash is "
            "understood in it."
        )
    return Path(os.path.realpath(given))


def _encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def is_inside(root: Path, real: Path) -> bool:
    """Whether a resolved path is the root or beneath it."""
    return real.is_relative_to(os.path.realpath(root))


def resolve_for_writing(root: Path, path: str) -> Path:
    """:func:`resolve`, refused outside the root.

    Raises
    ------
    ToolError
        The text can't be a path, or it leads outside.
    """
    real = resolve(root, path)
    if not is_inside(root, real):
        raise ToolError(f"refused: {path!r} is {real}, outside the root {root}. Write inside the root.")
    return real


def is_guarded(root: Path, path: str) -> bool:
    """Whether the file takes effect by being there: a dot-file or in a dot-folder, or a start-up file.

    Both the name that was given and the one that it resolves to count.
    """
    base = os.path.realpath(root)
    given = os.path.normpath(os.path.join(base, os.path.expanduser(path)))
    return any(_guards(Path(place), base) for place in (given, os.path.realpath(given)))


def _guards(path: Path, base: str) -> bool:
    parts = path.relative_to(base).parts if path.is_relative_to(base) else path.parts[-1:]
    name = path.name.lower()
    return (
        any(part.startswith(".") for part in parts)
        or name in _STARTUP
        or _STARTUP_NAME.fullmatch(name) is not None
        or _STARTUP_FOLDER.search(path.as_posix()) is not None
        or str(path) == os.environ.get("PYTHONSTARTUP")
    )


def read_access(root: Path, arguments: dict[str, Any]) -> Access:
    """Reading ``arguments["path"]``: free inside the root, and in the person's and our own skills."""
    path = arguments.get("path", ".")
    if not isinstance(path, str):
        return Access.FREE  # refused when the arguments are checked
    real = resolve(root, path)
    if is_inside(root, real):
        return Access.FREE
    from .skills import in_skill

    return Access.FREE if in_skill(real) else Access.RUN


def write_access(root: Path, arguments: dict[str, Any]) -> Access:
    """Writing ``arguments["path"]``.

    Raises
    ------
    ToolError
        It leads outside the root.
    """
    path = arguments.get("path", "")
    if not isinstance(path, str) or not path:
        return Access.EDIT
    resolve_for_writing(root, path)
    return Access.GUARDED if is_guarded(root, path) else Access.EDIT


def file_lock(root: Path, arguments: dict[str, Any]) -> list[str]:
    """The lock of the file that ``arguments["path"]`` names."""
    path = arguments.get("path")
    if not isinstance(path, str):
        return []
    return [f"file:{resolve(root, path)}"]


def no_such_file(real: Path) -> ToolError:
    """The error for a file that isn't there, with the names that were probably meant."""
    folder = real.parent
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except NotADirectoryError:
        return ToolError(f"there is no file {real}: {folder} is a file, not a folder")
    except OSError:
        return ToolError(f"there is no file {real}: its folder {folder} does not exist either. Look with list_files.")
    near = difflib.get_close_matches(real.name, names[:5_000], n=3, cutoff=0.5)
    hint = f" Did you mean {', '.join(near)}?" if near else " Look with list_files or search_files."
    return ToolError(f"there is no file {real}.{hint}")
