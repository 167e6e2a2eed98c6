"""The diagnosis of a capture: every rule sees the exchanges it needs, and reports its findings.

A rule that fails on one exchange still sees the next, however often it fails: if it were disabled, any client that can
send a request could blind it. Its findings may then be incomplete, so it is also reported as blind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from captures.analysis.clusters import ONE_CLUSTER, UNKNOWN, Clusters, beside
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.all import RULES
from captures.analysis.findings.because_of import explain
from captures.analysis.findings.finding import Finding
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext, times
from captures.analysis.groups.history import HISTORIES
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.groups.vocabulary import Trigger
from captures.analysis.incidents.history import ClusterHistories
from captures.analysis.incidents.model import Incident
from captures.arrays import Bools, Int64s
from captures.exchanges import Capture, Exchange, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.meaning import Names, words


def _doing(rule: type[Rule]) -> str:
    """Return the name of the activity, for error reports."""
    return f"the rule {rule.name}"


def _excused(timeline: GroupTimeline) -> Iterator[int]:
    """Yield the exchanges of a group that failed because of rebalances that kproxy caused."""
    for rebalance in timeline.rebalances:
        if rebalance.trigger is Trigger.KPROXY_INTERVENED:
            yield from (failure.number for failure in rebalance.commit_failures)
            yield from (refetched.number for refetched in rebalance.refetched)


def packed(wanted: Bools) -> list[bytes]:
    """Return each column of a mask as bytes."""
    return [row.tobytes() for row in np.packbits(wanted, axis=0).T]


class InconclusiveRule(NamedTuple):
    """A rule that could not judge, or not everything.

    :ivar why: reason in words
    """

    rule: type[Rule]
    why: str


class RuleByCluster(Rule, kw_only=True):
    """A rule with an instance for each cluster. All exchanges of its APIs decide.

    :param context: that of any instance
    :param rule: the rule
    :param parts: its instances, by member of :attr:`Clusters.parts`
    """

    rule: type[Rule]
    parts: Mapping[str, Rule]
    clusters: Clusters

    @property
    def kind(self) -> type[Rule]:
        return self.rule

    def add(self, exchange: Exchange) -> None:
        self.parts[self.clusters.part_of(exchange.connection)].add(exchange)

    def intervened(self, exchange: Exchange) -> None:
        self.parts[self.clusters.part_of(exchange.connection)].intervened(exchange)

    def findings(self) -> Iterator[Finding]:
        for part, rule in self.parts.items():
            for finding in rule.findings():
                yield replace(finding, cluster=part)

    def blind(self) -> str:
        """Return why it could not judge known clusters, or not everything in them."""
        reasons = {part: rule.blind() for part, rule in self.parts.items() if part != UNKNOWN}
        distinct = {*reasons.values()}
        if len(distinct) == 1:
            return distinct.pop()
        return "; ".join(beside(reason, part) for part, reason in reasons.items() if reason)

    def lacking(self) -> str:
        return next(iter(self.parts.values())).lacking()


class Diagnosis:
    """Shows exchanges to the rules.

    :param names: resolves topic IDs
    :param limits: thresholds that differ from their defaults: ``rule.name`` -> value
    :param rules: the rules; all by default
    :param with_groups: whether groups are followed; otherwise rules about groups find nothing
    :param clusters: clusters of the connections, each of which is judged by itself; by default there is only one
    :ivar groups: histories of the groups
    :ivar intervened: number of exchanges in which kproxy intervened. Rules see those in which the cluster acted on its
        own, but not those that it did not get as they were sent, or did not answer itself
    """

    def __init__(
        self,
        capture: Capture,
        names: Names,
        *,
        limits: Mapping[str, float] | None = None,
        rules: Sequence[type[Rule]] = RULES,
        with_groups: bool = True,
        clusters: Clusters = ONE_CLUSTER,
    ) -> None:
        self.groups = ClusterHistories(names, capture, clusters)
        self._capture = capture
        self.intervened = 0
        self._with_groups = with_groups
        self._timelines: list[GroupTimeline] | None = None
        self._patterns: dict[bytes, tuple[list[Rule], bool]] = {}
        scenes = {
            part: RuleContext(
                capture=capture,
                names=names,
                timelines=partial(self._group_timelines, part),
                limits=limits or {},
                traffic=histories.traffic,
            )
            for part, histories in self.groups.of.items()
        }
        self._faults = capture.faults
        self._rules = [
            RuleByCluster(
                context=scenes[clusters.parts[0]],
                rule=rule,
                parts={part: rule(context) for part, context in scenes.items()},
                clusters=clusters,
            )
            if clusters.several and rule.key is not Key.CAPTURE
            else rule(next(iter(scenes.values())))
            for rule in rules
        ]
        kinds = list(zip(rules, self._rules, strict=True))
        self._always = [rule for kind, rule in kinds if kind.apis is None]
        self._by_key = {
            key: [rule for kind, rule in kinds if kind.apis is None or key in kind.apis]
            for key in {key for rule in rules for key in rule.apis or ()}
        }

    def add(self, exchange: Exchange) -> None:
        """Show one exchange to the rules that need it."""
        key = -1 if exchange.api_key is None else exchange.api_key
        self._show(exchange, self._by_key.get(key, self._always), of_groups=self._with_groups)

    def add_to(self, shown: bytes, exchange: Exchange) -> None:
        """Show one exchange to some rules.

        :param shown: its column of :meth:`wanted`, as :func:`packed` returns it
        """
        if shown not in self._patterns:
            bits = np.unpackbits(np.frombuffer(shown, np.uint8), count=len(self._rules) + 1).tolist()
            self._patterns[shown] = [*compress(self._rules, bits)], bool(bits[-1])
        rules, of_groups = self._patterns[shown]
        self._show(exchange, rules, of_groups=of_groups)

    def add_all(
        self, reader: ExchangeReader, columns: ExchangeColumns, indexes: Int64s
    ) -> Iterator[Exchange]:
        """Show the deciding exchanges of a completely read capture to the rules.

        :param columns: columns of the exchanges, in the order of their numbers:
            :data:`~captures.analysis.decision_columns.TAKEN`
        :param indexes: index in the reader for each row of the columns
        :return: the exchanges that were shown
        """
        reader.learn(len(reader))
        wanted = self.wanted(DecisionColumns(columns, numbers=indexes + reader.first))
        shown = np.flatnonzero(wanted.any(axis=0))
        patterns = packed(wanted[:, shown])
        for pattern, exchange in zip(patterns, reader.several(indexes[shown].tolist()), strict=True):
            self.add_to(pattern, exchange)
            yield exchange

    def wanted(self, rows: DecisionColumns) -> Bools:
        """Return a mask by rule and exchange of the exchanges to show; the last row is for the groups."""
        wanted = np.zeros((len(self._rules) + 1, len(rows.columns)), np.bool_)
        intervened = rows.columns.flat("intervened") > 0
        for mask, rule in zip(wanted, self._rules, strict=False):
            mask[:] = True if rule.kind.apis is None else rows.of_api(rule.kind.apis)
            deciding = self._faults.contained(partial(rule.deciding, rows), _doing(rule.kind), None)
            if deciding is not None:
                mask &= deciding | intervened
        if self._with_groups:
            wanted[-1] = self.groups.choose(rows)
        return wanted

    def counted(self) -> dict[str, Mapping[Any, Any]]:
        """Return what rules have counted in :meth:`wanted` instead of having it shown, by name of the rule.

        :data:`HISTORIES` has :attr:`ClusterHistories.passed`.
        """
        found: dict[str, Mapping[Any, Any]] = {HISTORIES: self.groups.passed}
        found |= {rule.kind.name: rule.counted() for rule in self._rules}
        return {name: counted for name, counted in found.items() if counted}

    def merge(self, counted: Mapping[str, Mapping[Any, Any]]) -> None:
        """Add what :meth:`counted` returned for the next part of the capture, or some keys of it."""
        self.groups.pass_over(counted.get(HISTORIES, {}))
        for rule in self._rules:
            rule.merge(counted.get(rule.kind.name, {}))

    def _show(self, exchange: Exchange, rules: Iterable[Rule], *, of_groups: bool) -> None:
        if of_groups:
            try:
                self.groups.add(exchange)
            except Exception as error:
                self._faults.note(error, HISTORIES, exchange.number)
        hidden = False
        if exchange.intervened:
            self.intervened += 1
            hidden = exchange.interventions.has_injected_errors or exchange.interventions.not_forwarded
        for rule in rules:
            try:
                (rule.intervened if hidden else rule.add)(exchange)
            except Exception as error:
                self._faults.note(error, _doing(rule.kind), exchange.number)

    def findings(self, *, now: int | None = None, pending: Iterable[Exchange] = ()) -> list[Finding]:
        """Return the findings so far, sorted by descending severity, then by first occurrence.

        :param now: as for :meth:`ClusterHistories.result`
        :param pending: as for :meth:`ClusterHistories.result`
        """
        self._timelines = self.groups.result(now=now, pending=pending)
        excused = {number for timeline in self._timelines for number in _excused(timeline)}
        found = [
            finding
            for rule in self._rules
            for finding in self._faults.contained_items(rule.findings(), _doing(rule.kind))
            if not (excused and finding.evidence and excused.issuperset(finding.evidence))
        ]
        found = explain(self.groups.incidents, found, self._capture.latest if now is None else now)
        return sorted(found, key=lambda finding: (-finding.severity, finding.first, finding.key))

    @property
    def left_out(self) -> str:
        """A sentence that kproxy's interventions are no findings; empty if there were none."""
        if not self.intervened:
            return ""
        exchanges = words.counted(self.intervened, "exchange")
        return f"kproxy intervened in {exchanges}, by rules or by hand; what came of that is no finding."

    @property
    def incidents(self) -> list[Incident]:
        """The incidents, with the findings that follow from them, as of the latest :meth:`findings`."""
        return self.groups.incidents

    def blind(self) -> list[InconclusiveRule]:
        """Return the rules that could not judge, or not everything."""
        found = []
        for rule in self._rules:
            reason = rule.lacking() or self._faults.contained(rule.blind, _doing(rule.kind), "")
            why = "; ".join(filter(None, (self._failed(rule.kind), reason)))
            if why:
                found.append(InconclusiveRule(rule.kind, why))
        return found

    def _failed(self, rule: type[Rule]) -> str:
        """Return a text that a rule has failed; empty if it has not."""
        count = self._faults.of(_doing(rule))
        return f"it failed {times(count)}, because of an internal error in kproxy" if count else ""

    def _group_timelines(self, part: str) -> list[GroupTimeline]:
        if self._timelines is None:
            self._timelines = self.groups.result()
        return [each for each in self._timelines if (each.cluster or "") == part]
