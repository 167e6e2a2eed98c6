"""SASL of kproxy's own requests: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677) and OAUTHBEARER (RFC 7628). The clients'
own SASL passes through.

No sockets here: :meth:`Mechanism.first` returns the first token, :meth:`Mechanism.answer` the answer to each token of
the broker, None at the end.

Kafka's SCRAM uses user names and passwords as they are, without SASLprep
(``clients/.../security/scram/internals/ScramFormatter.java``, ``normalize``).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import time
from pathlib import Path
from typing import Protocol

import msgspec

from kproxy.proxy.tls.security import Sasl

OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)

# Kafka uses 4,096 to 16,384 (clients/.../scram/internals/ScramMechanism.java); a million take half a second
_MOST_ITERATIONS = 1_000_000
_COUNT = re.compile("[0-9]{1,7}")


class SaslError(Exception):
    """Authentication cannot continue; the message says why."""


class Mechanism(Protocol):
    """The client side of a SASL mechanism."""

    def first(self) -> bytes:
        """Return the first token."""

    def answer(self, token: bytes) -> bytes | None:
        """Return the answer to the broker's token, None if authentication is complete.

        :raises SaslError: if the token is not what the mechanism expects
        """


class Plain:
    """PLAIN: name and password in one token, answered by an empty one."""

    def __init__(self, username: str, password: str) -> None:
        self._token = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def answer(self, token: bytes) -> bytes | None:
        return None


class OAuthBearer:
    """OAUTHBEARER: a token in one message; the broker answers with nothing, or with the reason why it refuses."""

    def __init__(self, token: str) -> None:
        self._token = f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    def first(self) -> bytes:
        return self._token

    def answer(self, token: bytes) -> bytes | None:
        return b"\x01" if token else None  # the broker then ends authentication with that reason


class Scram:
    """SCRAM without channel binding: both sides prove that they know the password, without sending it.

    :param digest: hashlib's name of the digest
    :param nonce: printable and without commas, random unless given
    """

    def __init__(self, digest: str, username: str, password: str, nonce: str | None = None) -> None:
        self._digest = digest
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={self._nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def answer(self, token: bytes) -> bytes | None:
        attributes = _attributes(token)
        if "e" in attributes:
            raise SaslError(f"the broker refused: {attributes['e']}")
        if self._server_signature is None:
            return self._final(attributes, token.decode())
        if not hmac.compare_digest(_base64(attributes, "v"), self._server_signature):
            raise SaslError("the broker does not know the password: its signature is wrong")
        return None

    def _final(self, attributes: dict[str, str], server_first: str) -> bytes:
        nonce = attributes.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise SaslError("the broker's nonce does not continue the one that was sent")
        salt, iterations = _base64(attributes, "s"), _iterations(attributes.get("i", ""))
        salted = hashlib.pbkdf2_hmac(self._digest, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._digest, client_key).digest()
        without_proof = f"c=biws,r={nonce}"  # "biws" is "n,," in base64: no channel binding
        authenticated = f"{self._first_bare},{server_first},{without_proof}".encode()
        signature = self._hmac(stored_key, authenticated)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), authenticated)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._digest)


def _attributes(token: bytes) -> dict[str, str]:
    try:
        parts = token.decode().split(",")
    except UnicodeDecodeError:
        raise SaslError("the broker's token is not a SCRAM message") from None
    return {part[0]: part[2:] for part in parts if part[1:2] == "="}


def _base64(attributes: dict[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(attributes[name], validate=True)
    except (KeyError, binascii.Error, ValueError):
        raise SaslError(f"the broker's SCRAM message has no usable {name}=") from None


def _iterations(text: str) -> int:
    iterations = int(text) if _COUNT.fullmatch(text) else 0
    if not 0 < iterations <= _MOST_ITERATIONS:
        raise SaslError(f"the broker asks for {text[:20]!r} iterations")
    return iterations


def mechanism(sasl: Sasl, token: str = "") -> Mechanism:
    """Return the client side of a mechanism.

    :param token: from ``sasl.token_endpoint``, if there is one
    :raises SaslError: if kproxy does not support it, or has no credentials for it
    """
    if sasl.mechanism not in MECHANISMS:
        known = ", ".join(MECHANISMS)
        raise SaslError(f"kproxy's own requests cannot authenticate with {sasl.mechanism}, only with {known}")
    if sasl.mechanism == OAUTHBEARER:
        return OAuthBearer(_token(sasl) if sasl.token_endpoint is None else token)
    if sasl.username is None or sasl.password is None:
        raise SaslError(f"there are no user name and password for {sasl.mechanism}: set sasl.jaas.config")
    if sasl.mechanism == "PLAIN":
        return Plain(sasl.username, sasl.password)
    return Scram(sasl.mechanism.removeprefix("SCRAM-").replace("-", "").lower(), sasl.username, sasl.password)


def _token(sasl: Sasl) -> str:
    """Return a token for OAUTHBEARER.

    Unsecured tokens are those of Kafka's ``OAuthBearerUnsecuredLoginCallbackHandler``: JSON Web Signatures without a
    signature (RFC 7515, appendix A.5).
    """
    if sasl.token_file:
        try:
            return Path(sasl.token_file).read_text().strip()
        except (OSError, UnicodeError) as error:
            raise SaslError(f"the token in {sasl.token_file} cannot be read: {error}") from None
    if sasl.claims is None:
        raise SaslError(
            "there is no token for OAUTHBEARER that kproxy can use: set sasl.oauthbearer.token.endpoint.url to "
            "file:///..., or to https://... with clientId and clientSecret in sasl.jaas.config"
        )
    now = int(time.time())
    claims = {"iat": now, "exp": now + sasl.token_seconds} | sasl.claims
    return "".join(f"{_base64url(part)}." for part in ({"alg": "none"}, claims))


def _base64url(part: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(part)).decode().rstrip("=")
