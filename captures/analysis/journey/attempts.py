"""Produce requests that sent the same batch, and the offsets at which it was written.

Batches of an idempotent producer are the same if producer ID, epoch and base sequence are (KIP-98). Other batches count
as the same if the client, the checksum and the size are (the checksum covers the records with their timestamps), and if
there was a reason to resend: the request before was refused or not answered, or was sent over another connection, as by
a client that stopped waiting.

If no response contains the offset (acks=0, a lost response), a fetched batch with the same checksum reveals it: brokers
write batches of magic 2 unchanged except for the offset, which the checksum does not cover
(``DefaultRecordBatch.java``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from captures.analysis.journey.ledger import Ledger, PartitionLog
from captures.analysis.journey.logs import Rows
from captures.arrays import Bools, Int64s
from dissectors.error_codes import ErrorCode

_NEVER = np.int64(np.iinfo(np.int64).max)
_NO_ANSWER_WANTED = 0


class Attempts:
    """The Produce requests to a partition.

    :ivar rows: rows of :data:`~captures.analysis.journey.ledger.SENDS`
    :ivar base: by row, the offset of the first record; -1 if unknown
    :ivar has_offset: by row, whether a response contained that offset
    :ivar batch: by row, the first row that sent the same batch
    """

    def __init__(self, log: PartitionLog, ledger: Ledger) -> None:
        self.rows: Rows = log.sends.rows()
        self.has_offset: Bools = self.rows["base"] >= 0
        self.batch = _same_batches(self.rows, self.has_offset, [sender.client for sender in ledger.senders])
        self.base = _located(self.rows, self.has_offset, self.batch, log.batches.rows())

    @property
    def answered(self) -> Bools:
        """By row, whether the broker confirmed that it has the batch."""
        error = self.rows["error"]
        found: Bools = (self.rows["answered"] >= 0) & (
            (error == 0) | (error == ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        )
        return found

    def of(self, row: int) -> list[int]:
        """Return all rows that sent the batch of `row`, ordered by time."""
        return [int(each) for each in np.flatnonzero(self.batch == self.batch[row])]

    def holding(self, offset: int) -> int:
        """Return a row that sent the record at `offset`; -1 if there is none."""
        found = np.flatnonzero(
            (self.base >= 0) & (self.base <= offset) & (offset < self.base + self.rows["count"])
        )
        return int(found[0]) if len(found) else -1

    def first_times(self) -> tuple[Int64s, Int64s]:
        """Return by row the time when its batch was first sent, and when it was first confirmed; -1 if never.

        If a batch was written twice, each copy has the confirmations with its offset.
        """
        size = len(self.rows)
        sent, done = np.full(size, _NEVER), np.full(size, _NEVER)
        np.minimum.at(sent, self.batch, self.rows["sent"])
        answered = self.answered
        copy = self._copies()
        np.minimum.at(done, copy[answered], self.rows["answered"][answered])
        done[done == _NEVER] = -1
        return sent[self.batch], done[copy]

    def _copies(self) -> Int64s:
        """Return by row the first row that sent the same batch to the same offset."""
        copy = self.batch.copy()
        copies = np.flatnonzero(self.batch != np.arange(len(self.batch)))
        first: dict[tuple[int, int], int] = {}
        for row in np.flatnonzero(np.isin(self.batch, self.batch[copies])).tolist():
            base = int(self.base[row])
            if base >= 0:
                copy[row] = first.setdefault((int(self.batch[row]), base), row)
        return copy


def _same_batches(rows: Rows, has_offset: Bools, clients: list[str]) -> Int64s:
    same = np.arange(len(rows))
    numbered = np.flatnonzero((rows["producer_id"] >= 0) & (rows["sequence"] >= 0))
    if len(numbered):
        keys = [rows[name][numbered].astype(np.int64) for name in ("sequence", "epoch", "producer_id")]
        order = np.lexsort(keys)
        changes = np.zeros(len(order), np.bool_)
        changes[0] = True
        for key in keys:
            changes[1:] |= np.diff(key[order]) != 0
        # the sort is stable, so the first of equal rows is the lowest one
        same[numbered[order]] = numbered[order][np.flatnonzero(changes)[np.cumsum(changes) - 1]]
    for first, resent in _resent(rows, has_offset, clients):
        same[resent] = same[first]
    return same


def _resent(rows: Rows, has_offset: Bools, clients: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the rows without a sequence that repeat an earlier one: that one, and the row."""
    plain = np.flatnonzero(
        ((rows["producer_id"] < 0) | (rows["sequence"] < 0)) & (rows["acks"] != _NO_ANSWER_WANTED)
    )
    _, which, counts = np.unique(rows["crc"][plain], return_inverse=True, return_counts=True)
    latest: dict[tuple[int, int, str], int] = {}
    for row in plain[counts[which] > 1].tolist():
        sender = int(rows["sender"][row])
        key = int(rows["crc"][row]), int(rows["size"][row]), clients[sender]
        before = latest.get(key)
        if before is not None:
            elsewhere = sender != int(rows["sender"][before]) and rows["magic"][row] > 0
            if elsewhere or not has_offset[before]:
                yield before, row
        latest[key] = row


def _located(rows: Rows, has_offset: Bools, same: Int64s, batches: Rows) -> Int64s:
    """Return by row the offset of the first record: from a response, or from a batch of the same checksum."""
    base: Int64s = rows["base"].astype(np.int64)
    open_rows = np.flatnonzero(~has_offset)
    if not len(open_rows) or not len(batches):
        return base
    offsets: dict[tuple[int, int], list[int]] = defaultdict(list)
    for each in batches[np.isin(batches["crc"], rows["crc"][open_rows])]:
        known = offsets[int(each["crc"]), int(each["size"])]
        if int(each["base"]) not in known:
            known.append(int(each["base"]))
    taken: dict[int, set[int]] = defaultdict(set)
    if offsets:
        for row in np.flatnonzero(has_offset & np.isin(same, same[open_rows])).tolist():
            taken[int(same[row])].add(int(base[row]))
    for row in open_rows.tolist():
        found = offsets.get((int(rows["crc"][row]), int(rows["size"][row])))
        if not found:
            continue
        of_batch = taken[int(same[row])]
        free = [offset for offset in found if offset not in of_batch]
        if free:
            base[row] = min(free)
            found.remove(base[row])
            of_batch.add(int(base[row]))
        elif rows["sequence"][row] >= 0:
            base[row] = min(of_batch & set(found))  # the broker kept only one of them
    return base
