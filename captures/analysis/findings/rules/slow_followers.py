"""Replicas that do not keep up with their leader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import on_topics, replica_of
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import topic_partitions, words
from captures.meaning.exchange import number
from captures.meaning.topic_partitions import TopicPartition, rows_by_partition
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.units import MS


class _LaggingReplica(NamedTuple):
    """A replica that had not reached the end of its partition at some time.

    :ivar end: the offset of that end
    :ivar since: ns since the epoch
    """

    end: int
    since: int


class _Partition(msgspec.Struct):
    """A partition at its leader.

    :ivar end: lower bound of its end
    :ivar positions: follower -> the offset of its latest fetch
    :ivar late: follower -> the end that it has not reached
    """

    leader: str
    end: int = 0
    positions: dict[int, int] = {}
    late: dict[int, _LaggingReplica] = {}

    def extend(self, end: int, time: int) -> None:
        """Raise the lower bound of the end."""
        if end <= self.end:
            return
        self.end = end
        for follower, position in self.positions.items():
            if position < end and follower not in self.late:
                self.late[follower] = _LaggingReplica(end, time)


class _Follower(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    longest: int = 0
    farthest: int = 0
    partitions: set[TopicPartition] = set()


class SlowFollowers(Rule):
    """Finds followers that fetch late."""

    name = "slow_followers"
    effect_of = EffectOf.BROKERS
    title = "Followers that lag behind"
    about = (
        "A follower fetches from its leader, starting at the offset it has reached. Its lag is the time for which"
        " it has not reached the end, as the leader computes it (Replica.updateFetchStateOrThrow). Every Produce "
        "with acks=all waits for it, until it leaves the in-sync replicas after replica.lag.time.max.ms (30 s). "
        "The end of a partition is taken from responses, so the true lag may be larger."
    )
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
    thresholds = (
        Threshold(
            "lag",
            10_000,
            Unit.MILLISECONDS,
            "time for which a follower has not reached the end of its leader's log",
        ),
    )
    unseen = "no replication between brokers was captured"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._followers: dict[int, _Follower] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        of_replicas = rows.columns.flat("replica_id") >= 0
        return None if rows.ever("requests of replicas", of_replicas) else rows.nothing

    def add(self, exchange: Exchange) -> None:
        if exchange.api_key == ApiKey.PRODUCE:
            if self.saw_any:
                self._produced(exchange)
            return
        follower = replica_of(exchange)
        if follower >= 0:
            self.saw_any = True
            self._asked(exchange, follower)
        if self.saw_any:
            self._fetched(exchange)

    def _at(self, tp: TopicPartition, exchange: Exchange) -> _Partition:
        """Return the state of a partition, a new one if another broker leads it now."""
        known = self._partitions.get(tp)
        if known is None or known.leader != exchange.broker:
            known = self._partitions[tp] = _Partition(exchange.broker)
        return known

    def _produced(self, exchange: Exchange) -> None:
        responses = rows_by_partition(
            exchange.response_body, "responses", self.context.names, "partition_responses"
        )
        for tp, row in responses:
            base = number(row, "base_offset")
            if base >= 0 and not number(row, "error_code", 0):
                partition = self._partitions.get(tp)
                if partition is not None and partition.leader == exchange.broker:
                    partition.extend(base + 1, exchange.end)
                elif partition is not None:
                    del self._partitions[tp]  # another broker leads it now

    def _fetched(self, exchange: Exchange) -> None:
        for part in self.context.records.fetched(exchange):
            if part.high_watermark > 0 and not part.error:
                partition = self._partitions.get(part.topic_partition)
                if partition is not None and partition.leader == exchange.broker:
                    partition.extend(part.high_watermark, exchange.end)

    def _asked(self, exchange: Exchange, follower: int) -> None:
        refused = {part.topic_partition for part in self.context.records.fetched(exchange) if part.error}
        for tp, row in rows_by_partition(exchange.request_body, "topics", self.context.names):
            position = number(row, "fetch_offset")
            if tp in refused:
                self._partitions.pop(tp, None)  # led by another broker, or being created
            elif position >= 0:
                self._reached(exchange, follower, tp, position)

    def _reached(self, exchange: Exchange, follower: int, tp: TopicPartition, position: int) -> None:
        partition = self._at(tp, exchange)
        late = partition.late.get(follower)
        if late is not None:
            self._late(exchange, follower, tp, late, partition.end - position)
            if position >= late.end:
                del partition.late[follower]
        partition.positions[follower] = position
        partition.extend(position, exchange.time)
        if position < partition.end and follower not in partition.late:
            partition.late[follower] = _LaggingReplica(partition.end, exchange.time)

    def _late(
        self, exchange: Exchange, follower: int, tp: TopicPartition, late: _LaggingReplica, behind: int
    ) -> None:
        lag = exchange.time - late.since
        if lag < self.limit("lag") * MS:
            return
        state = self._followers.setdefault(follower, _Follower())
        state.seen.add(exchange)
        state.partitions.add(tp)
        state.longest = max(state.longest, lag)
        state.farthest = max(state.farthest, behind)

    def findings(self) -> Iterator[Finding]:
        for follower, state in sorted(self._followers.items()):
            grouped: dict[str, list[int]] = {}
            for name, index in sorted(state.partitions):
                grouped.setdefault(name, []).append(index)
            far = f" and {words.counted(state.farthest, 'record')}" if state.farthest > 0 else ""
            yield self.finding(
                f"broker {follower}",
                f"Follower {follower} was up to {span(state.longest)}{far} behind its leaders on "
                f"{topic_partitions.groups_text(grouped)}.",
                "Check whether the follower was paused (garbage collection, SIGSTOP), whether its disks and network "
                "are fast enough, and num.replica.fetchers. After a restart of its broker this is normal until it has"
                " caught up.",
                state.seen,
                filter_text=f"api == Fetch and (request.replica_id == {follower}"
                f" or request.replica_state.replica_id == {follower}){on_topics(grouped)}",
                certainty=Certainty.INFERRED,
            )
