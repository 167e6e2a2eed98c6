"""Where columns show that a position may have stood still while there was more to read.

More is found than there is: a position that left and came back is taken to have stood all the while, and sessions of
Fetch are not followed. What is not found did not stand.
"""

from __future__ import annotations

import numpy as np

from captures.analysis.decision_columns import DecisionColumns, PartitionOffsets
from captures.analysis.exchange_groups import RowGroups
from captures.arrays import Bools, Int64s
from captures.exchanges.columns import NO_VALUE
from dissectors.api_keys import ApiKey


class StandingPositions:
    """Finds the exchanges that show where positions may have stood.

    :param rows: of a whole capture
    :param times: how often a position has to be seen at one offset
    """

    def __init__(self, rows: DecisionColumns, times: float) -> None:
        self._rows = rows
        self._times = times
        self._time = rows.columns.flat("time")
        self._connection = rows.columns.flat("connection")
        self._produced = rows.of_api({ApiKey.PRODUCE})
        self._asked = PartitionOffsets.of(rows, "asked")
        told, errors = PartitionOffsets.of(rows, "told"), rows.columns.ragged("told_errors").values
        self._told = told.chosen(((errors == 0) | (errors == NO_VALUE)) & (told.offsets >= 0))

    def fetched(self, least: float) -> Bools:
        """Return the Fetches of connections on which an offset may have been fetched for so long, in ns."""
        mine = self._rows.of_consumers
        asked, told = (each.chosen(mine[each.rows]) for each in (self._asked, self._told))
        rows, places, offsets = map(np.concatenate, zip(asked, told, strict=True))
        answers, lines = np.arange(len(rows)) >= len(asked.rows), self._connection[rows]
        order = np.lexsort((answers, rows, places, lines))
        rows, places, offsets = (column[order] for column in (rows, places, offsets))
        answers, lines = answers[order], lines[order]
        latest = np.maximum.accumulate(np.where(answers, 0, np.arange(len(rows))))
        known = answers & ~answers[latest] & (places == places[latest]) & (lines == lines[latest])
        more = known & (offsets[latest] >= 0) & (offsets > offsets[latest])
        stood = self._stood(rows[more], least, lines[more], places[more], offsets[latest][more])
        return self._on(lines[more][stood])

    def committed(self, least: float) -> Bools:
        """Return the commits of groups that may have committed an offset for so long, in ns, with what tells ends."""
        groups = self._rows.columns.ragged("groups")
        commits = self._rows.of_api({ApiKey.OFFSET_COMMIT}) & groups.filled
        asked = self._asked.chosen(commits[self._asked.rows] & (self._asked.offsets >= 0))
        ends = self._ends()
        rows, places, offsets = map(np.concatenate, zip(ends, asked, strict=True))
        order = np.lexsort((rows, places))
        tells = order < len(ends.rows)
        rows, places, offsets = (column[order] for column in (rows, places, offsets))
        # the greatest end so far of each partition: all ranks of a partition are above those of the one before
        values, ranks = np.unique(offsets, return_inverse=True)
        base = np.cumsum(np.diff(places, prepend=places[:1]) != 0) * (len(values) + 1)
        greatest = np.maximum.accumulate(base + np.where(tells, ranks + 1, 0)) - base
        more = ~tells & (greatest > ranks + 1)
        group = groups.values[groups.offsets[rows[more]]]
        stood = self._stood(rows[more], least, group, places[more], offsets[more])
        if not stood.any():
            return self._rows.nothing
        found = commits & groups.any(np.isin(groups.values, group[stood]))
        stuck = places[more][stood]
        mentions = np.concatenate([each.rows[np.isin(each.places, stuck)] for each in (ends, self._asked)])
        found[mentions[self._produced[mentions]]] = True
        return found | self._on(self._connection[mentions[self._rows.of_consumers[mentions]]])

    def _on(self, connections: Int64s) -> Bools:
        """Return the Fetches of consumers on some connections."""
        found: Bools = self._rows.of_consumers & np.isin(self._connection, connections)
        return found

    def _stood(self, rows: Int64s, least: float, *keys: Int64s) -> Bools:
        """Return of some elements those that have equal keys over a time that is long enough, and often enough."""
        groups, times = RowGroups(*keys), self._time[rows]
        spans = np.array(groups.greatest(times), np.int64) - np.array(groups.least(times), np.int64)
        enough: Bools = (spans >= least) & (np.bincount(groups.of, minlength=len(groups)) >= self._times)
        return enough[groups.of]

    def _ends(self) -> PartitionOffsets:
        """Return where partitions end: high watermarks, and behind what was produced."""
        told = self._told.chosen((self._produced | self._rows.of_consumers)[self._told.rows])
        sent = self._asked.chosen(self._produced[self._asked.rows])
        records, uncounted = (self._rows.columns.ragged(f"flow_{name}") for name in ("records", "uncounted"))
        mine = self._produced[records.rows]
        # both tables have the partitions of a Produce in the order of the message
        counts = np.where(uncounted.values[mine] > 0, 1, np.maximum(records.values[mine], 1))
        _, codes = np.unique(np.concatenate((sent.places, told.places)), return_inverse=True)
        keys = np.concatenate((sent.rows, told.rows)) * (len(codes) + 1) + codes
        own, wanted = keys[: len(sent.rows)], keys[len(sent.rows) :]
        order = np.argsort(own, kind="stable")
        at = np.searchsorted(own[order], wanted, "right") - 1
        matches = (at >= 0) & self._produced[told.rows]
        matches[matches] = own[order][at[matches]] == wanted[matches]
        stored = np.where(self._produced[told.rows], 1, 0)
        stored[matches] = counts[order][at[matches]]
        ends = told.offsets + np.minimum(stored, np.iinfo(np.int64).max - told.offsets)
        return told._replace(offsets=ends)
