"""The histories of groups with the incidents that their rebalances follow from."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from captures.analysis.groups.history import GroupHistories
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.incidents.incidents import find_incidents
from captures.analysis.incidents.model import Incident
from captures.exchanges import Capture, Exchange
from captures.meaning import Names


class IncidentHistories(GroupHistories):
    """Collects what members and coordinators say, and tells it as timelines, and what happened as incidents.

    :ivar incidents: what happened, as of the latest :meth:`result` that was not ``live``
    """

    def __init__(self, names: Names, capture: Capture | None = None) -> None:
        super().__init__(names, capture)
        self._explained: list[GroupTimeline] | None = None
        self.incidents: list[Incident] = []

    def result(
        self, *, now: int | None = None, pending: Iterable[Exchange] = (), live: bool = False
    ) -> list[GroupTimeline]:
        """Return the groups in the order of their names, their rebalances with what they follow from.

        The parameters are those of :meth:`GroupHistories.result`. If ``live``, no incidents are looked for.
        """
        timelines = super().result(now=now, pending=pending, live=live)
        if not live and timelines is not self._explained:
            find = partial(find_incidents, self._capture, timelines, self.calls)
            self.incidents = self._faults.made(find, "finding incidents", [])
            self._explained = timelines
        return timelines
