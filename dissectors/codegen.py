"""Decoders generated from declarations: one flat Python function per wire type, ``decode(buf, pos) -> value, pos``.

A decoder reads everything, or chosen fields (:mod:`dissectors.projection`): members that are
:class:`~dissectors.wire.SkippedType` are skipped, by their length or by an addition, without slicing anything.

How the code is made fast:

* Neighbouring fixed-width fields are read by one ``struct.unpack_from`` (a *run*), with those that are skipped; the
  length byte of a compact field that follows them belongs to the run too.
* Compact lengths of one and two varint bytes are handled in place, longer ones by a helper.
* Arrays of numbers are one ``unpack_from``.
* The position is advanced only when something of variable length has been met.
* An array of structs is first taken for empty, as most are: one read takes in the fixed-width fields before and
  after it. If it is not empty, those after it are read again.

How it stays right: the generated code does not check every read. Index and struct errors, bad UTF-8, null where
none is allowed and a position beyond the end all mean "malformed"; the caller then has
:func:`dissectors.trace.trace` find out what and where. ``buf`` must be ``bytes``: slices of it are the values.

Every value takes a byte at least, so that bytes fewer than the limit ``message_objects`` cannot go over it. Longer ones
are decoded by a second function which counts (:class:`CountingDecoder`); it is made when the first of them is met.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from dissectors import wire
from dissectors.budget import Budget, of_message
from dissectors.errors import DecodeError
from dissectors.source_writer import SourceWriter

Decoder = Callable[[bytes, int], tuple[Any, int]]

#: what generated code raises on malformed bytes
MALFORMED = (IndexError, struct.error, UnicodeDecodeError, DecodeError)

MAX_COMPACT_BYTE = 127  # longest uvarint of one byte


# ---------------------------------------------------------------- called by generated code
class _ThreadBudget(threading.local):
    """The budget of the message that this thread decodes and counts, if it does."""

    budget: Budget | None = None


_spending = _ThreadBudget()


def _spend(amount: int, pos: int) -> None:
    """Take fields and elements that are about to be decoded from the budget.

    :raises LimitReached: if there are too many
    """
    if amount > 0 and _spending.budget is not None:
        _spending.budget.spend("message_objects", amount, f"{amount:,} more fields and elements", pos)


class _UuidTexts(dict[bytes, str]):
    """16 bytes -> text form, for the few topic IDs that a capture repeats without end."""

    def __missing__(self, data: bytes) -> str:
        text = wire.uuid_text(data)
        if len(data) == 16 and len(self) < 65536:
            self[data] = text
        return text


def _long_content(buf: bytes, pos: int, nullable: bool, unit: int, longest: int) -> tuple[int | None, int]:
    """Read a compact length of several bytes, which may be null too; return where its content begins and ends.

    :param unit: bytes for each unit of the length
    :param longest: the greatest length
    """
    length, pos = wire.read_uvarint(buf, pos)
    if not length:
        if not nullable:
            raise DecodeError("null where none is allowed", pos)
        return None, pos
    if length > longest + 1:
        raise DecodeError("longer than Kafka allows", pos)
    return pos, pos + unit * (length - 1)


def _long_length(buf: bytes, pos: int, nullable: bool) -> tuple[int, int]:
    """Read a compact length of several bytes: 0 for null, which may be written that way too."""
    start, end = _long_content(buf, pos, nullable, 1, wire.SizedLeaf.longest)
    return (0, end) if start is None else (end - start + 1, start)


def _numbers(buf: bytes, pos: int, end: int, element: wire.FixedWidth) -> tuple[Any, ...]:
    if end > len(buf):
        raise DecodeError("array longer than the bytes", pos, truncated=True)
    return struct.unpack_from(f">{(end - pos) // element.size}{element.code}", buf, pos)


def _null(kind: str) -> None:
    raise DecodeError(f"null where {kind} must not be null")


_unpackers: dict[str, list[Any]] = {}


def _short_unpackers(code: str) -> list[Any]:
    """Unpackers of arrays of numbers by compact length (count + 1), for counts below 127."""
    if code not in _unpackers:
        _unpackers[code] = [None, *(struct.Struct(f">{count}{code}").unpack_from for count in range(127))]
    return _unpackers[code]


class _TagSection:
    """Reads a tag section that is not empty into the struct's dict.

    :param partial: tags that are not among the declared ones are skipped
    """

    def __init__(self, tagged: Mapping[int, wire.Member], *, partial: bool, counting: bool) -> None:
        self.tagged = tagged
        self.partial = partial
        self.counting = counting
        self.decoders: dict[int, Decoder] = {}

    def __call__(self, buf: bytes, pos: int, into: dict[str, Any]) -> int:
        count, pos = wire.read_uvarint(buf, pos)
        if _spending.budget is not None and not self.partial:
            _spend(min(count, len(buf) - pos), pos)
        for _ in range(count):
            tag, pos = wire.read_uvarint(buf, pos)
            size, pos = wire.read_uvarint(buf, pos)
            end = pos + size
            if end > len(buf):
                raise DecodeError("tagged field longer than the bytes", pos, truncated=True)
            member = self.tagged.get(tag)
            if member is not None:
                decode = self.decoders.get(tag)
                if decode is None:
                    decode = self.decoders[tag] = decoder(member.con, counting=self.counting)
                into[member.name], used = decode(buf, pos)
                if used != end:
                    raise DecodeError("tagged field of another size than announced", pos)
            elif not self.partial:
                into.setdefault(wire.UNKNOWN_TAGS, {})[tag] = buf[pos:end]
            pos = end
        return pos


_uuids = _UuidTexts()


# ---------------------------------------------------------------- the generator
def _behind(con: wire.WireType) -> tuple[wire.WireType, bool]:
    """Return the type of a member, and whether its value is wanted."""
    return (con.con, False) if isinstance(con, wire.SkippedType) else (con, True)


def _is_fixed(con: wire.WireType) -> bool:
    con, wanted = _behind(con)
    return isinstance(con, wire.FixedWidth | wire.Uuid) if wanted else wire.width_of(con) is not None


def _unit(con: wire.WireType, wanted: bool) -> int | None:
    """Return the bytes for each unit of a length; None for what is read element by element, or has no length."""
    if isinstance(con, wire.SizedLeaf):
        return 1
    if not isinstance(con, wire.Array) or (wanted and not isinstance(con.element, wire.FixedWidth)):
        return None
    return wire.width_of(con.element)


def _plus(expression: str, number: int) -> str:
    """Return the source of a sum, without the zero."""
    if not number:
        return expression
    return f"{expression} {'+' if number > 0 else '-'} {abs(number)}"


class _Generator(SourceWriter):
    """Writes the decoder of one wire type.

    :param counting: the decoder takes elements of arrays from a budget
    """

    def __init__(self, *, counting: bool = False) -> None:
        self.counting = counting
        super().__init__(
            {
                "long_content": _long_content,
                "long_length": _long_length,
                "numbers": _numbers,
                "null": _null,
                "read_uvarint": wire.read_uvarint,
                "uuids": _uuids,
                "spend": _spend,
            }
        )
        self._unpack_names: dict[str, str] = {}
        # fixed-width reads not yet emitted: (variable, struct code); without a variable the bytes are padding
        self._run: list[tuple[str, str]] = []

    def function(self, con: wire.WireType) -> _Generator:
        """Write ``decode(buf, pos)``."""
        with self._block("def decode(buf, pos):"):
            value = self._value(con)
            self._flush()
            self._line(f"return {value}, pos")
        return self

    # ------------------------------------------------------------ runs of fixed-width fields
    def _read(self, code: str, prefix: str = "v") -> str:
        name = self._name(prefix)
        self._run.append((name, code))
        return name

    def _run_size(self) -> int:
        return struct.calcsize(">" + "".join(code for _, code in self._run))

    def _flush(self, *, advance: bool = True) -> int:
        """Emit the pending run. Return its size in bytes, or 0 if the position was advanced over it."""
        if not self._run:
            return 0
        names = [name for name, _ in self._run if name]
        last, last_code = self._run[-1]
        codes = "".join(code for _, code in self._run)
        size = self._run_size()
        self._run = []
        if names == [last] and last_code == "B":
            self._line(f"{last} = buf[{_plus('pos', size - 1)}]")
        elif names:
            if codes not in self._unpack_names:
                self._unpack_names[codes] = self._bind("unpack", struct.Struct(">" + codes).unpack_from)
            self._line(f"{', '.join(names)}{',' * (len(names) == 1)} = {self._unpack_names[codes]}(buf, pos)")
        if advance:
            self._line(f"pos += {size}")
            return 0
        return size

    # ------------------------------------------------------------ types
    def _value(self, con: wire.WireType, *, wanted: bool = True) -> str:
        """Emit what reads or skips ``con``; return the expression of its value, valid after the next flush.

        The expression is empty for what is skipped.
        """
        if wanted:
            con, wanted = _behind(con)
        width = None if wanted else wire.width_of(con)
        if width is not None:
            self._run.append(("", f"{width}x"))
            return ""
        unit = _unit(con, wanted)
        if unit is not None:
            return self._sized(con, unit, wanted=wanted)
        match con:
            case wire.FixedWidth():
                return self._read(con.code)
            case wire.Uuid():
                return f"uuids[{self._read('16s')}]"
            case wire.Array():
                return self._array(con, wanted=wanted)[0]
            case wire.NullableStruct():
                return self._nullable_struct(con, wanted=wanted)
            case wire.Struct():
                return self._struct(con, wanted=wanted)
            case _:
                raise AssertionError(f"no generated code for {con!r}")

    def _assign(self, target: str, value: str) -> None:
        if target:
            self._line(f"{target} = {value}")

    def _advance(self, by: int) -> None:
        if by:
            self._line(f"pos += {by}")

    def _no_value(self, target: str, con: wire.WireType, skip: int) -> None:
        """Emit the null case."""
        if con.nullable:
            self._assign(target, "None")
            self._advance(skip)
        else:
            self._line(f"null({con.kind!r})")

    def _sized(self, con: Any, unit: int, *, wanted: bool) -> str:
        """Emit the reading of a length, and of what it announces: bytes, or elements that are all as wide."""
        value = self._name("v") if wanted else ""
        length = self._read("B" if con.compact else con.prefix.format[1:], "n")
        size = self._flush(advance=False)
        if wanted and self.counting and isinstance(con, wire.Array):
            self._spend_numbers(con, length, size)
        if not con.compact:
            with self._block(f"if {length} >= 0:"):
                self._content(con, unit, value, length, size, 0)
            with self._block("else:"):
                self._no_value(value, con, size)
            return value
        with self._block(f"if {length} < 128:"):
            with self._block(f"if {length}:"):
                # a compact length is one more than what follows
                self._content(con, unit, value, length, size, 1)
            with self._block("else:"):
                self._no_value(value, con, size)
        with self._block("else:"):
            self._line(f"high = buf[{_plus('pos', size)}]")
            with self._block("if 0 < high < 128:"):  # 127 to 16382 bytes: the usual size of records
                self._line(f"{length} += (high << 7) - 128")
                self._content(con, unit, value, length, size + 1, 1, short=False)
            with self._block("else:"):
                longest = getattr(con, "longest", wire.SizedLeaf.longest)
                arguments = f"{con.nullable}, {unit}, {longest}"
                self._line(f"start, pos = long_content(buf, {_plus('pos', size - 1)}, {arguments})")
                if wanted:
                    content = self._content_of(con, "start", "pos")
                    self._line(f"{value} = None if start is None else {content}")
        return value

    def _content_of(self, con: wire.WireType, start: str, end: str) -> str:
        """Return the expression of what lies between two positions."""
        if isinstance(con, wire.Array):
            return f"numbers(buf, {start}, {end}, {self._bind('element', con.element)})"
        return f"buf[{start}:{end}]{'.decode()' if isinstance(con, wire.String) else ''}"

    def _content(
        self, con: Any, unit: int, value: str, length: str, size: int, more: int, *, short: bool = True
    ) -> None:
        """Emit the reading of what a length announces.

        :param size: bytes from the position to the content
        :param more: by how much the length is more than the units that follow
        :param short: the length is less than 128 if it is compact
        """
        units = f"{unit} * {length}" if unit != 1 else length
        if not value:
            self._line(f"pos += {_plus(units, size - unit * more)}")
            return
        if isinstance(con, wire.Array) and con.compact and short:
            self.globals[f"short_{con.element.code}"] = _short_unpackers(con.element.code)
            self._line(f"{value} = short_{con.element.code}[{length}](buf, {_plus('pos', size)})")
            self._line(f"pos += {_plus(units, size - unit)}")
            return
        self._line(f"end = {_plus('pos', size - unit * more)} + {units}")
        self._line(f"{value} = {self._content_of(con, _plus('pos', size), 'end')}")
        self._line("pos = end")

    def _spend_numbers(self, con: wire.Array, length: str, size: int) -> None:
        """Emit the counting of an array of numbers; a length of several varint bytes is read once more for that."""
        count, at = length, _plus("pos", size)
        if con.compact:
            count = self._name("n")
            self._line(f"{count} = read_uvarint(buf, {_plus('pos', size - 1)})[0] - 1")
        self._line(f"spend(min({count}, len(buf) - {at}), {at})")

    def _array(
        self, con: wire.Array, *, wanted: bool, after: Sequence[wire.WireType] = (), after_wanted: bool = True
    ) -> tuple[str, list[str]]:
        """Emit what reads an array and the fixed-width fields after it; return the expressions of their values."""
        value = self._name("a") if wanted else ""
        count = self._read("B" if con.compact else "i", "n")
        before, prefix = self._run_size(), len(self._run)
        following = [self._value(leaf, wanted=after_wanted) for leaf in after]
        again = self._run[prefix:]
        size = self._flush(advance=False)
        with self._block(f"if {count} > {1 if con.compact else 0}:"):
            self._line(f"pos += {before}")
            self._elements(con, value, count)
            self._run = again
            self._flush()
        with self._block(f"elif {count}:"):
            self._empty(con, value, size, null=not con.compact)
        with self._block("else:"):
            self._empty(con, value, size, null=con.compact)
        return value, following

    def _empty(self, con: wire.Array, value: str, size: int, *, null: bool) -> None:
        if null:
            self._no_value(value, con, size)
        else:
            self._assign(value, "[]")
            self._advance(size)

    def _elements(self, con: wire.Array, value: str, count: str) -> None:
        if con.compact:
            with self._block(f"if {count} > {MAX_COMPACT_BYTE}:"):
                self._line(f"{count}, pos = long_length(buf, pos - 1, {con.nullable})")
            self._line(f"{count} -= 1")
        if value and self.counting:
            objects = wire.objects_of(con.element)
            self._line(f"spend(min({objects} * {count}, len(buf) - pos), pos)")
        self._assign(value, "[]")
        with self._block(f"for _ in range({count}):"):
            item = self._value(con.element, wanted=bool(value))
            self._flush()
            if value:
                self._line(f"{value}.append({item})")
        if value and con.compact and con.nullable:
            self._line(f"if {count} < 0: {value} = None")

    def _nullable_struct(self, con: wire.NullableStruct, *, wanted: bool) -> str:
        value, marker = self._name("o") if wanted else "", self._read("B" if con.tagged else "b", "m")
        self._flush()
        if con.tagged:
            self._line(f"if {marker} > {MAX_COMPACT_BYTE}: {marker}, pos = read_uvarint(buf, pos - 1)")
        self._assign(value, "None")
        with self._block(f"if {marker}:" if con.tagged else f"if {marker} >= 0:"):
            struct_ = self._value(con.struct, wanted=wanted)
            self._flush()
            self._line(f"{value} = {struct_}" if wanted else "pass")
        return value

    def _struct(self, con: wire.Struct, *, wanted: bool) -> str:
        values: list[str] = []
        while len(values) < len(con.members):
            first, *rest = [member.con for member in con.members[len(values) :]]
            part, inner = _behind(first) if wanted else (first, False)
            if isinstance(part, wire.Array) and _unit(part, inner) is None:
                after = list(takewhile(_is_fixed, rest))
                value, others = self._array(part, wanted=inner, after=after, after_wanted=wanted)
                values += value, *others
            else:
                values.append(self._value(part, wanted=inner))
        pairs = zip(con.members, values, strict=True)
        literal = "{" + ", ".join(f"{member.name!r}: {value}" for member, value in pairs if value) + "}"
        if con.tagged is None:
            return literal if wanted else ""
        count, value = self._read("B", "n"), self._name("o") if wanted else ""
        self._flush()
        self._assign(value, literal)
        partial = con.partial or not wanted
        section = _TagSection(con.tagged if wanted else {}, partial=partial, counting=self.counting)
        self._line(f"if {count}: pos = {self._bind('tags', section)}(buf, pos - 1, {value or None})")
        return value


def source(con: wire.WireType) -> str:
    """Return the generated source, to be read by people."""
    return _Generator().function(con).source()


def decoder(con: wire.WireType, *, counting: bool = False) -> Decoder:
    """Return ``decode(buf, pos) -> (value, next position)`` for a wire type.

    :param counting: it is to be called by :class:`CountingDecoder`

    Arrays of numbers come as tuples, other arrays as lists, structs as dicts. A position beyond ``len(buf)``
    means that the bytes ended early; malformed bytes raise one of :data:`MALFORMED`.
    """
    if isinstance(con, wire.Leaf):
        return con.read
    generator = _Generator(counting=counting).function(con)
    decode: Decoder = generator.made("decode", f"<decoder of {con.kind}>")
    return decode


class CountingDecoder:
    """A decoder that takes what it decodes from the budget of a message.

    :param decode: made with ``counting``
    """

    def __init__(self, decode: Decoder) -> None:
        self._decode = decode

    def __call__(self, buf: bytes, pos: int) -> tuple[Any, int]:
        """Decode as :func:`decoder` does.

        :raises LimitReached: before more than the limit ``message_objects`` is decoded
        """
        _spending.budget = of_message()
        try:
            return self._decode(buf, pos)
        finally:
            _spending.budget = None
