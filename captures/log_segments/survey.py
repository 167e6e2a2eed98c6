"""Facts about a partition's log that only its whole shows: transactions, missing offsets, damage."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from captures.log_segments import indexes
from captures.log_segments.folders import PartitionLog, base_offset
from captures.log_segments.segment import Damage, read_segment
from dissectors.errors import DecodeError
from dissectors.records import Batch, ControlType, control_record


class OpenTransaction(NamedTuple):
    """Transactional records of a producer without a marker behind them.

    :ivar certain: whether the transaction is open for certain; else compaction may have removed its marker
    """

    producer_id: int
    first_offset: int
    certain: bool


class LogSurvey:
    """A log, read once by the headers of its batches.

    :param log: the log
    :raises OSError: if a file cannot be read

    :ivar batches: number of batches
    :ivar records: number of records, with control records
    :ivar empty: batches without records, which compaction keeps for the state of their producer
    :ivar first_offset: of the first batch; None if there is no batch
    :ivar first_time: latest timestamp of the first batch, ms; -1 without one
    :ivar next_offset: the offset after the last batch
    :ivar missing: offsets between the first and the last one that no record has
    :ivar gaps: runs of such offsets
    :ivar committed: transactions with a COMMIT marker in the log
    :ivar aborted: transactions with an ABORT marker in the log
    :ivar open_transactions: transactions that no marker ends
    :ivar damage: damaged bytes, in the order of the log
    :ivar wrong_indexes: what is wrong with files beside the segments, in sentences
    """

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.batches = self.records = self.empty = self.missing = self.gaps = 0
        self.committed = self.aborted = 0
        self.first_offset: int | None = None
        self.first_time = -1
        self.next_offset = 0
        self.damage: list[Damage] = []
        self.wrong_indexes: list[str] = []
        self._open: dict[int, int] = {}
        self._markers: defaultdict[int, list[tuple[int, bool]]] = defaultdict(list)
        self._lost: list[int] = []
        self._aborted_from: dict[tuple[int, int], int] = {}
        for segment in log.segments:
            self._read(segment)
        self.open_transactions = self._unended()

    def committed_at(self, producer_id: int, offset: int) -> bool | None:
        """Return whether the transaction of a record was committed; None without its marker, which damage may have hit.

        Compaction may remove the marker of a committed transaction before its records, and records of an aborted one
        before its marker. So records before the transaction that an ABORT ends, by the transaction index, were
        committed.
        """
        markers = self._markers.get(producer_id, [])
        at = bisect_right(markers, (offset, True))
        if at == len(markers):
            return None
        marker, committed = markers[at]
        begun = self._aborted_from.get((producer_id, marker))
        if begun is not None and begun <= offset:
            return False
        lost = bisect_right(self._lost, offset)
        if lost < len(self._lost) and self._lost[lost] <= marker:
            return None
        return committed or begun is not None

    def _read(self, segment: Path) -> None:
        contents = indexes.read_indexes(segment)
        table, intact = indexes.BatchTable(), True
        for part in read_segment(segment):
            if isinstance(part, Damage):
                self.damage.append(part)
                if part.lossy:
                    intact = False
                    self._lost.append(self.next_offset)
                continue
            batch = part.batch
            first, count = self._extent(batch)
            if not self.batches:
                self.first_time = batch.max_timestamp
            table.add(part.position, first, batch.last_offset, batch.max_timestamp)
            self._add(first, batch.last_offset, count)
            if batch.transactional:
                self._follow(batch)
        if segment.suffix != ".log":
            return
        if intact:
            self.wrong_indexes.extend(indexes.wrong_entries(contents, base_offset(segment), table))
        for producer, first, marker in indexes.aborted_transactions(segment):
            self._aborted_from[producer, marker] = first

    @staticmethod
    def _extent(batch: Batch) -> tuple[int, int]:
        """Return the first offset of a batch and its number of records; a compressed message set has to be decoded."""
        if batch.count is not None:
            return batch.base_offset, batch.count
        records = batch.read().records
        return (records[0].offset if records else batch.base_offset), len(records)

    def _add(self, first: int, last: int, count: int) -> None:
        """Count a batch, and the offsets that are missing before it and in it."""
        if self.first_offset is None:
            self.first_offset = self.next_offset = first
        before, inside = max(first - self.next_offset, 0), max(last - first + 1 - count, 0)
        self.missing += before + inside
        self.gaps += (before > 0) + (inside > 0)
        self.next_offset = max(self.next_offset, last + 1)
        self.batches += 1
        self.records += count
        self.empty += not count

    def _follow(self, batch: Batch) -> None:
        """Follow the transactions: a marker ends the open one of its producer."""
        if not batch.control:
            if batch.count:
                self._open.setdefault(batch.producer_id, batch.base_offset)
            return
        for record in batch.read().records:
            try:
                marker = control_record(record.key, record.value)
            except DecodeError:
                continue
            if marker.type_id in (ControlType.COMMIT, ControlType.ABORT):
                committed = marker.type_id == ControlType.COMMIT
                self._markers[batch.producer_id].append((record.offset, committed))
                self._open.pop(batch.producer_id, None)
                self.committed += committed
                self.aborted += not committed

    def _unended(self) -> list[OpenTransaction]:
        """Return the transactions that no marker ends.

        They are certain if nothing is missing in the log, or by the producers' snapshot at its end, which a broker
        writes when it stops.
        """
        stopped = self._producers_at_end()
        if stopped is not None:
            return [OpenTransaction(producer, since, True) for producer, since in stopped]
        complete = not self.missing and not any(each.lossy for each in self.damage)
        return [OpenTransaction(producer, since, complete) for producer, since in self._open.items()]

    def _producers_at_end(self) -> list[tuple[int, int]] | None:
        """Return producers with an open transaction and its first offset, None without a snapshot at the log's end."""
        path = self.log.segments[-1].with_name(f"{self.next_offset:020}.snapshot")
        if self.log.segments[-1].suffix != ".log" or not path.exists():
            return None
        found = indexes.open_in_snapshot(path)
        if found is None:
            self.wrong_indexes.append(f"{path}: not a snapshot of producers, or its checksum does not match")
        return found
