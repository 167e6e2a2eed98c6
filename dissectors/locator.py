"""Positions of chosen fields in encoded messages, whole or arriving in pieces.

A decoder gives values, a trace gives every field. A :class:`FieldLocator` gives the byte ranges of a few fields, so
that
:mod:`dissectors.splice` can replace them. It also finds where a late part of a message starts while the message streams
through, without keeping any of it.

A locator is prepared once per layout. Unwanted fields are skipped by their length or by a sum of widths and are not
checked: neither that a string is UTF-8, nor the content of tagged fields. Nothing is read after the last wanted field.
Positions and offsets count from the first byte passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from dissectors import wire
from dissectors.budget import Budget
from dissectors.errors import DecodeError
from dissectors.headers import response_header
from dissectors.projection import Tree, known, tree, truncated_to
from dissectors.schema import Message

_Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]


class TaggedField(NamedTuple):
    """A tagged field (KIP-482) around a value: its size precedes it and changes with it.

    :ivar start: offset of the first byte of the size
    :ivar end: offset after the size, where the content starts
    :ivar size: bytes of content
    :ivar outer: the tagged field around this one
    """

    start: int
    end: int
    size: int
    outer: TaggedField | None


class FieldLocation(NamedTuple):
    """One occurrence of a wanted field.

    :ivar pattern: path of the field with ``%d`` for indexes
    :ivar indexes: array indexes that fill `pattern`
    :ivar start: offset of the first byte, length prefix included
    :ivar end: offset after the last byte
    :ivar value: decoded value
    :ivar con: wire type
    :ivar inside: the innermost tagged field around the value
    """

    pattern: str
    indexes: tuple[int, ...]
    start: int
    end: int
    value: Any
    con: wire.Leaf
    inside: TaggedField | None

    @property
    def path(self) -> str:
        """The path with indexes, ``brokers[0].host``."""
        return self.pattern % self.indexes


def response_structs(message: Message, version: int) -> tuple[wire.Struct, wire.Struct]:
    """Return the structs of a response's header and body, which follow the size of its frame."""
    return response_header(message, version).struct, message[version].struct


class _Part(NamedTuple):
    """One read.

    :ivar before: bytes of fixed-width fields before it
    :ivar con: wire type of a wanted value, or of a type that starts with a length, count or marker; None for a tag
        section
    :ivar read: reads the value, length, count or marker; None if only fixed-width fields are left
    :ivar unit: bytes for each unit of the length, if the content is skipped by its length
    :ivar least: smallest first byte that is by itself the length or count of skipped content
    :ivar most: bound of these first bytes, excluded
    :ivar inner: the parts of an element or of a struct; for a tag section, the parts of wanted fields by tag
    :ivar pattern: path of a wanted value, with ``%d`` for indexes
    :ivar limit: limit that the elements count against
    """

    before: int
    con: Any = None
    read: _Read | None = None
    unit: int = 0
    least: int = 0
    most: int = 0
    inner: Any = ()
    pattern: str = ""
    limit: str = "elements"


class _Parts:
    """Consecutive reads; fixed-width fields between them need no reads of their own."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._before = 0

    def done(self) -> tuple[_Part, ...]:
        """Return the reads. If fixed-width fields end the sequence, a last part without a read skips them."""
        return (*self._parts, _Part(self._before)) if self._before else tuple(self._parts)

    def struct(self, con: wire.Struct, wanted: Tree, path: str) -> _Parts:
        """Add the reads of a struct.

        :param wanted: wanted fields of the struct
        :param path: path of the struct, with its dot
        """
        for member in con.members:
            self._field(member, wanted, path)
        if con.tagged is not None:
            chosen = {tag: member for tag, member in con.tagged.items() if member.name in wanted}
            inner = {tag: _Parts()._field(member, wanted, path).done() for tag, member in chosen.items()}
            self._add(None, wire.read_uvarint, most=1, inner=inner)
        return self

    def _field(self, member: wire.Member, wanted: Tree, path: str) -> _Parts:
        path += member.name
        inner = wanted.get(member.name, {})
        if inner is None:
            assert isinstance(member.con, wire.Leaf), f"{path} is not a single value"
            return self._add(member.con, member.con.read, pattern=path)
        return self._value(member.con, inner, path)

    def _value(self, con: wire.WireType, wanted: Tree, path: str) -> _Parts:
        width = None if wanted else wire.width_of(con)
        if width is not None:
            self._before += width
            return self
        match con:
            case wire.SizedLeaf():
                return self._units(con, 1)
            case wire.Array():
                unit = None if wanted else wire.width_of(con.element)
                if unit is not None:
                    return self._units(con, unit)
                inner = _Parts()._value(con.element, wanted, f"{path}[%d]").done()
                return self._add(
                    con, con.read_length, inner=inner, limit="addresses" if wanted else "elements"
                )
            case wire.NullableStruct():
                inner = _Parts().struct(con.struct, wanted, f"{path}.").done()
                return self._add(con, con.read_marker, inner=inner)
            case wire.Struct():
                return self.struct(con, wanted, f"{path}.")
            case _:
                raise AssertionError(f"no way over {con!r}")

    def _units(self, con: wire.SizePrefixed, unit: int) -> _Parts:
        # compact lengths of one byte are read in place: 0 is null, 128 and more continue in the next byte
        most = 128 if con.compact else 0
        return self._add(con, con.read_length, unit=unit, least=int(not con.nullable), most=most)

    def _add(self, con: wire.WireType | None, read: Any, **more: Any) -> _Parts:
        self._parts.append(_Part(self._before, con, read, **more))
        self._before = 0
        return self


class FieldLocator:
    """Finds fields in messages of one layout; made by :meth:`to_fields`, :meth:`through` or :meth:`up_to`."""

    def __init__(self, structs: Sequence[wire.Struct], wanted: Tree | None = None) -> None:
        parts = _Parts()
        *before, last = structs
        for con in before:
            parts.struct(con, {}, "")
        self.parts = parts.struct(last, wanted or {}, "").done()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be read, for example because the version has none of the wanted fields."""
        return all(part.read is None for part in self.parts)

    @classmethod
    def to_fields(cls, structs: Sequence[wire.Struct], paths: Iterable[str]) -> FieldLocator:
        """Return a locator of all occurrences of some fields.

        :param structs: consecutive structs: that of a message, or those of its header and its body
        :param paths: wanted fields of the last struct, without indexes: numbers, strings or bytes. Fields that it does
            not have are ignored
        """
        *before, last = structs
        wanted = known(last, tree(paths))
        return cls([*before, truncated_to(last, wanted)], wanted) if wanted else cls([wire.Struct((), None)])

    @classmethod
    def through(cls, structs: Sequence[wire.Struct]) -> FieldLocator:
        """Return a locator that runs to the end of consecutive structs, past every array that cannot be skipped."""
        return cls(structs)

    @classmethod
    def up_to(cls, structs: Sequence[wire.Struct], part: str) -> FieldLocator:
        """Return a locator of the first byte of a top-level field of the last struct or, for ``_tags``, of the tag
        section that closes it.

        :raises ValueError: if the struct has no such field
        """
        *before, last = structs
        names = [member.name for member in last.members]
        if last.tagged is not None:
            names.append(wire.UNKNOWN_TAGS)
        return cls([*before, wire.Struct(last.members[: names.index(part)], None)])

    def find(self, data: bytes, pos: int = 0, budget: Budget | None = None) -> list[FieldLocation]:
        """Return the wanted fields of a whole message, in byte order.

        :param budget: its limit ``addresses`` bounds the elements of arrays with wanted fields, ``elements`` those of
            others
        :raises DecodeError: if the bytes are malformed or end early
        :raises LimitReached: if there are more elements than the budget has
        """
        search = FieldSearch(self, pos, budget)
        if not search.reads_all(data):
            raise DecodeError("the bytes end early", len(data), truncated=True)
        return search.found


class FieldSearch:
    """The search through one message whose bytes arrive in pieces.

    Between pieces it keeps at most the start of a length or of a wanted value.

    :param skip: bytes to skip before the message starts
    :param budget: counts the elements of arrays; only if all bytes are in one piece
    :ivar found: wanted fields found so far, in byte order
    """

    __slots__ = ("_base", "_budget", "_buf", "_indexes", "_pos", "_reading", "found")

    def __init__(self, locator: FieldLocator, skip: int = 0, budget: Budget | None = None) -> None:
        self.found: list[FieldLocation] = []
        self._budget = budget
        self._buf = b""
        self._base = 0  # offset of the first byte of the buffer
        self._pos = skip
        self._indexes: list[int] = []
        self._reading = self._read(locator.parts, None)

    def reads_all(self, data: bytes) -> bool:
        """Search a whole message; return whether its bytes suffice.

        :raises DecodeError: if they are malformed
        """
        self._buf = data
        return next(self._reading, True) is True and self._pos <= len(data)

    def feed(self, data: bytes) -> int | None:
        """Take the next bytes; return the offset at which the search ends, None until it is known.

        The offset may lie behind the bytes that have arrived. Feed nothing after it is known.

        :raises DecodeError: if the bytes are malformed
        """
        ahead = self._pos - len(self._buf)
        self._base += self._pos if ahead < 0 else len(self._buf)
        self._buf = self._buf[self._pos :] + data if ahead < 0 else data
        self._pos = max(ahead, 0)
        if self._pos >= len(self._buf):
            return None
        try:
            return self._base + self._pos if next(self._reading, True) else None
        except DecodeError as error:
            raise DecodeError(error.reason, self._base + error.offset) from None

    def _read(self, parts: tuple[_Part, ...], inside: TaggedField | None, count: int = 1) -> Iterator[bool]:
        """Read parts; yield where more bytes are needed.

        One loop on purpose: a coroutine for each read costs more than the read.

        :param inside: the innermost wanted tagged field around them
        :param count: number of repetitions, for the elements of an array
        """
        buf, pos = self._buf, self._pos
        for index in range(count):
            if index:
                self._indexes[-1] = index
            for before, con, read, unit, least, most, inner, pattern, limit in parts:
                pos += before
                if most and pos < len(buf) and least <= (length := buf[pos]) < most:
                    pos += 1 + (length - 1) * unit if length else 1
                    continue
                if read is None:
                    continue
                try:
                    value, end = read(buf, pos)
                except DecodeError as error:
                    value, end = yield from self._read_later(error, read, pos)
                    pos = self._pos
                if pattern:
                    first, last = self._base + pos, self._base + end
                    indexes = tuple(self._indexes)
                    self.found.append(FieldLocation(pattern, indexes, first, last, value, con, inside))
                    buf, pos = self._buf, end
                    continue
                self._pos = end
                if unit:
                    self._pass(con, value, unit)
                else:
                    yield from self._read_content(con, value, inner, inside, limit)
                buf, pos = self._buf, self._pos
        self._pos = pos

    def _read_content(
        self, con: Any, count: int, inner: Any, inside: TaggedField | None, limit: str
    ) -> Iterator[bool]:
        """Read what follows a count of tags or elements, or the marker of a struct."""
        if con is None:
            yield from self._read_tags(count, inner, inside)
        elif isinstance(con, wire.NullableStruct):
            if count:
                yield from self._read(inner, inside)
        elif count > 0:
            self._spend_elements(count, limit)
            self._indexes.append(0)
            yield from self._read(inner, inside, count)
            self._indexes.pop()

    def _read_later(
        self, error: DecodeError, read: _Read, pos: int
    ) -> Generator[bool, None, tuple[Any, int]]:
        """Return a value and its end once its bytes have arrived; yield until then.

        :param error: why it could not be read
        """
        self._pos = pos
        while error.truncated:
            yield False
            try:
                return read(self._buf, self._pos)
            except DecodeError as again:
                error = again
        raise error

    def _spend_elements(self, count: int, limit: str) -> None:
        if self._budget is not None:  # only given if all bytes are in one piece
            left = len(self._buf) - self._pos
            if count > left:
                raise DecodeError(f"array of {count:,} elements in {left:,} bytes", self._pos)
            self._budget.spend(limit, count, f"an array of {count:,}")

    def _pass(self, con: wire.SizePrefixed, length: int, unit: int) -> None:
        """Skip a number of bytes, or of elements of equal width."""
        if isinstance(con, wire.Array):
            fits = 0 < length * unit <= len(self._buf) - self._pos
            if self._budget is not None and fits:
                self._budget.spend("elements", length, f"an array of {length:,}")
        elif isinstance(con, wire.SizedLeaf) and length > con.longest:
            raise DecodeError(f"{con.kind} of {length} bytes, Kafka allows {con.longest}", self._pos)
        self._pos += max(length, 0) * unit

    def _read_tags(
        self, count: int, wanted: dict[int, tuple[_Part, ...]], outer: TaggedField | None
    ) -> Iterator[bool]:
        for _ in range(count):
            try:
                (tag, start, size), self._pos = _read_tag(self._buf, self._pos)
            except DecodeError as error:
                (tag, start, size), self._pos = yield from self._read_later(error, _read_tag, self._pos)
            if tag not in wanted:
                self._pos += size
                continue
            field = TaggedField(self._base + start, self._base + self._pos, size, outer)
            yield from self._read(wanted[tag], field)
            used = self._base + self._pos - field.end
            if used != size:
                reason = f"{size} bytes are announced for the tagged field, it has {used}"
                raise DecodeError(reason, field.end - self._base)


def _read_tag(buf: bytes, pos: int) -> tuple[tuple[int, int, int], int]:
    """Read number and size of a tagged field: return number, offset of the size, and size."""
    tag, start = wire.read_uvarint(buf, pos)
    size, end = wire.read_uvarint(buf, start)
    return (tag, start, size), end
