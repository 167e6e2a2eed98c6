"""Positions of consumers that are reset, go back, or stand still."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from captures.analysis.client_identity import client_name
from captures.analysis.commit_columns import CommitColumns, StoredCommit
from captures.analysis.conditions import of_client, of_group, of_topic
from captures.analysis.decision_columns import DecisionColumns, PartitionOffsets
from captures.analysis.findings.common import NO_FETCH, consumer, partitions_shown, some_of, together
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.resets import About, Policy, Reset, ResetReason, Resets
from captures.analysis.findings.rule import Rule, Threshold, Unit, times
from captures.analysis.findings.unchanged_positions import StuckPositions
from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import topic_partitions, words
from captures.meaning.exchange import number, rows, text
from captures.meaning.topic_partitions import rows_by_partition
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.units import MS, SECOND

# ---------------------------------------------------------------- positions_reset

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

    _resets: Resets = msgspec.field(default_factory=Resets)
    _latest: int = 0

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
            self._resets.list_offsets(exchange, self.context.names)
        elif key == ApiKey.METADATA:
            self._resets.metadata(exchange)
        elif key == ApiKey.OFFSET_COMMIT:
            self._resets.commit(exchange, self.context.records.committed(exchange))
        else:
            self._resets.offset_fetch(exchange, self.context.names)

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
        cause = _RESET_CAUSES[about.why].format(where=topic_partitions.groups_text(where))
        how = ": ".join(
            filter(None, (f"{who} {cause} and continued at the {_RESET_ENDS[about.policy]}", group.losses()))
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
            _RESET_ADVICE[about.why],
            together(group.seen),
            filter_text=shown,
            severity=group.severity,
            certainty=Certainty.INFERRED,
        )


_RESET_CAUSES = {
    ResetReason.OUT_OF_RANGE: "asked for an offset of {where} that does not exist (OFFSET_OUT_OF_RANGE)",
    ResetReason.NO_COMMIT: "has no committed offset for {where}",
    ResetReason.LOST_COMMIT: "has no committed offset for {where} any more",
    ResetReason.SOME_COMMITS: "has no committed offset for {where}, but for other partitions,",
    ResetReason.NEW_PARTITION: "has no committed offset for {where}, added since the capture began,",
}
_RESET_ENDS = {
    Policy.LATEST: "end (auto.offset.reset=latest)",
    Policy.EARLIEST: "beginning (auto.offset.reset=earliest)",
    Policy.BY_DURATION: "offset of a point in time (auto.offset.reset=by_duration)",
}
_RESET_ADVICE = {
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


# ---------------------------------------------------------------- commits_backwards


class _CommittedPlace(NamedTuple):
    """A partition as committed by a group."""

    group: str
    topic: str
    partition: int


class _Commit(NamedTuple):
    """The latest commit of a partition.

    :ivar member: member ID; empty if the committing client is no member
    """

    offset: int
    client: str
    member: str


class _Committer(Enum):
    """Who committed the lower offset."""

    SELF = "self"
    """The member that had committed the higher offset."""
    OTHER = "other"
    """Another member."""
    RESET = "reset"
    """A client that is no member, in a group with members."""


class _LowerPartition(NamedTuple):
    """A partition with a lower commit.

    :ivar highest: offset that had been committed
    :ivar connection: connection of the lower commit
    """

    highest: int
    connection: int
    back: _LowerCommits


class _LowerCommits(msgspec.Struct):
    """Lower commits of a group for a topic.

    :ivar offsets: total distance
    :ivar farthest: longest distance of a single commit
    :ivar number: number of the last counted exchange
    :ivar example: one of them in words
    :ivar given: number of offsets that consumers got again because they requested the commits
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    partitions: set[int] = set()
    offsets: int = 0
    farthest: int = 0
    number: int = -1
    given: int = 0
    example: str = ""


class _Offsets(NamedTuple):
    """Offsets that a group asked to commit for a partition, in a part of a capture.

    :ivar back: whether one is less than the one before
    """

    first: int
    last: int
    back: bool


class CommitsBackwards(Rule):
    """Compares every commit with the previous one."""

    name = "commits_backwards"
    title = "Commits that go backwards"
    about = (
        "A group commits a lower offset than before: a consumer that starts there, after the next rebalance or "
        "restart, processes records again. Possible causes: a late commit of a member that has lost the "
        "partition, an asynchronous commit retried after a later one, a seek back, or a topic that was deleted "
        "and created again. If a member goes back by itself and no consumer starts there, the severity is low. "
        "Commits from outside the group are reported separately, because that is how offsets are reset "
        "(kafka-consumer-groups.sh --reset-offsets). Commits in transactions are left out, because whether they "
        "count is decided later."
    )
    key = Key.GROUP
    apis = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH})
    unseen = "no commit was captured"

    _latest: dict[_CommittedPlace, _Commit] = {}
    _behind: dict[_CommittedPlace, _LowerPartition] = {}
    _found: dict[tuple[str, str, _Committer], _LowerCommits] = {}
    _stored: CommitColumns | None = None

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        commits = rows.of_api({ApiKey.OFFSET_COMMIT})
        asked = PartitionOffsets.of(rows, "asked")
        asked = asked.chosen(commits[asked.rows] & (asked.offsets >= 0))
        order = np.lexsort((asked.rows, asked.places, rows.group[asked.rows]))
        own = _offsets_by_place(rows, asked.chosen(order))
        back = rows.merged("offsets of commits", own, _groups_going_back)
        of_groups = rows.of_groups(back)
        shown = rows.earliest("commits", rows.evidence_of(commits))
        if back:
            shown |= ~commits
        if rows.whole:
            self._stored = CommitColumns(rows, of_groups & commits & rows.untouched & ~shown)
        else:
            shown |= of_groups & commits
        return shown

    def add(self, exchange: Exchange) -> None:
        self._take_in(exchange.number)
        if exchange.api_key == ApiKey.OFFSET_FETCH:
            self._given(exchange)
        else:
            self.saw_any = True
            self._committed(StoredCommit.of(exchange, self.context.records.committed(exchange)))

    def _take_in(self, number: float) -> None:
        """Add the commits from columns before exchange `number`."""
        for stored in self._stored.before(number) if self._stored is not None else ():
            self._committed(stored)

    def _committed(self, stored: StoredCommit) -> None:
        for (topic, partition), offset in stored.offsets if stored.group else ():
            key = _CommittedPlace(stored.group, topic, partition)
            commit = _Commit(offset, stored.client, stored.member)
            before = self._latest.get(key)
            if before is not None and offset < before.offset:
                self._goes_back(stored, key, before, commit)
            elif key in self._behind and offset >= self._behind[key].highest:
                del self._behind[key]
            self._latest[key] = commit

    def _given(self, exchange: Exchange) -> None:
        """Check whether a consumer gets a lower offset, so that it starts there.

        The member that committed the lower offset may request its commits, too, and continues where it is.
        """
        request, response = exchange.request_body, exchange.response_body
        for body in rows(response, "groups") or (response,):
            group = text(body, "group_id") or text(request, "group_id")
            for (topic, partition), row in rows_by_partition(body, "topics", self.context.names):
                key, offset = _CommittedPlace(group, topic, partition), number(row, "committed_offset")
                behind = self._behind.get(key)
                if behind is None or behind.connection == exchange.connection:
                    continue
                if 0 <= offset < behind.highest:
                    behind.back.given += behind.highest - offset
                    del self._behind[key]

    def _goes_back(
        self, stored: StoredCommit, key: _CommittedPlace, before: _Commit, commit: _Commit
    ) -> None:
        if before.member and not commit.member:
            kind = _Committer.RESET
        else:
            kind = (
                _Committer.SELF
                if (before.client, before.member) == (commit.client, commit.member)
                else _Committer.OTHER
            )
        back = self._found.setdefault((key.group, key.topic, kind), _LowerCommits())
        known = self._behind.get(key)
        highest = before.offset if known is None else max(known.highest, before.offset)
        self._behind[key] = _LowerPartition(highest, stored.connection, back)
        if back.number != stored.number:
            back.seen.note(stored.number, stored.time)
            back.number = stored.number
        back.partitions.add(key.partition)
        distance = before.offset - commit.offset
        back.offsets += distance
        if distance > back.farthest:
            back.farthest = distance
            by = "" if commit.client == before.client else f" by {before.client}"
            where = f"{key.topic}-{key.partition}"
            back.example = f"{where} from {before.offset:,}{by} to {commit.offset:,} by {commit.client}"

    def findings(self) -> Iterator[Finding]:
        self._take_in(math.inf)
        for (group, topic, kind), back in self._found.items():
            offsets = words.counted(back.offsets, "offset")
            shown = f"api == OffsetCommit and {of_group(group)} and {of_topic(topic)}"
            if kind is _Committer.RESET:
                yield self.finding(
                    f"group {group}, topic {topic}, reset",
                    f"A client that is not a member set the offsets of group {group} back by {offsets} in all: "
                    f"{back.example}.",
                    "Nothing to do if an administrator reset them (kafka-consumer-groups.sh --reset-offsets).",
                    back.seen,
                    filter_text=shown,
                    severity=Severity.LOW,
                )
                continue
            then = (
                f"A consumer was then given {words.counted(back.given, 'offset')} to read again."
                if back.given
                else "A consumer that starts there reads them again."
            )
            yield self.finding(
                f"group {group}, topic {topic}" + (", other member" if kind is _Committer.OTHER else ""),
                f"Group {group} committed {times(back.seen.count)} below an earlier commit "
                f"({partitions_shown(back.partitions)} of {topic}, {offsets} in all): {back.example}. {then}",
                "Commit in onPartitionsRevoked, and not after partitions were lost. Do not send an older commitAsync "
                "again after a later one. Check whether two programs use this group.id, and whether the topic was "
                "created again.",
                back.seen,
                filter_text=shown,
                severity=Severity.LOW if kind is _Committer.SELF and not back.given else None,
            )


def _offsets_by_place(rows: DecisionColumns, asked: PartitionOffsets) -> dict[_CommittedPlace, _Offsets]:
    """Return the offsets of commits, which are sorted by group, partition and time."""
    if not len(asked.rows):
        return {}
    group, offsets = rows.group[asked.rows], asked.offsets
    changes = (np.diff(group) != 0) | (np.diff(asked.places) != 0)
    begins = np.append(0, np.flatnonzero(changes) + 1)
    back = np.append(False, ~changes & (np.diff(offsets) < 0))
    columns = [group[begins], asked.places[begins], offsets[begins]]
    columns += [offsets[np.append(begins[1:], len(offsets)) - 1], np.logical_or.reduceat(back, begins)]
    _, topics = rows.topics("asked_topics")
    groups = rows.columns.texts("groups")
    found = {}
    for code, key, *of_place in zip(*(column.tolist() for column in columns), strict=True):
        topic, partition = PartitionOffsets.split(key)
        name = (groups[code] if code >= 0 else None) or ""
        found[_CommittedPlace(name, topics[topic], partition)] = _Offsets(*of_place)
    return found


def _groups_going_back(parts: Sequence[Mapping[_CommittedPlace, _Offsets]]) -> set[str]:
    """Return the groups that asked to commit a lower offset than before."""
    found, last = set[str](), dict[_CommittedPlace, int]()
    for part in parts:
        for key, offsets in part.items():
            if offsets.back or offsets.first < last.get(key, offsets.first):
                found.add(key.group)
            last[key] = offsets.last
    return found


# ---------------------------------------------------------------- stuck_position

_READ_COMMITTED = 1
_LONG_STAY = 5
"""Multiple of the threshold after which a large batch no longer explains commits that stand still."""


class _FetchedPartition(NamedTuple):
    """A partition as fetched on one connection."""

    connection: int
    client: str
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
            Unit.MS,
            "time for which the same offset is fetched, from which a finding is reported",
        ),
        Threshold("committed", 60_000, Unit.MS, "the same for commits of one offset"),
        Threshold("times", 3, Unit.COUNT, "least number of fetches or commits in that time"),
    )
    unseen = NO_FETCH

    _fetched: dict[_FetchedPartition, _StuckPosition] = {}
    _committed: dict[_CommittedPlace, _StuckPosition] = {}
    _ends: dict[tuple[str, int], int] = {}
    _clients: dict[tuple[str, str, int], _StuckPosition] = {}
    _groups: dict[_CommittedPlace, _StuckPosition] = {}

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
            position = _CommittedPlace(group, topic, partition)
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
            why, advice = _stay_explained(standing)
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
            long = standing.stay >= _LONG_STAY * self.limit("committed") * MS
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


def _stay_explained(standing: _StuckPosition) -> tuple[str, str]:
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
