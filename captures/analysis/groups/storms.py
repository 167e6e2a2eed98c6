"""Storms: many rebalances with one cause, to be investigated together.

Rebalances have one cause if they have the same trigger and the same member: one instance ID, or one client ID on one
host, because a client that rejoins gets another member ID. A ``SHARED`` trigger is one cause for all members.
"""

from __future__ import annotations

from collections.abc import Mapping

from captures.analysis.groups.model import GroupMember, GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Trait, Trigger

MOST_APART = 600_000_000_000
"""Longest time in ns between two: a container that restarts again and again waits up to 5 minutes in between, and
so does the default of ``max.poll.interval.ms``."""
LEAST = 4
"""Fewest rebalances of a storm."""
LEAST_REJOINED = 10
"""Fewest rebalances of a storm of a rejoining leader: Connect rejoins several times when it starts."""

_Key = tuple[Trigger, str, str]


def storms(
    timeline: GroupTimeline, *, least: int = LEAST, most_apart: int = MOST_APART
) -> list[list[Rebalance]]:
    """Return the storms of a group: the rebalances of each, in the order of time.

    :param least: fewest rebalances of a storm; if the leader rejoins, at least :data:`LEAST_REJOINED`
    :param most_apart: longest time in ns between two
    """
    members = timeline.by_id()
    chains: list[list[Rebalance]] = []
    latest: dict[_Key, list[Rebalance]] = {}
    for rebalance in timeline.rebalances:
        key = _key(members, rebalance)
        if key is None:
            continue
        chain = latest.get(key)
        if chain is None or rebalance.time - chain[-1].time > most_apart:
            chain = latest[key] = []
            chains.append(chain)
        chain.append(rebalance)
    return [chain for chain in chains if len(chain) >= _least(chain, least)]


def mark_storms(timeline: GroupTimeline) -> None:
    """Fill ``storm`` of the rebalances that belong to one."""
    for storm in storms(timeline):
        for rebalance in storm:
            rebalance.storm = len(storm)


def _least(chain: list[Rebalance], least: int) -> int:
    return max(least, LEAST_REJOINED) if chain[0].trigger is Trigger.LEADER_REJOINED else least


def _key(members: Mapping[str, GroupMember], rebalance: Rebalance) -> _Key | None:
    cause = rebalance.cause
    if Trait.NO_CAUSE in cause.trigger.traits:
        return None
    if Trait.SHARED in cause.trigger.traits:
        return cause.trigger, "", ""
    if cause.instance:
        return cause.trigger, cause.instance, ""
    member = members.get(cause.member)
    return cause.trigger, cause.client, member.host if member is not None else ""
