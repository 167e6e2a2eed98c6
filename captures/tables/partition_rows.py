"""The contents of an exchange by partition, for any API in any version.

Fields are found by the declarations, as in :mod:`captures.meaning.mentions`: request and response of an exchange
together give one row per partition, or per group and partition if a message names several groups. Values are taken by
Kafka's field names. Of records fields only the batch headers are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from captures.exchanges import Exchange
from captures.meaning import Names, topics_in
from captures.meaning.exchange import replica_of
from captures.meaning.mentions import topic_plan
from captures.meaning.payload import record_paths
from captures.meaning.plans import FieldPlan
from captures.meaning.topic_partitions import PARTITION_ARRAYS
from captures.tables.schema import TABLES
from dissectors.api_keys import ASKED_BY_REPLICAS, ApiKey
from dissectors.entities import PARTITION_FIELDS, TOPIC_FIELDS
from dissectors.error_codes import error_name
from dissectors.left_out import original_size
from dissectors.records import Batch, record_set
from dissectors.sides import Side
from dissectors.wire import ZERO_UUID

UNNAMED = "?"
"""Stands for a topic of which neither name nor ID was decoded."""

COLUMNS = TABLES["topic_partitions"].since("topic")
"""Columns of a row, in their order, after those that all rows of an exchange share."""

_AT = {name: place for place, name in enumerate(COLUMNS)}
_BLANK: tuple[Any, ...] = (None,) * len(COLUMNS)
TOPIC, TOPIC_ID, PARTITION, GROUP = (_AT[name] for name in ("topic", "topic_id", "partition", "group"))
_REPLICA_ID, ERROR_CODE, _ERROR, _EXPECTED = (
    _AT[name] for name in ("replica_id", "error_code", "error", "expected")
)
_BYTES, _RECORD_BYTES, _BATCHES, _RECORDS, _MARKERS, _UNCOUNTED = (
    _AT[name] for name in ("bytes", "record_bytes", "batches", "records", "markers", "uncounted")
)
FIRST_OFFSET, _LAST_OFFSET, _LEADER_ID, _LEADER_EPOCH, _ACQUIRED, _OFFSET = (
    _AT[name] for name in ("first_offset", "last_offset", "leader_id", "leader_epoch", "acquired", "offset")
)
_BASE_OFFSET = FIRST_OFFSET
"""Produce responses give the first offset under this name."""
INT64 = 1 << 63
"""The first number that exceeds 64 bits."""
_NO_RECORDS = [0] * (_UNCOUNTED + 1 - _BYTES)

_FIELDS: dict[Side, dict[str, int]] = {
    "request": {
        "fetch_offset": _AT["fetch_offset"],
        "current_leader_epoch": _AT["current_leader_epoch"],
        "committed_offset": _AT["committed_offset"],
        "timestamp": _AT["timestamp"],
        "leader": _LEADER_ID,
        "leader_id": _LEADER_ID,
        "leader_epoch": _LEADER_EPOCH,
    },
    "response": {
        "error_code": ERROR_CODE,
        "partition_error_code": ERROR_CODE,
        "error_message": _AT["error_message"],
        "base_offset": _BASE_OFFSET,
        "high_watermark": _AT["high_watermark"],
        "last_stable_offset": _AT["last_stable_offset"],
        "log_start_offset": _AT["log_start_offset"],
        "committed_offset": _AT["committed_offset"],
        "offset": _OFFSET,
        "end_offset": _AT["end_offset"],
        "leader_id": _LEADER_ID,
        "leader_epoch": _LEADER_EPOCH,
    },
}
"""Field of a partition's struct -> position in the row."""
_RECORDS_FIELDS = ("records", "unaligned_records")
_APART = ("current_leader", "acquired_records", "old_style_offsets")
"""Fields that need conversion."""


class _PartitionFields(NamedTuple):
    """The fields to take from partition structs with the same fields.

    :ivar fields: names of all fields
    :ivar number: field with the partition number; empty if there is none
    :ivar values: name and row position of fields that are copied
    :ivar records: field with records; empty if there is none
    :ivar aligned: whether the records start at a batch boundary
    :ivar apart: whether there are fields that need conversion
    """

    fields: tuple[str, ...]
    number: str
    values: tuple[tuple[str, int], ...]
    records: str
    aligned: bool
    apart: bool


@lru_cache(maxsize=1024)
def _shape(fields: tuple[str, ...], side: Side) -> _PartitionFields:
    return _PartitionFields(
        fields,
        next((name for name in PARTITION_FIELDS if name in fields), ""),
        tuple((name, index) for name, index in _FIELDS[side].items() if name in fields),
        next((name for name in _RECORDS_FIELDS if name in fields), ""),
        "records" in fields,
        any(name in fields for name in _APART),
    )


class FieldBatches(NamedTuple):
    """The batches of one records field, with the row of their partition.

    :ivar side: of the message that contains them
    :ivar batches: the complete ones
    """

    row: list[Any]
    side: Side
    batches: list[Batch]


class Totals(NamedTuple):
    """Totals of the complete batches of an exchange.

    :ivar records: according to the batch headers, without control records
    :ivar batches: number of batches
    :ivar size: their bytes
    """

    records: int = 0
    batches: int = 0
    size: int = 0


class PartitionContent(NamedTuple):
    """The contents of an exchange by partition.

    :ivar rows: with :data:`COLUMNS`
    :ivar topics: all topics that it names, also those without a partition; each once, in order of appearance
    :ivar sent: the record batches
    :ivar totals: of these batches; None if no decoded message has a field for records
    """

    rows: list[list[Any]]
    topics: list[str]
    sent: list[FieldBatches]
    totals: Totals | None


_NOTHING = PartitionContent([], [], [], None)
_Place = tuple[str | None, str, int]
"""Group, topic and partition."""
_Holder = tuple[dict[str, Any], str | None, frozenset[str]]
"""A struct that names a topic, the group that it belongs to, and its fields that are arrays."""


class _RowPlan(NamedTuple):
    """How the topics of a message are found.

    :ivar plan: leads to fields that name topics; None if there are none
    :ivar arrays: if all topics are in top-level arrays, which are faster to walk: names of these arrays, each with the
        fields of its structs that are arrays
    :ivar whole: whether all topics are named by structs
    :ivar carries: whether the message has fields for records
    """

    plan: FieldPlan | None
    arrays: tuple[tuple[str, frozenset[str]], ...]
    whole: bool
    carries: bool


@lru_cache(maxsize=2048)
def _row_plan(key: int, version: int, side: Side) -> _RowPlan:
    plan = topic_plan(key, version, side)
    carries = bool(record_paths(key, version, side))
    if not plan:
        return _RowPlan(None, (), whole=True, carries=carries)
    simple = not plan.fields and all(
        many and inner.fields == ("",) and not inner.inside for _, many, inner in plan.inside
    )
    arrays = tuple((name, inner.arrays) for name, _, inner in plan.inside) if simple else ()
    return _RowPlan(plan, arrays, _only_structs(plan), carries)


def _only_structs(plan: FieldPlan) -> bool:
    return all(not field for field in plan.fields) and all(
        _only_structs(inner) for _, _, inner in plan.inside
    )


class PartitionRows:
    """Makes the rows of the partitions that exchanges name.

    :param names: returns the name of a topic ID; it must know all names before the first exchange, so that rows do not
        depend on the order of exchanges
    """

    def __init__(self, names: Names) -> None:
        self._names = names

    def of(self, exchange: Exchange) -> PartitionContent:
        """Return the contents of one exchange.

        :param exchange: decoded with ``annotate=False``
        :raises ValueError: if its records were annotated
        """
        key, request, response = exchange.api_key, exchange.request, exchange.response
        if key is None:
            return _NOTHING
        found = _RowCollector(self._names, key)
        if request is not None and request.version is not None and request.value:
            found.take(request.version, request.value, "request")
        if response is not None and response.version is not None and response.value:
            found.take(response.version, response.value, "response")
        return found.content(exchange)


class _RowCollector:
    """Collects the rows of one exchange."""

    __slots__ = ("_carries", "_group", "_key", "_names", "_rows", "_sent", "_structs", "_topics")

    def __init__(self, names: Names, key: int) -> None:
        self._names = names
        self._key = key
        self._rows: dict[_Place, list[Any]] = {}
        self._topics: dict[str, None] = {}
        self._sent: list[FieldBatches] = []
        self._structs: list[tuple[list[Any], dict[str, Any]]] = []
        """Rows with structs of the response that have an error."""
        self._group: str | None = None
        self._carries = False

    def take(self, version: int, body: dict[str, Any], side: Side) -> None:
        """Add one message; the request comes first."""
        plan, arrays, whole, carries = _row_plan(self._key, version, side)
        if carries:
            self._carries = True
        if plan is None:
            return
        if side == "request":
            self._group = _group_of(body)
        if arrays:
            for name, inside in arrays:
                for holder in body.get(name) or ():
                    if holder:
                        self._take_topic(holder, self._group, inside, side)
            return
        if not whole:
            # lists of strings and other fields contain names, too
            named = topics_in(self._key, version, body, self._names, side)
            self._topics.update(dict.fromkeys(named))
        holders: list[_Holder] = []
        _collect(plan, body, self._group, holders)
        for holder, group, inside in holders:
            self._take_topic(holder, group, inside, side)

    def _take_topic(
        self, holder: dict[str, Any], group: str | None, arrays: frozenset[str], side: Side
    ) -> None:
        named, has_uuid, array, alone = _topic_shape(tuple(holder), arrays)
        name, uuid = holder.get(named), None
        if has_uuid:
            uuid = holder["topic_id"]
            uuid = None if not uuid or uuid == ZERO_UUID else uuid
            if not name and uuid is not None:
                name = self._names(uuid) or uuid
        if name:
            self._topics[name] = None
        else:
            name = UNNAMED
        if alone:
            self._take_partitions((holder,), name, uuid, group, side)
        elif array:
            self._take_partitions(holder[array] or (), name, uuid, group, side)

    def _take_partitions(
        self, structs: Any, name: str, uuid: str | None, group: str | None, side: Side
    ) -> None:
        rows, answer = self._rows, side == "response"
        shape: _PartitionFields | None = None
        for struct in structs:
            if struct.__class__ is int:
                self._row((group, name, struct), uuid)
                continue
            if not struct:
                continue
            fields = tuple(struct)
            if shape is None or shape.fields != fields:  # tagged fields may differ between structs
                shape = _shape(fields, side)
            number = struct.get(shape.number)
            if number is None:
                continue
            row = rows.get((group, name, number))
            if row is None or uuid is not None:
                row = self._row((group, name, number), uuid)
            for field, index in shape.values:
                value = struct[field]
                if value is not None:
                    row[index] = value
            if answer and row[ERROR_CODE]:
                self._structs.append((row, struct))
            if shape.records:
                _count(row, struct[shape.records], shape.aligned, side, self._sent)
            if shape.apart:
                _apart(row, struct)

    def _row(self, place: _Place, uuid: str | None) -> list[Any]:
        row = self._rows.get(place)
        if row is None:
            row = self._rows[place] = list(_BLANK)
            row[GROUP], row[TOPIC], row[PARTITION] = place
        if uuid is not None:
            row[TOPIC_ID] = uuid
        return row

    def content(self, exchange: Exchange) -> PartitionContent:
        """Return the collected contents."""
        rows = list(self._rows.values())
        if self._key in ASKED_BY_REPLICAS and exchange.request is not None and exchange.request.value:
            replica = replica_of(exchange.request.value)
            if replica >= 0:
                for row in rows:
                    row[_REPLICA_ID] = replica
        if self._structs:
            expected = {id(error.holders[-1]) for error in exchange.expected}
            for row, struct in self._structs:
                row[_ERROR], row[_EXPECTED] = error_name(row[ERROR_CODE]), id(struct) in expected
        if self._sent:
            _place_in_log(self._sent, self._key)
        return PartitionContent(
            rows, list(self._topics), self._sent, self._totals() if self._carries else None
        )

    def _totals(self) -> Totals:
        if not self._sent:
            return Totals()
        records = batches = size = 0
        for row in self._rows.values():
            if row[_BATCHES]:
                records += row[_RECORDS]
                batches += row[_BATCHES]
                size += row[_RECORD_BYTES]
        return Totals(records, batches, size)


def _group_of(struct: dict[str, Any]) -> str | None:
    group = struct.get("group_id")
    return group if group and isinstance(group, str) else None


def _collect(plan: FieldPlan, body: dict[str, Any], group: str | None, out: list[_Holder]) -> None:
    """Find the structs that name a topic, with the group that they belong to."""
    if "" in plan.fields:
        out.append((body, group, plan.arrays))
    for name, many, inner in plan.inside:
        value = body.get(name)
        if value:
            for row in value if many else (value,):
                if isinstance(row, dict):
                    _collect(inner, row, _group_of(row) or group, out)


class _TopicShape(NamedTuple):
    """The layout of topic structs with the same fields.

    :ivar name: field with the name; empty if there is none
    :ivar uuid: whether there is an ID
    :ivar array: field with the partitions; empty if there is none
    :ivar alone: whether the struct itself is about one partition
    """

    name: str
    uuid: bool
    array: str
    alone: bool


@lru_cache(maxsize=1024)
def _topic_shape(fields: tuple[str, ...], arrays: frozenset[str]) -> _TopicShape:
    return _TopicShape(
        next((name for name in TOPIC_FIELDS if name in fields), ""),
        "topic_id" in fields,
        # a topology has the number of a topic's partitions under the same name (KIP-1071)
        next((name for name in PARTITION_ARRAYS if name in fields and name in arrays), ""),
        any(name in fields for name in PARTITION_FIELDS),
    )


def _count(row: list[Any], data: Any, aligned: bool, side: Side, sent: list[FieldBatches]) -> None:
    """Add the batches of a records field to a row."""
    if row[_BYTES] is None:
        row[_BYTES : _UNCOUNTED + 1] = _NO_RECORDS
    if not data:
        return
    if not isinstance(data, bytes):
        raise ValueError(
            "exchanges have to be decoded with annotate=False: their records are not bytes any more"
        )
    batches = record_set(data, aligned=aligned).batches
    size = records = 0
    for batch in batches:
        size += batch.end - batch.start
        count = batch.count
        if count is None:
            row[_UNCOUNTED] += 1
        elif batch.control:
            row[_MARKERS] += count
        else:
            records += count
    row[_BYTES] += original_size(data)
    row[_RECORD_BYTES] += size
    row[_BATCHES] += len(batches)
    row[_RECORDS] += records
    if batches:
        sent.append(FieldBatches(row, side, batches))


def _apart(row: list[Any], struct: dict[str, Any]) -> None:
    """Convert the fields that are not copied."""
    leader = struct.get("current_leader")
    if leader:
        row[_LEADER_ID], row[_LEADER_EPOCH] = leader.get("leader_id"), leader.get("leader_epoch")
    acquired = struct.get("acquired_records")
    if acquired is not None:
        # where a message was cut off, the last range may lack an end
        ranges = [(each.get("first_offset"), each.get("last_offset")) for each in acquired if each]
        row[_ACQUIRED] = as_int64(
            sum(last - first + 1 for first, last in ranges if None not in (first, last))
        )
    # ListOffsets v0 gives several, the newest first
    old = struct.get("old_style_offsets")
    if old:
        row[_OFFSET] = old[0]


# ---------------------------------------------------------------- offsets in the log
def as_int64(value: int | None) -> int | None:
    """Return `value`, or None if it exceeds 64 bits.

    Peers may send any number up to 2^63-1; sums that overflow are meaningless.
    """
    return value if value is None or -INT64 <= value < INT64 else None


def _place_in_log(sent: list[FieldBatches], key: int) -> None:
    """Fill in the first and last offset of partitions."""
    for row, _, batches in sent:
        if key == ApiKey.PRODUCE:
            base = row[_BASE_OFFSET]
            if base is not None and base >= 0:
                length = _length(batches)
                row[_LAST_OFFSET] = None if length is None else as_int64(base + length - 1)
            else:
                row[FIRST_OFFSET] = None
        else:
            row[FIRST_OFFSET] = first_offset(batches[0])
            row[_LAST_OFFSET] = batches[-1].last_offset


def first_offset(batch: Batch) -> int | None:
    """Return the offset that a batch states for its first record; None for a compressed message of magic 0 or 1.

    Such a message has the offset of its last record.
    """
    return None if batch.count is None else int(batch.base_offset)


def _length(batches: list[Batch]) -> int | None:
    """Return the number of log offsets that batches occupy; None if one of them does not state it."""
    total = 0
    for batch in batches:
        if batch.count is None:
            return None
        total += batch.last_offset_delta + 1
    return total


def log_offsets(sent: FieldBatches, key: int) -> Iterator[int | None]:
    """Yield the log offset of the first record of each batch; None if unknown.

    The broker assigns consecutive offsets to the produced batches of a partition.
    """
    if key != ApiKey.PRODUCE:
        yield from map(first_offset, sent.batches)
        return
    at: int | None = sent.row[_BASE_OFFSET]
    for batch in sent.batches:
        yield at
        if at is not None:
            at = None if batch.count is None else as_int64(at + batch.last_offset_delta + 1)
