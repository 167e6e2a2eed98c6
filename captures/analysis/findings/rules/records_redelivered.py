"""Records that a share group delivers again, and the members that had them before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_group
from captures.analysis.findings.common import whole_ids
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.of_groups import named
from captures.analysis.findings.rule import Rule, RuleContext
from captures.analysis.groups.labels import partitions
from captures.analysis.groups.model import GroupMember
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Exchange
from captures.meaning import words
from captures.meaning.exchange import number, rows, text
from captures.meaning.topic_partitions import TopicPartition, rows_by_partition
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.units import MS

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

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._names = whole_ids(context.names)
        self._groups: dict[str, _Group] = {}

    def add(self, exchange: Exchange) -> None:
        request, response = exchange.request_body, exchange.response_body
        group = text(request, "group_id")
        if not group:
            return
        known = self._groups.setdefault(group, _Group())
        member, client = text(request, "member_id"), client_name(exchange)
        for tp, row in rows_by_partition(request, "topics", self._names):
            for batch in rows(row, "acknowledgement_batches"):
                kinds = set(batch.get("acknowledge_types") or ()) & {_RELEASE, _RENEW}
                for kind in kinds:
                    first, last = number(batch, "first_offset"), number(batch, "last_offset")
                    self._hold(known, tp, _Hold(first, last, exchange.time, member, client, kind))
        lock = max(number(response, "acquisition_lock_timeout_ms"), 0) * MS
        for tp, row in rows_by_partition(response, "responses", self._names):
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
