"""Rebalances with what surrounds them, made ready to be held against the fetches of the group's members."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from captures.analysis.groups.consumption import Owner
from captures.analysis.groups.model import GroupTimeline, Kind, Place, Rebalance


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A rebalance with its surroundings.

    :ivar end: when it was over; the beginning of the next one if that was not seen
    :ivar next: when the next one began; the end of the capture if it is the last
    :ivar eager: whether members give up all they have as it begins
    :ivar moved: partitions that changed hands
    :ivar owners: partition -> processes that have it afterwards, as far as that is known
    :ivar hidden: partitions of which somebody has one whose fetches are not in the capture
    :ivar whole: whether the fetches of all members are in the capture
    :ivar wanted: partitions that the group is to consume; None if that is not known
    """

    rebalance: Rebalance
    end: int
    next: int
    eager: bool
    moved: frozenset[Place]
    owners: dict[Place, set[Owner]]
    hidden: set[Place]
    whole: bool
    wanted: set[Place] | None

    @property
    def begin(self) -> int:
        """When it began."""
        return self.rebalance.time

    def shows(self, place: Place) -> bool:
        """Whether everybody who may have a partition afterwards is among those whose fetches are in the capture."""
        if place in self.owners or self.rebalance.emptied:
            return place not in self.hidden
        return self.whole


class Scenes:
    """The rebalances of a group in the order of time.

    :param fetching: the processes whose fetches are in the capture
    :param now: ns since the epoch, up to which the capture goes
    """

    def __init__(self, timeline: GroupTimeline, fetching: set[Owner], now: int) -> None:
        self._owners = {
            member_id: Owner(member.client, member.host)
            for member in timeline.members
            for member_id in (member.member, *member.former)
        }
        self._fetching = {member for member, owner in self._owners.items() if owner in fetching}
        told = timeline.rebalances
        self.every = [
            self._scene(each, told[index - 1] if index else None, [*told, None][index + 1], now)
            for index, each in enumerate(told)
        ]
        self._begins = [scene.begin for scene in self.every]
        self._ends = list(accumulate((scene.end for scene in self.every), max))

    def meeting(self, begin: int, end: int) -> list[Scene]:
        """Return those that went on at some time between two moments."""
        low, high = bisect_left(self._ends, begin), bisect_right(self._begins, end)
        return [scene for scene in self.every[low:high] if scene.end >= begin]

    def latest(self, time: int) -> Scene | None:
        """Return the last that had begun by a moment; None if none had."""
        begun = bisect_right(self._begins, time)
        return self.every[begun - 1] if begun else None

    def shown(self, place: Place, begin: int, end: int) -> bool:
        """Whether everybody who may have had a partition between two moments is seen fetching in the capture."""
        low, high = bisect_left(self._begins, begin), bisect_right(self._begins, end)
        return all(scene.shows(place) for scene in self.every[max(low - 1, 0) : high])

    def _scene(self, each: Rebalance, before: Rebalance | None, after: Rebalance | None, now: int) -> Scene:
        following = now if after is None else after.time
        unseen = now if each.running else following
        end = max(unseen if each.end is None else each.end, each.time)
        owners: dict[Place, set[Owner]] = {}
        hidden: set[Place] = set()
        for member, places in each.assigned.items():
            owner = self._owners.get(member)
            for place in places:
                known = owners.setdefault(place, set())
                if owner is not None:
                    known.add(owner)
                if member not in self._fetching:
                    hidden.add(place)
        # of one that goes on nobody has anything yet: what there was before is what is wanted
        last = before if each.running and before is not None else each
        return Scene(
            rebalance=each,
            end=end,
            next=following,
            eager=each.kind is Kind.CLASSIC and not each.cooperative,
            moved=frozenset(move.place for move in each.moved),
            owners=owners,
            hidden=hidden,
            whole=self._whole(last),
            wanted=_united(last.assigned.values()) if last.assigned else None,
        )

    def _whole(self, rebalance: Rebalance) -> bool:
        with_none = {member for member, places in rebalance.assigned.items() if not places}
        known = rebalance.size == len(rebalance.members)
        return known and self._fetching.issuperset(set(rebalance.members) - with_none)


def _united(every: Iterable[frozenset[Place]]) -> set[Place]:
    return set().union(*every)
