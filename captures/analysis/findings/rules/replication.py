"""Replicas that are out of sync or slow, and writes that wait for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import (
    error_names,
    on_topics,
    one_of,
    replica_of,
    some_of,
    topic_of,
    unexpected,
    whole_ids,
    with_errors,
)
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, Threshold, Unit, times
from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import topic_partitions, words
from captures.meaning.exchange import Body, items, number, rows
from captures.meaning.replication import new_isr
from captures.meaning.topic_partitions import TopicPartition, inside, rows_by_partition, topic
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.units import MS

# ---------------------------------------------------------------- not_enough_replicas

_BEFORE = 19
_REPLICA_CODES = frozenset({_BEFORE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


class _TopicRefusals(msgspec.Struct):
    """Refused requests for one topic.

    :ivar accepted: when records were next accepted, ns since the epoch; 0 if they were not
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    codes: set[int] = set()
    clients: dict[str, None] = {}
    accepted: int = 0


class NotEnoughReplicas(Rule):
    """Finds topics that cannot be written to with ``acks=all``."""

    name = "not_enough_replicas"
    effect_of = EffectOf.BROKERS
    title = "Too few replicas in sync to write"
    about = (
        "With acks=all a leader accepts records only while at least min.insync.replicas replicas are in sync "
        "(Partition.appendRecordsToLeader). After NOT_ENOUGH_REPLICAS nothing was written. After "
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND the batch was written, but too few replicas had it in time: the "
        "producer sends it again, and without idempotence its records are duplicated."
    )
    severity = Severity.HIGH
    only_after = _REPLICA_CODES
    apis = frozenset({ApiKey.PRODUCE})

    _refused: dict[str, _TopicRefusals] = {}

    def add(self, exchange: Exchange) -> None:
        found = unexpected(exchange, _REPLICA_CODES)
        for name in {topic_of(error, self.context.names) for error in found}:
            refused = self._refused.setdefault(name, _TopicRefusals())
            refused.seen.add(exchange)
            refused.codes.update(error.code for error in found)
            refused.clients[client_name(exchange)] = None
        if self._refused and not found:
            self._accept(exchange)

    def _accept(self, exchange: Exchange) -> None:
        for holder in rows(exchange.response_body, "responses"):
            refused = self._refused.get(topic(holder, whole_ids(self.context.names)))
            if (
                refused is not None
                and exchange.time > refused.seen.last
                and any(number(row, "error_code") == 0 for row in inside(holder) if isinstance(row, dict))
            ):
                refused.accepted = exchange.time

    def findings(self) -> Iterator[Finding]:
        for name, refused in self._refused.items():
            seen = refused.seen
            went_on = refused.accepted > seen.last
            ending = (
                f"; after {span(refused.accepted - seen.first)} records were accepted again"
                if went_on
                else "; none was accepted after that"
            )
            doubled = (
                " Batches refused after they were written are sent again: without idempotence their records are "
                "duplicated."
                if ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND in refused.codes
                else ""
            )
            yield self.finding(
                f"topic {name}",
                f"Produce to {name} was refused {times(seen.count)} because too few replicas are in sync"
                f" ({error_names(refused.codes)}), from {some_of(refused.clients)}{ending}.{doubled}",
                "Bring back the brokers whose replicas are out of sync (finding isr_changes, kafka-topics --describe "
                "--under-min-isr-partitions). The topic's min.insync.replicas must not be greater than its replication "
                "factor; to survive the loss of a broker, it has to be less.",
                seen,
                filter_text=f"{with_errors(refused.codes)}{on_topics([name])}",
                severity=Severity.MEDIUM if went_on else self.severity,
            )


# ---------------------------------------------------------------- isr_changes

_LOOKING_ON = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS})


class _Replica(msgspec.Struct):
    """Observations of one broker's replicas.

    :ivar out: partitions from whose ISR it is missing -> start, and latest confirmation, ns since the epoch; and the
        connection that reports every change, -1 if there is none
    :ivar left: partitions from whose ISR it was missing
    :ivar back: those of them to whose ISR it returned
    :ivar longest: longest absence in ns
    :ivar alone: those of the partitions in ``out`` with a single in-sync replica
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    out: dict[TopicPartition, tuple[int, int, int]] = {}
    left: set[TopicPartition] = set()
    back: set[TopicPartition] = set()
    longest: int = 0
    alone: set[TopicPartition] = set()
    apis: dict[str, None] = {}


class IsrChanges(Rule):
    """Finds brokers whose replicas are out of sync."""

    name = "isr_changes"
    effect_of = EffectOf.BROKERS
    title = "Replicas out of sync"
    about = (
        "A replica leaves the in-sync replicas (ISR) if it has not caught up with its leader for "
        "replica.lag.time.max.ms (30 s), or if its broker is fenced or stopped. While it is out, the data has "
        "fewer copies, and with fewer than min.insync.replicas nothing can be written with acks=all. Leaders "
        "inform the controller with AlterPartition (KIP-497), controllers of ZooKeeper clusters inform brokers "
        "with LeaderAndIsr and UpdateMetadata, and clients see it in Metadata."
    )
    apis = frozenset({
        ApiKey.METADATA, ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.ALTER_PARTITION,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    })  # fmt: skip

    thresholds = (
        Threshold(
            "out",
            10_000,
            Unit.MS,
            "time for which a replica is known to be out of sync without coming back; a shorter one is low",
        ),
    )

    _replicas: dict[TopicPartition, frozenset[int]] = {}
    _isr: dict[TopicPartition, frozenset[int]] = {}
    _brokers: dict[int, _Replica] = {}

    def add(self, exchange: Exchange) -> None:
        for tp, isr, replicas in self._changes_in(exchange):
            before = self._isr.get(tp)
            if replicas:
                self._replicas[tp] = replicas
            if isr == before:
                self._confirm(exchange, tp)
            if isr == before or not isr:
                continue
            self._isr[tp] = isr
            everyone = self._replicas.get(tp, frozenset()) or isr | (before or frozenset())
            self._replicas.setdefault(tp, everyone)
            for broker in (everyone | (before or frozenset())) - isr:
                self._leave(exchange, broker, tp, alone=len(isr) == 1)
            for broker in isr:
                self._return(exchange, broker, tp)

    def _changes_in(
        self, exchange: Exchange
    ) -> Iterator[tuple[TopicPartition, frozenset[int], frozenset[int]]]:
        """Yield partitions with their ISR, and all their replicas, empty if not in the message."""
        names = whole_ids(self.context.names)
        match exchange.api_key:
            case ApiKey.METADATA | ApiKey.DESCRIBE_TOPIC_PARTITIONS:
                pairs = topic_partitions.each(rows(exchange.response_body, "topics"), names)
                yield from _states(pairs, "isr_nodes", "replica_nodes")
            case ApiKey.LEADER_AND_ISR | ApiKey.UPDATE_METADATA:
                request = exchange.request_body
                alone = rows(request, "ungrouped_partition_states")
                pairs = [(topic_partitions.topic(row, names), row) for row in alone]
                pairs += topic_partitions.each(rows(request, "topic_states"), names)
                yield from _states(pairs, "isr", "replicas")
            case _:
                answers = topic_partitions.rows_by_partition(exchange.response_body, "topics", names)
                refused = {tp for tp, row in answers if number(row, "error_code", 0)}
                for tp, row in topic_partitions.rows_by_partition(exchange.request_body, "topics", names):
                    if tp not in refused and exchange.response_body:
                        yield tp, frozenset(new_isr(row)), frozenset()

    def _confirm(self, exchange: Exchange, tp: TopicPartition) -> None:
        """Record that the ISR is unchanged."""
        for broker in self._replicas[tp] - self._isr[tp]:
            replica = self._brokers.get(broker)
            if replica is not None and tp in replica.out:
                since, until, teller = replica.out[tp]
                replica.out[tp] = since, max(until, exchange.end), teller

    def _leave(self, exchange: Exchange, broker: int, tp: TopicPartition, *, alone: bool) -> None:
        replica = self._brokers.setdefault(broker, _Replica())
        (replica.alone.add if alone else replica.alone.discard)(tp)
        if tp in replica.out:
            return
        time = exchange.end
        # deciding brokers report every change; others only the state at that time
        replica.out[tp] = time, time, -1 if exchange.api_key in _LOOKING_ON else exchange.connection
        replica.left.add(tp)
        replica.back.discard(tp)
        replica.apis[exchange.api] = None
        replica.seen.add(exchange)

    def _return(self, exchange: Exchange, broker: int, tp: TopicPartition) -> None:
        replica = self._brokers.get(broker)
        out = replica.out.pop(tp, None) if replica is not None else None
        if replica is None or out is None:
            return
        replica.longest = max(replica.longest, exchange.end - out[0])
        replica.back.add(tp)
        replica.alone.discard(tp)
        replica.apis[exchange.api] = None
        replica.seen.add(exchange)

    def findings(self) -> Iterator[Finding]:
        for broker, replica in sorted(self._brokers.items()):
            seen, out = replica.seen, replica.out
            text = f"Broker {broker} was missing from the in-sync replicas of {_partitions(replica.left)}"
            if out:
                text += f"; it is still missing from {_partitions(out)}"
                if replica.alone:
                    have = "has" if len(replica.alone) == 1 else "have"
                    text += f", of which {len(replica.alone):,} {have} a single replica left"
            else:
                text += f"; it came back to all of them, after {span(replica.longest)} at most"
            yield self.finding(
                f"broker {broker}",
                f"{text}.",
                "Check whether the broker runs, is paused (garbage collection), or has slow disks or a slow network. "
                "If replication was captured, see the findings slow_followers and tcp_trouble. Replicas that a "
                "reassignment adds are missing only until they have caught up.",
                seen,
                filter_text=f"{one_of('api', replica.apis)}{on_topics(name for name, _ in replica.left)}",
                severity=self.severity
                if self._known_out(replica) >= self.limit("out") * MS
                else Severity.LOW,
            )

    def _known_out(self, replica: _Replica) -> int:
        """Return how long a broker is known to be missing, in ns."""
        observed_until = self.context.capture.observed_until
        return max(
            (
                (until if teller < 0 else max(until, int(observed_until(teller)))) - since
                for since, until, teller in replica.out.values()
            ),
            default=0,
        )

    def blind(self) -> str:
        return "" if self._isr else "no message names in-sync replicas"


def _states(
    pairs: Iterable[tuple[str, Body]], isr: str, replicas: str
) -> Iterator[tuple[TopicPartition, frozenset[int], frozenset[int]]]:
    for name, row in pairs:
        index = topic_partitions.index(row)
        if index is not None:
            yield TopicPartition(name, index), frozenset(items(row, isr)), frozenset(items(row, replicas))


def _partitions(found: Iterable[TopicPartition]) -> str:
    grouped: dict[str, list[int]] = {}
    for name, index in sorted(found):
        grouped.setdefault(name, []).append(index)
    return topic_partitions.groups_text(grouped)


# ---------------------------------------------------------------- slow_followers


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
            "lag", 10_000, Unit.MS, "time for which a follower has not reached the end of its leader's log"
        ),
    )
    unseen = "no replication between brokers was captured"

    _partitions: dict[TopicPartition, _Partition] = {}
    _followers: dict[int, _Follower] = {}

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
            far = f" and {words.counted(state.farthest, 'record')}" if state.farthest > 0 else ""
            yield self.finding(
                f"broker {follower}",
                f"Follower {follower} was up to {span(state.longest)}{far} behind its leaders on "
                f"{_partitions(state.partitions)}.",
                "Check whether the follower was paused (garbage collection, SIGSTOP), whether its disks and network "
                "are fast enough, and num.replica.fetchers. After a restart of its broker this is normal until it has"
                " caught up.",
                state.seen,
                filter_text=f"api == Fetch and (request.replica_id == {follower}"
                f" or request.replica_state.replica_id == {follower}){on_topics(name for name, _ in state.partitions)}",
                certainty=Certainty.INFERRED,
            )
