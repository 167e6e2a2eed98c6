"""Arrays of structs that all look alike are decoded by one ``struct.iter_unpack``.

In practice the elements of an array often share their byte shape: the same lengths of strings and of arrays of
numbers, no tagged fields. If so, the array is a table with rows of fixed width. :class:`ShapedArray` takes the shape
of the first element, checks with strided slices (in C) that every element has the same length bytes, and decodes the
rows at once; the code for a shape is generated when it has been met often enough, and kept. Otherwise it declines,
and the ordinary loop runs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Self

from dissectors import wire

_MAX_SHAPES = 64  # kept for one array type
_MAX_SEEN = 1024  # shapes counted, not yet worth code of their own
_PATIENCE = 16  # misses in a row after which only every 16th array is tried
_WORTHWHILE = 64  # elements of a shape that pay for making its code
LEAST = 4  # elements that are decoded faster together than one by one
_UNSHAPED = (wire.Array, wire.NullableStruct, wire.Struct, wire.Records)

Rows = Callable[[bytes, int, int], tuple[list[dict[str, Any]], int] | None]


class _Part:
    """A variable-length part of an element: fixed bytes before its length byte, bytes per unit of length."""

    __slots__ = ("before", "nullable", "unit")

    def __init__(self, before: int, unit: int, *, nullable: bool) -> None:
        self.before = before
        self.unit = unit
        self.nullable = nullable


class ShapedArray:
    """Decodes arrays of one struct type whose elements have one shape.

    Members that are :class:`~dissectors.wire.Skipped` stay out of the dicts; where all are, there are no dicts. Called
    with ``(buf, pos, count)`` it returns the list of dicts and the position after them, or None where the elements
    differ in shape. Worth calling from :data:`LEAST` elements on. May be used by several threads.
    """

    def __init__(self, element: wire.Struct, names: dict[str, Any]) -> None:
        self._element = element
        self._names = names
        self._made: dict[bytes, Rows] = {}
        self._seen: dict[bytes, int] = {}
        self._last: Rows = _no_rows
        self._misses = 0
        self._parts: list[_Part] = []
        fixed = 0
        for member in element.members:
            con = _behind(member.con)
            if isinstance(con, wire.Fixed | wire.Uuid):
                fixed += con.size
            else:
                self._parts.append(_Part(fixed, _unit(con), nullable=con.nullable))
                fixed = 0
        if element.tagged is not None:
            self._parts.append(_Part(fixed, 0, nullable=True))
            fixed = 0
        self._tail = fixed

    @classmethod
    def of(cls, element: wire.WireType, names: dict[str, Any]) -> Self | None:
        """Return a decoder for such elements, or None if they hold what has no fixed shape."""
        if not isinstance(element, wire.Struct):
            return None
        for member in element.members:
            con = _behind(member.con)
            if isinstance(con, wire.Array) and isinstance(con.element, wire.Fixed) and con.compact:
                continue
            if isinstance(con, _UNSHAPED) or (isinstance(con, wire.SizedLeaf) and not con.compact):
                return None
        return cls(element, names)

    def __call__(self, buf: bytes, pos: int, count: int) -> tuple[list[dict[str, Any]], int] | None:
        found = self._last(buf, pos, count)
        if found is not None:
            return found
        self._misses += 1
        if self._misses > _PATIENCE and self._misses % _PATIENCE:
            return None
        return self._by_first(buf, pos, count)

    def _by_first(self, buf: bytes, pos: int, count: int) -> tuple[list[dict[str, Any]], int] | None:
        """Take the shape of the first element, and decode if there is code for it."""
        shape = self._shape(buf, pos)
        if shape is None:
            return None
        rows = self._made.get(shape) or self._worth_making(shape, buf, pos, count)
        if rows is None:
            return None
        found = rows(buf, pos, count)
        if found is not None:
            self._last = rows
            self._misses = 0
        return found

    def _shape(self, buf: bytes, pos: int) -> bytes | None:
        """Return the length bytes of the element at ``pos``; None if it has tags, long parts,
        a wrong null, or an end beyond the buffer's."""
        lengths = bytearray()
        for part in self._parts:
            pos += part.before
            length = buf[pos] if pos < len(buf) else 255
            if length > 127 or (length and not part.unit) or not (length or part.nullable):
                return None
            lengths.append(length)
            pos += 1 + (part.unit * (length - 1) if length else 0)
        return bytes(lengths)

    def _worth_making(self, shape: bytes, buf: bytes, pos: int, count: int) -> Rows | None:
        """Make the code for a shape once it has been met in enough elements; the last of the array vouches for all."""
        if (
            len(self._made) >= _MAX_SHAPES
            or self._shape(buf, pos + self._width(shape) * (count - 1)) != shape
        ):
            return None
        if len(self._seen) >= _MAX_SEEN:
            self._seen.clear()
        met = self._seen[shape] = self._seen.get(shape, 0) + count
        if met < _WORTHWHILE:
            return None
        made = self._made[shape] = self._generate(shape)
        return made

    def _width(self, shape: bytes) -> int:
        parts = zip(self._parts, shape, strict=True)
        return self._tail + sum(part.before + 1 + part.unit * max(length - 1, 0) for part, length in parts)

    def _generate(self, shape: bytes) -> Rows:
        codes, items, checks, count, lengths = ">", [], [], 0, iter(shape)

        def variable() -> str:
            nonlocal count
            count += 1
            return f"v{count}"

        def length_byte() -> int:
            nonlocal codes
            length = next(lengths)
            checks.append((struct.calcsize(codes), length))
            codes += "x"
            return length

        for member in self._element.members:
            con = member.con
            if isinstance(con, wire.Skipped):
                size = _size(con.con, length_byte)
                codes += f"{size}x"
                continue
            if isinstance(con, wire.Fixed):
                codes += con.code
                value = variable()
            elif isinstance(con, wire.Uuid):
                codes += "16s"
                value = f"uuids[{variable()}]"
            else:
                length = length_byte()
                if not length:
                    value = "None"
                elif isinstance(con, wire.Array):
                    codes += f"{length - 1}{con.element.code}" if length > 1 else ""
                    value = "(" + "".join(variable() + ", " for _ in range(length - 1)) + ")"
                else:
                    codes += f"{length - 1}s"
                    value = variable() + (".decode()" if isinstance(con, wire.String) else "")
            items.append(f"{member.name!r}: {value}")
        if self._element.tagged is not None:
            length_byte()
        if not count:
            codes += "0s"
            variable()
        width = struct.calcsize(codes)
        variables = "".join(f"v{number + 1}, " for number in range(count))
        values = f"[{{{', '.join(items)}}} for {variables}in rows(buf[pos:end])]"
        if self._element.members and not items:
            values = "[]"
        differ = [f"buf[pos + {at}:end:{width}].count({length}) != count" for at, length in checks]
        source = f"""
def decode(buf, pos, count):
    end = pos + {width} * count
    if {" or ".join(["end > len(buf)", *differ])}: return None
    return {values}, end
"""
        names = {**self._names, "rows": struct.Struct(codes).iter_unpack}
        exec(source, names)  # noqa: S102  # made above from the declaration
        decode: Rows = names["decode"]
        return decode


def _behind(con: wire.WireType) -> wire.WireType:
    return con.con if isinstance(con, wire.Skipped) else con


def _unit(con: wire.WireType) -> int:
    """Bytes for each unit of a length."""
    return int(con.element.size) if isinstance(con, wire.Array) else 1


def _size(con: wire.WireType, length_byte: Callable[[], int]) -> int:
    """Bytes of a part without its length byte."""
    if isinstance(con, wire.Fixed | wire.Uuid):
        return con.size
    return _unit(con) * max(length_byte() - 1, 0)


def _no_rows(buf: bytes, pos: int, count: int) -> None:
    """Stand for the code of the last shape while there is none."""
