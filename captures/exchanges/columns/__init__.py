"""Typed columns of the exchange table, those of the messages too, each filled when it is first asked for.

::

    columns = ExchangeColumns(capture)            # all exchanges there are; nothing is read yet
    columns.prepare(["error_codes", "topics"])    # both in one pass over the capture
    errors = columns["error_codes"]               # Ragged: values and offsets
    names = columns.texts("topics")               # what the codes of columns["topics"] stand for
    columns.extend(rows)                          # live: more exchanges have become complete

What the message columns hold is decoded by projection (:mod:`captures.exchanges.projected`): values are those that
the full decode and :mod:`captures.meaning` give. :data:`COLUMNS` says what there is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from captures.exchanges.capture import Capture
from captures.exchanges.columns.arrays import Growing, Int64s, Ragged
from captures.exchanges.columns.makers import (
    NO_VALUE,
    Column,
    ColumnMaker,
    Errors,
    Maker,
    Named,
    Records,
    Replica,
    Software,
    Throttle,
    TopicNames,
    Topics,
    Waits,
    groups,
    members,
)
from captures.exchanges.projected import BLOCK_ROWS, ProjectedReader, paths_of
from captures.meaning.exchange import Names
from dissectors.apis import api
from dissectors.knowledge import Knowledge

__all__ = ["COLUMNS", "NO_VALUE", "Column", "ColumnKind", "ExchangeColumns", "Ragged", "reference"]


class ColumnKind(NamedTuple):
    """What a column holds.

    :ivar dtype: of its numbers
    :ivar ragged: whether a row has several, as a :class:`Ragged`
    :ivar coded: whether they are codes of texts (:meth:`ExchangeColumns.texts`); -1 is none
    :ivar doc: meaning and unit
    """

    dtype: str
    doc: str
    ragged: bool = False
    coded: bool = False


COLUMNS: Mapping[str, ColumnKind] = {
    "time": ColumnKind("int64", "ns since the epoch, when the request began, or the response where it has no request"),
    "latency": ColumnKind("int64", "ns from the last byte of the request to the first of the response"),
    "client": ColumnKind("int32", "address of the client as host:port", coded=True),
    "broker": ColumnKind("int32", "address of the broker as host:port", coded=True),
    "client_id": ColumnKind("int32", "client ID", coded=True),
    "software_name": ColumnKind("int32", "software of the client, told by ApiVersions from v3 on", coded=True),
    "software_version": ColumnKind("int32", "its version", coded=True),
    "wait": ColumnKind("int64", "ns of the latency that are waiting by design; 0 if there is none"),
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
    "replica_id": ColumnKind("int64", "Fetch: ID of the broker that fetches, negative for a consumer"),
    "records": ColumnKind("int64", "records that batch headers announce, without control records and without those"
                          " in compressed messages of magic 0 and 1, which do not tell"),
    "batches": ColumnKind("int64", "complete record batches, messages of magic 0 and 1 counting as batches"),
    "record_bytes": ColumnKind("int64", "bytes of these batches as they are on the wire"),
}  # fmt: skip
"""The columns besides those of the table (:data:`captures.exchanges.table.COLUMNS`), which can be had by name too.

One element a row, in the order of :attr:`ExchangeColumns.rows`; :data:`NO_VALUE` stands in columns of int64 where a
row has no value, -1 in those of codes. Ragged columns have as many values a row as there are.
"""


def reference() -> str:
    """Return the columns as a Markdown table."""
    lines = ["| column | type | meaning |", "|---|---|---|"]
    for name, kind in COLUMNS.items():
        type_ = f"codes of texts, {kind.dtype}" if kind.coded else kind.dtype
        lines.append(f"| `{name}` | {type_}{', ragged' * kind.ragged} | {kind.doc} |")
    return "\n".join(lines)


_CODES_OF = {"partition_topics": "topics"}


class ExchangeColumns:
    """Columns of some exchanges of a capture.

    :param rows: their rows in the exchange table, complete ones; all there are now if None
    :param names: tells names of topic IDs besides those that the exchanges themselves tell
    """

    def __init__(self, capture: Capture, rows: Int64s | None = None, *, names: Names | None = None) -> None:
        self._capture = capture
        self._rows = Growing(np.int64)
        self._rows.append(np.arange(len(capture.table)) if rows is None else rows)
        self._knowledge = Knowledge()
        self._more_names = names
        self._makers: dict[str, Maker] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Int64s:
        """Rows of the exchange table, in the order of the columns."""
        return self._rows.array

    def prepare(self, names: Iterable[str]) -> None:
        """Fill some columns, all of them in one pass over the capture."""
        self._fill([self._maker(need) for name in names if (need := _NEEDS.get(name))])

    def preparing(self, names: Iterable[str]) -> Iterator[None]:
        """Fill some columns as :meth:`prepare` does, step by step: each some milliseconds of work."""
        yield from self._filling([self._maker(need) for name in names if (need := _NEEDS.get(name))])

    def extend(self, rows: Int64s) -> None:
        """Add rows of the table, such as :meth:`Capture.updates` yields; columns in use are filled at once."""
        self._rows.append(rows)
        self._fill(list(self._makers.values()))

    def keep(self, renumbered: Int64s) -> None:
        """Follow the table in dropping rows.

        :param renumbered: new row for each old row of the table, -1 for one that was dropped
        """
        moved = renumbered[self.rows]
        chosen = moved >= 0
        self._rows.keep(chosen)
        self._rows.array[:] = moved[chosen]
        for maker in self._makers.values():
            maker.keep(chosen)

    def __getitem__(self, name: str) -> Column:
        """Return a column; fill it before if need be.

        :raises KeyError: for a name that no column has
        """
        derived = _DERIVED.get(name)
        if derived is not None:
            return derived(self)
        need = _NEEDS.get(name)
        if need is None:
            found: Column = self._capture.table.column(name)[self.rows]
            return found
        maker = self._maker(need)
        assert isinstance(maker, ColumnMaker), "the columns of others are derived"
        self._fill([maker])
        return maker.column(name)

    def flat(self, name: str) -> NDArray[np.int64]:
        """Return a column that has one value a row."""
        column = self[name]
        assert not isinstance(column, Ragged), f"{name} has several values a row"
        return column

    def ragged(self, name: str) -> Ragged:
        """Return a column that has several values a row."""
        column = self[name]
        assert isinstance(column, Ragged), f"{name} has one value a row"
        return column

    def texts(self, name: str) -> Sequence[str | None]:
        """Return the texts that the codes of a column stand for, by code."""
        match _CODES_OF.get(name, name):
            case "client" | "broker" as end:
                return self._ends(("client", "broker").index(end))
            case "client_id":
                return self._capture.table.client_ids
            case "software_name":
                return self._software().names.texts
            case "software_version":
                return self._software().versions.texts
            case "topics":
                maker = self._maker("topics")
                assert isinstance(maker, Topics)
                return maker.texts
            case coded:
                named = self._maker(_NEEDS[coded])
                assert isinstance(named, Named), f"{name} has no texts"
                return named.dictionary.texts

    # ------------------------------------------------------------ filling
    def _maker(self, need: str) -> Maker:
        maker = self._makers.get(need)
        if maker is None:
            maker = self._makers[need] = self._new_maker(need)
        return maker

    def _new_maker(self, need: str) -> Maker:
        match need:
            case "topics":
                self._maker("topic names")
                return Topics(self._topic_name)
            case "topic names":
                return TopicNames(self._knowledge)
            case "software":
                table = self._capture.table
                return Software(lambda row: int(table.column("connection")[row]))
            case _:
                return _MAKERS[need]()

    def _topic_name(self, topic_id: str) -> str | None:
        found = self._knowledge.topic_name(topic_id)
        return self._more_names(topic_id) if found is None and self._more_names is not None else found

    def _fill(self, makers: list[Maker]) -> None:
        deque(self._filling(makers), maxlen=0)

    def _filling(self, makers: list[Maker]) -> Iterator[None]:
        if any(maker.need == "topics" for maker in makers):
            makers = [*makers, self._maker("topic names")]
        behind = {maker.need: maker for maker in makers if maker.filled < len(self)}
        for start in {maker.filled for maker in behind.values()}:
            yield from self._pass([maker for maker in behind.values() if maker.filled == start], start)

    def _pass(self, makers: list[Maker], start: int) -> Iterator[None]:
        """Fill some columns from a row on, all in one pass; yields between blocks of rows."""
        wanted = _Wanted(makers)
        reader = ProjectedReader(self._capture, wanted.needs)
        for begin in range(start, len(self), BLOCK_ROWS):
            rows = self.rows[begin : begin + BLOCK_ROWS]
            versions = self._capture.table.column("version")[rows].tolist()
            latencies = self._latency(rows).tolist()
            for maker in makers:
                maker.begin(len(rows))
            for index, parts in enumerate(reader.read(rows)):
                adders = wanted.adders(parts.key, versions[index])
                if adders:
                    latency = None if latencies[index] == NO_VALUE else latencies[index]
                    for add in adders:
                        try:
                            add(index, parts, latency)
                        except Exception as error:
                            self._capture.note_fault(error, "filling columns", parts.row)
            for maker in makers:
                maker.end()
            yield

    # ------------------------------------------------------------ made of other columns
    def _latency(self, rows: Int64s) -> Int64s:
        table = self._capture.table
        both = (table.column("request_size")[rows] > 0) & (table.column("response_size")[rows] > 0)
        passed = table.column("response_first")[rows] - table.column("request_last")[rows]
        return np.where(both, passed, NO_VALUE)

    def _time(self) -> Int64s:
        asked = self.flat("request_size") > 0
        return np.where(asked, self.flat("request_first"), self.flat("response_first"))

    def _excess(self) -> Int64s:
        latency = self.flat("latency")
        return np.where(latency == NO_VALUE, NO_VALUE, latency - self.flat("wait"))

    def _ends(self, side: int) -> list[str | None]:
        met = np.unique(self.flat("connection")).tolist()
        texts: list[str | None] = [None] * (max(met, default=-1) + 1)
        for connection in met:
            texts[connection] = self._capture.endpoints(connection)[side]
        return texts

    def _software(self) -> Software:
        maker = self._maker("software")
        self._fill([maker])
        assert isinstance(maker, Software)
        return maker


class _Wanted:
    """Which makers are told of which exchanges."""

    def __init__(self, makers: list[Maker]) -> None:
        self._makers = makers
        self._adders: dict[tuple[int, int], list[Callable[..., None]]] = {}

    def needs(self, key: int) -> frozenset[str]:
        """Return what is needed of the exchanges of an API."""
        return frozenset(maker.need for maker in self._makers if _told(maker, key))

    def adders(self, key: int, version: int) -> list[Callable[..., None]]:
        """Return what takes in the exchanges of an API in a version."""
        found = self._adders.get((key, version))
        if found is None:
            found = self._adders[key, version] = [
                maker.add for maker in self._makers if _told(maker, key) and _has(maker.need, key, version)
            ]
        return found


def _told(maker: Maker, key: int) -> bool:
    apis = maker.apis()
    return apis is None or key in apis


def _has(need: str, key: int, version: int) -> bool:
    """Tell whether messages of an API have fields that are needed."""
    known = api(key)
    if known is None:
        return False
    needs = frozenset({need})
    return bool(
        paths_of(needs, key, known.request.nearest(version), "request")
        or paths_of(needs, key, known.response.nearest(version), "response")
    )


_MAKERS: Mapping[str, Callable[[], Maker]] = {
    "errors": Errors,
    "waits": Waits,
    "throttle": Throttle,
    "groups": groups,
    "members": members,
    "records": Records,
    "replica": Replica,
}

_NEEDS: Mapping[str, str] = {
    "error_codes": "errors",
    "expected_error_codes": "errors",
    "wait": "waits",
    "excess": "waits",
    "throttle_time_ms": "throttle",
    "topics": "topics",
    "partitions": "topics",
    "partition_topics": "topics",
    "groups": "groups",
    "members": "members",
    "records": "records",
    "batches": "records",
    "record_bytes": "records",
    "replica_id": "replica",
    "software_name": "software",
    "software_version": "software",
}
"""Column -> what has to be read of the messages for it."""

_DERIVED: Mapping[str, Callable[[ExchangeColumns], Column]] = {
    "time": ExchangeColumns._time,
    "latency": lambda columns: columns._latency(columns.rows),
    "excess": ExchangeColumns._excess,
    "client": lambda columns: columns.flat("connection"),
    "broker": lambda columns: columns.flat("connection"),
    "software_name": lambda columns: columns._software().of(columns.flat("connection"))[0],
    "software_version": lambda columns: columns._software().of(columns.flat("connection"))[1],
}
