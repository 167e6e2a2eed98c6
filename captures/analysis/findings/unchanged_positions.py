"""Candidates for positions that stood still while there was more to read, found in columns.

The candidates are a superset: a position that left and came back counts as standing, and fetch sessions are not
followed. Positions that are no candidates did not stand still.

If a capture is read in parts, a position may stand across their edges. So each part also reports how long each position
stood at its edges; whether there was more to read is decided once the ends of partitions in all parts are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np

from captures.analysis.decision_columns import DecisionColumns, PartitionOffsets
from captures.analysis.exchange_groups import RowGroups
from captures.arrays import Bools, Int64s, distinct_values
from captures.exchanges.columns import NO_VALUE
from captures.meaning.topic_partitions import TopicPartition
from dissectors.api_keys import ApiKey

_UNKNOWN = np.iinfo(np.int64).min
"""Offset of a partition that an earlier part of the capture asked for last."""


class _UnchangedPosition(msgspec.Struct, frozen=True):
    """A position at one offset.

    :ivar first: ns since the epoch, as ``last``
    :ivar count: how often it was seen
    """

    offset: int
    first: int
    last: int
    count: int

    def joined(self, other: _UnchangedPosition | None) -> _UnchangedPosition:
        """Return this and another one, if there is one, as one stay."""
        if other is None:
            return self
        first, last = min(self.first, other.first), max(self.last, other.last)
        return _UnchangedPosition(self.offset, first, last, self.count + other.count)

    def is_long(self, least: float, times: float) -> bool:
        """Return whether it lasted for `least` ns, and was seen often enough."""
        return self.last - self.first >= least and self.count >= times


_Line = tuple[int, TopicPartition]
"""A connection, and a partition that is fetched on it."""
_Commit = tuple[str, TopicPartition]
"""A group, and a partition that it commits."""
_Key = TypeVar("_Key", _Line, _Commit)


class _FetchPositions(msgspec.Struct, frozen=True):
    """Positions of fetches in a part of a capture.

    :ivar stays: stays with more to read that are long, or at an edge of the part
    :ivar asked: the latest offsets asked for
    """

    stays: dict[_Line, list[_UnchangedPosition]]
    asked: dict[_Line, int]


class _CommitPositions(msgspec.Struct, frozen=True):
    """Positions of commits in a part of a capture.

    :ivar stays: stays that are long, or at an edge of the part
    :ivar ends: the greatest known end of each partition
    :ivar connections: connections of consumers by partition
    """

    stays: dict[_Commit, list[_UnchangedPosition]]
    ends: dict[TopicPartition, int] = {}
    connections: dict[TopicPartition, set[int]] = {}


class _Candidates(msgspec.Struct, frozen=True):
    """Candidates among commits: groups, partitions and connections of consumers."""

    groups: set[str]
    partitions: set[TopicPartition]
    connections: set[int]


class StuckPositions:
    """Finds the exchanges that show candidates.

    :param rows: rows of a capture, or of a part of it
    :param times: how often a position has to be seen at one offset
    """

    def __init__(self, rows: DecisionColumns, times: float) -> None:
        self._rows = rows
        self._times = times
        self._time = rows.columns.flat("time")
        self._produced = rows.of_api({ApiKey.PRODUCE})
        self._asked = PartitionOffsets.of(rows, "asked")
        answered, errors = (
            PartitionOffsets.of(rows, "answered"),
            rows.columns.ragged("answered_errors").values,
        )
        self._answered = answered.chosen(((errors == 0) | (errors == NO_VALUE)) & (answered.offsets >= 0))
        self._named = rows.columns.ragged("groups")
        # texts are complete once their columns are
        _, self._topics = rows.topics("answered_topics")
        self._groups = [text or "" for text in rows.columns.texts("groups")]

    def fetched(self, least: float) -> Bools:
        """Return a mask of the Fetches on connections that may have fetched an offset for at least `least` ns."""
        found = self._rows.merged(
            "positions of fetches",
            self._fetched(least),
            partial(_stuck_fetches, least=least, times=self._times),
        )
        return self._on(found)

    def _fetched(self, least: float) -> _FetchPositions:
        consumers = self._rows.of_consumers
        asked, answered = (each.chosen(consumers[each.rows]) for each in (self._asked, self._answered))
        rows, indexes, offsets = map(np.concatenate, zip(asked, answered, strict=True))
        answers, lines = np.arange(len(rows)) >= len(asked.rows), self._rows.connection[rows]
        order = np.lexsort((answers, rows, indexes, lines))
        rows, indexes, offsets = (column[order] for column in (rows, indexes, offsets))
        answers, lines = answers[order], lines[order]
        latest = np.maximum.accumulate(np.where(answers, 0, np.arange(len(rows))))
        known = answers & ~answers[latest] & (indexes == indexes[latest]) & (lines == lines[latest])
        more = known & (offsets[latest] >= 0) & (offsets > offsets[latest])
        if self._rows.part:
            more |= answers & ~known
        positions = np.where(known, offsets[latest], _UNKNOWN)
        stays = self._stays(rows[more], positions[more], lines[more], indexes[more], least, self._line)
        if self._rows.part is None:
            return _FetchPositions(stays, {})
        asks = zip(*(column[~answers].tolist() for column in (lines, indexes, offsets)), strict=True)
        return _FetchPositions(stays, {self._line(line, index): offset for line, index, offset in asks})

    def committed(self, least: float) -> Bools:
        """Return a mask of the commits of groups that may have committed an offset for `least` ns, and of ends."""
        groups, done = self._named, self._rows.answered & ~self._rows.erroneous
        commits = self._rows.of_api({ApiKey.OFFSET_COMMIT}) & groups.filled & done
        ends = self._ends()
        stuck = self._rows.merged(
            "positions of commits",
            self._committed(least, commits, ends),
            partial(_stuck_commits, least=least, times=self._times),
        )
        if not stuck.groups:
            return self._rows.nothing
        of_groups = [code for code, name in enumerate(self._groups) if name in stuck.groups]
        found = commits & groups.any(np.isin(groups.values, of_groups))
        for each in (ends, self._asked):
            codes = [
                code
                for code in distinct_values(each.places).tolist()
                if self._partition(code) in stuck.partitions
            ]
            mentions = each.rows[np.isin(each.places, codes)]
            found[mentions[self._produced[mentions]]] = True
        return found | self._on(stuck.connections)

    def _committed(self, least: float, commits: Bools, ends: PartitionOffsets) -> _CommitPositions:
        """Return the stays of commits, and what decides whether there was more to read."""
        groups = self._named
        asked = self._asked.chosen(commits[self._asked.rows] & (self._asked.offsets >= 0))
        rows, indexes, offsets = map(np.concatenate, zip(ends, asked, strict=True))
        order = np.lexsort((rows, indexes))
        tells = order < len(ends.rows)
        rows, indexes, offsets = (column[order] for column in (rows, indexes, offsets))
        # running maximum of each partition's end: all ranks of a partition exceed those of the previous one
        values, ranks = np.unique(offsets, return_inverse=True)
        base = np.cumsum(np.diff(indexes, prepend=indexes[:1]) != 0) * (len(values) + 1)
        greatest = np.maximum.accumulate(base + np.where(tells, ranks + 1, 0)) - base
        more = ~tells & ((greatest > ranks + 1) | (self._rows.part is not None))
        group = groups.values[groups.offsets[rows[more]]]
        order = np.lexsort((rows[more], indexes[more], group))
        chosen = np.flatnonzero(more)[order]
        stays = self._stays(rows[chosen], offsets[chosen], group[order], indexes[chosen], least, self._commit)
        found = _CommitPositions(stays)
        if not stays and self._rows.part is None:
            return found
        for code, end in zip(ends.places.tolist(), ends.offsets.tolist(), strict=True):
            tp = self._partition(code)
            found.ends[tp] = max(found.ends.get(tp, 0), end)
        for each in (ends, self._asked):
            fetches = each.chosen(self._rows.of_consumers[each.rows])
            lines = self._rows.connection[fetches.rows], fetches.places
            first = RowGroups(*lines).first
            for connection, code in zip(*(column[first].tolist() for column in lines), strict=True):
                found.connections.setdefault(self._partition(code), set()).add(connection)
        return found

    def _partition(self, code: int) -> TopicPartition:
        topic, partition = PartitionOffsets.split(code)
        return TopicPartition(self._topics[topic], partition)

    def _line(self, connection: int, code: int) -> _Line:
        return connection, self._partition(code)

    def _commit(self, group: int, code: int) -> _Commit:
        return self._groups[group], self._partition(code)

    def _stays(
        self,
        rows: Int64s,
        offsets: Int64s,
        owners: Int64s,
        indexes: Int64s,
        least: float,
        key: Callable[[int, int], _Key],
    ) -> dict[_Key, list[_UnchangedPosition]]:
        """Return the stays that are long, or at an edge of a part of a capture.

        :param rows: sorted by owner and index
        :param owners: codes of what has the positions, such as groups
        :param indexes: codes of partitions
        :param key: returns the key of an owner and a partition
        """
        groups, times = RowGroups(owners, indexes, offsets), self._time[rows]
        first, last = np.array(groups.least(times), np.int64), np.array(groups.greatest(times), np.int64)
        counts = np.bincount(groups.of, minlength=len(groups))
        kept = (last - first >= least) & (counts >= self._times)
        if self._rows.part is not None and len(rows):
            change = (np.diff(owners) != 0) | (np.diff(indexes) != 0)
            first_known = offsets[:-1] == _UNKNOWN  # it may continue the stay before it
            kept[groups.of[np.append(True, change | first_known) | np.append(change, True)]] = True
        found: dict[_Key, list[_UnchangedPosition]] = {}
        rows = groups.first[kept]
        stays = map(
            _UnchangedPosition,
            *(column.tolist() for column in (offsets[rows], first[kept], last[kept], counts[kept])),
        )
        for one, other, stay in zip(owners[rows].tolist(), indexes[rows].tolist(), stays, strict=True):
            found.setdefault(key(one, other), []).append(stay)
        return found

    def _on(self, connections: set[int]) -> Bools:
        """Return a mask of the consumers' Fetches on some connections."""
        return self._rows.of_consumers & np.isin(self._rows.connection, [*connections])

    def _ends(self) -> PartitionOffsets:
        """Return the ends of partitions: high watermarks, and offsets after produced records."""
        answered = self._answered.chosen((self._produced | self._rows.of_consumers)[self._answered.rows])
        sent = self._asked.chosen(self._produced[self._asked.rows])
        records, uncounted = (self._rows.columns.ragged(f"flow_{name}") for name in ("records", "uncounted"))
        produced = self._produced[records.rows]
        # both tables have the partitions of a Produce in message order
        counts = np.where(uncounted.values[produced] > 0, 1, np.maximum(records.values[produced], 1))
        _, codes = np.unique(np.concatenate((sent.places, answered.places)), return_inverse=True)
        keys = np.concatenate((sent.rows, answered.rows)) * (len(codes) + 1) + codes
        own, wanted = keys[: len(sent.rows)], keys[len(sent.rows) :]
        order = np.argsort(own, kind="stable")
        at = np.searchsorted(own[order], wanted, "right") - 1
        matches = (at >= 0) & self._produced[answered.rows]
        matches[matches] = own[order][at[matches]] == wanted[matches]
        stored = np.where(self._produced[answered.rows], 1, 0)
        stored[matches] = counts[order][at[matches]]
        ends = answered.offsets + np.minimum(stored, np.iinfo(np.int64).max - answered.offsets)
        return answered._replace(offsets=ends)


def _stuck_fetches(parts: Sequence[_FetchPositions], least: float, times: float) -> set[int]:
    """Return the connections with positions that stood still."""
    positions: dict[_Line, int] = {}
    joined: dict[tuple[_Line, int], _UnchangedPosition] = {}
    for part in parts:
        for line, stays in part.stays.items():
            for stay in stays:
                offset = positions.get(line, _UNKNOWN) if stay.offset == _UNKNOWN else stay.offset
                joined[line, offset] = stay.joined(joined.get((line, offset)))
        positions |= part.asked
    return {line[0] for (line, at), stay in joined.items() if at >= 0 and stay.is_long(least, times)}


def _stuck_commits(parts: Sequence[_CommitPositions], least: float, times: float) -> _Candidates:
    """Return the groups that committed one offset while there was more to read, with what shows it."""
    ends: dict[TopicPartition, int] = {}
    joined: dict[tuple[_Commit, int], _UnchangedPosition] = {}
    for part in parts:
        for tp, end in part.ends.items():
            ends[tp] = max(ends.get(tp, 0), end)
        for position, stays in part.stays.items():
            for stay in stays:
                if ends.get(position[1], 0) > stay.offset:
                    joined[position, stay.offset] = stay.joined(joined.get((position, stay.offset)))
    stuck = {position for (position, _), stay in joined.items() if stay.is_long(least, times)}
    partitions = {tp for _, tp in stuck}
    connections = {each for part in parts for tp in partitions for each in part.connections.get(tp, ())}
    return _Candidates({group for group, _ in stuck}, partitions, connections)
