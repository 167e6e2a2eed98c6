"""Candidates for positions that stood still while there was more to read, found in columns.

The candidates are a superset: a position that left and came back counts as standing, and fetch sessions are not
followed. Positions that are no candidates did not stand still.
"""

from __future__ import annotations

import numpy as np

from captures.analysis.decision_columns import DecisionColumns, PartitionOffsets
from captures.analysis.exchange_groups import RowGroups
from captures.arrays import Bools, Int64s
from captures.exchanges.columns import NO_VALUE
from dissectors.api_keys import ApiKey


class StuckPositions:
    """Finds the exchanges that show candidates.

    :param rows: rows of a whole capture
    :param times: how often a position has to be seen at one offset
    """

    def __init__(self, rows: DecisionColumns, times: float) -> None:
        self._rows = rows
        self._times = times
        self._time = rows.columns.flat("time")
        self._connection = rows.columns.flat("connection")
        self._produced = rows.of_api({ApiKey.PRODUCE})
        self._asked = PartitionOffsets.of(rows, "asked")
        answered, errors = (
            PartitionOffsets.of(rows, "answered"),
            rows.columns.ragged("answered_errors").values,
        )
        self._answered = answered.chosen(((errors == 0) | (errors == NO_VALUE)) & (answered.offsets >= 0))

    def fetched(self, least: float) -> Bools:
        """Return a mask of the Fetches on connections that may have fetched an offset for at least `least` ns."""
        consumers = self._rows.of_consumers
        asked, answered = (each.chosen(consumers[each.rows]) for each in (self._asked, self._answered))
        rows, indexes, offsets = map(np.concatenate, zip(asked, answered, strict=True))
        answers, lines = np.arange(len(rows)) >= len(asked.rows), self._connection[rows]
        order = np.lexsort((answers, rows, indexes, lines))
        rows, indexes, offsets = (column[order] for column in (rows, indexes, offsets))
        answers, lines = answers[order], lines[order]
        latest = np.maximum.accumulate(np.where(answers, 0, np.arange(len(rows))))
        known = answers & ~answers[latest] & (indexes == indexes[latest]) & (lines == lines[latest])
        more = known & (offsets[latest] >= 0) & (offsets > offsets[latest])
        stood = self._unchanged(rows[more], least, lines[more], indexes[more], offsets[latest][more])
        return self._on(lines[more][stood])

    def committed(self, least: float) -> Bools:
        """Return a mask of the commits of groups that may have committed an offset for `least` ns, and of ends."""
        groups = self._rows.columns.ragged("groups")
        commits = self._rows.of_api({ApiKey.OFFSET_COMMIT}) & groups.filled
        asked = self._asked.chosen(commits[self._asked.rows] & (self._asked.offsets >= 0))
        ends = self._ends()
        rows, indexes, offsets = map(np.concatenate, zip(ends, asked, strict=True))
        order = np.lexsort((rows, indexes))
        tells = order < len(ends.rows)
        rows, indexes, offsets = (column[order] for column in (rows, indexes, offsets))
        # running maximum of each partition's end: all ranks of a partition exceed those of the previous one
        values, ranks = np.unique(offsets, return_inverse=True)
        base = np.cumsum(np.diff(indexes, prepend=indexes[:1]) != 0) * (len(values) + 1)
        greatest = np.maximum.accumulate(base + np.where(tells, ranks + 1, 0)) - base
        more = ~tells & (greatest > ranks + 1)
        group = groups.values[groups.offsets[rows[more]]]
        stood = self._unchanged(rows[more], least, group, indexes[more], offsets[more])
        if not stood.any():
            return self._rows.nothing
        found = commits & groups.any(np.isin(groups.values, group[stood]))
        stuck = indexes[more][stood]
        mentions = np.concatenate([each.rows[np.isin(each.places, stuck)] for each in (ends, self._asked)])
        found[mentions[self._produced[mentions]]] = True
        return found | self._on(self._connection[mentions[self._rows.of_consumers[mentions]]])

    def _on(self, connections: Int64s) -> Bools:
        """Return a mask of the consumers' Fetches on some connections."""
        found: Bools = self._rows.of_consumers & np.isin(self._connection, connections)
        return found

    def _unchanged(self, rows: Int64s, least: float, *keys: Int64s) -> Bools:
        """Return a mask of the elements with equal keys over at least `least` ns, and often enough."""
        groups, times = RowGroups(*keys), self._time[rows]
        spans = np.array(groups.greatest(times), np.int64) - np.array(groups.least(times), np.int64)
        enough: Bools = (spans >= least) & (np.bincount(groups.of, minlength=len(groups)) >= self._times)
        return enough[groups.of]

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
