"""Where each field of a record lies: the slow, exact reading.

The fast readers (:mod:`.batch`, :mod:`.columns`) only notice *that* a record is wrong. They come here to
learn why and where, and the trace shows these spans as they are. A walk that fails keeps what it had
read: the spans of a :class:`Cursor` are complete up to the fault.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from dissectors.errors import DecodeError
from dissectors.records.varint import read_varint


class Span(NamedTuple):
    """One field and its bytes ``[start, end)``.

    :ivar buffer: None, or the decompressed bytes that the positions of all ``children`` count in; without
        it they count in the same bytes as this span's own
    """

    name: str
    value: Any
    start: int
    end: int
    children: tuple[Span, ...] = ()
    buffer: bytes | None = None


class Cursor:
    """Reads fields one after the other and notes the span of each.

    :ivar spans: what was read so far, in order
    :raises DecodeError: from every reading method, with the field's path
    """

    def __init__(self, data: bytes, pos: int, end: int, path: str = "") -> None:
        self.data = data
        self.pos = pos
        self.end = end
        self.path = path
        self.spans: list[Span] = []

    def fail(self, name: str, reason: str, *, at: int | None = None, truncated: bool = False) -> DecodeError:
        """The error for field ``name``, to be raised by the caller."""
        path = f"{self.path}.{name}" if self.path else name
        return DecodeError(reason, self.pos if at is None else at, path, truncated=truncated)

    def fixed(self, name: str, layout: struct.Struct) -> int:
        """One big-endian number."""
        end = self.pos + layout.size
        if end > self.end:
            raise self.fail(name, f"needs {layout.size} bytes, {self.end - self.pos} left", truncated=True)
        (value,) = layout.unpack_from(self.data, self.pos)
        self.spans.append(Span(name, value, self.pos, end))
        self.pos = end
        return int(value)

    def varint(self, name: str, bits: int = 32) -> int:
        """One zig-zag varint."""
        start = self.pos
        try:
            value, self.pos = read_varint(self.data, start, bits)
        except DecodeError as error:
            raise self.fail(name, error.reason, truncated=error.truncated) from None
        if self.pos > self.end:
            self.pos = start
            raise self.fail(name, "varint runs past the end", truncated=True)
        self.spans.append(Span(name, value, start, self.pos))
        return value

    def run(self, name: str, length: int, *, nullable: bool = True) -> bytes | None:
        """The ``length`` bytes here, or None for a length of -1.

        An empty or null run has an empty span: its length field stands before it.
        """
        if length < (-1 if nullable else 0):
            raise self.fail(name, f"length {length} is not allowed")
        if length > self.end - self.pos:
            raise self.fail(name, f"announces {length} bytes, {self.end - self.pos} left", truncated=True)
        end = self.pos + max(length, 0)
        value = None if length < 0 else self.data[self.pos : end]
        self.spans.append(Span(name, value, self.pos, end))
        self.pos = end
        return value

    @contextmanager
    def group(self, name: str, value: Any = None) -> Iterator[None]:
        """Spans read inside become children of one span, also when reading fails."""
        outer, path, start = self.spans, self.path, self.pos
        self.spans = []
        self.path = f"{path}.{name}" if path else name
        try:
            yield
        finally:
            outer.append(Span(name, value, start, self.pos, tuple(self.spans)))
            self.spans, self.path = outer, path


_INT8 = struct.Struct(">b")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UINT32 = struct.Struct(">I")


def walk_record(cursor: Cursor, name: str) -> None:
    """One record of a batch of magic 2 (``DefaultRecord.java``).

    :raises DecodeError: also where the fields do not take up exactly the announced length
    """
    outer_end = cursor.end
    with cursor.group(name):
        length = cursor.varint("length")
        if length < 0:
            raise cursor.fail("length", f"record of {length} bytes")
        if length > outer_end - cursor.pos:
            left = outer_end - cursor.pos
            raise cursor.fail("length", f"record announces {length} bytes, {left} left", truncated=True)
        cursor.end = cursor.pos + length
        try:
            cursor.fixed("attributes", _INT8)
            cursor.varint("timestamp_delta", 64)
            cursor.varint("offset_delta")
            cursor.run("key", cursor.varint("key_length"))
            cursor.run("value", cursor.varint("value_length"))
            _walk_headers(cursor)
            if cursor.pos != cursor.end:
                raise cursor.fail("length", f"{cursor.end - cursor.pos} bytes left inside the record")
        except DecodeError as error:
            # The record's own length is what cuts its fields short; more bytes would not help.
            error.truncated = False
            raise
        finally:
            cursor.end = outer_end


def _walk_headers(cursor: Cursor) -> None:
    count = cursor.varint("headers_count")
    if count < 0:
        raise cursor.fail("headers_count", f"{count} headers")
    for index in range(count):
        with cursor.group(f"headers[{index}]"):
            cursor.run("key", cursor.varint("key_length"), nullable=False)
            cursor.run("value", cursor.varint("value_length"))


def walk_message(cursor: Cursor, name: str) -> None:
    """One entry of a message set, magic 0 or 1 (``LegacyRecord.java``), from its offset to its value.

    The caller has checked that the entry is whole and its magic is 0 or 1; ``cursor.end`` is its end.

    :raises DecodeError: also where the fields do not take up exactly the announced size
    """
    with cursor.group(name):
        cursor.fixed("offset", _INT64)
        cursor.fixed("size", _INT32)
        cursor.fixed("crc", _UINT32)
        if cursor.fixed("magic", _INT8):
            cursor.fixed("attributes", _INT8)
            cursor.fixed("timestamp", _INT64)
        else:
            cursor.fixed("attributes", _INT8)
        cursor.run("key", cursor.fixed("key_length", _INT32))
        cursor.run("value", cursor.fixed("value_length", _INT32))
        if cursor.pos != cursor.end:
            raise cursor.fail("size", f"{cursor.end - cursor.pos} bytes left inside the message")
