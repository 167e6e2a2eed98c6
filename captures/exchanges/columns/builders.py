"""Builders of columns from the bodies of exchanges: one builder for the columns found in one place.

A builder gets the exchanges of a block one by one, then closes the block. It does not get exchanges of APIs for which
it has no :data:`paths <captures.exchanges.projected_reader.NEEDS>`: their rows keep the blank value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from captures.arrays import Bools, Int32s, Int64s
from captures.exchanges.columns.arrays import (
    NO_VALUE,
    Dictionary,
    FlatBlocks,
    GrowingRagged,
    Index,
    ListBlocks,
    RaggedArray,
    TableBlocks,
    without_repeats,
)
from captures.exchanges.columns.waits import designed_waits
from captures.exchanges.projected_reader import CALLS, NOT_OF_CALLS, PROBLEMS, REPEATED_CALLS, Part, Parts
from captures.meaning import designed_wait_ns, errors_in, expected_errors, groups_in, members_in, topics_in
from captures.meaning.exchange import Names, number, replica_of, rows, text
from captures.meaning.payload import record_fields, record_paths, tally
from dissectors.api_keys import ASKED_BY_REPLICAS, ApiKey
from dissectors.session_context import TOPIC_NAMES, SessionContext
from dissectors.sides import SIDES, Side
from dissectors.wire import ZERO_UUID

Column = NDArray[Any] | RaggedArray


def bodies(parts: Parts) -> Iterator[tuple[int, dict[str, Any], Side]]:
    """Yield version, fields and side of the bodies that could be read."""
    for side, part in zip(SIDES, (parts.request, parts.response), strict=True):
        if part is not None and part.version is not None and part.value:
            yield part.version, part.value, side


class Builder(ABC):
    """Receives exchanges, block by block.

    :ivar need: the need that selects its fields (:data:`captures.exchanges.projected_reader.NEEDS`)
    :ivar apis: the APIs that it needs; None for all with its fields
    :ivar filled: number of its rows
    """

    need: str
    apis: frozenset[int] | None = None
    filled = 0

    def begin(self, count: int) -> None:
        """Start a block of `count` rows."""
        self.filled += count

    @abstractmethod
    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        """Add one exchange, or several with equal parts.

        :param index: index of the row in the block, or indexes
        :param latency: latency of each row in ns, :data:`NO_VALUE` if there is none
        """

    def end(self) -> None:  # noqa: B027  # optional
        """Close the block."""

    @abstractmethod
    def content(self) -> Any:
        """Return its results, for :meth:`extend` of a builder in another process."""

    @abstractmethod
    def extend(self, content: Any) -> None:
        """Append the results of another builder for the next rows."""


_NUMBER = NO_VALUE, np.int64
_CODE = -1, np.int32
_FLAG = 0, np.int8


class ColumnBuilder(Builder):
    """Fills columns that belong together.

    :cvar flat: blank value and type of each column with one number per row
    :cvar lists: type of each column with several numbers per row
    :cvar coded: columns whose values are codes of texts, -1 for none
    :ivar dictionary: texts of the coded columns
    """

    flat: ClassVar[Mapping[str, tuple[int, Any]]] = {}
    lists: ClassVar[Mapping[str, Any]] = {}
    coded: frozenset[str] = frozenset()

    def __init__(self, **tables: TableBlocks) -> None:
        self._columns: dict[str, FlatBlocks | ListBlocks | TableBlocks] = {
            **{name: FlatBlocks(blank, dtype) for name, (blank, dtype) in self.flat.items()},
            **{name: ListBlocks(dtype) for name, dtype in self.lists.items()},
            **tables,
        }
        self.dictionary = Dictionary()

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the columns."""
        return [*cls.flat, *cls.lists]

    def _set(self, index: Index, **values: Any) -> None:
        """Set numbers of a row, or of several, by column."""
        for name, value in values.items():
            column = self._columns[name]
            assert isinstance(column, FlatBlocks)
            column.block[index] = value

    def _add(self, index: Index, **values: list[int]) -> None:
        """Add all numbers of a row, or of several equal ones, by column."""
        for name, numbers in values.items():
            column = self._columns[name]
            assert isinstance(column, ListBlocks)
            column.add(index, numbers)

    def begin(self, count: int) -> None:
        super().begin(count)
        for column in self._columns.values():
            column.begin(count)

    def end(self) -> None:
        for column in self._columns.values():
            column.end()

    @property
    def texts(self) -> list[str]:
        """Texts by code."""
        return self.dictionary.texts

    def column(self, name: str) -> Column:
        grown = self._columns[name].grown
        return grown.ragged if isinstance(grown, GrowingRagged) else grown.array

    def content(self) -> Any:
        columns = {name: column.grown.content for name, column in self._columns.items()}
        return self.filled, columns, self.dictionary.texts

    def extend(self, content: Any) -> None:
        count, columns, texts = content
        codes = np.array([*(self.dictionary[text] for text in texts), -1], np.int64)
        for name, (values, *counts) in columns.items():
            self._columns[name].grown.append(self._recoded(name, values, codes), *counts)
        self.filled += count

    def _recoded(self, name: str, values: NDArray[Any], codes: Int64s) -> NDArray[Any]:
        """Return values of a column with codes of this builder's dictionary.

        :param codes: own code by code of the other dictionary
        """
        return codes[values] if name in self.coded else values


class Errors(ColumnBuilder):
    """Error codes anywhere in a response."""

    need = "errors"
    lists: ClassVar = {"error_codes": np.int16, "expected_error_codes": np.int16}

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        response = parts.response
        if response is None or not response.value:
            return
        asked, key = response.asked, parts.key
        version = asked if response.version is None else response.version
        errors = errors_in(key, version, response.value)
        if not errors:
            return
        request = parts.request.value if parts.request is not None else None
        expected = (
            errors if parts.errors_of_kproxy else expected_errors(key, asked, request, response.value, errors)
        )
        routine = {error.path for error in expected}
        self._add(index, error_codes=[error.code for error in errors if error.path not in routine])
        if expected:
            self._add(index, expected_error_codes=[error.code for error in expected])


class Waits(ColumnBuilder):
    """Designed waits."""

    need = "waits"
    flat: ClassVar = {"wait": (0, np.int64), "wait_reason": _CODE}
    coded = frozenset({"wait_reason"})

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        response = parts.response
        if response is None or not response.value:
            return
        request = parts.request.value if parts.request is not None else None
        version = response.asked if response.version is None else response.version
        if isinstance(index, int):
            assert isinstance(latency, int)
            wait, reason = designed_wait_ns(parts.key, version, request, response.value, latency)
            self._set(index, wait=wait, wait_reason=self._code(reason))
            return
        assert not isinstance(latency, int)
        waits = designed_waits(parts.key, version, request, response.value, latency, response.tallies)
        for chosen, waited, reason in waits:
            self._set(index[chosen], wait=waited, wait_reason=self._code(reason))

    def _code(self, reason: str) -> int:
        return self.dictionary[reason] if reason else -1


class Calls(ColumnBuilder):
    """Calls of group members to their coordinators."""

    need = "calls"
    apis = CALLS
    flat: ClassVar = {"member": _CODE, "call": _CODE, "session_timeout_ms": _NUMBER}
    coded = frozenset({"member", "call"})

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        request, response = ((part and part.value) or {} for part in (parts.request, parts.response))
        member = text(request, "member_id") or text(response, "member_id")
        if member:
            self._set(index, member=self.dictionary[member])
        self._set(index, session_timeout_ms=number(request, "session_timeout_ms", NO_VALUE))
        part = parts.response
        if (
            parts.key not in REPEATED_CALLS
            or part is None
            or part.version is None
            or not (request and response)
        ):
            return
        whole = not any(each and (each.problem or each.guess) for each in (parts.request, part))
        if whole and not errors_in(parts.key, part.version, response):
            sides = request, {} if parts.key == ApiKey.OFFSET_COMMIT else response
            # of some messages more was read than is wanted here
            contents = [{name: side[name] for name in side if name not in NOT_OF_CALLS} for side in sides]
            self._set(index, call=self.dictionary[repr((parts.key, *contents))])


class Throttle(ColumnBuilder):
    """Throttle times of responses."""

    need = "throttle"
    flat: ClassVar = {"throttle_time_ms": _NUMBER}

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        value = parts.response.value if parts.response is not None else None
        throttle = (value or {}).get("throttle_time_ms")
        if isinstance(throttle, int):
            self._set(index, throttle_time_ms=throttle)


class Replica(ColumnBuilder):
    """The requester: the ID of a broker, or a negative number for a consumer (KIP-903 moved the field)."""

    need = "replica"
    apis = ASKED_BY_REPLICAS
    flat: ClassVar = {"replica_id": _NUMBER}

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        request = parts.request
        # a request without the field is a consumer's: since v15 only replicas send it
        if request is not None and request.value is not None and (request.value or not request.problem):
            self._set(index, replica_id=replica_of(request.value))


class Acks(ColumnBuilder):
    """Acks of Produce requests: the number of replicas that a producer waits for."""

    need = "acks"
    apis = frozenset({ApiKey.PRODUCE})
    flat: ClassVar = {"acks": _NUMBER}

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        value = parts.request.value if parts.request is not None else None
        if value:
            self._set(index, acks=number(value, "acks"))


class ProblemsColumn(ColumnBuilder):
    """Whether messages could be decoded."""

    need = PROBLEMS
    flat: ClassVar = {"undecoded": _FLAG, "guessed": _FLAG, "response_told": _FLAG}

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        sides = parts.request, parts.response
        undecoded = sum(1 << side for side, part in enumerate(sides) if part is not None and part.problem)
        guessed = any(part is not None and part.guess for part in sides)
        told = parts.response is not None and bool(parts.response.value)
        self._set(index, undecoded=undecoded, guessed=guessed, response_told=told)


class FetchLimits(ColumnBuilder):
    """The bytes that a Fetch waits for, and the bytes that it allows."""

    need = "fetch limits"
    apis = frozenset({ApiKey.FETCH})
    flat: ClassVar = {"min_bytes": _NUMBER, "max_bytes": _NUMBER}

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        request = (parts.request and parts.request.value) or {}
        allowed = [number(request, "max_bytes")] + [
            number(row, "partition_max_bytes")
            for topic in rows(request, "topics")
            for row in rows(topic, "partitions")
        ]
        least = min((size for size in allowed if size > 0), default=NO_VALUE)
        self._set(index, min_bytes=number(request, "min_bytes"), max_bytes=least)


class Records(ColumnBuilder):
    """Record counts from batch headers; nothing is decompressed."""

    need = "records"
    flat: ClassVar = {"records": _NUMBER, "batches": _NUMBER, "record_bytes": _NUMBER}

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        for version, value, side in bodies(parts):
            tallies = parts.tallies(side)
            if tallies is not None:
                sums = (each.sum(1) for each in (tallies.records, tallies.batches, tallies.batch_bytes))
                self._set(index, **dict(zip(self.flat, sums, strict=True)))
            elif record_paths(parts.key, version, side):
                found = tally(record_fields(parts.key, version, value, side))
                self._set(index, records=found.records, batches=found.batches, record_bytes=found.size)


class PathValues(ColumnBuilder):
    """The values of any field, by its path: integers, and codes of all other values.

    :param need: the path with its side, such as ``response.topics[0].error_code``; null has no value
    """

    lists: ClassVar = {"values": np.int32}
    coded = frozenset({"values"})

    def __init__(self, need: str) -> None:
        super().__init__(numbers=TableBlocks(1))
        self.need = need
        self._side, *steps = need.split(".")
        self._steps = [
            (name, int(at[:-1]) if at else None) for name, _, at in (s.partition("[") for s in steps)
        ]

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        part = parts.request if self._side == "request" else parts.response
        if part is None:
            return
        numbers, own = self._columns["numbers"], (part.own or {}).get(self._steps[-1][0])
        assert isinstance(numbers, TableBlocks)
        if own is not None:
            numbers.add(index, own[:, :, None])
            return
        found: list[Any] = [part.value]
        for name, at in self._steps:
            held = (each.get(name) if each.__class__ is dict else None for each in found)
            found = [value for each in held for value in _elements(each, at)]
        integers = [value for value in found if value.__class__ is int]
        if integers:
            count = len(np.atleast_1d(index))
            numbers.add(index, np.tile(np.array(integers, np.int64)[:, None], (count, 1, 1)))
        others = [
            self.dictionary[value] for value in found if value is not None and value.__class__ is not int
        ]
        if others:
            self._add(index, values=others)


def _elements(value: Any, at: int | None) -> Sequence[Any]:
    """Return the elements of an array, or one of them; without `at` also a value that is not an array."""
    if isinstance(value, list | tuple):
        return value if at is None else value[at : at + 1]
    return (value,) if at is None else ()


class TextBuilder(ColumnBuilder):
    """Texts mentioned in the messages of an exchange, each once per row, as codes of a dictionary."""

    find: Callable[[int, int, Any, Side], list[str]]

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        found: dict[str, None] = {}
        for version, value, side in bodies(parts):
            found.update(dict.fromkeys(self.find(parts.key, version, value, side)))
        if found:
            self._add(index, **{self.need: [self.dictionary[text] for text in found]})


class Groups(TextBuilder):
    """The groups mentioned in messages."""

    need = "groups"
    lists: ClassVar = {"groups": np.int32}
    coded = frozenset({"groups"})
    find = staticmethod(groups_in)


class Members(TextBuilder):
    """The member IDs mentioned in messages."""

    need = "members"
    lists: ClassVar = {"members": np.int32}
    coded = frozenset({"members"})
    find = staticmethod(members_in)


def _unnamed(_: str) -> None:
    return None


class Topics(ColumnBuilder):
    """Topics and partitions, by name if it is known at read time, else by ID (KIP-516).

    :param names: names of topic IDs besides those found in the exchanges themselves
    """

    need = "topics"
    lists = dict.fromkeys(("topics", "partitions", "partition_topics"), np.int32)
    coded = frozenset({"topics", "partition_topics"})

    def __init__(self, names: Names) -> None:
        super().__init__()
        self._names = names
        self._resolved: tuple[int, list[str], dict[str, Column]] | None = None

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        found: dict[str, list[int]] = {}
        for version, value, side in bodies(parts):
            named = topics_in(parts.key, version, value, _unnamed, side)
            if not found:
                found = named
            elif named != found:  # a response mostly names the topics of its request
                _merge(found, named)
        codes: list[int] = []
        partitions: list[int] = []
        of_partitions: list[int] = []
        for name, numbers in found.items():
            code = self.dictionary[name]
            codes.append(code)
            partitions += numbers
            of_partitions += [code] * len(numbers)
        self._add(index, topics=codes, partitions=partitions, partition_topics=of_partitions)

    def by_id(self) -> Bools:
        """Return a mask of the rows with a topic that may be named by its ID, going by the length of the name."""
        topics = super().column("topics")
        assert isinstance(topics, RaggedArray)
        may = np.array([len(text) == len(ZERO_UUID) for text in self.dictionary.texts], np.bool_)
        return topics.any(may[topics.values])

    @property
    def texts(self) -> list[str]:
        """The names by code; if several codes have the same name, only the first is in use."""
        return [self._names(topic) or topic for topic in self.dictionary.texts]

    def column(self, name: str) -> Column:
        made_of = self.filled, self.texts
        if self._resolved is None or self._resolved[:2] != made_of:
            self._resolved = *made_of, self._resolve(made_of[1])
        return self._resolved[2][name]

    def _resolve(self, texts: list[str]) -> dict[str, Column]:
        """Return the columns with a single code for each topic that was met by name and by ID."""
        columns = {name: super(Topics, self).column(name) for name in self._columns}
        first: dict[str, int] = {}
        codes = np.array([first.setdefault(text, code) for code, text in enumerate(texts)], np.int32)
        if len(first) == len(texts):
            return columns
        topics, partitions, of_partitions = columns.values()
        assert isinstance(topics, RaggedArray)
        assert isinstance(partitions, RaggedArray)
        assert isinstance(of_partitions, RaggedArray)
        named = RaggedArray(codes[topics.values], topics.offsets)
        once = without_repeats(named, named.values)
        pairs = RaggedArray(codes[of_partitions.values], of_partitions.offsets)
        pairs_once = without_repeats(pairs, pairs.values, partitions.values)
        return {
            "topics": _only(named, once),
            "partitions": _only(partitions, pairs_once),
            "partition_topics": _only(pairs, pairs_once),
        }


def _merge(found: dict[str, list[int]], more: dict[str, list[int]]) -> None:
    for name, numbers in more.items():
        known = found.setdefault(name, [])
        known += [number for number in numbers if number not in known]


def _only(ragged: RaggedArray, chosen: Bools) -> RaggedArray:
    """Return the ragged array without the values that are not chosen."""
    counts = np.bincount(ragged.rows[chosen], minlength=len(ragged))
    return RaggedArray(ragged.values[chosen], np.concatenate(([0], np.cumsum(counts))))


class TopicNames(Builder):
    """Learns names of topic IDs from exchanges. It has no columns."""

    need = "topic names"
    apis = frozenset(TOPIC_NAMES)

    def __init__(self, knowledge: SessionContext) -> None:
        self._knowledge = knowledge

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        response = parts.response.value if parts.response is not None else None
        self._knowledge.observe(None, parts.key, None, response)

    def content(self) -> Any:
        return self.filled, self._knowledge.facts.topics

    def extend(self, content: Any) -> None:
        count, topics = content
        for topic_id, name in topics.items():
            self._knowledge.learn_topic(topic_id, name)
        self.filled += count


class Software(Builder):
    """Name and version of the client's software, by connection (KIP-511).

    ApiVersions requests at the start of a connection contain it; the last one counts for all exchanges of the
    connection.
    """

    need = "software"

    def __init__(self, connection_of: Callable[[Index], Index]) -> None:
        self._connection_of = connection_of
        self.names, self.versions = Dictionary(), Dictionary()
        self._announced: dict[int, tuple[int, int]] = {}
        self._latest: dict[int, int] = {}
        """Index in the block of each announcement: equal exchanges come together, not in their order."""

    def begin(self, count: int) -> None:
        super().begin(count)
        self._latest.clear()

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        part: Part | None = parts.request
        value = part.value if part is not None else None
        name, version = (
            (value or {}).get("client_software_name"),
            (value or {}).get("client_software_version"),
        )
        if name or version:
            codes = self.names[name] if name else -1, self.versions[version] if version else -1
            connections = np.atleast_1d(self._connection_of(parts.row)).tolist()
            for at, connection in zip(np.atleast_1d(index).tolist(), connections, strict=True):
                if at >= self._latest.get(connection, 0):
                    self._announced[connection], self._latest[connection] = codes, at

    def content(self) -> Any:
        return self.filled, self.names.texts, self.versions.texts, self._announced

    def extend(self, content: Any) -> None:
        count, names, versions, known = content
        of_names, of_versions = (
            [*(texts[text] for text in found), -1]
            for texts, found in ((self.names, names), (self.versions, versions))
        )
        for connection, (name, version) in known.items():
            self._announced[connection] = of_names[name], of_versions[version]
        self.filled += count

    def of(self, connections: NDArray[Any]) -> tuple[Int32s, Int32s]:
        """Return the codes of name and version for connections; -1 if unknown."""
        distinct, inverse = np.unique(connections, return_inverse=True)
        codes = np.array(
            [self._announced.get(each, (-1, -1)) for each in distinct.tolist()], np.int32
        ).reshape(-1, 2)
        return codes[inverse, 0], codes[inverse, 1]
