"""Findings as text for people: the gravest first, each with what to do and a command that shows what it rests on."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from captures.analysis.findings.finding import MOST_EVIDENCE, Finding, Severity
from captures.analysis.findings.rule import Rule, times
from captures.analysis.groups.model import Certainty
from captures.meaning import words
from dissectors.printable import printable
from kproxy.cli.printing import style
from kproxy.cli.times import clock, zone_name

if TYPE_CHECKING:
    from captures.analysis.findings.diagnosis import Blind

INDENT = "  "
_LABEL = 10
_WIDEST = 110  # columns; longer lines are hard to read
_IN_A_PIPE = 100
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
        self._width = _IN_A_PIPE if width is None else max(min(width, _WIDEST), 40)
        self._zone = zone
        self._color = color
        # what came through a pipe cannot be read again
        self._files = "" if "-" in files or not files else f" {shlex.join([*options, *files])}"

    def lines(self, found: Sequence[Finding], most: int | None = None) -> Iterator[str]:
        """Yield all of them, under a heading for each severity.

        :param most: of one rule, so many are told under a heading, and the rest counted; None for all
        """
        for severity in sorted({each.severity for each in found}, reverse=True):
            of_it = [each for each in found if each.severity is severity]
            heading = f"{severity.word.upper()}  ({words.counted(len(of_it), 'finding')})"
            yield from ("", self._styled(heading, fg=_COLORS[severity], bold=True))
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
        first, *more = self._wrapped(finding.sentence, INDENT)
        yield self._styled(first, bold=True)
        yield from (self._styled(line, bold=True) for line in more)
        yield from self._labelled("about", self._about(finding))
        yield from self._labelled("seen", self._seen(finding))
        yield from self._labelled("do", finding.advice)
        command = self._command(finding)
        if command:  # not wrapped: it is to be copied
            yield f"{INDENT * 2}{self._styled('look'.ljust(_LABEL), dim=True)}{command}"
        if finding.thresholds:
            set_to = (f"{name} = {value}" for name, value in finding.thresholds.items())
            yield from self._labelled("threshold", f"{', '.join(set_to)}  (--set)")

    def _about(self, finding: Finding) -> str:
        how_sure = "" if finding.certainty is Certainty.OBSERVED else f", {finding.certainty}"
        return f"{finding.subject}  [{finding.rule}{how_sure}]"

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
        """Return a finding in one line, for those that are told while a capture goes on."""
        line = printable(f"{finding.severity.word.upper()}: {finding.sentence} [{finding.rule}]")
        return self._styled(line, fg=_COLORS[finding.severity])

    def blind(self, blind: Sequence[Blind]) -> Iterator[str]:
        """Yield what could not be judged, and why: one paragraph for each reason."""
        if not blind:
            return
        yield from ("", self._styled("Could not be judged, or not as a whole", bold=True))
        for why, rules in by_reason(blind):
            yield from self._wrapped(f"{', '.join(rules)}: {why}", INDENT)

    def span(self, first: int, last: int) -> str:
        """Return from when to when exchanges were read."""
        return f"{clock(first, self._zone)} to {clock(last, self._zone)} {zone_name(first, self._zone)}"

    def _labelled(self, label: str, text: str) -> Iterator[str]:
        first, *more = self._wrapped(text, f"{INDENT * 2}{' ' * _LABEL}")
        yield f"{INDENT * 2}{self._styled(label.ljust(_LABEL), dim=True)}{first.strip()}"
        yield from more

    def _wrapped(self, text: str, indent: str) -> list[str]:
        return textwrap.wrap(
            printable(text),
            self._width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
            break_long_words=False,
        ) or [indent]

    def _styled(self, text: str, **how: object) -> str:
        return style(text, **how) if self._color else text  # type: ignore[arg-type]


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
        yield from textwrap.wrap(
            f"{rule.title}. {rule.about}",
            width or _IN_A_PIPE,
            initial_indent=INDENT,
            subsequent_indent=INDENT,
        )
        for threshold in rule.thresholds:
            default = threshold.shown(threshold.default)
            yield f"{INDENT * 2}{rule.name}.{threshold.name} = {default}  {threshold.about}"
