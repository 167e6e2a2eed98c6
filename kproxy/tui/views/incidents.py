"""Incidents: each event once, on a time axis, with its consequences."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from captures.analysis.clusters import beside
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.model import Incident, IncidentKind
from captures.meaning import words
from captures.time_format import clock, span
from kproxy.session import Access
from kproxy.text.incidents import EFFECT_LABELS
from kproxy.text.tables import Column
from kproxy.tui.views.findings import EVIDENCE, DiagnosisView, FindingsFold, evidence_rows, named_exchange
from kproxy.tui.views.table_view import Detail, facts
from kproxy.tui.widgets.table_rows import AnyCell, Cell, Role, Row, counted, moment

_WHAT = 32
"""Least cells of a sentence in tables, so that the columns beside it fit into 80 columns."""
_AXIS = 24
"""Cells from the start of the capture to its end."""
_CONNECTIONS = 20
"""Most connections in a filter for an incident."""
_GRAVE = frozenset({IncidentKind.BROKER_OUTAGE, IncidentKind.NETWORK_OUTAGE, IncidentKind.CRASH_LOOP})


class Incidents(DiagnosisView):
    """One row per incident; consequences and advice for the selected one.

    It covers all exchanges, because an effect cannot be recognised without its cause.
    """

    view_name = "incidents"
    THINGS = "incidents"
    COLUMNS = (
        Column("begin"),
        Column("lasted", right=True),
        Column("when", least=_AXIS, rank=3),
        Column("incident"),
        Column("what", least=_WHAT, wraps=True),
        Column("effects", right=True, rank=1),
        Column("certainty", rank=2),
    )
    DETAILS = (
        (
            Column("time"),
            Column("effect"),
            Column("what", least=24, wraps=True),
            Column("evidence", least=8),
        ),
        EVIDENCE,
    )

    def rows(self, fold: FindingsFold, access: Access) -> Sequence[Row]:
        found = self.result(fold, access).incidents
        latest = access.capture.latest
        first = min((fold.first, *(each.begin for each in found)))
        return [self._row(each, first, latest) for each in found]

    def _row(self, incident: Incident, first: int, latest: int) -> Row:
        lasts = incident.lasts(latest)
        open_end = "" if incident.end is not None else "+"
        cells: tuple[AnyCell, ...] = (
            moment(incident.begin, self.session.zone),
            Cell(f"{span(lasts)}{open_end}" if lasts else "", value=lasts),
            Cell(_bar(incident.begin - first, lasts, latest - first), Role.WARNING, incident.begin),
            Cell(
                beside(incident.kind.heading, incident.cluster),
                Role.ERROR if incident.kind in _GRAVE else Role.WARNING,
            ),
            incident.sentence,
            counted(len(incident.consequences)),
            "" if incident.certainty is Certainty.OBSERVED else incident.certainty.value,
        )
        return Row(incident.id, cells, leads_to=_leads_to(incident))

    def detail(self, fold: FindingsFold, access: Access, key: Hashable) -> Detail | None:
        incident = next((each for each in self.result(fold, access).incidents if each.id == key), None)
        if incident is None:
            return None
        zone = self.session.zone
        end = ", its end was not seen" if incident.end is None else f" to {clock(incident.end, zone)}"
        text = facts(
            ("what to do", incident.advice),
            ("when", f"{clock(incident.begin, zone)}{end}"),
            ("certainty", "" if incident.certainty is Certainty.OBSERVED else incident.certainty.value),
            ("or else", "; ".join(incident.alternatives)),
            ("groups", words.some(incident.groups)),
        )
        effects = [
            Row(
                index,
                (
                    moment(effect.time, zone),
                    EFFECT_LABELS.get(effect.kind, effect.kind),
                    effect.sentence,
                    _evidence(effect.evidence, access),
                ),
                leads_to=next(iter(effect.evidence), None),
            )
            for index, effect in enumerate(incident.consequences)
        ]
        evidence = evidence_rows(access, incident.evidence, zone)
        ends = (incident.begin, incident.end or incident.begin)
        marks = (*ends, *(effect.time for effect in incident.consequences))
        return Detail(incident.id, text, (effects, evidence), filter="", marks=marks)


def _evidence(numbers: Sequence[int], access: Access) -> str:
    """Return the number of the first exchange of some evidence, how many others there are, and the API of the first.

    Cut at its end, ``#252 +2 SyncGroup`` keeps the numbers.
    """
    if not numbers:
        return ""
    number, *others = numbers
    name, _, shown = named_exchange(access, number).rpartition(" ")
    return f"{shown}{f' +{len(others)}' if others else ''} {name}".rstrip()


def _bar(begin: int, lasts: int, whole: int) -> str:
    """Return the place of a time range in the capture, as a line of :data:`_AXIS` cells."""
    if whole <= 0:
        return "━" * _AXIS
    left = min(_AXIS - 1, begin * _AXIS // whole)
    right = min(_AXIS, max(left + 1, -(-(begin + lasts) * _AXIS // whole)))
    return f"{'·' * left}{'━' * (right - left)}{'·' * (_AXIS - right)}"


def _leads_to(incident: Incident) -> str | int | None:
    """Return the first exchange of an incident's evidence, or else a filter for its connections."""
    if incident.evidence:
        return incident.evidence[0]
    if incident.connections:
        numbers = ", ".join(str(number) for number in incident.connections[:_CONNECTIONS])
        return f"connection in {{{numbers}}}"
    return None
