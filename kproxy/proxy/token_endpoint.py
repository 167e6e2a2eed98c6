"""Tokens for OAUTHBEARER from an authorization server: the client credentials grant (RFC 6749, section 4.4).

The request is that of Kafka's clients (``HttpJwtRetriever.java``, ``ClientCredentialsRequestFormatter.java``):
``POST`` with the client's ID and secret as Basic credentials. A token is used for several connections, until most of
its lifetime is over.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import quote_plus, urlencode

import msgspec

from captures.http import opener_within
from kproxy.proxy.sasl import SaslError
from kproxy.proxy.tls.security import TokenEndpoint

_TIMEOUT = 8.0  # seconds for a token; below that for a whole authentication
_MOST_RESPONSE = 1 << 20  # bytes; Kafka has the same limit
_MOST_REASON = 500  # characters
_SHARE_OF_LIFETIME = 0.8  # of a token, as sasl.login.refresh.window.factor


class Tokens:
    """The current token of each endpoint."""

    def __init__(self) -> None:
        self._found: dict[TokenEndpoint, tuple[str, float]] = {}
        self._requests: dict[tuple[asyncio.AbstractEventLoop, TokenEndpoint], asyncio.Task[str]] = {}

    async def get(self, endpoint: TokenEndpoint) -> str:
        """Return a token; request one unless a valid one is known. Those who wait share one request.

        :raises SaslError: if there is none to be had
        """
        token, until = self._found.get(endpoint, ("", 0.0))
        if time.monotonic() < until:
            return token
        loop = asyncio.get_running_loop()
        request = self._requests.get((loop, endpoint))
        if request is None:
            request = self._requests[loop, endpoint] = loop.create_task(self._request(endpoint))
        return await asyncio.shield(request)

    async def _request(self, endpoint: TokenEndpoint) -> str:
        try:
            token, lifetime = await asyncio.to_thread(requested, endpoint)
        finally:
            del self._requests[asyncio.get_running_loop(), endpoint]
        self._found[endpoint] = token, time.monotonic() + _SHARE_OF_LIFETIME * lifetime
        return token


TOKENS = Tokens()


def requested(endpoint: TokenEndpoint) -> tuple[str, float]:
    """Request a token; return it and its lifetime in seconds, 0 if the server does not tell.

    :raises SaslError: if the server cannot be reached, refuses, or answers something else
    """
    context = (
        ssl.create_default_context(cadata=endpoint.authorities) if endpoint.url.startswith("https:") else None
    )
    try:
        with opener_within(_TIMEOUT, context) as opener:
            body = _body(opener, endpoint)
    except (OSError, ValueError, HTTPException) as error:
        raise SaslError(f"no token from {endpoint.url}: {getattr(error, 'reason', error)}") from None
    found = _decoded(body)
    token, lifetime = found.get("access_token"), found.get("expires_in")
    if not isinstance(token, str) or not token:
        raise SaslError(f"the answer of {endpoint.url} has no access_token")
    return token, lifetime if isinstance(lifetime, int | float) else 0.0


def _request(endpoint: TokenEndpoint) -> urllib.request.Request:
    names = endpoint.client_id, endpoint.client_secret
    credentials = ":".join(map(quote_plus, names) if endpoint.urlencode else names)
    form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    return urllib.request.Request(endpoint.url, urlencode(form).encode(), headers)  # noqa: S310  # http and https only


def _body(opener: urllib.request.OpenerDirector, endpoint: TokenEndpoint) -> bytes:
    try:
        with opener.open(_request(endpoint), timeout=_TIMEOUT) as answer:
            return bytes(answer.read(_MOST_RESPONSE))
    except urllib.error.HTTPError as error:
        with error:
            raise SaslError(f"{endpoint.url} refuses a token: {_refusal(error)}") from None


def _refusal(error: urllib.error.HTTPError) -> str:
    """Return the status, and the reason if the server gives one (RFC 6749, section 5.2)."""
    try:
        found = _decoded(error.read(_MOST_RESPONSE))
    except (OSError, HTTPException):
        found = {}
    reasons = [str(found[each])[:_MOST_REASON] for each in ("error", "error_description") if found.get(each)]
    return " ".join([f"{error.code} {error.reason}", *([f"({': '.join(reasons)})"] if reasons else [])])


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
