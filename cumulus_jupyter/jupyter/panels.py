"""Panels as ipywidgets: text is one piece of HTML, inputs are alive and touch what the person allowed, nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import threading
import time
from collections.abc import Callable
from itertools import groupby
from typing import Any

import ipywidgets as w
from traitlets import TraitError

from ..tools.panel_check import walk
from ..tools.panel_live import is_allowed_now, sets_plain_value
from .panels_html import card_head, fragment, panel_classes, panel_style, stack_classes
from .panels_run import NbOutput, run_function, shown

__all__ = ["PanelWidget"]

Node = dict[str, Any]
_INPUTS = ("Slider", "Select", "Toggle", "TextInput", "Button", "Output")
_TOGETHER, _RECENT, _SETTLE, _QUIET = 0.03, 1.0, 0.3, 0.7
"""Seconds: changes so close are one; a click so soon behind a change waits so long for what it overtook; a panel that
long at rest is stored as it stands."""


class PanelWidget:
    """The live display of one panel, made on the thread of the kernel's loop.

    Parameters
    ----------
    panel
        As ``present_ui`` keeps it, its texts made visible. Its inputs live where they were allowed in this process.
    shell
        Whose variables and function they touch.
    redact
        Takes secrets out of the function's outputs.
    changed
        Called when the panel has come to rest after a change.
    styled
        The front end has no style sheet of ours: bring it along.
    """

    def __init__(
        self,
        panel: Node,
        shell: Any,
        *,
        redact: Callable[[Any], Any] = lambda value: value,
        changed: Callable[[], None] = lambda: None,
        styled: bool = False,
    ) -> None:
        self._panel, self._shell, self._redact, self._told = panel, shell, redact, changed
        live = panel.get("live", {}) if is_allowed_now(panel) else {}
        self._variables: list[str] = live.get("variables", [])
        self._function: str = live.get("function") or ""
        self._alive = bool(live)
        self._loop, self._context = asyncio.get_running_loop(), contextvars.copy_context()
        self._values: dict[str, Any] = {}
        self._controls: dict[str, list[w.Widget]] = {}
        self._mirrors_on = 0
        self._outputs: list[NbOutput] = []
        self._output: w.Output | None = None
        self._run_timer: asyncio.TimerHandle | None = None
        self._rest_timer: asyncio.TimerHandle | None = None
        self._changed_at = 0.0
        self._closed = False
        style = [w.HTML(f"<style>{panel_style()}</style>", layout={"display": "none"})] if styled else []
        self.widget = _box(w.VBox([*style, *self._column(panel["root"])]), panel_classes(panel))
        if self._function:
            self._run()
        _keep(shell, self)

    @property
    def bundle(self) -> dict[str, Any]:
        """The panel as a widget view, to be shown beside its static twin."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return {"application/vnd.jupyter.widget-view+json": view}

    def root(self) -> list[Node]:
        """The panel's nodes with the values and outputs that they have now."""
        root: list[Node] = copy.deepcopy(self._panel["root"])
        for _, node, _ in walk(root):
            if node.get("variable") in self._values:
                node["value"] = self._values[node["variable"]]
            elif node["component"] == "Output" and self._outputs:
                node["shown"] = shown(self._outputs)
        return root

    def close(self) -> None:
        """Take the panel away: nothing touches the kernel any more."""
        self._closed = True
        for timer in (self._run_timer, self._rest_timer):
            if timer:
                timer.cancel()
        _close(self.widget)

    # Drawing -----------------------------------------------------------------------------------------------------

    def _column(self, nodes: list[Node]) -> list[w.Widget]:
        """Nodes below each other; those without inputs are one piece of HTML."""
        widgets: list[w.Widget] = []
        for alive, group in groupby(nodes, key=self._is_alive):
            part = list(group)
            widgets += map(self._widget, part) if alive else [w.HTML(fragment(part))]
        return widgets

    def _is_alive(self, node: Node) -> bool:
        return self._alive and any(each["component"] in _INPUTS for _, each, _ in walk([node]))

    def _widget(self, node: Node) -> w.Widget:
        kind = node["component"]
        if kind == "Card":
            head, children = card_head(node)
            return _box(w.VBox([*([w.HTML(head)] if head else []), *self._column(children)]), "cu-p-card")
        if kind == "Stack" and node["direction"] == "horizontal":
            parts = [self._widget(n) if self._is_alive(n) else w.HTML(fragment([n])) for n in node["children"]]
            return _box(w.HBox(parts), stack_classes(node))
        if kind == "Stack":
            return _box(w.VBox(self._column(node["children"])), stack_classes(node))
        if kind == "Output":
            self._output = _box(w.Output(), "cu-p-output")
            return self._output
        if kind == "Button":
            button = w.Button(description=node["label"])
            button.on_click(lambda _: self._on_loop(self._clicked))
            return button
        return self._input(node)

    def _input(self, node: Node) -> w.Widget:
        name = node["variable"]
        value = self._values[name] = _start(node, self._shell.user_ns.get(name))
        self._shell.user_ns[name] = value
        named = {"description": node.get("label") or name, "style": {"description_width": "initial"}}
        control = _CONTROLS[node["component"]](node, value, named)
        self._controls.setdefault(name, []).append(control)
        control.observe(lambda change: self._set(name, change["new"], node["run"]), "value")
        return _box(control, "cu-p-live")

    # Living ------------------------------------------------------------------------------------------------------

    def _on_loop(self, function: Callable[..., None], *values: Any) -> None:
        # A widget's callback may come on any thread, and never with this cell's context.
        self._loop.call_soon_threadsafe(function, *values, context=self._context)

    def _set(self, name: str, value: Any, run: bool) -> None:
        if self._mirrors_on != threading.get_ident():
            self._on_loop(self._take, name, value, run)

    def _mirror(self, name: str, value: Any) -> None:
        """Show a variable's value in its other inputs too, as far as they can; that sets nothing."""
        self._mirrors_on = threading.get_ident()
        for control in self._controls[name]:
            with contextlib.suppress(TraitError):
                control.value = value
        self._mirrors_on = 0

    def _take(self, name: str, value: Any, run: bool) -> None:
        if self._closed:
            return
        self._shell.user_ns[name] = self._values[name] = value
        self._mirror(name, value)
        self._changed_at = time.monotonic()
        if run and self._function:
            self._run_in(_TOGETHER)
        else:
            self._come_to_rest()

    def _clicked(self) -> None:
        recent = time.monotonic() < self._changed_at + _RECENT
        self._run_in(_SETTLE if recent else _TOGETHER)

    def _run_in(self, seconds: float) -> None:
        if self._run_timer is None and not self._closed:
            self._run_timer = self._loop.call_later(seconds, self._run)

    def _run(self) -> None:
        self._run_timer = None
        output = self._output
        if output is None:
            return
        output.add_class("cu-p-busy")
        self._outputs = self._redact(run_function(self._shell, self._function, self._variables))
        output.outputs = tuple(self._outputs)
        output.remove_class("cu-p-busy")
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        if self._rest_timer:
            self._rest_timer.cancel()
        self._rest_timer = self._loop.call_later(_QUIET, self._told)


def _start(node: Node, present: Any) -> Any:
    """What an input shows first: the variable's value where it fits, else the panel's, else the least."""
    kind = node["component"]
    if kind == "Slider":
        low, high = node["min"], node["max"]
        fits = isinstance(present, int | float) and not isinstance(present, bool) and low <= present <= high
        value: Any = present if fits else node.get("value", low)
        whole = all(isinstance(each, int) for each in (low, high, node.get("step", 1)))
        return int(value) if whole else float(value)
    if kind == "Select":
        options = node["options"]
        return present if sets_plain_value(present) and present in options else node.get("value", options[0])
    if kind == "Toggle":
        return present if isinstance(present, bool) else node.get("value", False)
    return present if isinstance(present, str) and len(present) <= 500 else node.get("value", "")


def _slider(node: Node, value: Any, named: Node) -> w.Widget:
    low, high = node["min"], node["max"]
    if isinstance(value, int):
        return w.IntSlider(value, min=low, max=high, step=node.get("step", 1), **named)
    step = float(node.get("step", (high - low) / 100))
    text = f"{step:.10f}".rstrip("0")
    decimals = min(max(len(text.partition(".")[2]), 0), 6)
    return w.FloatSlider(value, min=low, max=high, step=step, readout_format=f".{decimals}f", **named)


def _select(node: Node, value: Any, named: Node) -> w.Widget:
    return w.Dropdown(options=[(str(each), each) for each in node["options"]], value=value, **named)


def _text(node: Node, value: Any, named: Node) -> w.Widget:
    return w.Text(value, placeholder=node.get("placeholder", ""), continuous_update=False, **named)


_CONTROLS: dict[str, Callable[[Node, Any, Node], w.Widget]] = {
    "Slider": _slider,
    "Select": _select,
    "Toggle": lambda node, value, named: w.Checkbox(value, indent=False, **named),
    "TextInput": _text,
}


def _box(widget: w.Widget, classes: str) -> w.Widget:
    for name in classes.split():
        widget.add_class(name)
    return widget


def _close(widget: w.Widget) -> None:
    for child in getattr(widget, "children", ()):
        _close(child)
    widget.close()


# A cell that runs again ------------------------------------------------------------------------------------------

_by_cell: dict[str, list[PanelWidget]] = {}


def _keep(shell: Any, panel: PanelWidget) -> None:
    """Hold a panel until its cell runs again."""
    if _close_rerun not in shell.events.callbacks["pre_run_cell"]:
        shell.events.register("pre_run_cell", _close_rerun)
    if cell := str((shell.get_parent().get("metadata") or {}).get("cellId") or ""):
        _by_cell.setdefault(cell, []).append(panel)


def _close_rerun(info: Any) -> None:
    for panel in _by_cell.pop(getattr(info, "cell_id", None) or "", ()):
        panel.close()
