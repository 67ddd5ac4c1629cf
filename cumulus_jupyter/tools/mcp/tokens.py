"""What a sign-in to a server gave, in a file that only its owner may read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...agent.redact import learn

if TYPE_CHECKING:
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

__all__ = ["TokenFile"]

_FOLDER = "mcp-sign-in"


class TokenFile:
    """Tokens and our registration for one server, as the ``mcp`` package stores them; in memory without a folder.

    Parameters
    ----------
    folder
        The person's data folder.
    url, client_id
        The server, and the client that the person's own entry names: others' tokens are never sent.
    signed
        Called when new tokens have come.
    """

    def __init__(self, folder: Path | None, url: str, client_id: str, signed: Callable[[], None]) -> None:
        name = hashlib.sha256(f"{url}\n{client_id}".encode()).hexdigest()[:24]
        self.path = folder / _FOLDER / f"{name}.json" if folder else None
        self.context: OAuthContext | None = None
        self._url, self._signed = url, signed
        self._kept: dict[str, Any] = {}
        self._read_at = 0

    def read(self) -> dict[str, Any]:
        """What is kept: ``client``, ``tokens``, ``expires`` (seconds since 1970), ``server``, ``resource``."""
        with contextlib.suppress(OSError, ValueError):
            if self.path:
                self._read_at = self.path.stat().st_mtime_ns
                kept = json.loads(self.path.read_text(encoding="utf-8"))
                self._kept = kept if isinstance(kept, dict) else {}
        self._learn()
        return self._kept

    def changed(self) -> bool:
        """Another kernel has written since: its tokens are newer, and ours may have been used up by that."""
        with contextlib.suppress(OSError):
            return self.path is not None and self.path.stat().st_mtime_ns != self._read_at
        return False

    @property
    def port(self) -> int:
        """The port that our registration names; 0 where there is none."""
        addresses = (self.read().get("client") or {}).get("redirect_uris") or [""]
        return urlsplit(str(addresses[0])).port or 0

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens, which may have ended."""
        from mcp.shared.auth import OAuthToken

        tokens = self.read().get("tokens")
        with contextlib.suppress(ValueError):
            return OAuthToken.model_validate(tokens) if tokens else None
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep them, with what renewing them takes."""
        ends = time.time() + tokens.expires_in if tokens.expires_in else None
        context = self.context
        server = context.oauth_metadata if context else None
        resource = context.protected_resource_metadata if context else None
        self._write(tokens=_plain(tokens), expires=ends, server=_plain(server), resource=_plain(resource))
        self._signed()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Our registration with the server."""
        from mcp.shared.auth import OAuthClientInformationFull

        client = self.read().get("client")
        with contextlib.suppress(ValueError):
            return OAuthClientInformationFull.model_validate(client) if client else None
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep our registration."""
        self._write(client=_plain(client_info))

    def forget_client(self) -> None:
        """Drop a registration that no longer fits; the tokens stay."""
        self._write(client=None)

    def _write(self, **parts: Any) -> None:
        self._kept = {**self._kept, "url": self._url, **parts}
        self._learn()
        with contextlib.suppress(OSError):  # then it holds for this kernel only
            self._save()

    def _save(self) -> None:
        if self.path is None:
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self.path.with_suffix(f".{secrets.token_hex(4)}")
        # Made with its rights: there is no moment at which others may read it.
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(self._kept, file, indent=1)
        os.replace(beside, self.path)
        self._read_at = self.path.stat().st_mtime_ns

    def _learn(self) -> None:
        tokens, client = self._kept.get("tokens") or {}, self._kept.get("client") or {}
        for value in (tokens.get("access_token"), tokens.get("refresh_token"), client.get("client_secret")):
            learn(str(value or ""))


def _plain(model: Any) -> dict[str, Any] | None:
    return model.model_dump(mode="json", exclude_none=True) if model is not None else None
