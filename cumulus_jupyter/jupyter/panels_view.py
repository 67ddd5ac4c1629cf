"""A run's panels as blocks: each shown once, changed in place."""

from __future__ import annotations

from typing import Any

from .board import Block, Board
from .twins import visible

__all__ = ["Panels"]


class Panels:
    """The panels that a run has shown, on its board."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._blocks: dict[str, Block] = {}

    def show(self, panel: dict[str, Any]) -> None:
        """Show a panel, or put what it became in its place."""
        panel = _visible(self._board.redact(panel))
        block = self._blocks.get(panel["ui_id"])
        if block is None:
            block = self._blocks[panel["ui_id"]] = self._board.new("panel", state="closed")
        old, block.widget = block.widget, self._board.panel(panel, lambda: self._settle(block))
        block.data |= {"ui_id": panel["ui_id"], "summary": panel["summary"], "root": panel["root"]}
        if block.widget:
            block.data["root"] = _visible(block.widget.root())
        self._board.flush()  # what came before stands before it
        self._board.publish(block)
        if old:
            old.close()

    def _settle(self, block: Block) -> None:
        """Keep a live panel's twin as the panel stands.

        Not where our renderer is missing: such a front end would draw the panel anew, under the person's hand.
        """
        if block.widget and not self._board.twins():
            block.data["root"] = _visible(block.widget.root())
            self._board.publish(block, rich=True)


def _visible(value: Any) -> Any:
    """JSON with each text as a reader may see it: without escapes and without controls that reorder text."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [_visible(part) for part in value]
    return {key: _visible(part) for key, part in value.items()} if isinstance(value, dict) else value
