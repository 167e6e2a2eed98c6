"""The record layer: splits one direction into TLS records, and finds the next record after a loss.

A record is a type, a version, a length and that many bytes (RFC 8446, section 5.1; RFC 5246, section 6.2). Rules:

* Bytes are passed on as views of the fed bytes; only records that arrive in pieces are joined.
* Records and holes tile the stream: bytes that belong to no record are inside exactly one :class:`RecordHole`.
* After a loss the end of a record that was cut is known from its header. Beyond it, the next record is where the gap
  ends, if that looks like a header, or else the first header that is followed by another.
* It holds less than two records.
"""

from __future__ import annotations

import re
import struct

import msgspec

CHANGE_CIPHER_SPEC = 20
ALERT = 21
HANDSHAKE = 22
APPLICATION_DATA = 23
HEARTBEAT = 24
#: of the first record of a direction
FIRST_CONTENT_TYPES = (HANDSHAKE, ALERT)

HEADER_BYTES = 5
#: RFC 5246, section 6.2.3: 2^14 bytes and 2048 of expansion; TLS 1.3 allows less
MAX_PAYLOAD = (1 << 14) + 2048
#: the smallest encrypted record: header, one byte of content, a tag of 16
MIN_PROTECTED = HEADER_BYTES + 17

_HEADER = struct.Struct(">BHH")
# no preferred position for a search
_NOWHERE = -1
_CANDIDATE = re.compile(rb"[\x14-\x18]\x03[\x00-\x04]")


class TlsRecord(msgspec.Struct):
    """One record.

    :ivar start: stream position of its header
    :ivar header: its five bytes
    :ivar payload: the bytes after the header; a view into the fed bytes
    """

    kind: int
    start: int
    header: bytes
    payload: bytes | memoryview

    @property
    def end(self) -> int:
        """Stream position after the record."""
        return self.start + HEADER_BYTES + len(self.payload)


class RecordHole(msgspec.Struct):
    """A part of the stream that could not be read as records.

    :ivar records: maximum number of records in it; at least one
    :ivar reason: why, in words
    """

    start: int
    end: int
    records: int
    reason: str


class Undecryptable(Exception):  # noqa: N818  # says what is wrong, reads well at the raise
    """A record does not open with these keys and this sequence number."""


def looks_like_tls(data: bytes | bytearray | memoryview) -> bool | None:
    """Return whether the first bytes of a direction start a TLS connection; None if there are too few to decide.

    Either peer's first record is a handshake message or, from a server that refuses, an alert.
    """
    head = bytes(data[:6])
    for at, allowed in ((0, FIRST_CONTENT_TYPES), (1, (3,)), (2, range(5))):
        if len(head) > at and head[at] not in allowed:
            return False
    if len(head) < 6:
        return None
    size = int.from_bytes(head[3:5], "big")
    if head[0] == ALERT:
        return size == 2 and head[5] in (1, 2)
    return 4 <= size <= MAX_PAYLOAD and head[5] in (1, 2)  # ClientHello, ServerHello


def is_client_hello(data: bytes | bytearray | memoryview) -> bool:
    """Return whether these first bytes of a direction come from the TLS client."""
    return looks_like_tls(data) is True and data[0] == HANDSHAKE and data[5] == 1


def _plausible(kind: int, version: int, length: int) -> bool:
    if not (CHANGE_CIPHER_SPEC <= kind <= HEARTBEAT and 0x0300 <= version <= 0x0304):
        return False
    return length <= MAX_PAYLOAD and (length > 0 or kind == APPLICATION_DATA)


class RecordReader:
    """Splits one direction into records.

    :ivar position: stream position of the next byte that belongs to no record or hole yet
    :ivar foreign: the first bytes are not a TLS record
    """

    def __init__(self) -> None:
        self.position = 0
        self.foreign = False
        self._parts: list[bytes | memoryview] = []
        self._have = 0
        self._need = HEADER_BYTES
        self._discards = False
        # the current loss: its start, the end of the last record that it affects, and the reason
        self._hole: int | None = None
        self._floor = 0
        self._reason = ""
        self._skip_to: int | None = None
        self._search_from: int | None = None

    def discard(self) -> None:
        """Only count bytes from now on, without reading records."""
        self._discards = True
        self.position += self._have
        self._parts, self._have = [], 0

    def feed(self, data: bytes | bytearray | memoryview) -> list[TlsRecord | RecordHole]:
        """Take the next bytes; return the records they complete."""
        if self._discards:
            self.position += len(data)
            return []
        self._parts.append(bytes(data) if isinstance(data, bytearray) else data)
        self._have += len(data)
        if self._have < self._need:
            return []
        return self._split(closing=False)

    def gap(self, length: int, reason: str) -> list[TlsRecord | RecordHole]:
        """Record that `length` bytes are missing here."""
        if self._discards:
            self.position += length
            return []
        items = self._split(closing=True) if self._search_from is not None else []
        cut = self.position + self._have
        ends = self._skip_to
        if ends is None and self._search_from is None and self._have >= HEADER_BYTES:
            ends = self.position + self._need
        self._open_hole(self.position, reason)
        self._floor = max(self._floor, ends or 0)
        self.position = cut + length
        self._parts, self._have, self._need = [], 0, HEADER_BYTES
        if ends is not None and ends >= self.position:
            self._skip_to, self._search_from = ends, None
        else:
            self._skip_to, self._search_from = None, self.position
        return items

    def close(self) -> list[TlsRecord | RecordHole]:
        """End the stream; an incomplete record becomes a hole."""
        if self._discards:
            return []
        items = self._split(closing=True) if self._search_from is not None else []
        if self._have or self._hole is not None:
            end = self.position + self._have
            self._open_hole(self.position, f"the stream ended {self._have} bytes into a record")
            items.append(self._close_hole(end))
            self.position = end
        self._parts, self._have, self._discards = [], 0, True
        return items

    # -- inside ------------------------------------------------------------------------------------------------

    def _split(self, *, closing: bool) -> list[TlsRecord | RecordHole]:
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        view = memoryview(data)
        base, at, size = self.position, 0, len(view)
        items: list[TlsRecord | RecordHole] = []
        while True:
            if self._skip_to is not None:
                at = min(max(self._skip_to - base, at), size)
                if base + at < self._skip_to:
                    break
                self._skip_to = None
            if self._search_from is not None:
                at, found = self._search(view, at, closing=closing)
                if not found:
                    break
            if size - at < HEADER_BYTES:
                break
            kind, version, length = _HEADER.unpack_from(view, at)
            if not _plausible(kind, version, length):
                self.foreign = self.foreign or (base + at == 0 and self._hole is None)
                self._open_hole(base + at, f"no TLS record starts at byte {base + at} of the stream")
                self._search_from = _NOWHERE
                continue
            end = at + HEADER_BYTES + length
            if end > size:
                self._need = HEADER_BYTES + length
                break
            self._search_from = None
            if self._hole is not None:
                items.append(self._close_hole(base + at))
            payload = view[at + HEADER_BYTES : end]
            items.append(TlsRecord(kind, base + at, bytes(view[at : at + HEADER_BYTES]), payload))
            at = end
        if size - at < HEADER_BYTES:
            self._need = HEADER_BYTES
        self.position = base + at
        self._have = size - at
        self._parts = [bytes(view[at:])] if self._have else []
        return items

    def _search(self, view: memoryview, at: int, *, closing: bool) -> tuple[int, bool]:
        """Search for a header that is followed by another, or lies where the gap ends.

        :returns: where to continue, and whether a header is there; if not, more bytes are needed from there on
        """
        size, base = len(view), self.position
        while True:
            match = _CANDIDATE.search(view, at)
            if match is None:
                return (size, False) if closing else (max(at, size - 2), False)
            at = match.start()
            if size - at < HEADER_BYTES:
                return (size if closing else at), False
            kind, version, length = _HEADER.unpack_from(view, at)
            following = at + HEADER_BYTES + length
            if _plausible(kind, version, length):
                if base + at == self._search_from:
                    return at, True
                if following + HEADER_BYTES <= size:
                    kind, next_version, length = _HEADER.unpack_from(view, following)
                    if next_version == version and _plausible(kind, next_version, length):
                        return at, True
                elif not closing:
                    self._need = following + HEADER_BYTES - at
                    return at, False
                elif following == size:
                    return at, True
            at += 1

    def _open_hole(self, start: int, reason: str) -> None:
        if self._hole is None:
            self._hole = self._floor = start
            self._reason = reason

    def _close_hole(self, end: int) -> RecordHole:
        assert self._hole is not None
        records = 1 + max(end - self._floor, 0) // MIN_PROTECTED
        hole = RecordHole(self._hole, end, records, self._reason)
        self._hole = None
        return hole
