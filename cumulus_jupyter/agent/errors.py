"""The errors of cumulus_jupyter, one tree.

    CumulusError
    ├── AgentError         a run failed (under ``--strict``: ended in any way but ``done``)
    ├── AgentStopped       the person stopped the run
    ├── SettingsError      an option, a setting, a model name or a key is wrong or missing
    ├── ProviderError      a model's server refused, failed or could not be reached
    ├── ToolError          a tool could not do what was asked: its text is the call's result
    ├── TranscriptError    a stored conversation can't be opened, read or written
    └── BridgeError        the notebook front end did not answer or refused

Refusals, cut replies and turn limits are ways to end, not errors: see :class:`~.messages.Status`.
"""

from __future__ import annotations

__all__ = [
    "AgentError",
    "AgentStopped",
    "BridgeError",
    "CumulusError",
    "ProviderError",
    "SettingsError",
    "ToolError",
    "TranscriptError",
]


class CumulusError(Exception):
    """Base of all our errors. Its text is written for the person: what happened and what to do next."""

    def _render_traceback_(self) -> list[str]:
        """One line in IPython instead of a traceback through our own frames."""
        return [f"{type(self).__name__}: {self}"]


class AgentError(CumulusError):
    """A run failed."""


class AgentStopped(CumulusError):
    """The person stopped the run; its history stays valid."""


class SettingsError(CumulusError, ValueError):
    """An option, a setting, a model name or a key is wrong or missing."""


class ToolError(CumulusError):
    """A tool could not do what was asked. Its text becomes the call's result, so it says what to do instead."""


class TranscriptError(CumulusError):
    """A stored conversation can't be opened, read or written."""


class BridgeError(CumulusError):
    """The notebook front end did not answer, or refused."""


class ProviderError(CumulusError):
    """A model's server refused, failed or could not be reached.

    Parameters
    ----------
    message
        For the person: what the server said and what to do.
    status
        HTTP status, also for errors inside a 200 stream (529 for "overloaded"); None where there was no reply.
    retryable
        Whether the same request may be sent again.
    retry_after
        Seconds that the server asked to wait, if it did.
    ceiling
        The largest reply in tokens, where the server refused a larger one: ask again with at most that.
    overflow
        The conversation itself is too long for the model: shorten it, then ask again.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        ceiling: int | None = None,
        overflow: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.ceiling = ceiling
        self.overflow = overflow
