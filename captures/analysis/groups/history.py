"""The histories of the groups in a capture: what is added exchange by exchange, and told as timelines.

Groups that only ever saw the classic protocol are told by :mod:`captures.analysis.groups.classic`, those that saw a
heartbeat of KIP-848, KIP-932 or KIP-1071 by :mod:`captures.analysis.groups.modern`, classic members of theirs
included. Both offer::

    tell(calls: GroupCalls, scene: Surroundings) -> GroupTimeline

and fill in all but four things, which are the same for all kinds and come after, in this order: why members were silent
(``Cause.timeout_cause`` and ``TimeoutCause`` in the sentences of causes), what it cost (``stopped``, ``again``,
``commit_failures``), storms, and ``Rebalance.sentence``, which is put together from the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from captures.analysis.groups import classic, modern
from captures.analysis.groups.calls import OF_MEMBERS, Call, GroupCalls, group_of
from captures.analysis.groups.consumption import NEEDED as BY_CONSUMPTION
from captures.analysis.groups.consumption import Consumption
from captures.analysis.groups.coordinators import Coordinators
from captures.analysis.groups.effects import fill_effects
from captures.analysis.groups.model import GroupTimeline, Kind
from captures.analysis.groups.reading import read_call
from captures.analysis.groups.silence import Silences
from captures.analysis.groups.storms import mark_storms
from captures.analysis.groups.surroundings import OF_TOPICS, PartitionCounts, Surroundings
from captures.analysis.groups.timeouts import explain_timeouts
from captures.analysis.groups.words import compose
from captures.exchanges import Capture, Exchange
from captures.faults import RaisedFaults
from captures.meaning import Names, words

_NOT_THE_COORDINATOR = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR"""


HISTORIES = "the histories of groups"
"""What is being done, for faults."""
_LONGEST_NAME = 60

NEEDED = OF_MEMBERS | OF_TOPICS | BY_CONSUMPTION
"""APIs whose exchanges tell something of groups; others need not be added."""


class GroupHistories:
    """Collects what members and coordinators say, and tells it as timelines.

    Exchanges may be added in any order, each once; the order of their times is what counts.

    :param names: tells names of topic IDs
    :param capture: tells how connections ended, and what the network did; without it, nothing is known of that
    """

    def __init__(self, names: Names, capture: Capture | None = None) -> None:
        self._names = names
        self._capture = capture
        self._faults = RaisedFaults() if capture is None else capture.faults
        self._groups: dict[str, GroupCalls] = {}
        self._partitions = PartitionCounts(names)
        self._coordinators = Coordinators()
        self._consumption = Consumption(names)
        self._silences = Silences(capture)
        self._latest = 0

    @property
    def calls(self) -> Mapping[str, GroupCalls]:
        """What was said to each group so far, by its name."""
        return self._groups

    def add(self, exchange: Exchange) -> None:
        """Take one exchange in."""
        self._latest = max(self._latest, exchange.time + (exchange.latency or 0))
        self._consumption.add(exchange)
        key = exchange.api_key
        if key in OF_MEMBERS:
            self._call(exchange)
        elif key in OF_TOPICS:
            self._partitions.add(exchange)

    def result(self, *, now: int | None = None, pending: Iterable[Exchange] = ()) -> list[GroupTimeline]:
        """Return the groups, in the order of their names.

        :param now: ns since the epoch, of a capture that goes on; by default the time of the latest packet
        :param pending: exchanges of a capture that goes on which may still be answered
        """
        groups = self._with(pending)
        if now is None:
            now = max(self._latest, self._capture.latest if self._capture is not None else 0)
        timelines = []
        for name in sorted(groups):
            timeline = self._faults.made(partial(self._told, groups[name], now), _history_of(name), None)
            if timeline is not None:
                timelines.append(timeline)
        self._faults.made(
            partial(explain_timeouts, timelines, self._silences), "telling why members were silent", None
        )
        return [
            timeline
            for timeline in timelines
            if self._faults.made(
                partial(self._completed, timeline, groups, now), _history_of(timeline.group), without=False
            )
        ]

    def _completed(self, timeline: GroupTimeline, groups: Mapping[str, GroupCalls], now: int) -> bool:
        """Fill in what comes after the telling; True, as it has come that far."""
        fill_effects(timeline, groups[timeline.group], self._consumption, now)
        mark_storms(timeline)
        compose(timeline)
        _drop_unnumbered(timeline)
        return True

    def _call(self, exchange: Exchange) -> None:
        name = group_of(exchange)
        if not name:
            return
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = GroupCalls(name)
        call = read_call(exchange, self._names, group.protocol_type)
        if call is None:
            return
        group.add(call)
        if call.end is not None and call.error not in _NOT_THE_COORDINATOR:
            self._coordinators.answered(name, call.broker, call.time, call.number)

    def _with(self, pending: Iterable[Exchange]) -> dict[str, GroupCalls]:
        """Return the groups with calls that are not answered yet; what is kept stays as it is."""
        waiting: dict[str, list[Call]] = {}
        for exchange in pending:
            if exchange.api_key in OF_MEMBERS and (name := group_of(exchange)):
                known = self._groups.get(name)
                kind = known.protocol_type if known is not None else ""
                read = partial(read_call, exchange, self._names, kind, pending=True)
                call = self._faults.made(read, _history_of(name), None)
                if call is not None:
                    waiting.setdefault(name, []).append(call)
        groups = dict(self._groups)
        for name, calls in waiting.items():
            groups[name] = groups.get(name, GroupCalls(name)).and_also(calls)
        return groups

    def _told(self, calls: GroupCalls, now: int) -> GroupTimeline:
        scene = Surroundings(
            now=now,
            names=self._names,
            partitions=self._partitions,
            coordinators=self._coordinators.of(calls.group),
            capture=self._capture,
        )
        tell = classic.tell if calls.kinds <= {Kind.CLASSIC} else modern.tell
        return tell(calls, scene)


def _history_of(group: str) -> str:
    """Return what is being done, for faults."""
    return f"the history of group {words.clipped(words.line(group), _LONGEST_NAME)}"


def _drop_unnumbered(timeline: GroupTimeline) -> None:
    """Leave out of the evidence what has no number yet, because it may still be answered."""
    for rebalance in timeline.rebalances:
        if rebalance.evidence and not min(rebalance.evidence):
            rebalance.evidence = [number for number in rebalance.evidence if number]
        for place, cause in enumerate(rebalance.causes):
            if not all(cause.evidence):
                evidence = tuple(number for number in cause.evidence if number)
                rebalance.causes[place] = replace(cause, evidence=evidence)
