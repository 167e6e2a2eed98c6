"""Fetches that return too little, and records of share groups that are delivered again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec
import numpy as np

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_group, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import RowGroups
from captures.analysis.findings.common import NO_FETCH, Busiest, consumer, partitions_shown, whole_ids
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.of_groups import named
from captures.analysis.findings.rule import Rule, Threshold, Unit
from captures.analysis.groups.labels import partitions
from captures.analysis.groups.model import GroupMember
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.record_traffic import FetchedPartition
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.exchanges.columns import NO_VALUE
from captures.filters.lexer import quoted
from captures.meaning import words
from captures.meaning.exchange import number, rows, text
from captures.meaning.topic_partitions import TopicPartition, rows_by_partition
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.units import MS

# ---------------------------------------------------------------- empty_fetches

_MOST_OF_THE_WAIT = 0.9


class _Line(NamedTuple):
    """A connection of a client with a broker."""

    connection: int
    client: str
    broker: str


class _FetchCounts(msgspec.Struct):
    """The results of the fetches on a connection.

    :ivar fetches: number of fetches without an error or throttling
    :ivar busiest: period with the most empty responses
    :ivar max_wait: ms, in the latest request
    :ivar delayed: responses with less than ``min_bytes`` that came only after ``max_wait``
    """

    fetches: int = 0
    empty: Occurrences = msgspec.field(default_factory=Occurrences)
    busiest: Busiest = msgspec.field(default_factory=Busiest)
    max_wait: int = 0
    min_bytes: int = 0
    delayed: Occurrences = msgspec.field(default_factory=Occurrences)


class EmptyFetches(Rule):
    """Counts responses without records, and checks how long they waited."""

    name = "empty_fetches"
    title = "Fetches that return empty, or wait in vain"
    about = (
        "A Fetch waits at the broker until min_bytes are available or max_wait_ms is over (fetch.min.bytes, "
        "fetch.max.wait.ms; DelayedFetch.scala). With a short wait, or min_bytes 0, an idle consumer asks over "
        "and over: requests that cost client and broker and return nothing. With large min_bytes on a topic with "
        "little traffic, every record waits until max_wait_ms is over."
    )
    severity = Severity.LOW
    key = Key.CLIENT
    apis = frozenset({ApiKey.FETCH})
    unseen = NO_FETCH
    thresholds = (
        Threshold(
            "count", 100, Unit.COUNT, "empty answers on a connection within 10 s that are needed to judge"
        ),
        Threshold(
            "rate", 10, Unit.A_SECOND, "empty answers on a connection, from which a finding is reported"
        ),
        Threshold(
            "share", 50, Unit.PERCENT, "of the answers that must be empty, or must have waited in vain"
        ),
        Threshold(
            "delayed",
            20,
            Unit.COUNT,
            "answers that waited for min_bytes in vain, from which a finding is reported",
        ),
    )

    _lines: dict[_Line, _FetchCounts] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        fetches = np.flatnonzero(rows.of_consumers & rows.answered)
        clients, names = rows.clients
        sizes = rows.columns.ragged("flow_bytes")
        size = np.bincount(sizes.rows, sizes.values, len(clients))[fetches]
        least = rows.columns.flat("min_bytes")[fetches]
        lines = RowGroups(rows.connection[fetches], clients[fetches])
        first = fetches[lines.first]
        of_lines = rows.connection[first].tolist(), clients[first].tolist()
        keys = [(connection, names[client]) for connection, client in zip(*of_lines, strict=True)]
        empty, delayed = rows.totals(
            "fetches without records", keys, lines.sums(size == 0), lines.sums((size > 1) & (size < least))
        )
        found = (empty >= self.limit("count")) | (delayed >= self.limit("delayed"))
        shown = rows.nothing
        shown[fetches] = found[lines.of]
        told = rows.answered & (rows.latency != NO_VALUE) & (rows.columns.flat("response_told") > 0)
        return shown | rows.earliest("decoded fetches", rows.evidence_of(rows.of_consumers & told))

    def add(self, exchange: Exchange) -> None:
        client = consumer(exchange)
        response, latency = exchange.response_body, exchange.latency
        if not client or not response or latency is None:
            return
        self.saw_any = True
        line = self._lines.setdefault(_Line(exchange.connection, client, exchange.broker), _FetchCounts())
        if exchange.errors or number(response, "throttle_time_ms", 0) > 0:
            return
        request = exchange.request_body
        line.fetches += 1
        line.max_wait = number(request, "max_wait_ms", 0)
        line.min_bytes = number(request, "min_bytes", 0)
        size = sum(part.size for part in self.context.records.fetched(exchange))
        if not size:
            line.empty.add(exchange)
            line.busiest.add(exchange.time)
        elif 1 < size < line.min_bytes and latency >= line.max_wait * MS * _MOST_OF_THE_WAIT:
            line.delayed.add(exchange)

    def findings(self) -> Iterator[Finding]:
        by_client: dict[str, tuple[_Line, _FetchCounts]] = {}
        waiting: dict[str, tuple[_Line, _FetchCounts]] = {}
        share = self.limit("share") / 100
        for line, fetching in self._lines.items():
            empty, delayed = fetching.empty, fetching.delayed
            if (
                fetching.busiest.count >= self.limit("count")
                and fetching.busiest.rate >= self.limit("rate")
                and empty.count >= share * fetching.fetches
                and (
                    line.client not in by_client
                    or by_client[line.client][1].busiest.rate < fetching.busiest.rate
                )
            ):
                by_client[line.client] = line, fetching
            if delayed.count >= self.limit("delayed") and delayed.count >= share * (
                fetching.fetches - empty.count
            ):
                waiting.setdefault(line.client, (line, fetching))
        yield from (self._empty(line, fetching) for line, fetching in by_client.values())
        yield from (self._delayed(line, fetching) for line, fetching in waiting.values())

    def _empty(self, line: _Line, fetching: _FetchCounts) -> Finding:
        share = 100 * fetching.empty.count / fetching.fetches
        return self.finding(
            f"client {line.client}",
            f"{share:.0f}% of the fetches of client {line.client} from {line.broker} returned empty, "
            f"up to {fetching.busiest.rate:,.0f} a second (fetch.max.wait.ms={fetching.max_wait}, "
            f"fetch.min.bytes={fetching.min_bytes}).",
            "Let the broker wait longer: fetch.max.wait.ms=500 (librdkafka: fetch.wait.max.ms) with fetch.min.bytes "
            "of 1 or more. A poll with a short timeout does not need a short wait at the broker. A broker that "
            "answers before the wait is over has news without records, or trouble with a partition.",
            fetching.empty,
            filter_text=f"api == Fetch and {of_client(line.client)} and broker == {quoted(line.broker)}"
            " and records == 0",
        )

    def _delayed(self, line: _Line, fetching: _FetchCounts) -> Finding:
        return self.finding(
            f"client {line.client}, min_bytes",
            f"Client {line.client} waited all of its fetch.max.wait.ms ({fetching.max_wait}) for "
            f"{words.counted(fetching.delayed.count, 'response')} with records, which were less than its "
            f"fetch.min.bytes ({words.volume(fetching.min_bytes)}).",
            "If delay matters more than the number of requests, lower fetch.min.bytes or fetch.max.wait.ms of this "
            "consumer. Otherwise there is nothing to do.",
            fetching.delayed,
            filter_text=f"api == Fetch and {of_client(line.client)} and records > 0"
            f" and latency >= {round(fetching.max_wait * _MOST_OF_THE_WAIT)}ms",
        )


# ---------------------------------------------------------------- tiny_fetches


class _FetchSizes(msgspec.Struct):
    """Responses to a client's fetches of a topic.

    :ivar answers: number of partitions with records
    :ivar oversize: those with a single batch that is larger than the requested size
    :ivar cut: those with only a part of a single message
    :ivar runs: partition -> consecutive such responses
    :ivar longest: the most consecutive ones
    :ivar largest: bytes of the largest such batch or message
    :ivar limit: requested bytes
    """

    answers: int = 0
    oversize: Occurrences = msgspec.field(default_factory=Occurrences)
    cut: Occurrences = msgspec.field(default_factory=Occurrences)
    runs: dict[int, int] = {}
    longest: int = 0
    largest: int = 0
    limit: int = 0


class TinyFetches(Rule):
    """Compares the sizes of batches with those that fetches request."""

    name = "tiny_fetches"
    needs = Lack.RECORDS
    title = "Fetch sizes too small for the batches"
    about = (
        "A consumer asks for fewer bytes of a partition (max.partition.fetch.bytes) than its batches have. Since "
        "Fetch v3 the broker still returns the first batch (KIP-74), but only one per Fetch, so reading is slow. "
        "Older brokers return only the beginning of the message, which the consumer cannot use, so it is stuck "
        "there forever (RecordTooLargeException)."
    )
    severity = Severity.LOW
    key = Key.CLIENT
    apis = frozenset({ApiKey.FETCH})
    thresholds = (
        Threshold(
            "count",
            10,
            Unit.COUNT,
            "responses with one oversize batch of a topic, from which a finding is reported",
        ),
        Threshold(
            "share",
            50,
            Unit.PERCENT,
            "share of the responses with records that contain a single oversize batch",
        ),
        Threshold(
            "cut",
            2,
            Unit.COUNT,
            "responses in a row with only part of one message, from which a finding is reported",
        ),
    )
    unseen = NO_FETCH

    _flows: dict[tuple[str, str], _FetchSizes] = {}
    """By client and topic."""
    _limits: dict[tuple[int, str], int] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        allowed = rows.columns.flat("max_bytes")[rows.of_consumers]
        least = int(allowed[allowed != NO_VALUE].min(initial=np.iinfo(np.int64).max))
        sizes, batches = rows.columns.ragged("flow_bytes"), rows.columns.ragged("flow_batches").values
        held = rows.of_consumers[sizes.rows] & (sizes.values > 0)
        # a field with one batch may end with a part of another
        cut = bool((held & (batches == 0)).any())
        largest = int(sizes.values[held & (batches == 1)].max(initial=0))
        if rows.merged("sizes of fetches", (cut, largest, least), _too_small) or rows.ever(
            "interventions", ~rows.untouched
        ):
            return None
        answered = rows.of_consumers & (rows.columns.flat("response_told") > 0)
        decoded = answered & (rows.columns.flat("min_bytes") >= 0)
        return rows.earliest("answered fetches", rows.evidence_of(answered)) | rows.earliest(
            "answered fetches, decoded", rows.evidence_of(decoded)
        )

    def add(self, exchange: Exchange) -> None:
        client = consumer(exchange)
        request = exchange.request_body
        if not client or not request or not exchange.response_body:
            return
        self.saw_any = True
        line = exchange.connection, client
        # within a session partitions are named once, but a client uses the same limit for all
        sizes = [
            number(row, "partition_max_bytes")
            for topic in rows(request, "topics")
            for row in rows(topic, "partitions")
        ]
        limit = self._limits[line] = max(sizes, default=self._limits.get(line, 0))
        whole = number(request, "max_bytes", 0)
        if limit > 0:
            for part in self.context.records.fetched(exchange):
                if part.size and not part.error:
                    flow = self._flows.setdefault((client, part.topic), _FetchSizes())
                    self._answer(exchange, flow, part, min(limit, whole) if whole > 0 else limit)

    @staticmethod
    def _answer(exchange: Exchange, flow: _FetchSizes, part: FetchedPartition, limit: int) -> None:
        flow.answers += 1
        if not part.batches:
            if part.trailing is not None and part.trailing.kind == "partial":
                flow.cut.add(exchange)
                flow.runs[part.partition] = flow.runs.get(part.partition, 0) + 1
                flow.longest = max(flow.longest, flow.runs[part.partition])
                flow.largest = max(flow.largest, part.trailing.announced or 0)
                flow.limit = limit
            return
        flow.runs.pop(part.partition, None)
        if len(part.batches) == 1 and part.batches[0].size > limit:
            flow.oversize.add(exchange)
            flow.largest = max(flow.largest, part.batches[0].size)
            flow.limit = limit

    def findings(self) -> Iterator[Finding]:
        for (client, topic), flow in self._flows.items():
            shown = f"api == Fetch and {of_client(client)} and {of_topic(topic)}"
            size = f"up to {words.volume(flow.largest)}" if flow.largest else "larger"
            if flow.longest >= self.limit("cut"):
                stuck = [partition for partition, run in flow.runs.items() if run >= self.limit("cut")]
                then = f"it cannot continue in {partitions_shown(stuck)}" if stuck else "later it continued"
                yield self.finding(
                    f"client {client}, topic {topic}, cut",
                    f"Client {client} fetches at most {words.volume(flow.limit)} of a partition of {topic}, and "
                    f"{words.counted(flow.cut.count, 'response')} contained only the start of one message ({size}): "
                    f"{then}.",
                    "Raise max.partition.fetch.bytes (old consumers: fetch.message.max.bytes) above the largest "
                    "message, or update the client: since Fetch v3 the broker returns such a message whole.",
                    flow.cut,
                    filter_text=shown,
                    severity=Severity.HIGH if stuck else Severity.MEDIUM,
                )
            if (
                flow.oversize.count >= self.limit("count")
                and flow.oversize.count >= self.limit("share") / 100 * flow.answers
            ):
                yield self.finding(
                    f"client {client}, topic {topic}",
                    f"Client {client} fetches at most {words.volume(flow.limit)} of a partition of {topic}, less than "
                    f"one batch ({size}): {flow.oversize.count:,} of {words.counted(flow.answers, 'response')} had a "
                    "single batch.",
                    "Raise max.partition.fetch.bytes (default 1 MiB) and fetch.max.bytes of this consumer above the "
                    "size of the batches, so that one Fetch returns several.",
                    flow.oversize,
                    filter_text=f"{shown} and batches == 1 and records.size > {flow.limit}",
                )


def _too_small(parts: Sequence[tuple[bool, int, int]]) -> bool:
    """Return whether messages were cut, or batches are larger than the least size that was requested.

    :param parts: whether there are cut messages, bytes of the largest single batch, least requested bytes
    """
    cut, largest, least = zip(*parts, strict=True)
    return any(cut) or max(largest) > min(least)


# ---------------------------------------------------------------- records_redelivered

_SHARES = frozenset({ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
_RELEASE, _RENEW = 2, 4
"""Acknowledge types (KIP-932, KIP-1222)."""
_EARLY = 500 * MS
"""ns by which a lock may seem to expire early: it begins before the response that reports it."""
_MOST_HOLDS = 256
"""Most ranges that are kept of a partition."""
_TWICE = 2
_MOST_AGAIN = 4096
"""Most redelivered ranges that are kept of a group."""


class _RedeliveryCause(Enum):
    """Why records are delivered again: the subject of findings beside the group, their sentence, and the advice."""

    LOCK = (
        "acquisition locks that ran out",
        (
            "{names} held {records} longer than the acquisition lock{lock}: share group {group} delivered {them} "
            "again, after up to {longest}{often}{late}."
        ),
        (
            "Process faster, take fewer records at a time (max.poll.records), renew the lock while processing (RENEW, "
            "since 4.2), or raise group.share.record.lock.duration.ms."
        ),
    )
    GONE = (
        "members that were gone",
        "{names} ended with {records} unacknowledged: share group {group} delivered {them} again{often}.",
        "Nothing to do if it was meant to end. What it had processed but not acknowledged is processed twice.",
    )
    RELEASED = (
        "records that were released",
        "{names} released {records}: share group {group} delivered {them} again{often}.",
        (
            "Check its log for why it does not process them. A record is given up after "
            "group.share.delivery.count.limit deliveries (5 by default)."
        ),
    )
    UNKNOWN = (
        "records delivered again",
        (
            "Share group {group} delivered {records} again{often}; the capture does not show who had {them} before, or "
            "what became of that member."
        ),
        "Capture at all brokers, and from the beginning, to see who had them.",
    )

    def __init__(self, subject: str, text: str, advice: str) -> None:
        self.subject, self.text, self.advice = subject, text, advice


class _Hold(NamedTuple):
    """Records that a member acquired, released or renewed.

    :ivar time: time of the response, or of the request that released or renewed; ns since the epoch
    :ivar kind: acknowledge type; 0 if it acquired them
    :ivar lock: duration of the lock in ns; 0 if unknown
    """

    first: int
    last: int
    time: int
    member: str
    client: str
    kind: int = 0
    lock: int = 0


class _Redelivery(NamedTuple):
    """Records that were delivered again.

    :ivar deliveries: number of deliveries, including this one
    """

    tp: TopicPartition
    first: int
    last: int
    deliveries: int
    time: int
    number: int


class _Group(msgspec.Struct):
    """The state of a share group.

    :ivar late: acknowledgments that the broker refused because the lock was lost
    """

    holds: dict[TopicPartition, deque[_Hold]] = {}
    redelivered: deque[_Redelivery] = msgspec.field(default_factory=lambda: deque(maxlen=_MOST_AGAIN))
    late: int = 0


class _Redeliveries(msgspec.Struct):
    """The redeliveries of one group for one reason, added up."""

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    names: dict[str, None] = {}
    places: set[TopicPartition] = set()
    records: int = 0
    most: int = 0
    lock: int = 0
    longest: int = 0


class RecordsRedelivered(Rule):
    """Follows which member acquires which records of share groups."""

    name = "records_redelivered"
    title = "Records that a share group delivers again"
    about = (
        "A member of a share group (KIP-932) gets records under an acquisition lock. The broker delivers them "
        "again if the lock runs out before they are acknowledged (group.share.record.lock.duration.ms), if the "
        "member releases them, or if its connection ends. If the first member still processes them, they are "
        "processed twice. The response says how often records were delivered (delivery_count), and the broker "
        "refuses an acknowledgment that comes too late with INVALID_RECORD_STATE."
    )
    apis = _SHARES
    effect_of = EffectOf.MEMBERS
    of_groups = True

    _groups: dict[str, _Group] = {}

    def add(self, exchange: Exchange) -> None:
        request, response = exchange.request_body, exchange.response_body
        group = text(request, "group_id")
        if not group:
            return
        known = self._groups.setdefault(group, _Group())
        member, client, names = (
            text(request, "member_id"),
            client_name(exchange),
            whole_ids(self.context.names),
        )
        for tp, row in rows_by_partition(request, "topics", names):
            for batch in rows(row, "acknowledgement_batches"):
                kinds = set(batch.get("acknowledge_types") or ()) & {_RELEASE, _RENEW}
                for kind in kinds:
                    first, last = number(batch, "first_offset"), number(batch, "last_offset")
                    self._hold(known, tp, _Hold(first, last, exchange.time, member, client, kind))
        lock = max(number(response, "acquisition_lock_timeout_ms"), 0) * MS
        for tp, row in rows_by_partition(response, "responses", names):
            code = row.get("acknowledge_error_code", row.get("error_code"))
            known.late += code == ErrorCode.INVALID_RECORD_STATE
            for acquired in rows(row, "acquired_records"):
                first, last = number(acquired, "first_offset"), number(acquired, "last_offset")
                count = number(acquired, "delivery_count")
                if count > 1:
                    known.redelivered.append(
                        _Redelivery(tp, first, last, count, exchange.end, exchange.number)
                    )
                self._hold(known, tp, _Hold(first, last, exchange.end, member, client, 0, lock))

    @staticmethod
    def _hold(group: _Group, tp: TopicPartition, hold: _Hold) -> None:
        group.holds.setdefault(tp, deque(maxlen=_MOST_HOLDS)).append(hold)

    def findings(self) -> Iterator[Finding]:
        members = {timeline.group: timeline.by_id() for timeline in self.context.groups}
        for name, group in self._groups.items():
            found: dict[_RedeliveryCause, _Redeliveries] = {}
            for again in group.redelivered:
                _note(found, again, group, members.get(name, {}))
            for why, redeliveries in found.items():
                yield self._finding(
                    name, why, redeliveries, group.late if why is _RedeliveryCause.LOCK else 0
                )

    def _finding(self, group: str, why: _RedeliveryCause, found: _Redeliveries, late: int) -> Finding:
        sentence = why.text.format(
            names=named(found.names),
            group=words.line(group),
            records=f"{words.counted(found.records, 'record')} of {partitions(found.places)}",
            them="it" if found.records == 1 else "them",
            lock=f" of {span(found.lock)}" if found.lock else "",
            longest=span(found.longest),
            often=f" ({found.most} deliveries)" if found.most > _TWICE else "",
            late=f"; {words.counted(late, 'acknowledgment')} came too late (INVALID_RECORD_STATE)"
            if late
            else "",
        )
        return self.finding(
            f"group {group}, {why.subject}",
            sentence,
            why.advice,
            found.seen,
            filter_text=f"api in {{ShareFetch, ShareAcknowledge}} and {of_group(group)}",
            severity=Severity.MEDIUM if why is _RedeliveryCause.LOCK else Severity.LOW,
            certainty=Certainty.OBSERVED if why is _RedeliveryCause.UNKNOWN else Certainty.INFERRED,
            group=group,
        )


def _note(
    found: dict[_RedeliveryCause, _Redeliveries],
    again: _Redelivery,
    group: _Group,
    members: Mapping[str, GroupMember],
) -> None:
    before = [
        hold
        for hold in group.holds.get(again.tp, ())
        if hold.first <= again.first <= hold.last and hold.time < again.time
    ]
    latest = max(before, key=lambda hold: hold.time, default=None)
    why = _why(latest, again.time, members)
    redeliveries = found.setdefault(why, _Redeliveries())
    redeliveries.seen.note(again.number, again.time)
    redeliveries.places.add(again.tp)
    redeliveries.records += again.last - again.first + 1
    redeliveries.most = max(redeliveries.most, again.deliveries)
    if latest is not None and why is not _RedeliveryCause.UNKNOWN:
        redeliveries.names[latest.client] = None
        redeliveries.lock = max(redeliveries.lock, latest.lock)
        redeliveries.longest = max(redeliveries.longest, again.time - latest.time)


def _why(latest: _Hold | None, time: int, members: Mapping[str, GroupMember]) -> _RedeliveryCause:
    if latest is None:
        return _RedeliveryCause.UNKNOWN
    if latest.kind == _RELEASE:
        return _RedeliveryCause.RELEASED
    member = members.get(latest.member)
    if member is not None and member.left is not None and member.last < time:
        return _RedeliveryCause.GONE
    if latest.lock and time - latest.time >= latest.lock - _EARLY:
        return _RedeliveryCause.LOCK
    return _RedeliveryCause.UNKNOWN
