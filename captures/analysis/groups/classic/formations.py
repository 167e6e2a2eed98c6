"""Generations of a classic group: what the coordinator answered when it had formed them.

All members of a generation get the answer to their JoinGroup at one moment; the leader's names them all. A static
member that returns is answered alone, with the generation that there is (KIP-345), and so is a member that joins again
without need: such answers belong to no rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from captures.analysis.groups.calls import Call, Join, Subscription, Sync
from captures.analysis.groups.classic.lives import REBALANCE_IN_PROGRESS
from captures.analysis.groups.model import Place

_OF_THIS_GENERATION = frozenset({0, REBALANCE_IN_PROGRESS})


@dataclass
class Formation:
    """One generation.

    :ivar formed: when its members were told; when it was first heard of, if that was not seen
    :ivar number: of the first exchange that shows it
    :ivar joined: whether a JoinGroup of it was seen
    :ivar joins: those that made it, in the order of requests
    :ivar later: those that were answered from it, without a rebalance
    :ivar syncs: in the order of requests
    :ivar listed: member ID -> instance ID, as the leader was told; empty if that was not seen
    :ivar subscriptions: member ID -> what it says of itself
    :ivar heard: members that were heard with this generation
    """

    generation: int
    formed: int
    number: int
    joined: bool = False
    joins: list[Join] = field(default_factory=list)
    later: list[Join] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    leader: str = ""
    protocol: str = ""
    listed: dict[str, str | None] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    heard: dict[str, None] = field(default_factory=dict)

    @cached_property
    def members(self) -> dict[str, None]:
        """The members, as far as they are known, once all calls were taken in."""
        named = {self.leader: None} if self.leader else {}
        known = self.listed or {call.member: None for call in self.joins} | self.heard | named
        return dict.fromkeys(known)

    @property
    def whole(self) -> bool:
        """Whether all of its members are known."""
        return bool(self.listed)

    @cached_property
    def assigned(self) -> dict[str, frozenset[Place]]:
        """The partitions of the members whose assignment was seen, likewise."""
        out: dict[str, frozenset[Place]] = {}
        for sync in self.syncs:
            if not sync.error:
                out.update(sync.given)
        for sync in self.syncs:
            # a static member that returned later has what it had under its former ID
            if sync.assigned is not None and sync.member in self.members:
                out[sync.member] = sync.assigned
        if any(sync.leads and not sync.error and sync.protocol_type == "consumer" for sync in self.syncs):
            # whom the leader gives nothing may be left out
            for member in self.listed:
                out.setdefault(member, frozenset())
        return out


def find_formations(calls: Iterable[Call]) -> list[Formation]:
    """Return the generations that were seen, in the order of time."""
    out: list[Formation] = []
    for time, call, generation in _mentions(calls):
        latest = out[-1] if out else None
        if latest is None or _begins(latest, call, generation):
            latest = Formation(generation, time, call.number)
            out.append(latest)
        elif generation != latest.generation:
            continue  # the answer to an earlier one was late
        _include(latest, call)
    for formation in out:
        formation.joins.sort(key=lambda join: (join.time, join.number))
    return out


def _mentions(calls: Iterable[Call]) -> list[tuple[int, Call, int]]:
    """Return the calls that show a generation, when they do, and which, in the order of time."""
    found: list[tuple[int, Call, int]] = []
    for call in calls:
        if isinstance(call, Join):
            if call.answered >= 0 and call.end is not None:
                found.append((call.end, call, call.answered))
        elif (
            call.generation >= 0
            and call.member
            and call.end is not None
            and call.error in _OF_THIS_GENERATION
        ):
            found.append((call.time, call, call.generation))
    return sorted(found, key=lambda each: (each[0], each[1].number))


def _begins(latest: Formation, call: Call, generation: int) -> bool:
    if isinstance(call, Join):
        return generation != latest.generation or _is_stranger(call, latest)
    return generation > latest.generation


def _is_stranger(join: Join, latest: Formation) -> bool:
    """Whether a member cannot be of a generation that has the same number: the group counts anew."""
    known = {**latest.listed, **latest.heard}
    return (
        join.time > latest.formed
        and join.instance is None
        and join.member not in known
        and (not join.asked_as or bool(latest.listed))
    )


def _include(formation: Formation, call: Call) -> None:
    formation.heard.setdefault(call.member)
    if isinstance(call, Sync):
        formation.syncs.append(call)
    if not isinstance(call, Join):
        return
    if call.time >= formation.formed:
        formation.later.append(call)
        if not formation.listed:
            formation.listed.update(call.members)  # told to a leader that returns (KIP-814)
        return
    formation.joined = True
    formation.joins.append(call)
    formation.leader = call.leader or formation.leader
    formation.protocol = call.chosen or formation.protocol
    formation.listed.update(call.members)
    formation.subscriptions.update(call.subscriptions)
