"""Connectors and tasks of Kafka Connect: when they ran nowhere, and how long they still wait for a lost worker.

A worker runs its connectors and tasks until it has to stop them or, with the eager protocol
(``connect.protocol=eager``), until it rejoins. Those of a lost worker are assigned to no other until
``scheduled.rebalance.max.delay.ms`` have passed (KIP-415).
"""

from __future__ import annotations

from typing import NamedTuple

from captures.analysis.groups.classic.generations import Generation, Transition
from captures.analysis.groups.model import LEAST_STOP, Rebalance, Stop, TopicPartition


class _Idle(NamedTuple):
    """A connector or task that runs nowhere.

    :ivar begin: ns since the epoch
    :ivar number: number of the last exchange that shows it with its worker
    :ivar rebalance: the rebalance in which it stopped
    """

    begin: int
    number: int
    rebalance: Rebalance


class WorkerStops:
    """Finds when connectors and tasks ran nowhere, rebalance by rebalance."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._idle: dict[TopicPartition, _Idle] = {}
        self._waits = False
        """Whether the group waits for a lost worker."""

    def emptied(self) -> None:
        """Record that the group is empty: what ran nowhere is not waited for."""
        self._idle, self._waits = {}, False

    def formed(self, rebalance: Rebalance, transition: Transition, generation: Generation) -> None:
        """Add a rebalance whose moves are known."""
        for move in rebalance.moved:
            if move.before and move.tp not in self._idle:
                self._idle[move.tp] = _Idle(*_stopped(move.before, transition, generation), rebalance)
        if rebalance.cooperative is False:
            self._stop_all(rebalance, generation)
        syncs = {sync.member: sync for sync in generation.syncs if sync.end is not None and not sync.error}
        for member, partitions in rebalance.assigned.items():
            sync = syncs.get(member)
            for tp in sorted(self._idle.keys() & partitions):
                idle = self._idle.pop(tp)
                end = generation.formed if sync is None or sync.end is None else sync.end
                if end - idle.begin >= LEAST_STOP:
                    after = None if sync is None else sync.number
                    stop = Stop(tp, end - idle.begin, True, idle.number or None, after, idle.begin)
                    idle.rebalance.stopped.append(stop)
        delay = max((orders.delay for orders in generation.orders.values()), default=0)
        self._waits = delay > 0
        if not delay:
            # connectors and tasks not assigned in the round after their revocation were deleted
            self._idle = {tp: idle for tp, idle in self._idle.items() if idle.rebalance is rebalance}
        elif self._idle:
            rebalance.delay, rebalance.unassigned = delay, sorted(self._idle)

    def _stop_all(self, rebalance: Rebalance, generation: Generation) -> None:
        """Record that workers stop everything that they run when they rejoin."""
        joins = {join.member: join for join in generation.joins}
        moved = {move.tp for move in rebalance.moved}
        for member in rebalance.assigned.keys() & joins.keys():
            for tp in rebalance.assigned[member] - moved:
                self._idle.setdefault(tp, _Idle(joins[member].time, joins[member].number, rebalance))

    def concluded(self) -> None:
        """Add stops for what still runs nowhere at the end of the capture; what is not waited for was deleted."""
        for tp, idle in sorted(self._idle.items(), key=lambda each: each[0]) if self._waits else ():
            length = self._now - idle.begin
            idle.rebalance.stopped.append(Stop(tp, length, False, idle.number or None, None, idle.begin))


def _stopped(worker: str, transition: Transition, generation: Generation) -> tuple[int, int]:
    """Return when a worker stopped what it no longer runs, and the number of the exchange that shows it."""
    for expiry in transition.expiries:
        if expiry.member == worker:
            return expiry.since, expiry.number
    for departure in transition.departures:
        if departure.member == worker:
            return departure.time, departure.call.number
    for sync in generation.syncs:
        if sync.member == worker and sync.end is not None:
            return sync.end, sync.number
    return generation.formed, 0
