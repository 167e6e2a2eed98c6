"""A reader of protobuf's wire format, for the one schema that Kafka's clients send: OpenTelemetry metrics.

A schema is a table of :class:`ProtobufField` by number. Messages become dicts, repeated fields lists; absent fields
have no key; unknown fields are skipped, as protobuf requires. Everything read before an error stays in the dicts.

Source: protobuf.dev, "Encoding".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from dissectors.budget import Budget
from dissectors.errors import DecodeError
from dissectors.wire import read_leb128

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

MAX_DEPTH: Final = 32

Schema = Mapping[int, "ProtobufField"]


class Scalar(NamedTuple):
    """A type without parts: its wire type, and the conversion from raw form to value."""

    wire_type: int
    convert: Callable[[Any], Any]


class ProtobufField(NamedTuple):
    """A field of a message.

    :ivar name: as in the .proto file
    :ivar type: a scalar, or a function that returns the schema of a message (a function, because schemas may recurse)
    :ivar repeated: the value is a list; scalars may be packed
    """

    name: str
    type: Scalar | Callable[[], Schema]
    repeated: bool = False


def _signed(raw: int) -> int:
    return raw - (1 << 64) if raw >> 63 else raw


def _zigzag(raw: int) -> int:
    return (raw >> 1) ^ -(raw & 1)


def _unpacker(code: str) -> Callable[[bytes], Any]:
    unpack = struct.Struct(code).unpack
    return lambda raw: unpack(raw)[0]


UINT = Scalar(VARINT, int)
INT = Scalar(VARINT, _signed)
SINT = Scalar(VARINT, _zigzag)
BOOL = Scalar(VARINT, bool)
DOUBLE = Scalar(FIXED64, _unpacker("<d"))
FIXED_UINT64 = Scalar(FIXED64, _unpacker("<Q"))
FIXED_INT64 = Scalar(FIXED64, _unpacker("<q"))
STRING = Scalar(LENGTH, lambda raw: raw.decode("utf-8", "backslashreplace"))
BYTES = Scalar(LENGTH, bytes)

_WIDTHS = {FIXED64: 8, FIXED32: 4}


def read(schema: Schema, data: bytes, into: dict[str, Any]) -> None:
    """Read a message of ``schema`` into a dict.

    :raises DecodeError: malformed, truncated, nested too deeply or too many values; ``into`` keeps what was read
    """
    _Reader(data).message(schema, 0, len(data), into, "", 0)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.budget = Budget("telemetry_values")

    def message(
        self, schema: Schema, pos: int, end: int, into: dict[str, Any], path: str, depth: int
    ) -> None:
        if depth > MAX_DEPTH:
            raise DecodeError(f"messages nested more than {MAX_DEPTH} deep", pos, path)
        while pos < end:
            start = pos
            tag, pos = self.varint(pos, end, path)
            number, wire_type = tag >> 3, tag & 7
            if not number:
                raise DecodeError("field number 0", start, path)
            raw, pos, at = self.raw(wire_type, pos, end, path)
            field = schema.get(number)
            if field is None:
                continue
            where = f"{path}.{field.name}" if path else field.name
            if isinstance(field.type, Scalar):
                self.scalar(field, wire_type, raw, at, pos, into, where)
                continue
            if wire_type != LENGTH:
                raise DecodeError(f"wire type {wire_type} of a message", start, where)
            inner: dict[str, Any] = {}
            if field.repeated:
                items = into.setdefault(field.name, [])
                where = f"{where}[{len(items)}]"
                items.append(inner)
            else:
                inner = into.setdefault(field.name, inner)
            self.spend(start, where)
            self.message(field.type(), at, pos, inner, where, depth + 1)

    def scalar(
        self,
        field: ProtobufField,
        wire_type: int,
        raw: Any,
        at: int,
        end: int,
        into: dict[str, Any],
        where: str,
    ) -> None:
        assert isinstance(field.type, Scalar)
        wanted, convert = field.type
        if wire_type == wanted:
            self.spend(at, where)
            if field.repeated:
                into.setdefault(field.name, []).append(convert(raw))
            else:
                into[field.name] = convert(raw)
        elif field.repeated and wire_type == LENGTH:
            items = into.setdefault(field.name, [])
            while at < end:
                raw, at, _ = self.raw(wanted, at, end, where)
                self.spend(at, where)
                items.append(convert(raw))
        else:
            raise DecodeError(f"wire type {wire_type} where {wanted} is expected", at, where)

    def raw(self, wire_type: int, pos: int, end: int, path: str) -> tuple[Any, int, int]:
        """Return the raw value, the position after it, and the position of its content."""
        if wire_type == VARINT:
            value, after = self.varint(pos, end, path)
            return value, after, pos
        if wire_type == LENGTH:
            size, pos = self.varint(pos, end, path)
        elif wire_type in _WIDTHS:
            size = _WIDTHS[wire_type]
        else:
            raise DecodeError(f"unknown wire type {wire_type}", pos, path)
        after = pos + size
        if after > end:
            raise DecodeError(f"{after - end} of {size} bytes are missing", pos, path, truncated=True)
        return self.data[pos:after], after, pos

    def varint(self, pos: int, end: int, path: str) -> tuple[int, int]:
        try:
            value, after = read_leb128(self.data, pos, 10)
        except DecodeError as error:
            raise error.moved(pos, path) from None
        if after > end:
            raise DecodeError("the bytes end inside a varint", pos, path, truncated=True)
        return value & 0xFFFFFFFFFFFFFFFF, after

    def spend(self, pos: int, path: str) -> None:
        self.budget.spend("telemetry_values", 1, "the next value", pos, path)
