"""Groups whose committed offsets go back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec
import numpy as np

from captures.analysis.commit_columns import CommitColumns, StoredCommit
from captures.analysis.conditions import of_group, of_topic
from captures.analysis.decision_columns import DecisionColumns, PartitionOffsets
from captures.analysis.findings.common import partitions_shown
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext, times
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import words
from captures.meaning.exchange import number, rows, text
from captures.meaning.topic_partitions import rows_by_partition
from dissectors.api_keys import ApiKey


class _Key(NamedTuple):
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


class _Kind(Enum):
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

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._latest: dict[_Key, _Commit] = {}
        self._behind: dict[_Key, _LowerPartition] = {}
        self._found: dict[tuple[str, str, _Kind], _LowerCommits] = {}
        self._stored: CommitColumns | None = None

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
            key = _Key(stored.group, topic, partition)
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
                key, offset = _Key(group, topic, partition), number(row, "committed_offset")
                behind = self._behind.get(key)
                if behind is None or behind.connection == exchange.connection:
                    continue
                if 0 <= offset < behind.highest:
                    behind.back.given += behind.highest - offset
                    del self._behind[key]

    def _goes_back(self, stored: StoredCommit, key: _Key, before: _Commit, commit: _Commit) -> None:
        if before.member and not commit.member:
            kind = _Kind.RESET
        else:
            kind = (
                _Kind.SELF
                if (before.client, before.member) == (commit.client, commit.member)
                else _Kind.OTHER
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
            if kind is _Kind.RESET:
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
                f"group {group}, topic {topic}" + (", other member" if kind is _Kind.OTHER else ""),
                f"Group {group} committed {times(back.seen.count)} below an earlier commit "
                f"({partitions_shown(back.partitions)} of {topic}, {offsets} in all): {back.example}. {then}",
                "Commit in onPartitionsRevoked, and not after partitions were lost. Do not send an older commitAsync "
                "again after a later one. Check whether two programs use this group.id, and whether the topic was "
                "created again.",
                back.seen,
                filter_text=shown,
                severity=Severity.LOW if kind is _Kind.SELF and not back.given else None,
            )


def _offsets_by_place(rows: DecisionColumns, asked: PartitionOffsets) -> dict[_Key, _Offsets]:
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
        found[_Key(name, topics[topic], partition)] = _Offsets(*of_place)
    return found


def _groups_going_back(parts: Sequence[Mapping[_Key, _Offsets]]) -> set[str]:
    """Return the groups that asked to commit a lower offset than before."""
    found, last = set[str](), dict[_Key, int]()
    for part in parts:
        for key, offsets in part.items():
            if offsets.back or offsets.first < last.get(key, offsets.first):
                found.add(key.group)
            last[key] = offsets.last
    return found
