"""Record timestamps that are far from the time at which the records are produced."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import NO_PRODUCE
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.exchanges.columns import NO_VALUE
from captures.meaning import words
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.units import MS

_SECONDS = range(1_000_000_000, 10_000_000_000)
"""Seconds since the epoch, from 2001 on: as milliseconds they are in the first months of 1970."""


class _WrongTimestamps(msgspec.Struct):
    """Batches of a client and topic with wrong timestamps.

    :ivar batches: number of batches with a timestamp, wrong or not
    :ivar largest: largest difference in ms, positive for the future
    :ivar timestamp: the timestamp with the largest difference, ms since the epoch
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    batches: int = 0
    largest: int = 0
    timestamp: int = 0


class TimestampsFarOff(Rule):
    """Compares CreateTime with the clock of the capture."""

    name = "timestamps_far_off"
    needs = Lack.RECORDS
    title = "Timestamps far off"
    about = (
        "Records carry timestamps (CreateTime) that are far from the time at which they were captured. Retention "
        "by time, segment rolling, offset lookups by time and windows of Kafka Streams depend on them: records "
        "from the past may be removed at once, and a record from the future keeps its segment from being removed."
        " That is fine while old data is loaded; otherwise a clock or a unit is wrong. Since 3.6 topics can "
        "refuse such records (KIP-937: message.timestamp.before.max.ms and message.timestamp.after.max.ms; Kafka "
        "4 accepts at most an hour into the future)."
    )
    severity = Severity.LOW
    key = Key.CLIENT
    apis = frozenset({ApiKey.PRODUCE})
    thresholds = (
        Threshold(
            "past",
            7 * 86_400_000,
            Unit.MILLISECONDS,
            "how far before the time of capture a timestamp may lie",
        ),
        Threshold("future", 3_600_000, Unit.MILLISECONDS, "how far after the time of capture"),
    )
    unseen = NO_PRODUCE

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._found: dict[tuple[str, str], _WrongTimestamps] = {}
        self._bounds = -self.limit("past"), self.limit("future")

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        produces, now = rows.of_api({ApiKey.PRODUCE}), rows.columns.flat("time") // MS
        earliest, latest = rows.columns.flat("batch_earliest"), rows.columns.flat("batch_latest")
        far = (earliest - now < self._bounds[0]) | (latest - now > self._bounds[1])
        far &= produces & (earliest != NO_VALUE)
        return None if rows.ever(f"timestamps beyond {self._bounds}", far) else rows.evidence_of(produces)

    def add(self, exchange: Exchange) -> None:
        self.saw_any = True
        now = exchange.time // MS
        for part in self.context.records.produced(exchange):
            for batch in part.batches:
                if batch.max_timestamp < 0:
                    continue
                apart = self._found.setdefault((client_name(exchange), part.topic), _WrongTimestamps())
                apart.batches += 1
                distance = batch.max_timestamp - now
                if self._bounds[0] <= distance <= self._bounds[1]:
                    continue
                apart.seen.add(exchange)
                if abs(distance) > abs(apart.largest):
                    apart.largest, apart.timestamp = distance, batch.max_timestamp

    def findings(self) -> Iterator[Finding]:
        for (client, topic), apart in self._found.items():
            if not apart.seen:
                continue
            future = apart.largest > 0
            have = "has" if apart.seen.count == 1 else "have"
            unit = " Seconds seem to be given as milliseconds." if apart.timestamp in _SECONDS else ""
            yield self.finding(
                f"client {client}, topic {topic}",
                f"{apart.seen.count:,} of {words.counted(apart.batches, 'batch', 'batches')} that client {client} "
                f"sent to {topic} {have} timestamps far in the {'future' if future else 'past'}: the farthest is "
                f"{words.moment(apart.timestamp)} UTC, {_distance(abs(apart.largest))} "
                f"{'after' if future else 'before'} it was captured.{unit}",
                "Unless old data is being loaded, check the producer's clock and the unit (milliseconds) of timestamps "
                "that the application sets. With message.timestamp.type=LogAppendTime the broker sets them.",
                apart.seen,
                filter_text=f"api == Produce and {of_client(client)} and {of_topic(topic)}",
            )


def _distance(ms: int) -> str:
    for unit, length in (("year", 31_557_600_000), ("day", 86_400_000), ("hour", 3_600_000)):
        if ms >= 2 * length:
            return words.counted(ms // length, unit)
    return span(ms * MS)
