"""Lag over time from captured traffic alone, without querying brokers.

The lag of a group is that of ``kafka-consumer-groups``: the end of the partition less the offset that the group has
committed. Ends come from the high watermarks of Fetch responses, from ListOffsets, and from produced records that all
replicas have; see :mod:`captures.analysis.positions`. As long as nothing was committed, and for groups that keep their
offsets elsewhere, the next offset to be fetched is used instead.

What is not known stays unknown: a lag without an end, or with an end older than the position. An end that was reported
some time ago is a lower bound, and so is the lag.

Over time the lag is kept in slices, which get wider as the covered time grows: however long a capture, a partition of a
group takes at most :data:`MOST_SLICES` of them.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from captures.analysis.client_identity import client_name
from captures.analysis.fetch_sessions import MOST_SESSIONS, FetchSession, FetchSessions, ObservedFetch
from captures.analysis.position_columns import COLUMN_APIS, ExchangePositions, PositionColumns
from captures.analysis.positions import (
    COMMITTED,
    LEARNED_FROM,
    Position,
    Positions,
    PositionUpdate,
    lag_behind,
)
from captures.arrays import Bools, Int64s
from captures.exchanges import Exchange, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.filters.groups import GroupInference
from captures.json_objects import OrNull, Time
from captures.meaning import Names
from captures.meaning.topic_partitions import TopicPartition
from dissectors.api_keys import GROUP_HEARTBEATS, MEMBER_APIS, ApiKey
from dissectors.session_context import TOPIC_NAMES

MOST_SLICES = 120
LEAST_SLICE = 100_000_000
"""Initial width of a slice in ns; it doubles."""

NEEDED = (LEARNED_FROM | MEMBER_APIS) - {ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS}
"""APIs whose exchanges affect lag; others need not be added."""
_NAMING = MEMBER_APIS - GROUP_HEARTBEATS - {ApiKey.SYNC_GROUP}
"""APIs that show only which group a client belongs to; the first exchange is enough."""
FOLLOWING = "following offsets"
"""The activity named in error reports."""
_END_APIS = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS})

Group = str


def needed(api_keys: Int64s) -> Bools:
    """Return a mask of the exchanges of a whole capture that affect lag, or name topics of others.

    If no exchange names a group, there is no lag, and all are False.
    """
    grouped = np.isin(api_keys, list(MEMBER_APIS)).any()
    return np.isin(api_keys, [*NEEDED, *TOPIC_NAMES] if grouped else [])


class LagOverTime(msgspec.Struct, frozen=True):
    """The lag slice by slice.

    :ivar begin: start of the first slice, ns since the epoch
    :ivar width: ns of a slice
    :ivar highest: highest lag in each slice; None while unknown
    """

    JSON = "begin slice_ns=width highest"

    begin: Time
    width: int
    highest: list[int | None]

    def at(self, time: int) -> int | None:
        """Return the highest lag in the slice that contains `time`; None if unknown."""
        index = (time - self.begin) // self.width
        return self.highest[index] if 0 <= index < len(self.highest) else None

    def merged(self, most: int) -> list[int | None]:
        """Return the highest lags in at most `most` slices."""
        together = max(-(-len(self.highest) // most), 1)
        return [
            max((lag for lag in self.highest[at : at + together] if lag is not None), default=None)
            for at in range(0, len(self.highest), together)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """The positions of a group in one partition.

    :ivar committed: offset up to which it has committed; None if unknown
    :ivar committed_at: when that was reported, ns since the epoch; None if unknown
    :ivar position: offset of its last fetch; None if it did not fetch
    :ivar client: the client that fetched last: client ID, or address without one; empty if none did
    :ivar end: offset after the last record; None if unknown
    :ivar end_at: when that was last reported, ns since the epoch
    :ivar lag: end less committed, or less position if nothing was committed; None if unknown
    :ivar behind: end less position; None if unknown
    :ivar highest: highest lag; None if it was never known
    :ivar highest_at: time of the highest lag, ns since the epoch
    :ivar because_of: ID of the incident during which the lag grew to its highest (:mod:`captures.analysis.incidents`);
        empty if there is none
    :ivar cluster: cluster of the group (:mod:`captures.analysis.clusters`), if the capture shows several
    """

    JSON = (
        "group topic partition committed committed_time=committed_at position client end end_time=end_at "
        "lag position_lag=behind highest_lag=highest highest_time=highest_at over_time because_of "
        "cluster_id=cluster"
    )

    group: Group
    topic: str
    partition: int
    committed: int | None
    committed_at: Time | None
    position: int | None
    client: OrNull[str]
    end: int | None
    end_at: Time | None
    lag: int | None
    behind: int | None
    highest: int | None
    highest_at: Time | None
    over_time: LagOverTime
    because_of: OrNull[str] = ""
    cluster: str | UnsetType = UNSET


class _Series(msgspec.Struct):
    """The lag of a group in a partition by slice: number of the slice -> highest and last lag."""

    slices: dict[int, tuple[int, int]] = {}
    highest: int | None = None
    highest_at: int | None = None

    def add(self, time: int, width: int, lag: int) -> None:
        at = time // width
        known = self.slices.get(at)
        self.slices[at] = (lag if known is None or lag > known[0] else known[0], lag)
        if self.highest is None or lag > self.highest:
            self.highest, self.highest_at = lag, time

    def widen(self, factor: int) -> None:
        wide: dict[int, tuple[int, int]] = {}
        for at in sorted(self.slices):
            highest, last = self.slices[at]
            known = wide.get(at // factor, (0, 0))
            wide[at // factor] = max(known[0], highest), last
        self.slices = wide

    def over_time(self, width: int, begin: int, end: int) -> LagOverTime:
        """Return all slices between two times; a lag lasts until the next one is known."""
        highest: list[int | None] = []
        last: int | None = None
        for at in range(begin // width, end // width + 1):
            known = self.slices.get(at)
            if known is not None:
                highest.append(known[0] if last is None else max(known[0], last))
                last = known[1]
            else:
                highest.append(last)
        return LagOverTime(begin // width * width, width, highest)


class _GroupLag(msgspec.Struct):
    """What is kept about one group in one partition.

    :ivar position: offset of its last fetch; None if it did not fetch
    :ivar client: the client that fetched last; empty if none did
    :ivar committed: offset up to which it has committed; None if unknown
    :ivar committed_at: when that was first reported, ns since the epoch
    """

    series: _Series = msgspec.field(default_factory=_Series)
    position: int | None = None
    client: str = ""
    committed: int | None = None
    committed_at: int | None = None

    def lag(self, end: int | None) -> int | None:
        offset = self.position if self.committed is None else self.committed
        return None if offset is None else lag_behind(end, offset)


class _PartitionLag(msgspec.Struct, eq=False):
    """What is kept about one partition.

    :ivar position: what responses have reported; None if nothing yet
    :ivar end: the end by which the groups are measured; None if unknown
    :ivar measured: whether the lag of any group is known by this end
    :ivar reported: the end reported last, and when, ns since the epoch; None if unknown
    """

    groups: defaultdict[Group, _GroupLag] = msgspec.field(default_factory=lambda: defaultdict(_GroupLag))
    position: Position | None = None
    end: int | None = None
    measured: bool = False
    reported: tuple[int, int] | None = None


class LagStats:
    """Follows the lag of all groups. Exchanges must be added in the order of their requests, each once.

    They are processed in the order of their responses, which determine what is known when: the facts of an exchange
    wait until no earlier response can follow. For a whole capture, columns supply most facts (:meth:`add_all`).

    :param names: returns names of topic IDs
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._positions = Positions(names)
        self._sessions = FetchSessions(names)
        self._inference = GroupInference(names)
        self._waiting: list[tuple[int, int, bool, Exchange | list[PositionUpdate]]] = []
        self._partitions: defaultdict[TopicPartition, _PartitionLag] = defaultdict(_PartitionLag)
        self._answered: dict[int, tuple[FetchSession, int]] = {}
        self._width = LEAST_SLICE
        self._begin: int | None = None
        self._end = self._latest = 0

    def add(self, exchange: Exchange) -> None:
        key = exchange.api_key
        self._latest = max(self._latest, exchange.time)
        if key in MEMBER_APIS:
            self._inference.observe(exchange)
        self._learn_until(exchange.time)
        if key == ApiKey.FETCH:
            seen = self._sessions.add(exchange)
            if seen is not None:
                of = exchange.connection, client_name(exchange), lambda: self._inference.group_of(exchange)[0]
                self._fetched(seen, exchange.time, *of, answered=exchange.response is not None)
        if key in LEARNED_FROM:
            heapq.heappush(self._waiting, (exchange.end, exchange.number, key in _END_APIS, exchange))

    def add_all(
        self, reader: ExchangeReader, columns: ExchangeColumns, indexes: Int64s, rows: Int64s
    ) -> Iterator[int]:
        """Add exchanges of a completely read capture; yield the numbers of the relevant ones.

        :param columns: :data:`TAKEN` columns of exchanges, in the order of their numbers
        :param indexes: index in the reader for each row of the columns
        :param rows: rows of the exchanges to add; all or none of a connection
        """
        found = PositionColumns(columns)
        first = found.naming(_NAMING)
        whole = found.of_api(NEEDED - COLUMN_APIS - (_NAMING - LEARNED_FROM)) | (
            first & ~found.of_api(COLUMN_APIS)
        )
        whole |= found.of_api(NEEDED) & found.intervened
        by_columns = found.of_api(COLUMN_APIS) & found.sure & ~whole
        names = by_columns & first
        rows = rows[(whole | by_columns)[rows]]
        reader.learn(len(reader))
        decoded = reader.several(indexes[rows[(whole | names)[rows]]].tolist())
        positions = found.positions(rows[by_columns[rows]])
        numbers = (indexes[rows] + reader.first).tolist()
        for number, taken, named in zip(
            numbers, by_columns[rows].tolist(), names[rows].tolist(), strict=True
        ):
            exchange = next(decoded) if named or not taken else None
            positions_of_row = next(positions) if taken else None
            try:
                if exchange is not None:
                    (self._inference.observe if taken else self.add)(exchange)
                if positions_of_row is not None:
                    self._add(positions_of_row, number)
            except Exception as error:
                reader.capture.faults.note(error, FOLLOWING, number)
            yield number

    def _add(self, row: ExchangePositions, number: int) -> None:
        """Add the facts that columns supply for one exchange."""
        self._latest = max(self._latest, row.time)
        self._learn_until(row.time)
        step = row.step
        if step is not None:
            seen = self._sessions.follow((row.connection, ""), step, row.end, row.replica)
            self._fetched(
                seen,
                row.time,
                row.connection,
                row.client,
                lambda: self._inference.infer(
                    row.connection, row.named, lambda: {at for at, _ in step.asked}
                ),
                answered=row.answered,
            )
        if row.updates:
            heapq.heappush(self._waiting, (row.end, number, row.key in _END_APIS, row.updates))

    def result(self, latest: int = 0) -> list[LagRow]:
        """Return a row for each partition of each group, ordered by name.

        :param latest: time of the latest request, ns since the epoch, which may be one that was not added
        """
        self._learn_until(None)
        self._latest = max(self._latest, latest)
        if self._begin is not None:
            self._cover(self._latest)
        self._confirm_ends()
        named: dict[tuple[Group, TopicPartition], LagRow] = {}
        positions = self._positions.result()
        # entries by ID, from before the name was known, are older than those by name
        for tp, kept in sorted(self._partitions.items(), key=lambda item: bool(self._names(item[0][0]))):
            shown = tp._replace(topic=self._names(tp.topic) or tp.topic)
            known = positions.get(shown, Position())
            for group, of_group in kept.groups.items():
                named.setdefault((group, shown), self._row(group, shown, known, kept, of_group))
        return [named[key] for key in sorted(named)]

    def _confirm_ends(self) -> None:
        """Confirm ends by the last response of a session: partitions that it does not name are unchanged (KIP-227)."""
        for session, time in self._answered.values():
            self._confirm(session, time)

    def _confirm(self, session: FetchSession, time: int) -> None:
        for tp in session.partitions:
            kept = self._partitions.get(tp)
            if kept is not None and kept.reported is not None and kept.reported[1] < time:
                kept.reported = kept.reported[0], time

    # ------------------------------------------------------------ processing
    def _learn_until(self, until: int | None) -> None:
        """Process what was answered by time `until`; everything if None."""
        while self._waiting and (until is None or self._waiting[0][0] <= until):
            time, _, knows_ends, source = heapq.heappop(self._waiting)
            updates = self._positions.updates(source) if isinstance(source, Exchange) else source
            touched: dict[_PartitionLag, list[_GroupLag]] = {}
            for tp, what, who, value in updates:
                kept = self._partitions[tp]
                if kept.position is None:
                    kept.position = self._positions.of(tp)
                kept.position.take(what, who, value)
                committed = touched.setdefault(kept, [])
                if what is COMMITTED:
                    group = kept.groups[who]
                    if group.committed != value:
                        group.committed, group.committed_at = value, time
                    committed.append(group)
            for kept, committed in touched.items():
                self._learn(kept, time, committed, knows_ends=knows_ends)

    def _learn(self, kept: _PartitionLag, time: int, committed: list[_GroupLag], *, knows_ends: bool) -> None:
        """Measure affected groups: all if the end has changed, else those that have committed."""
        known = kept.position
        assert known is not None, "it was updated"
        if known.end is not None and knows_ends:
            kept.reported = known.end, time
        end = known.known_end
        if end != kept.end:
            kept.end, kept.measured = end, False
            self._measure(kept, kept.groups.values(), time)
        else:
            self._measure(kept, committed, time)
        if kept.measured:
            self._cover(time)

    def _fetched(
        self,
        seen: ObservedFetch,
        time: int,
        connection: int,
        client: str,
        group_of: Callable[[], Group | None],
        *,
        answered: bool,
    ) -> None:
        if answered:
            self._answered.pop(connection, None)
            self._answered[connection] = seen.session, seen.end  # the latest is last
            if len(self._answered) > MOST_SESSIONS:
                self._confirm(*self._answered.pop(next(iter(self._answered))))
        group = None if seen.replica >= 0 else group_of()
        if group is None:
            return
        for tp, offset in seen.asked:
            if offset < 0:
                continue
            kept = self._partitions[tp]
            of_group = kept.groups[group]
            of_group.position, of_group.client = offset, client
            self._measure(kept, (of_group,), time)

    def _measure(self, kept: _PartitionLag, groups: Iterable[_GroupLag], time: int) -> None:
        for group in groups:
            lag = group.lag(kept.end)
            if lag is not None:
                self._cover(time)
                kept.measured = True
                group.series.add(time, self._width, lag)

    def _cover(self, time: int) -> None:
        """Extend the covered time; widen the slices if there would be too many."""
        if self._begin is not None and self._begin <= time <= self._end:
            return
        self._begin = time if self._begin is None else min(self._begin, time)
        self._end = max(self._end, time)
        factor = 1
        while self._end // (self._width * factor) - self._begin // (self._width * factor) >= MOST_SLICES:
            factor *= 2
        if factor > 1:
            self._width *= factor
            for kept in self._partitions.values():
                for group in kept.groups.values():
                    group.series.widen(factor)

    # ------------------------------------------------------------ results
    def _row(
        self, group: Group, shown: TopicPartition, known: Position, kept: _PartitionLag, of_group: _GroupLag
    ) -> LagRow:
        end, end_at = kept.reported or (None, None)
        begin = self._begin if self._begin is not None else 0
        series = of_group.series
        return LagRow(
            group=group,
            topic=shown.topic,
            partition=shown.partition,
            committed=of_group.committed,
            committed_at=of_group.committed_at,
            position=of_group.position,
            client=of_group.client,
            end=end,
            end_at=end_at,
            lag=of_group.lag(known.known_end),
            behind=None if of_group.position is None else known.lag(of_group.position),
            highest=series.highest,
            highest_at=series.highest_at,
            over_time=series.over_time(self._width, begin, max(self._end, begin)),
        )


def total(rows: Iterable[LagRow]) -> tuple[int, int]:
    """Return the total lag of the partitions, and the number of partitions with unknown lag."""
    lags = [row.lag for row in rows]
    return sum(lag for lag in lags if lag is not None), sum(lag is None for lag in lags)
