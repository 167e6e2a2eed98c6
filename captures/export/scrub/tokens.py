"""SASL tokens blanked at equal size, so that they still show which message of which mechanism they are.

Kept are the punctuation of PLAIN (RFC 4616), SCRAM (RFC 5802) and OAUTHBEARER (RFC 7628), the names of SCRAM's
attributes and its iteration count, and names in flat JSON objects. User names go too: a token is a credential as a
whole. What is none of these, Kerberos above all, becomes zeros.
"""

from __future__ import annotations

import json
import re

_GS2 = rb"(?:(?:n|y|p=[A-Za-z0-9.-]+),(?:a=[^,]*)?,)"
_SCRAM = re.compile(
    rb"(" + _GS2 + rb")?[A-Za-z]=[^,\0\x01]*(?:,(?:[A-Za-z]|tokenauth)=[^,\0\x01]*)*", re.DOTALL
)
_OAUTH = re.compile(rb"(" + _GS2 + rb")(?=.*\x01auth=bearer )\x01.*\x01\x01", re.DOTALL | re.IGNORECASE)
_PLAIN = re.compile(rb"[^\0]*\0[^\0]+\0[^\0]*", re.DOTALL)

_AUTHORIZATION_ID = re.compile(rb"(?<=,a=)[^,]+")
# base64 padding stays, or what is blanked would be no base64
_SCRAM_VALUE = re.compile(rb"(?<=[A-Za-z]=)(?!(?<=,i=)[0-9]+(?:,|$))[^,=]+")
_OAUTH_VALUE = re.compile(rb"(?<=\x01auth=bearer )[^\x01]+|(?<!\x01auth=)(?<==)[^\x01]+", re.IGNORECASE)
_PLAIN_VALUE = re.compile(rb"[^\0]+")


def scrub_token(token: bytes) -> bytes:
    """Return a token of the same size without what it said."""
    if token in (b"", b"\x01"):  # PLAIN's success, OAUTHBEARER's abort
        return token
    for message, value in ((_OAUTH, _OAUTH_VALUE), (_SCRAM, _SCRAM_VALUE)):
        match = message.fullmatch(token)
        if match:
            header = match[1] or b""
            return _AUTHORIZATION_ID.sub(_filler, header) + value.sub(_filler, token[len(header) :])
    if _PLAIN.fullmatch(token):
        return _PLAIN_VALUE.sub(_filler, token)
    return _json(token) or bytes(len(token))


def _json(token: bytes) -> bytes | None:
    """Blank the values of a flat JSON object: errors of OAUTHBEARER, and AWS_MSK_IAM."""
    try:
        fields = json.loads(token)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or b"\\" in token:
        return None
    out = token
    for value in fields.values():
        if isinstance(value, str) and value:
            quoted = b'"%b"' % value.encode()
            out = out.replace(quoted, b'"%b"' % (b"x" * (len(quoted) - 2)))
        elif value not in ("", None, True, False):
            return None
    return out if len(out) == len(token) else None


def _filler(match: re.Match[bytes]) -> bytes:
    return b"x" * len(match[0])
