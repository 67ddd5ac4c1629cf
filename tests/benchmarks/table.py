"""A measured figure beside its anchor from the same run, and the table of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Row", "as_json", "median", "table"]

_HEAD = ("figure", "ours", "anchor", "ratio", "must", "better", "verdict")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Judged is ``ours / anchor``, or ``ours`` itself where there is no anchor, against ``must`` and ``better``; a row
    without bounds is there to be read. ``larger`` says that more is better.
    """

    figure: str
    ours: float
    unit: str
    anchor: float | None = None
    must: float | None = None
    better: float | None = None
    larger: bool = False

    @property
    def judged(self) -> float:
        return self.ours / self.anchor if self.anchor else self.ours

    @property
    def verdict(self) -> str:
        if self._within(self.better):
            return "better"
        if self.must is None:
            return ""
        return "must" if self._within(self.must) else "MISSED"

    def _within(self, bound: float | None) -> bool:
        if bound is None:
            return False
        return self.judged >= bound if self.larger else self.judged <= bound

    def cells(self) -> tuple[str, ...]:
        sign = "≥ " if self.larger else "≤ "
        times = "x" if self.anchor else f" {self.unit}"
        bounds = [f"{sign}{bound:g}{times}" if bound is not None else "" for bound in (self.must, self.better)]
        anchor = f"{_number(self.anchor)} {self.unit}" if self.anchor else ""
        ratio = f"{self.judged:.2f}x" if self.anchor else ""
        return (self.figure, f"{_number(self.ours)} {self.unit}", anchor, ratio, *bounds, self.verdict)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def median(values: Sequence[float]) -> float:
    """The median: single runs on a busy machine say little."""
    return statistics.median(values)


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text."""
    lines = [_HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as JSON values."""
    return [{**asdict(row), "judged": row.judged, "verdict": row.verdict} for row in rows]
