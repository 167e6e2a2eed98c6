"""Rebalances of a growing capture: reported when they end, and earlier if they take long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator

from captures.analysis.groups.call_reader import pending_calls
from captures.analysis.groups.history import HISTORIES, GroupHistories
from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.exchanges import Capture
from dissectors.session_context import SessionContext
from kproxy.pace import Pace

SETTLED = 5_000_000_000
"""ns after its end at which a rebalance is reported: then it is known who consumes again and which commits failed."""
LONG = 5_000_000_000
"""ns after which a running rebalance is reported."""

_EVERY = 1.0  # seconds between checks

Report = Callable[[GroupTimeline, Rebalance], None]


class LiveGroups:
    """Reports rebalances, each once when it is over, and once before if it takes long.

    :param knowledge: of the reader that decodes the capture
    :param report: called with each rebalance to report, and the current state of its group
    :param histories: of the groups, if others use them, too
    """

    def __init__(
        self,
        capture: Capture,
        knowledge: SessionContext,
        report: Report,
        *,
        histories: GroupHistories | None = None,
    ) -> None:
        self._capture = capture
        self._knowledge = knowledge
        self._report = report
        self._histories = histories or GroupHistories(knowledge.topic_name, capture)
        self.add = capture.faults.guarded(self._histories.add, HISTORIES)
        self._running: set[Hashable] = set()
        self._reported: Counter[Hashable] = Counter()
        self._pace = Pace(_EVERY)

    def look(self) -> None:
        """Report news; does nothing shortly after the last call."""
        if not self._pace.due:
            return
        with self._pace.step():
            now = self._capture.latest
            pending = pending_calls(self._capture, self._knowledge)
            for timeline in self._histories.result(now=now or None, pending=pending, live=True):
                self._news(timeline, now)

    def conclude(self) -> list[GroupTimeline]:
        """Report the rest, because the capture has ended; return the groups."""
        timelines = self._histories.result()
        for timeline in timelines:
            self._news(timeline, None)
        return timelines

    def _news(self, timeline: GroupTimeline, now: int | None) -> None:
        for rebalance in self._unreported(timeline):
            if rebalance.running:
                key = timeline.group, rebalance.previous_generation
                long = now is None or now - rebalance.time >= LONG
                if long and key not in self._running:
                    self._running.add(key)
                    self._report(timeline, rebalance)
                continue
            over = rebalance.time if rebalance.end is None else rebalance.end
            if now is not None and now - over < SETTLED:
                return  # later ones are reported later
            self._reported[_identity(rebalance)] += 1
            self._report(timeline, rebalance)

    def _unreported(self, timeline: GroupTimeline) -> Iterator[Rebalance]:
        """Yield the rebalances that were not yet reported as over.

        A group that lost its state starts counting again, so that several rebalances may have the same generations.
        """
        seen: Counter[Hashable] = Counter()
        reported = self._reported.copy()
        for rebalance in timeline.rebalances:
            key = _identity(rebalance)
            seen[key] += 1
            if rebalance.running or seen[key] > reported[key]:
                yield rebalance


def _identity(rebalance: Rebalance) -> Hashable:
    return rebalance.group, rebalance.previous_generation, rebalance.generation
