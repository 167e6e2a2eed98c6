"""Brokers that take long for what they should not wait for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from captures.analysis.findings.common import MS, answer_time, lasted
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, Scene, Threshold, Unit
from captures.analysis.throttling import Throttles
from captures.exchanges import Exchange
from captures.filters.lexer import quoted

_ADMIN = frozenset({7, 19, 20, 21, 37, 43, 45, 57, 80, 81})
"""Answered when it is done: ControlledShutdown, CreateTopics, DeleteTopics, DeleteRecords (by all replicas, KIP-107),
CreatePartitions, ElectLeaders, reassignments, UpdateFeatures, AddRaftVoter and RemoveRaftVoter (KIP-853)."""


@dataclass(slots=True)
class _Answers:
    """Answers of a broker to one API. To know whether a percentile is above a limit it is enough to count."""

    all: int = 0
    longest: int = 0
    slow: Occurrences = field(default_factory=Occurrences)


class SlowBroker(Rule):
    """Finds brokers of which many answers take long, without what is waited by design."""

    name: ClassVar[str] = "slow_broker"
    title: ClassVar[str] = "Slow answers"
    about: ClassVar[str] = (
        "The time from the end of a request to the beginning of its answer, less what the protocol provides for: long"
        " polls and what comes behind them on the same connection, members that wait for each other, throttling and"
        " pauses after it. What is left is the broker's work, its queues, and the network; of a Produce with acks=all"
        " it is the followers' too, as that wait is not on the wire. The first requests after a start are slow in every"
        " broker."
    )
    severity: ClassVar[Severity] = Severity.MEDIUM
    apis: ClassVar[frozenset[int] | None] = None
    thresholds: ClassVar[tuple[Threshold, ...]] = (
        Threshold("latency", 500, Unit.MILLISECONDS, "that an answer may take, without designed waiting"),
        Threshold("share", 5, Unit.PERCENT, "of the answers of a broker to an API that took longer"),
        Threshold("answers", 5, Unit.COUNT, "that took longer, at least"),
    )

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._throttles = Throttles()
        self._answers: dict[tuple[str, str], _Answers] = {}
        self._polling: dict[int, int] = {}
        """Connection -> when the latest answer came that was waited for by design."""

    def add(self, exchange: Exchange) -> None:
        paused = self._throttles.of(exchange).paused
        if exchange.latency is None or exchange.api_key in _ADMIN or exchange.api_key is None:
            return
        answers = self._answers.setdefault((exchange.broker, exchange.api), _Answers())
        answers.all += 1
        # requests of a connection are handled one by one: what comes behind a long poll waits for its end
        until = self._polling.get(exchange.connection, 0)
        if exchange.wait:
            self._polling[exchange.connection] = max(until, answer_time(exchange))
        queued = max(until - exchange.time, 0)
        excess = exchange.latency - exchange.wait - max(paused, queued)
        if excess > self.limit("latency") * MS:
            answers.slow.add(exchange)
            answers.longest = max(answers.longest, excess)

    def findings(self) -> Iterator[Finding]:
        for (broker, api), answers in self._answers.items():
            slow = answers.slow.count
            if slow < self.limit("answers") or 100 * slow <= self.limit("share") * answers.all:
                continue
            shown = self.scene.capture.names.shown(broker)
            limit = round(self.limit("latency"))
            yield self.finding(
                f"broker {shown}, {api}",
                f"{slow:,} of {answers.all:,} {api} answers of {shown} took longer than {lasted(limit * MS)}"
                f" ({100 * slow / answers.all:.0f}%), the longest {lasted(answers.longest)}; designed waiting is not"
                " counted.",
                _advice(api),
                answers.slow,
                filter_text=f"broker == {quoted(broker)} and api == {api} and excess > {limit}ms",
            )


def _advice(api: str) -> str:
    own = {
        "Produce": "With acks=all see the followers too (findings slow_followers and isr_changes), and the disks of the"
        " leader and of them.",
        "Fetch": "Reading what is not in the page cache any more takes disks: see consumers that read old records.",
    }.get(api, "")
    return (
        "See the broker's request metrics for this API (RequestQueueTimeMs, LocalTimeMs, RemoteTimeMs,"
        f" ResponseQueueTimeMs), its garbage collection and its load. {own}"
    ).strip()
