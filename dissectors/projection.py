"""Decoders of chosen fields: what nobody asked for is passed over, not decoded.

A :class:`Projection` of one version of a message takes field paths, ``responses.partitions.error_code``, and gives
the same dicts as the full decoder with these fields alone. Its code is generated like that of the full decoder
(:mod:`dissectors.codegen`), from the same declaration, with :class:`~dissectors.wire.Skipped` in place of the members
that are not wanted:

* neighbouring fixed-width fields are passed over by one addition, together with those that are read;
* strings, bytes and records by their length, arrays of fixed-width elements by a multiplication; nothing is sliced;
* arrays of structs that all look alike as a whole (:mod:`dissectors.shapes`), others element by element;
* nothing is read behind the last wanted field, unless the end of the message is asked for.

Where a projection looks it finds the errors that the full decoder finds: that one then tells what is wrong and where.
It looks at lengths, and at null where none is allowed; not whether a string that it passes over is UTF-8, nor into
tagged fields that are not wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, TypeAlias

from dissectors import wire
from dissectors.budget import IN_FORCE, LimitReached
from dissectors.codegen import MALFORMED, MAX_COMPACT_BYTE, CountingDecoder, Decoder, Generator, plus
from dissectors.errors import DecodeError
from dissectors.shapes import LEAST, ShapedArray
from dissectors.versioned import Versioned

Tree: TypeAlias = "dict[str, Tree | None]"
"""Wanted fields by name: None for the whole value, else the wanted fields of the struct or structs in it."""


def tree(paths: Iterable[str]) -> Tree:
    """Return paths such as ``topics.partitions.index`` as a tree; a path includes all that is below it."""
    root: Tree = {}
    for path in sorted(paths, key=len):  # what includes others comes before them
        here = root
        *holders, last = path.split(".")
        for name in holders:
            inner = here.setdefault(name, {})
            if inner is None:
                break
            here = inner
        else:
            here.setdefault(last, None)
    return root


def pick(value: Mapping[str, Any], wanted: Tree) -> dict[str, Any]:
    """Return of a decoded struct what a projection gives of it."""
    return {name: _picked(value[name], inner) for name, inner in wanted.items() if name in value}


def _picked(value: Any, wanted: Tree | None) -> Any:
    if wanted is None or value is None:
        return value
    if isinstance(value, list):
        return [None if item is None else pick(item, wanted) for item in value]
    return pick(value, wanted)


class Projection:
    """Chosen fields of one version of one message.

    :param layout: the message in its version, such as ``FetchResponse[12]``
    :param paths: of the wanted fields, without indexes; those that this version does not have are left out
    """

    def __init__(self, layout: Versioned, paths: Iterable[str]) -> None:
        self.layout = layout
        self.wanted = known(layout.struct, tree(paths))
        self._struct = _projected(layout.struct, self.wanted)

    def __repr__(self) -> str:
        return f"<projection of {self.layout!r}>"

    @cached_property
    def _first(self) -> Decoder:
        return _decoder(_up_to_the_last(self._struct))

    @cached_property
    def _first_counted(self) -> Decoder:
        return CountingDecoder(_decoder(_up_to_the_last(self._struct), counting=True))

    @cached_property
    def _whole(self) -> Decoder:
        return _decoder(self._struct)

    def parse(self, data: bytes, pos: int = 0) -> dict[str, Any]:
        """Decode the wanted fields, those of ``layout.decode(data, pos)``; what comes after them is not looked at.

        :raises LimitReached: if the wanted fields are more than the limit ``message_objects`` allows
        :raises DecodeError: as the full decoder does, if the bytes are malformed or end early before that
        """
        if not self.layout.older:
            try:
                few = len(data) <= IN_FORCE["message_objects"]
                value, end = (self._first if few else self._first_counted)(data, pos)
            except LimitReached:
                raise
            except MALFORMED:
                end = len(data) + 1
            if end <= len(data):
                return value  # type: ignore[no-any-return]  # a decoder of a struct returns a dict
        # the full decoder says what is wrong, or which of several layouts fits
        return pick(self.layout.decode(data, pos)[0], self.wanted)

    def exactly(self, data: bytes, pos: int = 0) -> dict[str, Any] | None:
        """Decode the wanted fields if this layout accounts for every byte from ``pos`` on, else return None."""
        try:
            value, end = self._whole(data, pos)
        except MALFORMED:
            return None
        return value if end == len(data) else None


# ---------------------------------------------------------------- declarations with holes
def known(con: wire.WireType, wanted: Tree) -> Tree:
    """Return what of a tree there is in a struct."""
    struct = _struct_in(con)
    if struct is None:
        return {}
    found: Tree = {}
    for member in (*struct.members, *(struct.tagged or {}).values()):
        if member.name in wanted:
            inner = wanted[member.name]
            below = None if inner is None else known(member.con, inner)
            if below or inner is None:
                found[member.name] = below
    return found


def _struct_in(con: wire.WireType) -> wire.Struct | None:
    if isinstance(con, wire.Array):
        con = con.element
    if isinstance(con, wire.NullableStruct):
        con = con.struct
    return con if isinstance(con, wire.Struct) else None


class _Partial(wire.Struct):
    """A struct of which not all is wanted. Tags that nobody knows are not wanted either."""


def _projected(con: wire.Struct, wanted: Tree) -> _Partial:
    members = [_member(member, wanted) for member in con.members]
    if con.tagged is None:
        return _Partial(members, None)
    tagged = {tag: _member(member, wanted) for tag, member in con.tagged.items() if member.name in wanted}
    return _Partial(members, tagged)


def _member(member: wire.Member, wanted: Tree) -> wire.Member:
    if member.name not in wanted:
        con: wire.WireType = wire.Skipped(member.con)
    else:
        inner = wanted[member.name]
        con = member.con if inner is None else _inside(member.con, inner)
    return wire.Member(member.name, con, member.field)


def _inside(con: wire.WireType, wanted: Tree) -> wire.WireType:
    match con:
        case wire.Array():
            element = _inside(con.element, wanted)
            return wire.Array(element, compact=con.compact, nullable=con.nullable)
        case wire.NullableStruct():
            return wire.NullableStruct(_projected(con.struct, wanted), tagged=con.tagged)
        case wire.Struct():
            return _projected(con, wanted)
        case _:
            raise AssertionError(f"{con!r} has no fields inside")


def _up_to_the_last(con: _Partial) -> _Partial:
    """Leave out what comes after the last wanted field."""
    if con.tagged:
        return con
    members = list(con.members)
    while members and isinstance(members[-1].con, wire.Skipped):
        members.pop()
    return _Partial(members, None)


# ---------------------------------------------------------------- the generator
def _decoder(con: wire.WireType, *, counting: bool = False) -> Decoder:
    generator = _Projector(counting=counting)
    code = compile(generator.function(con), "<projection>", "exec")
    exec(code, generator.globals)  # noqa: S102  # source made from the declaration alone
    decode: Decoder = generator.globals["decode"]
    return decode


def _end_of(buf: bytes, pos: int, nullable: bool, unit: int, longest: int) -> int:
    """Pass over a compact length of several bytes, and what it announces."""
    length, pos = wire.read_uvarint(buf, pos)
    if not length and not nullable:
        raise DecodeError("null where none is allowed", pos)
    if length > longest + 1:
        raise DecodeError("longer than Kafka allows", pos)
    return pos + unit * max(length - 1, 0)


class _Tags:
    """Reads the wanted fields of a tag section that is not empty, and passes over all others."""

    def __init__(self, tagged: Mapping[int, wire.Member], *, counting: bool) -> None:
        self._members = {
            tag: (member.name, _decoder(member.con, counting=counting)) for tag, member in tagged.items()
        }

    def __call__(self, buf: bytes, pos: int, into: dict[str, Any]) -> int:
        count, pos = wire.read_uvarint(buf, pos)
        for _ in range(count):
            tag, pos = wire.read_uvarint(buf, pos)
            size, pos = wire.read_uvarint(buf, pos)
            end = pos + size
            if end > len(buf):
                raise DecodeError("tagged field longer than the bytes", pos, truncated=True)
            if tag in self._members:
                name, decode = self._members[tag]
                into[name], used = decode(buf, pos)
                if used != end:
                    raise DecodeError("tagged field of another size than announced", pos)
            pos = end
        return pos


class _Projector(Generator):
    """Writes the decoder of a wire type that has members to be passed over."""

    def __init__(self, *, counting: bool = False) -> None:
        super().__init__(counting=counting)
        self.globals["end_of"] = _end_of

    def _value(self, con: wire.WireType) -> str:
        if isinstance(con, wire.Skipped):
            self._skip(con.con)
            return ""
        return super()._value(con)

    def _struct(self, con: wire.Struct) -> str:
        if not isinstance(con, _Partial):
            return super()._struct(con)
        values = [(member.name, self._value(member.con)) for member in con.members]
        literal = "{" + ", ".join(f"{name!r}: {value}" for name, value in values if value) + "}"
        if con.tagged is None:
            return literal
        count, value = self._read("B", "n"), self._name("o")
        self._flush()
        self._line(f"{value} = {literal}")
        self._tags(con, count, value)
        return value

    def _tags(self, con: wire.Struct, count: str, into: str) -> None:
        tags = self.bind("tags", _Tags(con.tagged or {}, counting=self.counting))
        self._line(f"if {count}: pos = {tags}(buf, pos - 1, {into})")

    # ------------------------------------------------------------ passing over
    def _skip(self, con: wire.WireType) -> None:
        width = wire.width_of(con)
        if width is not None:
            self._run.append(("", f"{width}x"))
            return
        match con:
            case wire.SizedLeaf():
                self._skip_units(con, 1, con.prefix.format[1:], con.longest)
            case wire.Array():
                unit = wire.width_of(con.element)
                if unit is None:
                    self._skip_elements(con)
                else:
                    self._skip_units(con, unit, "i", _MOST_ELEMENTS)
            case wire.NullableStruct():
                self._nullable_struct(wire.NullableStruct(_hollow(con.struct), tagged=con.tagged))
            case wire.Struct():
                self._skip_struct(con)
            case _:
                raise AssertionError(f"no generated code to pass over {con!r}")

    def _skip_struct(self, con: wire.Struct) -> None:
        for member in con.members:
            self._skip(member.con)
        if con.tagged is not None:
            count = self._read("B", "n")
            self._flush()
            self._tags(_NO_TAGS, count, "None")

    def _skip_units(self, con: wire.Sized, unit: int, classic: str, longest: int) -> None:
        """Pass over what has a length of bytes, or of elements that are all as wide."""
        length = self._read("B" if con.compact else classic, "n")
        size = self._flush(advance=False)
        if con.compact:
            with self._block(f"if 0 < {length} < {MAX_COMPACT_BYTE + 1}:"):
                self._line(f"pos += {plus(f'{unit} * {length}' if unit != 1 else length, size - unit)}")
            with self._block(f"elif {length}:"):
                self._skip_long(con, length, size, unit, longest)
        else:
            with self._block(f"if {length} >= 0:"):
                self._line(f"pos += {plus(f'{unit} * {length}' if unit != 1 else length, size)}")
        with self._block("else:"):
            self._line(f"pos += {size}" if con.nullable else f"null({con.kind!r})")

    def _skip_long(self, con: wire.Sized, length: str, size: int, unit: int, longest: int) -> None:
        """Pass over what has a length of two bytes, the usual one of records, or of more."""
        self._line(f"high = buf[{plus('pos', size)}]")
        with self._block(f"if 0 < high < {MAX_COMPACT_BYTE + 1}:"):
            # the length is (high << 7) + (length - 128), one more than what follows
            units = f"((high << 7) + {length} - 129)"
            self._line(f"pos += {size + 1} + {units if unit == 1 else f'{unit} * {units}'}")
        with self._block("else:"):
            self._line(f"pos = end_of(buf, {plus('pos', size - 1)}, {con.nullable}, {unit}, {longest})")

    def _skip_elements(self, con: wire.Array) -> None:
        count = self._read("B" if con.compact else "i", "n")
        self._flush()
        with self._block(f"if {count} > {1 if con.compact else 0}:"):
            if con.compact:
                with self._block(f"if {count} > {MAX_COMPACT_BYTE}:"):
                    self._line(f"{count}, pos = long_length(buf, pos - 1, {con.nullable})")
                self._line(f"{count} -= 1")
            shaped = ShapedArray.of(_hollow(con.element), self.globals)
            if shaped is None:
                self._skip_each(con.element, count)
            else:
                name, found = self.bind("shaped", shaped), self._name("f")
                self._line(f"{found} = {name}(buf, pos, {count}) if {count} >= {LEAST} else None")
                with self._block(f"if {found}:"):
                    self._line(f"pos = {found}[1]")
                with self._block("else:"):
                    self._skip_each(con.element, count)
        if not con.nullable:
            with self._block(f"elif {f'not {count}' if con.compact else f'{count} < 0'}:"):
                self._line(f"null({con.kind!r})")

    def _skip_each(self, element: wire.WireType, count: str) -> None:
        with self._block(f"for _ in range({count}):"):
            self._skip(element)
            self._flush()


_MOST_ELEMENTS = 0x7FFF_FFFF
_NO_TAGS = wire.Struct((), {})


def _hollow(con: wire.WireType) -> Any:
    """Return a struct of which nothing is wanted; any other type as it is."""
    return _projected(con, {}) if isinstance(con, wire.Struct) else con
