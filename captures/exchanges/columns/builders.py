"""Builders of columns from the bodies of exchanges: one builder for the columns found in one place.

A builder gets the exchanges of a block one by one, then closes the block. It does not get exchanges of APIs for which
it has no :data:`paths <captures.exchanges.projected_reader.NEEDS>`: their rows keep the blank value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

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
from dissectors.session_context import TOPIC_NAMES, SessionContext, SessionFacts
from dissectors.sides import SIDES, Side

_PRODUCE, _FETCH = frozenset({ApiKey.PRODUCE}), frozenset({ApiKey.FETCH})
Column = NDArray[Any] | RaggedArray


def bodies(parts: Parts) -> Iterator[tuple[int, dict[str, Any], Side]]:
    """Yield version, fields and side of the bodies that could be read."""
    for side, part in zip(SIDES, (parts.request, parts.response), strict=True):
        if part is not None and part.version is not None and part.value:
            yield part.version, part.value, side


class Builder(ABC):
    """Receives exchanges, block by block.

    :ivar need: the need that selects its fields (:data:`captures.exchanges.projected_reader.NEEDS`)
    :ivar filled: number of its rows
    """

    need: str
    filled = 0

    def apis(self) -> frozenset[int] | None:
        """Return the APIs that it needs; None for all with its fields."""
        return None

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

    def keep(self, chosen: Bools) -> None:
        """Keep only the chosen rows."""
        self.filled = int(np.count_nonzero(chosen))

    @abstractmethod
    def content(self) -> Any:
        """Return its results, for :meth:`extend` of a builder in another process."""

    @abstractmethod
    def extend(self, content: Any) -> None:
        """Append the results of another builder for the next rows."""


class ColumnBuilder(Builder):
    """Fills columns that belong together.

    :ivar dictionary: texts of the coded columns
    """

    coded: frozenset[str] = frozenset()
    """Columns whose values are codes of texts, -1 for none."""

    def __init__(self, **columns: FlatBlocks | ListBlocks | TableBlocks) -> None:
        self._columns = columns
        self.dictionary = Dictionary()

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

    def keep(self, chosen: Bools) -> None:
        super().keep(chosen)
        for column in self._columns.values():
            column.grown.keep(chosen)

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

    def __init__(self) -> None:
        self._unexpected, self._expected = ListBlocks(np.int16), ListBlocks(np.int16)
        super().__init__(error_codes=self._unexpected, expected_error_codes=self._expected)

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
        if not expected:
            self._unexpected.add(index, [error.code for error in errors])
            return
        routine = {error.path for error in expected}
        self._expected.add(index, [error.code for error in expected])
        self._unexpected.add(index, [error.code for error in errors if error.path not in routine])


class Waits(ColumnBuilder):
    """Designed waits."""

    need = "waits"
    coded = frozenset({"wait_reason"})

    def __init__(self) -> None:
        self._wait, self._reason = FlatBlocks(0), FlatBlocks(-1, np.int32)
        super().__init__(wait=self._wait, wait_reason=self._reason)

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        response = parts.response
        if response is None or not response.value:
            return
        request = parts.request.value if parts.request is not None else None
        version = response.asked if response.version is None else response.version
        if isinstance(index, int):
            assert isinstance(latency, int)
            wait, reason = designed_wait_ns(parts.key, version, request, response.value, latency)
            self._wait.block[index], self._reason.block[index] = wait, self._code(reason)
            return
        assert not isinstance(latency, int)
        waits = designed_waits(parts.key, version, request, response.value, latency, response.tallies)
        for chosen, waited, reason in waits:
            self._wait.block[index[chosen]] = waited
            self._reason.block[index[chosen]] = self._code(reason)

    def _code(self, reason: str) -> int:
        return self.dictionary[reason] if reason else -1


class Calls(ColumnBuilder):
    """Calls of group members to their coordinators."""

    need = "calls"
    coded = frozenset({"member", "call"})

    def __init__(self) -> None:
        self._member, self._call = FlatBlocks(-1, np.int32), FlatBlocks(-1, np.int32)
        self._session = FlatBlocks()
        super().__init__(member=self._member, call=self._call, session_timeout_ms=self._session)

    def apis(self) -> frozenset[int] | None:
        return CALLS

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        request, response = ((part and part.value) or {} for part in (parts.request, parts.response))
        member = text(request, "member_id") or text(response, "member_id")
        if member:
            self._member.block[index] = self.dictionary[member]
        self._session.block[index] = number(request, "session_timeout_ms", NO_VALUE)
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
            said = [{name: side[name] for name in side if name not in NOT_OF_CALLS} for side in sides]
            self._call.block[index] = self.dictionary[repr((parts.key, *said))]


class Throttle(ColumnBuilder):
    """Throttle times of responses."""

    need = "throttle"

    def __init__(self) -> None:
        self._throttle = FlatBlocks()
        super().__init__(throttle_time_ms=self._throttle)

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        value = parts.response.value if parts.response is not None else None
        told = (value or {}).get("throttle_time_ms")
        if isinstance(told, int):
            self._throttle.block[index] = told


class Replica(ColumnBuilder):
    """The requester: the ID of a broker, or a negative number for a consumer (KIP-903 moved the field)."""

    need = "replica"

    def __init__(self) -> None:
        self._replica = FlatBlocks()
        super().__init__(replica_id=self._replica)

    def apis(self) -> frozenset[int] | None:
        return ASKED_BY_REPLICAS

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        request = parts.request
        # a request without the field is a consumer's: since v15 only replicas send it
        if request is not None and request.value is not None and (request.value or not request.problem):
            self._replica.block[index] = replica_of(request.value)


class Acks(ColumnBuilder):
    """Acks of Produce requests: the number of replicas that a producer waits for."""

    need = "acks"

    def __init__(self) -> None:
        self._acks = FlatBlocks()
        super().__init__(acks=self._acks)

    def apis(self) -> frozenset[int] | None:
        return _PRODUCE

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        value = parts.request.value if parts.request is not None else None
        if value:
            self._acks.block[index] = number(value, "acks")


class ProblemsColumn(ColumnBuilder):
    """Whether messages could be decoded."""

    need = PROBLEMS

    def __init__(self) -> None:
        self._undecoded, self._guessed, self._told = (
            FlatBlocks(0, np.int8),
            FlatBlocks(0, np.int8),
            FlatBlocks(0, np.int8),
        )
        super().__init__(undecoded=self._undecoded, guessed=self._guessed, response_told=self._told)

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        for side, part in enumerate((parts.request, parts.response)):
            if part is not None:
                if part.problem:
                    self._undecoded.block[index] |= 1 << side
                if part.guess:
                    self._guessed.block[index] = 1
        if parts.response is not None and parts.response.value:
            self._told.block[index] = 1


class FetchLimits(ColumnBuilder):
    """The bytes that a Fetch waits for, and the bytes that it allows."""

    need = "fetch limits"

    def __init__(self) -> None:
        self._least, self._most = FlatBlocks(), FlatBlocks()
        super().__init__(min_bytes=self._least, max_bytes=self._most)

    def apis(self) -> frozenset[int] | None:
        return _FETCH

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        request = (parts.request and parts.request.value) or {}
        self._least.block[index] = number(request, "min_bytes")
        allowed = [number(request, "max_bytes")] + [
            number(row, "partition_max_bytes")
            for topic in rows(request, "topics")
            for row in rows(topic, "partitions")
        ]
        self._most.block[index] = min((size for size in allowed if size > 0), default=NO_VALUE)


class Records(ColumnBuilder):
    """Record counts from batch headers; nothing is decompressed."""

    need = "records"

    def __init__(self) -> None:
        self._records, self._batches, self._bytes = FlatBlocks(), FlatBlocks(), FlatBlocks()
        super().__init__(records=self._records, batches=self._batches, record_bytes=self._bytes)

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        for version, value, side in bodies(parts):
            tallies = parts.tallies(side)
            if tallies is not None:
                self._records.block[index] = tallies.records.sum(1)
                self._batches.block[index] = tallies.batches.sum(1)
                self._bytes.block[index] = tallies.batch_bytes.sum(1)
            elif record_paths(parts.key, version, side):
                found = tally(record_fields(parts.key, version, value, side))
                self._records.block[index] = found.records
                self._batches.block[index] = found.batches
                self._bytes.block[index] = found.size


class TextBuilder(ColumnBuilder):
    """Texts mentioned in the messages of an exchange, each once per row, as codes of a dictionary."""

    def __init__(self, need: str, find: Callable[[int, int, Any, Side], list[str]]) -> None:
        self.need = need
        self.coded = frozenset({need})
        self._find = find
        self._codes = ListBlocks(np.int32)
        super().__init__(**{need: self._codes})

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        found: dict[str, None] = {}
        for version, value, side in bodies(parts):
            found.update(dict.fromkeys(self._find(parts.key, version, value, side)))
        if found:
            self._codes.add(index, [self.dictionary[text] for text in found])


def groups() -> TextBuilder:
    """Return the builder of the groups mentioned in messages."""
    return TextBuilder("groups", groups_in)


def members() -> TextBuilder:
    """Return the builder of the member IDs mentioned in messages."""
    return TextBuilder("members", members_in)


def _unnamed(_: str) -> None:
    return None


class Topics(ColumnBuilder):
    """Topics and partitions, by name if it is known at read time, else by ID (KIP-516).

    :param names: names of topic IDs besides those found in the exchanges themselves
    """

    need = "topics"
    coded = frozenset({"topics", "partition_topics"})

    def __init__(self, names: Names) -> None:
        self._topics = ListBlocks(np.int32)
        self._partitions, self._partition_topics = ListBlocks(np.int32), ListBlocks(np.int32)
        super().__init__(
            topics=self._topics, partitions=self._partitions, partition_topics=self._partition_topics
        )
        self._names = names
        self._resolved: tuple[list[str], dict[str, Column]] | None = None

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
        self._topics.add(index, codes)
        self._partitions.add(index, partitions)
        self._partition_topics.add(index, of_partitions)

    def end(self) -> None:
        super().end()
        self._resolved = None

    def keep(self, chosen: Bools) -> None:
        super().keep(chosen)
        self._resolved = None

    def extend(self, content: Any) -> None:
        super().extend(content)
        self._resolved = None

    @property
    def texts(self) -> list[str]:
        """The names by code; if several codes have the same name, only the first is in use."""
        return [self._names(topic) or topic for topic in self.dictionary.texts]

    def column(self, name: str) -> Column:
        texts = self.texts
        if self._resolved is None or self._resolved[0] != texts:
            self._resolved = texts, self._resolve(texts)
        return self._resolved[1][name]

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

    def __init__(self, knowledge: SessionContext) -> None:
        self._knowledge = knowledge

    def apis(self) -> frozenset[int] | None:
        return frozenset(TOPIC_NAMES)

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        response = parts.response.value if parts.response is not None else None
        self._knowledge.observe(None, parts.key, None, response)

    def content(self) -> Any:
        return self.filled, self._knowledge.facts

    def extend(self, content: Any) -> None:
        count, facts = content
        self._knowledge.add(SessionFacts(*facts))
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
        self._told: dict[int, tuple[int, int]] = {}

    def add(self, index: Index, parts: Parts, latency: Index) -> None:
        part: Part | None = parts.request
        value = part.value if part is not None else None
        name, version = (
            (value or {}).get("client_software_name"),
            (value or {}).get("client_software_version"),
        )
        if name or version:
            codes = self.names[name] if name else -1, self.versions[version] if version else -1
            for connection in np.atleast_1d(self._connection_of(parts.row)).tolist():
                self._told[connection] = codes

    def content(self) -> Any:
        return self.filled, self.names.texts, self.versions.texts, self._told

    def extend(self, content: Any) -> None:
        count, names, versions, told = content
        of_names, of_versions = (
            [*(texts[text] for text in found), -1]
            for texts, found in ((self.names, names), (self.versions, versions))
        )
        for connection, (name, version) in told.items():
            self._told[connection] = of_names[name], of_versions[version]
        self.filled += count

    def of(self, connections: NDArray[Any]) -> tuple[Int32s, Int32s]:
        """Return the codes of name and version for connections; -1 if unknown."""
        met, inverse = np.unique(connections, return_inverse=True)
        codes = np.array([self._told.get(each, (-1, -1)) for each in met.tolist()], np.int32).reshape(-1, 2)
        return codes[inverse, 0], codes[inverse, 1]
