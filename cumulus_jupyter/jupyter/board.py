"""Blocks as displays: each shown once it is there, updated at most ten times a second, never sent again when closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

from ..agent.messages import Answer, Ask
from .twins import html_twin, markdown_twin, plain_twin

__all__ = ["MIME", "Block", "Board", "Form", "LivePanel", "Publisher", "Submit"]

MIME = "application/vnd.cumulus.agent+json"
_INTERVAL = 0.1
_LONGEST_PAUSE = 0.5

Submit = Callable[[Answer], None]


class Publisher(Protocol):
    """How bundles reach the front end."""

    def publish(self, bundle: dict[str, Any], display_id: str, *, update: bool) -> None:
        """Show a bundle, or replace the one shown under that id."""
        ...

    def form(self, ask: Ask, submit: Submit) -> Form | None:
        """A live form for a question; None where widgets can't live."""
        ...

    def panel(
        self, panel: dict[str, Any], redact: Callable[[Any], Any], changed: Callable[[], None], *, styled: bool
    ) -> LivePanel:
        """A live panel; ``changed`` is called when it has come to rest, ``styled`` brings our style sheet along."""
        ...


class Live(Protocol):
    """A live widget."""

    @property
    def bundle(self) -> dict[str, Any]:
        """Its widget view, to be shown beside the static twin."""
        ...

    def close(self) -> None:
        """Take the widget away."""
        ...


class Form(Live, Protocol):
    """A live form."""

    @property
    def draft(self) -> list[tuple[str, str]]:
        """What was chosen and typed so far, as headers with texts."""
        ...

    def expire(self) -> None:
        """Say that the run went on, and that an answer goes before the next prompt."""
        ...


class LivePanel(Live, Protocol):
    """A live panel."""

    def root(self) -> list[dict[str, Any]]:
        """Its nodes as they stand."""
        ...


@dataclass(slots=True)
class Block:
    """One display: the data of its bundle, and whether it was shown."""

    id: str
    data: dict[str, Any]
    shown: bool = False
    form: Form | None = None
    widget: LivePanel | None = None
    bare: bool = False
    """Its rich text twins are still to come."""
    streamed: int = 0
    """Characters of the stream that it stands for, line ends that it does not show included."""

    @property
    def open(self) -> bool:
        """Whether it may still change."""
        return bool(self.data["state"] == "open")


class Board:
    """The blocks of a run, in order.

    Parameters
    ----------
    publisher
        Where bundles go.
    common
        Fields that each bundle carries.
    watched
        Somebody looks on: blocks are shown while they are open. Otherwise each is shown once, when it is whole.
    twins
        Open blocks carry their text twins too, for front ends without our renderer.
    redact
        Takes secrets out of a block before it is shown.
    hidden
        Which blocks are not shown at all.
    prepare
        Called before each flush; gives the seconds that the next one should wait at least.
    """

    def __init__(
        self,
        publisher: Publisher,
        common: dict[str, Any],
        *,
        watched: bool,
        twins: Callable[[], bool],
        redact: Callable[[Any], Any],
        hidden: Callable[[Block], bool],
        prepare: Callable[[], float],
    ) -> None:
        self._publisher, self._common = publisher, common
        self.watched, self.twins, self.redact = watched, twins, redact
        self._hidden, self._prepare = hidden, prepare
        self.blocks: list[Block] = []
        self._dirty: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._free_at = self._hurried_at = 0.0
        self._settling = not watched

    def new(self, kind: str, **data: Any) -> Block:
        """Add an open block; it is shown when it is touched."""
        id = f"{self._common['run']}-{len(self.blocks) + 1}"
        block = Block(id, {**self._common, "block": id, "kind": kind, "state": "open"} | data)
        self.blocks.append(block)
        return block

    def touch(self, block: Block) -> None:
        """Have a block published, now if nothing was for a while."""
        self._dirty.add(block.id)
        if self._timer is not None:
            return
        wait = self._free_at - time.monotonic()
        if wait <= 0:
            self.flush()
        else:
            self._timer = asyncio.get_running_loop().call_later(wait, self._late)

    def mark(self, block: Block) -> None:
        """Have a block published with the next flush."""
        self._dirty.add(block.id)

    def hurry(self) -> None:
        """Let the next touch publish at once; between two hurries the pause is kept."""
        now = time.monotonic()
        if now >= self._hurried_at + _INTERVAL:
            self._hurried_at = self._free_at = now
            self._unschedule()

    def _unschedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def flush(self) -> None:
        """Publish what has changed, in the order of the blocks."""
        self._unschedule()
        wanted = self._prepare()
        ready = self.blocks if self.watched else takewhile(lambda block: not block.open, self.blocks)
        dirty = [block for block in ready if block.id in self._dirty]
        self._dirty.difference_update(block.id for block in dirty)
        sent = sum(self.publish(block) for block in dirty)
        self._free_at = time.monotonic() + max(min(_INTERVAL * max(sent, 1), _LONGEST_PAUSE), wanted)

    def settle(self) -> None:
        """Publish what has changed, and the HTML and Markdown twins of all closed blocks: the cell rests.

        Before, they would cost: after each update JupyterLab's table of contents sanitises all HTML of the cell.
        """
        self._dirty.update(block.id for block in self.blocks if block.bare)
        resting, self._settling = self._settling, True
        self.flush()
        self._settling = resting

    def _late(self) -> None:
        self._timer = None
        self.flush()

    def publish(self, block: Block, *, rich: bool = False) -> bool:
        """Publish a block at once, ``rich`` with all its twins; whether there was something to publish."""
        self._dirty.discard(block.id)
        if self._hidden(block) or (not self.watched and block.open):
            return False
        rich = rich or self._settling or block.form is not None or self.twins()
        block.bare = not block.open and not rich
        self._publisher.publish(self.bundle(block, block.data, rich=rich), block.id, update=block.shown)
        block.shown = True
        return True

    def bundle(self, block: Block, data: dict[str, Any], *, rich: bool) -> dict[str, Any]:
        """A block's MIME bundle with these data; ``rich`` adds HTML and Markdown, for readers without our renderer."""
        data = self.redact(data)
        bundle: dict[str, Any] = {MIME: data}
        for live in (block.form, block.widget):
            if live:
                bundle |= live.bundle
        bundle["text/plain"] = plain_twin(data) if rich or not block.open else ""
        if rich:
            bundle |= {"text/html": html_twin(data)} | markdown_twin(data)
        return bundle

    def form(self, ask: Ask, submit: Submit) -> Form | None:
        """A live form, where somebody looks on and widgets can live."""
        return self._publisher.form(ask, submit) if self.watched else None

    def panel(self, panel: dict[str, Any], changed: Callable[[], None]) -> LivePanel | None:
        """A live panel, where somebody looks on."""
        return self._publisher.panel(panel, self.redact, changed, styled=self.twins()) if self.watched else None
