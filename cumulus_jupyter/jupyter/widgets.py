"""Bundles and forms through IPython's display machinery."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..agent.messages import Ask
from .board import Form, LivePanel, Submit

__all__ = ["KernelPublisher"]


class KernelPublisher:
    """Publishes into the output of the cell whose task calls."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def publish(self, bundle: dict[str, Any], display_id: str, *, update: bool) -> None:
        """Show a bundle, or replace the one shown under that id."""
        self._shell.display_pub.publish(data=bundle, metadata={}, transient={"display_id": display_id}, update=update)

    def form(self, ask: Ask, submit: Submit) -> Form | None:
        """A live form of ipywidgets; they are imported with the first question."""
        from .forms import QuestionForm

        form: Form = QuestionForm(ask, submit)
        return form

    def panel(
        self, panel: dict[str, Any], redact: Callable[[Any], Any], changed: Callable[[], None], *, styled: bool
    ) -> LivePanel:
        """A live panel of ipywidgets."""
        from .panels import PanelWidget

        shown: LivePanel = PanelWidget(panel, self._shell, redact=redact, changed=changed, styled=styled)
        return shown
