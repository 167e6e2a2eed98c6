"""Messages that differ only in values that were not asked for, told apart for thousands of them at once.

A :class:`Shape` is made of one message, the example. Of its bytes some hold the structure (counts, lengths, markers),
some the wanted values, and the rest is passed over: numbers that are not wanted, the content of texts that are not
wanted, and bytes fields, which may be of another length in each message. Messages with the structure of the example
and the same wanted bytes decode to the same wanted values, so one of them is decoded and stands for all
(:meth:`Shapes.classes`).

Records fields are the exception: each message has its own, and what their batch headers tell is read for all messages
together (:class:`RecordTallies`). So is the high watermark beside them, and with the headers the last stable offset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping
from enum import IntFlag
from typing import Any, NamedTuple

import crc32c
import numpy as np

from captures.arrays import Bools, Bytes, Int64s
from captures.exchanges.payloads import Frames
from captures.meaning.payload import payload
from dissectors import wire
from dissectors.codec import CODEC_MASK
from dissectors.message_version import MessageVersion
from dissectors.projection import Tree
from dissectors.records import record_set
from dissectors.records.batch import CONTROL, CRC_START, HEADER_AT, MIN_LENGTH, TRANSACTIONAL
from dissectors.records.legacy import ENTRY_OVERHEAD
from dissectors.trace import Node, trace

_MOST_SHAPES = 48
"""That are kept of one message version; of those that fit least often one goes for a new one."""
_WORTH_A_SHAPE = 4
"""Messages; making a shape takes as long as decoding some of them."""
_MOST_IN_VAIN = 6
"""Examples of a block that fit next to no other message before the rest is left to be decoded one by one."""
_MOST_BATCHES = 1000
"""Of a records field that are counted together with those of others."""
_LONGEST_EXAMPLE = 1 << 16
"""Bytes, without bytes fields. What is longer is cheaper to decode than to describe."""

_STRUCTURE, _WANTED, _NUMBER, _TEXT, _BYTES = range(5)
_UNWANTED: Tree = {}
_HIGH_WATERMARK, _LAST_STABLE = "high_watermark", "last_stable_offset"
_LONG = 8
_LENGTH_AT, _MAGIC_AT, _CRC_AT, _ATTRIBUTES_AT, _DELTA_AT, _MAX_TIMESTAMP_AT, _COUNT_AT = (
    HEADER_AT[name]
    for name in (
        "length", "magic", "crc", "attributes", "last_offset_delta", "max_timestamp", "records_count",
    )
)  # fmt: skip
_LEAST = np.iinfo(np.int64).min


class BatchTrait(IntFlag):
    """What complete batches have that rules look for."""

    OLD = 1
    """Magic 0 or 1."""
    TRANSACTIONAL = 2
    DAMAGED = 4
    """The checksum does not match."""


class HeaderTallies(NamedTuple):
    """What batch headers tell besides, as :class:`RecordTallies` have it.

    :ivar traits: :class:`BatchTrait` of any of the batches
    :ivar earliest: of their latest timestamps, ms; the least number where none has one
    :ivar latest: of these, likewise
    """

    traits: Int64s
    earliest: Int64s
    latest: Int64s


def header_facts(field: bytes) -> tuple[int, int, int]:
    """Return what :class:`HeaderTallies` have of one records field."""
    batches = record_set(field).batches
    traits = 0
    for batch in batches:
        traits |= BatchTrait.OLD * (batch.magic < 2) | BatchTrait.TRANSACTIONAL * batch.transactional
        traits |= BatchTrait.DAMAGED * (not batch.crc_valid)
    times = [batch.max_timestamp for batch in batches if batch.max_timestamp >= 0] or [_LEAST]
    return traits, min(times), max(times)


class RecordTallies(NamedTuple):
    """What the records fields of messages hold: a row for each message, a column for each field that is not null.

    :ivar codec: of all batches, where the field holds nothing but whole batches of magic 2 that have the same, else -1

    :ivar size: bytes of the field
    :ivar batches: complete ones
    :ivar batch_bytes: of these
    :ivar records: that the batches announce, without control records
    :ivar uncounted: compressed messages of magic 0 and 1, which do not tell how many are in them
    :ivar markers: control records
    :ivar last: last offset of the only batch, -1 where there is not exactly one
    :ivar high_watermark: that stands beside the field; the least number where none does, or it is not wanted
    :ivar last_stable: last stable offset, likewise
    :ivar headers: what else the headers tell, None if that was not asked
    """

    size: Int64s
    batches: Int64s
    batch_bytes: Int64s
    records: Int64s
    uncounted: Int64s
    markers: Int64s
    last: Int64s
    codec: Int64s
    high_watermark: Int64s
    last_stable: Int64s
    headers: HeaderTallies | None = None

    def of(self, rows: Int64s | Bools) -> RecordTallies:
        """Return those of some messages."""
        headers = self.headers and HeaderTallies(*(column[rows] for column in self.headers))
        return RecordTallies._make([*(column[rows] for column in self[:-1]), headers])


class _Segment(NamedTuple):
    """A run of bytes of fixed length; positions count from its beginning."""

    length: int
    structure: Int64s
    expected: Bytes
    texts: Int64s
    wanted: Int64s


class _Hole(NamedTuple):
    """A bytes field that is not null.

    :ivar compact: how its length is written
    :ivar records: whether its records are wanted
    :ivar beside: segments and positions of the offsets beside it that are wanted, by their names
    """

    compact: bool
    records: bool
    beside: Mapping[str, tuple[int, int]]


class ShapeMatch(NamedTuple):
    """The messages that have a shape.

    :ivar fits: which of those that were asked about
    :ivar keys: of these the wanted bytes, a row for each
    :ivar tallies: what their records fields hold, None if there are none
    :ivar numbers: the varied numbers of each, None if there are none
    """

    fits: Bools
    keys: Bytes
    tallies: RecordTallies | None
    numbers: Int64s | None


class Shape:
    """What messages of one version have in common with an example.

    :param con: the layout
    :param wanted: fields that are wanted
    :param body: of the example, which is sound
    :param varied: wanted numbers that may be another positive number in each message. If they are told, records fields
        have to be empty in the same messages, and else whole batches of magic 2 with one codec.
    :param headers: whether to read all that batch headers tell
    :raises ValueError: if it has to be decoded by itself
    """

    def __init__(
        self,
        con: wire.Struct,
        wanted: Tree,
        body: bytes,
        varied: Tree | None = None,
        *,
        headers: bool = False,
    ) -> None:
        traced = trace(con, body)
        if traced.error is not None or traced.end != len(body):
            raise ValueError("it is not sound")
        self._roles = np.zeros(len(body), np.uint8)
        self._found: list[tuple[int, int, int, bool, bool, dict[str, int]]] = []
        self._beside: dict[str, int] = {}
        self._headers = headers
        self._of_each = (_HIGH_WATERMARK, _LAST_STABLE) if headers else (_HIGH_WATERMARK,)
        self._strict = varied is not None
        self._varied: list[tuple[int, int]] = []
        self._mark(con, traced.root, wanted, varied or {})
        self._segments, self._holes = self._cut(np.frombuffer(body, np.uint8))
        self.least = sum(segment.length for segment in self._segments) + len(self._holes)
        self.hits = 0
        self.known: dict[bytes, Any] = {}
        """By their wanted bytes what messages of the shape stand for."""

    # ------------------------------------------------------------ made of the example
    def _mark(self, con: wire.WireType, node: Node, wanted: Tree | None, varied: Tree | None) -> None:
        """Mark the bytes of a node.

        :param wanted: what of it is wanted: None for all, nothing of an empty tree
        :param varied: what of it is a varied number, likewise
        """
        match con:
            case wire.Struct():
                self._mark_members(con, node, wanted, varied)
            case wire.Array():
                children = node.children or []
                if children and isinstance(con.element, wire.FixedWidth):
                    self._set(children[0].start, children[-1].end, _NUMBER if wanted == {} else _WANTED)
                else:
                    for child in children:
                        self._mark(con.element, child, wanted, varied)
            case wire.NullableStruct():
                if node.children is not None:
                    self._mark(con.struct, node, wanted, varied)
            case wire.FixedWidth() | wire.Uuid():
                unwanted = wanted == {}
                if varied is None:
                    self._varied.append((node.start, node.end - node.start))
                    unwanted = True
                if node.name in self._of_each and not unwanted:
                    self._beside[str(node.name)], unwanted = node.start, True
                self._set(node.start, node.end, _NUMBER if unwanted else _WANTED)
            case wire.String() if node.value is not None:
                size = len(node.value.encode())
                self._set(node.end - size, node.end, _TEXT if wanted == {} else _WANTED)
            case wire.Bytes() if node.value is not None:
                content = node.end - len(node.value)
                records = isinstance(con, wire.Records) and wanted is None
                if wanted is None and not records:
                    self._set(content, node.end, _WANTED)
                else:
                    self._set(node.start, node.end, _BYTES)
                    place = (node.start, content, node.end)
                    self._found.append((*place, con.compact, records, self._beside))

    def _mark_members(self, con: wire.Struct, node: Node, wanted: Tree | None, varied: Tree | None) -> None:
        outer, self._beside = self._beside, {}
        before = len(self._found)
        for member, child in zip(con.members, node.children or (), strict=False):
            inner = None if wanted is None else wanted.get(member.name, _UNWANTED)
            number = None if varied is None else varied.get(member.name, _UNWANTED)
            self._mark(member.con, child, inner, number)
        if len(self._found) == before and _LAST_STABLE in self._beside:
            # there are no records beside which they would be read
            for start in self._beside.values():
                self._set(start, start + _LONG, _WANTED)
        self._beside = outer

    def _set(self, start: int, end: int, role: int) -> None:
        self._roles[start:end] = role

    def _cut(self, body: Bytes) -> tuple[list[_Segment], list[_Hole]]:
        """Cut the example at its bytes fields."""
        begins = [0, *(end for _, _, end, *_ in self._found)]
        ends = [*(start for start, *_ in self._found), len(body)]
        if sum(ends) - sum(begins) > _LONGEST_EXAMPLE:
            raise ValueError("it is long")
        segments = []
        for begin, end in zip(begins, ends, strict=True):
            roles = self._roles[begin:end]
            structure = np.flatnonzero(roles == _STRUCTURE)
            texts, wanted = np.flatnonzero(roles == _TEXT), np.flatnonzero(roles == _WANTED)
            segments.append(_Segment(end - begin, structure, body[begin:end][structure], texts, wanted))
        holes = []
        for number, (_, _, _, compact, records, offsets) in enumerate(self._found):
            # they stand in the same struct, before the records
            beside = {name: (number, start - begins[number]) for name, start in offsets.items()}
            if any(place < 0 for _, place in beside.values()):
                raise ValueError("a bytes field lies between the high watermark and the records")
            holes.append(_Hole(compact, records, beside))
        self._numbers = [
            (number, start - begins[number], f">i{size}")
            for start, size in self._varied
            for number in [bisect_right(begins, start) - 1]
        ]
        return segments, holes

    # ------------------------------------------------------------ other messages
    def fit(self, data: Bytes, starts: Int64s, ends: Int64s) -> ShapeMatch:
        """Return which messages have this shape, and what they tell.

        :param starts: where the bodies begin in ``data``
        """
        fits = ends - starts >= self.least
        at = starts
        keys: list[Bytes] = []
        places: list[tuple[Int64s, Int64s]] = []
        begins: list[Int64s] = []
        for number, segment in enumerate(self._segments):
            fits &= at + segment.length <= ends
            # those that do not fit are read somewhere, which has no consequence
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
                places.append((at, size))
                at = at + size
        fits &= at == ends
        key = np.concatenate(keys, axis=1)[fits] if keys else np.zeros((np.count_nonzero(fits), 0), np.uint8)
        found = ShapeMatch(fits, key, self._tallies(data, places, begins, fits), None)
        if self._strict:
            found = self._told_apart(found, data, begins)
        return found._replace(keys=np.ascontiguousarray(found.keys))

    def _told_apart(self, found: ShapeMatch, data: Bytes, begins: list[Int64s]) -> ShapeMatch:
        """Read the varied numbers; add to the keys which are not positive, and the codecs of records."""
        fits, key, tallies, _ = found
        numbers = None
        if tallies is not None:
            alike = (tallies.codec >= 0) | (tallies.size == 0)
            chosen = alike.all(1)
            key, tallies = key[chosen], tallies.of(chosen)
            fits = fits.copy()
            fits[fits] = chosen
            codecs = np.where(tallies.size == 0, 0, tallies.codec + 1).astype(np.uint8)
            key = np.concatenate([key, codecs], axis=1)
        if self._numbers:
            columns = [_number(data, begins[at][fits] + place, kind) for at, place, kind in self._numbers]
            numbers = np.stack(columns, axis=1)
            key = np.concatenate([key, np.minimum(numbers, 1).view(np.uint8)], axis=1)
        return ShapeMatch(fits, key, tallies, numbers)

    def _tallies(
        self, data: Bytes, places: list[tuple[Int64s, Int64s]], begins: list[Int64s], fits: Bools
    ) -> RecordTallies | None:
        chosen = [number for number, hole in enumerate(self._holes) if hole.records]
        if not chosen:
            return None
        starts = np.stack([places[number][0][fits] for number in chosen], axis=1)
        sizes = np.stack([places[number][1][fits] for number in chosen], axis=1)
        marks = []
        for name in (_HIGH_WATERMARK, _LAST_STABLE):
            mark = np.full(starts.shape, _LEAST)
            for column, number in enumerate(chosen):
                if name in self._holes[number].beside:
                    segment, place = self._holes[number].beside[name]
                    mark[:, column] = _number(data, begins[segment][fits] + place, ">i8")
            marks.append(mark)
        found, headers = _tally(data, starts.ravel(), sizes.ravel(), headers=self._headers)
        more = None if headers is None else HeaderTallies(*(each.reshape(starts.shape) for each in headers))
        return RecordTallies._make([*(column.reshape(starts.shape) for column in found), *marks, more])


class Shapes:
    """The shapes of one message version.

    :param layout: of the messages
    :param wanted: fields that are wanted
    :param varied: numbers among them, as :class:`Shape` takes them
    :param headers: likewise
    """

    def __init__(
        self, layout: MessageVersion, wanted: Tree, varied: Tree | None = None, *, headers: bool = False
    ) -> None:
        self._layout = layout
        self._wanted = wanted
        self._varied = varied
        self._headers = headers
        self._shapes: list[Shape] = []

    def groups(self, frames: Frames, starts: Int64s, chosen: Int64s) -> list[Group]:
        """Return messages by their shape; those that fit none are left out.

        :param frames: among which they are
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
                shape = Shape(self._layout.struct, self._wanted, body, self._varied, headers=self._headers)
            except ValueError:
                in_vain += 1
                rest = rest[1:]
                continue
            before = len(rest)
            rest = self._fitting(shape, data, frames, starts, rest, found)
            if before - len(rest) < _WORTH_A_SHAPE:
                in_vain += 1
                if before == len(rest):  # an example whose texts are not ASCII does not even fit itself
                    rest = rest[1:]
                    continue
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.remove(min(self._shapes, key=lambda shape: shape.hits))
            self._shapes.append(shape)
        return found

    def _fitting(
        self, shape: Shape, data: Bytes, frames: Frames, starts: Int64s, rest: Int64s, found: list[Group]
    ) -> Int64s:
        """Take those of some messages that have a shape; return the others."""
        long_enough = frames.ends[rest] - starts[rest] >= shape.least
        if not long_enough.any():
            return rest
        asked = rest[long_enough]
        fits, keys, tallies, numbers = shape.fit(data, starts[asked], frames.ends[asked])
        if not fits.any():
            return rest
        shape.hits += int(np.count_nonzero(fits))
        found.append(Group(shape, asked[fits], keys, tallies, numbers))
        left = ~long_enough
        left[long_enough] = ~fits
        return rest[left]


class Group(NamedTuple):
    """Messages of one shape.

    :ivar chosen: indexes of their frames
    :ivar keys: the wanted bytes of each
    :ivar tallies: what their records fields hold, None if there are none
    :ivar numbers: the varied numbers of each, None if there are none
    """

    shape: Shape
    chosen: Int64s
    keys: Bytes
    tallies: RecordTallies | None
    numbers: Int64s | None = None

    def codes(self) -> tuple[Int64s, list[bytes]]:
        """Return numbers for the wanted bytes of each message, and the wanted bytes by number."""
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


# ---------------------------------------------------------------- bytes to numbers
def _number(data: Bytes, at: Int64s, kind: str) -> Int64s:
    """Read a number at each of some places; where it would lie outside it is read from elsewhere."""
    size = np.dtype(kind).itemsize
    places = np.minimum(at, max(len(data) - size, 0))[:, None] + np.arange(size)
    return np.ascontiguousarray(data[places]).view(kind)[:, 0].astype(np.int64)


def _length(data: Bytes, at: Int64s, *, compact: bool) -> tuple[Int64s, Int64s]:
    """Read the length of a bytes field at each place; return where its content begins, and the length, -1 for null."""
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
    data: Bytes, starts: Int64s, sizes: Int64s, *, headers: bool
) -> tuple[tuple[Int64s, ...], HeaderTallies | None]:
    """Add up the batches of records fields, as :func:`captures.meaning.payload.payload` does."""
    told = HeaderTallies(*(np.full(len(starts), blank, np.int64) for blank in (0, _LEAST, _LEAST)))
    count, held = len(starts), sizes.copy()
    batches, batch_bytes, records, uncounted, markers = (np.zeros(count, np.int64) for _ in range(5))
    last, codec = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    ends = starts + sizes
    alive = np.flatnonzero(sizes >= _MAGIC_AT + 1)
    at = starts[alive]
    odd = np.zeros(count, np.bool_)
    for number in range(_MOST_BATCHES + 1):
        if not len(alive):
            break
        length = _number(data, at + _LENGTH_AT, ">i4")
        magic = data[at + _MAGIC_AT]
        end = at + ENTRY_OVERHEAD + length
        odd[alive[(magic < 2) | (number == _MOST_BATCHES)]] = True
        whole = (magic == 2) & (length >= MIN_LENGTH) & (end <= ends[alive])
        alive, at, end = alive[whole], at[whole], end[whole]
        if not len(alive):
            break
        announced = _number(data, at + _COUNT_AT, ">i4")
        attributes = data[at + _ATTRIBUTES_AT + 1]
        control = attributes & CONTROL != 0
        batches[alive] += 1
        batch_bytes[alive] += end - at
        if headers:
            _add_headers(told, data, alive, at, end)
        records[alive] += np.where(control, 0, announced)
        markers[alive] += np.where(control, announced, 0)
        if number:
            last[alive] = -1
            codec[alive] = np.where(codec[alive] == attributes & CODEC_MASK, codec[alive], -1)
        else:
            codec[alive] = attributes & CODEC_MASK
            last[alive] = _number(data, at, ">i8") + _number(data, at + _DELTA_AT, ">i4")
        more = ends[alive] - end >= _MAGIC_AT + 1
        alive, at = alive[more], end[more]
    for index in np.flatnonzero(odd).tolist():
        field = data[starts[index] : ends[index]].tobytes()
        found = payload([field])
        held[index] = found.size
        batches[index], records[index] = found.batches, found.records
        uncounted[index], markers[index] = found.uncounted, found.markers
        complete = record_set(field).batches
        batch_bytes[index] = sum(batch.size for batch in complete)
        last[index] = complete[0].last_offset if len(complete) == 1 else -1
        codec[index] = -1
        if headers:
            told.traits[index], told.earliest[index], told.latest[index] = header_facts(field)
    codec[batch_bytes != held] = -1
    tallies = held, batches, batch_bytes, records, uncounted, markers, last, codec
    return tallies, told if headers else None


def _add_headers(more: HeaderTallies, data: Bytes, fields: Int64s, at: Int64s, end: Int64s) -> None:
    """Take in a batch of magic 2 of each of some fields: where it begins and ends."""
    attributes = data[at + _ATTRIBUTES_AT + 1]
    view = data.data
    places = zip((at + CRC_START).tolist(), end.tolist(), strict=True)
    computed = np.array([crc32c.crc32c(view[begin:stop]) for begin, stop in places], np.int64)
    traits = np.where(attributes & TRANSACTIONAL, int(BatchTrait.TRANSACTIONAL), 0)
    traits |= np.where(computed != _number(data, at + _CRC_AT, ">u4"), int(BatchTrait.DAMAGED), 0)
    more.traits[fields] |= traits
    times = _number(data, at + _MAX_TIMESTAMP_AT, ">i8")
    told, fields = times[times >= 0], fields[times >= 0]
    known = more.earliest[fields]
    more.earliest[fields] = np.where(known == _LEAST, told, np.minimum(known, told))
    more.latest[fields] = np.maximum(more.latest[fields], told)
