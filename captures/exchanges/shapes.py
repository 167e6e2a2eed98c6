"""Shapes: messages that differ only in values that are not wanted, recognised thousands at a time.

A :class:`Shape` is made from one message, the example. Some of its bytes are structure (counts, lengths, markers), some
are wanted values, and the rest is ignored: unwanted numbers, the content of unwanted texts, and bytes fields, whose
length may differ in each message. Messages with the structure of the example and the same wanted bytes decode to the
same wanted values, so one of them is decoded for all (:meth:`Shapes.groups`).

Records fields are the exception: each message has its own, and their batch headers are read for all messages together
(:class:`RecordTallies`). So are numbers that mostly differ, such as offsets: the own numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from enum import IntFlag
from typing import Any, NamedTuple

import numpy as np

from captures.arrays import Bools, Bytes, Int64s
from captures.exchanges.payloads import Frames
from captures.meaning.payload import payload
from dissectors import wire
from dissectors.codec import CODEC_MASK
from dissectors.message_version import MessageVersion
from dissectors.projection import Tree
from dissectors.records import Batch, record_set
from dissectors.records.batch import CONTROL, CRC_START, HEADER_AT, MIN_LENGTH, TRANSACTIONAL
from dissectors.records.legacy import ENTRY_OVERHEAD
from dissectors.trace import Node, trace

_MOST_SHAPES = 48
"""Most shapes kept per message version; a new one replaces the one that matched least often."""
_WORTH_A_SHAPE = 4
"""Messages from which on a shape pays: making one takes as long as decoding some messages."""
_MOST_IN_VAIN = 6
"""Examples of a block that match hardly any other message before the rest is decoded one by one."""
_MOST_BATCHES = 1000
"""Most batches of a records field that are counted with numpy."""
_LONGEST_EXAMPLE = 1 << 16
"""Bytes of the longest example, without bytes fields. Longer ones are cheaper to decode than to describe."""

_STRUCTURE, _WANTED, _NUMBER, _TEXT, _BYTES = range(5)
_UNWANTED: Tree = {}
_HIGH_WATERMARK = "high_watermark"
_LENGTH_AT, _MAGIC_AT, _CRC_AT, _ATTRIBUTES_AT, _DELTA_AT, _MAX_TIMESTAMP_AT, _COUNT_AT = (
    HEADER_AT[name]
    for name in (
        "length", "magic", "crc", "attributes", "last_offset_delta", "max_timestamp", "records_count",
    )
)  # fmt: skip
_LEAST = np.iinfo(np.int64).min


class BatchTrait(IntFlag):
    """Traits of complete batches that rules look for."""

    OLD = 1
    """Magic 0 or 1."""
    TRANSACTIONAL = 2
    DAMAGED = 4
    """The checksum does not match."""


class HeaderTallies(NamedTuple):
    """Further facts from batch headers, shaped like :class:`RecordTallies`.

    :ivar traits: :class:`BatchTrait` of any of the batches
    :ivar earliest: earliest of their latest timestamps, ms; the least int64 if none has one
    :ivar latest: latest of their latest timestamps, ms; the least int64 if none has one
    """

    traits: Int64s
    earliest: Int64s
    latest: Int64s


def header_facts(field: bytes) -> tuple[int, int, int]:
    """Return the :class:`HeaderTallies` of one records field."""
    batches = record_set(field).batches
    traits = 0
    for batch in batches:
        traits |= BatchTrait.OLD * (batch.magic < 2) | BatchTrait.TRANSACTIONAL * batch.transactional
        traits |= BatchTrait.DAMAGED * (not batch.crc_valid)
    times = [batch.max_timestamp for batch in batches if batch.max_timestamp >= 0] or [_LEAST]
    return traits, min(times), max(times)


def offset_behind(batches: Sequence[Batch]) -> int:
    """Return the offset after the last of some batches, -1 if there is none, or it has magic 0 or 1."""
    return as_int64(batches[-1].last_offset + 1) if batches and batches[-1].magic >= 2 else -1


def offset_reached(batches: Sequence[Batch]) -> int:
    """Return the offset after the last of some batches that has no control records, -1 if there is none.

    Applications do not see the transaction markers after it.
    """
    return next((as_int64(batch.last_offset + 1) for batch in reversed(batches) if not batch.control), -1)


def as_int64(number: int) -> int:
    """Return a number wrapped around as int64 arithmetic does: offsets of a foreign batch can be anything."""
    return (number - _LEAST) % (1 << 64) + _LEAST


class RecordTallies(NamedTuple):
    """Contents of the records fields of messages: one row per message, one column per field that is not null.

    :ivar codec: codec of all batches, if the field has only whole batches of magic 2 with the same codec, else -1
    :ivar size: bytes of the field
    :ivar batches: number of complete batches
    :ivar batch_bytes: bytes of complete batches
    :ivar records: records announced by the batches, without control records
    :ivar uncounted: compressed messages of magic 0 and 1, which do not announce how many they contain
    :ivar markers: control records
    :ivar last: last offset of the only batch, -1 unless there is exactly one
    :ivar behind: offset after the last batch, -1 if there is none, or it has magic 0 or 1
    :ivar reached: offset after the last batch that has no control records, -1 if there is none
    :ivar high_watermark: high watermark beside the field; the least int64 if there is none, or it is not an own number
    :ivar headers: further facts from the headers, None if they were not requested
    """

    size: Int64s
    batches: Int64s
    batch_bytes: Int64s
    records: Int64s
    uncounted: Int64s
    markers: Int64s
    last: Int64s
    behind: Int64s
    reached: Int64s
    codec: Int64s
    high_watermark: Int64s
    headers: HeaderTallies | None = None

    def of(self, rows: Int64s | Bools) -> RecordTallies:
        """Return the tallies of some messages."""
        headers = self.headers and HeaderTallies(*[column[rows] for column in self.headers])
        return RecordTallies._make([*[column[rows] for column in self[:-1]], headers])


class _Segment(NamedTuple):
    """A run of bytes of fixed length; positions count from its start."""

    length: int
    structure: Int64s
    expected: Bytes
    texts: Int64s
    wanted: Int64s


class _Hole(NamedTuple):
    """A bytes field that is not null.

    :ivar start: where its length begins in the example
    :ivar end: where it ends there
    :ivar compact: whether its length is compact
    :ivar records: whether its records are wanted
    :ivar beside: index of the own number that is the high watermark beside it; None if there is none
    """

    start: int
    end: int
    compact: bool
    records: bool
    beside: int | None


class _Choice(NamedTuple):
    """Fields inside a field, as parameters of :class:`Shape`. A tree is None for all of it, and empty for nothing."""

    wanted: Tree | None
    varied: Tree | None
    own: Tree | None

    def inside(self, name: str) -> _Choice:
        wanted, varied, own = self
        return _Choice(
            wanted and wanted.get(name, _UNWANTED),
            varied and varied.get(name, _UNWANTED),
            own and own.get(name, _UNWANTED),
        )


class _Example:
    """An example whose fields are marked.

    :ivar roles: role of each byte
    :ivar varied: place and size of each varied number
    :ivar own: the same of the own numbers
    :ivar own_names: names of the own numbers
    """

    def __init__(self, size: int) -> None:
        self.roles = np.zeros(size, np.uint8)
        self.holes: list[_Hole] = []
        self.varied: list[tuple[int, int]] = []
        self.own: list[tuple[int, int]] = []
        self.own_names: list[str] = []

    def mark(self, con: wire.WireType, node: Node, choice: _Choice) -> None:
        """Mark the bytes of a node."""
        wanted = choice.wanted
        match con:
            case wire.Struct():
                for member, child in zip(con.members, node.children or (), strict=False):
                    self.mark(member.con, child, choice.inside(member.name))
            case wire.Array() if node.children:
                if isinstance(con.element, wire.FixedWidth):
                    start, end = node.children[0].start, node.children[-1].end
                    self.roles[start:end] = _NUMBER if wanted == {} else _WANTED
                else:
                    for child in node.children:
                        self.mark(con.element, child, choice)
            case wire.NullableStruct() if node.children is not None:
                self.mark(con.struct, node, choice)
            case wire.FixedWidth() | wire.Uuid():
                place = node.start, node.end - node.start
                if choice.varied is None:
                    self.varied.append(place)
                if choice.own is None:
                    self.own.append(place)
                    self.own_names.append(str(node.name))
                passed_over = wanted == {} or choice.varied is None or choice.own is None
                self.roles[node.start : node.end] = _NUMBER if passed_over else _WANTED
            case wire.String() if node.value is not None:
                start = node.end - len(node.value.encode())
                self.roles[start : node.end] = _TEXT if wanted == {} else _WANTED
            case wire.Bytes() if node.value is not None:
                records = isinstance(con, wire.Records) and wanted is None
                if wanted is None and not records:
                    self.roles[node.end - len(node.value) : node.end] = _WANTED
                else:
                    self.roles[node.start : node.end] = _BYTES
                    self.holes.append(
                        _Hole(node.start, node.end, con.compact, records, self._last_high_watermark())
                    )

    def _last_high_watermark(self) -> int | None:
        """Return the index of the last own number that is a high watermark: partitions have it before their records."""
        names = self.own_names
        return next((at for at in reversed(range(len(names))) if names[at] == _HIGH_WATERMARK), None)


class Shape:
    """What messages of one version have in common with an example.

    :param con: the layout
    :param wanted: wanted fields
    :param body: the example, which must be valid
    :param varied: wanted numbers that may be another positive number in each message. If given, the same records fields
        must be empty in each message, and the others must be whole batches of magic 2 with one codec.
    :param own: wanted numbers that are read for each message, whatever their values; their names are unique
    :param headers: whether to read complete batch headers
    :raises ValueError: if messages like it must be decoded one by one
    """

    def __init__(
        self,
        con: wire.Struct,
        wanted: Tree,
        body: bytes,
        varied: Tree | None = None,
        *,
        own: Tree = _UNWANTED,
        headers: bool = False,
    ) -> None:
        traced = trace(con, body)
        if traced.error is not None or traced.end != len(body):
            raise ValueError("it is not sound")
        example = _Example(len(body))
        example.mark(con, traced.root, _Choice(wanted, varied or {}, own))
        self._holes = example.holes
        begins = [0, *(hole.end for hole in self._holes)]
        self._segments = _segments(np.frombuffer(body, np.uint8), example, begins)
        self._numbers, self._own_numbers = (_placed(each, begins) for each in (example.varied, example.own))
        self._own_columns: dict[str, list[int]] = {}
        for at, name in enumerate(example.own_names):
            self._own_columns.setdefault(name, []).append(at)
        self._headers = headers
        self._strict = varied is not None
        self.least = sum(segment.length for segment in self._segments) + len(self._holes)
        self.hits = 0
        self.known: dict[bytes, Any] = {}
        """Decoded result of the shape's messages, by their wanted bytes."""

    def fit(self, data: Bytes, starts: Int64s, ends: Int64s) -> Group:
        """Return the messages that match this shape, by index.

        :param starts: where the bodies begin in ``data``
        """
        fits = ends - starts >= self.least
        at = starts
        keys: list[Bytes] = []
        contents: list[tuple[Int64s, Int64s]] = []
        begins: list[Int64s] = []
        for number, segment in enumerate(self._segments):
            fits &= at + segment.length <= ends
            # for non-matching messages this reads arbitrary bytes, which does no harm
            at = np.minimum(at, max(len(data) - segment.length, 0))
            begins.append(at)
            if len(segment.structure):
                fits &= (data[at[:, None] + segment.structure] == segment.expected).all(1)
            if len(segment.texts):
                fits &= (data[at[:, None] + segment.texts] < 0x80).all(1)
            if len(segment.wanted):
                keys.append(data[at[:, None] + segment.wanted])
            at = at + segment.length
            if number < len(self._holes):
                at, size = _length(data, at, compact=self._holes[number].compact)
                fits &= (size >= 0) & (at + size <= ends)
                size = np.where(fits, size, 0)
                contents.append((at, size))
                at = at + size
        chosen = np.flatnonzero(fits & (at == ends))
        key = np.concatenate(keys, axis=1)[chosen] if keys else np.zeros((len(chosen), 0), np.uint8)
        own = _columns(data, begins, chosen, self._own_numbers)
        tallies = self._tallies(data, contents, own, chosen)
        numbers = None
        if self._strict and tallies is not None:
            alike = ((tallies.codec >= 0) | (tallies.size == 0)).all(1)
            chosen, key, own, tallies = chosen[alike], key[alike], own[alike], tallies.of(alike)
            codecs = np.where(tallies.size == 0, 0, tallies.codec + 1).astype(np.uint8)
            key = np.concatenate([key, codecs], axis=1)
        if self._strict and self._numbers:
            numbers = _columns(data, begins, chosen, self._numbers)
            key = np.concatenate([key, np.minimum(numbers, 1).view(np.uint8)], axis=1)
        by_name = {name: own[:, columns] for name, columns in self._own_columns.items()}
        return Group(self, chosen, np.ascontiguousarray(key), tallies, numbers, by_name)

    def _tallies(
        self, data: Bytes, contents: list[tuple[Int64s, Int64s]], own: Int64s, chosen: Int64s
    ) -> RecordTallies | None:
        holes = [
            (hole, *indexes) for hole, indexes in zip(self._holes, contents, strict=True) if hole.records
        ]
        if not holes:
            return None
        starts = np.stack([start[chosen] for _, start, _ in holes], axis=1)
        sizes = np.stack([size[chosen] for _, _, size in holes], axis=1)
        marks = np.full(starts.shape, _LEAST)
        for column, (hole, *_) in enumerate(holes):
            if hole.beside is not None:
                marks[:, column] = own[:, hole.beside]
        tallies = _tally(data, starts.ravel(), sizes.ravel(), marks.ravel(), headers=self._headers)
        return tallies.of(np.arange(starts.size).reshape(starts.shape))


class Shapes:
    """The shapes of one message version.

    :param layout: layout of the messages
    :param wanted: wanted fields
    :param varied: as for :class:`Shape`
    :param own: as for :class:`Shape`
    :param headers: as for :class:`Shape`
    """

    def __init__(
        self,
        layout: MessageVersion,
        wanted: Tree,
        varied: Tree | None = None,
        *,
        own: Tree = _UNWANTED,
        headers: bool = False,
    ) -> None:
        self._layout = layout
        self._wanted = wanted
        self._varied = varied
        self._own = own
        self._headers = headers
        self._shapes: list[Shape] = []

    def groups(self, frames: Frames, starts: Int64s, chosen: Int64s) -> list[Group]:
        """Return messages grouped by shape; those that match none are left out.

        :param frames: frames that contain them
        :param starts: where the body of each frame begins
        :param chosen: indexes of the frames of this version
        """
        found: list[Group] = []
        data = np.frombuffer(frames.data, np.uint8)
        rest = chosen
        for shape in sorted(self._shapes, key=lambda shape: -shape.hits):
            if not len(rest):
                return found
            rest = self._fitting(shape, data, frames, starts, rest, found)
        in_vain = 0
        while len(rest) >= _WORTH_A_SHAPE and in_vain < _MOST_IN_VAIN:
            example = int(rest[0])
            body = bytes(memoryview(frames.data)[int(starts[example]) : int(frames.ends[example])])
            try:
                shape = Shape(
                    self._layout.struct,
                    self._wanted,
                    body,
                    self._varied,
                    own=self._own,
                    headers=self._headers,
                )
            except ValueError:
                in_vain += 1
                rest = rest[1:]
                continue
            before = len(rest)
            rest = self._fitting(shape, data, frames, starts, rest, found)
            if before - len(rest) < _WORTH_A_SHAPE:
                in_vain += 1
                if before == len(rest):  # an example whose texts are not ASCII does not even match itself
                    rest = rest[1:]
                    continue
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.remove(min(self._shapes, key=lambda shape: shape.hits))
            self._shapes.append(shape)
        return found

    def _fitting(
        self, shape: Shape, data: Bytes, frames: Frames, starts: Int64s, rest: Int64s, found: list[Group]
    ) -> Int64s:
        """Add the messages of `rest` that match a shape to `found`; return the others."""
        long_enough = np.flatnonzero(frames.ends[rest] - starts[rest] >= shape.least)
        if not len(long_enough):
            return rest
        candidates = rest[long_enough]
        group = shape.fit(data, starts[candidates], frames.ends[candidates])
        if len(group.chosen):
            shape.hits += len(group.chosen)
            found.append(group._replace(chosen=candidates[group.chosen]))
        return np.delete(rest, long_enough[group.chosen])


class Group(NamedTuple):
    """Messages of one shape.

    :ivar chosen: indexes of their frames
    :ivar keys: the wanted bytes of each
    :ivar tallies: contents of their records fields, None if there are none
    :ivar numbers: the varied numbers of each, None if there are none
    :ivar own: the own numbers of each, by field: one row per message, one column for each struct with the field
    """

    shape: Shape
    chosen: Int64s
    keys: Bytes
    tallies: RecordTallies | None
    numbers: Int64s | None
    own: Mapping[str, Int64s]

    def codes(self) -> tuple[Int64s, list[bytes]]:
        """Return a code for the wanted bytes of each message, and the wanted bytes by code."""
        width = self.keys.shape[1]
        whole = self.keys.tobytes()
        seen: dict[Hashable, int] = {}
        found = [
            seen.setdefault(whole[at : at + width], len(seen))
            for at in range(0, width * len(self.chosen), width or 1)
        ]
        if not width:
            return np.zeros(len(self.chosen), np.int64), [b""]
        return np.array(found, np.int64), list(seen)  # type: ignore[arg-type]


# ---------------------------------------------------------------- parts of the example
def _segments(body: Bytes, example: _Example, begins: Sequence[int]) -> list[_Segment]:
    """Split an example at its bytes fields."""
    ends = [*(hole.start for hole in example.holes), len(body)]
    if sum(ends) - sum(begins) > _LONGEST_EXAMPLE:
        raise ValueError("it is long")
    segments = []
    for begin, end in zip(begins, ends, strict=True):
        roles = example.roles[begin:end]
        structure, texts, wanted = (np.flatnonzero(roles == role) for role in (_STRUCTURE, _TEXT, _WANTED))
        segments.append(_Segment(end - begin, structure, body[begin:end][structure], texts, wanted))
    return segments


def _placed(numbers: Sequence[tuple[int, int]], begins: Sequence[int]) -> list[tuple[int, int, str]]:
    """Return segment, position in it, and dtype of numbers given by place and size."""
    found = []
    for start, size in numbers:
        segment = bisect_right(begins, start) - 1
        found.append((segment, start - begins[segment], f">i{size}"))
    return found


# ---------------------------------------------------------------- bytes to numbers
def _columns(
    data: Bytes, begins: Sequence[Int64s], chosen: Int64s, places: Sequence[tuple[int, int, str]]
) -> Int64s:
    """Read numbers of some messages: one row per message, one column per place.

    :param begins: where the segments of each message begin
    :param places: segment, position in it, and dtype of each number
    """
    made = np.empty((len(chosen), len(places)), np.int64)
    for column, (segment, index, kind) in enumerate(places):
        made[:, column] = _number(data, begins[segment][chosen] + index, kind)
    return made


def _number(data: Bytes, at: Int64s, kind: str) -> Int64s:
    """Read a number at each place; outside of the data, arbitrary bytes are read instead."""
    size = np.dtype(kind).itemsize
    indexes = np.minimum(at, max(len(data) - size, 0))[:, None] + np.arange(size)
    return np.ascontiguousarray(data[indexes]).view(kind)[:, 0].astype(np.int64)


def _length(data: Bytes, at: Int64s, *, compact: bool) -> tuple[Int64s, Int64s]:
    """Return where the content of each bytes field begins, and its length, -1 for null."""
    if not compact:
        return at + 4, _number(data, at, ">i4") if len(data) >= 4 else np.full(len(at), -1)
    value = np.zeros(len(at), np.int64)
    more = np.ones(len(at), np.bool_)
    for shift in range(0, 35, 7):
        byte = data[np.minimum(at, len(data) - 1)].astype(np.int64)
        value |= np.where(more, (byte & 0x7F) << shift, 0)
        at = at + more
        more = more & (byte >= 0x80)
        if not more.any():
            break
    return at, np.where(more | (value > 0x7FFFFFFF), -1, value - 1)


def _tally(
    data: Bytes, starts: Int64s, sizes: Int64s, high_watermarks: Int64s, *, headers: bool
) -> RecordTallies:
    """Add up the batches of records fields, as :func:`captures.meaning.payload.payload` does.

    The columns have one element per field.
    """
    columns, facts = (
        [np.full(len(starts), blank, np.int64) for blank in blanks]
        for blanks in ((0, 0, 0, 0, 0, -1, -1, -1, -1), (0, _LEAST, _LEAST))
    )
    tallies = RecordTallies._make([
        sizes, *columns, high_watermarks, HeaderTallies(*facts) if headers else None,
    ])  # fmt: skip
    ends = starts + sizes
    rest = np.flatnonzero(sizes > _MAGIC_AT)
    at = starts[rest]
    odd: list[Int64s] = []
    for _ in range(_MOST_BATCHES):
        if not len(rest):
            break
        length, magic = _number(data, at + _LENGTH_AT, ">i4"), data[at + _MAGIC_AT]
        odd.append(rest[magic < 2])
        end = at + ENTRY_OVERHEAD + length
        whole = (magic == 2) & (length >= MIN_LENGTH) & (end <= ends[rest])
        rest, at, end = rest[whole], at[whole], end[whole]
        _add_batches(tallies, data, rest, at, end)
        more = ends[rest] - end > _MAGIC_AT
        rest, at = rest[more], end[more]
    tallies.last[:] = np.where(tallies.batches == 1, tallies.behind - 1, -1)
    for index in np.concatenate([*odd, rest]).tolist():
        _count_one(tallies, index, data[starts[index] : ends[index]].tobytes())
    tallies.codec[tallies.batch_bytes != tallies.size] = -1
    return tallies


def _add_batches(tallies: RecordTallies, data: Bytes, fields: Int64s, at: Int64s, end: Int64s) -> None:
    """Add a batch of magic 2, from `at` to `end`, to each of `fields`."""
    announced = _number(data, at + _COUNT_AT, ">i4")
    attributes = data[at + _ATTRIBUTES_AT + 1]
    control = attributes & CONTROL != 0
    behind = _number(data, at, ">i8") + _number(data, at + _DELTA_AT, ">i4") + 1
    codec = (attributes & CODEC_MASK).astype(np.int64)
    same = (tallies.batches[fields] == 0) | (tallies.codec[fields] == codec)
    tallies.codec[fields] = np.where(same, codec, -1)
    tallies.batches[fields] += 1
    tallies.batch_bytes[fields] += end - at
    tallies.records[fields] += np.where(control, 0, announced)
    tallies.markers[fields] += np.where(control, announced, 0)
    tallies.behind[fields] = behind
    tallies.reached[fields[~control]] = behind[~control]
    if tallies.headers is not None:
        _add_headers(tallies.headers, data, fields, at, end)


def _count_one(tallies: RecordTallies, index: int, field: bytes) -> None:
    """Set the tallies of a field with batches of magic 0 or 1, or very many batches."""
    contents, complete = payload([field]), record_set(field).batches
    tallies.size[index] = contents.size
    tallies.batches[index], tallies.records[index] = contents.batches, contents.records
    tallies.uncounted[index], tallies.markers[index] = contents.uncounted, contents.markers
    tallies.batch_bytes[index] = sum(batch.size for batch in complete)
    tallies.last[index] = as_int64(complete[0].last_offset) if len(complete) == 1 else -1
    tallies.behind[index], tallies.reached[index] = offset_behind(complete), offset_reached(complete)
    tallies.codec[index] = -1
    if tallies.headers is not None:
        for column, fact in zip(tallies.headers, header_facts(field), strict=True):
            column[index] = fact


def _add_headers(more: HeaderTallies, data: Bytes, fields: Int64s, at: Int64s, end: Int64s) -> None:
    """Add the headers of batches, as :func:`_add_batches` does."""
    import crc32c  # not at the start of the program: it asks for its own version

    attributes = data[at + _ATTRIBUTES_AT + 1]
    view = data.data
    places = zip((at + CRC_START).tolist(), end.tolist(), strict=True)
    computed = np.array([crc32c.crc32c(view[begin:stop]) for begin, stop in places], np.int64)
    traits = np.where(attributes & TRANSACTIONAL, int(BatchTrait.TRANSACTIONAL), 0)
    traits |= np.where(computed != _number(data, at + _CRC_AT, ">u4"), int(BatchTrait.DAMAGED), 0)
    more.traits[fields] |= traits
    times = _number(data, at + _MAX_TIMESTAMP_AT, ">i8")
    has_time, fields = times[times >= 0], fields[times >= 0]
    known = more.earliest[fields]
    more.earliest[fields] = np.where(known == _LEAST, has_time, np.minimum(known, has_time))
    more.latest[fields] = np.maximum(more.latest[fields], has_time)
