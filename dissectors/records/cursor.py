"""The slow, exact reading of records, with the byte range of each field.

The fast reader (:mod:`.batch`) only detects *that* a record is wrong. It runs this one to learn why and where, and the
trace shows these nodes unchanged. A walk that fails keeps what it has read: the nodes of a :class:`Cursor` are
complete up to the error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dissectors.errors import DecodeError
from dissectors.trace import Node


def read_varint(buf: bytes, pos: int, bits: int = 32) -> tuple[int, int]:
    """Return the value of the zig-zag varint at ``pos`` and the position after it.

    :param bits: 32 (at most 5 bytes) or 64 (at most 10 bytes)
    :raises DecodeError: if the bytes end early, or the value needs more than ``bits`` bits
    """
    start = pos
    # not by wire.read_leb128: in large batches, its call for one record in five adds half of all calls
    try:
        byte = buf[pos]
        value = byte & 0x7F
        shift = 7
        while byte > 0x7F:
            if shift >= bits:
                raise DecodeError(f"varint is longer than {bits} bits", start)
            pos += 1
            byte = buf[pos]
            value |= (byte & 0x7F) << shift
            shift += 7
    except IndexError:
        raise DecodeError("varint ends early", start, truncated=True) from None
    if value >> bits:
        raise DecodeError(f"varint is longer than {bits} bits", start)
    return (value >> 1) ^ -(value & 1), pos + 1


DECOMPRESSED = "decompressed"
"""Kind of a node whose positions, and those of all nodes below it, count in decompressed bytes."""


class Cursor:
    """Reads fields one after the other and creates a node for each.

    :param kind: kind of the nodes
    :ivar nodes: nodes read so far, in order
    :raises DecodeError: from every reading method, with the field's path
    """

    def __init__(self, data: bytes, pos: int, end: int, kind: str = "") -> None:
        self.data = data
        self.pos = pos
        self.end = end
        self.kind = kind
        self.path = ""
        self.nodes: list[Node] = []

    def _add(self, name: str, start: int, value: Any) -> None:
        self.nodes.append(Node(name, start, self.kind, None, self.pos, value))

    def fail(self, name: str, reason: str, *, truncated: bool = False) -> DecodeError:
        """Return the error for field ``name``, to be raised by the caller."""
        path = f"{self.path}.{name}" if self.path else name
        return DecodeError(reason, self.pos, path, truncated=truncated)

    def fixed(self, name: str, layout: struct.Struct) -> int:
        """Read one big-endian number."""
        end = self.pos + layout.size
        if end > self.end:
            raise self.fail(name, f"needs {layout.size} bytes, {self.end - self.pos} left", truncated=True)
        start, self.pos = self.pos, end
        (value,) = layout.unpack_from(self.data, start)
        self._add(name, start, value)
        return int(value)

    def varint(self, name: str, bits: int = 32) -> int:
        """Read one zig-zag varint."""
        start = self.pos
        try:
            value, self.pos = read_varint(self.data, start, bits)
        except DecodeError as error:
            raise self.fail(name, error.reason, truncated=error.truncated) from None
        if self.pos > self.end:
            self.pos = start
            raise self.fail(name, "varint runs past the end", truncated=True)
        self._add(name, start, value)
        return value

    def run(self, name: str, length: int, *, nullable: bool = True) -> bytes | None:
        """Read ``length`` bytes; a length of -1 gives None.

        An empty or null run takes no bytes: its length field precedes it.
        """
        if length < (-1 if nullable else 0):
            raise self.fail(name, f"length {length} is not allowed")
        if length > self.end - self.pos:
            raise self.fail(name, f"announces {length} bytes, {self.end - self.pos} left", truncated=True)
        start = self.pos
        self.pos += max(length, 0)
        value = None if length < 0 else self.data[start : self.pos]
        self._add(name, start, value)
        return value

    @contextmanager
    def group(self, name: str, index: int | None = None) -> Iterator[None]:
        """Collect the nodes read inside as children of one node, even if reading fails.

        :param index: index of the element, if the node belongs to an array; it is the node's name then
        """
        outer, path = self.nodes, self.path
        node = Node(name if index is None else index, self.pos, self.kind)
        outer.append(node)
        self.nodes = []
        self.path = ".".join(filter(None, (path, name if index is None else f"{name}[{index}]")))
        try:
            yield
        finally:
            node.end, node.children = self.pos, self.nodes or None
            self.nodes, self.path = outer, path


_INT8 = struct.Struct(">b")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UINT32 = struct.Struct(">I")


def walk_record(cursor: Cursor, name: str, index: int | None = None) -> None:
    """Read one record of a batch of magic 2 (``DefaultRecord.java``).

    :raises DecodeError: also if the fields do not take up exactly the announced length
    """
    outer_end = cursor.end
    with cursor.group(name, index):
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
            # The record's own length cuts its fields short; more bytes would not help.
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


def walk_message(cursor: Cursor, name: str, index: int | None = None) -> None:
    """Read one entry of a message set, magic 0 or 1 (``LegacyRecord.java``), from its offset to its value.

    The caller has checked that the entry is whole and its magic is 0 or 1; ``cursor.end`` is its end.

    :raises DecodeError: also if the fields do not take up exactly the announced size
    """
    with cursor.group(name, index):
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
