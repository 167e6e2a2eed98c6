"""Findings as Markdown, to be put into a ticket or a report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from captures.analysis.findings.diagnosis import Blind
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.findings.rule import times
from captures.analysis.groups.model import Certainty
from captures.analysis.incidents.model import Incident
from captures.exchanges import rfc3339
from dissectors.printable import printable

_SPECIAL = re.compile(r"[\\`*\[\]<>|~&#$]|(?<!\w)_|_(?!\w)|\A[+-]")
"""What would be markup in CommonMark and in the dialect of GitHub."""
_NUMBERED = re.compile(r"\A(\d+)([.)])")


def findings_markdown(
    path: str,
    found: Sequence[Finding],
    blind: Sequence[Blind],
    *,
    read: str,
    most: int | None = None,
    incidents: Sequence[Incident] = (),
    left_out: str = "",
) -> Iterator[str]:
    """Yield findings as lines of Markdown: a section for each severity, and what could not be judged.

    :param path: the capture
    :param read: what was read of it, in a sentence
    :param most: findings of one rule to list under a heading; the rest are counted. None for all
    :param incidents: what happened, which comes first; findings that follow from one are listed there
    :param left_out: what is not a finding because kproxy did it, in a sentence
    """
    yield from (f"# Diagnosis of {escaped(path)}", "", escaped(read))
    if not found:
        yield from ("", "Nothing is wrong, as far as this can be judged.")
    if incidents:
        from captures.export.findings import incidents_markdown

        yield from ("", "## What happened", *incidents_markdown(incidents, level=3))
        ids = {each.id for each in incidents}
        found = [each for each in found if each.severity is Severity.HIGH or each.because_of not in ids]
    for severity in sorted({each.severity for each in found}, reverse=True):
        yield from ("", f"## {severity.word.capitalize()}")
        told: Counter[str] = Counter()
        for each in found:
            if each.severity is severity:
                told[each.rule] += 1
                if most is None or told[each.rule] <= most:
                    yield from _one(each)
        for rule, count in told.items():
            if most is not None and count > most:
                yield from ("", f"… {count - most:,} more of {_code(rule)}")
    if left_out:
        yield from ("", escaped(left_out))
    if blind:
        yield from ("", "## Could not be judged, or not as a whole", "")
        yield from (f"- {each.rule.title}: {escaped(each.why)}" for each in blind)


def _one(finding: Finding) -> Iterator[str]:
    yield from (
        "",
        f"### {escaped(finding.subject)}: {_code(finding.rule)}",
        "",
        escaped(finding.sentence),
        "",
    )
    seen = f"{times(finding.count)}, {rfc3339(finding.first)}"
    yield f"- Seen {seen}{f' to {rfc3339(finding.last)}' if finding.last != finding.first else ''}"
    if finding.certainty is not Certainty.OBSERVED:
        yield f"- How sure: {finding.certainty}"
    yield f"- What to do: {escaped(finding.advice)}"
    if finding.evidence:
        yield f"- Exchanges: {', '.join(map(str, finding.evidence))}"
    if finding.filter:
        yield f"- Filter: {_code(finding.filter)}"
    if finding.thresholds:
        limits = (f"{_code(name)} = {escaped(value)}" for name, value in finding.thresholds.items())
        yield f"- Thresholds: {', '.join(limits)}"


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is, on one line: names in it come from the wire."""
    plain = printable(text)
    # what stands at the beginning of a line may make a list or a block of code
    return _NUMBERED.sub(r"\1\\\2", _SPECIAL.sub(r"\\\g<0>", plain.strip()))


def _code(text: str) -> str:
    """Return text as code; a longer fence holds what has backticks in it (CommonMark, 6.1)."""
    plain = printable(text)
    longest = max((len(run) for run in re.findall("`+", plain)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {plain} {fence}" if longest else f"{fence}{plain}{fence}"


# ---------------------------------------------------------------- incidents
def incidents_markdown(found: Sequence[Incident], *, level: int = 2) -> Iterator[str]:
    """Yield incidents as lines of Markdown, one heading each.

    :param level: of the headings
    """
    for each in found:
        end = "" if each.end is None else f" to {rfc3339(each.end)}"
        sure = "" if each.certainty is Certainty.OBSERVED else f", {each.certainty}"
        heading = f"{each.kind.heading}: {', '.join(each.who)}"
        yield from (
            "",
            f"{'#' * level} {escaped(heading)}",
            "",
            escaped(each.sentence),
            "",
            f"- Incident: `{each.id}`{sure}",
            f"- Time: {rfc3339(each.begin)}{end}",
        )
        yield from (f"- Or else: {escaped(text)}" for text in each.alternatives)
        for consequence in each.consequences:
            yield f"- {rfc3339(consequence.time)}: {escaped(consequence.sentence)}"
        yield f"- Do: {escaped(each.advice)}"
        if each.evidence:
            yield f"- Exchanges: {', '.join(f'#{number}' for number in each.evidence[:20])}"
