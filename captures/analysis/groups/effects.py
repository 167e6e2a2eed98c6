"""What rebalances cost: partitions that nobody consumed, records to be expected twice, commits that failed.

A pause in the fetching of a partition is put down to a rebalance only if it is longer than :data:`LEAST_STOP` and than
the pauses that the same partition has without any rebalance. It counts once: for the rebalance that moved the
partition, or else for the first that it meets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from captures.analysis.groups.calls import Call, Commit, GroupCalls
from captures.analysis.groups.consumption import Before, Consumption, FetchRun, Owner
from captures.analysis.groups.model import (
    Again,
    CommitFailure,
    GroupTimeline,
    Place,
    Rebalance,
    Stop,
    Trigger,
)
from captures.analysis.groups.scenes import Scene, Scenes
from dissectors.error_codes import error_name

LEAST_STOP = 250_000_000
"""ns; what is shorter is no stop."""

_SECOND = 1_000_000_000
_AT_THE_END = 2 * _SECOND
"""ns; a partition that is not fetched up to the end of the capture may have a Fetch that was about to come."""
_SOON = 10 * _SECOND
"""ns after a rebalance within which what its members do is taken to be due to it."""
_JUST_BEFORE = 200_000_000
"""ns before a rebalance within which a member that leaves commits what it has consumed."""

_HABIT = 5
"""So many pauses tell what is usual."""

_OF_REBALANCES = frozenset({22, 25, 27, 82, 110, 113})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH,
STALE_MEMBER_EPOCH"""
_EXPELLED = frozenset(
    {
        Trigger.SESSION_TIMEOUT,
        Trigger.MAX_POLL_EXCEEDED,
        Trigger.REBALANCE_TIMEOUT,
        Trigger.INSTANCE_FENCED,
    }
)
"""After these the member has no chance to commit what it consumed last."""


def fill_effects(timeline: GroupTimeline, calls: GroupCalls, consumption: Consumption, now: int) -> None:
    """Fill ``stopped``, ``consumed_on``, ``again`` and ``commit_failures`` of all rebalances of a group.

    They need ``time``, ``end``, ``generation``, ``before``, ``causes``, ``members``, ``size``, ``moved``, ``assigned``,
    ``cooperative`` and ``emptied`` to be there, and the members of the timeline.

    :param now: ns since the epoch, up to which the capture goes
    """
    if not timeline.rebalances:
        return
    for rebalance, failure in _commit_failures(calls.calls, timeline.rebalances):
        rebalance.commit_failures.append(failure)
    fetched = consumption.of_group(timeline.group)
    scenes = Scenes(timeline, {run.line.owner for runs in fetched.values() for run in runs}, now)
    for (topic, partition), runs in sorted(fetched.items()):
        place = Place(topic, partition)
        _fill_stops(place, runs, scenes, now)
        _fill_again(place, runs, scenes, timeline.group)


# ---------------------------------------------------------------- partitions that nobody consumed
@dataclass(frozen=True, slots=True)
class _Pause:
    """A time in which nobody fetched a partition.

    :ivar before: the run that ended as it began
    :ivar after: the run with which it ended; None if it did not
    """

    begin: int
    end: int
    before: FetchRun
    after: FetchRun | None

    @property
    def length(self) -> int:
        return self.end - self.begin

    @property
    def resumed(self) -> bool:
        """Whether it ended, with the process that had fetched before."""
        return self.after is not None and self.after.line.owner == self.before.line.owner


def _fill_stops(place: Place, runs: list[FetchRun], scenes: Scenes, now: int) -> None:
    pauses = list(_pauses(runs, now))
    met = [scenes.meeting(pause.begin, pause.end) for pause in pauses]
    usual = _usual([each.length for each, near in zip(pauses, met, strict=True) if not near and each.after])
    paused: set[Scene] = set()
    for pause, near in zip(pauses, met, strict=True):
        if pause.length <= max(LEAST_STOP, usual):
            continue
        paused.update(near)
        scene = _due_to(place, pause, near)
        if scene is not None and scenes.shown(place, pause.begin, pause.end):
            after = None if pause.after is None else pause.after.first
            stop = Stop(place, pause.length, pause.after is not None, pause.before.last, after)
            scene.rebalance.stopped.append(stop)
    last = max(run.end for run in runs)
    for scene in scenes.meeting(runs[0].begin, last):
        if runs[0].begin < scene.begin and scene.end < last and scene not in paused:
            scene.rebalance.consumed_on += 1


def _pauses(runs: list[FetchRun], now: int) -> Iterator[_Pause]:
    """Yield the times in which none of the runs, which are in the order of their beginnings, went on."""
    latest: FetchRun | None = None
    for run in runs:
        if latest is not None and run.begin > latest.end:
            yield _Pause(latest.end, run.begin, latest, run)
        if latest is None or run.end >= latest.end:
            latest = run
    if latest is not None and now - latest.end > _AT_THE_END:
        yield _Pause(latest.end, now, latest, None)


def _usual(lengths: list[int]) -> int:
    """Return what nine of ten pauses are not longer than; 0 if there are too few of them for a habit."""
    return sorted(lengths)[len(lengths) * 9 // 10] if len(lengths) >= _HABIT else 0


def _due_to(place: Place, pause: _Pause, near: list[Scene]) -> Scene | None:
    """Return the rebalance that a pause is put down to."""
    if pause.after is None:
        # a group that everybody left, or a partition that it does not want any more, is not waited for
        if any(scene.rebalance.emptied for scene in near):
            return None
        near = [scene for scene in near if scene.wanted is None or place in scene.wanted]
    else:
        # what goes on with the same process was not taken from it in a cooperative round
        near = [scene for scene in near if scene.eager or place in scene.moved or not pause.resumed]
    return next((scene for scene in near if place in scene.moved), next(iter(near), None))


# ---------------------------------------------------------------- records to be expected twice
def _fill_again(place: Place, runs: list[FetchRun], scenes: Scenes, group: str) -> None:
    begins = [run.begin for run in runs]
    fetchers = {run.line.owner for run in runs}
    for run in runs:
        before = _reached_before(run, fetchers)
        if before is None or not 0 <= run.offset < before.reached:
            continue
        scene = scenes.latest(run.begin)
        if scene is None or run.begin >= scene.end + _SOON or _was_committed(run, scene, group):
            continue
        # who fetched on already after the rebalance goes back for another reason
        owners = scene.owners.get(place) or fetchers
        since = islice(runs, bisect_left(begins, scene.begin), None)
        if run is next((each for each in since if each.line.owner in owners), None):
            scene.rebalance.again.append(Again(place, run.offset, before.reached, run.first))


def _reached_before(run: FetchRun, owners: set[Owner]) -> Before | None:
    """Return who had come furthest as a run began, of the group's members that fetched the partition last."""
    mine = (before for before in run.before if before.owner in owners)
    return max(mine, key=lambda before: before.reached, default=None)


def _was_committed(run: FetchRun, scene: Scene, group: str) -> bool:
    """Whether the new owner begins where the old one said it had consumed to as it gave the partition up.

    What that one had fetched beyond was never given to the application: it comes once.
    """
    committed = run.committed.get(group)
    if committed is None or committed.offset != run.offset:
        return False
    expelled = {cause.member for cause in scene.rebalance.causes if cause.trigger in _EXPELLED}
    return committed.time >= scene.begin - _JUST_BEFORE and committed.member not in expelled


# ---------------------------------------------------------------- commits that failed
def _commit_failures(
    calls: Iterable[Call], rebalances: list[Rebalance]
) -> Iterator[tuple[Rebalance, CommitFailure]]:
    begins = [each.time for each in rebalances]
    for call in calls:
        if isinstance(call, Commit) and call.error in _OF_REBALANCES:
            rebalance = _round_of(call, rebalances, bisect_right(begins, call.at))
            if rebalance is not None:
                name = error_name(call.error)
                yield rebalance, CommitFailure(call.number, call.time, call.member, call.error, name)


def _round_of(commit: Commit, rebalances: list[Rebalance], begun: int) -> Rebalance | None:
    """Return the rebalance that made the generation of a commit out of date, or its sender no member any more.

    :param begun: how many of them had begun by then
    """
    if commit.generation >= 0:
        for index in range(begun - 1, -1, -1):
            each = rebalances[index]
            running = each.generation < 0
            if each.before <= commit.generation and (running or commit.generation < each.generation):
                return each
    # who was put out or has left may say no generation (-1): consumers of KIP-848 do
    for index in range(begun - 1, -1, -1):
        if commit.member and commit.member in rebalances[index].gone:
            return rebalances[index]
    if not begun:
        return None
    latest = rebalances[begun - 1]
    end = latest.time if latest.end is None else latest.end
    return latest if latest.running or commit.at <= end + (_SOON if commit.generation < 0 else 0) else None
