"""Which process fetched which partition when, and how far; kept as runs, so that memory does not grow with time.

A Fetch names no group: :class:`~captures.filters.groups.GroupInference` infers it, as for filters. Fetches whose group
cannot be inferred belong to none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import chain, pairwise
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.commit_columns import StoredCommit
from captures.analysis.fetch_sessions import FetchSessions, ObservedFetch
from captures.analysis.position_columns import ExchangePositions
from captures.analysis.record_traffic import RecordTraffic
from captures.exchanges import Exchange
from captures.filters.groups import GroupInference
from captures.meaning import Names
from captures.meaning.exchange import text
from captures.meaning.topic_partitions import TopicPartition
from dissectors.api_keys import MEMBER_APIS, ApiKey

NEEDED = MEMBER_APIS | {ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT}
"""APIs whose exchanges show who fetches what; others need not be added."""
PAUSE = 200_000_000
"""ns without a fetch that end a run. A client that fetches without pause sends its next Fetch within a few ms."""
MOST_RUNS = 80
"""Runs of a partition that are kept of one process; if there are more, those with the shortest pauses between them are
merged."""
_KEPT_RUNS = 64
"""Runs that are kept then: if few can be merged, merging must not be tried again for each new run."""
MOST_OWNERS = 256
"""Processes of a group whose runs of a partition are kept; the one that fetched it longest ago is dropped."""
RECENT = 10_000_000_000
"""ns before a group's latest fetch of a partition in which fetches of its other processes count as latest, too."""
MOST_LINES = 4096
"""Connections that are followed; the one that was idle longest is taken as closed."""


class Owner(NamedTuple):
    """A client process, as far as its requests identify it.

    :ivar client: client ID, or address without one
    :ivar host: address without port
    """

    client: str
    host: str


class _Fetch(NamedTuple):
    """A Fetch or ShareFetch of a consumer.

    :ivar member: ID of the member of a share group; empty for others
    :ivar group_of: returns the group of the consumer, as far as it is known; None if it is not
    :ivar reached: each partition in the response, with the offset after its last record and its high watermark; -1 if
        unknown
    """

    number: int
    time: int
    connection: int
    owner: Owner
    shares: bool
    member: str
    group_of: Callable[[], str | None]
    seen: ObservedFetch
    reached: list[tuple[TopicPartition, int, int]]


class CommittedOffset(NamedTuple):
    """The latest successful commit of an offset.

    :ivar time: time of the response
    :ivar member: ID of the member that committed it; empty if unknown
    """

    offset: int
    time: int
    member: str
    number: int


class PriorProgress(NamedTuple):
    """The progress of a client in a partition when another client, or the same one again, began to fetch it.

    :ivar reached: offset after the last fetched record
    :ivar time: time of the response to its latest Fetch
    :ivar number: number of that Fetch
    """

    owner: Owner
    reached: int
    time: int
    number: int


class FetchLine(msgspec.Struct, eq=False):
    """The fetches of a connection, one after another.

    :ivar group: group of the fetching member; empty while unknown
    :ivar shares: whether these are share fetches, which have no offsets
    :ivar end: time of the response to the latest fetch, or of its request if it was not answered
    :ivar last: number of the latest fetch
    """

    connection: int
    owner: Owner
    shares: bool
    end: int
    group: str = ""
    last: int = 0


class FetchRun(msgspec.Struct, eq=False):
    """One partition, fetched again and again without pause on one connection.

    :ivar begin: ns since the epoch, time of the first Fetch
    :ivar first: number of the first Fetch
    :ivar offset: offset that it requested; -1 if it has none, as in share fetches
    :ivar reached: offset after the last fetched record; -1 if unknown
    :ivar behind: records from ``offset`` to the end of the partition in the first response; -1 if unknown
    :ivar before: progress of the previous consumers of the partition at that time
    :ivar committed: group -> its latest commit at that time: of the group of ``line``, or of all groups if that was
        unknown; None if unknown, because commits name the topic and this Fetch had only its ID
    """

    line: FetchLine
    begin: int
    first: int
    offset: int
    reached: int
    before: tuple[PriorProgress, ...] = ()
    committed: dict[str, CommittedOffset] | None = {}
    behind: int = -1
    _end: int = -1
    _last: int = -1

    @property
    def open(self) -> bool:
        """Whether the connection still fetches the partition."""
        return self._end < 0

    @property
    def end(self) -> int:
        """Time of the response to the last Fetch, or of its request if it was not answered."""
        return self.line.end if self._end < 0 else self._end

    @property
    def last(self) -> int:
        """Number of the last Fetch."""
        return self.line.last if self._end < 0 else self._last

    def close(self) -> None:
        """End the run at the latest fetch of its line."""
        if self._end < 0:
            self._end, self._last = self.line.end, self.line.last

    def reopen(self) -> None:
        """Continue the run with its line."""
        self._end = self._last = -1

    def take_over(self, later: FetchRun) -> None:
        """Merge `later` into this run; both must be closed."""
        self.line = later.line
        self._end, self._last = max((self._end, self._last), (later._end, later._last))
        self.reached = later.reached


class _Runs:
    """The fetches of a partition.

    :ivar by_group: group at the start of a run, or empty if it was unknown -> process -> its runs in the order of their
        starts
    """

    def __init__(self) -> None:
        self.by_group: dict[str, dict[Owner, list[FetchRun]]] = {}

    def add(self, run: FetchRun) -> list[FetchRun]:
        """Add a run that begins; return the runs of its process in its group."""
        owner, by_owner = run.line.owner, self.by_group.setdefault(run.line.group, {})
        if owner not in by_owner and len(by_owner) >= MOST_OWNERS:
            del by_owner[min(by_owner, key=lambda each: by_owner[each][-1].end)]
        runs = by_owner.setdefault(owner, [])
        runs.append(run)
        return runs

    def merge(self, other: _Runs) -> None:
        """Add the runs of other processes from `other`."""
        for group, by_owner in other.by_group.items():
            self.by_group.setdefault(group, {}).update(by_owner)

    def before(self, group: str) -> tuple[PriorProgress, ...]:
        """Return the progress of the latest consumers of the partition in `group`: the last run of each process.

        :param group: group of the member that begins to fetch; empty if unknown, so that it may be any
        """
        last: dict[Owner, FetchRun] = {}
        # a group may have become known after the start of a run
        for name in ("", group) if group else self.by_group:
            for owner, runs in self.by_group.get(name, {}).items():
                for run in reversed(runs):
                    if not group or run.line.group in ("", group):
                        if owner not in last or last[owner].first < run.first:
                            last[owner] = run
                        break
        latest: dict[str | Owner, list[FetchRun]] = {}
        for owner, run in last.items():
            # processes of unknown groups may belong to different groups
            latest.setdefault(run.line.group or owner, []).append(run)
        found = []
        for runs in latest.values():
            ends = [run.end for run in runs]
            since = max(ends) - RECENT
            found += [
                PriorProgress(run.line.owner, run.reached, end, run.last)
                for run, end in zip(runs, ends, strict=True)
                if run.reached >= 0 and end >= since
            ]
        if len(found) > MOST_OWNERS:
            found = sorted(found, key=lambda each: each.time)[-MOST_OWNERS:]
        return tuple(found)


class Consumption:
    """Collects what consumers fetch; exchanges of a connection must be added in order, each once.

    :param names: resolves topic IDs, also when the result is read
    :param traffic: contents of Produce and Fetch, if shared with others
    """

    def __init__(self, names: Names, traffic: RecordTraffic | None = None) -> None:
        self._names = names
        self._inference = GroupInference(names)
        self._traffic = traffic or RecordTraffic(names)
        # others that read the traffic do not see every Fetch
        self._sessions = FetchSessions(names)
        self._lines: dict[tuple[int, str], FetchLine] = {}
        self._runs: dict[TopicPartition, _Runs] = defaultdict(_Runs)
        self._current: dict[FetchLine, dict[TopicPartition, FetchRun]] = {}
        self._committed: dict[TopicPartition, dict[str, CommittedOffset]] = {}

    def add(self, exchange: Exchange) -> None:
        """Add one exchange of any API."""
        key = exchange.api_key
        if key in MEMBER_APIS:
            self._inference.observe(exchange)
        if key in (ApiKey.FETCH, ApiKey.SHARE_FETCH):
            seen = self._sessions.add(exchange)
            if seen is not None and seen.replica < 0:
                self._fetched(self._fetch_of(exchange, seen))
        elif key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT):
            self.commit(StoredCommit.of(exchange, self._traffic.committed(exchange)))

    # ------------------------------------------------------------ fetches
    def fetch(self, number: int, row: ExchangePositions) -> None:
        """Add a Fetch that was read from columns."""
        step = row.step
        if step is None:
            return
        seen = self._sessions.follow((row.connection, ""), step, row.end, row.replica)
        if row.replica >= 0:
            return
        self._fetched(
            _Fetch(
                number,
                row.time,
                row.connection,
                Owner(row.client, row.named[1]),
                shares=False,
                member="",
                group_of=lambda: self._inference.infer(
                    row.connection, row.named, lambda: {tp for tp, _ in step.asked}
                ),
                seen=seen,
                reached=[(tp, reached, mark) for tp, mark, _, reached in row.answers],
            )
        )

    def _fetch_of(self, exchange: Exchange, seen: ObservedFetch) -> _Fetch:
        shares = exchange.api_key == ApiKey.SHARE_FETCH
        parts = () if shares else self._traffic.fetched(exchange)
        return _Fetch(
            exchange.number,
            exchange.time,
            exchange.connection,
            Owner(client_name(exchange), exchange.client.rpartition(":")[0]),
            shares,
            text(exchange.request_body, "member_id"),
            lambda: self._inference.group_of(exchange)[0],
            seen,
            [(part.topic_partition, part.behind, part.high_watermark) for part in parts],
        )

    def _fetched(self, fetch: _Fetch) -> None:
        line, seen = self._line(fetch), fetch.seen
        current = self._current[line]
        paused = fetch.time - line.end > PAUSE
        if paused:
            for open_run in current.values():
                open_run.close()
        else:
            for tp in seen.dropped:
                if tp in current:
                    current[tp].close()
        line.end, line.last = max(line.end, seen.end), fetch.number
        if paused:
            for tp in current.keys() - seen.session.partitions.keys():
                del current[tp]
            for tp, offset in seen.session.partitions.items():
                self._begin(line, tp, fetch, offset)
        for tp, offset in seen.asked:
            self._asked(line, tp, fetch, offset)
        for tp, reached, high_watermark in fetch.reached:
            run = current.get(tp)
            if run is not None:
                run.reached = max(run.reached, reached)
                if run.first == fetch.number and min(high_watermark, run.offset) >= 0:
                    run.behind = max(high_watermark - run.offset, 0)

    def _line(self, fetch: _Fetch) -> FetchLine:
        of = fetch.connection, fetch.member
        line = self._lines.pop(of, None)
        if line is None:
            # the first Fetch starts runs like one after a pause
            line = FetchLine(fetch.connection, fetch.owner, fetch.shares, fetch.time - PAUSE - 1)
            self._current[line] = {}
        self._lines[of] = line  # most recently used last
        if len(self._lines) > MOST_LINES:
            idle = self._lines.pop(next(iter(self._lines)))
            for run in self._current.pop(idle).values():
                run.close()
        if not line.group:
            line.group = fetch.group_of() or ""
        return line

    def _asked(self, line: FetchLine, tp: TopicPartition, fetch: _Fetch, offset: int) -> None:
        run = self._current[line].get(tp)
        paused = run is not None and not run.open and fetch.time - run.end > PAUSE
        if run is None or paused or 0 <= offset < run.reached:
            self._begin(line, tp, fetch, offset)
        else:
            run.reopen()
            run.reached = max(run.reached, offset)

    def _begin(self, line: FetchLine, tp: TopicPartition, fetch: _Fetch, offset: int) -> None:
        current = self._current[line]
        known = current.get(tp)
        if known is not None:
            known.close()
        of_partition = self._runs[tp]
        run = FetchRun(
            line,
            fetch.time,
            fetch.number,
            offset,
            offset,
            of_partition.before(line.group),
            None if self._sessions.is_unnamed(tp.topic) else self._committed_to(tp, line.group),
        )
        runs = of_partition.add(run)
        if len(runs) > MOST_RUNS:
            self._end_idle(tp, runs, fetch.time)
            runs[:] = _thinned(runs)
        current[tp] = run

    def _committed_to(self, tp: TopicPartition, group: str) -> dict[str, CommittedOffset]:
        """Return the latest commits of a partition: that of `group`, or of all groups if it is empty."""
        known = self._committed.get(tp, {})
        if not group:
            return dict(known)
        return {group: known[group]} if group in known else {}

    def _end_idle(self, tp: TopicPartition, runs: list[FetchRun], now: int) -> None:
        """Close runs on idle connections; if a connection is used again, its runs start again as after a pause."""
        for run in runs:
            if run.open and now - run.line.end > PAUSE:
                run.close()
                self._current[run.line].pop(tp, None)

    # ------------------------------------------------------------ commits
    def commit(self, stored: StoredCommit) -> None:
        for tp, offset in stored.offsets:
            known = self._committed.setdefault(tp, {})
            if stored.group not in known or known[stored.group].time <= stored.end:
                known[stored.group] = CommittedOffset(offset, stored.end, stored.member, stored.number)

    # ------------------------------------------------------------ results
    def merge(self, other: Consumption) -> None:
        """Merge the fetches of other client processes from `other`."""
        for tp, of_partition in other._runs.items():
            self._runs[tp].merge(of_partition)

    def by_group(self) -> dict[str, dict[TopicPartition, list[FetchRun]]]:
        """Return the fetches of members: group -> partition -> runs in the order of time."""
        found: dict[str, dict[TopicPartition, list[FetchRun]]] = {}
        for tp, of_partition in self._runs.items():
            named = tp._replace(topic=self._names(tp.topic) or tp.topic)
            for by_owner in of_partition.by_group.values():
                for run in chain.from_iterable(by_owner.values()):
                    found.setdefault(run.line.group, {}).setdefault(named, []).append(run)
        for of_group in found.values():
            for runs in of_group.values():
                runs.sort(key=lambda run: (run.begin, run.first))
        return found


def _thinned(runs: list[FetchRun]) -> list[FetchRun]:
    """Merge runs across the shorter half of their pauses, and keep the latest :data:`_KEPT_RUNS`."""
    pauses = sorted(later.begin - run.end for run, later in pairwise(runs) if _continues(run, later))
    longest = pauses[len(pauses) // 2] if pauses else 0
    kept = runs[:1]
    for run in runs[1:]:
        last = kept[-1]
        if _continues(last, run) and run.begin - last.end <= longest:
            last.take_over(run)
        else:
            kept.append(run)
    return kept[-_KEPT_RUNS:]


def _continues(run: FetchRun, later: FetchRun) -> bool:
    """Return whether `later` continues where `run` ended."""
    back = 0 <= later.offset < run.reached
    return not (run.open or later.open or back) and run.line.group == later.line.group
