"""The cost of rebalances: partitions that no member consumed, records that are fetched again, failed commits.

A pause in the fetching of a partition is attributed to a rebalance only if it is longer than :data:`LEAST_STOP` and
than the usual pauses of that partition without a rebalance. It counts once: for the rebalance that moved the partition,
or else for the first that overlaps it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, islice

import msgspec

from captures.analysis.groups.calls import Call, Commit, GroupCalls
from captures.analysis.groups.consumption import FetchRun, Owner, PriorProgress
from captures.analysis.groups.model import (
    LEAST_STOP,
    CommitFailure,
    GroupTimeline,
    Rebalance,
    RepeatedFetch,
    Stop,
    TopicPartition,
)
from captures.analysis.groups.vocabulary import Kind, Trait
from dissectors.error_codes import ErrorCode, error_name
from dissectors.units import SECOND


class RebalanceContext(msgspec.Struct, frozen=True, eq=False):
    """A rebalance with its surroundings.

    :ivar end: when it ended; the start of the next one if that was not seen
    :ivar next: start of the next one; the end of the capture if it is the last
    :ivar eager: whether members revoke all their partitions when it begins
    :ivar moved: partitions that changed hands
    :ivar owners: partition -> processes that own it afterwards, as far as known
    :ivar hidden: partitions of members whose fetches are not in the capture
    :ivar whole: whether the fetches of all members are in the capture
    :ivar wanted: partitions assigned to any member; None if unknown
    """

    rebalance: Rebalance
    end: int
    next: int
    eager: bool
    moved: frozenset[TopicPartition]
    owners: dict[TopicPartition, set[Owner]]
    hidden: set[TopicPartition]
    whole: bool
    wanted: set[TopicPartition] | None

    @property
    def begin(self) -> int:
        return self.rebalance.time

    def shows(self, tp: TopicPartition) -> bool:
        """Return whether the capture has the fetches of every possible owner of a partition afterwards."""
        if tp in self.owners or self.rebalance.emptied:
            return tp not in self.hidden
        return self.whole


class RebalanceContexts:
    """The rebalances of a group in the order of time.

    :param fetching: the processes whose fetches are in the capture
    :param now: ns since the epoch, end of the capture
    """

    def __init__(self, timeline: GroupTimeline, fetching: set[Owner], now: int) -> None:
        self._owners = {
            member_id: Owner(member.client, member.host)
            for member in timeline.members
            for member_id in (member.member, *member.former)
        }
        self._fetching = {member for member, owner in self._owners.items() if owner in fetching}
        rebalances = timeline.rebalances
        self.every = [
            self._context(each, rebalances[index - 1] if index else None, [*rebalances, None][index + 1], now)
            for index, each in enumerate(rebalances)
        ]
        self._begins = [context.begin for context in self.every]
        self._ends = list(accumulate((context.end for context in self.every), max))

    def meeting(self, begin: int, end: int) -> list[RebalanceContext]:
        """Return the rebalances that overlap the time from `begin` to `end`."""
        low, high = bisect_left(self._ends, begin), bisect_right(self._begins, end)
        return [context for context in self.every[low:high] if context.end >= begin]

    def latest(self, time: int) -> RebalanceContext | None:
        """Return the last rebalance that had begun at `time`; None if none had."""
        begun = bisect_right(self._begins, time)
        return self.every[begun - 1] if begun else None

    def shown(self, tp: TopicPartition, begin: int, end: int) -> bool:
        """Return whether the capture has the fetches of every possible owner of a partition from `begin` to `end`."""
        low, high = bisect_left(self._begins, begin), bisect_right(self._begins, end)
        return all(context.shows(tp) for context in self.every[max(low - 1, 0) : high])

    def _context(
        self, each: Rebalance, before: Rebalance | None, after: Rebalance | None, now: int
    ) -> RebalanceContext:
        following = now if after is None else after.time
        unseen = now if each.running else following
        end = max(unseen if each.end is None else each.end, each.time)
        owners: dict[TopicPartition, set[Owner]] = {}
        hidden: set[TopicPartition] = set()
        for member, partitions in each.assigned.items():
            owner = self._owners.get(member)
            for tp in partitions:
                known = owners.setdefault(tp, set())
                if owner is not None:
                    known.add(owner)
                if member not in self._fetching:
                    hidden.add(tp)
        # in a running rebalance no member has partitions yet: use those before it
        last = before if each.running and before is not None else each
        return RebalanceContext(
            rebalance=each,
            end=end,
            next=following,
            eager=each.kind is Kind.CLASSIC and not each.cooperative,
            moved=frozenset(move.tp for move in each.moved),
            owners=owners,
            hidden=hidden,
            whole=self._whole(last),
            wanted=set().union(*last.assigned.values()) if last.assigned else None,
        )

    def _whole(self, rebalance: Rebalance) -> bool:
        with_none = {member for member, partitions in rebalance.assigned.items() if not partitions}
        known = rebalance.size == len(rebalance.members)
        return known and self._fetching.issuperset(set(rebalance.members) - with_none)


_AT_THE_END = 2 * SECOND
"""ns; a partition whose last fetch is no further from the end of the capture may have been about to be fetched."""
_SOON = 10 * SECOND
"""ns after a rebalance within which its members' actions are attributed to it."""
_JUST_BEFORE = 200_000_000
"""ns before a rebalance within which a member that leaves commits what it has consumed."""

_HABIT = 5
"""Fewest pauses that show the usual length."""

_OF_REBALANCES = frozenset({
    ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH,
})  # fmt: skip
"""Errors of commits that a rebalance causes."""


def fill_effects(
    timeline: GroupTimeline, calls: GroupCalls, fetched: Mapping[TopicPartition, list[FetchRun]], now: int
) -> None:
    """Fill ``stopped``, ``consumed_on``, ``again``, ``commit_failures`` of a group's rebalances, and its ``pauses``.

    This requires ``time``, ``end``, ``generation``, ``before``, ``causes``, ``members``, ``size``, ``moved``,
    ``assigned``, ``cooperative`` and ``emptied``, and the members of the timeline.

    :param fetched: what the members fetched: partition -> runs in the order of time
    :param now: ns since the epoch, end of the capture
    """
    if not timeline.rebalances:
        return
    for rebalance, failure in _commit_failures(calls.calls, timeline.rebalances):
        rebalance.commit_failures.append(failure)
    if timeline.of_workers:
        return  # they consume nothing as members of this group
    contexts = RebalanceContexts(timeline, {run.line.owner for runs in fetched.values() for run in runs}, now)
    for (topic, partition), runs in sorted(fetched.items()):
        tp = TopicPartition(topic, partition)
        timeline.pauses += _fill_stops(tp, runs, contexts, now)
        _fill_again(tp, runs, contexts, timeline.group)


# ---------------------------------------------------------------- partitions that no member consumed
class _Pause(msgspec.Struct, frozen=True):
    """A time in which no member fetched a partition.

    :ivar before: the run that ended when it began
    :ivar after: the run that ended it; None if none did
    """

    begin: int
    end: int
    before: FetchRun
    after: FetchRun | None

    @property
    def length(self) -> int:
        return self.end - self.begin

    def stop(self, tp: TopicPartition) -> Stop:
        after, behind = (None, -1) if self.after is None else (self.after.first, self.after.behind)
        return Stop(tp, self.length, self.after is not None, self.before.last, after, self.begin, behind)

    @property
    def resumed(self) -> bool:
        """Whether the process that had fetched before ended it."""
        return self.after is not None and self.after.line.owner == self.before.line.owner


def _fill_stops(
    tp: TopicPartition, runs: list[FetchRun], contexts: RebalanceContexts, now: int
) -> Iterator[Stop]:
    """Attribute pauses to rebalances; yield those that no rebalance overlaps."""
    pauses = list(_pauses(runs, now))
    met = [contexts.meeting(pause.begin, pause.end) for pause in pauses]
    usual = _usual([each.length for each, near in zip(pauses, met, strict=True) if not near and each.after])
    paused: set[RebalanceContext] = set()
    longest: dict[RebalanceContext, Stop] = {}
    for pause, near in zip(pauses, met, strict=True):
        if pause.length <= max(LEAST_STOP, usual):
            continue
        paused.update(near)
        context = _due_to(tp, pause, near)
        if (context is None and (near or pause.length < SECOND)) or not contexts.shown(
            tp, pause.begin, pause.end
        ):
            continue
        stop = pause.stop(tp)
        if context is None:
            yield stop
        elif context not in longest or longest[context].duration < stop.duration:
            longest[context] = stop
    for context, stop in longest.items():
        context.rebalance.stopped.append(stop)
    last = max(run.end for run in runs)
    for context in contexts.meeting(runs[0].begin, last):
        if runs[0].begin < context.begin and context.end < last and context not in paused:
            context.rebalance.consumed_on += 1


def _pauses(runs: list[FetchRun], now: int) -> Iterator[_Pause]:
    """Yield the times without any of the runs, which are sorted by their starts."""
    latest: FetchRun | None = None
    for run in runs:
        if latest is not None and run.begin > latest.end:
            yield _Pause(latest.end, run.begin, latest, run)
        if latest is None or run.end >= latest.end:
            latest = run
    if latest is not None and now - latest.end > _AT_THE_END:
        yield _Pause(latest.end, now, latest, None)


def _usual(lengths: list[int]) -> int:
    """Return the 90th percentile of pauses; 0 if there are too few of them for a habit."""
    return sorted(lengths)[len(lengths) * 9 // 10] if len(lengths) >= _HABIT else 0


def _due_to(tp: TopicPartition, pause: _Pause, near: list[RebalanceContext]) -> RebalanceContext | None:
    """Return the rebalance to which a pause is attributed; None if to none."""
    if pause.after is None:
        # an emptied group, or a partition no longer assigned, is not expected to be consumed again
        if any(context.rebalance.emptied for context in near):
            return None
        near = [context for context in near if context.wanted is None or tp in context.wanted]
    else:
        # a partition that stays with its process was not revoked in a cooperative round
        near = [context for context in near if context.eager or tp in context.moved or not pause.resumed]
    return next((context for context in near if tp in context.moved), next(iter(near), None))


# ---------------------------------------------------------------- records to be expected twice
def _fill_again(tp: TopicPartition, runs: list[FetchRun], contexts: RebalanceContexts, group: str) -> None:
    begins = [run.begin for run in runs]
    fetchers = {run.line.owner for run in runs}
    for run in runs:
        before = _reached_before(run, fetchers)
        if before is None or not 0 <= run.offset < before.reached:
            continue
        context = contexts.latest(run.begin)
        if context is None or run.begin >= context.end + _SOON or _was_committed(run, context, group):
            continue
        # an owner that already fetched after the rebalance goes back for another reason
        owners = context.owners.get(tp) or fetchers
        since = islice(runs, bisect_left(begins, context.begin), None)
        if run is next((each for each in since if each.line.owner in owners), None):
            context.rebalance.refetched.append(RepeatedFetch(tp, run.offset, before.reached, run.first))


def _reached_before(run: FetchRun, owners: set[Owner]) -> PriorProgress | None:
    """Return the greatest progress at the start of a run, of the group's previous consumers of the partition."""
    candidates = (before for before in run.before if before.owner in owners)
    return max(candidates, key=lambda before: before.reached, default=None)


def _was_committed(run: FetchRun, context: RebalanceContext, group: str) -> bool:
    """Return whether the new owner starts at the offset that the old one committed when it gave the partition up.

    Records that the old owner had fetched after that offset never reached the application: they are processed once. If
    the topic's name was unknown, so are the commits, and True is returned.
    """
    if run.committed is None:
        return True
    committed = run.committed.get(group)
    if committed is None or committed.offset != run.offset:
        return False
    expelled = {cause.member for cause in context.rebalance.causes if Trait.PUT_OUT in cause.trigger.traits}
    return committed.time >= context.begin - _JUST_BEFORE and committed.member not in expelled


# ---------------------------------------------------------------- commits that failed
def _commit_failures(
    calls: Iterable[Call], rebalances: list[Rebalance]
) -> Iterator[tuple[Rebalance, CommitFailure]]:
    begins = [each.time for each in rebalances]
    for call in calls:
        if isinstance(call, Commit) and call.error in _OF_REBALANCES:
            rebalance = _rebalance_of(call, rebalances, bisect_right(begins, call.at))
            if rebalance is not None:
                name = error_name(call.error)
                yield rebalance, CommitFailure(call.number, call.time, call.member, call.error, name)


def _rebalance_of(commit: Commit, rebalances: list[Rebalance], begun: int) -> Rebalance | None:
    """Return the rebalance that made the generation of a commit stale, or removed its sender from the group.

    :param begun: number of rebalances that had begun by then
    """
    if commit.generation >= 0:
        for index in range(begun - 1, -1, -1):
            each = rebalances[index]
            running = each.generation < 0
            if each.previous_generation <= commit.generation and (
                running or commit.generation < each.generation
            ):
                return each
    # expelled members and those that left may send generation -1: consumers of KIP-848 do
    for index in range(begun - 1, -1, -1):
        if commit.member and commit.member in rebalances[index].gone:
            return rebalances[index]
    if not begun:
        return None
    latest = rebalances[begun - 1]
    end = latest.time if latest.end is None else latest.end
    return latest if latest.running or commit.at <= end + (_SOON if commit.generation < 0 else 0) else None
