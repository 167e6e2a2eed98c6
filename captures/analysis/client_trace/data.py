"""Records that a party fetches and produces: figures of a stretch, and jumps of a consumer's position.

Offsets come from batch headers. A consumer next requests the offset after its last batch; a different one means that it
was told to seek, restarts from its committed offset, or had its position reset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from captures.analysis.client_identity import client_name
from captures.analysis.client_trace.exchange_runs import ExchangeRun, Range
from captures.analysis.client_trace.model import Phase
from captures.analysis.fetch_sessions import ObservedFetch
from captures.analysis.record_traffic import FetchedPartition, ProducedPartition, RecordTraffic
from captures.exchanges import Exchange
from captures.meaning import Names, topic_partitions, words
from captures.meaning.exchange import number
from captures.meaning.topic_partitions import TopicPartition
from dissectors.codec import CODEC_LABELS, CODEC_MASK

_ACKS = {-1: "all", 0: "0", 1: "1"}
_READ_COMMITTED = 1

_Of = tuple[tuple[str, str], TopicPartition]
"""Client and address, and partition."""


class PositionJump(NamedTuple):
    """A consumer requests another offset than the one after its last batch.

    :ivar expected: the offset after the last batch
    :ivar offset: the requested offset
    """

    tp: TopicPartition
    expected: int
    offset: int


@dataclass(slots=True, eq=False)
class _Traffic(ExchangeRun):
    """Common parts of fetches and produces: records, bytes, partitions.

    :ivar names: returns names of topic IDs
    :ivar offsets: by partition, offset of the first record and offset after the last one
    :ivar uncounted: whether there are compressed message sets, which do not announce their records
    :ivar manners: acks, isolation level, compression
    """

    names: Names = field(kw_only=True)
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    offsets: dict[TopicPartition, Range] = field(default_factory=dict)
    records: int = 0
    size: int = 0
    uncounted: bool = False
    manners: dict[str, None] = field(default_factory=dict)

    def _count(self, part: ProducedPartition | FetchedPartition) -> None:
        self.partitions[part.topic_partition] = None
        self.size += part.size
        self.uncounted |= part.records is None
        self.records += part.records or 0
        for batch in part.batches:
            codec = batch.attributes & CODEC_MASK
            if codec:
                self.manners[CODEC_LABELS[codec]] = None

    def _add_range(self, tp: TopicPartition, first: int, behind: int) -> None:
        known = self.offsets.setdefault(tp, Range())
        known.add(first)
        known.add(behind)

    def _carried(self) -> str:
        more = "more than " if self.uncounted else ""
        return f"{more}{words.counted(self.records, 'record')} ({words.size(self.size)})"

    def _where(self) -> str:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in self.partitions:
            by_topic.setdefault(self._name(topic), []).append(partition)
        return topic_partitions.groups_text(by_topic)

    def _name(self, topic: str) -> str:
        """Return the name of a topic, which may have been revealed after its ID."""
        return words.line(self.names(topic) or topic)

    def _from_to(self) -> str:
        parts = [
            f"{self._name(topic)}-{partition} {offsets.low}→{offsets.high}"
            for (topic, partition), offsets in sorted(self.offsets.items())
            if offsets.high > offsets.low >= 0
        ]
        return words.phrases(parts)


class Produces(_Traffic):
    """Produce requests of a party."""

    def take(self, exchange: Exchange, parts: Iterable[ProducedPartition]) -> None:
        """Add one request with its partitions."""
        self.add(exchange)
        acks = number(exchange.request_body, "acks", 1)
        self.manners[f"acks={_ACKS.get(acks, acks)}"] = None
        for part in parts:
            self._count(part)
            if part.base_offset >= 0 and part.records:
                self._add_range(part.topic_partition, part.base_offset, part.base_offset + part.records)

    def sentence(self) -> str:
        requests = f"in {words.counted(self.count, 'request')}"
        how = words.listed([requests, self.every, *self.manners])
        answer = self.latency.text()
        tail = words.listed([f"answered after {answer}" if answer else "", self._from_to()])
        return f"produces to {self._where() or '?'}: {self._carried()} {how}" + (f"; {tail}" if tail else "")


@dataclass(slots=True, eq=False)
class Fetches(_Traffic):
    """Fetches or share fetches of a party.

    :ivar replica: whether a broker replicates
    :ivar empty: number of responses without records
    :ivar unchanged: whether it continues a session whose partitions were named before the capture began
    """

    replica: bool = field(kw_only=True)
    empty: int = 0
    unchanged: bool = False

    @property
    def phase(self) -> Phase | None:
        return Phase.REPLICATION if self.replica else self.manner.phase

    def take(self, exchange: Exchange, seen: ObservedFetch | None, parts: Sequence[FetchedPartition]) -> None:
        """Add one request, with the partitions that it requests and those of its response."""
        named: Iterable[TopicPartition] = ()
        if seen is not None:
            named = [tp for tp, _ in seen.asked] if self.count else seen.session.partitions
            self.unchanged = self.unchanged or not seen.session.whole
        self.add(exchange)
        if number(exchange.request_body, "isolation_level", 0) == _READ_COMMITTED:
            self.manners["read_committed"] = None
        for tp in named:
            self.partitions[tp] = None
        size = self.size
        for part in parts:
            self._count(part)
            batches = [batch for batch in part.batches if not batch.control]
            if batches:
                self._add_range(part.topic_partition, batches[0].base_offset, batches[-1].last_offset + 1)
        self.empty += self.size == size and bool(exchange.response_body)

    def sentence(self) -> str:
        answers = f"in {words.counted(self.count, 'answer')}"
        empty = f"{self.empty:,} of them empty" if self.empty and self.count > 1 else ""
        how = words.listed([answers, empty, self.every, *self.manners])
        tail = self._from_to()
        does = "replicates" if self.replica else "fetches"
        if not self.partitions:
            requests = words.counted(self.count, "request")
            if self.unchanged:
                return (
                    f"{does} partitions that were named before the capture began: nothing new in {requests}"
                )
            return f"{does} no partition, {requests}"  # such as to close a session
        return f"{does} {self._where()}: {self._carried()} {how}" + (f"; {tail}" if tail else "")


class Consumer:
    """Follows the positions of a party's consumers.

    :param names: returns names of topic IDs
    """

    def __init__(self, names: Names) -> None:
        self.traffic = RecordTraffic(names)
        self._next: dict[_Of, int] = {}
        self._settled: set[_Of] = set()

    def joined(self, client: str) -> None:
        """Forget which positions only this client can have moved: its group reassigns partitions."""
        self._settled = {key for key in self._settled if key[0][0] != client}

    def jumps(self, exchange: Exchange) -> Iterator[PositionJump]:
        """Yield the jumps of a Fetch, and learn from its response."""
        seen = self.traffic.seen(exchange)
        if seen is None:
            return
        # several processes may share a client ID
        process = client_name(exchange), exchange.client.rpartition(":")[0]
        for tp, offset in seen.asked:
            key = process, tp
            expected = self._next.get(key)
            # progress of other members before a rebalance returned the partition is not a jump
            if (
                expected is not None
                and 0 <= offset != expected
                and (offset < expected or key in self._settled)
            ):
                yield PositionJump(tp, expected, offset)
            if offset >= 0:
                self._next[key] = offset
                self._settled.add(key)
        for part in self.traffic.fetched(exchange):
            if part.batches and not part.error:
                key = process, part.topic_partition
                self._next[key] = max(self._next.get(key, -1), part.batches[-1].last_offset + 1)
