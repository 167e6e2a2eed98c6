"""Decoders generated from declarations: one flat Python function per wire type, ``decode(buf, pos) -> value, pos``.

A decoder reads everything, or the fields of a tree (:mod:`dissectors.projection`). Unwanted fields are skipped by their
length or by an addition, without slicing anything.

Techniques that make the code fast:

* Neighbouring fixed-width fields, skipped ones included, are read by one ``struct.unpack_from`` (a *run*); the length
  byte of a compact field after them belongs to the run too.
* Compact lengths of one and two varint bytes are handled in place, longer ones by a helper.
* Arrays of numbers are one ``unpack_from``.
* The position is advanced only after a value of variable length.

Why it stays correct: the generated code does not check every read. Index and struct errors, bad UTF-8, null where
none is allowed and a position beyond the end all mean "malformed"; the caller then runs
:func:`dissectors.trace.trace` to find out what and where. ``buf`` must be ``bytes``: slices of it are the values.

Every value takes at least one byte, so fewer bytes than the limit ``message_objects`` cannot exceed it. Longer messages
are decoded by a second function that counts (:class:`CountingDecoder`), created when the first of them is decoded.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dissectors import wire
from dissectors.budget import Budget, message_budget
from dissectors.errors import DecodeError
from dissectors.source_writer import SourceWriter

if TYPE_CHECKING:
    from dissectors.projection import Tree

Decoder = Callable[[bytes, int], tuple[Any, int]]

#: raised by generated code on malformed bytes
MALFORMED = (IndexError, struct.error, UnicodeDecodeError, DecodeError)

MAX_COMPACT_BYTE = 127  # longest uvarint of one byte


# ---------------------------------------------------------------- called by generated code
class _ThreadBudget(threading.local):
    """The budget of the message that this thread decodes; None if it does not count."""

    budget: Budget | None = None


_spending = _ThreadBudget()


def _spend(amount: int, pos: int) -> None:
    """Take fields and elements about to be decoded from the budget.

    :raises LimitReached: if there are too many
    """
    if amount > 0 and _spending.budget is not None:
        _spending.budget.spend("message_objects", amount, f"{amount:,} more fields and elements", pos)


class _UuidTexts(dict[bytes, str]):
    """16 bytes -> text form, for the few topic IDs that a capture repeats endlessly."""

    def __missing__(self, data: bytes) -> str:
        text = wire.uuid_text(data)
        if len(data) == 16 and len(self) < 65536:
            self[data] = text
        return text


def _long_content(buf: bytes, pos: int, nullable: bool, unit: int, longest: int) -> tuple[int | None, int]:
    """Read a compact length of several bytes, which may encode null; return start and end of its content.

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
    """Read a compact length of several bytes: 0 for null, which several bytes may also encode."""
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
    """Return unpackers of arrays of numbers by compact length (count + 1), for counts below 127."""
    if code not in _unpackers:
        _unpackers[code] = [None, *(struct.Struct(f">{count}{code}").unpack_from for count in range(127))]
    return _unpackers[code]


class _TagSection:
    """Reads a non-empty tag section into the struct's dict.

    :param wanted: fields to read; others are skipped. None for all, undeclared tags included
    """

    def __init__(self, tagged: Mapping[int, wire.Member], wanted: Tree | None, *, counting: bool) -> None:
        self.tagged = {tag: each for tag, each in tagged.items() if wanted is None or each.name in wanted}
        self.wanted = wanted
        self.counting = counting
        self.decoders: dict[int, Decoder] = {}

    def __call__(self, buf: bytes, pos: int, into: dict[str, Any]) -> int:
        count, pos = wire.read_uvarint(buf, pos)
        if _spending.budget is not None and self.wanted is None:
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
                    inner = self.wanted and self.wanted[member.name]
                    decode = self.decoders[tag] = decoder(member.con, inner, counting=self.counting)
                into[member.name], used = decode(buf, pos)
                if used != end:
                    raise DecodeError("tagged field of another size than announced", pos)
            elif self.wanted is None:
                into.setdefault(wire.UNKNOWN_TAGS, {})[tag] = buf[pos:end]
            pos = end
        return pos


_uuids = _UuidTexts()


# ---------------------------------------------------------------- the generator
def _unit(con: wire.WireType, wanted: Tree | None) -> int | None:
    """Return the bytes for each unit of a length; None for types that are read element by element or have no length."""
    if isinstance(con, wire.String | wire.Bytes):
        return 1
    if not isinstance(con, wire.Array) or (wanted != {} and not isinstance(con.element, wire.FixedWidth)):
        return None
    return wire.width_of(con.element)


def _plus(expression: str, number: int) -> str:
    if not number:
        return expression
    return f"{expression} {'+' if number > 0 else '-'} {abs(number)}"


class _Generator(SourceWriter):
    """Writes the decoder of one wire type.

    ``wanted`` is the part of a type to read: None for all of it, an empty tree for none.

    :param counting: the decoder takes array elements from a budget
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

    def function(self, con: wire.WireType, wanted: Tree | None = None) -> _Generator:
        with self._block("def decode(buf, pos):"):
            value = self._value(con, wanted) or "{}"
            self._flush()
            self._line(f"return {value}, pos")
        return self

    # ------------------------------------------------------------ runs of fixed-width fields
    def _read(self, code: str, prefix: str = "v") -> str:
        name = self._name(prefix)
        self._run.append((name, code))
        return name

    def _flush(self, *, advance: bool = True) -> int:
        """Emit the pending run. Return its size in bytes, or 0 if the position was advanced past it."""
        if not self._run:
            return 0
        names = [name for name, _ in self._run if name]
        last, last_code = self._run[-1]
        codes = "".join(code for _, code in self._run)
        size = struct.calcsize(">" + codes)
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
    def _value(self, con: wire.WireType, wanted: Tree | None) -> str:
        """Emit code that reads or skips ``con``; return the expression of its value, valid after the next flush.

        The expression is empty if the value is skipped.
        """
        width = wire.width_of(con) if wanted == {} else None
        if width is not None:
            self._run.append(("", f"{width}x"))
            return ""
        unit = _unit(con, wanted)
        if unit is not None:
            return self._sized(con, unit, wanted=wanted != {})
        match con:
            case wire.FixedWidth():
                return self._read(con.code)
            case wire.Uuid():
                return f"uuids[{self._read('16s')}]"
            case wire.Array():
                return self._array(con, wanted)
            case wire.NullableStruct():
                return self._nullable_struct(con, wanted)
            case wire.Struct():
                return self._struct(con, wanted)
            case wire.Leaf():  # other types, such as Java's strings
                self._flush()
                value = self._name("v")
                self._line(f"{value}, pos = {self._bind('read', con.read)}(buf, pos)")
                return "" if wanted == {} else value
            case _:
                raise AssertionError(f"no generated code for {con!r}")

    def _assign(self, target: str, value: str) -> None:
        if target:
            self._line(f"{target} = {value}")

    def _advance(self, by: int) -> None:
        if by:
            self._line(f"pos += {by}")

    def _no_value(self, target: str, con: wire.WireType, skip: int) -> None:
        if con.nullable:
            self._assign(target, "None")
            self._advance(skip)
        else:
            self._line(f"null({con.kind!r})")

    def _sized(self, con: Any, unit: int, *, wanted: bool) -> str:
        """Emit the reading of a length and of the bytes, or elements of equal width, that it announces."""
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
                # a compact length is one more than the units that follow
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
        if isinstance(con, wire.Array):
            return f"numbers(buf, {start}, {end}, {self._bind('element', con.element)})"
        return f"buf[{start}:{end}]{'.decode()' if isinstance(con, wire.String) else ''}"

    def _content(
        self, con: Any, unit: int, value: str, length: str, size: int, more: int, *, short: bool = True
    ) -> None:
        """Emit the reading of the content that a length announces.

        :param size: bytes from the position to the content
        :param more: excess of the length over the number of units that follow
        :param short: whether a compact length is less than 128
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
        """Emit the counting of an array of numbers, which reads a length of several varint bytes a second time."""
        count, at = length, _plus("pos", size)
        if con.compact:
            count = self._name("n")
            self._line(f"{count} = read_uvarint(buf, {_plus('pos', size - 1)})[0] - 1")
        self._line(f"spend(min({count}, len(buf) - {at}), {at})")

    def _array(self, con: wire.Array, wanted: Tree | None) -> str:
        value = "" if wanted == {} else self._name("a")
        count = self._read("B" if con.compact else "i", "n")
        size = self._flush(advance=False)
        with self._block(f"if {count} > {1 if con.compact else 0}:"):
            self._line(f"pos += {size}")
            self._elements(con, wanted, value, count)
        with self._block(f"elif {count}:"):
            self._empty(con, value, size, null=not con.compact)
        with self._block("else:"):
            self._empty(con, value, size, null=con.compact)
        return value

    def _empty(self, con: wire.Array, value: str, size: int, *, null: bool) -> None:
        if null:
            self._no_value(value, con, size)
        else:
            self._assign(value, "[]")
            self._advance(size)

    def _elements(self, con: wire.Array, wanted: Tree | None, value: str, count: str) -> None:
        if con.compact:
            with self._block(f"if {count} > {MAX_COMPACT_BYTE}:"):
                self._line(f"{count}, pos = long_length(buf, pos - 1, {con.nullable})")
            self._line(f"{count} -= 1")
        if value and self.counting:
            objects = wire.objects_of(con.element)
            self._line(f"spend(min({objects} * {count}, len(buf) - pos), pos)")
        self._assign(value, "[]")
        with self._block(f"for _ in range({count}):"):
            item = self._value(con.element, wanted)
            self._flush()
            if value:
                self._line(f"{value}.append({item})")
        if value and con.compact and con.nullable:
            self._line(f"if {count} < 0: {value} = None")

    def _nullable_struct(self, con: wire.NullableStruct, wanted: Tree | None) -> str:
        value, marker = "" if wanted == {} else self._name("o"), self._read("B" if con.tagged else "b", "m")
        self._flush()
        if con.tagged:
            self._line(f"if {marker} > {MAX_COMPACT_BYTE}: {marker}, pos = read_uvarint(buf, pos - 1)")
        self._assign(value, "None")
        with self._block(f"if {marker}:" if con.tagged else f"if {marker} >= 0:"):
            struct_ = self._value(con.struct, wanted)
            self._flush()
            self._line(f"{value} = {struct_}" if value else "pass")
        return value

    def _struct(self, con: wire.Struct, wanted: Tree | None) -> str:
        values = [
            self._value(member.con, None if wanted is None else wanted.get(member.name, {}))
            for member in con.members
        ]
        pairs = zip(con.members, values, strict=True)
        literal = "{" + ", ".join(f"{member.name!r}: {value}" for member, value in pairs if value) + "}"
        if con.tagged is None:
            return "" if wanted == {} else literal
        count, value = self._read("B", "n"), "" if wanted == {} else self._name("o")
        self._flush()
        self._assign(value, literal)
        section = self._bind("tags", _TagSection(con.tagged, wanted, counting=self.counting))
        self._line(f"if {count}: pos = {section}(buf, pos - 1, {value or None})")
        return value


def decoder(con: wire.WireType, wanted: Tree | None = None, *, counting: bool = False) -> Decoder:
    """Return ``decode(buf, pos) -> (value, next position)`` for a wire type.

    :param wanted: tree of the fields to read, all of which the type has; None for all
    :param counting: make a decoder for :class:`CountingDecoder`

    Arrays of numbers are returned as tuples, other arrays as lists, structs as dicts. A position beyond ``len(buf)``
    means that the bytes ended early; malformed bytes raise one of :data:`MALFORMED`.
    """
    if isinstance(con, wire.Leaf):
        return con.read
    generator = _Generator(counting=counting).function(con, wanted)
    decode: Decoder = generator.compiled("decode", f"<decoder of {con.kind}>")
    return decode


class CountingDecoder:
    """A decoder that takes the decoded objects from the budget of a message.

    :param decode: a decoder generated with ``counting``
    """

    def __init__(self, decode: Decoder) -> None:
        self._decode = decode

    def __call__(self, buf: bytes, pos: int) -> tuple[Any, int]:
        """Decode as :func:`decoder` does.

        :raises LimitReached: before more than the limit ``message_objects`` is decoded
        """
        _spending.budget = message_budget()
        try:
            return self._decode(buf, pos)
        finally:
            _spending.budget = None
