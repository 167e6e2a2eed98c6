"""Two applications with one ``group.id``: members that subscribed to different topics at the same time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

import msgspec

from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import GroupMember, GroupTimeline
from captures.analysis.groups.vocabulary import Certainty, Trigger
from captures.analysis.incidents.effects import FOLLOWS, attribute, attribute_those_of
from captures.analysis.incidents.model import Incident, IncidentKind
from captures.meaning import words
from captures.time_format import span
from dissectors.units import SECOND

_TOGETHER = SECOND
"""Shortest time in ns that members are in a group together to count as two applications."""


def shared_group_id(timeline: GroupTimeline) -> Incident | None:
    """Return the incident of several applications using a group at the same time; None if there is none."""
    if timeline.protocol_type not in ("", "consumer"):
        return None
    members = [
        member
        for member in sorted(timeline.members, key=lambda each: each.first)
        if member.subscription and member.spans and member.gone - member.first >= _TOGETHER
    ]
    if len({member.subscription for member in members}) < 2:
        return None
    strangers = _Strangers(members)
    begin = min((member.first for member in members if strangers.at_beginning(member)), default=None)
    end = max((member.gone for member in members if strangers.at_end(member)), default=None)
    if begin is None or end is None:
        return None
    parties: dict[tuple[str, ...], list[GroupMember]] = {}
    for member in members:
        if strangers.beside(member):
            parties.setdefault(member.subscription, []).append(member)
    made = _incident(timeline, parties, begin, end)
    smallest = min(parties.values(), key=lambda party: (len(party), -party[0].first))
    attribute_those_of([member.member for member in smallest], made, timeline)
    for rebalance in timeline.rebalances:
        # the leader sees other topics when an application arrives or leaves
        changed = rebalance.trigger is Trigger.PARTITIONS_CHANGED and begin <= rebalance.time <= end + FOLLOWS
        if changed and rebalance.because_of is None:
            attribute(made, rebalance)
    return made


class _Presence(msgspec.Struct):
    """When some members arrived and left, each in the order of time."""

    joined: list[int] = []
    left: list[int] = []

    def count(self, came_until: int, went_from: int) -> int:
        """Return how many arrived at `came_until` or before, and left at `went_from` or later.

        :param went_from: must not be after the departure of any member that arrived after `came_until`
        """
        return bisect_right(self.joined, came_until) - bisect_left(self.left, went_from)


class _Strangers:
    """Counts members of other clients with another subscription, without comparing all pairs."""

    def __init__(self, members: Iterable[GroupMember]) -> None:
        self._all = _Presence()
        self._some: dict[object, _Presence] = {}
        for member in members:
            for presence in (self._all, *self._alike(member)):
                insort(presence.joined, member.first)
                insort(presence.left, member.gone)

    def beside(self, member: GroupMember) -> bool:
        """Return whether one was present long enough together with `member`."""
        return self._any(member, member.gone - _TOGETHER, member.first + _TOGETHER)

    def at_beginning(self, member: GroupMember) -> bool:
        """Return whether one was present when `member` arrived, and stayed long enough."""
        return self._any(member, member.first, member.first + _TOGETHER)

    def at_end(self, member: GroupMember) -> bool:
        """Return whether one had been present long enough when `member` left."""
        return self._any(member, member.gone - _TOGETHER, member.gone)

    def _any(self, member: GroupMember, came_until: int, went_from: int) -> bool:
        same_topics, same_client, same_both = (
            presence.count(came_until, went_from) for presence in self._alike(member)
        )
        return self._all.count(came_until, went_from) > same_topics + same_client - same_both

    def _alike(self, member: GroupMember) -> Iterator[_Presence]:
        for key in (member.subscription, member.client, (member.subscription, member.client)):
            yield self._some.setdefault(key, _Presence())


def _incident(
    timeline: GroupTimeline, parties: dict[tuple[str, ...], list[GroupMember]], begin: int, end: int
) -> Incident:
    labels = Labels(timeline)
    wishes = [
        f"{labels.several(member.member for member in members)}: "
        f"{words.several(words.line(topic) for topic in topics)}"
        for topics, members in parties.items()
    ]
    apart = not set.intersection(*(set(topics) for topics in parties))
    group = words.line(timeline.group)
    what = (
        f"{len(parties)} applications used group {group}"
        if apart
        else f"Members of group {group} subscribed to different topics"
    )
    members = [member for party in parties.values() for member in party]
    return Incident(
        kind=IncidentKind.SHARED_GROUP_ID,
        begin=begin,
        end=end,
        who=tuple(dict.fromkeys(labels.of(member.member) for member in members)),
        sentence=f"{what} for {span(end - begin)} ({'; '.join(wishes)}).",
        certainty=Certainty.INFERRED if apart else Certainty.POSSIBLE,
        alternatives=() if apart else ("a rollout that changes the subscription",),
        evidence=tuple(sorted({member.spans[0].number for member in members} - {0})),
    )
