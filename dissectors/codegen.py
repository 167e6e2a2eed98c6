"""Decoders generated from declarations: one flat Python function per wire type, ``decode(buf, pos) -> value, pos``.

How the code is made fast:

* Neighbouring fixed-width fields are read by one ``struct.unpack_from`` (a *run*); the length byte of a compact
  field that follows them belongs to the run too.
* Lengths below 128 are handled in place, for opaque bytes those of two varint bytes too; longer ones by a helper.
* Arrays of numbers are one ``unpack_from``; arrays of structs try :class:`~dissectors.shapes.ShapedArray` first.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

from dissectors import wire
from dissectors.budget import Budget, of_message
from dissectors.errors import DecodeError
from dissectors.shapes import LEAST, ShapedArray

Decoder = Callable[[bytes, int], tuple[Any, int]]

#: what generated code raises on malformed bytes
MALFORMED = (IndexError, struct.error, UnicodeDecodeError, DecodeError)

MAX_COMPACT_BYTE = 127  # longest uvarint of one byte


# ---------------------------------------------------------------- called by generated code
class _Spending(threading.local):
    """The budget of the message that this thread decodes and counts, if it does."""

    budget: Budget | None = None


_spending = _Spending()


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


def _long_length(buf: bytes, pos: int, nullable: bool) -> tuple[int, int]:
    """Read a compact length of several bytes: 0 for null, which may be written that way too."""
    length, pos = wire.read_uvarint(buf, pos)
    if not length and not nullable:
        raise DecodeError("null where none is allowed", pos)
    return length, pos


def _long_bytes(buf: bytes, pos: int, nullable: bool) -> tuple[bytes | None, int]:
    length, pos = _long_length(buf, pos, nullable)
    if not length:
        return None, pos
    end = pos + length - 1
    return buf[pos:end], end


def _long_string(buf: bytes, pos: int, nullable: bool) -> tuple[str | None, int]:
    data, end = _long_bytes(buf, pos, nullable)
    if data is None:
        return None, end
    if len(data) > wire.MAX_STRING:
        raise DecodeError("string too long", pos)
    return data.decode(), end


def _numbers(buf: bytes, pos: int, count: int, code: str, size: int) -> tuple[tuple[Any, ...], int]:
    end = pos + count * size
    if end > len(buf):
        raise DecodeError("array longer than the bytes", pos, truncated=True)
    return struct.unpack_from(f">{count}{code}", buf, pos), end


def _long_numbers(
    buf: bytes, pos: int, nullable: bool, code: str, size: int
) -> tuple[tuple[Any, ...] | None, int]:
    length, pos = _long_length(buf, pos, nullable)
    if not length:
        return None, pos
    return _numbers(buf, pos, length - 1, code, size)


def _null(kind: str) -> None:
    raise DecodeError(f"null where {kind} must not be null")


_unpackers: dict[str, list[Any]] = {}


def _short_unpackers(code: str) -> list[Any]:
    """Unpackers of arrays of numbers by compact length (count + 1), for counts below 127."""
    if code not in _unpackers:
        _unpackers[code] = [None, *(struct.Struct(f">{count}{code}").unpack_from for count in range(127))]
    return _unpackers[code]


class _TagSection:
    """Reads a tag section that is not empty into the struct's dict."""

    def __init__(self, tagged: dict[int, wire.Member], *, counting: bool) -> None:
        self.tagged = tagged
        self.counting = counting
        self.decoders: dict[int, Decoder] = {}

    def __call__(self, buf: bytes, pos: int, into: dict[str, Any]) -> int:
        count, pos = wire.read_uvarint(buf, pos)
        if _spending.budget is not None:
            _spend(min(count, len(buf) - pos), pos)
        for _ in range(count):
            tag, pos = wire.read_uvarint(buf, pos)
            size, pos = wire.read_uvarint(buf, pos)
            end = pos + size
            if end > len(buf):
                raise DecodeError("tagged field longer than the bytes", pos, truncated=True)
            member = self.tagged.get(tag)
            if member is None:
                into.setdefault(wire.UNKNOWN_TAGS, {})[tag] = buf[pos:end]
            else:
                decode = self.decoders.get(tag)
                if decode is None:
                    decode = self.decoders[tag] = decoder(member.con, counting=self.counting)
                into[member.name], used = decode(buf, pos)
                if used != end:
                    raise DecodeError("tagged field of another size than announced", pos)
            pos = end
        return pos


_uuids = _UuidTexts()


# ---------------------------------------------------------------- the generator
def _is_fixed(con: wire.WireType) -> bool:
    return isinstance(con, wire.Fixed | wire.Uuid)


def plus(expression: str, number: int) -> str:
    """Return the source of a sum, without the zero."""
    if not number:
        return expression
    return f"{expression} {'+' if number > 0 else '-'} {abs(number)}"


class Generator:
    """Writes the decoder of one wire type.

    :param counting: the decoder takes elements of arrays from a budget
    """

    def __init__(self, *, counting: bool = False) -> None:
        self.counting = counting
        self.globals: dict[str, Any] = {
            "long_string": _long_string,
            "long_bytes": _long_bytes,
            "long_numbers": _long_numbers,
            "numbers": _numbers,
            "null": _null,
            "long_length": _long_length,
            "read_uvarint": wire.read_uvarint,
            "uuids": _uuids,
            "spend": _spend,
        }
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0
        self._unpack_names: dict[str, str] = {}
        # fixed-width reads not yet emitted: (variable, struct code); without a variable the bytes are padding
        self._run: list[tuple[str, str]] = []

    def function(self, con: wire.WireType) -> str:
        """Return the source of ``decode(buf, pos)``."""
        with self._block("def decode(buf, pos):"):
            value = self._value(con)
            self._flush()
            self._line(f"return {value}, pos")
        return "\n".join(self._lines)

    # ------------------------------------------------------------ writing
    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self._line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def bind(self, prefix: str, value: Any) -> str:
        """Make an object reachable from the generated code; return its name there."""
        name = self._name(prefix)
        self.globals[name] = value
        return name

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
            self._line(f"{last} = buf[{plus('pos', size - 1)}]")
        elif names:
            if codes not in self._unpack_names:
                self._unpack_names[codes] = self.bind("unpack", struct.Struct(">" + codes).unpack_from)
            self._line(f"{', '.join(names)}{',' * (len(names) == 1)} = {self._unpack_names[codes]}(buf, pos)")
        if advance:
            self._line(f"pos += {size}")
            return 0
        return size

    # ------------------------------------------------------------ types
    def _value(self, con: wire.WireType) -> str:
        """Emit what reads ``con``; return the expression of its value, valid after the next flush."""
        match con:
            case wire.Fixed():
                return self._read(con.code)
            case wire.Uuid():
                return f"uuids[{self._read('16s')}]"
            case wire.String():
                return self._sized(con, ".decode()", "long_string")
            case wire.Bytes():
                return self._sized(con, "", "long_bytes")
            case wire.Array(element=wire.Fixed()):
                return self._number_array(con, con.element)
            case wire.Array():
                return self._array(con)[0]
            case wire.NullableStruct():
                return self._nullable_struct(con)
            case wire.Struct():
                return self._struct(con)
            case _:
                raise AssertionError(f"no generated code for {con!r}")

    def _advance(self, by: int) -> None:
        if by:
            self._line(f"pos += {by}")

    def _take(self, target: str, start: str, end: str, post: str = "") -> None:
        self._line(f"end = {end}")
        self._line(f"{target} = buf[{start}:end]{post}")
        self._line("pos = end")

    def _no_value(self, target: str, con: wire.WireType, skip: int) -> None:
        """Emit the null case."""
        if con.nullable:
            self._line(f"{target} = None")
            self._advance(skip)
        else:
            self._line(f"null({con.kind!r})")

    def _sized(self, con: wire.SizedLeaf, post: str, slow: str) -> str:
        value = self._name("s")
        length = self._read("B" if con.compact else con.prefix.format[1:], "n")
        size = self._flush(advance=False)
        content = plus("pos", size)
        if not con.compact:
            with self._block(f"if {length} >= 0:"):
                self._take(value, content, f"{content} + {length}", post)
            with self._block("else:"):
                self._no_value(value, con, size)
            return value
        with self._block(f"if {length} < 128:"):
            with self._block(f"if {length}:"):
                # a compact length is one more than the bytes that follow
                self._take(value, content, f"{plus('pos', size - 1)} + {length}", post)
            with self._block("else:"):
                self._no_value(value, con, size)
        with self._block("else:"):
            slow_call = f"{value}, pos = {slow}(buf, {plus('pos', size - 1)}, {con.nullable})"
            if isinstance(con, wire.Bytes):
                self._two_byte_length(value, length, size, slow_call)
            else:
                self._line(slow_call)
        return value

    def _two_byte_length(self, value: str, low: str, size: int, slow_call: str) -> None:
        """Emit the reading of 127 to 16382 bytes: the usual size of records."""
        self._line(f"high = buf[{plus('pos', size)}]")
        with self._block("if 0 < high < 128:"):
            # the length is (high << 7) + (low - 128), one more than the bytes that follow
            self._take(value, plus("pos", size + 1), f"{plus('pos', size - 128)} + {low} + (high << 7)")
        with self._block("else:"):
            self._line(slow_call)

    def _number_array(self, con: wire.Array, element: wire.Fixed) -> str:
        value = self._name("a")
        length = self._read("B" if con.compact else "i", "n")
        size = self._flush(advance=False)
        if self.counting:
            self._spend_numbers(con, length, size)
        if con.compact:
            self.globals[f"short_{element.code}"] = _short_unpackers(element.code)
            with self._block(f"if 0 < {length} < 128:"):
                self._line(f"{value} = short_{element.code}[{length}](buf, {plus('pos', size)})")
                self._line(f"pos += {plus(f'{element.size} * {length}', size - element.size)}")
            with self._block(f"elif {length}:"):
                arguments = f"{con.nullable}, {element.code!r}, {element.size}"
                self._line(f"{value}, pos = long_numbers(buf, {plus('pos', size - 1)}, {arguments})")
        else:
            with self._block(f"if {length} >= 0:"):
                arguments = f"{length}, {element.code!r}, {element.size}"
                self._line(f"{value}, pos = numbers(buf, {plus('pos', size)}, {arguments})")
        with self._block("else:"):
            self._no_value(value, con, size)
        return value

    def _spend_numbers(self, con: wire.Array, length: str, size: int) -> None:
        """Emit the counting of an array of numbers; a length of several varint bytes is read once more for that."""
        count, at = length, plus("pos", size)
        if con.compact:
            count = self._name("n")
            self._line(f"{count} = read_uvarint(buf, {plus('pos', size - 1)})[0] - 1")
        self._line(f"spend(min({count}, len(buf) - {at}), {at})")

    def _array(self, con: wire.Array, after: Sequence[wire.WireType] = ()) -> tuple[str, list[str]]:
        """Emit what reads an array and the fixed-width fields after it; return the expressions of their values."""
        value, count = self._name("a"), self._read("B" if con.compact else "i", "n")
        before, prefix = self._run_size(), len(self._run)
        following = [self._value(leaf) for leaf in after]
        again = self._run[prefix:]
        size = self._flush(advance=False)
        with self._block(f"if {count} > {1 if con.compact else 0}:"):
            self._line(f"pos += {before}")
            self._filled(con, value, count)
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
            self._line(f"{value} = []")
            self._advance(size)

    def _filled(self, con: wire.Array, value: str, count: str) -> None:
        if con.compact:
            with self._block(f"if {count} > {MAX_COMPACT_BYTE}:"):
                self._line(f"{count}, pos = long_length(buf, pos - 1, {con.nullable})")
            self._line(f"{count} -= 1")
        if self.counting:
            objects = wire.objects_of(con.element)
            self._line(f"spend(min({objects} * {count}, len(buf) - pos), pos)")
        shaped = ShapedArray.of(con.element, self.globals)
        if shaped is None:
            self._elements(value, count, con.element)
        else:
            name, found = self.bind("shaped", shaped), self._name("f")
            self._line(f"{found} = {name}(buf, pos, {count}) if {count} >= {LEAST} else None")
            with self._block(f"if {found}:"):
                self._line(f"{value}, pos = {found}")
            with self._block("else:"):
                self._elements(value, count, con.element)
        if con.compact and con.nullable:
            self._line(f"if {count} < 0: {value} = None")

    def _elements(self, value: str, count: str, element: wire.WireType) -> None:
        self._line(f"{value} = []")
        with self._block(f"for _ in range({count}):"):
            item = self._value(element)
            self._flush()
            self._line(f"{value}.append({item})")

    def _nullable_struct(self, con: wire.NullableStruct) -> str:
        value, marker = self._name("o"), self._read("B" if con.tagged else "b", "m")
        self._flush()
        if con.tagged:
            self._line(f"if {marker} > {MAX_COMPACT_BYTE}: {marker}, pos = read_uvarint(buf, pos - 1)")
        with self._block(f"if {marker}:" if con.tagged else f"if {marker} >= 0:"):
            struct_ = self._value(con.struct)
            self._flush()
            self._line(f"{value} = {struct_}")
        with self._block("else:"):
            self._line(f"{value} = None")
        return value

    def _struct(self, con: wire.Struct) -> str:
        values: list[str] = []
        while len(values) < len(con.members):
            part, *rest = [member.con for member in con.members[len(values) :]]
            if isinstance(part, wire.Array) and not isinstance(part.element, wire.Fixed):
                value, following = self._array(part, list(takewhile(_is_fixed, rest)))
                values += value, *following
            else:
                values.append(self._value(part))
        items = (f"{member.name!r}: {value}" for member, value in zip(con.members, values, strict=True))
        literal = "{" + ", ".join(items) + "}"
        if con.tagged is None:
            return literal
        count, value = self._read("B", "n"), self._name("o")
        self._flush()
        self._line(f"{value} = {literal}")
        tags = self.bind("tags", _TagSection(con.tagged, counting=self.counting))
        self._line(f"if {count}: pos = {tags}(buf, pos - 1, {value})")
        return value


def source(con: wire.WireType) -> str:
    """Return the generated source, to be read by people."""
    return Generator().function(con)


def decoder(con: wire.WireType, *, counting: bool = False) -> Decoder:
    """Return ``decode(buf, pos) -> (value, next position)`` for a wire type.

    :param counting: it is to be called by :class:`CountingDecoder`

    Arrays of numbers come as tuples, other arrays as lists, structs as dicts. A position beyond ``len(buf)``
    means that the bytes ended early; malformed bytes raise one of :data:`MALFORMED`.
    """
    if isinstance(con, wire.Leaf):
        return con.read
    generator = Generator(counting=counting)
    code = compile(generator.function(con), f"<decoder of {con.kind}>", "exec")
    exec(code, generator.globals)  # noqa: S102  # source made above from the declaration alone
    decode: Decoder = generator.globals["decode"]
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
