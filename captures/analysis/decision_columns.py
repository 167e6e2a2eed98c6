"""Columns that select deciding exchanges: those that determine the final state of an accumulator.

An accumulator that sees only deciding exchanges ends as if it had seen all of them. They are selected by columns, so
that the other exchanges need not be decoded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from captures.analysis.exchange_groups import COUNTED, RowGroups, client_names
from captures.arrays import Bools, Int64s
from captures.exchanges import Flag
from captures.exchanges.columns import NO_VALUE, ExchangeColumns
from dissectors.api_keys import CONNECTING, ApiKey
from dissectors.session_context import TOPIC_NAMES

TAKEN = (
    *COUNTED,
    "wait",
    "throttle_time_ms",
    "acks",
    "replica_id",
    "batch_traits",
    "flow_codec",
    "max_bytes",
    "groups",
    "session_timeout_ms",
    "asked_offsets",
)
"""The message columns that :class:`DecisionColumns` uses."""
T = TypeVar("T")
M = TypeVar("M")
K = TypeVar("K", bound=Hashable)
Counts = Mapping[Hashable, Sequence[float]]
_PARTITIONS = 1 << 32
_SASL = CONNECTING - {ApiKey.API_VERSIONS}
_OF_BATCHES = ("bytes", "batches", "records", "uncounted", "codec")


class Fact(NamedTuple):
    """A fact about a part of a capture.

    :ivar merge: called with the facts of all parts, in their order
    :ivar of_part: called with the merged fact and that of a part; returns what the part needs of it. None for all of it
    """

    own: Any
    merge: Callable[[Sequence[Any]], Any]
    of_part: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Record data of exchanges, an element for each partition that has some.

    :ivar rows: row of its exchange
    :ivar client: number of the client
    :ivar topic: number of the topic
    :ivar clients: names by number
    :ivar topics: names by number
    :ivar size: bytes
    :ivar codec: codec of all batches, -1 if unknown
    """

    rows: Int64s
    client: Int64s
    topic: Int64s
    clients: Sequence[str]
    topics: Sequence[str]
    size: Int64s
    batches: Int64s
    records: Int64s
    uncounted: Int64s
    codec: Int64s


class PartitionOffsets(NamedTuple):
    """Offsets of partitions, one element each, in the order of the exchanges.

    :ivar rows: rows of the exchanges
    :ivar places: codes of topic and partition
    """

    rows: Int64s
    places: Int64s
    offsets: Int64s

    @classmethod
    def of(cls, rows: DecisionColumns, table: str) -> PartitionOffsets:
        """Return the offsets in a table of columns, such as ``asked``."""
        topics, _ = rows.topics(f"{table}_topics")
        partitions, offsets = (rows.columns.ragged(f"{table}_{name}") for name in ("partitions", "offsets"))
        places = topics * _PARTITIONS + partitions.values
        return cls(partitions.rows.astype(np.int64), places, offsets.values)

    def chosen(self, chosen: Bools | Int64s) -> PartitionOffsets:
        """Return the chosen elements."""
        return PartitionOffsets(*(column[chosen] for column in self))

    @staticmethod
    def split(index: int) -> tuple[int, int]:
        """Return topic number and partition of a code."""
        return divmod(index, _PARTITIONS)


def merged_facts(parts: Sequence[Mapping[str, Fact]]) -> list[dict[str, Any]]:
    """Return, for each part of a capture, what it needs of the facts of the whole capture.

    :param parts: :attr:`DecisionColumns.found_facts` of the parts, in their order
    """
    merges = {what: fact.merge for part in parts for what, fact in part.items()}
    merged = {
        what: merge([part[what].own for part in parts if what in part]) for what, merge in merges.items()
    }
    return [
        {
            what: merged[what] if fact.of_part is None else fact.of_part(merged[what], fact.own)
            for what, fact in part.items()
        }
        for part in parts
    ]


def of_own_keys(merged: Mapping[K, T], own: Collection[K]) -> dict[K, T]:
    """Return the items of `merged` with the keys of `own`."""
    return {key: merged[key] for key in own if key in merged}


def _added(parts: Sequence[Counts]) -> dict[Hashable, list[float]]:
    """Return the sums of the numbers with equal keys."""
    found: dict[Hashable, list[float]] = {}
    for part in parts:
        for key, numbers in part.items():
            before = found.setdefault(key, [0] * len(numbers))
            found[key] = [one + other for one, other in zip(before, numbers, strict=True)]
    return found


class DecisionColumns:
    """Selects deciding exchanges.

    If a capture is read in parts, each part selects its own. Facts about the whole capture are obtained by
    :meth:`merged`; therefore parts are processed twice, the second time with the merged :attr:`found_facts` of all.

    :param columns: exchanges in the order of their numbers
    :param numbers: numbers of the exchanges
    :param connections: numbers of their connections in the whole capture, if they differ from those in `columns`
    :param part: number of the part of the capture, from 0; None if these are all exchanges
    :param facts: what this part needs of the facts of all parts (:func:`merged_facts`), once they are known
    :ivar found_facts: what :meth:`merged` was asked -> the fact of these exchanges
    :ivar api_key: -1 for raw SASL tokens and responses without a request
    :ivar latency: ns, :data:`~captures.exchanges.columns.NO_VALUE` if there is no answer
    """

    def __init__(
        self,
        columns: ExchangeColumns,
        numbers: Int64s | None = None,
        *,
        connections: Int64s | None = None,
        part: int | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.columns = columns
        self.numbers = numbers
        self.found_facts: dict[str, Fact] = {}
        self.part = part
        self._facts = facts or {}
        self.api_key = columns.flat("api_key")
        self.latency = columns.flat("latency")
        self.connection = columns.flat("connection") if connections is None else connections
        self._flags = columns.flat("flags")

    @property
    def whole(self) -> bool:
        """Whether these are all exchanges, shown in the order of :attr:`numbers`."""
        return self.numbers is not None and self.part is None

    @property
    def nothing(self) -> Bools:
        """Mask of no exchange."""
        return np.zeros(len(self.columns), np.bool_)

    @cached_property
    def answered(self) -> Bools:
        """Mask of exchanges with a response."""
        return self.columns.flat("response_size") > 0

    @cached_property
    def failed(self) -> Bools:
        """Mask of exchanges with an error that does not belong to a normal conversation."""
        return self.columns.ragged("error_codes").filled

    @cached_property
    def erroneous(self) -> Bools:
        """Mask of exchanges with an error, whether it belongs to a normal conversation or not."""
        return self.failed | self.columns.ragged("expected_error_codes").filled

    @cached_property
    def group(self) -> Int64s:
        """Code of the first group that each exchange names, -1 if it names none."""
        groups = self.columns.ragged("groups")
        found = np.full(len(self.columns), -1, np.int64)
        found[groups.filled] = groups.values[groups.offsets[:-1][groups.filled]]
        return found

    @cached_property
    def untouched(self) -> Bools:
        """Mask of exchanges in which kproxy did not intervene."""
        found: Bools = self.columns.flat("intervened") == 0
        return found

    @cached_property
    def of_consumers(self) -> Bools:
        """Mask of the Fetch exchanges of consumers."""
        return self.of_api({ApiKey.FETCH}) & (self.columns.flat("replica_id") < 0)

    @cached_property
    def clients(self) -> tuple[Int64s, list[str]]:
        """The number of each exchange's client, and the names by number."""
        return client_names(self.columns)

    @cached_property
    def _kinds(self) -> RowGroups:
        """Exchanges grouped by API and version."""
        return RowGroups(self.api_key, self.columns.flat("version"))

    @cached_property
    def produced(self) -> Batches:
        """The produced record data; topics by name, or by ID if no message contains the name."""
        topic, topics = self.topics("flow_topics")
        columns = [self.columns.ragged(f"flow_{name}") for name in _OF_BATCHES]
        mask = self.of_api({ApiKey.PRODUCE})[columns[0].rows]
        rows = columns[0].rows[mask].astype(np.int64)
        clients, names = self.clients
        return Batches(
            rows, clients[rows], topic[mask], names, topics, *(column.values[mask] for column in columns)
        )

    def topics(self, name: str) -> tuple[Int64s, list[str]]:
        """Return the topic of each value of a column as a number, unique per name, and the names by number.

        In the column, a topic that was met by name and by ID has two codes.
        """
        codes, numbers = self.columns.ragged(name).values, dict[str, int]()
        of_codes = [numbers.setdefault(text or "", len(numbers)) for text in self.columns.texts(name)]
        return np.array([*of_codes, -1], np.int64)[codes], list(numbers)

    @cached_property
    def introducing(self) -> Bools:
        """Mask of exchanges that introduce a client: ApiVersions, and :attr:`authenticating`."""
        return self.authenticating | self.of_api({ApiKey.API_VERSIONS})

    @cached_property
    def authenticating(self) -> Bools:
        """Mask of SASL exchanges, and of the first answered ones after them on their connections, which show success.

        ApiVersions between the two shows nothing, and is included.
        """
        tokens = self.flagged(Flag.SASL_TOKEN)
        telling = tokens | self.of_api(CONNECTING)
        with_sasl = np.isin(self.connection, self.connection[tokens | self.of_api(_SASL)])
        # another part may have one before the first exchange of a connection
        rows = np.flatnonzero(
            (with_sasl | (self.part is not None)) & (telling | (self.answered & (self.api_key >= 0)))
        )
        rows = rows[np.argsort(self.connection[rows], kind="stable")]
        connection = self.connection[rows]
        after = np.full(len(rows), self.part is not None)
        after[1:] = np.where(connection[1:] == connection[:-1], telling[rows[:-1]], after[1:])
        found = self.nothing
        found[rows[(telling[rows] & with_sasl[rows]) | after]] = True
        return found

    @cached_property
    def ends(self) -> Int64s:
        """Time of the end of each exchange, ns since the epoch."""
        waited = np.where(self.latency == NO_VALUE, 0, np.maximum(self.latency, 0))
        return self.columns.flat("time") + waited

    @cached_property
    def closing(self) -> Bools:
        """Mask of exchanges that decide how a connection ended: the first and last of each, and the unanswered ones."""
        everything, working = ~self.nothing, self.answered & ~self.of_api(CONNECTING)
        named = np.array([bool(text) for text in self.columns.texts("client_id")] + [False], np.bool_)
        return (
            self.introducing
            | self.flagged(Flag.UNANSWERED)
            | self.first(everything)
            | self.last(everything)
            | self.last(named[self.columns.flat("client_id")])
            | self.last(everything, by=self.ends)
            | self.first(working & ~self.flagged(Flag.SASL_TOKEN))
            | self.last(self.answered & ~self.flagged(Flag.UNANSWERED))
        )

    def of_groups(self, names: Collection[str]) -> Bools:
        """Return a mask of the exchanges whose first group is one of some; ``""`` for exchanges that name none."""
        texts = self.columns.texts("groups") if names else ()
        codes = [code for code, name in enumerate(texts) if (name or "") in names]
        return np.isin(self.group, [*codes, *[-1] * ("" in names)])

    def of_api(self, keys: Collection[int]) -> Bools:
        """Return a mask of the exchanges of some APIs."""
        return np.isin(self.api_key, list(keys))

    def flagged(self, flag: Flag) -> Bools:
        """Return a mask of the exchanges with a flag."""
        found: Bools = self._flags & int(flag) != 0
        return found

    def with_errors(self, codes: Collection[int]) -> Bools:
        """Return a mask of the exchanges with one of some errors, whether expected or not."""
        found = self.nothing
        for name in ("error_codes", "expected_error_codes"):
            errors = self.columns.ragged(name)
            found[errors.rows[np.isin(errors.values, list(codes))]] = True
        return found

    def ever(self, what: str, among: Bools) -> bool:
        """Return whether the whole capture has an exchange of a kind.

        :param what: names the kind, in the same words for every part of the capture
        :param among: mask of the exchanges of that kind here
        """
        return bool(self.merged(what, bool(among.any()), any))

    def merged(
        self,
        what: str,
        own: T,
        merge: Callable[[Sequence[T]], M],
        of_part: Callable[[M, T], M] | None = None,
    ) -> M:
        """Return a fact about the whole capture, merged from those of its parts.

        :param what: names the fact, in the same words for every part of the capture
        :param own: the fact of these exchanges; it and the functions can be pickled
        :param merge: as in :class:`Fact`, like `of_part`
        """
        self.found_facts[what] = Fact(own, merge, of_part)
        return self._facts[what] if what in self._facts else merge([own])

    def totals(
        self, what: str, keys: Sequence[Hashable], *columns: Sequence[float] | NDArray[Any]
    ) -> NDArray[Any]:
        """Return sums over the whole capture: a row for each column, an element for each key.

        :param what: as for :meth:`merged`
        :param columns: numbers of these exchanges by key
        """
        own = dict(zip(keys, map(tuple, np.array(columns).T.tolist()), strict=True))
        found = self.merged(what, own, _added, of_own_keys)
        nothing = (0,) * len(columns)
        return np.array([found.get(key, nothing) for key in keys]).reshape(-1, len(columns)).T

    def earliest(self, what: str, among: Bools) -> Bools:
        """Return `among` in the earliest part of the capture that has such exchanges, nothing in all others.

        :param what: as for :meth:`merged`
        """
        own = math.inf if self.part is None or not among.any() else self.part
        return among if self.part in (None, self.merged(what, own, min)) else self.nothing

    def any_error(self, codes: Collection[int]) -> bool:
        """Return whether some response has one of some errors, whether expected or not."""
        return self.ever(f"errors {sorted(map(int, codes))}", self.with_errors(codes))

    def all_if_met(self, codes: Collection[int]) -> Bools | None:
        """Return the mask for a rule that needs one of some errors: None for all exchanges if one was met, no exchange
        if not.
        """
        return None if self.any_error(codes) else self.nothing

    def with_batches(self, traits: int) -> Bools:
        """Return a mask of the exchanges with batches that have one of some traits."""
        found: Bools = self.columns.flat("batch_traits") & traits != 0
        return found

    def of_version(self, wanted: Callable[[int, int], bool]) -> Bools:
        """Return a mask of the exchanges of some APIs and versions.

        :param wanted: called with each pair of API key and version
        """
        kinds = self._kinds
        keys, versions = (
            column[kinds.first].tolist() for column in (self.api_key, self.columns.flat("version"))
        )
        chosen = [key >= 0 and wanted(key, version) for key, version in zip(keys, versions, strict=True)]
        return np.array(chosen, np.bool_)[kinds.of]

    def of_producers(self, codes: Collection[int]) -> Bools:
        """Return a mask of the Produce exchanges that decide findings about some errors: all if a response has one.

        Otherwise those that show whether errors could be seen: the first ones, and those with acks=0.
        """
        mask = self.of_api({ApiKey.PRODUCE})
        if self.any_error(codes):
            return mask
        found: Bools = mask & (self.columns.flat("acks") == 0) | self.evidence_of(mask)
        return found

    def evidence_of(self, among: Bools) -> Bools:
        """Return the first exchange of each connection among `among`, as evidence that such exchanges exist.

        Exchanges in which kproxy intervened may be hidden from rules, so they are no evidence.
        """
        return self.first(among & self.untouched)

    def named_meanwhile(self, among: Bools) -> bool:
        """Return whether topic names may have been revealed after the first of the exchanges."""
        first = np.flatnonzero(among)[:1]
        return bool(len(first) and self.of_api(TOPIC_NAMES)[int(first[0]) :].any())

    def first(self, among: Bools) -> Bools:
        """Return a mask of the first exchange of each connection among `among`."""
        return self._chosen(np.flatnonzero(among), self.connection)

    def first_of_each(self, key: Int64s, among: Bools, most: int) -> Bools:
        """Return a mask of the first exchanges among `among` with each value of `key`, at most `most` of each."""
        rows = np.flatnonzero(among)
        rows = rows[np.argsort(key[rows], kind="stable")]
        found = self.nothing
        found[rows] = True
        if len(rows) > most:
            found[rows[most:][key[rows[most:]] == key[rows[:-most]]]] = False
        return found

    def last_of_groups(self, among: Bools) -> Bools:
        """Return a mask of the latest exchange of each group among `among`."""
        rows = np.flatnonzero(among)
        order = np.argsort(self.columns.flat("time")[rows], kind="stable")
        return self._chosen(rows[order][::-1], self.group)

    def last(self, among: Bools, *, by: Int64s | None = None) -> Bools:
        """Return a mask of the last exchange of each connection among `among`.

        :param by: a number per exchange, by which the last one is the greatest
        """
        rows = np.flatnonzero(among)
        if by is not None:
            rows = rows[np.argsort(by[rows], kind="stable")]
        return self._chosen(rows[::-1], self.connection)

    def _chosen(self, rows: Int64s, key: Int64s) -> Bools:
        """Return a mask of the first of `rows` with each value of `key`."""
        _, first = np.unique(key[rows], return_index=True)
        found = self.nothing
        found[rows[first]] = True
        return found
