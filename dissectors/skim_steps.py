"""The steps of a walk over an encoded message, and how they are made from a declaration (:mod:`dissectors.skim`).

A step reads one length, count, marker or wanted value. It knows how many bytes of fixed-width fields lie before it, so
these take no step. Steps are made backwards, each with the one that follows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dissectors import wire
from dissectors.errors import DecodeError
from dissectors.projection import Tree, known, tree

if TYPE_CHECKING:
    from dissectors.skim import Walk


class TaggedField(NamedTuple):
    """A tagged field (KIP-482) around a value: its size stands before it, and changes with it.

    :ivar start: offset of the first byte of the size
    :ivar end: offset after the size, where the content begins
    :ivar size: bytes of content
    :ivar outer: the tagged field around this one
    """

    start: int
    end: int
    size: int
    outer: TaggedField | None


class Spot(NamedTuple):
    """One occurrence of a wanted field.

    :ivar pattern: its path with ``%d`` for indexes
    :ivar indexes: those
    :ivar start: offset of its first byte, length prefix included
    :ivar end: offset after its last byte
    :ivar value: as decoded
    :ivar con: its wire type
    :ivar inside: the innermost tagged field around it
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


Next: TypeAlias = "tuple[int, Step | None]"


class Step:
    """One read. ``go`` returns the position after it, which may lie behind the bytes, and the next step.

    It raises IndexError, or DecodeError with ``truncated``, without having changed anything, if it needs more bytes.

    :ivar before: bytes to pass over before the read
    :ivar then: the step that follows; None ends the route
    """

    __slots__ = ("before", "then")

    def __init__(self, then: Step | None) -> None:
        self.before = 0
        self.then = then

    def go(self, walk: Walk, buf: bytes, pos: int) -> Next:
        raise AssertionError("every step goes its own way")


class Pass(Step):
    """Reads nothing."""

    __slots__ = ()

    def go(self, walk: Walk, buf: bytes, pos: int) -> Next:
        return pos + self.before, self.then


class _Wanted(Step):
    """Reads a wanted value."""

    __slots__ = ("_con", "_pattern")

    def __init__(self, con: wire.Leaf, pattern: str, then: Step) -> None:
        super().__init__(then)
        self._con = con
        self._pattern = pattern

    def go(self, walk: Walk, buf: bytes, pos: int) -> Next:
        pos += self.before
        value, end = self._con.read(buf, pos)
        base = walk.base
        indexes = tuple(walk.indexes)
        walk.spots.append(Spot(self._pattern, indexes, base + pos, base + end, value, self._con, walk.inside))
        return end, self.then


class _Units(Step):
    """Passes over what has a length of bytes, or of elements that are all as wide."""

    __slots__ = ("_con", "_counts", "_longest", "_short", "_unit")

    def __init__(self, con: wire.Sized, unit: int, then: Step) -> None:
        super().__init__(then)
        self._con = con
        self._unit = unit
        self._counts = isinstance(con, wire.Array)
        self._longest = con.longest if isinstance(con, wire.SizedLeaf) else wire.SizedLeaf.longest
        # compact lengths that need no second look: 0 is null, 128 and more go on in the next byte
        self._short = range(0 if con.nullable else 1, 128 if con.compact else 0)

    def go(self, walk: Walk, buf: bytes, pos: int) -> Next:
        pos += self.before
        length = buf[pos]
        if length in self._short:
            return pos + 1 + ((length - 1) * self._unit if length else 0), self.then
        length, pos = self._con.read_length(buf, pos)
        if length > self._longest:
            raise DecodeError(f"{self._con.kind} of {length} bytes, Kafka allows {self._longest}", pos)
        if self._counts and walk.budget is not None and 0 < length * self._unit <= len(buf) - pos:
            walk.budget.spend("elements", length, f"an array of {length:,}")
        return pos + max(length, 0) * self._unit, self.then


class _Elements(Step):
    """Reads the count of an array that is walked through element by element.

    :param limit: counts the elements
    """

    __slots__ = ("_con", "_limit", "first")

    def __init__(self, con: wire.Array, limit: str, then: Step) -> None:
        super().__init__(then)
        self._con = con
        self._limit = limit
        self.first: Step = self

    def go(self, walk: Walk, buf: bytes, pos: int) -> Next:
        count, pos = self._con.read_length(buf, pos + self.before)
        if count <= 0:
            return pos, self.then
        if walk.budget is not None:  # and all bytes are there
            if count > len(buf) - pos:
                raise DecodeError(f"array of {count:,} elements in {len(buf) - pos:,} bytes", pos)
            walk.budget.spend(self._limit, count, f"an array of {count:,}")
        walk.indexes.append(0)
        walk.counts.append(count)
        return pos, self.first


class _NextElement(Step):
    """Goes to the next element of an array, or leaves it."""

    __slots__ = ("_array",)

    def __init__(self, array: _Elements) -> None:
        super().__init__(array.then)
        self._array = array

    def go(self, walk: Walk, buf: bytes, pos: int) -> Next:
        indexes = walk.indexes
        index = indexes[-1] + 1
        if index < walk.counts[-1]:
            indexes[-1] = index
            return pos + self.before, self._array.first
        indexes.pop()
        walk.counts.pop()
        return pos + self.before, self.then


class _Marker(Step):
    """Reads whether a struct is there."""

    __slots__ = ("_con", "_first")

    def __init__(self, con: wire.NullableStruct, first: Step, then: Step) -> None:
        super().__init__(then)
        self._con = con
        self._first = first

    def go(self, walk: Walk, buf: bytes, pos: int) -> Next:
        present, pos = self._con.read_marker(buf, pos + self.before)
        return pos, self._first if present else self.then


class _Tags(Step):
    """Reads the count of a tag section."""

    __slots__ = ("_each",)

    def __init__(self, each: _Tag, then: Step) -> None:
        super().__init__(then)
        self._each = each

    def go(self, walk: Walk, buf: bytes, pos: int) -> Next:
        pos += self.before
        if not buf[pos]:
            return pos + 1, self.then
        count, pos = wire.read_uvarint(buf, pos)
        walk.tags.append(count)
        return pos, self._each


class _Tag(Step):
    """Reads tag and size of the next tagged field, and passes over the content unless it is wanted."""

    __slots__ = ("wanted",)

    def __init__(self, then: Step) -> None:
        super().__init__(then)
        self.wanted: dict[int, Step] = {}

    def go(self, walk: Walk, buf: bytes, pos: int) -> Next:
        left = walk.tags
        if not left[-1]:
            left.pop()
            return pos, self.then
        tag, start = wire.read_uvarint(buf, pos)
        size, pos = wire.read_uvarint(buf, start)
        left[-1] -= 1
        first = self.wanted.get(tag)
        if first is None:
            return pos + size, self
        walk.inside = TaggedField(walk.base + start, walk.base + pos, size, walk.inside)
        return pos, first


class _EndOfTag(Step):
    """Leaves a wanted tagged field, which must have been as long as announced."""

    __slots__ = ()

    def go(self, walk: Walk, buf: bytes, pos: int) -> Next:
        pos += self.before
        field = walk.inside
        assert field is not None
        used = walk.base + pos - field.end
        if used != field.size:
            reason = f"{field.size} bytes are announced for the tagged field, it has {used}"
            raise DecodeError(reason, field.end - walk.base)
        walk.inside = field.outer
        return pos, self.then


# ---------------------------------------------------------------- from declarations to steps
def to_fields(structs: Sequence[wire.Struct], paths: Iterable[str]) -> Step:
    """Return the first step on the way past all fields on some paths of the last struct."""
    *before, last = structs
    wanted = known(last, tree(paths))
    if not wanted:
        return Pass(None)
    return through(before, _fields(_up_to_the_last(last, wanted), wanted, "", Pass(None)))


def through(structs: Sequence[wire.Struct], then: Step) -> Step:
    """Return the first step through structs of which nothing is wanted."""
    for con in reversed(structs):
        then = _fields(con, {}, "", then)
    return then


def _fields(con: wire.Struct, wanted: Tree, path: str, then: Step) -> Step:
    """Return the first step through a struct, going backwards from the step that follows it.

    :param wanted: fields of the struct
    :param path: of the struct, with its dot, and ``%d`` for indexes
    """
    if con.tagged is not None:
        then = _tag_section(con.tagged, wanted, path, then)
    for member in reversed(con.members):
        then = _field(member, wanted, path, then)
    return then


def _tag_section(tagged: dict[int, wire.Member], wanted: Tree, path: str, then: Step) -> Step:
    each = _Tag(then)
    for tag, member in tagged.items():
        if member.name in wanted:
            each.wanted[tag] = _field(member, wanted, path, _EndOfTag(each))
    return _Tags(each, then)


def _field(member: wire.Member, wanted: Tree, path: str, then: Step) -> Step:
    name = member.name
    inner: Tree = {}
    if name in wanted:
        found = wanted[name]
        if found is None:
            assert isinstance(member.con, wire.Leaf), f"{path}{name} is no single value"
            return _Wanted(member.con, path + name, then)
        inner = found
    return _inside(member.con, inner, path + name, then)


def _inside(con: wire.WireType, wanted: Tree, path: str, then: Step) -> Step:
    width = None if wanted else wire.width_of(con)
    if width is not None:
        then.before += width
        return then
    match con:
        case wire.SizedLeaf():
            return _Units(con, 1, then)
        case wire.Array():
            unit = None if wanted else wire.width_of(con.element)
            if unit is not None:
                return _Units(con, unit, then)
            array = _Elements(con, "addresses" if wanted else "elements", then)
            array.first = _inside(con.element, wanted, f"{path}[%d]", _NextElement(array))
            return array
        case wire.NullableStruct():
            # a step of its own after the struct: what lies before the next one is there without the struct too
            return _Marker(con, _fields(con.struct, wanted, f"{path}.", Pass(then)), then)
        case wire.Struct():
            return _fields(con, wanted, f"{path}.", then)
        case _:
            raise AssertionError(f"no way over {con!r}")


def _up_to_the_last(con: wire.Struct, wanted: Tree) -> wire.Struct:
    """Leave out what comes after the last wanted field."""
    if any(member.name in wanted for member in (con.tagged or {}).values()):
        return con
    last = max(index for index, member in enumerate(con.members) if member.name in wanted)
    return wire.Struct(con.members[: last + 1], None)
