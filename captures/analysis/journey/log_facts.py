"""Facts about records from a whole capture, beyond their own messages: ends of transactions, and offsets of batches.

Indexes are built when first needed, so that each question about a record takes a binary search.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from captures.analysis.journey.attempts import Attempts
from captures.analysis.journey.ledger import Ledger, PartitionLog
from captures.analysis.journey.logs import Rows, by_time
from captures.analysis.journey.transactions import Transactions
from captures.meaning.topic_partitions import TopicPartition


class Ending(NamedTuple):
    """The end of a transaction; parts that were not captured are None.

    :ivar marker: row of :data:`~captures.analysis.journey.ledger.MARKERS`: the fetched marker
    :ivar ended: row of the successful EndTxn
    :ivar written: row of the first WriteTxnMarkers to the partition
    """

    marker: Rows | None
    ended: Rows | None
    written: Rows | None

    @property
    def committed(self) -> bool | None:
        """Whether it was committed; None if unknown."""
        seen = next((each for each in self if each is not None), None)
        return None if seen is None else bool(seen["committed"])


class LogFacts:
    """Answers questions about the records of partitions.

    :param partitions: by topic name, as far as known
    """

    def __init__(
        self, ledger: Ledger, partitions: dict[TopicPartition, PartitionLog], transactions: Transactions
    ) -> None:
        self._partitions = partitions
        self._transactions = transactions
        self._attempts = cache(lambda tp: Attempts(partitions[tp], ledger))
        self._located = cache(self._locate)
        self._markers = cache(self._find_markers)
        self._ends = cache(self._find_ends)
        self._written = cache(self._find_written)

    def attempts(self, tp: TopicPartition) -> Attempts:
        """Return the Produce requests to a partition.

        :raises KeyError: if nothing is known about the partition
        """
        return self._attempts(tp)

    def base_offset(self, tp: TopicPartition, number: int) -> int | None:
        """Return the offset of the first record that an exchange sent to a partition, if no response contained it.

        It is known from a fetched batch with the same checksum; None if there is none.
        """
        return self._located(tp).get(number)

    def ending(
        self, tp: TopicPartition, producer: int, epoch: int, offset: int, since: int, answered: int
    ) -> Ending:
        """Return the end of a record's transaction.

        :param epoch: epoch of the producer when it sent; an older one cannot end it
        :param offset: offset of the record; -1 if unknown
        :param since: when it was sent, ns since the epoch; -1 if unknown
        :param answered: when it was acknowledged, ns since the epoch; -1 if it was not
        """
        marker = self._marker(tp, producer, offset) if offset >= 0 else None
        if since < 0:
            return Ending(marker, None, None)
        ends = self._ends(producer)
        at = int(np.searchsorted(ends["time"], since))
        while at < len(ends) and ends["epoch"][at] < epoch:
            at += 1
        ended = _at(ends, at)
        # the marker of the previous transaction may still be on its way while the next one's records are sent
        begin = max(since, answered) if ended is None else int(ended["time"])
        written = self._written(producer, tp)
        return Ending(marker, ended, _at(written, int(np.searchsorted(written["time"], begin))))

    def _marker(self, tp: TopicPartition, producer: int, offset: int) -> Rows | None:
        """Return the marker that ends the transaction of a record: the producer's first one after it."""
        rows = self._markers(tp).get(producer)
        return None if rows is None else _at(rows, int(np.searchsorted(rows["offset"], offset, "right")))

    # ------------------------------------------------------------ indexes, made once
    def _locate(self, tp: TopicPartition) -> dict[int, int]:
        """Return numbers of exchanges without an offset in a response -> that offset, if a fetched batch shows it."""
        if tp not in self._partitions:
            return {}
        attempts = self.attempts(tp)
        rows = np.flatnonzero(~attempts.has_offset & (attempts.base >= 0))
        return dict(zip(attempts.rows["number"][rows].tolist(), attempts.base[rows].tolist(), strict=True))

    def _find_markers(self, tp: TopicPartition) -> dict[int, Rows]:
        return _by_producer(self._partitions[tp].markers.rows()) if tp in self._partitions else {}

    def _find_ends(self, producer: int) -> Rows:
        rows = self._transactions.ends(producer)
        return by_time(rows[rows["error"] == 0])

    def _find_written(self, producer: int, tp: TopicPartition) -> Rows:
        return by_time(self._transactions.written(producer, *tp))


def _at(rows: Rows, at: int) -> Rows | None:
    return rows[at] if at < len(rows) else None


def _by_producer(rows: Rows) -> dict[int, Rows]:
    """Return markers by producer, ordered by offset."""
    rows = rows[np.lexsort((rows["offset"], rows["producer_id"]))]
    if not len(rows):
        return {}
    edges = np.flatnonzero(np.diff(rows["producer_id"])) + 1
    return {int(each["producer_id"][0]): each for each in np.split(rows, edges)}
