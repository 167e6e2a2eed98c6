"""Journeys of single records, assembled from the rows of their partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from captures.analysis.journey.attempts import Attempts
from captures.analysis.journey.fetches import Deliveries
from captures.analysis.journey.found_records import FoundRecord
from captures.analysis.journey.ledger import Ledger, PartitionLog
from captures.analysis.journey.log_facts import LogFacts
from captures.analysis.journey.logs import Log, Rows, by_time
from captures.analysis.journey.model import (
    Attempt,
    Commit,
    Delivery,
    GroupStops,
    Journey,
    Moment,
    Settlement,
    Transaction,
)
from captures.analysis.journey.record_query import RecordQuery
from captures.analysis.journey.transactions import Transactions
from captures.analysis.journey.waits import consumers, deliveries_of
from captures.meaning.topic_partitions import TopicPartition

_TRANSACTIONAL = 0x10
_NEVER = 1 << 63


class JourneyBuilder:
    """Assembles the journeys of records.

    :param partitions: by topic name, as far as known
    """

    def __init__(
        self,
        ledger: Ledger,
        partitions: dict[TopicPartition, PartitionLog],
        transactions: Transactions,
        deliveries: Deliveries,
    ) -> None:
        self._ledger = ledger
        self._partitions = partitions
        self._transactions = transactions
        self._deliveries = deliveries
        self._consumers = consumers(ledger)
        self._facts = LogFacts(ledger, partitions, transactions)

    def of(self, found: Iterable[FoundRecord], most: int | None = None) -> tuple[list[Journey], int]:
        """Return the journeys of found records, without repetitions, by partition and offset, and the number of further
        ones.

        :param most: most journeys to return
        """
        once: dict[tuple[TopicPartition, int, int, int], FoundRecord] = {}
        for each in found:
            offset = self._offset(each)
            if offset >= 0:
                key = each.tp, offset, -1, -1
            else:
                key = each.tp, -1, int(self._facts.attempts(each.tp).batch[each.send]), each.batch.index
            known = once.get(key)
            if known is None or known.send < 0 <= each.send:
                once[key] = each
        listed = sorted(once)[:most]
        return [self._story(key[0], key[1], once[key]) for key in listed], len(once) - len(listed)

    def at(self, sought: RecordQuery) -> list[Journey]:
        """Return the record at an offset if anything but its content is in the capture; none without an offset."""
        found = [
            self._story(tp, sought.offset, None)
            for tp in self._partitions
            if sought.offset is not None and tp == (sought.topic, sought.partition)
        ]
        return [story for story in found if story.attempts or story.groups or story.replicas]

    def _offset(self, found: FoundRecord) -> int:
        if found.offset >= 0 or found.send < 0:
            return found.offset
        attempts = self._facts.attempts(found.tp)
        # a later attempt at the same batch may have it
        bases = (int(attempts.base[row]) for row in (found.send, *attempts.of(found.send)))
        base = next((base for base in bases if base >= 0), None)
        return -1 if base is None else base + found.batch.index

    def _story(self, tp: TopicPartition, offset: int, found: FoundRecord | None) -> Journey:
        log, attempts = self._partitions[tp], self._facts.attempts(tp)
        row = attempts.holding(offset) if offset >= 0 else -1
        if row < 0 and found is not None:
            row = found.send
        tried = attempts.of(row) if row >= 0 else []
        return Journey(
            topic=tp.topic,
            partition=tp.partition,
            offset=offset if offset >= 0 else None,
            record=None if found is None else found.record,
            batch=None if found is None else found.batch,
            base=_or_none(int(attempts.base[row])) if row >= 0 else None,
            attempts=[self._attempt(attempts, each) for each in tried],
            copies=_copies(attempts, tried, offset),
            readable=_first_above(log.readable, offset),
            stable=_first_above(log.stable, offset),
            transaction=self._transaction(tp, offset, found, attempts, tried),
            replicas=self._replicas(log, offset),
            groups=sorted(self._groups(log, tp, offset), key=_first_time) if offset >= 0 else [],
        )

    # ------------------------------------------------------------ sent
    def _attempt(self, attempts: Attempts, row: int) -> Attempt:
        each, base = attempts.rows[row], int(attempts.base[row])
        sender, has_offset = self._ledger.senders[int(each["sender"])], bool(attempts.has_offset[row])
        return Attempt(
            sent=int(each["sent"]),
            answered=_or_none(int(each["answered"])),
            number=int(each["number"]),
            client=sender.client,
            address=sender.address,
            broker=sender.broker,
            acks=int(each["acks"]),
            error=int(each["error"]),
            base_offset=base if has_offset else None,
            found_at=None if has_offset else _or_none(base),
        )

    def _transaction(
        self,
        tp: TopicPartition,
        offset: int,
        found: FoundRecord | None,
        attempts: Attempts,
        tried: list[int],
    ) -> Transaction | None:
        if tried:
            row = attempts.rows[tried[0]]
            transactional = int(row["magic"]) == 2 and bool(int(row["attributes"]) & _TRANSACTIONAL)
            producer, epoch, since = int(row["producer_id"]), int(row["epoch"]), int(row["sent"])
            named = self._ledger.texts.text(int(row["transaction"]))
        elif found is not None:
            batch, since, named = found.batch, -1, ""
            transactional, producer, epoch = batch.transactional, batch.producer_id, batch.producer_epoch
        else:
            return None
        if not transactional:
            return None
        answered = max((int(attempts.rows[each]["answered"]) for each in tried), default=-1)
        ending = self._facts.ending(tp, producer, epoch, offset, since, answered)
        marker, ended, written = ending
        return Transaction(
            producer_id=producer,
            transactional_id=named or self._transactions.ids.get(producer),
            committed=ending.committed,
            ended=_moment(ended),
            end_answered=None if ended is None else _or_none(int(ended["answered"])),
            written=_moment(written),
            marker=_moment(marker),
            marker_offset=None if marker is None else int(marker["offset"]),
        )

    # ------------------------------------------------------------ delivered
    def _replicas(self, log: PartitionLog, offset: int) -> dict[int, Moment]:
        found: dict[int, Moment] = {}
        for row in _holding(log.deliveries.rows(), offset):
            node = self._ledger.readers[int(row["reader"])].replica
            if node >= 0 and node not in found:
                found[node] = Moment(int(row["time"]), int(row["number"]))
        return found

    def _groups(self, log: PartitionLog, tp: TopicPartition, offset: int) -> Iterator[GroupStops]:
        listed: set[str] = set()
        for (group, client), rows in deliveries_of(log, self._consumers):
            holding = _holding(rows, offset)
            if len(holding):
                listed.add(group)
                deliveries = [self._delivery(row, tp) for row in holding]
                yield self._stops(log, group, client, deliveries, offset)
        for group in sorted(log.commits.keys() - listed):
            stops = self._stops(log, group, "", [], offset)
            if stops.commit is not None:
                yield stops

    def _delivery(self, row: Rows, tp: TopicPartition) -> Delivery:
        reader = self._ledger.readers[int(row["reader"])]
        member = self._ledger.texts.text(int(row["member"]))
        return Delivery(
            time=int(row["time"]),
            asked=int(row["asked"]),
            number=int(row["number"]),
            client=reader.client,
            address=reader.address,
            broker=reader.broker,
            member=member or self._deliveries.member_of(reader, tp),
            times=int(row["times"]),
            committed_only=reader.committed,
        )

    def _stops(
        self, log: PartitionLog, group: str, client: str, deliveries: list[Delivery], offset: int
    ) -> GroupStops:
        since = deliveries[0].time if deliveries else -1
        before = after = None
        for commit in self._commits(log, group, offset):
            if commit.time < since:
                before = before or commit
            elif after is None or (not after.kind.done and commit.kind.done):
                after = commit
        shares = any(each.kind >= Settlement.ACCEPTED for each in (before, after) if each is not None)
        return GroupStops(
            group=group or None,
            client=client,
            shares=shares or any(each.times for each in deliveries),
            deliveries=deliveries,
            commit=after,
            committed_before=before,
        )

    def _commits(self, log: PartitionLog, group: str, offset: int) -> Iterator[Commit]:
        if not group or group not in log.commits:
            return
        for row in _holding(log.commits[group].rows(), offset):
            kind = Settlement(int(row["kind"]))
            yield Commit(
                kind=kind,
                offset=int(row["last"]) + 1 if kind < Settlement.ACCEPTED else None,
                sent=int(row["sent"]),
                time=int(row["time"]),
                number=int(row["number"]),
                member=self._ledger.texts.text(int(row["member"])),
            )


def _first_time(group: GroupStops) -> int:
    """Return when a group first received the record; groups that never did sort last."""
    return group.deliveries[0].time if group.deliveries else _NEVER


def _copies(attempts: Attempts, tried: list[int], offset: int) -> list[int]:
    """Return the other offsets at which a record was written."""
    bases = {int(attempts.base[row]) for row in tried} - {-1}
    known = next((base for base in bases if 0 <= offset - base < int(attempts.rows["count"][tried[0]])), None)
    if known is None:
        return []
    return sorted(base + offset - known for base in bases - {known})


def _holding(rows: Rows, offset: int) -> Rows:
    """Return the deliveries or commits of an offset, ordered by time."""
    return by_time(rows[(rows["first"] <= offset) & (rows["last"] >= offset)])


def _first_above(ends: Log, offset: int) -> Moment | None:
    rows = ends.rows()
    rows = rows[rows["offset"] > offset]
    if offset < 0 or not len(rows):
        return None
    return _moment(rows[np.argmin(rows["time"])])


def _moment(row: Rows | None) -> Moment | None:
    return None if row is None else Moment(int(row["time"]), int(row["number"]))


def _or_none(value: int) -> int | None:
    return None if value < 0 else value
