"""The subscriptions of a group's members over time, not only at the end."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable

import msgspec

from captures.analysis.groups.model import GroupMember, GroupTimeline

Subscriptions = dict[tuple[str, ...], list[GroupMember]]
"""Topics -> members that subscribe to them."""


def subscriptions(members: Iterable[GroupMember]) -> Subscriptions:
    """Return the members by subscription; members without a known one are left out."""
    found: Subscriptions = {}
    for member in members:
        if member.subscription:
            found.setdefault(member.subscription, []).append(member)
    return found


class DifferingSubscriptions(msgspec.Struct, frozen=True):
    """Members that subscribed to different topics at the same time.

    :ivar begin: when subscriptions first differed
    :ivar end: when they last differed; the last time of the timeline if they still do
    :ivar lasted: total time in ns
    :ivar lasting: whether they still differ at the end
    """

    begin: int
    end: int
    lasted: int
    lasting: bool
    parties: Subscriptions


def differing(timeline: GroupTimeline, least: float) -> DifferingSubscriptions | None:
    """Return the members that subscribed to different topics at the same time; None if there are none.

    :param least: shortest time in ns that counts, unless subscriptions still differ at the end
    """
    until = timeline.last
    stints = [(member, *stint) for member in timeline.members for stint in member.subscribed(until)]
    if len({topics for _, topics, _, _ in stints}) < 2:
        return None
    # a member that arrives at the moment another leaves replaces it: ends sort before starts
    events = sorted(
        (time, comes, topics)
        for _, topics, *both in stints
        for time, comes in zip(both, (True, False), strict=True)
    )
    present: Counter[tuple[str, ...]] = Counter()
    periods: list[tuple[int, int]] = []
    begin: int | None = None
    for time, comes, topics in events:
        if comes:
            present[topics] += 1
        elif present[topics] > 1:
            present[topics] -= 1
        else:
            del present[topics]
        if begin is None and len(present) > 1:
            begin = time
        elif begin is not None and len(present) < 2:
            periods.append((begin, time))
            begin = None
    periods = [(begin, end) for begin, end in periods if end - begin >= least or begin < end == until]
    if not periods:
        return None
    begins, ends = [begin for begin, _ in periods], [end for _, end in periods]
    parties: Subscriptions = {}
    for member, topics, came, went in stints:
        if bisect_right(ends, came) < bisect_left(begins, went):
            parties.setdefault(topics, []).append(member)
    return DifferingSubscriptions(begins[0], ends[-1], sum(ends) - sum(begins), ends[-1] == until, parties)
