"""Findings that are effects of incidents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from captures.analysis.findings.finding import EffectOf, Finding
from captures.analysis.incidents.model import Consequence, Incident, IncidentKind
from captures.analysis.incidents.periods import Period, Periods
from dissectors.units import SECOND

_SETTLES = 60 * SECOND
"""ns after an incident within which findings that began in it are its effects."""
_JUST_BEFORE = 2 * SECOND


def explain(incidents: Sequence[Incident], found: Iterable[Finding], now: int) -> list[Finding]:
    """Return the findings; effects of an incident are marked (``because_of``) and added to its consequences.

    A finding is the effect of an incident if its rule looks for such effects, and it was seen only during the incident
    or soon after; effects on members must also concern the incident's group. If several incidents match, it is the
    effect of the one with evidence in common. A finding about a cluster is the effect of one in that cluster.
    """
    for each in incidents:  # of an earlier diagnosis
        each.consequences = [effect for effect in each.consequences if not effect.rule]
    found = list(found)
    causes = {
        cluster: _Causes((each for each in incidents if not cluster or each.cluster == cluster), now)
        for cluster in {finding.cluster for finding in found}
    }
    out = []
    for finding in found:
        cause = causes[finding.cluster].of(finding)
        if cause is not None:
            finding = replace(finding, because_of=cause.id)
            effect = finding.subject, finding.first, finding.sentence, finding.evidence, finding.rule
            cause.consequences.append(Consequence("finding", *effect))
        out.append(finding)
    return out


class _Causes:
    """Incidents that may explain findings.

    :param now: end of an incident whose end was not seen
    """

    def __init__(self, incidents: Iterable[Incident], now: int) -> None:
        of_brokers: list[Period[Incident]] = []
        of_controllers: list[Period[Incident]] = []
        of_groups: dict[str, list[Period[Incident]]] = {}
        self._shown: dict[int, Period[Incident]] = {}
        for each in incidents:
            end = (now if each.end is None else each.end) + _SETTLES
            period = Period(each.begin - _JUST_BEFORE, end, each)
            if each.brokers or each.kind is IncidentKind.NETWORK_OUTAGE:
                of_brokers.append(period)
            if each.kind is IncidentKind.CONTROLLER_MOVE:
                of_controllers.append(period)
            if each.kind is not IncidentKind.TOPIC_CHANGE:
                for group in each.groups:
                    of_groups.setdefault(group, []).append(period)
            for number in _evidence(each):
                self._shown.setdefault(number, period)
        self._of_brokers = Periods(of_brokers)
        self._of_controllers = Periods(of_controllers)
        self._of_groups = {group: Periods(periods) for group, periods in of_groups.items()}

    def of(self, finding: Finding) -> Incident | None:
        """Return the incident that most likely explains a finding; None if none does."""
        if finding.effect_of in (EffectOf.BROKERS, EffectOf.CONTROLLERS):
            away = self._of_brokers.first(finding.first, finding.last)
            if away is not None or finding.effect_of is EffectOf.BROKERS:
                return away
            return self._of_controllers.first(finding.first, finding.last)
        if finding.effect_of is not EffectOf.MEMBERS:
            return None
        for number in finding.evidence:
            shown = self._shown.get(number)
            if shown is None or finding.group not in shown.of.groups:
                continue
            if shown.begin <= finding.first and finding.last <= shown.end:
                return shown.of
        periods = self._of_groups.get(finding.group)
        return None if periods is None else periods.first(finding.first, finding.last)


def _evidence(incident: Incident) -> Iterator[int]:
    """Yield the numbers of the exchanges that show an incident, or a rebalance that follows from it."""
    yield from incident.evidence
    for rebalance in incident.rebalances:
        yield from rebalance.evidence
        yield from (refetched.number for refetched in rebalance.refetched)
        yield from (failure.number for failure in rebalance.commit_failures)
