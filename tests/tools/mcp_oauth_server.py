"""An MCP server made with the ``mcp`` package that demands OAuth, with its authorization server, on a thread."""

from __future__ import annotations

import secrets
import socket
import threading
import time
import urllib.error
import urllib.request
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl


class Accounts:
    """Signs everybody in who opens the page; notes what was asked of it."""

    def __init__(self) -> None:
        self.resource = ""
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.lives = 3600
        self.signed_in = self.renewed = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = f"code-{secrets.token_hex(16)}"
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        del self.codes[authorization_code.code]
        self.signed_in += 1
        return self._tokens(client.client_id, authorization_code.scopes)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        del self.refresh[refresh_token.token]
        self.renewed += 1
        return self._tokens(client.client_id, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.access.pop(token.token, None)

    def _tokens(self, client_id: str, scopes: list[str]) -> OAuthToken:
        access, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        ends = int(time.time()) + self.lives
        self.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=ends, resource=self.resource
        )
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=self.lives, scope=" ".join(scopes))


class Guarded:
    """The server; ``accounts`` is its authorization server."""

    def __init__(self) -> None:
        self.accounts = Accounts()
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.url = self.accounts.resource = f"{base}/mcp"
        server = MCPServer(
            "guarded",
            auth_server_provider=self.accounts,
            auth=AuthSettings(
                issuer_url=AnyHttpUrl(base),
                resource_server_url=AnyHttpUrl(self.url),
                validate_token_resource=True,
                client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read"]),
                required_scopes=["read"],
            ),
        )

        @server.tool()
        def tell() -> str:
            """Tell all tokens that there are, as a bad server might."""
            return "it says " + " ".join(self.accounts.access)

        config = uvicorn.Config(server.streamable_http_app(), log_level="critical", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(5)


def browse(url: str) -> str:
    """Open the page as a browser does, up to where it leads."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as page:
        return str(page.read().decode())


def browse_to_nowhere(url: str) -> str:
    """The address at which a browser on another machine would end."""

    class Stop(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args: Any) -> None:
            return None

    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({}), Stop).open(url, timeout=10)
    except urllib.error.HTTPError as error:
        return error.headers["location"]
    raise AssertionError("the page led nowhere")
