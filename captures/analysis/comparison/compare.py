"""The comparison of two sides: all differences in one order, with a summary sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from captures.analysis.comparison.differences import (
    client_differences,
    finding_differences,
    latency_differences,
    rate_differences,
    rebalance_differences,
    setting_differences,
    version_differences,
)
from captures.analysis.comparison.model import Comparison, Difference
from captures.analysis.comparison.side import Side
from captures.analysis.groups.model import GroupTimeline
from captures.meaning import words
from captures.time_format import span
from dissectors.units import SECOND

_LITTLE = 100
"""Number of exchanges below which a side proves little."""
_UNEQUAL = 10.0
_IN_THE_SENTENCE = 2


def compare_sides(good: Side, bad: Side, timelines: Sequence[GroupTimeline] | None = None) -> Comparison:
    """Return all differences.

    :param timelines: groups of the whole capture, if both sides are parts of it; None: each side has its own
    """
    if not (good.facts().exchanges and bad.facts().exchanges):
        return Comparison(good.facts(), bad.facts(), _nothing(good, bad), [])
    rebalances = good.rebalances(timelines), bad.rebalances(timelines)
    parts: dict[str, Callable[[], Iterable[Difference]]] = {
        "findings": partial(finding_differences, good, bad),
        "rebalances": partial(rebalance_differences, good, bad, rebalances),
        "latencies": partial(latency_differences, good, bad),
        "rates": partial(rate_differences, good, bad),
        "clients": partial(client_differences, good, bad),
        "settings": partial(setting_differences, good, bad),
        "versions": partial(version_differences, good, bad),
    }
    differences = [
        each
        for name, part in parts.items()
        for each in bad.faults.contained_items(_differences(part), f"comparing {name}")
    ]
    differences.sort(key=lambda each: (not each.certain, -each.score, each.aspect, each.subject))
    return Comparison(good.facts(), bad.facts(), _sentence(differences), differences, _notes(good, bad))


def _differences(part: Callable[[], Iterable[Difference]]) -> Iterator[Difference]:
    yield from part()


def _nothing(good: Side, bad: Side) -> str:
    empty = words.listed(dict.fromkeys(side.label for side in (good, bad) if not side.facts().exchanges))
    return f"There is nothing in {empty}, so there is nothing to compare."


def _sentence(differences: list[Difference]) -> str:
    certain = [each for each in differences if each.certain]
    unsure = len(differences) - len(certain)
    rest = f"; {unsure:,} more may differ, with too little data to be sure" if unsure else ""
    if not certain:
        return f"Nothing differs that the data would prove{rest}."
    most = "; ".join(each.sentence.rstrip(".") for each in certain[:_IN_THE_SENTENCE])
    text = words.counted(len(certain), "difference")
    return f"{text}{rest}. The largest: {most}."


def _notes(good: Side, bad: Side) -> list[str]:
    notes = []
    for name, side in (("good", good), ("bad", bad)):
        facts = side.facts()
        if facts.exchanges < _LITTLE:
            notes.append(
                f"{name} has {words.counted(facts.exchanges, 'exchange')}: only large differences can be detected"
            )
        if facts.exchanges and not facts.seconds:
            notes.append(f"{name} is a single moment: no rates can be computed")
    lengths = good.seconds, bad.seconds
    if min(lengths) > 0 and max(lengths) > _UNEQUAL * min(lengths):
        both = [span(round(each * SECOND)) for each in lengths]
        notes.append(
            f"good goes on for {both[0]}, bad for {both[1]}: what happens seldom, or only as clients "
            "start, may seem to differ"
        )
    return notes
