"""Incidents as text for people: what happened, how sure that is, what followed from it, what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import tzinfo

from captures.analysis.groups.model import Certainty
from captures.analysis.incidents.model import Consequence, Incident, in_line
from captures.meaning import words
from captures.time_format import Clock, span, zone_name
from dissectors.printable import printable
from kproxy.text.paragraphs import INDENT, Paragraphs

_SHOWN = 6
"""Consequences of one incident that are printed."""
_NUMBERS = 10


class IncidentText:
    """Puts incidents into lines.

    :param width: columns of the terminal; None for a pipe
    :param zone: of the times; None is the local one
    :param show_all: whether to leave no consequence out
    """

    def __init__(
        self, width: int | None, zone: tzinfo | None, *, color: bool, show_all: bool = False
    ) -> None:
        self._page = Paragraphs(width, color=color)
        self._zone = zone
        self._most = None if show_all else _SHOWN
        self._clock = Clock(zone, dated=False)

    def lines(self, found: Sequence[Incident], now: int) -> Iterator[str]:
        """Yield all of them, in the order of time.

        :param now: ns since the epoch, up to which the capture goes
        """
        if not found:
            yield "No incident was seen."
            return
        self._clock = Clock.of(found[0].begin, max(each.end or now for each in found), self._zone)
        yield f"{words.counted(len(found), 'incident')}, times in {zone_name(found[0].begin, self._zone)}."
        for each in found:
            yield ""
            yield from self.story(each)

    def story(self, incident: Incident) -> Iterator[str]:
        """Yield one incident, with what followed from it."""
        head = f"{self._when(incident)}  {incident.id}"
        if incident.certainty is not Certainty.OBSERVED:
            head += f"  {incident.certainty}"
        yield self._page.styled(printable(f"{INDENT}{head}"), fg="yellow", bold=True)
        for line in self._page.wrapped(incident.sentence, INDENT * 2):
            yield self._page.styled(line, bold=True)
        findings = [each for each in incident.consequences if each.kind == "finding"]
        others = [each for each in incident.consequences if each.kind != "finding"]
        for each in others[: self._most]:
            yield from self._page.labelled(EFFECT_LABELS.get(each.kind, each.kind), self._told(each))
        rest = len(others) - len(others[: self._most])
        if rest:
            yield from self._page.labelled("", f"… {rest:,} more, --all shows them")
        if findings:
            rules = Counter(each.rule for each in findings)
            rules_found = ", ".join(
                f"{rule} ({count})" if count > 1 else rule for rule, count in rules.items()
            )
            yield from self._page.labelled("findings", rules_found)
        if incident.alternatives:
            yield from self._page.labelled("or else", "; ".join(incident.alternatives))
        yield from self._page.labelled("do", incident.advice)
        if incident.evidence:
            shown = " ".join(f"#{number}" for number in incident.evidence[:_NUMBERS])
            more = len(incident.evidence) - _NUMBERS
            yield from self._page.labelled("evidence", shown + (f" +{more}" if more > 0 else ""))

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

    def _told(self, each: Consequence) -> str:
        return f"{self._clock(each.time)}  {each.sentence}"


EFFECT_LABELS = {
    "rebalance": "rebalance",
    "stop": "stopped",
    "commit_failures": "commits",
    "duplicates": "twice",
    "coordinator_move": "moved",
}
"""What stands before a consequence, by its kind."""
