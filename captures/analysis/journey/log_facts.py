"""Facts about records from a whole capture, beyond their own messages: ends of transactions, and offsets of batches.

Indexes are built when first needed, so that each question about a record takes a binary search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from captures.analysis.journey.attempts import Attempts
from captures.analysis.journey.ledger import Ledger, PartitionLog
from captures.analysis.journey.logs import Rows
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
        self._ledger = ledger
        self._partitions = partitions
        self._transactions = transactions
        self._attempts: dict[TopicPartition, Attempts] = {}
        self._markers: dict[TopicPartition, dict[int, Rows]] = {}
        self._ended: dict[int, Rows] = {}
        self._written: dict[tuple[int, TopicPartition], Rows] = {}
        self._found: dict[TopicPartition, dict[int, int]] = {}

    def attempts(self, tp: TopicPartition) -> Attempts:
        """Return the Produce requests to a partition.

        :raises KeyError: if nothing is known about the partition
        """
        found = self._attempts.get(tp)
        if found is None:
            found = self._attempts[tp] = Attempts(self._partitions[tp], self._ledger)
        return found

    def base_offset(self, tp: TopicPartition, number: int) -> int | None:
        """Return the offset of the first record that an exchange sent to a partition, if no response contained it.

        It is known from a fetched batch with the same checksum; None if there is none.
        """
        found = self._found.get(tp)
        if found is None:
            found = self._found[tp] = {}
            if tp in self._partitions:
                attempts = self.attempts(tp)
                located = np.flatnonzero(~attempts.has_offset & (attempts.base >= 0))
                numbers, bases = attempts.rows["number"][located], attempts.base[located]
                found.update(zip(numbers.tolist(), bases.tolist(), strict=True))
        return found.get(number)

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
        ended = self._end(producer, epoch, since)
        # the marker of the previous transaction may still be on its way while the next one's records are sent
        begin = max(since, answered) if ended is None else int(ended["time"])
        return Ending(marker, ended, self._first_written(producer, tp, begin))

    def _marker(self, tp: TopicPartition, producer: int, offset: int) -> Rows | None:
        """Return the marker that ends the transaction of a record: the producer's first one after it."""
        of_place = self._markers.get(tp)
        if of_place is None:
            log = self._partitions.get(tp)
            of_place = self._markers[tp] = {} if log is None else _by_producer(log.markers.rows())
        rows = of_place.get(producer)
        return None if rows is None else _at(rows, int(np.searchsorted(rows["offset"], offset, "right")))

    def _end(self, producer: int, epoch: int, since: int) -> Rows | None:
        rows = self._ended.get(producer)
        if rows is None:
            rows = self._transactions.ends(producer)
            rows = rows[rows["error"] == 0]
            rows = self._ended[producer] = rows[np.argsort(rows["time"], kind="stable")]
        at = int(np.searchsorted(rows["time"], since))
        while at < len(rows) and rows["epoch"][at] < epoch:
            at += 1
        return _at(rows, at)

    def _first_written(self, producer: int, tp: TopicPartition, since: int) -> Rows | None:
        rows = self._written.get((producer, tp))
        if rows is None:
            rows = self._transactions.written(producer, *tp)
            rows = self._written[producer, tp] = rows[np.argsort(rows["time"], kind="stable")]
        return _at(rows, int(np.searchsorted(rows["time"], since)))


def _at(rows: Rows, at: int) -> Rows | None:
    return rows[at] if at < len(rows) else None


def _by_producer(rows: Rows) -> dict[int, Rows]:
    """Return markers by producer, ordered by offset."""
    rows = rows[np.lexsort((rows["offset"], rows["producer_id"]))]
    if not len(rows):
        return {}
    edges = np.flatnonzero(np.diff(rows["producer_id"])) + 1
    return {int(each["producer_id"][0]): each for each in np.split(rows, edges)}
