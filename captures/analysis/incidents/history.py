"""The histories of groups, and of the controller, with the incidents that rebalances follow from."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from captures.analysis.groups.history import GroupHistories
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.incidents.controllers import NEEDED as OF_CONTROLLERS
from captures.analysis.incidents.controllers import Controllers
from captures.analysis.incidents.incidents import find_incidents
from captures.analysis.incidents.model import Incident
from captures.analysis.slow_answers import SlowAnswers
from captures.exchanges import Capture, Exchange
from captures.meaning import Names


class IncidentHistories(GroupHistories):
    """Collects what members and coordinators say, and tells it as timelines, and what happened as incidents.

    :ivar incidents: what happened, as of the latest :meth:`result` that was not ``live``
    """

    def __init__(self, names: Names, capture: Capture | None = None) -> None:
        super().__init__(names, capture)
        self._explained: list[GroupTimeline] | None = None
        self._controllers = Controllers()
        self._slow = SlowAnswers()
        self.incidents: list[Incident] = []

    def add(self, exchange: Exchange) -> None:
        """Take one exchange in."""
        if exchange.api_key in OF_CONTROLLERS:
            self._controllers.add(exchange)
        self._slow.add(exchange)
        super().add(exchange)

    def result(
        self, *, now: int | None = None, pending: Iterable[Exchange] = (), live: bool = False
    ) -> list[GroupTimeline]:
        """Return the groups in the order of their names, their rebalances with what they follow from.

        The parameters are those of :meth:`GroupHistories.result`. If ``live``, no incidents are looked for.
        """
        timelines = super().result(now=now, pending=pending, live=live)
        if not live and timelines is not self._explained:
            seen = self._capture, timelines, self.calls, self._controllers, self._slow.found
            find = partial(find_incidents, *seen)
            self.incidents = self._faults.made(find, "finding incidents", [])
            self._explained = timelines
        return timelines
