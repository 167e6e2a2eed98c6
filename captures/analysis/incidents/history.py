"""The histories of groups and of the controller, with the incidents that caused rebalances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Self

import numpy as np
from msgspec import UNSET

from captures.analysis.attempts import Outcome, attempts, ended_by_brokers
from captures.analysis.clusters import ONE_CLUSTER, Clusters
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.groups.call_runs import PassedCalls
from captures.analysis.groups.calls import OF_MEMBERS, GroupCalls
from captures.analysis.groups.context import OF_TOPICS
from captures.analysis.groups.history import HISTORIES, GroupHistories
from captures.analysis.groups.history import NEEDED as BY_GROUPS
from captures.analysis.groups.history import needed as of_groups
from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.analysis.incidents.controllers import NEEDED as OF_CONTROLLERS
from captures.analysis.incidents.controllers import Controllers
from captures.analysis.incidents.incidents import find_incidents, in_order
from captures.analysis.incidents.model import Incident
from captures.analysis.incidents.of_brokers import NEEDED as OF_BROKERS
from captures.analysis.slow_answers import NEEDED as BY_SLOW_ANSWERS
from captures.analysis.slow_answers import SlowAnswers
from captures.arrays import Bools, Int64s
from captures.exchanges import Capture, Exchange, ExchangeReader, ExchangeTable
from captures.exchanges.columns import ExchangeColumns
from captures.meaning import Names
from dissectors.api_keys import GROUP_HEARTBEATS, ApiKey

_CHANGING = GROUP_HEARTBEATS | OF_BROKERS | {ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP}
"""APIs with which members or brokers join and leave."""

NEEDED = BY_GROUPS | OF_CONTROLLERS | BY_SLOW_ANSWERS
"""APIs whose exchanges matter for groups and incidents; others need not be added."""


def needed(table: ExchangeTable, rows: Int64s) -> Bools:
    """Return a mask of the exchanges of a completely read capture that matter for groups or incidents."""
    api_keys = table.column("api_key")[rows]
    of_controllers = np.isin(api_keys, list(OF_CONTROLLERS))
    return of_groups(api_keys) | of_controllers | SlowAnswers.possible(table, rows)


def eventless(capture: Capture, rows: Int64s) -> bool:
    """Return whether a capture has nothing that could be an incident of a group or a broker.

    :param rows: rows of its exchanges
    """
    return not (
        np.isin(capture.table.column("api_key")[rows], list(_CHANGING)).any()
        or SlowAnswers.possible(capture.table, rows).any()
        or any(ended_by_brokers(capture))
        or any(attempts(capture, (Outcome.REFUSED, Outcome.SILENT)))
    )


class IncidentHistories(GroupHistories):
    """Collects the calls between members and coordinators, and makes timelines and incidents of them.

    :param has_broker: as for :func:`~captures.analysis.incidents.incidents.find_incidents`
    :ivar incidents: incidents, as of the latest :meth:`result` that was not ``live``
    """

    def __init__(
        self,
        names: Names,
        capture: Capture | None = None,
        has_broker: Callable[[str], bool] | None = None,
    ) -> None:
        super().__init__(names, capture)
        self._has_broker = has_broker
        self._explained: list[GroupTimeline] | None = None
        self._controllers = Controllers()
        self._slow = SlowAnswers()
        self.incidents: list[Incident] = []

    def choose(self, rows: DecisionColumns, read: Bools | None = None) -> Bools:
        chosen = rows.of_api(OF_CONTROLLERS | OF_TOPICS) | SlowAnswers.deciding(rows)
        if read is not None:
            chosen |= read
        if rows.ever("calls of members", rows.of_api(OF_MEMBERS)):
            chosen |= super().choose(rows, chosen)
        return chosen

    def merge(self, other: Self) -> None:
        super().merge(other)
        self._controllers.merge(other._controllers)
        self._slow.merge(other._slow)

    def add(self, exchange: Exchange) -> None:
        if exchange.api_key in OF_CONTROLLERS:
            self._controllers.add(exchange)
        self._slow.add(exchange)
        super().add(exchange)

    def result(
        self, *, now: int | None = None, pending: Iterable[Exchange] = (), live: bool = False
    ) -> list[GroupTimeline]:
        """Return the timelines of the groups sorted by name, with the incidents that caused their rebalances.

        The parameters are those of :meth:`GroupHistories.result`. If ``live``, incidents are not searched for.
        """
        timelines = super().result(now=now, pending=pending, live=live)
        if not live and timelines is not self._explained:
            seen = self.calls, self._controllers, self._slow.found, self.partition_counts, self._has_broker
            find = partial(find_incidents, self._capture, timelines, *seen)
            self.incidents = self._faults.contained(find, "finding incidents", [])
            self._explained = timelines
        return timelines


class ClusterHistories:
    """The histories of the groups of each cluster of a capture.

    Its methods are those of :class:`IncidentHistories`.

    :param clusters: clusters of the connections; by default all are of one cluster
    :ivar of: the histories by member of :attr:`Clusters.parts`
    :ivar incidents: incidents of all clusters, as of the latest :meth:`result`
    """

    def __init__(
        self, names: Names, capture: Capture | None = None, clusters: Clusters = ONE_CLUSTER
    ) -> None:
        self._clusters = clusters
        self.of = {
            part: IncidentHistories(names, capture, partial(clusters.has, part) if part and capture else None)
            for part in clusters.parts
        }
        self.incidents: list[Incident] = []

    def choose(self, rows: DecisionColumns) -> Bools:
        """Return a mask of the exchanges that have to be added: of several clusters, all that matter."""
        if self._clusters.several:
            return rows.of_api(NEEDED)
        return self.of[""].choose(rows)

    def add(self, exchange: Exchange) -> None:
        self.of[self._clusters.part_of(exchange.connection)].add(exchange)

    def merge(self, of: Mapping[str, IncidentHistories]) -> None:
        for part, histories in of.items():
            self.of[part].merge(histories)

    @property
    def passed(self) -> dict[int, PassedCalls]:
        """Facts about calls that :meth:`choose` skipped, by the number of the call after them."""
        return {number: each for histories in self.of.values() for number, each in histories.passed.items()}

    def pass_over(self, passed: Mapping[int, PassedCalls]) -> None:
        """Take :attr:`passed` of the next part of a capture, before its exchanges are added."""
        for histories in self.of.values():
            histories.passed |= passed

    @property
    def calls(self) -> list[GroupCalls]:
        """The calls to each group so far, sorted by the name of the group."""
        every = (calls for histories in self.of.values() for calls in histories.calls.values())
        return sorted(every, key=lambda calls: calls.group)

    def result(self, *, now: int | None = None, pending: Iterable[Exchange] = ()) -> list[GroupTimeline]:
        timelines: list[GroupTimeline] = []
        waiting = list(pending)
        for part, histories in self.of.items():
            theirs = [each for each in waiting if self._clusters.part_of(each.connection) == part]
            of_part = histories.result(now=now, pending=theirs)
            rebalances = (rebalance for timeline in of_part for rebalance in timeline.rebalances)
            every: Iterable[GroupTimeline | Rebalance | Incident]
            every = chain(of_part, rebalances, histories.incidents)
            for each in every:
                each.cluster = part or UNSET
            timelines += of_part
        self.incidents = in_order(each for histories in self.of.values() for each in histories.incidents)
        return sorted(timelines, key=lambda each: each.group)


def add_all(
    histories: GroupHistories | ClusterHistories,
    reader: ExchangeReader,
    columns: ExchangeColumns,
    indexes: Int64s,
) -> Iterator[Exchange]:
    """Add exchanges of a completely read capture to histories; yield those that decide something.

    :param columns: of the exchanges: :data:`~captures.analysis.groups.history.TAKEN`
    :param indexes: index in the reader for each row of the columns
    """
    reader.learn(len(reader))
    chosen = indexes[histories.choose(DecisionColumns(columns, numbers=indexes + reader.first))]
    add = reader.capture.faults.guarded(histories.add, HISTORIES)
    for exchange in reader.several(chosen.tolist()):
        add(exchange)
        yield exchange
