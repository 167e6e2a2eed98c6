"""Findings as text for people: the gravest first, each with what to do and a command that shows what it rests on."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from captures.analysis.findings.finding import MOST_EVIDENCE, Finding, Severity
from captures.analysis.findings.rule import Rule, times
from captures.analysis.groups.model import Certainty
from captures.meaning import words
from captures.time_format import clock, zone_name
from dissectors.printable import printable
from kproxy.text.paragraphs import INDENT, WIDE, Paragraphs, wrapped

if TYPE_CHECKING:
    from captures.analysis.findings.diagnosis import Blind

_COLORS = {Severity.HIGH: "red", Severity.MEDIUM: "yellow", Severity.LOW: "cyan", Severity.INFO: "blue"}


class FindingsText:
    """Puts findings into lines.

    :param width: columns of the terminal; None for a pipe
    :param zone: of the times; None is the local one
    :param files: the captures, for commands to copy
    :param options: how they are read, likewise: ``--keylog keys.log``
    """

    def __init__(
        self,
        width: int | None,
        zone: tzinfo | None,
        *,
        color: bool,
        files: Sequence[str],
        options: Sequence[str] = (),
    ) -> None:
        self._page = Paragraphs(width, color=color)
        self._zone = zone
        # what came through a pipe cannot be read again
        self._files = "" if "-" in files or not files else f" {shlex.join([*options, *files])}"

    def lines(self, found: Sequence[Finding], most: int | None = None) -> Iterator[str]:
        """Yield all of them, under a heading for each severity.

        :param most: findings of one rule to list under a heading; the rest are counted. None for all
        """
        for severity in sorted({each.severity for each in found}, reverse=True):
            of_it = [each for each in found if each.severity is severity]
            heading = f"{severity.word.upper()}  ({words.counted(len(of_it), 'finding')})"
            yield from ("", self._page.styled(heading, fg=_COLORS[severity], bold=True))
            told: Counter[str] = Counter()
            for each in of_it:
                told[each.rule] += 1
                if most is None or told[each.rule] <= most:
                    yield ""
                    yield from self._one(each)
            for rule, count in told.items():
                if most is not None and count > most:
                    yield from ("", f"{INDENT}… {count - most:,} more of {rule}, --all shows them")

    def _one(self, finding: Finding) -> Iterator[str]:
        first, *more = self._page.wrapped(finding.sentence, INDENT)
        yield self._page.styled(first, bold=True)
        yield from (self._page.styled(line, bold=True) for line in more)
        yield from self._page.labelled("about", self._about(finding))
        yield from self._page.labelled("seen", self._seen(finding))
        yield from self._page.labelled("do", finding.advice)
        command = self._command(finding)
        if command:  # not wrapped: it is to be copied
            yield self._page.whole("look", command)
        if finding.thresholds:
            set_to = (f"{name} = {value}" for name, value in finding.thresholds.items())
            yield from self._page.labelled("threshold", f"{', '.join(set_to)}  (--set)")

    def _about(self, finding: Finding) -> str:
        how_sure = "" if finding.certainty is Certainty.OBSERVED else f", {finding.certainty}"
        because = f", because of {finding.because_of}" if finding.because_of else ""
        return f"{finding.subject}  [{finding.rule}{how_sure}{because}]"

    def _seen(self, finding: Finding) -> str:
        numbers = [f"#{number}" for number in finding.evidence]
        if len(numbers) == MOST_EVIDENCE < finding.count:
            numbers.insert(-1, "…")
        shown = f": {' '.join(numbers)}" if numbers else ""
        return f"{times(finding.count)}, {self.when(finding)}{shown}"

    def when(self, finding: Finding) -> str:
        """Return from when to when it was seen."""
        begin, end = clock(finding.first, self._zone), clock(finding.last, self._zone)
        return f"at {begin}" if begin == end else f"{begin} to {end}"

    def _command(self, finding: Finding) -> str:
        if finding.filter:
            return printable(f"kproxy read -Y {shlex.quote(finding.filter)}{self._files}")
        if finding.connections:
            wanted = f"connection in {{{', '.join(map(str, finding.connections))}}}"
            return f"kproxy read -Y {shlex.quote(wanted)}{self._files}"
        return ""

    def notice(self, finding: Finding) -> str:
        """Return a finding in one line, for findings that are reported while a capture is still growing."""
        line = printable(f"{finding.severity.word.upper()}: {finding.sentence} [{finding.rule}]")
        return self._page.styled(line, fg=_COLORS[finding.severity])

    def left_out(self, said: str) -> Iterator[str]:
        """Yield what is not a finding because kproxy did it.

        :param said: :attr:`~captures.analysis.findings.diagnosis.Diagnosis.left_out`
        """
        if said:
            yield ""
            yield from self._page.wrapped(f"{said} See kproxy read{self._files} -Y kproxy", "")

    def blind(self, blind: Sequence[Blind]) -> Iterator[str]:
        """Yield what could not be judged, and why: one paragraph for each reason."""
        if not blind:
            return
        yield from ("", self._page.styled("Could not be judged, or not as a whole", bold=True))
        for why, rules in by_reason(blind):
            yield from self._page.wrapped(f"{', '.join(rules)}: {why}", INDENT)

    def span(self, first: int, last: int) -> str:
        """Return from when to when exchanges were read."""
        return f"{clock(first, self._zone)} to {clock(last, self._zone)} {zone_name(first, self._zone)}"


def by_reason(blind: Sequence[Blind]) -> list[tuple[str, list[str]]]:
    """Return why rules could not judge, with the names of those that say so."""
    reasons: dict[str, list[str]] = {}
    for each in blind:
        reasons.setdefault(each.why, []).append(each.rule.name)
    return list(reasons.items())


def verdict(found: Iterable[Finding], *, faulty: bool = False) -> str:
    """Return how much was found, in a sentence.

    :param faulty: whether faults of kproxy have kept rules from judging all there is
    """
    counts: dict[Severity, int] = {}
    for each in found:
        counts[each.severity] = counts.get(each.severity, 0) + 1
    if not counts and faulty:
        return "Nothing was found, but not all could be judged: faults of kproxy came in between."
    if not counts:
        return "Nothing is wrong, as far as this can be judged."
    graver = sum(count for severity, count in counts.items() if severity > Severity.LOW)
    said = ", ".join(f"{counts[severity]} {severity.word}" for severity in sorted(counts, reverse=True))
    total = words.counted(sum(counts.values()), "finding")
    return f"{total}: {said}." if graver or faulty else f"Nothing is wrong that matters; {total}: {said}."


def rule_lines(rules: Sequence[type[Rule]], width: int | None) -> Iterator[str]:
    """Yield the rules with their thresholds, for ``--list``."""
    for rule in rules:
        yield f"{rule.name}  ({rule.severity.word})"
        yield from wrapped(f"{rule.title}. {rule.about}", width or WIDE, INDENT)
        for threshold in rule.thresholds:
            default = threshold.shown(threshold.default)
            yield f"{INDENT * 2}{rule.name}.{threshold.name} = {default}  {threshold.about}"
