"""Consumers whose position ``auto.offset.reset`` set, with the records that were skipped or are read again."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.conditions import of_client, of_group, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import NO_FETCH, consumer, some_of, together
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.resets import About, Policy, Reset, ResetReason, Resets
from captures.analysis.findings.rule import Rule, RuleContext
from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import topic_partitions, words
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.units import SECOND

_SOON = SECOND
"""ns within which a consumer requests another position."""


class _ResetGroup:
    """Resets that are reported together: those of a group with one reason, or of a client and topic.

    :ivar partitions: topic -> partitions whose position was set
    """

    def __init__(self, about: About) -> None:
        self.about = about
        self.clients: dict[str, None] = {}
        self.partitions: dict[str, set[int]] = {}
        self.seen: list[Occurrences] = []
        self.example = ""
        self._skipped = self._removed = self._beyond = self._refetched = 0

    def add(self, about: About, reset: Reset) -> None:
        """Add the resets of one client and topic."""
        self.clients[about.client] = None
        self.partitions.setdefault(about.topic, set()).update(reset.partitions)
        self.seen.append(reset.seen)
        self.example = self.example or reset.example
        self._skipped += reset.skipped
        self._removed += reset.removed
        self._beyond += reset.beyond
        self._refetched += reset.refetched

    def losses(self) -> str:
        """Return what is not read, or read again, in words; empty if nothing is."""
        parts = []
        if self._skipped:
            removed = f", {self._removed:,} of them removed from the log before they were read"
            parts.append(
                f"{words.counted(self._skipped, 'offset')} skipped{removed if self._removed else ''}"
            )
        if self._beyond:
            all_again = self.about.policy is not Policy.LATEST and not self._refetched
            parts.append(
                "its position lay beyond the end of the log"
                + (", and the whole log is read again" if all_again else "")
            )
        if self._refetched:
            parts.append(f"{words.counted(self._refetched, 'offset')} read again")
        return words.listed(parts)

    @property
    def severity(self) -> Severity:
        why = self.about.why
        if why in (ResetReason.NO_COMMIT, ResetReason.SOME_COMMITS):
            return Severity.LOW if self._skipped else Severity.INFO
        if why is ResetReason.NEW_PARTITION:
            return Severity.MEDIUM if self._skipped else Severity.INFO
        if self._beyond and self.about.policy is Policy.LATEST:
            return Severity.MEDIUM
        return Severity.HIGH if self._skipped or self._refetched or self._beyond else Severity.LOW


class PositionsReset(Rule):
    """Follows consumers from a missing offset to the one at which they continue."""

    name = "positions_reset"
    title = "Positions reset backward or forward"
    about = (
        "A consumer without a usable position asks ListOffsets for one, as auto.offset.reset says, and continues "
        "there. It has none after OFFSET_OUT_OF_RANGE (retention removed its offset, or it lies beyond the end), "
        "or if its group has no committed offset (OffsetFetch answers -1: a new group, a new partition, or "
        "offsets that expired by offsets.retention.minutes). latest skips records, earliest reads processed "
        "records again. Reported only if the consumer then fetches from there."
    )
    severity = Severity.HIGH
    apis = frozenset(
        {ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH}
    )
    unseen = NO_FETCH

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._resets = Resets(context.names)
        self._latest = 0

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        lost = rows.any_error({ErrorCode.OFFSET_OUT_OF_RANGE})
        lost |= rows.ever("OffsetFetch", rows.of_api({ApiKey.OFFSET_FETCH}))
        of_consumers = rows.of_api({ApiKey.FETCH}) & (rows.columns.flat("replica_id") < 0)
        return None if lost else rows.evidence_of(of_consumers)

    def add(self, exchange: Exchange) -> None:
        key = exchange.api_key
        self._latest = max(self._latest, exchange.time)
        if key == ApiKey.FETCH:
            if consumer(exchange):
                self.saw_any = True
                seen = self.context.records.seen(exchange)
                if seen is not None:
                    self._resets.fetch(exchange, seen, self.context.records.fetched(exchange))
        elif key == ApiKey.LIST_OFFSETS:
            self._resets.list_offsets(exchange)
        elif key == ApiKey.METADATA:
            self._resets.metadata(exchange)
        elif key == ApiKey.OFFSET_COMMIT:
            self._resets.commit(exchange, self.context.records.committed(exchange))
        else:
            self._resets.offset_fetch(exchange)

    def findings(self) -> Iterator[Finding]:
        by_cause: dict[tuple[str, ...], _ResetGroup] = {}
        for about, reset in self._resets.found.items():
            # a new group is reported once, however many members and topics it has
            own = () if about.group else (about.client, about.topic)
            key = about.group, about.why.value, about.policy.value, *own
            by_cause.setdefault(key, _ResetGroup(about)).add(about, reset)
        yield from (self._finding(each) for each in by_cause.values())
        stuck: dict[tuple[str, str], tuple[Occurrences, str]] = {}
        for reader, lost in self._resets.lost.items():
            if lost.why is ResetReason.OUT_OF_RANGE and self._latest - lost.time >= _SOON:
                seen, _ = stuck.setdefault(
                    (reader.client, reader.topic),
                    (Occurrences(), f"{reader.topic}-{reader.partition} at {lost.position:,}"),
                )
                seen.note(lost.number, lost.time)
        for (client, topic), (seen, example) in stuck.items():
            yield self.finding(
                f"client {client}, topic {topic}, no new position",
                f"Client {client} asked for an offset of {topic} that does not exist (OFFSET_OUT_OF_RANGE: "
                f"{example}), and has not continued from another.",
                "With auto.offset.reset=none the application has to seek by itself. Check whether retention removed "
                "unread records, or the topic was created again.",
                seen,
                filter_text=f"api in {{Fetch, ListOffsets}} and {of_client(client)} and {of_topic(topic)}",
                severity=Severity.MEDIUM,
            )

    def _finding(self, group: _ResetGroup) -> Finding:
        about, clients = group.about, some_of(group.clients)
        who = f"Group {about.group} ({clients})" if about.group else f"Client {clients}"
        where = {topic: sorted(partitions) for topic, partitions in group.partitions.items()}
        cause = _CAUSES[about.why].format(where=topic_partitions.groups_text(where))
        how = ": ".join(
            filter(None, (f"{who} {cause} and continued at the {_ENDS[about.policy]}", group.losses()))
        )
        reset = f"{about.why.value}, {about.policy.value}"
        if about.group:
            subject, shown = (
                f"group {about.group}, {reset}",
                f"api == OffsetFetch and {of_group(about.group)}",
            )
        else:
            subject = f"client {about.client}, topic {about.topic}, {reset}"
            shown = f"api in {{Fetch, ListOffsets}} and {of_client(about.client)} and {of_topic(about.topic)}"
        return self.finding(
            subject,
            f"{how}{f' ({group.example})' if group.example else ''}.",
            _ADVICE[about.why],
            together(group.seen),
            filter_text=shown,
            severity=group.severity,
            certainty=Certainty.INFERRED,
        )


_CAUSES = {
    ResetReason.OUT_OF_RANGE: "asked for an offset of {where} that does not exist (OFFSET_OUT_OF_RANGE)",
    ResetReason.NO_COMMIT: "has no committed offset for {where}",
    ResetReason.LOST_COMMIT: "has no committed offset for {where} any more",
    ResetReason.SOME_COMMITS: "has no committed offset for {where}, but for other partitions,",
    ResetReason.NEW_PARTITION: "has no committed offset for {where}, added since the capture began,",
}
_ENDS = {
    Policy.LATEST: "end (auto.offset.reset=latest)",
    Policy.EARLIEST: "beginning (auto.offset.reset=earliest)",
    Policy.BY_DURATION: "offset of a point in time (auto.offset.reset=by_duration)",
}
_ADVICE = {
    ResetReason.OUT_OF_RANGE: "Make retention (retention.ms, retention.bytes) longer than the longest lag or outage "
    "of this consumer, and watch its lag. An offset beyond the end shows that the topic was created again, or lost "
    "records (unclean leader election). With auto.offset.reset=none the consumer stops instead.",
    ResetReason.NO_COMMIT: "Nothing to do for a new group. The offsets of an existing one have expired "
    "(offsets.retention.minutes) or were deleted, or group.id was changed.",
    ResetReason.LOST_COMMIT: "The offset had been committed before: the group or its offsets were deleted, the "
    "offsets expired (offsets.retention.minutes), or the topic was created again.",
    ResetReason.SOME_COMMITS: "Nothing was committed for these partitions: they were not consumed yet, they are new, "
    "or their offsets have expired (offsets.retention.minutes). auto.offset.reset=latest skips records that arrived "
    "meanwhile; earliest or by_duration (KIP-1106) does not.",
    ResetReason.NEW_PARTITION: "New partitions get records before consumers know of the partitions. "
    "auto.offset.reset=latest skips these; earliest or by_duration (KIP-1106) does not.",
}
