"""Findings that are effects of incidents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from captures.analysis.findings.finding import EffectOf, Finding
from captures.analysis.incidents.model import Consequence, Incident, IncidentKind
from captures.analysis.incidents.periods import Period, Periods
from dissectors.units import SECOND

_SETTLES = 60 * SECOND
"""ns after an incident in which what is found is its effect, if it began in it."""
_JUST_BEFORE = 2 * SECOND
_OF_BROKERS = (IncidentKind.BROKER_OUTAGE, IncidentKind.NETWORK_OUTAGE)


def explain(incidents: Sequence[Incident], found: Iterable[Finding], now: int) -> list[Finding]:
    """Return findings, those that are effects of an incident marked (``because_of``) and among its consequences.

    A finding is the effect of an incident if its rule looks for such effects, and it was seen during it or soon after
    only; of what befalls members, if it is about their group, too.
    """
    for each in incidents:  # of an earlier diagnosis
        each.consequences = [effect for effect in each.consequences if not effect.rule]
    causes = _Causes(incidents, now)
    out = []
    for finding in found:
        cause = causes.of(finding)
        if cause is not None:
            finding = replace(finding, because_of=cause.id)
            effect = (
                "finding",
                finding.subject,
                finding.first,
                finding.sentence,
                finding.evidence,
                finding.rule,
            )
            cause.consequences.append(Consequence(*effect))
        out.append(finding)
    return out


class _Causes:
    """Incidents that findings may be effects of.

    :param now: end of an incident whose end was not seen
    """

    def __init__(self, incidents: Iterable[Incident], now: int) -> None:
        of_brokers: list[Period[Incident]] = []
        of_groups: dict[str, list[Period[Incident]]] = {}
        for each in incidents:
            end = (now if each.end is None else each.end) + _SETTLES
            period = Period(each.begin - _JUST_BEFORE, end, each)
            if each.kind in _OF_BROKERS:
                of_brokers.append(period)
            for group in each.groups:
                of_groups.setdefault(group, []).append(period)
        self._of_brokers = Periods(of_brokers)
        self._of_groups = {group: Periods(periods) for group, periods in of_groups.items()}

    def of(self, finding: Finding) -> Incident | None:
        """Return the first incident that a finding may be an effect of."""
        if finding.effect_of is EffectOf.BROKERS:
            return self._of_brokers.first(finding.first, finding.last)
        if finding.effect_of is EffectOf.MEMBERS and finding.group in self._of_groups:
            return self._of_groups[finding.group].first(finding.first, finding.last)
        return None
