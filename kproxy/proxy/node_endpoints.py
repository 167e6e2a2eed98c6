"""Node endpoints at the end of responses: whether there are any, and how they are hidden in a response that streams.

The last bytes of a whole response show in most cases that it has none (:func:`free_of_endpoints`), whatever its size.

A response that streams is changed in place, because the frame's size has already been sent. Fetch v16+ (KIP-951) and
ShareFetch (KIP-932) name the addresses of new leaders after the records. If the frame is too large to be collected,
these addresses cannot be rewritten, because others would be longer or shorter. They become a tagged field of the same
size, with an unknown tag and zeros for content: clients skip it (KIP-482), and find the new leader by a Metadata
request, as they did before these endpoints existed. Only the bytes from the endpoints on are held back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from captures.interventions import Change
from dissectors import wire
from dissectors.api_keys import ApiKey
from dissectors.apis import api
from dissectors.errors import DecodeError
from dissectors.headers import SIZE_BYTES
from dissectors.locator import FieldLocator, FieldSearch, response_structs
from dissectors.trace import trace

LONGEST_END = 1 << 20
"""Bytes of the end of a frame that are held back at most: endpoints of about ten thousand brokers."""

_PATH = "node_endpoints"
_TAG = 0
_LARGE = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
_EMPTY_FIELD = b"\x01\x00\x01\x01"  # one tagged field: its tag, its size, an empty array
_LAST_BYTES = struct.Struct(">iBB")
_MOST_PORT = 65_535
_SIZE = struct.Struct(">i")
_EMPTY_ARRAY = b"\x01"


def streams(api_key: int, version: int) -> Callable[[], StreamedEndpoints] | None:
    """Return a function that makes an editor for one response frame as it arrives.

    None if the version is not declared, or its responses are never both large and carrying addresses.
    """
    end = _end_of(api_key, version) if api_key in _LARGE else None
    return None if end is None else partial(StreamedEndpoints, end)


def free_of_endpoints(api_key: int, version: int) -> Callable[[bytes, int], bool] | None:
    """Return a function that decides by the end of a response frame, at an offset, that it names no address.

    True is reliable only for messages without undeclared fields: a tagged field after the endpoints, from a broker
    newer than kproxy, could have any content. The caller makes sure of that
    (:attr:`~kproxy.proxy.addresses.RewriteResult.is_known`). False decides nothing.

    :return: None for versions whose responses have no endpoints at their end
    """
    end = _end_of(api_key, version)
    if end is None:
        return None
    return _ends_without_tag if end.tagged else _ends_without_elements


def _ends_without_tag(data: bytes, end: int) -> bool:
    """Return whether the data does not end like an endpoint: port, rack, number of tagged fields.

    No rack ends with byte 0 or 1: brokers trim their configuration (``ConfigDef.parseType``). So such a byte is a null
    or empty rack, and the port precedes it.
    """
    port, rack, tags = _LAST_BYTES.unpack_from(data, end - _LAST_BYTES.size)
    if tags == 0:
        return rack <= 1 and not 0 < port <= _MOST_PORT
    return data.endswith(_EMPTY_FIELD, 0, end)  # some brokers write an empty array


def _ends_without_elements(data: bytes, end: int) -> bool:
    """Return whether the data ends with an empty array and 0 tagged fields; an endpoint would end with a 0 itself."""
    return data.endswith(b"\x01\x00", 0, end)


class _End(NamedTuple):
    """The end of the frames of an API version.

    :ivar locator: finds the first byte of the part with the endpoints: an array, or the tag section
    :ivar con: type of the endpoints
    :ivar tagged: whether they are a tagged field
    """

    locator: FieldLocator
    con: wire.WireType
    tagged: bool


@cache
def _end_of(api_key: int, version: int) -> _End | None:
    known = api(api_key)
    if known is None or version not in known.response.versions:
        return None
    structs = response_structs(known.response, version)
    tagged = (structs[1].tagged or {}).get(_TAG)
    if tagged is not None and tagged.name == _PATH:
        return _End(FieldLocator.up_to(structs, wire.UNKNOWN_TAGS), tagged.con, True)
    member = structs[1].members[-1] if structs[1].members else None
    if member is None or member.name != _PATH or structs[1].tagged is None:
        return None
    return _End(FieldLocator.up_to(structs, _PATH), member.con, False)


class StreamedEndpoints:
    """Hides the endpoints of one response frame that streams.

    :ivar changes: hidden endpoints, known when the frame is complete
    :ivar problem: why endpoints, if there are any, passed unchanged; empty if there was no problem
    """

    def __init__(self, end: _End) -> None:
        self.changes: tuple[Change, ...] = ()
        self.problem = ""
        self._form = end
        self._search = FieldSearch(end.locator, SIZE_BYTES)
        self._size = b""
        self._taken = 0
        self._from: int | None = None  # offset from which everything is held back
        self._held: list[bytes] = []
        self._through = False

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the frame, and none of the next frame; return the bytes to send now.

        Bytes held back are returned with the last bytes of the frame. Never raises.
        """
        begin = self._taken
        self._taken += len(data)
        if len(self._size) < SIZE_BYTES:
            self._size += data[: SIZE_BYTES - len(self._size)]
        if self.problem or self._through:
            return data
        end = SIZE_BYTES + _SIZE.unpack(self._size)[0] if len(self._size) == SIZE_BYTES else None
        if self._from is None:
            self._look_for_the_end(data, end)
        if self._from is None:
            return data
        cut = max(self._from - begin, 0)
        if cut < len(data):
            self._held.append(data[cut:])
            data = data[:cut]
        if self._taken != end:
            return data
        self._through = True
        return data + self._voided(b"".join(self._held))

    def _look_for_the_end(self, data: bytes, end: int | None) -> None:
        try:
            found = self._search.feed(data)
        except DecodeError as error:
            self.problem = str(error)
            return
        if found is None or end is None:
            if self._taken == end:
                self.problem = "the frame ends before its endpoints"
        elif end - found > LONGEST_END:
            self.problem = f"{end - found} bytes follow the records, more than is held in memory"
        else:
            self._from = found

    def _voided(self, data: bytes) -> bytes:
        self._held.clear()
        try:
            voided, endpoints = (_tag_voided if self._form.tagged else _array_voided)(self._form.con, data)
        except DecodeError as error:
            self.problem = str(error)
            return data
        if endpoints:
            self.changes = (Change(_PATH, endpoints, []),)
        return voided


# ---------------------------------------------------------------- ends of frames
class _TaggedField(NamedTuple):
    """A tagged field as encoded: its tag may take more bytes than necessary."""

    number: int
    number_bytes: bytes
    size_bytes: bytes
    content: bytes


def _tag_voided(con: wire.WireType, data: bytes) -> tuple[bytes, list[Any]]:
    """Replace the endpoints in a tag section.

    :param data: the section and everything after it
    :return: as many bytes, and the endpoints removed
    :raises DecodeError: if they cannot be read
    """
    endpoints: list[Any] = []
    void: list[_TaggedField] = []
    others: list[_TaggedField] = []
    first, fields, end = _section(data, 0)
    for field in fields:
        found = _endpoints(con, field.content)[0] if field.number == _TAG else []
        endpoints += found
        (void if found else others).append(field)
    for field in void:
        number = _unused(others)
        number_bytes = _uvarint(number, len(field.number_bytes))
        _insert(others, _TaggedField(number, number_bytes, field.size_bytes, bytes(len(field.content))))
    return data[:first] + _written(others) + data[end:], endpoints


def _array_voided(con: wire.WireType, data: bytes) -> tuple[bytes, list[Any]]:
    """Replace the endpoints in an array that is followed by a tag section.

    :param data: the array, the section and everything after it
    :return: as many bytes, and the endpoints removed
    :raises DecodeError: if they cannot be read
    """
    endpoints, pos = _endpoints(con, data)
    if not endpoints:
        return data, endpoints
    first, fields, end = _section(data, pos)
    start = _EMPTY_ARRAY + wire.uvarint_bytes(len(fields) + 1)
    number = _unused(fields)
    room = first - len(start) - 1  # without the new field's tag
    width = next(width for width in range(1, 6) if room - width < 1 << 7 * width)
    size = room - width
    _insert(fields, _TaggedField(number, bytes([number]), _uvarint(size, width), bytes(size)))
    return start + _written(fields) + data[end:], endpoints


def _endpoints(con: wire.WireType, data: bytes) -> tuple[list[Any], int]:
    """Return the endpoints at the beginning of `data`, and the position after them."""
    traced = trace(con, data, name=_PATH)
    if traced.error is not None:
        raise traced.error
    return traced.root.to_value() or [], traced.end


def _section(data: bytes, pos: int) -> tuple[int, list[_TaggedField], int]:
    """Read a tag section; return the position after its count, its fields, and the position after it."""
    count, first = wire.read_uvarint(data, pos)
    fields = []
    pos = first
    for _ in range(count):
        number, at_size = wire.read_uvarint(data, pos)
        size, content = wire.read_uvarint(data, at_size)
        end = content + size
        if end > len(data):
            raise DecodeError("tagged field longer than the bytes", content, truncated=True)
        fields.append(_TaggedField(number, data[pos:at_size], data[at_size:content], data[content:end]))
        pos = end
    return first, fields, pos


def _unused(fields: list[_TaggedField]) -> int:
    """Return the highest tag of one byte that no field has; 0 is never returned.

    :raises DecodeError: if there is none left
    """
    free = set(range(1, 128)).difference(field.number for field in fields)
    if not free:
        raise DecodeError("no tag number is left")
    return max(free)


def _insert(fields: list[_TaggedField], new: _TaggedField) -> None:
    """Insert a field in tag order (KIP-482)."""
    at = next((index for index, field in enumerate(fields) if field.number > new.number), len(fields))
    fields.insert(at, new)


def _written(fields: list[_TaggedField]) -> bytes:
    return b"".join(part for field in fields for part in field[1:])


def _uvarint(value: int, width: int) -> bytes:
    """Encode an UNSIGNED_VARINT in `width` bytes; readers accept more than necessary."""
    more = [value >> 7 * index & 0x7F | 0x80 for index in range(width)]
    return bytes([*more[:-1], more[-1] & 0x7F])
