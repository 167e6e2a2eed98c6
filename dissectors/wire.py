"""Kafka's wire types as ``construct.Construct`` subclasses.

Each type describes the bytes of one version of one message: whether lengths are compact (KIP-482) or classic, and
whether null is allowed. Declarations (:mod:`dissectors.schema`) choose among the types, :mod:`dissectors.codegen`
turns a tree of them into one fast function, :mod:`dissectors.trace` interprets the same tree field by field.

construct contributes the interface that its users know (``parse``, ``build``, ``sizeof`` and their streams), errors
with a path, and building, for which all of its machinery is used as it is. It does not contribute reading: its
interpreted parsers take 40 to 80 times as long as generated code (docs/performance.md) and report neither the byte nor
the field that is wrong, so ``_parse`` calls the generated decoder. Nor does it contribute declarations: its structs
have one layout, not one for each version.

Rules of this file:

* Leaf types implement ``read(buf, pos)``: bytes and a position in, value and next position out. Containers are
  read by generated code (``_parse``) or by the trace; here they only hold structure.
* A read past the end raises :class:`DecodeError` with ``truncated=True``; null where none is allowed, bad
  UTF-8 and impossible lengths raise it without.
* ``_build`` writes what ``read`` reads. Values: int, bool, float, str, bytes, None, lists (or tuples) and
  dicts by field name; a UUID is represented by its text form.

Sources: ``clients/src/main/java/org/apache/kafka/common/protocol/types/Type.java``, ``protocol/Readable.java``
and ``generator/.../MessageDataGenerator.java`` of Apache Kafka; KIP-482 (flexible versions), KIP-893 (nullable
structs).
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from construct import Construct, Container, SizeofError, StreamError, StringError
from construct.core import stream_write

from dissectors.errors import DecodeError

if TYPE_CHECKING:
    from dissectors.schema import Field

MAX_STRING = 32767  # MessageUtil / Type.java: Kafka's own readers reject longer strings

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


# ---------------------------------------------------------------- variable-length integers
def read_uvarint(buf: bytes, pos: int) -> tuple[int, int]:
    """Read UNSIGNED_VARINT: LEB128 of at most 5 bytes, bits beyond 32 dropped as Kafka's reader does.

    :raises DecodeError: if the bytes end early or a sixth byte would be needed
    """
    if pos < len(buf) and buf[pos] < 0x80:
        return buf[pos], pos + 1
    value, end = read_leb128(buf, pos, 5)
    return value & 0xFFFFFFFF, end


def read_leb128(buf: bytes, pos: int, longest: int) -> tuple[int, int]:
    """Return the value of a LEB128 number, and the position after it.

    :param longest: maximum number of its bytes
    :raises DecodeError: if the bytes end early, or it is longer
    """
    value = shift = 0
    for at in range(pos, pos + longest):
        if at >= len(buf):
            raise DecodeError("the bytes end inside a varint", at, truncated=True)
        byte = buf[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
    raise DecodeError(f"varint longer than {longest} bytes", pos)


def uvarint_bytes(value: int) -> bytes:
    """Encode ``value`` (0 or more) as UNSIGNED_VARINT."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# ---------------------------------------------------------------- bases
class WireType(Construct):  # type: ignore[misc]  # construct ships no types
    """A wire type of one version; ``kind`` is its name in Kafka's message definitions."""

    kind: ClassVar[str] = ""
    nullable = False

    def _sizeof(self, context: Container, path: str) -> int:
        raise SizeofError("Kafka's variable-length types have no fixed size", path=path)


class Leaf(WireType):
    """A type without parts."""

    def read(self, buf: bytes, pos: int) -> tuple[Any, int]:
        """Return the value at ``pos`` and the position after it; raise :class:`DecodeError`."""
        raise AssertionError("every leaf reads itself")

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Any:
        return parse_from_stream(self.read, stream)


def parse_from_stream(read: Any, stream: BinaryIO) -> Any:
    """Run a positional reader on the rest of a seekable stream; leave the stream positioned after the value."""
    start = stream.tell()
    data = stream.read()
    value, pos = read(data, 0)
    stream.seek(start + pos)
    return value


class FixedWidth(Leaf):
    """A big-endian number of fixed width, or a bool (any byte but zero is true)."""

    def __init__(self, kind: str, code: str) -> None:
        super().__init__()
        self.kind = kind  # type: ignore[misc]  # one class for all widths: the name is the instance's
        self.code = code
        self.format = struct.Struct(">" + code)
        self.size = self.format.size

    def read(self, buf: bytes, pos: int) -> tuple[Any, int]:
        end = pos + self.size
        if end > len(buf):
            raise DecodeError(f"the bytes end inside {self.kind}", len(buf), truncated=True)
        return self.format.unpack_from(buf, pos)[0], end

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        try:
            data = self.format.pack(obj)
        except struct.error as error:
            raise StreamError(f"{obj!r} is not a valid {self.kind}: {error}", path=path) from error
        stream_write(stream, data, len(data), path)
        return obj

    def _sizeof(self, context: Container, path: str) -> int:
        return self.size


INT8 = FixedWidth("int8", "b")
INT16 = FixedWidth("int16", "h")
INT32 = FixedWidth("int32", "i")
INT64 = FixedWidth("int64", "q")
UINT16 = FixedWidth("uint16", "H")
FLOAT64 = FixedWidth("float64", "d")
BOOL = FixedWidth("bool", "?")

ZERO_UUID = "A" * 22


def uuid_text(data: bytes) -> str:
    """Return Kafka's text form of 16 bytes: base64url without padding (``common/Uuid.java``)."""
    return urlsafe_b64encode(data)[:22].decode()


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of Kafka's text form; raise ValueError for anything else."""
    data = urlsafe_b64decode(text + "==")
    if len(data) != 16:
        raise ValueError(f"{text!r} is not a Kafka UUID: 22 characters of base64url are expected")
    return data


class Uuid(Leaf):
    """16 bytes, most significant long first; the value is Kafka's text form, all zero means none."""

    kind = "uuid"
    size = 16

    def read(self, buf: bytes, pos: int) -> tuple[str, int]:
        end = pos + 16
        if end > len(buf):
            raise DecodeError("the bytes end inside uuid", len(buf), truncated=True)
        return uuid_text(buf[pos:end]), end

    def _build(self, obj: str, stream: BinaryIO, context: Container, path: str) -> str:
        stream_write(stream, uuid_bytes(obj), 16, path)
        return obj

    def _sizeof(self, context: Container, path: str) -> int:
        return 16


UUID = Uuid()


# ---------------------------------------------------------------- length prefixes
class SizePrefixed(WireType):
    """A type that starts with a length: compact (uvarint of length + 1, 0 is null) or classic (-1 is null).

    A classic prefix has 2 bytes for strings and 4 for everything else. Any negative length is read as null, as by
    Kafka's readers.
    """

    prefix: ClassVar[struct.Struct] = _INT32

    def __init__(self, *, compact: bool, nullable: bool) -> None:
        super().__init__()
        self.compact = compact
        self.nullable = nullable

    def read_length(self, buf: bytes, pos: int) -> tuple[int, int]:
        """Return the length, -1 for null, and the position after the prefix.

        :raises DecodeError: on truncation, and on null where the field may not be null
        """
        start = pos
        if self.compact:
            length, pos = read_uvarint(buf, pos)
            length -= 1
        else:
            pos += self.prefix.size
            if pos > len(buf):
                raise DecodeError(f"the bytes end inside the length of {self.kind}", len(buf), truncated=True)
            length = max(self.prefix.unpack_from(buf, start)[0], -1)
        if length < 0 and not self.nullable:
            raise DecodeError(f"null where {self.kind} must not be null", start)
        return length, pos

    def write_length(self, length: int, stream: BinaryIO, path: str) -> None:
        """Write the prefix for ``length``, -1 for null."""
        if length < 0 and not self.nullable:
            raise StreamError(f"{self.kind} must not be null", path=path)
        try:
            data = uvarint_bytes(length + 1) if self.compact else self.prefix.pack(length)
        except struct.error as error:
            raise StreamError(f"{length} bytes are too many for {self.kind}", path=path) from error
        stream_write(stream, data, len(data), path)


class SizedLeaf(SizePrefixed, Leaf):
    """A length followed by that many bytes."""

    longest: ClassVar[int] = 0x7FFF_FFFF

    def read_bytes(self, buf: bytes, pos: int) -> tuple[bytes | None, int]:
        length, pos = self.read_length(buf, pos)
        if length < 0:
            return None, pos
        if length > self.longest:
            raise DecodeError(f"{self.kind} of {length} bytes, Kafka allows {self.longest}", pos)
        end = pos + length
        if end > len(buf):
            missing = end - len(buf)
            raise DecodeError(f"{missing} of {length} bytes of {self.kind} are missing", pos, truncated=True)
        return buf[pos:end], end

    def write_bytes(self, data: bytes | None, stream: BinaryIO, path: str) -> None:
        self.write_length(-1 if data is None else len(data), stream, path)
        if data is not None:
            stream_write(stream, data, len(data), path)


class Bytes(SizedLeaf):
    """Opaque bytes."""

    kind = "bytes"

    def _build(self, obj: bytes | None, stream: BinaryIO, context: Container, path: str) -> bytes | None:
        self.write_bytes(obj, stream, path)
        return obj

    def read(self, buf: bytes, pos: int) -> tuple[bytes | None, int]:
        return self.read_bytes(buf, pos)


class Records(Bytes):
    """Record batches or message sets, not yet split (:mod:`dissectors.records` reads them)."""

    kind = "records"


class String(SizedLeaf):
    """UTF-8 text of at most 32767 bytes."""

    kind = "string"
    prefix = _INT16
    longest = MAX_STRING

    def read(self, buf: bytes, pos: int) -> tuple[str | None, int]:
        data, end = self.read_bytes(buf, pos)
        if data is None:
            return None, end
        try:
            return data.decode(), end
        except UnicodeDecodeError as error:
            raise DecodeError(f"string is not UTF-8: {error.reason}", end - len(data) + error.start) from None

    def _build(self, obj: str | None, stream: BinaryIO, context: Container, path: str) -> str | None:
        if obj is not None and not isinstance(obj, str):
            raise StringError(f"{obj!r} is not a string", path=path)
        self.write_bytes(None if obj is None else obj.encode(), stream, path)
        return obj


# ---------------------------------------------------------------- containers
class Composite(WireType):
    """A type with parts, parsed by a decoder generated on first use."""

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Any:
        from dissectors.codegen import decoder  # codegen imports this module

        return parse_from_stream(decoder(self), stream)


class Array(SizePrefixed, Composite):
    """A count followed by that many elements."""

    kind = "array"

    def __init__(self, element: Construct, *, compact: bool, nullable: bool) -> None:
        super().__init__(compact=compact, nullable=nullable)
        self.element = element

    def _build(self, obj: Sequence[Any] | None, stream: BinaryIO, context: Container, path: str) -> Any:
        self.write_length(-1 if obj is None else len(obj), stream, path)
        for index, item in enumerate(obj or ()):
            self.element._build(item, stream, context, f"{path}[{index}]")
        return obj


class NullableStruct(Composite):
    """A struct after a marker (KIP-893): int8 -1 null, 1 present; inside a tag uvarint 0 null, 1 present."""

    kind = "struct"
    nullable = True

    def __init__(self, struct_: Struct, *, tagged: bool) -> None:
        super().__init__()
        self.struct = struct_
        self.tagged = tagged

    def read_marker(self, buf: bytes, pos: int) -> tuple[bool, int]:
        """Return whether the struct is present, and the position after the marker."""
        if self.tagged:
            marker, pos = read_uvarint(buf, pos)
            return marker != 0, pos
        marker, pos = INT8.read(buf, pos)
        return marker >= 0, pos

    def _build(self, obj: Mapping[str, Any] | None, stream: BinaryIO, context: Container, path: str) -> Any:
        null = b"\x00" if self.tagged else b"\xff"
        stream_write(stream, null if obj is None else b"\x01", 1, path)
        if obj is not None:
            self.struct._build(obj, stream, context, path)
        return obj


class Member:
    """One field of a struct in one version: its name, its wire type and the declaration it came from."""

    __slots__ = ("con", "field", "name")

    def __init__(self, name: str, con: WireType, field: Field) -> None:
        self.name = name
        self.con = con
        self.field = field


class Struct(Composite):
    """A sequence of fields; in flexible versions a section of tagged fields closes it (KIP-482).

    The value is one dict. A tagged field appears only if it is on the wire; undeclared tags are kept as
    ``{tag: bytes}`` under the key ``_tags`` (:data:`UNKNOWN_TAGS`).

    :ivar all_members: all members, tagged ones included
    """

    kind = "struct"

    def __init__(self, members: Sequence[Member], tagged: Mapping[int, Member] | None) -> None:
        super().__init__()
        self.members = tuple(members)
        self.tagged = None if tagged is None else dict(sorted(tagged.items()))
        self.all_members = (*self.members, *(self.tagged or {}).values())

    def _build(self, obj: Mapping[str, Any], stream: BinaryIO, context: Container, path: str) -> Any:
        for member in self.members:
            value = obj[member.name] if member.name in obj else member.field.default_value(member.con)
            member.con._build(value, stream, context, f"{path}.{member.name}")
        if self.tagged is not None:
            self._build_tags(obj, stream, path)
        return obj

    def _build_tags(self, obj: Mapping[str, Any], stream: BinaryIO, path: str) -> None:
        assert self.tagged is not None
        section: dict[int, bytes] = dict(obj.get(UNKNOWN_TAGS) or {})
        for tag, member in self.tagged.items():
            if member.name in obj:
                section[tag] = member.con.build(obj[member.name])
        parts = [uvarint_bytes(len(section))]
        for tag, data in sorted(section.items()):
            parts += (uvarint_bytes(tag), uvarint_bytes(len(data)), data)
        out = b"".join(parts)
        stream_write(stream, out, len(out), path)


UNKNOWN_TAGS = "_tags"


def struct_inside(con: WireType) -> tuple[Struct, bool] | None:
    """Return the struct that a value is or contains, and whether the value is an array of it; None if there is none."""
    if isinstance(con, NullableStruct):
        con = con.struct
    many = isinstance(con, Array)
    inner = con.element if isinstance(con, Array) else con
    return (inner, many) if isinstance(inner, Struct) else None


def structs_of(struct: Struct, prefix: str = "") -> Iterator[tuple[str, Struct]]:
    """Yield a struct and all structs inside it, each with the prefix of its field names in paths."""
    yield prefix, struct
    for member in struct.all_members:
        inside = struct_inside(member.con)
        if inside is not None:
            yield from structs_of(inside[0], f"{prefix}{member.name}.")


def width_of(con: WireType) -> int | None:
    """Return the width in bytes of all values of a type; None if it depends on the value."""
    if isinstance(con, FixedWidth | Uuid):
        return con.size
    if isinstance(con, Struct) and con.tagged is None:
        widths = [width_of(member.con) for member in con.members]
        return None if None in widths else sum(width for width in widths if width is not None)
    return None


def objects_of(element: WireType) -> int:
    """Return how much an array element counts against the limit ``message_objects``: its fields, 1 if it has none."""
    return max(len(element.members), 1) if isinstance(element, Struct) else 1
