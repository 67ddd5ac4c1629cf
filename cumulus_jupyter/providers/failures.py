"""What went wrong at a model's server, in sentences for a person."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ..agent.errors import ProviderError
from ..agent.redact import Redactor
from .limits import Limits
from .sse import decode_object

__all__ = ["SILENCE", "Refusal", "Target", "incomplete", "network_error", "refused", "stream_error"]

SILENCE = 240.0
"""Seconds that a server may stay silent."""
CONNECT = 15.0

_STATUS = {
    "overloaded_error": 529,
    "overloaded": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "timeout_error": 504,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "billing_error": 402,
    "not_found_error": 404,
    "model_not_found": 404,
    "invalid_request_error": 400,
    "request_too_large": 413,
}
_SPENT = re.compile(
    r"insufficient_quota|exceeded your current quota|spend_limit|insufficient balance|credit balance|billing"
    r"|monthly included credits|payment required|out of credits",
    re.IGNORECASE,
)
_PASSING = re.compile(
    r"overload|rate.?limit|too many requests|time.?out|timed out|try again|unavailable|upstream|connection|queue"
    r"|capacity|internal (?:server )?error",
    re.IGNORECASE,
)
_NO_TOOLS = re.compile(
    r"does not support (?:tools|tool use|tool calling|function)|no endpoints found that support tool"
    r"|tools param requires|auto.? tool choice requires"
    r"|tools with reasoning_effort are not supported|does not support 'none'|'none' is not supported",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model.{0,80}(?:not found|does not exist|not exist|not supported|unknown|not available|no longer|deprecated)"
    r"|(?:unknown|no such|invalid|unsupported) model|model_not_found|not_found_error|try pulling it",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go. ``key_name`` is the environment variable that the key came from, empty for none."""

    name: str
    model: str
    url: str
    host: str
    key_name: str = ""
    key: str = field(default="", repr=False)


@dataclass(slots=True)
class Refusal(Exception):
    """A response that is no success: its status, headers and body."""

    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def text(self) -> str:
        """What the server said, without its JSON around it; an error's type and code are part of it."""
        return _said(decode_object(self.body.encode("utf-8", "replace")) or self.body)


def refused(target: Target, refusal: Refusal, limits: Limits | None) -> ProviderError:
    """The error for a response that is no success."""
    status, text = refusal.status, refusal.text
    said = _short(text) or "no reason given"
    if limits is not None and limits.ceiling:
        return ProviderError(
            f"{target.name} writes at most {limits.ceiling:,} tokens a reply here.",
            status=status,
            ceiling=limits.ceiling,
        )
    if limits is not None:
        return ProviderError(
            f"The conversation is too long for {target.name}: {said}. Start a new one (--new), or undo a few turns.",
            status=status,
            overflow=True,
        )
    spent = _SPENT.search(text) is not None
    stays = spent or status == 501 or _NO_TOOLS.search(text) or refusal.headers.get("x-should-retry") == "false"
    passing = not stays and (status in (408, 409, 429) or status >= 500)
    return ProviderError(
        _sentence(target, status, said, text, spent=spent),
        status=status,
        retryable=passing,
        retry_after=_retry_after(refusal.headers) if passing else None,
    )


def _sentence(target: Target, status: int, said: str, text: str, *, spent: bool) -> str:
    host, key = target.host, target.key_name or "the key"
    if spent or status == 402:
        return (
            f"{host} says that its limit of money or quota is used up: {said}. See your account's billing page there."
        )
    if status == 401:
        return f"{host} did not accept the key: {said}. Check the environment variable {key}{_DEMO}"
    if status == 403:
        return f"{host} does not allow this: {said}. Check that the key in {key} may use {target.model}{_DEMO}"
    if _NO_TOOLS.search(text):
        return f"{target.model} can't call tools at {host}: {said}. Choose a model that can, with -m."
    if _NO_MODEL.search(text) and status in (400, 403, 404, 422):
        return f"{host} has no model {target.model!r}: {said}. `%agent models` lists the models that there are."
    if status == 404:
        return f"{target.url} has no such address: {said}. It should be the API's base, http://localhost:11434/v1 say."
    if status == 429:
        return f"{host} asks for slower requests (HTTP 429): {said}"
    if status == 529:
        return f"{host} is overloaded: {said}"
    if status >= 500 or status in (408, 409):
        return f"{host} has trouble (HTTP {status}): {said}"
    if status == 413:
        return f"The request is too large for {host}: {said}. Start a new conversation (--new) or show it less."
    return f"{host} refused the request (HTTP {status}): {said}. `%agent show` shows what was sent."


_DEMO = "; `-m demo` needs none."


def stream_error(target: Target, error: Any) -> ProviderError:
    """The error for an ``error`` value inside a stream that began well."""
    fields = error if isinstance(error, dict) else {}
    code = fields.get("code")
    status = int(str(code)) if re.fullmatch("[45][0-9][0-9]", str(code)) else None
    for word in (fields.get("type"), code, error if isinstance(error, str) else None):
        status = status or _STATUS.get(str(word))
    text = Redactor([target.key])(_said({"error": error}))
    if status is None and _PASSING.search(text):
        status = 503
    if status is None:
        return ProviderError(
            f"{target.host} broke the reply off: {_short(text)}. Try again or choose another model with -m."
        )
    return refused(target, Refusal(status, {}, text), None)


def network_error(target: Target, error: BaseException) -> ProviderError:
    """The error for a connection that could not be made, or died."""
    chain = list(_causes(error))
    kinds = {type(cause).__name__ for cause in chain}
    text = " ".join(str(cause) for cause in chain).lower()
    if kinds & {"ConnectTimeout", "PoolTimeout"}:
        return ProviderError(f"{target.url} could not be reached within {CONNECT:.0f} s.", retryable=True)
    if kinds & {"ReadTimeout", "WriteTimeout", "APITimeoutError"}:
        return ProviderError(f"{target.host} was silent for {SILENCE:.0f} s.", retryable=True)
    if any(isinstance(cause, ssl.SSLError) for cause in chain) or "certificate" in text:
        return ProviderError(
            f"No secure connection to {target.url}: {_short(str(chain[-1]))}. Check the address, the clock, and "
            "whether a proxy stands between (SSL_CERT_FILE names its certificate)."
        )
    if any(isinstance(cause, ConnectionRefusedError) for cause in chain) or "refused" in text:
        return ProviderError(f"Nothing answers at {target.url}. Is the server running?", retryable=True)
    if any(isinstance(cause, socket.gaierror) for cause in chain) or "name or service" in text:
        return ProviderError(
            f"There is no host of the name in {target.url}, or no network. Check the address and the connection.",
            retryable=True,
        )
    if "connecterror" in {kind.lower() for kind in kinds}:
        return ProviderError(f"{target.url} could not be reached: {_short(str(chain[-1]))}", retryable=True)
    return ProviderError(f"The connection to {target.host} broke before the reply was complete.", retryable=True)


def incomplete(target: Target, reason: str) -> ProviderError:
    """The error for a reply that is not whole, or that can't be meant."""
    return ProviderError(f"The reply of {target.host} is incomplete: {reason}.", retryable=True)


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        cause = todo.pop()
        if cause is None or cause in found:
            continue
        found.append(cause)
        todo += [cause.__context__, cause.__cause__, *(getattr(cause, "exceptions", ()))]
    return found


def _said(value: Any) -> str:
    """The words of an error in any of the shapes that servers give it."""
    if isinstance(value, str):
        return _page_title(value) if value.lstrip().startswith("<") else value.strip()
    if not isinstance(value, dict):
        return "" if value is None else str(value)
    inner = value.get("error")
    if isinstance(inner, (dict, str)) and inner:
        return _said(inner)
    message = next((value[key] for key in ("message", "detail", "msg", "error_msg") if value.get(key)), None)
    details = value.get("details")
    words = [value.get("type"), value.get("code"), details.get("error_code") if isinstance(details, dict) else None]
    codes = [str(word) for word in words if word and not str(word).isdigit() and str(word) != "error"]
    text = message if isinstance(message, str) else str(message or value.get("metadata") or "")
    return f"{text} ({', '.join(dict.fromkeys(codes))})" if codes else text or str(value)


def _page_title(html: str) -> str:
    title = re.search(r"<title[^>]*>(.*?)</title>", html, re.IGNORECASE | re.DOTALL)
    return f"a web page came instead of an answer ({title[1].strip() if title else 'without a title'})"


def _short(text: str) -> str:
    """On one line, a few hundred characters at most, without the final full stop."""
    line = " ".join(text.split())
    return (line if len(line) <= 400 else line[:400] + " …").rstrip(".")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: in milliseconds, in seconds, or until a date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1_000)
        value = headers.get("retry-after")
        if value is None:
            return None
        if re.fullmatch(r"\s*\d+(\.\d+)?\s*", value):
            return float(value)
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
