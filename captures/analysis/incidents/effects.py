"""Attribution of rebalances to incidents of their group."""

from __future__ import annotations

from collections.abc import Sequence

from captures.analysis.groups.model import Because, GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Trigger
from captures.analysis.incidents.model import Incident
from dissectors.units import SECOND

FOLLOWS = 5 * SECOND
"""ns after an incident within which a rebalance of one of its members, or a second round, follows from it."""


def attribute(incident: Incident, rebalance: Rebalance) -> None:
    """Make a rebalance a consequence of an incident."""
    rebalance.because_of = Because(incident.id, incident.sentence)
    incident.rebalances.append(rebalance)


def attribute_those_of(
    members: Sequence[str], incident: Incident, timeline: GroupTimeline, given_up: int | None = None
) -> None:
    """Make the rebalances that members caused, and second rounds right after them, consequences of an incident.

    :param given_up: when the coordinator removed the last of the members, which may be after the end
    """
    end = max(timeline.last if incident.end is None else incident.end, given_up or 0) + SECOND
    rebalances = timeline.rebalances
    for first in timeline.caused_by(members):
        index = first
        while index < len(rebalances) and (
            index == first or rebalances[index].trigger is Trigger.COOPERATIVE_FOLLOW_UP
        ):
            if (
                rebalances[index].because_of is not None
                or not incident.begin - SECOND <= rebalances[index].time <= end
            ):
                break
            attribute(incident, rebalances[index])
            index += 1
