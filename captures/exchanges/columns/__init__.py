"""Typed columns of exchanges, including columns of message fields, each filled when first requested.

::

    columns = ExchangeColumns(capture)            # all current exchanges; nothing is read yet
    columns.prepare(["error_codes", "topics"])    # both in one pass over the capture
    errors = columns["error_codes"]               # Ragged: values and offsets
    names = columns.texts("topics")               # texts by the codes in columns["topics"]

Message columns are decoded by projection (:mod:`captures.exchanges.projected_reader`): their values equal those of the
full decode and :mod:`captures.meaning`. :data:`COLUMNS` lists them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from captures.arrays import Bools, Int64s, distinct_values
from captures.exchanges.capture import Capture
from captures.exchanges.columns.arrays import NO_VALUE, RaggedArray
from captures.exchanges.columns.builders import (
    Acks,
    Builder,
    Calls,
    Column,
    ColumnBuilder,
    Errors,
    FetchLimits,
    Groups,
    Members,
    PathValues,
    ProblemsColumn,
    Records,
    Replica,
    Software,
    Throttle,
    TopicNames,
    Topics,
    Waits,
)
from captures.exchanges.columns.partition_builders import BatchHeaders, Flows, Offsets, PartitionBuilder
from captures.exchanges.parallel import in_processes, jobs_for
from captures.exchanges.projected_reader import BLOCK_ROWS, PROBLEMS, ProjectedReader, paths_of
from captures.meaning.exchange import Names
from dissectors.apis import api
from dissectors.session_context import SessionContext
from dissectors.sides import SIDES

if TYPE_CHECKING:
    from captures.exchanges.capture_cache import CaptureCache

__all__ = ["COLUMNS", "NO_VALUE", "Column", "ExchangeColumns", "RaggedArray", "reference"]

B = TypeVar("B", bound=Builder)

_LEAST_SHARE = 4096
"""Least rows of a share of a process."""
_SHARES_EACH = 4
"""Shares of each process if there are enough rows, so that all finish at about the same time."""


class ColumnKind(NamedTuple):
    """The content of a column.

    :ivar dtype: type of its numbers
    :ivar ragged: whether a row has several numbers, as a :class:`RaggedArray`
    :ivar coded: whether the numbers are codes of texts (:meth:`ExchangeColumns.texts`); -1 is none
    :ivar doc: meaning and unit
    """

    dtype: str
    doc: str
    ragged: bool = False
    coded: bool = False


COLUMNS: Mapping[str, ColumnKind] = {
    "time": ColumnKind("int64", "ns since the epoch, when the request began, or the response where it has no request"),
    "latency": ColumnKind("int64", "ns from the last byte of the request to the first of the broker's response, without"
                          " the time that the request stayed in kproxy"),
    "client": ColumnKind("int32", "address of the client as host:port", coded=True),
    "broker": ColumnKind("int32", "address of the broker as host:port", coded=True),
    "client_id": ColumnKind("int32", "client ID", coded=True),
    "software_name": ColumnKind("int32", "software of the client, announced in ApiVersions from v3 on", coded=True),
    "software_version": ColumnKind("int32", "its version", coded=True),
    "wait": ColumnKind("int64", "ns of the latency that are waiting by design; 0 if there is none"),
    "wait_reason": ColumnKind("int32", "why it waited", coded=True),
    "excess": ColumnKind("int64", "ns of the latency that are not"),
    "error_codes": ColumnKind("int16", "errors anywhere in the response, without the expected ones", ragged=True),
    "expected_error_codes": ColumnKind("int16", "errors that belong to a normal conversation", ragged=True),
    "throttle_time_ms": ColumnKind("int64", "ms, as the response tells it"),
    "topics": ColumnKind("int32", "topics in request or response, each once", ragged=True, coded=True),
    "partitions": ColumnKind("int32", "numbers of the partitions in request or response, each once for its topic",
                             ragged=True),
    "partition_topics": ColumnKind("int32", "topic of each of `partitions`", ragged=True, coded=True),
    "groups": ColumnKind("int32", "groups in request or response, each once", ragged=True, coded=True),
    "members": ColumnKind("int32", "member IDs in request or response, each once", ragged=True, coded=True),
    "member": ColumnKind("int32", "member ID of who speaks with its coordinator, or is given it", coded=True),
    "call": ColumnKind("int32", "Heartbeat, OffsetCommit, heartbeats of newer groups, if they went well: all that they"
                       " say, but for offsets", coded=True),
    "session_timeout_ms": ColumnKind("int64", "JoinGroup: after how many ms of silence the member is removed"),
    "replica_id": ColumnKind("int64", "Fetch, ListOffsets, OffsetForLeaderEpoch: ID of the broker that asks, negative"
                             " for a consumer"),
    "acks": ColumnKind("int64", "Produce: acks of the request, -1 for all replicas"),
    "records": ColumnKind("int64", "records that batch headers announce, without control records and without those"
                          " in compressed messages of magic 0 and 1, which do not tell"),
    "batches": ColumnKind("int64", "complete record batches, messages of magic 0 and 1 counting as batches"),
    "record_bytes": ColumnKind("int64", "bytes of these batches as they are on the wire"),
    "flow_topics": ColumnKind("int32", "Produce, Fetch, ShareFetch: topic of each partition fetched or with records",
                              ragged=True, coded=True),
    "flow_partitions": ColumnKind("int64", "number of the partition", ragged=True),
    "flow_bytes": ColumnKind("int64", "bytes of its records field, 0 if there is none", ragged=True),
    "flow_batches": ColumnKind("int64", "complete batches in it", ragged=True),
    "flow_records": ColumnKind("int64", "records that they announce, without control records", ragged=True),
    "flow_uncounted": ColumnKind("int64", "compressed messages of magic 0 and 1, which do not tell", ragged=True),
    "flow_markers": ColumnKind("int64", "control records", ragged=True),
    "flow_codec": ColumnKind("int64", "codec of its batches if it has nothing but whole ones of magic 2 with the same,"
                             " else -1", ragged=True),
    "asked_topics": ColumnKind("int32", "Produce, Fetch, OffsetCommit: topic of each partition in the request",
                               ragged=True, coded=True),
    "asked_partitions": ColumnKind("int64", "number of the partition", ragged=True),
    "asked_offsets": ColumnKind("int64", "offset that is fetched or committed; of Produce the one behind its last batch"
                                " of magic 2, as the producer counts; -1 for none", ragged=True),
    "answered_topics": ColumnKind("int32", "topic of each partition in the response to these", ragged=True, coded=True),
    "answered_partitions": ColumnKind("int64", "number of the partition", ragged=True),
    "answered_offsets": ColumnKind("int64", "Produce: base offset; Fetch: high watermark; -1 for none", ragged=True),
    "answered_errors": ColumnKind("int64", "error code; the least number where it could not be read", ragged=True),
    "answered_stable": ColumnKind("int64", "Fetch: last stable offset; -1 for none", ragged=True),
    "answered_reached": ColumnKind("int64", "Fetch: offset after its last batch without control records; -1 for none",
                               ragged=True),
    "forgotten_topics": ColumnKind("int32", "Fetch: topic of each partition that leaves the session", ragged=True,
                                   coded=True),
    "forgotten_partitions": ColumnKind("int64", "number of the partition", ragged=True),
    "session_epoch": ColumnKind("int64", "Fetch: epoch of its session, where the version has sessions"),
    "session_id": ColumnKind("int64", "Fetch: ID of its session"),
    "session_given": ColumnKind("int64", "Fetch: ID of the session, as the response tells it"),
    "batch_traits": ColumnKind("int64", "what complete batches of Produce, Fetch and ShareFetch have: 1 magic 0 or 1,"
                               " 2 a transaction, 4 a wrong checksum; added up"),
    "batch_earliest": ColumnKind("int64", "the earliest of the latest timestamps of these batches, in ms"),
    "batch_latest": ColumnKind("int64", "the latest of them"),
    "transactional": ColumnKind("int8", "Produce: 1 if it names a transactional ID"),
    "held_back": ColumnKind("int8", "Fetch: 1 if a partition has records behind its last stable offset"),
    "min_bytes": ColumnKind("int64", "Fetch: bytes for which it waits, -1 if it does not say"),
    "max_bytes": ColumnKind("int64", "Fetch: the fewest bytes that it allows, of a partition or in all"),
    "undecoded": ColumnKind("int8", "1 if not all of the request could be decoded, 2 for the response, 3 for both"),
    "guessed": ColumnKind("int8", "1 if a message was read in another version than announced"),
    "intervened": ColumnKind("int8", "1 if kproxy did more than to rewrite addresses, 2 if errors are of its making"),
    "response_told": ColumnKind("int8", "1 if the response has fields that could be read"),
}  # fmt: skip
"""The columns besides those of the table (:data:`captures.exchanges.table.COLUMNS`), which are available by name too.

One element per row, in the order of :attr:`ExchangeColumns.rows`. A missing value is :data:`NO_VALUE` in int64 columns
and -1 in columns of codes. Ragged columns have any number of values per row.
"""


def reference() -> str:
    """Return the columns as a Markdown table."""
    lines = ["| column | type | meaning |", "|---|---|---|"]
    for name, kind in COLUMNS.items():
        type_ = f"codes of texts, {kind.dtype}" if kind.coded else kind.dtype
        lines.append(f"| `{name}` | {type_}{', ragged' * kind.ragged} | {kind.doc} |")
    return "\n".join(lines)


class ExchangeColumns:
    """Columns of some exchanges of a capture.

    :param rows: rows of complete exchanges in the exchange table; None for all current ones
    :param names: names of topic IDs besides those found in the exchanges themselves
    :param cached: whether the capture's cache keeps the columns
    :ivar rows: rows of the exchange table, in the order of the columns
    """

    def __init__(
        self,
        capture: Capture,
        rows: Int64s | None = None,
        *,
        names: Names | None = None,
        cached: bool = True,
    ) -> None:
        self._capture = capture
        self._cache = capture.cache if cached else None
        self.rows: Int64s = np.arange(len(capture.table)) if rows is None else rows
        self._knowledge = SessionContext()
        self._more_names = names
        self._makers: dict[str, Builder] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def prepare(self, names: Iterable[str]) -> None:
        """Fill columns, all in one pass over the capture."""
        deque(self.preparing(names), maxlen=0)

    def preparing(self, names: Iterable[str]) -> Iterator[int]:
        """Fill columns as :meth:`prepare` does, in steps of some milliseconds; yield the number of filled rows."""
        needs = (name if name.startswith(_PATHS) else _NEEDS.get(name) for name in names)
        yield from self._filling([self._maker(need) for need in needs if need])

    def __getitem__(self, name: str) -> Column:
        """Return a column, filled first if needed.

        :raises KeyError: for the name of no column
        """
        derived = _DERIVED.get(name)
        if derived is not None:
            return derived(self)
        need = _NEEDS.get(name)
        if need is None:
            found: Column = self._capture.table.column(name)[self.rows]
            return found
        return self._filled(need, ColumnBuilder).column(name)  # type: ignore[type-abstract]  # an instance is checked

    def path(self, need: str) -> PathValues:
        """Return the values of a field by its path, filled first if needed."""
        return self._filled(need, PathValues)

    def topics_by_id(self) -> Bools:
        """Return a mask of the rows that may name topics by ID."""
        return self._filled(Topics.need, Topics).by_id()

    def flat(self, name: str) -> Int64s:
        """Return a column with one value per row."""
        column = self[name]
        assert not isinstance(column, RaggedArray), f"{name} has several values a row"
        return column

    def ragged(self, name: str) -> RaggedArray:
        """Return a column with several values per row."""
        column = self[name]
        assert isinstance(column, RaggedArray), f"{name} has one value a row"
        return column

    def texts(self, name: str) -> Sequence[str | None]:
        """Return the texts of a column by code."""
        match name:
            case "client" | "broker" as end:
                return self._ends(("client", "broker").index(end))
            case "client_id":
                return self._capture.table.client_ids
            case "software_name":
                return self._software().names.texts
            case "software_version":
                return self._software().versions.texts
            case coded:
                maker = self._maker(_NEEDS[coded])
                assert isinstance(maker, ColumnBuilder), f"{name} has no texts"
                return maker.texts

    # ------------------------------------------------------------ filling
    def _maker(self, need: str) -> Builder:
        maker = self._makers.get(need)
        if maker is None:
            if need in _BY_NAME:
                self._maker("topic names")
            maker = self._makers[need] = self._new_maker(need, self._knowledge)
        return maker

    def _new_maker(self, need: str, knowledge: SessionContext) -> Builder:
        if need in _BY_NAME:
            return _BY_NAME[need](self._topic_name)
        if need == TopicNames.need:
            return TopicNames(knowledge)
        if need == Software.need:
            table = self._capture.table
            return Software(lambda row: table.column("connection")[row])
        return PathValues(need) if need.startswith(_PATHS) else _PLAIN[need]()

    def _topic_name(self, topic_id: str) -> str | None:
        found = self._knowledge.topic_name(topic_id)
        return self._more_names(topic_id) if found is None and self._more_names is not None else found

    def _filled(self, need: str, kind: type[B]) -> B:
        """Return the builder of some columns, filled first if needed."""
        maker = self._maker(need)
        assert isinstance(maker, kind)
        deque(self._filling([maker]), maxlen=0)
        return maker

    def _filling(self, makers: list[Builder]) -> Iterator[int]:
        if any(maker.need in _BY_NAME for maker in makers):
            makers = [*makers, self._maker("topic names")]
        behind = {maker.need: maker for maker in makers if maker.filled < len(self)}
        # in a pass with others, these would get numbers that are read for each message from a shared example
        alone = {need for need in behind if need.startswith(_PATHS)}
        for start in {maker.filled for need, maker in behind.items() if need not in alone}:
            together = [m for need, m in behind.items() if m.filled == start and need not in alone]
            yield from self._pass(together, start)
        for need in alone:
            yield from self._pass([behind[need]], behind[need].filled)

    def _pass(self, makers: list[Builder], start: int) -> Iterator[int]:
        """Fill some columns from a row on, all in one pass; yields between blocks of rows."""
        cache = None if start else self._cache
        if cache is not None:
            makers = [each for each in makers if not self._restored(each, cache)]
            if not makers:
                return
        yield from self._decode(makers, start)
        if cache is not None and not self._capture.faults:
            for maker in makers:
                cache.store_column(maker.need, self.rows, maker.content())

    def _restored(self, maker: Builder, cache: CaptureCache) -> bool:
        """Fill a column from the cache of an earlier run; return whether it was cached."""
        found = cache.column(maker.need, self.rows)
        if found is not None:
            maker.extend(found)
        return found is not None

    def _decode(self, makers: list[Builder], start: int) -> Iterator[int]:
        """Fill some columns from the messages."""
        wanted = _ColumnDemand(makers)
        of_path = any(isinstance(maker, PathValues) for maker in makers)
        reader = ProjectedReader(self._capture, wanted.needs, own_path=of_path)
        done, count = start, len(self)
        jobs = jobs_for(self._capture, ceil((count - start) / _LEAST_SHARE))
        if jobs < 2:
            while done < count:
                block = reader.next_block(self.rows[done:count])
                self._fill_block(wanted, reader, block)
                done += len(block)
                yield done
            return
        size = max(_LEAST_SHARE, min(BLOCK_ROWS, ceil((count - start) / (jobs * _SHARES_EACH))))
        blocks = [self.rows[begin : begin + size] for begin in range(start, count, size)]

        def filled(block: Int64s) -> Iterator[list[Any]]:
            known = SessionContext()
            builders = [self._new_maker(maker.need, known) for maker in makers]
            self._fill_block(_ColumnDemand(builders), reader, block)
            yield [maker.content() for maker in builders]

        for found in in_processes(self._capture, blocks, filled):
            for maker, content in zip(makers, found, strict=True):
                maker.extend(content)
            yield makers[0].filled

    def _fill_block(self, wanted: _ColumnDemand, reader: ProjectedReader, rows: Int64s) -> None:
        """Fill some columns for a block of rows."""
        versions = self._capture.table.column("version")[rows].tolist()
        latencies = self._latency(rows)
        for maker in wanted.makers:
            maker.begin(len(rows))
        for index, parts in reader.groups(rows):
            first = index if isinstance(index, int) else int(index[0])
            latency = int(latencies[first]) if isinstance(index, int) else latencies[index]
            for add in wanted.adders(parts.key, versions[first]):
                try:
                    add(index, parts, latency)
                except Exception as error:
                    row = parts.row if isinstance(parts.row, int) else int(parts.row[0])
                    self._capture.note_fault(error, "filling columns", row)
        for maker in wanted.makers:
            maker.end()

    # ------------------------------------------------------------ derived columns
    def _latency(self, rows: Int64s) -> Int64s:
        latency, there = self._capture.table.latency(rows)
        return np.where(there, latency, NO_VALUE)

    def _records_of_log(self, name: str) -> Column:
        """Return a column of batch header facts, with no value for exchanges whose records a request log left out."""
        found = np.asarray(self._filled("records", Records).column(name))
        table = self._capture.table
        for side in SIDES if len(table.broker_logs) else ():
            left_out, logged = table.broker_log_column(f"{side}_left_out", self.rows)
            found = np.where(logged & (left_out > 0), NO_VALUE, found)
        return found

    def _excess(self) -> Int64s:
        latency = self.flat("latency")
        return np.where(latency == NO_VALUE, NO_VALUE, latency - self.flat("wait"))

    def _intervened(self) -> Column:
        found = np.zeros(len(self), np.int8)
        done = self._capture.table.intervened()
        for at in np.flatnonzero(np.isin(self.rows, list(done))).tolist():
            found[at] = 2 if done[int(self.rows[at])].has_injected_errors else 1
        return found

    def _ends(self, side: int) -> list[str | None]:
        connections = distinct_values(self.flat("connection")).tolist()
        texts: list[str | None] = [None] * (max(connections, default=-1) + 1)
        for connection in connections:
            texts[connection] = self._capture.endpoints(connection)[side]
        return texts

    def _software(self) -> Software:
        return self._filled(Software.need, Software)


class SelectedColumns(ExchangeColumns):
    """Columns of some exchanges among those of other columns, which stay filled for the next selection.

    :param columns: of more exchanges
    :param indexes: the selected ones among them, increasing
    """

    def __init__(self, columns: ExchangeColumns, indexes: Int64s) -> None:
        super().__init__(columns._capture, columns.rows[indexes])
        self._all = columns
        self._indexes = indexes
        self._selected: dict[str, Column] = {}

    def preparing(self, names: Iterable[str]) -> Iterator[int]:
        yield from self._all.preparing(names)

    def __getitem__(self, name: str) -> Column:
        found = self._selected.get(name)
        if found is None:
            column = self._all[name]
            found = column.take(self._indexes) if isinstance(column, RaggedArray) else column[self._indexes]
            self._selected[name] = found
        return found

    def texts(self, name: str) -> Sequence[str | None]:
        return self._all.texts(name)


class _ColumnDemand:
    """Decides which builders get which exchanges."""

    def __init__(self, makers: list[Builder]) -> None:
        self.makers = makers
        self._adders: dict[tuple[int, int], list[Callable[..., None]]] = {}

    def needs(self, key: int) -> frozenset[str]:
        """Return the needs for exchanges of an API."""
        return frozenset(maker.need for maker in self.makers if _reads(maker, key))

    def adders(self, key: int, version: int) -> list[Callable[..., None]]:
        """Return the ``add`` methods for exchanges of an API in a version."""
        found = self._adders.get((key, version))
        if found is None:
            found = self._adders[key, version] = [
                maker.add for maker in self.makers if _reads(maker, key) and _has(maker.need, key, version)
            ]
        return found


def _reads(maker: Builder, key: int) -> bool:
    return maker.apis is None or key in maker.apis


def _has(need: str, key: int, version: int) -> bool:
    """Return whether messages of an API have needed fields."""
    known = api(key)
    if known is None or need == PROBLEMS:
        return need == PROBLEMS
    needs = frozenset({need})
    return bool(
        paths_of(needs, key, known.request.nearest(version), "request")
        or paths_of(needs, key, known.response.nearest(version), "response")
    )


_PATHS = tuple(f"{side}." for side in SIDES)
"""The start of a path into a message, which is a need of its own."""

_PLAIN: Mapping[str, type[ColumnBuilder]] = {
    each.need: each
    for each in (
        *(Errors, Waits, ProblemsColumn, Throttle, Groups, Members, Calls, Records, Replica),
        *(Acks, FetchLimits, BatchHeaders),
    )
}
_BY_NAME: Mapping[str, type[Topics | PartitionBuilder]] = {
    each.need: each for each in (Topics, Flows, Offsets)
}
"""Builders of columns with topic names, which other exchanges may contain, by need."""

_NEEDS: Mapping[str, str] = {
    **{name: each.need for each in (*_PLAIN.values(), *_BY_NAME.values()) for name in each.names()},
    "excess": Waits.need,
    "software_name": Software.need,
    "software_version": Software.need,
}
"""Column -> the need that it is filled by."""

_DERIVED: Mapping[str, Callable[[ExchangeColumns], Column]] = {
    "time": lambda columns: columns._capture.table.began(columns.rows),
    "request_size": lambda columns: columns._capture.table.sizes("request", columns.rows),
    "response_size": lambda columns: columns._capture.table.sizes("response", columns.rows),
    "latency": lambda columns: columns._latency(columns.rows),
    "excess": ExchangeColumns._excess,
    **{
        name: partial(ExchangeColumns._records_of_log, name=name)
        for name in ("records", "batches", "record_bytes")
    },
    "intervened": ExchangeColumns._intervened,
    "client": lambda columns: columns.flat("connection"),
    "broker": lambda columns: columns.flat("connection"),
    "software_name": lambda columns: columns._software().of(columns.flat("connection"))[0],
    "software_version": lambda columns: columns._software().of(columns.flat("connection"))[1],
}
