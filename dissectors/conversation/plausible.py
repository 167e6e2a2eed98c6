"""Plausibility of request headers: the one test shared by start-up, SASL and resynchronisation.

A request header is specific: two int16 whose high byte is zero, a length that must fit, a printable client ID.
More bytes never reverse a verdict, so that results do not depend on how the stream was cut into segments.

Users may configure any client ID, with control characters and bytes that are not UTF-8; brokers accept
them all. Such an ID is not evidence of a request, so other evidence is required. The rule, which the vectorised reading
of captures also follows:

* in step, after a frame that was read, a known API and version suffice (``in_step``);
* at the start of a connection, the request must be whole and decode to its last byte (:func:`decodes`);
* during a search for a frame, the connection must have used the ID before (``odd_ids``).
"""

from __future__ import annotations

import struct
from collections.abc import Container, Mapping
from functools import cache, lru_cache

from dissectors.api_keys import ApiKey
from dissectors.apis import api
from dissectors.errors import DecodeError
from dissectors.headers import SIZE_BYTES, request_header
from dissectors.locator import FieldLocator, FieldSearch

#: API keys and versions beyond the known ones that a newer release may add
NEWER_KEYS = 32
NEWER_VERSIONS = 4
#: highest version accepted of an unknown API
UNKNOWN_API_VERSION = 15


#: size, api_key, api_version, correlation_id, length of client_id
REQUEST_START = struct.Struct(">ihhih")
#: size, correlation_id
RESPONSE_START = struct.Struct(">ii")
SIZE = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_KEY_AND_VERSION = struct.Struct(">hh")

#: no tagged fields, and a null or empty transactional_id: nearly every Produce v9+ has these before acks
_PLAIN_PRODUCE = frozenset((b"\0\0", b"\0\1"))
_PLAIN_CLASSIC_PRODUCE = frozenset((b"\xff\xff", b"\0\0"))
"""A null or empty transactional_id before version 9."""

#: shortest header: api_key, api_version, correlation_id
MIN_REQUEST = 8
#: shortest response: correlation_id
MIN_RESPONSE = 4
LARGEST_SIZE = 2**31 - 1 - SIZE_BYTES
"""Largest valid size: no JVM buffer holds more, and the whole frame's length stays an int32."""

IMPLAUSIBLE = 0
WEAK = 1
"""Possible, but without a client ID as evidence, or newer than the known versions."""
STRONG = 2
"""A known API and version, and a printable client ID of the announced length."""


def highest(versions: Mapping[int, tuple[int, int]]) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Return for each API key the highest known version, and the highest one to accept, known or not.

    All conversations with the same versions share the mappings.
    """
    return _highest(tuple(versions.items()))


@lru_cache(maxsize=16)
def _highest(
    versions: tuple[tuple[int, tuple[int, int]], ...],
) -> tuple[Mapping[int, int], Mapping[int, int]]:
    known = {key: last for key, (_, last) in versions}
    top = max(known, default=-1)
    believed = {key: last + NEWER_VERSIONS for key, last in known.items()}
    believed |= dict.fromkeys(range(top + 1, top + 1 + NEWER_KEYS), UNKNOWN_API_VERSION)
    return known, believed


def judge_request(
    data: bytes,
    at: int,
    known: Mapping[int, int],
    believed: Mapping[int, int],
    limit: int,
    *,
    in_step: bool = False,
    odd_ids: Container[bytes] = (),
) -> int:
    """Judge the frame whose size field is at `at`.

    :param known: highest known version by API key
    :param believed: highest version to accept by API key (:func:`highest`)
    :param limit: largest size to accept
    :param in_step: whether a frame that was read ends at `at`
    :param odd_ids: client IDs that are not text but count as evidence, in the form of :func:`as_shown`
    :returns: IMPLAUSIBLE, WEAK or STRONG; or, negative, minus the bytes from `at` needed to decide
    """
    have = len(data) - at
    if have < SIZE_BYTES:
        return -SIZE_BYTES
    (size,) = SIZE.unpack_from(data, at)
    if not MIN_REQUEST <= size <= limit:
        return IMPLAUSIBLE
    if have < SIZE_BYTES + MIN_REQUEST:
        return -(SIZE_BYTES + MIN_REQUEST)
    key = int.from_bytes(data[at + 4 : at + 6], "big")
    version = int.from_bytes(data[at + 6 : at + 8], "big")
    if version > believed.get(key, -1):
        return IMPLAUSIBLE
    if (key, version) == (ApiKey.CONTROLLED_SHUTDOWN, 0):
        # No client ID, and a body of one int32: the ID of the broker that shuts down.
        return WEAK if size == MIN_REQUEST + 4 else IMPLAUSIBLE
    if size < REQUEST_START.size - SIZE_BYTES:
        return IMPLAUSIBLE
    if have < REQUEST_START.size:
        return -REQUEST_START.size
    length: int = _INT16.unpack_from(data, at + REQUEST_START.size - 2)[0]
    stop = REQUEST_START.size + length
    if length < -1 or stop > SIZE_BYTES + size:
        return IMPLAUSIBLE
    if length <= 0:
        return WEAK
    if have < stop:
        return -stop
    raw = data[at + REQUEST_START.size : at + stop]
    if is_text(raw) or (odd_ids and as_shown(raw) in odd_ids):
        return STRONG if version <= known.get(key, -1) else WEAK
    return WEAK if in_step and version <= known.get(key, -1) else IMPLAUSIBLE


def decodes(payload: bytes) -> bool:
    """Return whether a request, without its size field, decodes to its last byte, whatever its client ID."""
    key, version = _KEY_AND_VERSION.unpack_from(payload)
    known = api(key)
    if known is None or version not in known.request.versions:
        return False
    header = FieldLocator.through((request_header(known.request, version).struct,))
    try:
        body = FieldSearch(header).feed(payload)
        if body is None or body > len(payload):
            return False
        known.request[version].parse(payload[body:])
    except DecodeError:
        return False
    return True


def as_shown(raw: bytes) -> bytes:
    """Return a client ID as it is displayed: with replacement characters for bytes that are not UTF-8."""
    return raw.decode("utf-8", "replace").encode()


def is_text(raw: bytes) -> bool:
    """Return whether the bytes are printable UTF-8."""
    try:
        return raw.decode().isprintable()
    except UnicodeDecodeError:
        return False


def produce_acks(payload: bytes, version: int) -> int | None:
    """Return `acks` of a Produce request, or None if the payload ends before it.

    ``ProduceRequest.json``: v0-v2 start with acks; v3 put transactional_id (nullable string) before it; v9 made
    it a compact string and the header gained tagged fields.
    """
    if len(payload) < 10:
        return None
    at = 10 + max(_INT16.unpack_from(payload, 8)[0], 0)
    if version >= 3:
        if payload[at : at + 2] not in (_PLAIN_PRODUCE if version >= 9 else _PLAIN_CLASSIC_PRODUCE):
            return _located_acks(payload, version)
        at += 2
    if at + 2 > len(payload):
        return None
    acks: int = _INT16.unpack_from(payload, at)[0]
    return acks


def _located_acks(payload: bytes, version: int) -> int | None:
    try:
        return next((found.value for found in _acks_locator(version).find(payload)), None)
    except DecodeError:
        return None


@cache
def _acks_locator(version: int) -> FieldLocator:
    from dissectors.apis.produce import ProduceRequest

    read_as = ProduceRequest.nearest(version)
    structs = request_header(ProduceRequest, read_as).struct, ProduceRequest[read_as].struct
    return FieldLocator.to_fields(structs, ("acks",))
