"""Incidents as text: what happened, how certain it is, its consequences, and advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import tzinfo

from captures.analysis.clusters import beside
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.model import Incident, in_line
from captures.meaning import words
from captures.time_format import Clock, span, zone_name
from kproxy.output import style
from kproxy.text.blocks import BLANK, Block, Fact, Heading, Paragraph

_SHOWN = 6
"""Most consequences of one incident that are printed."""
_NUMBERS = 10


class IncidentText:
    """Renders incidents as text.

    :param zone: time zone of the times; None is the local one
    :param show_all: whether to show all consequences
    :param dated: whether times have their date even if all are of one day
    """

    def __init__(self, zone: tzinfo | None, *, show_all: bool = False, dated: bool = False) -> None:
        self._zone = zone
        self._most = None if show_all else _SHOWN
        self._clock = Clock(zone, dated)

    def blocks(self, found: Sequence[Incident], now: int) -> Iterator[Block]:
        """Yield all incidents, ordered by time.

        :param now: end of the capture, ns since the epoch
        """
        if not found:
            yield Paragraph("No incident was seen.")
            return
        if not self._clock.dated:
            self._clock = Clock.of(found[0].begin, max(each.end or now for each in found), self._zone)
        zone = zone_name(found[0].begin, self._zone)
        yield Paragraph(f"{words.counted(len(found), 'incident')}, times in {zone}.", level=2)
        for each in found:
            yield BLANK
            yield from self.story(each)

    def story(self, incident: Incident) -> Iterator[Block]:
        """Yield one incident with its consequences."""
        certainty = "" if incident.certainty is Certainty.OBSERVED else str(incident.certainty)
        parts = (self._when(incident), beside(words.line(incident.id), incident.cluster), certainty)
        number = incident.evidence[0] if incident.evidence else None
        yield Heading(
            [style(each, fg="yellow", bold=True) for each in parts if each], 3, (2, 4), number=number
        )
        yield Paragraph(incident.sentence, indent=(4, 4), bold=True)
        findings = [each for each in incident.consequences if each.kind == "finding"]
        others = [each for each in incident.consequences if each.kind != "finding"]
        for each in others[: self._most]:
            yield _fact(EFFECT_LABELS.get(each.kind, each.kind), f"{self._clock(each.time)}  {each.sentence}")
        rest = len(others) - len(others[: self._most])
        if rest:
            yield _fact("", f"… {rest:,} more, --all shows them")
        if findings:
            rules = Counter(each.rule for each in findings)
            rules_found = ", ".join(
                f"{rule} ({count})" if count > 1 else rule for rule, count in rules.items()
            )
            yield _fact("findings", rules_found)
        if incident.alternatives:
            yield _fact("or else", "; ".join(incident.alternatives))
        yield _fact("do", incident.advice)
        if incident.evidence:
            shown = " ".join(f"#{number}" for number in incident.evidence[:_NUMBERS])
            more = len(incident.evidence) - _NUMBERS
            yield _fact("evidence", shown + (f" +{more}" if more > 0 else ""))

    def brief(self, incident: Incident) -> str:
        """Return an incident in one line."""
        return in_line(incident, self._clock)

    def _when(self, incident: Incident) -> str:
        begin = self._clock(incident.begin)
        if incident.end is None:
            return f"from {begin}"
        if incident.end == incident.begin:
            return begin
        return f"{begin} to {self._clock(incident.end)} ({span(incident.end - incident.begin)})"


def _fact(label: str, text: str) -> Fact:
    return Fact(label, text, room=10)


EFFECT_LABELS = {
    "rebalance": "rebalance",
    "stop": "stopped",
    "commit_failures": "commits",
    "duplicates": "twice",
    "coordinator_move": "moved",
    "controller_move": "moved",
    "slow_answers": "slow",
    "lag": "lag",
}
"""Labels of consequences, by kind."""
