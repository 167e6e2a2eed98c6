"""The timelines of groups in the UI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from captures.analysis.groups.calls import OF_MEMBERS
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.incidents.history import IncidentHistories
from captures.exchanges import Exchange
from kproxy.tui.views.paced_value import PacedValue

if TYPE_CHECKING:
    from kproxy.session import Access


class GroupFold:
    """Collects what members say, and tells it as timelines.

    :ivar told: how current that is
    """

    def __init__(self, access: Access) -> None:
        self._histories = IncidentHistories(access.plain.knowledge.topic_name, access.capture)
        self.told: PacedValue[Mapping[str, GroupTimeline]] = PacedValue({})
        self._added = 0
        self._latest = 0

    def add(self, exchange: Exchange) -> None:
        """Take one exchange in."""
        self._added += 1
        self._latest = max(self._latest, exchange.end)
        self._histories.add(exchange)

    def timelines(self, access: Access, *, everything: bool, live: bool) -> Mapping[str, GroupTimeline]:
        """Return the groups by name, as of now.

        :param everything: all was added that there is, so that what is missing has not been; else the present is the
            time of what was added last
        :param live: time goes on, also where nothing comes
        """
        now = access.capture.latest if everything else self._latest

        def tell() -> Mapping[str, GroupTimeline]:
            pending = access.pending(OF_MEMBERS) if live and everything else ()
            found = self._histories.result(now=now, pending=pending, live=live)
            return {timeline.group: timeline for timeline in found}

        return self.told.get((self._added, now, live), tell)
