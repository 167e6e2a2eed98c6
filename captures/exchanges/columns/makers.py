"""What columns take from the bodies of exchanges: one maker for the columns that are found in one place.

A maker is told the exchanges of a block one by one, then closes the block. What it has no :data:`paths
<captures.exchanges.projected.NEEDS>` for in an API it is not told of: rows have no value unless one is added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captures.exchanges.columns.arrays import (
    Bools,
    Dictionary,
    Growing,
    GrowingRagged,
    Ragged,
    without_repeats,
)
from captures.exchanges.payloads import SIDES, Side
from captures.exchanges.projected import Part, Parts
from captures.meaning import designed_wait_ns, errors_in, expected_errors, groups_in, members_in, topics_in
from captures.meaning.exchange import Names, number
from captures.meaning.payload import record_fields, record_paths, tally
from dissectors.knowledge import TOPIC_NAMES, Knowledge

NO_VALUE = np.iinfo(np.int64).min
"""Stands in columns of int64 where a row has no value."""

_FETCH = frozenset({1})
Column = NDArray[Any] | Ragged


def bodies(parts: Parts) -> Iterator[tuple[int, dict[str, Any], Side]]:
    """Yield version and fields of the bodies that could be read, with their side."""
    for side, part in zip(SIDES, parts[2:], strict=True):
        if part is not None and part.version is not None and part.value:
            yield part.version, part.value, side


class Maker(ABC):
    """Is told exchanges, block by block.

    :ivar need: what of them it has to be told (:data:`captures.exchanges.projected.NEEDS`)
    :ivar filled: how many rows it was told
    """

    need: str
    filled = 0

    def apis(self) -> frozenset[int] | None:
        """Return the APIs that it is told of; None for all that have what it needs."""
        return None

    def begin(self, count: int) -> None:
        """Begin a block of rows."""
        self.filled += count

    @abstractmethod
    def add(self, index: int, parts: Parts, latency: int | None) -> None:
        """Take in one exchange.

        :param index: of the row in the block
        :param latency: in ns, None if there is none
        """

    def end(self) -> None:  # noqa: B027  # not all have something to do
        """Close the block."""

    def keep(self, chosen: Bools) -> None:
        """Drop all rows but some."""
        self.filled = int(np.count_nonzero(chosen))


class _Flat:
    """A column of one number a row, filled block by block."""

    def __init__(self, blank: int = NO_VALUE) -> None:
        self.grown = Growing(np.int64)
        self.block: list[int] = []
        self._blank = blank

    def begin(self, count: int) -> None:
        self.block = [self._blank] * count

    def end(self) -> None:
        self.grown.append(self.block)


class _Lists:
    """A column of several numbers a row, filled block by block; rows come in order."""

    def __init__(self, dtype: Any) -> None:
        self.grown = GrowingRagged(dtype)
        self._values: list[int] = []
        self._counts: list[int] = []

    def begin(self, count: int) -> None:
        self._values, self._counts = [], [0] * count

    def add(self, index: int, values: list[int]) -> None:
        self._values += values
        self._counts[index] = len(values)

    def end(self) -> None:
        self.grown.append(self._values, self._counts)


class ColumnMaker(Maker):
    """Fills the columns that belong together."""

    def __init__(self, **columns: _Flat | _Lists) -> None:
        self._columns = columns

    def begin(self, count: int) -> None:
        super().begin(count)
        for column in self._columns.values():
            column.begin(count)

    def end(self) -> None:
        for column in self._columns.values():
            column.end()

    def column(self, name: str) -> Column:
        """Return a column."""
        grown = self._columns[name].grown
        return grown.ragged if isinstance(grown, GrowingRagged) else grown.array

    def keep(self, chosen: Bools) -> None:
        super().keep(chosen)
        for column in self._columns.values():
            column.grown.keep(chosen)


class Errors(ColumnMaker):
    """Error codes anywhere in a response."""

    need = "errors"

    def __init__(self) -> None:
        self._unexpected, self._expected = _Lists(np.int16), _Lists(np.int16)
        super().__init__(error_codes=self._unexpected, expected_error_codes=self._expected)

    def add(self, index: int, parts: Parts, latency: int | None) -> None:
        response = parts.response
        if response is None or not response.value:
            return
        asked, key = response.asked, parts.key
        version = asked if response.version is None else response.version
        errors = errors_in(key, version, response.value)
        if not errors:
            return
        request = parts.request.value if parts.request is not None else None
        expected = expected_errors(key, asked, request, response.value, errors)
        if not expected:
            self._unexpected.add(index, [error.code for error in errors])
            return
        routine = {error.path for error in expected}
        self._expected.add(index, [error.code for error in expected])
        self._unexpected.add(index, [error.code for error in errors if error.path not in routine])


class Waits(ColumnMaker):
    """Designed waiting."""

    need = "waits"

    def __init__(self) -> None:
        self._wait = _Flat(0)
        super().__init__(wait=self._wait)

    def add(self, index: int, parts: Parts, latency: int | None) -> None:
        response = parts.response
        if latency is None or response is None or not response.value:
            return
        request = parts.request.value if parts.request is not None else None
        version = response.asked if response.version is None else response.version
        self._wait.block[index] = designed_wait_ns(parts.key, version, request, response.value, latency)[0]


class Throttle(ColumnMaker):
    """Throttle time as the response tells it."""

    need = "throttle"

    def __init__(self) -> None:
        self._throttle = _Flat()
        super().__init__(throttle_time_ms=self._throttle)

    def add(self, index: int, parts: Parts, latency: int | None) -> None:
        value = parts.response.value if parts.response is not None else None
        told = (value or {}).get("throttle_time_ms")
        if isinstance(told, int):
            self._throttle.block[index] = told


class Replica(ColumnMaker):
    """Who fetches: the ID of a broker, or a negative number for a consumer (KIP-903 moved it)."""

    need = "replica"

    def __init__(self) -> None:
        self._replica = _Flat()
        super().__init__(replica_id=self._replica)

    def apis(self) -> frozenset[int] | None:
        return _FETCH

    def add(self, index: int, parts: Parts, latency: int | None) -> None:
        value = parts.request.value if parts.request is not None else None
        if value:
            state = value.get("replica_state") or value
            self._replica.block[index] = number(state, "replica_id")


class Records(ColumnMaker):
    """What batch headers tell of the records; nothing is decompressed."""

    need = "records"

    def __init__(self) -> None:
        self._records, self._batches, self._bytes = _Flat(), _Flat(), _Flat()
        super().__init__(records=self._records, batches=self._batches, record_bytes=self._bytes)

    def add(self, index: int, parts: Parts, latency: int | None) -> None:
        for version, value, side in bodies(parts):
            if record_paths(parts.key, version, side):
                found = tally(record_fields(parts.key, version, value, side))
                self._records.block[index] = found.records
                self._batches.block[index] = found.batches
                self._bytes.block[index] = found.size


class Named(ColumnMaker):
    """Texts that the messages of an exchange name, each once a row, as codes of a dictionary."""

    def __init__(self, need: str, find: Callable[[int, int, Any, Side], list[str]]) -> None:
        self.need = need
        self.dictionary = Dictionary()
        self._find = find
        self._codes = _Lists(np.int32)
        super().__init__(**{need: self._codes})

    def add(self, index: int, parts: Parts, latency: int | None) -> None:
        found: dict[str, None] = {}
        for version, value, side in bodies(parts):
            found.update(dict.fromkeys(self._find(parts.key, version, value, side)))
        if found:
            self._codes.add(index, [self.dictionary[text] for text in found])


def groups() -> Named:
    """Return the maker of the groups that messages name."""
    return Named("groups", groups_in)


def members() -> Named:
    """Return the maker of the member IDs that messages name."""
    return Named("members", members_in)


def _unnamed(_: str) -> None:
    return None


class Topics(ColumnMaker):
    """Topics and partitions, by name where the name is known by now, else by ID (KIP-516).

    :param names: tells names of topic IDs that the exchanges themselves do not tell
    """

    need = "topics"

    def __init__(self, names: Names) -> None:
        self._dictionary = Dictionary()
        self._topics = _Lists(np.int32)
        self._partitions, self._partition_topics = _Lists(np.int32), _Lists(np.int32)
        super().__init__(
            topics=self._topics, partitions=self._partitions, partition_topics=self._partition_topics
        )
        self._names = names
        self._resolved: tuple[list[str], dict[str, Column]] | None = None

    def add(self, index: int, parts: Parts, latency: int | None) -> None:
        found: dict[str, list[int]] = {}
        for version, value, side in bodies(parts):
            named = topics_in(parts.key, version, value, _unnamed, side)
            if not found:
                found = named
            elif named != found:  # a response mostly names what the request did
                _merge(found, named)
        codes: list[int] = []
        partitions: list[int] = []
        of_partitions: list[int] = []
        for topic, numbers in found.items():
            code = self._dictionary[topic]
            codes.append(code)
            partitions += numbers
            of_partitions += [code] * len(numbers)
        self._topics.add(index, codes)
        self._partitions.add(index, partitions)
        self._partition_topics.add(index, of_partitions)

    def end(self) -> None:
        super().end()
        self._resolved = None

    def keep(self, chosen: Bools) -> None:
        super().keep(chosen)
        self._resolved = None

    @property
    def texts(self) -> list[str]:
        """The names by code; those of several codes may be the same, of which only the first is in use then."""
        return [self._names(topic) or topic for topic in self._dictionary.texts]

    def column(self, name: str) -> Column:
        texts = self.texts
        if self._resolved is None or self._resolved[0] != texts:
            self._resolved = texts, self._resolve(texts)
        return self._resolved[1][name]

    def _resolve(self, texts: list[str]) -> dict[str, Column]:
        """Give a topic that was met by name and by ID one code."""
        columns = {name: super(Topics, self).column(name) for name in self._columns}
        first: dict[str, int] = {}
        codes = np.array([first.setdefault(text, code) for code, text in enumerate(texts)], np.int32)
        if len(first) == len(texts):
            return columns
        topics, partitions, of_partitions = columns.values()
        assert isinstance(topics, Ragged)
        assert isinstance(partitions, Ragged)
        assert isinstance(of_partitions, Ragged)
        named = Ragged(codes[topics.values], topics.offsets)
        once = without_repeats(named, named.values)
        pairs = Ragged(codes[of_partitions.values], of_partitions.offsets)
        pairs_once = without_repeats(pairs, pairs.values, partitions.values)
        return {
            "topics": _only(named, once),
            "partitions": _only(partitions, pairs_once),
            "partition_topics": _only(pairs, pairs_once),
        }


def _merge(found: dict[str, list[int]], more: dict[str, list[int]]) -> None:
    for topic, numbers in more.items():
        known = found.setdefault(topic, [])
        known += [number for number in numbers if number not in known]


def _only(ragged: Ragged, chosen: Bools) -> Ragged:
    """Leave out values that are not chosen."""
    counts = np.bincount(ragged.rows[chosen], minlength=len(ragged))
    return Ragged(ragged.values[chosen], np.concatenate(([0], np.cumsum(counts))))


class TopicNames(Maker):
    """Learns names of topic IDs from the exchanges that tell them. It has no columns."""

    need = "topic names"

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    def apis(self) -> frozenset[int] | None:
        return frozenset(TOPIC_NAMES)

    def add(self, index: int, parts: Parts, latency: int | None) -> None:
        response = parts.response.value if parts.response is not None else None
        self._knowledge.observe(None, parts.key, None, response)


class Software(Maker):
    """Name and version of the client's software, by connection (KIP-511).

    ApiVersions tells it at the beginning of a connection; the last that did counts for all exchanges of it.
    """

    need = "software"

    def __init__(self, connection_of: Callable[[int], int]) -> None:
        self._connection_of = connection_of
        self.names, self.versions = Dictionary(), Dictionary()
        self._told: dict[int, tuple[int, int]] = {}

    def add(self, index: int, parts: Parts, latency: int | None) -> None:
        part: Part | None = parts.request
        value = part.value if part is not None else None
        name, version = (
            (value or {}).get("client_software_name"),
            (value or {}).get("client_software_version"),
        )
        if name or version:
            codes = self.names[name] if name else -1, self.versions[version] if version else -1
            self._told[self._connection_of(parts.row)] = codes

    def of(self, connections: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the codes of name and version for connections; -1 where none was told."""
        met, inverse = np.unique(connections, return_inverse=True)
        codes = np.array([self._told.get(each, (-1, -1)) for each in met.tolist()], np.int32).reshape(-1, 2)
        return codes[inverse, 0], codes[inverse, 1]
