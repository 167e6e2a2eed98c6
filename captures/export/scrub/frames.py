"""Frames blanked at equal size: record sets, SASL tokens, secret fields, and all bytes that were not decoded.

A frame is traced, so that the bytes of every field are known; bytes that belong to no field are zeroed. So no byte
passes without having been examined.
"""

from __future__ import annotations

import json
import re
from collections import Counter

import msgspec

from captures.export.scrub.records import FILLER, RecordScrubber
from dissectors.budget import Budget, message_budget
from dissectors.embedded.secrets import SENSITIVITY, secret_config
from dissectors.frames import Body, decode_request, decode_response, trace_body
from dissectors.headers import SIZE_BYTES
from dissectors.trace import Node

_CORRELATION_ID = 4
_REQUEST_HEAD = 8


class _Walk(msgspec.Struct, frozen=True):
    """The message being scrubbed.

    :ivar inner: API key and version of the inner request, if this is the response of an Envelope
    :ivar enveloped: whether the message itself is inside an Envelope
    """

    budget: Budget
    response: bool
    inner: tuple[int, int] | None = None
    enveloped: bool = False


class FrameScrubber:
    """Blanks frames.

    :ivar counts: counts of :attr:`RecordScrubber.counts`, and ``secrets``
    """

    def __init__(self) -> None:
        self._records = RecordScrubber()

    @property
    def counts(self) -> Counter[str]:
        """Counts so far."""
        return self._records.counts

    def request(self, payload: bytes, *, complete: bool = True) -> bytes:
        """Return a blanked request of the same size.

        :param payload: the frame without its size field
        :param complete: False if the capture lacks its end
        """
        return self._frame(
            decode_request(payload, complete=complete), _Walk(message_budget(), response=False)
        )

    def response(
        self,
        payload: bytes,
        key: int,
        version: int,
        *,
        complete: bool = True,
        inner: tuple[int, int] | None = None,
    ) -> bytes:
        """Return a blanked response of the same size.

        :param key: API key of its request
        :param version: version of its request
        :param inner: API key and version of the inner request, if it is an Envelope
        """
        body = decode_response(payload, key, version, complete=complete)
        return self._frame(body, _Walk(message_budget(), response=True, inner=inner))

    def head(self, payload: bytes, *, response: bool) -> bytes:
        """Return a frame in which only API, version and correlation ID remain."""
        kept = min(_CORRELATION_ID if response else _REQUEST_HEAD, len(payload))
        self.counts["zeroed"] += len(payload) - kept
        return payload[:kept] + bytes(len(payload) - kept)

    def token(self, payload: bytes) -> bytes:
        """Return a blanked raw SASL token of the same size."""
        self.counts["secrets"] += 1
        return scrub_token(payload)

    # ------------------------------------------------------------ the walk
    def _frame(self, body: Body, walk: _Walk) -> bytes:
        out = bytearray(body.raw)
        root = trace_body(body, response=walk.response)
        for part in root.children or ():
            if part.name in ("header", "body"):
                self._fields(part, part, out, walk, secret=False)
                cut = _sound_end(part)
                if cut >= 0:
                    self._zero(out, cut, len(out) + SIZE_BYTES)
            elif part.name == "undecoded":
                self._zero(out, part.start, part.end)
        return bytes(out)

    def _fields(self, node: Node, root: Node, out: bytearray, walk: _Walk, *, secret: bool) -> None:
        secret = secret or _is_secret_config(node, root)
        for child in node.children or ():
            if child.children is not None:
                self._fields(child, root, out, walk, secret=secret)
            elif child.end >= 0 and isinstance(child.value, bytes | str) and child.value:
                self._leaf(child, node, out, walk, secret=secret)

    def _leaf(self, leaf: Node, holder: Node, out: bytearray, walk: _Walk, *, secret: bool) -> None:
        if leaf.field is None:
            if isinstance(leaf.name, int) and leaf.kind == "bytes" and holder.kind != "array":
                self._zero(out, leaf.end - len(leaf.value), leaf.end)  # an unknown tagged field
            return
        type_ = leaf.field.type
        value = leaf.value.encode() if isinstance(leaf.value, str) else leaf.value
        if leaf.kind == "records":
            blanked = self._records.scrub(value, walk.budget)
        elif type_.content == "unaligned_records":
            blanked = self._records.scrub(value, walk.budget, aligned=False)
        elif type_.content == "sasl_token":
            blanked = self.token(value)
        elif type_.content in ("envelope_request", "envelope_response"):
            blanked = self._enveloped(value, walk)
        elif type_.is_secret or (type_.content == "config_value" and secret):
            self.counts["secrets"] += 1
            blanked = FILLER * len(value)
        else:
            return
        end = leaf.end - SIZE_BYTES
        out[end - len(value) : end] = blanked

    def _enveloped(self, value: bytes, walk: _Walk) -> bytes:
        """Return the message inside an Envelope, blanked. A nested Envelope is not decoded: brokers reject it too."""
        inside = _Walk(walk.budget, response=walk.response, enveloped=True)
        if not walk.response:
            if walk.enveloped:
                return self.head(value, response=False)
            return self._frame(decode_request(value), inside)
        if walk.inner is None or walk.enveloped:
            return self.head(value, response=True)
        return self._frame(decode_response(value, *walk.inner), inside)

    def _zero(self, out: bytearray, start: int, end: int) -> None:
        """Zero the bytes between two offsets in the frame."""
        out[start - SIZE_BYTES : end - SIZE_BYTES] = bytes(end - start)
        self.counts["zeroed"] += end - start


def _sound_end(node: Node) -> int:
    """Return the end of the last complete field of an incomplete tree, -1 for a complete tree."""
    if node.end >= 0:
        return -1
    while node.children:
        last = node.children[-1]
        if last.end >= 0:
            return last.end
        node = last
    return node.start


def _is_secret_config(node: Node, root: Node) -> bool:
    """Return whether a struct describes a configuration whose value is secret, also in nested structs."""
    entry = {str(child.name): child.value for child in node.children or () if child.children is None}
    if "value" not in entry:
        return False
    name = next((str(child.value or "") for child in root.children or () if child.name == "name"), "")
    # the declaration may have the flag, but the capture may have cut it off
    cut = node.end < 0 and SENSITIVITY not in entry
    return secret_config(entry, name, flagged=cut or SENSITIVITY in entry)


def enveloped(payload: bytes) -> tuple[int, int] | None:
    """Return the key and version of the request inside an Envelope request, None if it has none."""
    body = decode_request(payload)
    data = (body.value or {}).get("request_data")
    if not isinstance(data, bytes) or len(data) < _CORRELATION_ID:
        return None
    return int.from_bytes(data[:2], signed=True), int.from_bytes(data[2:4], signed=True)


# ---------------------------------------------------------------- SASL tokens
_GS2 = rb"(?:(?:n|y|p=[A-Za-z0-9.-]+),(?:a=[^,]*)?,)"
_SCRAM = re.compile(
    rb"(" + _GS2 + rb")?[A-Za-z]=[^,\0\x01]*(?:,(?:[A-Za-z]|tokenauth)=[^,\0\x01]*)*", re.DOTALL
)
_OAUTH = re.compile(rb"(" + _GS2 + rb")(?=.*\x01auth=bearer )\x01.*\x01\x01", re.DOTALL | re.IGNORECASE)
_PLAIN = re.compile(rb"[^\0]*\0[^\0]+\0[^\0]*", re.DOTALL)

_AUTHORIZATION_ID = re.compile(rb"(?<=,a=)[^,]+")
# base64 padding stays, or the blanked value would not be base64
_SCRAM_VALUE = re.compile(rb"(?<=[A-Za-z]=)(?!(?<=,i=)[0-9]+(?:,|$))[^,=]+")
_OAUTH_VALUE = re.compile(rb"(?<=\x01auth=bearer )[^\x01]+|(?<!\x01auth=)(?<==)[^\x01]+", re.IGNORECASE)
_PLAIN_VALUE = re.compile(rb"[^\0]+")


def scrub_token(token: bytes) -> bytes:
    """Return a token of the same size with its values blanked."""
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
    """Return a flat JSON object with blanked values: errors of OAUTHBEARER, and AWS_MSK_IAM. None for other tokens."""
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
