"""The histories of the groups in a capture: what is added exchange by exchange, and told as timelines."""

from __future__ import annotations

from collections.abc import Iterable

from captures.analysis.groups.calls import GroupCalls
from captures.analysis.groups.model import GroupTimeline
from captures.exchanges import Capture, Exchange
from captures.meaning import Names


class GroupHistories:
    """Collects what members and coordinators say, and tells it as timelines.

    Exchanges may be added in any order, each once; the order of their times is what counts.

    :param names: tells names of topic IDs
    :param capture: tells how connections ended, and what the network did; without it, nothing is known of that
    """

    def __init__(self, names: Names, capture: Capture | None = None) -> None:
        self._names = names
        self._capture = capture
        self._groups: dict[str, GroupCalls] = {}

    def add(self, exchange: Exchange) -> None:
        """Take one exchange in."""

    def result(self, *, now: int | None = None, pending: Iterable[Exchange] = ()) -> list[GroupTimeline]:
        """Return the groups, in the order of their names.

        :param now: ns since the epoch, of a capture that goes on; by default the time of the latest packet
        :param pending: exchanges of a capture that goes on which may still be answered
        """
        raise NotImplementedError
