"""Builders of columns by partition, from the bodies of Produce, Fetch and OffsetCommit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from captures.arrays import Int64s
from captures.exchanges.columns.arrays import NO_VALUE, Index, RaggedArray, TableBlocks
from captures.exchanges.columns.builders import Column, ColumnBuilder
from captures.exchanges.projected_reader import BATCH_HEADERS, Part, Parts
from captures.exchanges.shapes import RecordTallies, header_facts, offset_behind, offset_reached
from captures.meaning.exchange import Body, Names, items, number, rows, text
from captures.meaning.payload import headers, payload
from captures.meaning.topic_partitions import CARRIERS, asked_for, carried, named
from captures.meaning.topic_partitions import index as partition_of
from dissectors.api_keys import ApiKey
from dissectors.codec import CODEC_LABELS
from dissectors.records import Batch
from dissectors.sides import Side

NamedPartition: TypeAlias = "tuple[str | None, int | None]"
"""Topic, or its ID if it has no name, and partition; None for a field that was not read."""


class PartitionBuilder(ColumnBuilder):
    """Numbers by partition: a code of the topic, the partition, and further numbers.

    :cvar TABLES: the columns of each table, by the prefix of their names; a table has one entry per partition
    """

    TABLES: Mapping[str, tuple[str, ...]]

    def __init__(self, names: Names) -> None:
        self._names = names
        self._tables = {name: TableBlocks(len(columns)) for name, columns in self.TABLES.items()}
        super().__init__(**self._tables)

    @classmethod
    def names(cls) -> list[str]:
        return [
            *super().names(),
            *(f"{table}_{column}" for table, columns in cls.TABLES.items() for column in columns),
        ]

    def _fill(self, table: str, index: Index, partitions: Sequence[NamedPartition], *numbers: Any) -> None:
        """Add the partitions of some exchanges, except those with unread fields.

        :param numbers: the columns after topic and partition: one number per partition, or per exchange and partition
        """
        rows = 1 if isinstance(index, int) else len(index)
        coded = [(-1 if name is None else self.dictionary[name], number) for name, number in partitions]
        known = np.array([code >= 0 and number is not None for code, number in coded], np.bool_)
        if not known.any():
            return
        made = np.empty((rows, len(coded), len(self.TABLES[table])), np.int64)
        made[:, :, :2] = np.array([(code, -1 if number is None else number) for code, number in coded])
        for at, column in enumerate(numbers, 2):
            made[:, :, at] = column
        self._tables[table].add(index, made[:, known])

    def _recoded(self, name: str, values: NDArray[Any], codes: Int64s) -> NDArray[Any]:
        found = values.reshape(-1, len(self.TABLES[name])).copy()
        found[:, 0] = codes[found[:, 0]]
        return found.ravel()

    @property
    def texts(self) -> list[str]:
        """The names by code; several codes may have the same name."""
        return [self._names(topic) or topic for topic in self.dictionary.texts]

    def column(self, name: str) -> Column:
        table, _, column = name.partition("_")
        found, columns = self._tables[table].grown.ragged, self.TABLES[table]
        return RaggedArray(found.values[columns.index(column) :: len(columns)], found.offsets // len(columns))


class Flows(PartitionBuilder):
    """Record data by partition: carried by Produce requests and Fetch responses, and requested by a Fetch."""

    need = "flows"
    apis = CARRIERS
    TABLES = MappingProxyType(
        {"flow": ("topics", "partitions", "bytes", "batches", "records", "uncounted", "markers", "codec")}
    )

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        request, response = ((part and part.value) or {} for part in (parts.request, parts.response))
        asked = list(asked_for(parts.key, request))
        found = list(carried(parts.key, request, response))
        tallies = parts.tallies("request" if parts.key == ApiKey.PRODUCE else "response")
        count = 1 if isinstance(index, int) else len(index)
        made = np.zeros((len(_TALLIED), count, len(asked) + len(found)), np.int64)
        made[-1] = -1
        field = 0
        for at, (_, _, data) in enumerate(found, len(asked)):
            if tallies is None:
                made[:, :, at] = np.array(_flow(data))[:, None]
            elif data is not None:
                made[:, :, at] = [getattr(tallies, name)[:, field] for name in _TALLIED]
                field += 1
        self._fill("flow", index, [*asked, *(place[:2] for place in found)], *made)


class Offsets(PartitionBuilder):
    """Positions of Produce, Fetch and OffsetCommit in each partition."""

    need = "offsets"
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT})
    TABLES = MappingProxyType(
        {
            "asked": ("topics", "partitions", "offsets"),
            "answered": ("topics", "partitions", "offsets", "errors", "stable", "reached"),
            "forgotten": ("topics", "partitions"),
        }
    )
    _REQUEST: Mapping[int, tuple[str, str, str]] = MappingProxyType(
        {
            ApiKey.PRODUCE: ("topic_data", "partition_data", ""),
            ApiKey.FETCH: ("topics", "partitions", "fetch_offset"),
            ApiKey.OFFSET_COMMIT: ("topics", "partitions", "committed_offset"),
        }
    )
    _RESPONSE: Mapping[int, tuple[str, str, str]] = MappingProxyType(
        {
            ApiKey.PRODUCE: ("responses", "partition_responses", "base_offset"),
            ApiKey.FETCH: ("responses", "partitions", "high_watermark"),
            ApiKey.OFFSET_COMMIT: ("topics", "partitions", ""),
        }
    )

    _SESSION: Mapping[str, tuple[str, Side]] = MappingProxyType(
        {
            "session_epoch": ("session_epoch", "request"),
            "session_id": ("session_id", "request"),
            "session_given": ("session_id", "response"),
        }
    )
    flat = dict.fromkeys(_SESSION, (NO_VALUE, np.int64))

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        request, response = ((part and part.value) or {} for part in (parts.request, parts.response))
        if parts.key == ApiKey.FETCH:
            for name, (column, side) in self._SESSION.items():
                part = parts.request if side == "request" else parts.response
                if part is not None and column in (part.value or {}):
                    found = _numbers_of(part, column, [part.value or {}])[:, 0]
                    self._set(np.atleast_1d(index), **{name: found})
        outer, inner, field = self._REQUEST[parts.key]
        partitions, structs = _partitions(request, outer, inner)
        asked = _numbers_of(parts.request, field, structs)
        if parts.key == ApiKey.PRODUCE:
            asked = _ends(parts.tallies("request"), structs, "behind", offset_behind)
        self._fill("asked", index, partitions, asked)
        outer, inner, field = self._RESPONSE[parts.key]
        partitions, structs = _partitions(response, outer, inner)
        self._fill(
            "answered",
            index,
            partitions,
            _numbers_of(parts.response, field, structs),
            [number(row, "error_code", NO_VALUE) for row in structs],
            _numbers_of(parts.response, "last_stable_offset", structs),
            _ends(parts.tallies("response"), structs, "reached", offset_reached),
        )
        forgotten = [
            (named(holder), partition)
            for holder in rows(request, "forgotten_topics_data")
            for partition in items(holder, "partitions")
        ]
        self._fill("forgotten", index, forgotten)

    def column(self, name: str) -> Column:
        return ColumnBuilder.column(self, name) if name in self.flat else super().column(name)

    def _recoded(self, name: str, values: NDArray[Any], codes: Int64s) -> NDArray[Any]:
        return values if name in self.flat else super()._recoded(name, values, codes)


def _partitions(body: Body, outer: str, inner: str) -> tuple[list[NamedPartition], list[Body]]:
    """Return the partitions of the partition structs of a body, and the structs."""
    structs = [(named(holder), row) for holder in rows(body, outer) for row in rows(holder, inner)]
    return [(name, partition_of(row)) for name, row in structs], [row for _, row in structs]


def _numbers_of(part: Part | None, field: str, structs: Sequence[Body]) -> Int64s:
    """Return field `field` of each struct for all exchanges that share the message, -1 where it is missing."""
    own = (part.own or {}).get(field) if part is not None else None
    return np.array([[number(row, field) for row in structs]], np.int64) if own is None else own


def _ends(
    tallies: RecordTallies | None,
    structs: Sequence[Body],
    name: Literal["behind", "reached"],
    end: Callable[[Sequence[Batch]], int],
) -> Int64s:
    """Return the end of the records of each partition; in a Produce request, it counts from the first one sent.

    :param name: the tally with the end
    :param end: computes it from batches
    """
    if tallies is None:
        return np.array([[end(headers(row.get("records"))) for row in structs]], np.int64)
    sent = np.array([row.get("records") is not None for row in structs], np.bool_)
    ends: Int64s = getattr(tallies, name)
    found = np.full((len(ends), len(structs)), -1, np.int64)
    found[:, sent] = ends
    return found


_TALLIED = ("size", "batches", "records", "uncounted", "markers", "codec")


def _flow(data: Any) -> tuple[int, ...]:
    """Return size, batches, records, uncounted, markers and codec of a records field."""
    found = payload([data])
    whole = found.batches and found.magics == [2] and len(found.codecs) == 1
    codec = CODEC_LABELS.index(found.codecs[0]) if whole and not (found.partial or found.damaged) else -1
    return found.size, found.batches, found.records, found.uncounted, found.markers, codec


class BatchHeaders(ColumnBuilder):
    """Further facts from batch headers, and fields beside record data."""

    need = BATCH_HEADERS
    apis = CARRIERS
    flat: ClassVar = {
        "batch_traits": (0, np.int64),
        "batch_earliest": (NO_VALUE, np.int64),
        "batch_latest": (NO_VALUE, np.int64),
        "transactional": (0, np.int8),
        "held_back": (0, np.int8),
    }

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        index = np.atleast_1d(index)
        request, response = ((part and part.value) or {} for part in (parts.request, parts.response))
        names = ("transactional_id", "v3_and_below_transactional_id")
        begins = any(text(request, name) for name in names)
        partitions = [row for holder in rows(response, "responses") for row in rows(holder, "partitions")]
        fields = [data for _, _, data in carried(parts.key, request, response)]
        tallies = parts.tallies("request" if parts.key == ApiKey.PRODUCE else "response")
        if tallies is None or tallies.headers is None:
            facts = [header_facts(data) for data in fields if data and isinstance(data, bytes)]
            traits, earliest, latest = (
                np.array([fact[at] for fact in facts], np.int64)[None] for at in range(3)
            )
        else:
            traits, earliest, latest = tallies.headers
        stable, end = (
            _numbers_of(parts.response, name, partitions) for name in ("last_stable_offset", "high_watermark")
        )
        never = np.iinfo(np.int64).max
        least = np.where(earliest == NO_VALUE, never, earliest).min(1, initial=never)
        self._set(
            index,
            batch_traits=np.bitwise_or.reduce(traits, axis=1),
            batch_earliest=np.where(least == never, NO_VALUE, least),
            batch_latest=latest.max(1, initial=NO_VALUE),
            transactional=begins,
            held_back=((stable >= 0) & (stable < end)).any(1),
        )
