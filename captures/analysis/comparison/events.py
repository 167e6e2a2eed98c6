"""Differences of findings, and of rebalances by trigger."""

from __future__ import annotations

from collections import defaultdict

from captures.analysis.comparison.model import Aspect, Difference, SideValue
from captures.analysis.comparison.rates import EventCount, compare
from captures.analysis.comparison.side import Side
from captures.analysis.comparison.time_slices import MOST_EXAMPLES
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.groups.model import Rebalance
from captures.meaning import words

_SCORES = {Severity.INFO: 0.5, Severity.LOW: 1.5, Severity.MEDIUM: 4.0, Severity.HIGH: 8.0}
_GONE = 0.5
"""Weight of findings only in good."""
_REBALANCE_WEIGHT = 1.5


def finding_differences(good: Side, bad: Side) -> list[Difference]:
    """Return findings on only one side, or with different severity."""
    sides = [{each.key: each for each in side.findings()} for side in (good, bad)]
    found = []
    for key in sorted(sides[0].keys() | sides[1].keys()):
        difference = _of_finding(sides[0].get(key), sides[1].get(key))
        if difference is not None:
            found.append(difference)
    return found


def _of_finding(good: Finding | None, bad: Finding | None) -> Difference | None:
    finding = bad or good
    assert finding is not None, "it was found on one side at least"
    if good is not None and bad is not None and good.severity == bad.severity:
        return None
    if good is None:
        sentence, score = f"only in bad: {finding.sentence}", _SCORES[finding.severity]
    elif bad is None:
        sentence, score = f"only in good: {finding.sentence}", _SCORES[finding.severity] * _GONE
    else:
        graver = "graver" if bad.severity > good.severity else "less grave"
        sentence = (
            f"{graver} in bad ({good.severity.word} in good, {bad.severity.word} in bad): {bad.sentence}"
        )
        score = abs(_SCORES[bad.severity] - _SCORES[good.severity])
    return Difference(
        aspect=Aspect.FINDINGS,
        subject=finding.subject,
        what=finding.rule,
        sentence=sentence,
        good=_found(good),
        bad=_found(bad),
        score=score,
    )


def _found(finding: Finding | None) -> SideValue:
    if finding is None:
        return SideValue("not found")
    times = f"{finding.severity.word}, {words.counted(finding.count, 'time')}"
    return SideValue(times, count=finding.count, examples=finding.evidence[:MOST_EXAMPLES])


def rebalance_differences(
    good: Side, bad: Side, rebalances: tuple[list[Rebalance], list[Rebalance]]
) -> list[Difference]:
    """Return the differences in frequency of rebalances, by trigger."""
    sides = [_by_trigger(each) for each in rebalances]
    found = []
    for key in sorted(sides[0].keys() | sides[1].keys()):
        group, trigger = key
        one, other = (
            _counted(each.get(key, []), side) for each, side in zip(sides, (good, bad), strict=True)
        )
        difference = compare(
            one,
            other,
            aspect=Aspect.REBALANCES,
            subject=f"group {group}, {trigger.replace('_', ' ')}",
            what=trigger,
            noun=("rebalance", "rebalances"),
            weight=lambda _: _REBALANCE_WEIGHT,
        )
        if difference is not None:
            found.append(difference)
    return found


def _by_trigger(rebalances: list[Rebalance]) -> dict[tuple[str, str], list[Rebalance]]:
    found: dict[tuple[str, str], list[Rebalance]] = defaultdict(list)
    for each in rebalances:
        found[each.group, str(each.trigger)].append(each)
    return found


def _counted(rebalances: list[Rebalance], side: Side) -> EventCount:
    # a storm counts as few events: each rebalance leads to the next, so they are no Poisson process
    storms = {(each.group, each.trigger) for each in rebalances if each.storm}
    slices = [len(rebalances), *[0] * 7] if storms else []
    examples = tuple(each.evidence[0] for each in rebalances[:MOST_EXAMPLES] if each.evidence)
    return EventCount(len(rebalances), side.seconds, slices, examples)
