"""Attribution of rebalances to incidents of their group."""

from __future__ import annotations

from collections.abc import Sequence

from captures.analysis.groups.model import GroupTimeline, IncidentReference, Rebalance
from captures.analysis.groups.vocabulary import Trigger
from captures.analysis.incidents.model import Incident
from dissectors.units import SECOND

FOLLOWS = 5 * SECOND
"""ns after an incident within which a rebalance of one of its members, or a second round, follows from it."""


def attribute(incident: Incident, rebalance: Rebalance) -> None:
    """Make a rebalance a consequence of an incident."""
    rebalance.because_of = IncidentReference(incident.id, incident.sentence)
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
        for index in range(first, len(rebalances)):
            rebalance = rebalances[index]
            # a member joins before its last sign of life, but not because it ended
            joined = rebalance.trigger is Trigger.MEMBER_JOINED
            if (
                (index > first and rebalance.trigger is not Trigger.COOPERATIVE_FOLLOW_UP)
                or rebalance.because_of is not None
                or not incident.begin - (0 if joined else SECOND) <= rebalance.time <= end
            ):
                break
            attribute(incident, rebalance)
