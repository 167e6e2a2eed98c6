"""Replicas that leave the in-sync replicas, and return."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from captures.analysis.findings.common import on_topics, one_of, whole_ids
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.exchanges import Exchange
from captures.meaning import topic_partitions
from captures.meaning.exchange import Body, items, number, rows
from captures.meaning.replication import new_isr
from captures.meaning.topic_partitions import TopicPartition
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.units import MS

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
            Unit.MILLISECONDS,
            "time for which a replica is known to be out of sync without coming back; a shorter one is low",
        ),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._replicas: dict[TopicPartition, frozenset[int]] = {}
        self._isr: dict[TopicPartition, frozenset[int]] = {}
        self._brokers: dict[int, _Replica] = {}

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
