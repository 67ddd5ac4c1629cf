"""What goes wrong with a server, in words: why it is not there, what a failed call may have done."""

from __future__ import annotations

from .signin import Unsigned
from .stdio import StartError, Tail

__all__ = ["Ended", "GaveUp", "Newer", "lost", "refused", "session_lost", "speaks_newer", "why"]


class GaveUp(Exception):
    """The start took too long."""


class Ended(Exception):
    """The server is gone."""


class Newer(Exception):
    """The server does not know the handshake of the older revisions."""


def why(error: BaseException, tail: Tail, limit: float) -> str:
    """What ended the server or kept it from starting within ``limit`` seconds, in a sentence."""
    error = _leaf(error)
    told = f"; it said: {tail.line}" if tail.line else ""
    if isinstance(error, GaveUp):
        return f"gave up after {limit:g} s; raise CUMULUS_MCP_START_TIMEOUT if it needs longer{told}"
    if isinstance(error, StartError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name == "mcp":
        return "the package mcp is not installed: pip install mcp"
    if isinstance(error, Unsigned):
        return str(error)
    if "HTTP 401" in tail.line or type(error).__name__.startswith("OAuth"):
        reason = f"{type(error).__name__}: {str(error)[:300]}" if type(error).__name__.startswith("OAuth") else ""
        told = "; ".join(part for part in (tail.line, reason) if part)
        return f"it wants a sign-in, and none came about ({told}). Check its entry, or put a token into its headers"
    if isinstance(error, Ended) or tail.exit_code is not None:
        return f"it ended{tail.ending}{told}"
    return f"{type(error).__name__}: {error}{told}" if str(error) else f"{type(error).__name__}{told}"


def lost(name: str, tail: Tail) -> str:
    """A call during which the server ended."""
    return (
        f"server {name} ended{tail.ending} during this call, which may have had its effects: check them before you "
        "repeat it. The next call starts the server again." + (f" It said: {tail.line}" if tail.line else "")
    )


def refused(name: str, error: Exception) -> str:
    """A call that the server answered with an error, or with nothing that is a result."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import URL_ELICITATION_REQUIRED

    if not isinstance(error, MCPError):
        return f"server {name} answered with something that is no result: {type(error).__name__}: {str(error)[:500]}"
    if error.code == URL_ELICITATION_REQUIRED and isinstance(error.data, dict):
        pages = [f"{page.get('url')} ({page.get('message')})" for page in error.data.get("elicitations") or ()]
        return f"server {name} needs the person to open {', '.join(pages)} first. Tell them, then call again."
    return f"server {name} refused the call: {error.message} ({error.code})"


def session_lost(error: Exception) -> bool:
    """Whether the connection is gone for good."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED

    return isinstance(error, MCPError) and (error.code == CONNECTION_CLOSED or error.message == "Session terminated")


def speaks_newer(error: BaseException) -> bool:
    """Whether a server that refused the older handshake may know the newer one."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

    first = _leaf(error)
    codes = (UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND, INVALID_PARAMS, INVALID_REQUEST)
    return isinstance(first, MCPError) and first.code in codes


def _leaf(error: BaseException) -> BaseException:
    """The first fault within groups of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
