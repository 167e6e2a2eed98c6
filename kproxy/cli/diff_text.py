"""The text of ``kproxy diff``: a sentence, the two sides, and the differences with examples."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import tzinfo

from captures.analysis.comparison.model import Aspect, Comparison, Difference, Shown, SideFacts
from captures.meaning import words
from captures.moments import clock, day, span, zone_name
from kproxy.cli.printing import style

_COLORS = {
    Aspect.FINDINGS: "red",
    Aspect.ERRORS: "red",
    Aspect.LATENCY: "yellow",
    Aspect.REBALANCES: "yellow",
}
_INDENT = "      "
_NANOSECONDS = 1_000_000_000


def lines(
    comparison: Comparison, width: int | None, most: int | None, zone: tzinfo | None, *, color: bool
) -> Iterator[str]:
    """Yield the comparison line by line.

    :param width: columns of the terminal, or None for a pipe
    :param most: differences shown at most, or None for all
    """
    yield from _wrapped(words.line(comparison.sentence), width, "")
    yield ""
    yield f"good  {_side(comparison.good, zone)}"
    yield f"bad   {_side(comparison.bad, zone)}"
    for note in comparison.notes:
        yield from _wrapped(f"note  {note}", width, "      ")
    shown = comparison.differences[:most]
    doubted = False
    for place, each in enumerate(shown, 1):
        if not each.certain and not doubted:
            doubted = True
            yield ""
            yield "May differ, with too little data to be sure:"
        yield ""
        yield from _difference(place, each, width, color=color)
    rest = len(comparison.differences) - len(shown)
    if rest:
        yield ""
        yield f"… {rest:,} more, --all shows them"


def _side(facts: SideFacts, zone: tzinfo | None) -> str:
    if facts.first is None:
        return f"{words.line(facts.label)}  nothing"
    begin = f"{day(facts.first, zone)} {clock(facts.first, zone)} {zone_name(facts.first, zone)}"
    took = span(round(facts.seconds * _NANOSECONDS))
    counts = (
        f"{words.counted(facts.exchanges, 'exchange')} of {words.counted(facts.clients, 'client')} in {took}"
    )
    return f"{words.line(facts.label)}  {counts}, from {begin}"


def _difference(place: int, each: Difference, width: int | None, *, color: bool) -> Iterator[str]:
    head = f"{place:>3}.  [{each.aspect}] "
    first, *more = _wrapped(head + words.line(each.sentence), width, _INDENT)
    yield style(first, fg=_COLORS.get(each.aspect), bold=True) if color else first
    yield from more
    for name, shown in (("good", each.good), ("bad", each.bad)):
        yield from _wrapped(f"{_INDENT}{name:<4}  {_shown(shown)}", width, f"{_INDENT}      ")


def _shown(shown: Shown) -> str:
    if not shown.examples:
        return words.line(shown.text)
    numbers = " ".join(f"#{number}" for number in shown.examples)
    return f"{words.line(shown.text)}  ({numbers})"


def _wrapped(text: str, width: int | None, indent: str) -> list[str]:
    if width is None:
        return [text]
    return textwrap.wrap(
        text, max(width, 40), subsequent_indent=indent, break_on_hyphens=False, drop_whitespace=True
    ) or [text]
