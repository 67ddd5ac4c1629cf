"""The ``mcp`` package's OAuth for one server, set up from its entry and from what an earlier sign-in left."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, ProtectedResourceMetadata
from pydantic import AnyUrl

from ...agent.redact import learn
from .signin import SignIn

__all__ = ["oauth"]

_NAME = "Cumulus Jupyter"


def oauth(way: SignIn) -> OAuthClientProvider:
    """How requests to this server get their token."""
    wanted = way.spec.oauth
    learn(wanted.client_secret)
    provider = _by_credentials(way) if wanted.grant_type == "client_credentials" else _ByPerson(way)
    way.file.context = provider.context
    return provider


def _by_credentials(way: SignIn) -> OAuthClientProvider:
    wanted, url = way.spec.oauth, way.spec.url
    issuer = wanted.issuer or None
    with warnings.catch_warnings():
        # Without an issuer in the entry the server names its own, as in every other client.
        warnings.simplefilter("ignore")
        if wanted.private_key:
            signed = SignedJWTParameters(
                issuer=wanted.client_id,
                subject=wanted.client_id,
                signing_key=wanted.private_key,
                signing_algorithm=wanted.signing_algorithm,
            )
            assertion = signed.create_assertion_provider()
            return PrivateKeyJWTOAuthProvider(url, way.file, wanted.client_id, assertion, issuer=issuer)
        return ClientCredentialsOAuthProvider(url, way.file, wanted.client_id, wanted.client_secret, issuer=issuer)


class _ByPerson(OAuthClientProvider):
    """The library's flow, which here also knows after a restart when its token ends and where it is renewed."""

    def __init__(self, way: SignIn) -> None:
        wanted = way.spec.oauth
        by_page = wanted.client_id.startswith("https://")
        self._file, self._issuer = way.file, wanted.issuer
        address = way.address()
        metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(address)], client_name=_NAME)
        super().__init__(
            way.spec.url,
            metadata,
            way.file,
            way.redirect,
            way.code,
            client_metadata_url=wanted.client_id if by_page else None,
        )
        self._own = None if by_page or not wanted.client_id else _client(way, address)

    async def _initialize(self) -> None:
        await super()._initialize()
        kept = self._file.read()
        self.context.token_expiry_time = kept.get("expires")
        with contextlib.suppress(ValueError):
            if kept.get("server"):
                self.context.oauth_metadata = OAuthMetadata.model_validate(kept["server"])
            if kept.get("resource"):
                self.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(kept["resource"])
        if self._own is not None:
            self.context.client_info = self._own.model_copy()

    def _expected_issuer(self) -> str:
        return self._issuer or super()._expected_issuer()

    def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._file.changed():
            self._initialized = False
        return super().async_auth_flow(request)


def _client(way: SignIn, address: str) -> OAuthClientInformationFull:
    """The client that the person registered themselves."""
    wanted = way.spec.oauth
    given: dict[str, Any] = {"client_id": wanted.client_id, "redirect_uris": [address]}
    if wanted.client_secret:
        given |= {"client_secret": wanted.client_secret, "token_endpoint_auth_method": "client_secret_basic"}
    if wanted.issuer:
        given["issuer"] = wanted.issuer
    return OAuthClientInformationFull.model_validate(given)
