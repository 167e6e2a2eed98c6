"""Findings as text: the most severe first, each with advice and a command that shows its evidence."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from captures.analysis.clusters import beside
from captures.analysis.findings.finding import MOST_EVIDENCE, Finding, Severity
from captures.analysis.findings.rule import Rule, times
from captures.analysis.groups.vocabulary import Certainty
from captures.meaning import words
from captures.time_format import Clock, zone_name
from dissectors.printable import printable
from kproxy.output import style
from kproxy.text.blocks import BLANK, INDENT, WIDE, Block, Fact, Heading, Paragraph, wrapped

if TYPE_CHECKING:
    from captures.analysis.findings.diagnosis import InconclusiveRule

_COLORS = {Severity.HIGH: "red", Severity.MEDIUM: "yellow", Severity.LOW: "cyan", Severity.INFO: "blue"}


class FindingsText:
    """Renders findings as text.

    :param zone: time zone of the times; None is the local one
    :param files: the captures, for commands to copy
    :param options: options for reading them, for commands to copy: ``--keylog keys.log``
    :param dated: whether times have their date
    """

    def __init__(
        self, zone: tzinfo | None, *, files: Sequence[str], options: Sequence[str] = (), dated: bool = False
    ) -> None:
        self._zone = zone
        self._clock = Clock(zone, dated)
        # a pipe cannot be read again
        self._files = "" if "-" in files or not files else f" {shlex.join([*options, *files])}"

    def blocks(self, found: Sequence[Finding], most: int | None = None) -> Iterator[Block]:
        """Yield all findings, under a heading for each severity.

        :param most: most findings per rule and heading; the rest are counted. None for all
        """
        for severity in sorted({each.severity for each in found}, reverse=True):
            of_it = [each for each in found if each.severity is severity]
            heading = f"{severity.word.upper()}  ({words.counted(len(of_it), 'finding')})"
            yield from (BLANK, Heading([style(heading, fg=_COLORS[severity], bold=True)]))
            counts: Counter[str] = Counter()
            for each in of_it:
                counts[each.rule] += 1
                if most is None or counts[each.rule] <= most:
                    yield BLANK
                    yield from self._one(each)
            for rule, count in counts.items():
                if most is not None and count > most:
                    text = f"… {count - most:,} more of {rule}, --all shows them"
                    yield from (BLANK, Paragraph(text, indent=(2, 2)))

    def _one(self, finding: Finding) -> Iterator[Block]:
        number = finding.evidence[0] if finding.evidence else None
        yield Paragraph(finding.sentence, level=3, indent=(2, 2), bold=True, number=number)
        yield _fact("about", self._about(finding))
        yield _fact("seen", self._seen(finding))
        yield _fact("do", finding.advice)
        command = self._command(finding)
        if command:
            yield _fact("look", command, code=True)
        if finding.thresholds:
            set_to = (f"{name} = {value}" for name, value in finding.thresholds.items())
            yield _fact("threshold", f"{', '.join(set_to)}  (--threshold)")

    def _about(self, finding: Finding) -> str:
        how_sure = "" if finding.certainty is Certainty.OBSERVED else f", {finding.certainty}"
        because = f", because of {finding.because_of}" if finding.because_of else ""
        return f"{beside(finding.subject, finding.cluster)}  [{finding.rule}{how_sure}{because}]"

    def _seen(self, finding: Finding) -> str:
        numbers = [f"#{number}" for number in finding.evidence]
        if len(numbers) == MOST_EVIDENCE < finding.count:
            numbers.insert(-1, "…")
        shown = f": {' '.join(numbers)}" if numbers else ""
        return f"{times(finding.count)}, {self.when(finding)}{shown}"

    def when(self, finding: Finding) -> str:
        """Return the time range in which it was seen."""
        begin, end = self._clock(finding.first), self._clock(finding.last)
        return f"at {begin}" if begin == end else f"{begin} to {end}"

    def _command(self, finding: Finding) -> str:
        if finding.filter:
            return printable(f"kproxy read -Y {shlex.quote(finding.filter)}{self._files}")
        if finding.connections:
            wanted = f"connection in {{{', '.join(map(str, finding.connections))}}}"
            return f"kproxy read -Y {shlex.quote(wanted)}{self._files}"
        return ""

    def notice(self, finding: Finding) -> str:
        """Return a finding in one line, for findings reported while a capture is still growing."""
        seen = f"{finding.rule}, {self.when(finding)}"
        return printable(f"{finding.severity.word.upper()}: {finding.sentence} [{seen}]")

    def left_out(self, sentence: str) -> Iterator[Block]:
        """Yield a note on what is not a finding because kproxy did it.

        :param sentence: :attr:`~captures.analysis.findings.diagnosis.Diagnosis.left_out`
        """
        if sentence:
            yield from (BLANK, Paragraph(f"{sentence} See kproxy read{self._files} -Y kproxy"))

    def blind(self, blind: Sequence[InconclusiveRule]) -> Iterator[Block]:
        """Yield what could not be judged: one paragraph per reason."""
        if not blind:
            return
        yield from (BLANK, Heading([style("Could not be judged, or not as a whole", bold=True)]))
        for why, rules in by_reason(blind):
            yield Paragraph(f"{', '.join(rules)}: {why}", indent=(2, 2))

    def span(self, first: int, last: int) -> str:
        """Return the time range of the exchanges read."""
        return f"{self._clock(first)} to {self._clock(last)} {zone_name(first, self._zone)}"


def _fact(label: str, text: str, *, code: bool = False) -> Fact:
    return Fact(label, text, room=10, code=code)


def by_reason(blind: Sequence[InconclusiveRule]) -> list[tuple[str, list[str]]]:
    """Return the reasons why rules could not judge, with the names of the rules."""
    reasons: dict[str, list[str]] = {}
    for each in blind:
        reasons.setdefault(each.why, []).append(each.rule.name)
    return list(reasons.items())


def verdict(found: Iterable[Finding], *, faulty: bool = False) -> str:
    """Return the number of findings, in a sentence.

    :param faulty: whether bugs in kproxy kept rules from judging everything
    """
    counts: dict[Severity, int] = {}
    for each in found:
        counts[each.severity] = counts.get(each.severity, 0) + 1
    if not counts and faulty:
        return "Nothing was found, but not all could be judged: internal errors in kproxy came in between."
    if not counts:
        return "Nothing is wrong, as far as this can be judged."
    graver = sum(count for severity, count in counts.items() if severity > Severity.LOW)
    text = ", ".join(f"{counts[severity]} {severity.word}" for severity in sorted(counts, reverse=True))
    total = words.counted(sum(counts.values()), "finding")
    return f"{total}: {text}." if graver or faulty else f"Nothing is wrong that matters; {total}: {text}."


def rule_lines(rules: Sequence[type[Rule]], width: int | None) -> Iterator[str]:
    """Yield the rules with their thresholds, for ``--list``."""
    for rule in rules:
        yield f"{rule.name}  ({rule.severity.word})"
        yield from wrapped(f"{rule.title}. {rule.about}", width or WIDE, INDENT)
        for threshold in rule.thresholds:
            default = threshold.shown(threshold.default)
            yield f"{INDENT * 2}{rule.name}.{threshold.name} = {default}  {threshold.about}"
