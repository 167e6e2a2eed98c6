"""Consumers that stand still while there is more to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_group, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import NO_FETCH, consumer
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit, times
from captures.analysis.findings.unchanged_positions import StuckPositions
from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import words
from captures.meaning.exchange import number, text
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.units import MS

_READ_COMMITTED = 1
_LONG = 5
"""Multiple of the threshold after which a large batch no longer explains commits that stand still."""


class _FetchedPartition(NamedTuple):
    """A partition as fetched on one connection."""

    connection: int
    client: str
    topic: str
    partition: int


class _CommittedPartition(NamedTuple):
    """A partition as committed by a group."""

    group: str
    topic: str
    partition: int


class _StuckPosition(msgspec.Struct):
    """A position that is fetched, or committed, again and again while there is more to read.

    :ivar offset: the position
    :ivar since: when there was first more to read
    :ivar ends: end of the partition then, and now
    :ivar client: the client that fetches or commits
    :ivar times: how often since then
    :ivar full: number of responses with records, though the position did not move
    :ivar waits: whether the client is at the last stable offset and reads committed records only
    """

    offset: int
    since: int
    ends: tuple[int, int]
    client: str
    latest: int = 0
    times: int = 0
    full: int = 0
    waits: bool = False
    seen: Occurrences = msgspec.field(default_factory=Occurrences)

    @property
    def stay(self) -> int:
        """How long it has stood there, in ns."""
        return self.latest - self.since


_Position = TypeVar("_Position")


def _stuck_position(
    known: dict[_Position, _StuckPosition], position: _Position, offset: int, end: int, exchange: Exchange
) -> _StuckPosition | None:
    """Record a position; return its state, None if there is nothing to read after it."""
    standing = known.get(position)
    if end <= offset:
        known.pop(position, None)
        return None
    if standing is None or standing.offset != offset:
        standing = known[position] = _StuckPosition(offset, exchange.time, (end, end), client_name(exchange))
    standing.ends = standing.ends[0], end
    standing.client, standing.latest = client_name(exchange), exchange.time
    standing.times += 1
    standing.seen.add(exchange)
    return standing


class StuckPosition(Rule):
    """Looks for positions that do not move while the partition grows."""

    name = "stuck_position"
    title = "Stuck positions"
    about = (
        "A consumer keeps fetching from the same offset although records follow it, or keeps committing the same "
        "offset while the partition grows. It may be waiting for a transaction to end (read_committed), get "
        "messages that are too large for it, fail on a record it cannot read, or be stuck in its work. A "
        "partition that is not fetched does not count: a consumer leaves it out while it has paused it, or works "
        "on earlier records. Commits alone show less, because a consumer that works on large batches commits the "
        "same offset for a while."
    )
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT})
    effect_of = EffectOf.MEMBERS
    thresholds = (
        Threshold(
            "fetched",
            30_000,
            Unit.MILLISECONDS,
            "time for which the same offset is fetched, from which a finding is reported",
        ),
        Threshold("committed", 60_000, Unit.MILLISECONDS, "the same for commits of one offset"),
        Threshold("times", 3, Unit.COUNT, "least number of fetches or commits in that time"),
    )
    unseen = NO_FETCH

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._fetched: dict[_FetchedPartition, _StuckPosition] = {}
        self._committed: dict[_CommittedPartition, _StuckPosition] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._clients: dict[tuple[str, str, int], _StuckPosition] = {}
        self._groups: dict[_CommittedPartition, _StuckPosition] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        if rows.ever("interventions", ~rows.untouched):
            return None
        standing = StuckPositions(rows, self.limit("times"))
        found = standing.fetched(self.limit("fetched") * MS) | standing.committed(
            self.limit("committed") * MS
        )
        return found | rows.earliest("fetches", rows.evidence_of(rows.of_consumers))

    def add(self, exchange: Exchange) -> None:
        if exchange.api_key == ApiKey.PRODUCE:
            for part in self.context.records.produced(exchange):
                if part.base_offset >= 0 and not part.error:
                    self._ends_at(part.topic, part.partition, part.base_offset + (part.records or 1))
        elif exchange.api_key == ApiKey.OFFSET_COMMIT:
            self._commit(exchange)
        elif consumer(exchange):
            self.saw_any = True
            self._fetch(exchange)

    def _ends_at(self, topic: str, partition: int, end: int) -> None:
        self._ends[topic, partition] = max(self._ends.get((topic, partition), 0), end)

    def _fetch(self, exchange: Exchange) -> None:
        seen = self.context.records.seen(exchange)
        if seen is None:
            return
        committed = number(exchange.request_body, "isolation_level", 0) == _READ_COMMITTED
        client = client_name(exchange)
        for dropped in seen.dropped:
            self._fetched.pop(_FetchedPartition(exchange.connection, client, *dropped), None)
        for part in self.context.records.fetched(exchange):
            end = part.high_watermark
            offset = seen.session.partitions.get(part.topic_partition, -1)
            position = _FetchedPartition(exchange.connection, client, part.topic, part.partition)
            if part.error or end < 0 or offset < 0:
                self._fetched.pop(position, None)
                continue
            self._ends_at(part.topic, part.partition, end)
            standing = _stuck_position(self._fetched, position, offset, end, exchange)
            if standing is not None:
                standing.full += bool(part.size)
                standing.waits = committed and part.last_stable_offset == offset
                self._keep(self._clients, position[1:], standing, self.limit("fetched"))

    def _commit(self, exchange: Exchange) -> None:
        group = text(exchange.request_body, "group_id")
        if not group or exchange.errors or exchange.response is None:
            return
        for (topic, partition), offset, _ in self.context.records.committed(exchange):
            if (topic, partition) not in self._ends:
                continue
            position = _CommittedPartition(group, topic, partition)
            standing = _stuck_position(
                self._committed, position, offset, self._ends[topic, partition], exchange
            )
            if standing is not None:
                self._keep(self._groups, position, standing, self.limit("committed"))

    def _keep(
        self,
        found: dict[_Position, _StuckPosition],
        position: _Position,
        standing: _StuckPosition,
        least: float,
    ) -> None:
        """Keep the longest stay of each place, for the findings."""
        first, last = standing.ends
        if last > first and standing.stay >= least * MS and standing.times >= self.limit("times"):
            known = found.get(position)
            if known is None or known.stay <= standing.stay:
                found[position] = standing

    def findings(self) -> Iterator[Finding]:
        for (client, topic, partition), standing in self._clients.items():
            why, advice = _explained(standing)
            yield self.finding(
                f"client {client}, {topic}-{partition}",
                f"Client {client} fetched {topic}-{partition} from offset {standing.offset:,} for "
                f"{span(standing.stay)} ({words.counted(standing.times, 'answer')}), while {_growth(standing)}{why}.",
                advice,
                standing.seen,
                filter_text=f"api == Fetch and {of_client(client)} and {of_topic(topic)} and partition == {partition}",
                certainty=Certainty.INFERRED,
            )
        for (group, topic, partition), standing in self._groups.items():
            shown = f"{of_group(group)} and {of_topic(topic)} and partition == {partition}"
            long = standing.stay >= _LONG * self.limit("committed") * MS
            yield self.finding(
                f"group {group}, {topic}-{partition}",
                f"Group {group} committed offset {standing.offset:,} of {topic}-{partition} {times(standing.times)} in "
                f"{span(standing.stay)}, while {_growth(standing)}.",
                f"Find out what consumer {standing.client} does with this partition: it may have paused it, work long "
                f"on earlier records, or keep failing on a record.",
                standing.seen,
                filter_text=f"api == OffsetCommit and {shown}",
                severity=None if long else Severity.LOW,
                certainty=Certainty.POSSIBLE,
                group=group,
            )


def _growth(standing: _StuckPosition) -> str:
    return f"the partition grew from {standing.ends[0]:,} to {standing.ends[1]:,}"


def _explained(standing: _StuckPosition) -> tuple[str, str]:
    """Return what holds a consumer up, in words, and the advice."""
    if standing.waits:
        return (
            ": it reads only committed records, and a transaction is open from there on",
            (
                "Find the producer with the open transaction (kafka-transactions.sh find-hanging), and see the finding "
                "hanging_transactions."
            ),
        )
    if standing.full:
        return (
            f": {words.counted(standing.full, 'answer')} held records, but it asked for the same again",
            (
                "The consumer cannot use the records: its log shows one that it cannot read (poison pill), or a "
                "damaged batch. Seek past it, or fix the reader."
            ),
        )
    return (
        ", without getting records",
        (
            "The broker returns nothing from this offset: check max.partition.fetch.bytes, quotas, and the state of "
            "the partition's leader."
        ),
    )
