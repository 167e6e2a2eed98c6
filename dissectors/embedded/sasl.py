"""SASL tokens: the authenticating identity, the progress of the exchange, and errors; secrets masked.

Tokens are bare after SaslHandshake v0, and inside SaslAuthenticate after v1. They do not name their mechanism: it
is known from the handshake or recognised. PLAIN is RFC 4616, SCRAM RFC 5802 with Kafka's extension ``tokenauth``
(KIP-48), OAUTHBEARER RFC 7628 (KIP-255); GSSAPI has a module of its own.

Fields known not to be secret are shown, all others are masked: passwords, bearer tokens, proofs and signatures; salts
too, because nonces, salt and proof together permit an offline search for the password; and unknown extensions, claims
and mechanisms. User names and nonces are shown.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any

from dissectors.embedded import gssapi
from dissectors.embedded.model import EmbeddedValue, Hints

_SHOWN = frozenset(
    {
        "mechanism", "message", "error",
        # PLAIN, SCRAM
        "authzid", "authcid", "user", "channel_binding", "nonce", "iterations", "tokenauth",
        # OAUTHBEARER: RFC 7628 and RFC 7519, claims of RFC 8693 and RFC 9068; extensions of Confluent
        "alg", "typ", "kid", "iss", "sub", "aud", "exp", "nbf", "iat", "jti", "azp", "client_id",
        "scope", "scp", "status", "openid-configuration", "logicalCluster", "identityPoolId",
        # AWS_MSK_IAM
        "version", "host", "user-agent", "action", "request-id", "x-amz-algorithm", "x-amz-credential", "x-amz-date",
        "x-amz-expires", "x-amz-signedheaders",
        # GSSAPI
        "oid", "bytes", "from", "sealed", "security_layers", "max_message_bytes",
    }
)  # fmt: skip
"""Fields that are not secret; all others are masked."""

_STRUCTS = frozenset({"jwt", "header", "claims", "extensions", "error"})
"""Fields that contain other fields, nested at most :data:`_DEEPEST` deep."""
_DEEPEST = 3

_Fields = dict[str, Any]


def decode(data: bytes, hints: Hints) -> EmbeddedValue:
    """Decode a token; an empty one has no value (PLAIN's success is empty)."""
    if not data:
        return EmbeddedValue(None, "SASL token")
    mechanism = (hints.mechanism or "").upper()
    known = next((reader for name, reader in _READERS.items() if mechanism.startswith(name)), None)
    fields = known(data) if known else None
    guess = ""
    if fields is None and (known or not mechanism):
        fields = next((found for reader in _READERS.values() if (found := reader(data)) is not None), None)
        if fields is not None:
            guess = f"looks like {fields['mechanism']}" + (f", not {mechanism}" if mechanism else "")
    elif fields is not None and mechanism.startswith("SCRAM"):
        fields["mechanism"] = mechanism
    if fields is None:
        problem = ((0, "", f"no message of {mechanism}"),) if known else ()
        label = f"{mechanism} token" if known else f"opaque ({mechanism or 'unknown mechanism'})"
        return EmbeddedValue(None, label, problems=problem)
    masked = () if hints.show_secrets else _mask(fields)
    return EmbeddedValue(fields, f"{fields['mechanism']} {fields['message']}", None, (), masked, guess)


def identity(value: Any) -> str | None:
    """Return the identity named in a decoded token, None if it names none."""
    if not isinstance(value, dict):
        return None
    for name in ("authcid", "user", "principal"):
        if value.get(name):
            return str(value[name])
    return None


def _mask(fields: _Fields, path: str = "", depth: int = _DEEPEST) -> tuple[str, ...]:
    """Replace possible secrets by None; return their paths."""
    masked: list[str] = []
    for name, value in fields.items():
        if isinstance(value, dict) and name in _STRUCTS and depth:
            masked += _mask(value, f"{path}{name}.", depth - 1)
        elif value is not None and not (name in _SHOWN and _is_flat(value)):
            fields[name] = None
            masked.append(path + name)
    return tuple(masked)


def _is_flat(value: Any) -> bool:
    return not isinstance(value, dict) and not (
        isinstance(value, list) and any(isinstance(each, dict | list) for each in value)
    )


# ---------------------------------------------------------------- PLAIN
def _plain(data: bytes) -> _Fields | None:
    parts = data.split(b"\0")
    if len(parts) != 3 or not parts[1]:
        return None
    try:
        authzid, authcid, password = (part.decode() for part in parts)
    except UnicodeDecodeError:
        return None
    return {
        "mechanism": "PLAIN",
        "message": "initial",
        "authzid": authzid,
        "authcid": authcid,
        "password": password,
    }


# ---------------------------------------------------------------- SCRAM
_GS2 = re.compile(r"(n|y|p=[A-Za-z0-9.-]+),(?:a=([^,]*))?,")

# message -> its required attributes; the first one identifies the message
_SCRAM_MESSAGES: dict[str, tuple[str, ...]] = {
    "client-first": ("n", "r"),
    "server-first": ("r", "s", "i"),
    "client-final": ("c", "r", "p"),
    "server-final": ("v",),
    "server error": ("e",),
}
_SCRAM_NAMES = {
    "n": "user",
    "r": "nonce",
    "s": "salt",
    "i": "iterations",
    "p": "proof",
    "v": "server_signature",
    "e": "error",
    "c": "channel_binding",
}


def _scram(data: bytes) -> _Fields | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if "\0" in text or "\x01" in text:
        return None
    fields: _Fields = {"mechanism": "SCRAM", "message": ""}
    header = _GS2.match(text)
    if header:
        fields["channel_binding"] = header[1]
        if header[2] is not None:
            fields["authzid"] = _saslname(header[2])
        text = text[header.end() :]
    attributes = _attributes(text)
    message = _scram_message(attributes or {}, first=header is not None)
    if attributes is None or message is None:
        return None
    fields["message"] = message
    fields |= {_SCRAM_NAMES.get(name, name): item for name, item in attributes.items()}
    if message == "client-first":
        fields["user"] = _saslname(fields["user"])
    elif message == "server-first":
        if not re.fullmatch("[0-9]{1,10}", fields["iterations"]):
            return None
        fields["iterations"] = int(fields["iterations"])
    return fields


def _scram_message(attributes: dict[str, str], *, first: bool) -> str | None:
    names = list(attributes)
    for message, needed in _SCRAM_MESSAGES.items():
        if (message == "client-first") == first and names[:1] == [needed[0]]:
            return message if set(needed) <= set(names) else None
    return None


def _attributes(text: str) -> dict[str, str] | None:
    found = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name.isascii() or not name.isalpha() or name in found:
            return None
        found[name] = value
    return found


def _saslname(text: str) -> str:
    return text.replace("=2C", ",").replace("=3D", "=")


# ---------------------------------------------------------------- OAUTHBEARER
_ABORT = b"\x01"


def _oauthbearer(data: bytes) -> _Fields | None:
    if data == _ABORT:
        return {"mechanism": "OAUTHBEARER", "message": "client abort"}
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if text.startswith("{"):
        return _oauth_failure(text)
    header = _GS2.match(text)
    if not header or text[header.end() : header.end() + 1] != "\x01" or not text.endswith("\x01\x01"):
        return None
    pairs = {}
    for part in text[header.end() + 1 : -2].split("\x01"):
        name, equals, item = part.partition("=")
        if not equals:
            return None
        pairs[name] = item
    scheme, _, token = pairs.pop("auth", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    fields: _Fields = {"mechanism": "OAUTHBEARER", "message": "client initial"}
    if header[2] is not None:
        fields["authzid"] = _saslname(header[2])
    fields["token"] = token.strip()
    jwt = _jwt(fields["token"])
    if jwt is not None:
        fields["jwt"] = jwt
        subject = jwt["claims"].get("sub")
        fields["user"] = subject if isinstance(subject, str) else None
    if pairs:
        fields["extensions"] = pairs
    return fields


def _oauth_failure(text: str) -> _Fields | None:
    answer = _json(text)
    if answer is None or "status" not in answer:
        return None
    return {"mechanism": "OAUTHBEARER", "message": "server error", "error": answer}


def _jwt(token: str) -> dict[str, dict[str, Any]] | None:
    """Return header and claims of a JSON web token (RFC 7519), unverified and without its signature."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    header, claims = (_json(_base64url(part)) for part in parts[:2])
    return None if header is None or claims is None else {"header": header, "claims": claims}


def _base64url(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""


def _json(text: str | bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


# ---------------------------------------------------------------- AWS_MSK_IAM
def _msk_iam(data: bytes) -> _Fields | None:
    """Read a signed request to kafka-cluster:Connect (github.com/aws/aws-msk-iam-auth), or the request ID that answers
    it.
    """
    if not data.startswith(b"{"):
        return None
    answer = _json(data.decode("utf-8", "replace"))
    if answer is None:
        return None
    if "request-id" in answer:
        return {**answer, "mechanism": "AWS_MSK_IAM", "message": "server answer"}
    if "x-amz-signature" not in answer:
        return None
    access_key = str(answer.get("x-amz-credential", "")).partition("/")[0]
    return {**answer, "mechanism": "AWS_MSK_IAM", "message": "client initial", "user": access_key}


_READERS: dict[str, Callable[[bytes], _Fields | None]] = {
    "PLAIN": _plain,
    "SCRAM": _scram,
    "OAUTHBEARER": _oauthbearer,
    "AWS_MSK_IAM": _msk_iam,
    "GSSAPI": gssapi.token,
}
