"""The timelines of the groups in a capture, collected exchange by exchange.

:mod:`captures.analysis.groups.classic` makes the timelines of groups that only used the classic protocol,
:mod:`captures.analysis.groups.modern` those of groups with a heartbeat of KIP-848, KIP-932 or KIP-1071, including their
classic members. Both offer::

    timeline_of(calls: GroupCalls, context: GroupContext) -> GroupTimeline

and fill in everything except five things, which are the same for all kinds and follow in this order: why members were
silent (``Cause.session_end``, also in the sentences of causes), rebalances that kproxy caused, their cost (``stopped``,
``refetched``, ``commit_failures``), storms, and ``Rebalance.sentence``, which is composed from the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Self

import msgspec
import numpy as np

from captures.analysis.attempts import Acceptances
from captures.analysis.commit_columns import CommitColumns
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.groups import classic, modern
from captures.analysis.groups.call_reader import read_call
from captures.analysis.groups.call_runs import CallRuns, PassedCalls
from captures.analysis.groups.calls import OF_MEMBERS, Call, GroupCalls, Run, group_of
from captures.analysis.groups.connectors import ConfigChanges
from captures.analysis.groups.consumption import NEEDED as BY_CONSUMPTION
from captures.analysis.groups.consumption import Consumption, FetchRun
from captures.analysis.groups.context import OF_TOPICS, Coordinators, GroupContext, PartitionCounts
from captures.analysis.groups.effects import fill_effects
from captures.analysis.groups.farewells import NEEDED as BY_FAREWELLS
from captures.analysis.groups.farewells import Farewells
from captures.analysis.groups.interventions import InterventionLog
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.groups.refusals import refused_clients
from captures.analysis.groups.silence import Silences, explain_timeouts
from captures.analysis.groups.storms import mark_storms
from captures.analysis.groups.vocabulary import Kind
from captures.analysis.groups.words import compose
from captures.analysis.position_columns import ExchangePositions, PositionColumns
from captures.analysis.record_traffic import RecordTraffic
from captures.arrays import Bools, Int64s
from captures.exchanges import Capture, Exchange
from captures.faults import RAISED
from captures.meaning import Names, words
from captures.meaning.topic_partitions import TopicPartition
from dissectors.api_keys import ApiKey
from dissectors.error_codes import COORDINATOR_AWAY, ErrorCode

HISTORIES = "the histories of groups"
"""The name of the activity, for error reports."""
_LONGEST_NAME = 60
_NOTHING_PASSED = PassedCalls()
REMADE_AFTER = 60_000_000_000
"""ns after which a timeline is made again though nothing happened: costs of rebalances may show late."""
_EFFECTS_SHOW = 20_000_000_000
"""ns after a rebalance in which most of its cost shows."""
_MISSED = 2
"""Missing heartbeats after which time alone may change the timeline of a group."""
_INTERVAL = 3_000_000_000
"""ns between heartbeats if unknown: the default of ``heartbeat.interval.ms``."""

NEEDED = OF_MEMBERS | OF_TOPICS | BY_CONSUMPTION | BY_FAREWELLS
"""APIs whose exchanges matter for groups; others need not be added."""
TAKEN = ("groups", "call", "asked_offsets", "replica_id")
"""The message columns that :meth:`GroupHistories.choose` reads of a whole capture."""


def needed(api_keys: Int64s) -> Bools:
    """Return a mask of the exchanges of a whole capture that matter for groups: none if no member sent a request.

    :param api_keys: API keys of all exchanges
    """
    found: Bools = np.isin(api_keys, list(NEEDED if np.isin(api_keys, list(OF_MEMBERS)).any() else ()))
    return found


class _Steady(msgspec.Struct, frozen=True):
    """A timeline that stays valid while members send only heartbeats.

    :ivar calls: number of calls when it was made, a run of heartbeats counted once
    :ivar now: when it was made
    """

    timeline: GroupTimeline
    calls: int
    now: int

    def going_on(self, calls: GroupCalls, now: int) -> GroupTimeline | None:
        """Return the timeline extended to `now`; None if it has to be made again."""
        if len(calls.calls) != self.calls or now - self.now > REMADE_AFTER:
            return None
        rebalances = self.timeline.rebalances
        if any(each.running or any(not stop.ended for stop in each.stopped) for each in rebalances[-1:]):
            return None
        if rebalances and self.now - (rebalances[-1].end or rebalances[-1].time) < _EFFECTS_SHOW:
            return None
        members, latest = [], self.timeline.last
        for member in self.timeline.members:
            if member.left is None and member.connections:
                last_call = max(calls.last_contact((*member.former, member.member)), member.last)
                if now - last_call > _MISSED * (member.interval or _INTERVAL):
                    return None  # its session may end
                if self.timeline.kind is Kind.CLASSIC:
                    latest = max(latest, last_call)
                spans = [*member.spans[:-1], *(replace(span, end=now) for span in member.spans[-1:])]
                member = replace(member, last=last_call, spans=spans)
            members.append(member)
        return replace(self.timeline, members=members, last=latest)


class GroupHistories:
    """Collects the calls between members and coordinators, and makes timelines of them.

    Exchanges may be added in any order, each once; the order of their times counts.

    :param names: resolves topic IDs
    :param capture: shows how connections ended, and the state of the network; without it, both are unknown
    :ivar traffic: contents of Produce and Fetch, for others that need them too
    :ivar passed: facts about calls that :meth:`choose` skipped, by the number of the call after them
    """

    def __init__(self, names: Names, capture: Capture | None = None) -> None:
        self._names = names
        self._capture = capture
        self._faults = RAISED if capture is None else capture.faults
        self._groups: dict[str, GroupCalls] = {}
        self._interventions: dict[str, InterventionLog] = {}
        self._partitions = PartitionCounts(names)
        self._coordinators = Coordinators()
        self.traffic = RecordTraffic(names)
        self._consumption = Consumption(names, self.traffic)
        self._configs = ConfigChanges()
        self._silences = Silences(capture)
        self._acceptances: Acceptances | None = None
        self._latest = 0
        self._added = 0
        self._timelines: tuple[tuple[int, int, bool], list[GroupTimeline]] | None = None
        """The latest timelines: of how many exchanges, up to when, and whether the capture still grew."""
        self._steady: dict[str, _Steady] = {}
        self.passed: dict[int, PassedCalls] = {}
        self._commits: CommitColumns | None = None
        self._fetches: Iterator[tuple[int, ExchangePositions]] = iter(())
        self._fetch: tuple[int, ExchangePositions] | None = None

    @property
    def partition_counts(self) -> PartitionCounts:
        """The partition counts of topics."""
        return self._partitions

    @property
    def calls(self) -> Mapping[str, GroupCalls]:
        """The calls so far by group."""
        return self._groups

    def choose(self, rows: DecisionColumns, read: Bools | None = None) -> Bools:
        """Return a mask of the exchanges that have to be added.

        Facts that columns hold are taken from them instead; exchanges must then be added in the order of their numbers.
        Of a part of a capture these are :attr:`passed`, which has to reach the histories that the exchanges are added
        to.

        :param read: mask of exchanges that are added anyway
        """
        found = rows.of_api(NEEDED)
        assert rows.numbers is not None
        read = rows.nothing if read is None else read
        if not rows.whole:  # the offsets of skipped commits are known only here
            read = read | rows.of_api({ApiKey.OFFSET_COMMIT})
        runs = CallRuns(rows, read)
        found &= ~runs.passed
        self.passed = runs.passed_calls()
        if rows.whole:
            if rows.of_api({ApiKey.FETCH, ApiKey.SHARE_FETCH}).any():
                self._commits = CommitColumns(rows, runs.passed & rows.of_api({ApiKey.OFFSET_COMMIT}))
            fetches = rows.of_api({ApiKey.FETCH}) & rows.untouched
            fetches &= ~(Farewells.deciding(rows) | ConfigChanges.deciding(rows))
            found &= ~fetches
            numbers = rows.numbers[fetches].tolist()
            positions = PositionColumns(rows.columns).positions(np.flatnonzero(fetches))
            self._fetches = zip(numbers, positions, strict=True)
            self._fetch = next(self._fetches, None)
        return found

    def _catch_up(self, number: float) -> None:
        """Add what columns hold about the exchanges before `number`."""
        consumption = self._consumption
        while self._fetch is not None and self._fetch[0] < number:
            self._commit_until(self._fetch[0])
            self._faults.contained(partial(consumption.fetch, *self._fetch), HISTORIES, None, self._fetch[0])
            self._fetch = next(self._fetches, None)
        self._commit_until(number)

    def _commit_until(self, number: float) -> None:
        for commit in self._commits.before(number) if self._commits is not None else ():
            self._consumption.commit(commit)

    def merge(self, other: Self) -> None:
        """Merge what `other` has collected about other groups and clients (:mod:`.components`)."""
        self._added += other._added
        self._latest = max(self._latest, other._latest)
        self._groups |= other._groups
        self._interventions |= other._interventions
        self._partitions.merge(other._partitions)
        self._coordinators.merge(other._coordinators)
        self._consumption.merge(other._consumption)
        self._configs.merge(other._configs)
        self._silences.farewells.merge(other._silences.farewells)
        self._silences.named.merge(other._silences.named, other._groups)

    def add(self, exchange: Exchange) -> None:
        self._catch_up(exchange.number)
        if self._fetch is not None and self._fetch[0] == exchange.number:  # others need it in full
            self._fetch = next(self._fetches, None)
        self._added += 1
        self._latest = max(self._latest, exchange.end)
        self._consumption.add(exchange)
        self._configs.add(exchange)
        key = exchange.api_key
        if key in OF_MEMBERS:
            self._call(exchange)
        elif key in OF_TOPICS:
            self._partitions.add(exchange)
        elif key in BY_FAREWELLS:
            self._silences.farewells.add(exchange)
            self._silences.named.add(exchange)

    def result(
        self, *, now: int | None = None, pending: Iterable[Exchange] = (), live: bool = False
    ) -> list[GroupTimeline]:
        """Return the timelines of the groups, sorted by name.

        :param now: ns since the epoch, for a growing capture; by default the time of the latest packet
        :param pending: exchanges of a growing capture that may still be answered
        :param live: whether this will be called again soon. If so, the timeline of a group with nothing but new
            heartbeats is reused for up to :data:`REMADE_AFTER`
        """
        self._catch_up(float("inf"))
        waiting = list(pending)
        observed = now is None
        if now is None:
            now = max(self._latest, self._capture.latest if self._capture is not None else 0)
        of = self._added, now, self._capture is not None and self._capture.source.growing
        if self._timelines is not None and self._timelines[0] == of and not waiting and not live:
            return self._timelines[1]
        timelines = self._make_timelines(now, waiting, live=live, observed=observed)
        self._timelines = None if waiting or live else (of, timelines)
        return timelines

    def _make_timelines(
        self, now: int, pending: Iterable[Exchange], *, live: bool, observed: bool
    ) -> list[GroupTimeline]:
        groups = self._with(pending)
        until = {
            name: self._observed_until(calls, now) if observed else now for name, calls in groups.items()
        }
        known: dict[str, GroupTimeline] = {}
        timelines: list[GroupTimeline] = []
        # made again, because a growing capture may have more of them
        self._acceptances = None if self._capture is None else Acceptances(self._capture)
        for name in sorted(groups):
            steady = self._steady.get(name) if live else None
            going_on = steady and steady.going_on(groups[name], until[name])
            timeline = going_on or self._faults.contained(
                partial(self._timeline, groups[name], until[name]), _history_of(name), None
            )
            if timeline is not None:
                known[name] = timeline
                if going_on is None:
                    timelines.append(timeline)
        self._faults.contained(
            partial(explain_timeouts, timelines, self._silences), "finding why members were silent", None
        )
        fetched = self._consumption.by_group() if timelines else {}
        for timeline in timelines:
            name = timeline.group
            whole = partial(self._completed, timeline, groups[name], fetched.get(name, {}), until[name])
            if not self._faults.contained(whole, _history_of(name), without=False):
                del known[name]
            elif live:
                self._steady[name] = _Steady(timeline, len(groups[name].calls), until[name])
        return list(known.values())

    def _observed_until(self, calls: GroupCalls, latest: int) -> int:
        """Return until when a group was observed: as long as the connections of its members."""
        if self._capture is None or len(self._capture.connections.observation.spans) < 2:
            return latest
        connections = np.array(sorted({call.connection for call in calls.calls}), np.int64)
        return int(self._capture.observed_until(connections).max(initial=0)) or latest

    def _completed(
        self,
        timeline: GroupTimeline,
        calls: GroupCalls,
        fetched: Mapping[TopicPartition, list[FetchRun]],
        now: int,
    ) -> bool:
        """Fill in what follows the timeline itself; return True, which distinguishes success from an internal error."""
        if timeline.group in self._interventions:
            self._interventions[timeline.group].blame(timeline)
        timeline.refused = refused_clients(calls)
        fill_effects(timeline, calls, fetched, now)
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
        passed = self.passed.get(exchange.number, _NOTHING_PASSED)
        if isinstance(call, Run):
            call.count, call.longest = passed.calls + 1, passed.longest
        if passed.last_contact:
            self._coordinators.extend(name, call.broker, passed.last_contact)
        group.add(call)
        if exchange.intervened:
            self._interventions.setdefault(name, InterventionLog()).add(exchange, call)
        if call.end is not None and call.error not in COORDINATOR_AWAY:
            self._coordinators.answered(name, call.broker, call.time, call.number)
            self._silences.named.answered(name, call)
        elif call.error == ErrorCode.NOT_COORDINATOR:
            self._coordinators.resigned(name, call.broker, call.time)

    def _with(self, pending: Iterable[Exchange]) -> dict[str, GroupCalls]:
        """Return copies of the groups with the calls that are not answered yet; the collected groups stay unchanged."""
        waiting: dict[str, list[Call]] = {}
        for exchange in pending:
            if exchange.api_key in OF_MEMBERS and (name := group_of(exchange)):
                known = self._groups.get(name)
                kind = known.protocol_type if known is not None else ""
                read = partial(read_call, exchange, self._names, kind, pending=True)
                call = self._faults.contained(read, _history_of(name), None)
                if call is not None:
                    waiting.setdefault(name, []).append(call)
        groups = dict(self._groups)
        for name, calls in waiting.items():
            groups[name] = groups.get(name, GroupCalls(name)).and_also(calls)
        return groups

    def _timeline(self, calls: GroupCalls, now: int) -> GroupTimeline:
        context = GroupContext(
            now=now,
            names=self._names,
            partitions=self._partitions,
            coordinators=self._coordinators.of(calls.group),
            capture=self._capture,
            acceptances=self._acceptances,
            configs=self._configs,
        )
        timeline_of = classic.timeline_of if calls.kinds <= {Kind.CLASSIC} else modern.timeline_of
        return timeline_of(calls, context)


def _history_of(group: str) -> str:
    """Return the name of the activity, for error reports."""
    return f"the history of group {words.clipped(words.line(group), _LONGEST_NAME)}"


def _drop_unnumbered(timeline: GroupTimeline) -> None:
    """Drop exchanges without a number from the evidence: they may still be answered."""
    for rebalance in timeline.rebalances:
        if rebalance.evidence and not min(rebalance.evidence):
            rebalance.evidence = [number for number in rebalance.evidence if number]
        for index, cause in enumerate(rebalance.causes):
            if not all(cause.evidence):
                evidence = tuple(number for number in cause.evidence if number)
                rebalance.causes[index] = replace(cause, evidence=evidence)
