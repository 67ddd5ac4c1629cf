"""What a tool is: a name, a schema, a function, and what the harness must know to run it well."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .messages import Answer, Ask, Image, ToolCall

if TYPE_CHECKING:
    from .events import Event
    from .host import Host
    from .toolbox import Toolbox
    from .transcript import Transcript

__all__ = ["DEFAULT_CAP", "DEFAULT_TIMEOUT", "LARGE_CAP", "Access", "Output", "Tool", "ToolContext"]

DEFAULT_CAP = 2_000
"""Characters of a result that reach the model where a tool declares nothing else."""
LARGE_CAP = 30_000
DEFAULT_TIMEOUT = 120.0
"""Seconds that a call is waited for."""


class Access(IntEnum):
    """What a call touches, from harmless to grave; approval modes draw their line between these."""

    FREE = 0
    EDIT = 1
    """Edits of files and cells: undoable."""
    RUN = 2
    """Runs code or reaches outside the root."""
    GUARDED = 3
    """Files that take effect by being there: dot-files, ``.mcp.json``, start-up files."""


@dataclass(slots=True)
class Output:
    """What a tool gives back: ``content`` for the model, ``details`` for the screen and the transcript.

    ``content`` is a text, or anything that JSON can hold, or a list with :class:`Image` among its texts. ``events``
    are told to the outside before the call's end.
    """

    content: Any
    details: dict[str, Any] = field(default_factory=dict)
    ok: bool = True
    events: Sequence[Event] = ()

    def parts(self) -> list[str | Image]:
        """The content as texts and images."""
        from .windowing import as_text

        if isinstance(self.content, list) and any(isinstance(part, Image) for part in self.content):
            return [part if isinstance(part, Image) else as_text(part) for part in self.content]
        return [as_text(self.content)]


@dataclass(slots=True)
class ToolContext:
    """What a running call may use.

    ``root`` is the active root: relative paths start there. ``progress`` shows a line to the person while the call
    runs.
    """

    call: ToolCall
    root: Path
    host: Host
    toolbox: Toolbox
    transcript: Transcript
    progress: Callable[[str], None]


Run = Callable[[ToolContext, dict[str, Any]], Awaitable[Output]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool:
    """A tool that an agent can call.

    Parameters
    ----------
    name, description
        What the model sees. The description's first line is what a deferred tool is listed with.
    schema
        Gives the JSON schema of the arguments; called when first needed.
    run
        Does the work. Raise :class:`~.errors.ToolError` for what the model should read and mend.
    deferred
        Listed by name only until ``tool_search`` fetches it.
    cap
        Characters of its result that reach the model.
    timeout
        Seconds that a call is waited for, or a function of its arguments; None waits for ever.
    access
        What a call touches, from its root and arguments. It raises :class:`~.errors.ToolError` to refuse the call,
        whatever a person would say.
    locks
        Names of what a call needs for itself; calls that share a name run one after another, in call order.
    ask
        Makes the call a question to the person: ``ask`` gives the questions, ``run`` is not used, ``answered`` turns
        the person's answer into the result.
    polling
        Repeating such a call with the same result is not a sign of a stuck model.
    """

    name: str
    description: str
    schema: Callable[[], dict[str, Any]]
    run: Run
    deferred: bool = False
    cap: int = DEFAULT_CAP
    timeout: float | Callable[[dict[str, Any]], float | None] | None = DEFAULT_TIMEOUT
    access: Callable[[Path, dict[str, Any]], Access] = lambda root, arguments: Access.FREE
    locks: Callable[[Path, dict[str, Any]], Iterable[str]] = lambda root, arguments: ()
    ask: Callable[[ToolCall], Ask] | None = None
    answered: Callable[[Ask, Answer], Output] | None = None
    polling: bool = False
    preview: Callable[[dict[str, Any]], str] | None = None
    """What a person must see to decide on a call with these arguments; by default the arguments themselves."""
    aliases: tuple[str, ...] = ()
    """Other names that a model may call it by."""
    title: str = ""
    """What a person reads where the name is not what they know the tool by."""

    def seconds(self, arguments: dict[str, Any]) -> float | None:
        """How long a call with these arguments is waited for."""
        return self.timeout(arguments) if callable(self.timeout) else self.timeout

    @property
    def summary(self) -> str:
        """The description's first line."""
        return self.description.strip().splitlines()[0] if self.description.strip() else ""
