"""Consumers on their way from a missing offset to the one at which they continue.

A consumer uses one connection to the coordinator and others to the leaders, so it is identified by its client ID and
host. Requesting offsets proves nothing, because tools do that too: a reset counts once the consumer fetches from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.fetch_sessions import ObservedFetch
from captures.analysis.findings.finding import Occurrences
from captures.analysis.record_traffic import CommittedPartition, FetchedPartition
from captures.exchanges import Exchange
from captures.meaning import Names
from captures.meaning.exchange import Body, number, rows, text
from captures.meaning.topic_partitions import rows_by_partition
from dissectors.error_codes import ErrorCode

_LATEST, _EARLIEST = -1, -2


class Policy(Enum):
    """The target of ``auto.offset.reset``; the value is its setting."""

    LATEST = "latest"
    EARLIEST = "earliest"
    BY_DURATION = "by_duration"
    """KIP-1106."""


_POLICIES = {_LATEST: Policy.LATEST, _EARLIEST: Policy.EARLIEST}


class ResetReason(Enum):
    """Why a consumer had no valid position."""

    OUT_OF_RANGE = "out of range"
    NO_COMMIT = "no commit"
    LOST_COMMIT = "lost commit"
    """No commit, though the group had committed for the partition."""
    SOME_COMMITS = "no commit for some"
    """No commit for this partition, but for others of the topic."""
    NEW_PARTITION = "new partition"
    """No commit, and the partition was added after the capture began."""


class Reader(NamedTuple):
    """A consumer and a partition; a consumer uses different connections to coordinator and leaders."""

    client: str
    host: str
    topic: str
    partition: int


class LostPosition(msgspec.Struct):
    """A consumer that needs a new position.

    :ivar position: the offset that it requested, or its group's commit; -1 if none
    :ivar log_start: first offset of the log then; -1 if unknown
    :ivar found: timestamp -> offset in ListOffsets responses
    """

    why: ResetReason
    number: int
    time: int
    group: str = ""
    position: int = -1
    log_start: int = -1
    found: dict[int, int] = {}


class About(NamedTuple):
    """The key by which resets are combined."""

    client: str
    group: str
    topic: str
    why: ResetReason
    policy: Policy


class Reset(msgspec.Struct):
    """Combined resets of positions.

    :ivar skipped: number of offsets that are not read
    :ivar removed: how many of them had been removed from the log
    :ivar beyond: number of partitions whose position was after the end
    :ivar refetched: number of offsets that are read again, as far as the end is known
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    partitions: set[int] = set()
    skipped: int = 0
    removed: int = 0
    beyond: int = 0
    refetched: int = 0
    example: str = ""


class _EndPosition(msgspec.Struct):
    """A position that was set to the end of a log whose start is still unknown."""

    about: About
    partition: int
    offset: int


class Resets:
    """Follows consumers; exchanges must be added in the order of their numbers.

    :ivar found: resets
    :ivar lost: consumers that need a new position
    """

    def __init__(self) -> None:
        self.lost: dict[Reader, LostPosition] = {}
        self.found: dict[About, Reset] = {}
        self._fresh: dict[Reader, _EndPosition] = {}
        self._committed: dict[tuple[str, str], dict[int, int]] = {}
        self._partitions: dict[str, int] = {}

    # ------------------------------------------------------------ lost positions
    def fetch(self, exchange: Exchange, seen: ObservedFetch, partitions: Iterable[FetchedPartition]) -> None:
        """Add a Fetch of a consumer."""
        for (topic, partition), offset in seen.asked:
            reader = _reader(exchange, topic, partition)
            self._fresh.pop(reader, None)
            lost = self.lost.get(reader)
            if lost is not None and offset != lost.position:
                del self.lost[reader]
                self._continues_from(reader, lost, offset)
        for part in partitions:
            reader = _reader(exchange, *part.topic_partition)
            begin, error = part.log_start, part.error
            if error == ErrorCode.OFFSET_OUT_OF_RANGE:
                position = seen.session.partitions.get(part.topic_partition, -1)
                if position >= 0 and reader not in self.lost:
                    self.lost[reader] = LostPosition(
                        ResetReason.OUT_OF_RANGE, exchange.number, exchange.time, "", position, begin
                    )
            elif not error:
                # another replica may have records that one lacks (KIP-392)
                self.lost.pop(reader, None)
                if begin >= 0 and reader in self._fresh:
                    self._measure(self._fresh.pop(reader), begin)

    def offset_fetch(self, exchange: Exchange, names: Names) -> None:
        """Add an OffsetFetch, with which a consumer gets the commits of its group.

        :param names: resolves topic IDs
        """
        request, response = exchange.request_body, exchange.response_body
        for body in rows(response, "groups") or (response,):
            group = text(body, "group_id") or text(request, "group_id")
            if group and not number(body, "error_code", 0):
                self._answered_commits(exchange, group, body, names)

    def _answered_commits(self, exchange: Exchange, group: str, body: Body, names: Names) -> None:
        found = [
            (_reader(exchange, *tp), number(row, "committed_offset", 0))
            for tp, row in rows_by_partition(body, "topics", names)
            if not number(row, "error_code", 0)
        ]
        for reader, offset in found:
            if offset >= 0:
                self._committed.setdefault((group, reader.topic), {})[reader.partition] = offset
                self.lost.pop(reader, None)
        for reader, offset in found:
            if offset < 0:
                known = self._committed.get((group, reader.topic), {})
                self.lost[reader] = LostPosition(
                    self._why(reader, known),
                    exchange.number,
                    exchange.time,
                    group,
                    known.get(reader.partition, -1),
                )

    def _why(self, reader: Reader, committed: dict[int, int]) -> ResetReason:
        """Return why a group has no commit for a partition, by its commits for the topic."""
        if reader.partition in committed:
            return ResetReason.LOST_COMMIT
        if not committed:
            return ResetReason.NO_COMMIT
        added = reader.partition >= self._partitions.get(reader.topic, reader.partition + 1)
        return ResetReason.NEW_PARTITION if added else ResetReason.SOME_COMMITS

    def commit(self, exchange: Exchange, committed: Iterable[CommittedPartition]) -> None:
        """Add a commit of a group."""
        group = text(exchange.request_body, "group_id")
        if not group or exchange.errors or exchange.response is None:
            return
        for (topic, partition), offset, _ in committed:
            self._committed.setdefault((group, topic), {})[partition] = offset

    # ------------------------------------------------------------ new positions
    def metadata(self, exchange: Exchange) -> None:
        """Add a Metadata exchange: keep the first partition count of each topic."""
        for row in rows(exchange.response_body, "topics"):
            name, count = text(row, "name"), len(rows(row, "partitions"))
            if name and count:
                self._partitions.setdefault(name, count)

    def list_offsets(self, exchange: Exchange, names: Names) -> None:
        """Add a ListOffsets, with which a consumer gets offsets to continue at.

        :param names: resolves topic IDs
        """
        times = {
            tp: number(row, "timestamp", 0)
            for tp, row in rows_by_partition(exchange.request_body, "topics", names)
        }
        for tp, row in rows_by_partition(exchange.response_body, "topics", names):
            lost, offset = self.lost.get(_reader(exchange, *tp)), _offset(row)
            if lost is not None and offset >= 0 and tp in times:
                time = times[tp]
                lost.found[time] = offset
                if time == _EARLIEST and lost.log_start < 0:
                    lost.log_start = offset

    def _continues_from(self, reader: Reader, lost: LostPosition, offset: int) -> None:
        time = next((time for time, found in lost.found.items() if found == offset), None)
        if time is None:
            return  # its position comes from elsewhere, such as the application
        policy = _POLICIES.get(time, Policy.BY_DURATION)
        about = About(reader.client, lost.group, reader.topic, lost.why, policy)
        reset = self.found.setdefault(about, Reset())
        reset.seen.note(lost.number, lost.time)
        reset.partitions.add(reader.partition)
        place = f"{reader.topic}-{reader.partition}"
        if lost.position < 0:
            if policy is not Policy.EARLIEST:
                self._fresh[reader] = _EndPosition(about, reader.partition, offset)
                if lost.log_start >= 0:
                    self._measure(self._fresh.pop(reader), lost.log_start)
            return
        reset.example = reset.example or f"{place} from {lost.position:,} to {offset:,}"
        if offset > lost.position:
            reset.skipped += offset - lost.position
            reset.removed += max(min(lost.log_start, offset) - lost.position, 0)
        elif lost.why is ResetReason.OUT_OF_RANGE:
            # it went back, so it was not before the start: it was after the end
            reset.beyond += 1
            reset.refetched += max(lost.found.get(_LATEST, offset) - offset, 0)
        else:
            reset.refetched += lost.position - offset

    def _measure(self, fresh: _EndPosition, begin: int) -> None:
        if fresh.offset > begin:
            reset = self.found[fresh.about]
            reset.skipped += fresh.offset - begin
            reset.example = (
                reset.example
                or f"{fresh.about.topic}-{fresh.partition} begins at {begin:,}, and it at {fresh.offset:,}"
            )


def _reader(exchange: Exchange, topic: str, partition: int) -> Reader:
    return Reader(client_name(exchange), exchange.client.rpartition(":")[0], topic, partition)


def _offset(row: Body) -> int:
    """Return the offset in a ListOffsets response: a single one, or in version 0 a list with the newest first."""
    old = row.get("old_style_offsets")
    if isinstance(old, tuple | list) and old and isinstance(old[0], int):
        return old[0]
    return number(row, "offset")
