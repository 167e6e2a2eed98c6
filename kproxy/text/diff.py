"""The text of ``kproxy diff``: a sentence, the two sides, and the differences with examples."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import tzinfo

from captures.analysis.comparison.model import Aspect, Comparison, Difference, Shown, SideFacts
from captures.meaning import words
from captures.time_format import clock, day, span, zone_name
from dissectors.units import SECOND
from kproxy.printing import style
from kproxy.text.line import Line
from kproxy.text.paragraphs import wrapped

_COLORS = {
    Aspect.FINDINGS: "red",
    Aspect.ERRORS: "red",
    Aspect.LATENCY: "yellow",
    Aspect.REBALANCES: "yellow",
}
_INDENT = "      "


def lines(
    comparison: Comparison,
    width: int | None,
    most: int | None,
    zone: tzinfo | None,
    *,
    color: bool,
    leading: Collection[str] = ("good", "bad"),
) -> Iterator[str]:
    """Yield the comparison line by line.

    :param width: columns of the terminal, or None for a pipe
    :param most: differences shown at most, or None for all
    :param leading: sides to whose exchanges lines lead
    """
    yield from wrapped(words.line(comparison.sentence), width)
    yield ""
    yield f"good  {_side(comparison.good, zone)}"
    yield f"bad   {_side(comparison.bad, zone)}"
    for note in comparison.notes:
        yield from wrapped(f"note  {note}", width, "      ", first="")
    shown = comparison.differences[:most]
    doubted = False
    for place, each in enumerate(shown, 1):
        if not each.certain and not doubted:
            doubted = True
            yield ""
            yield "May differ, with too little data to be sure:"
        yield ""
        yield from _difference(place, each, width, leading, color=color)
    rest = len(comparison.differences) - len(shown)
    if rest:
        yield ""
        yield f"… {rest:,} more, --all shows them"


def _side(facts: SideFacts, zone: tzinfo | None) -> str:
    if facts.first is None:
        return f"{words.line(facts.label)}  nothing"
    begin = f"{day(facts.first, zone)} {clock(facts.first, zone)} {zone_name(facts.first, zone)}"
    took = span(round(facts.seconds * SECOND))
    counts = (
        f"{words.counted(facts.exchanges, 'exchange')} of {words.counted(facts.clients, 'client')} in {took}"
    )
    return f"{words.line(facts.label)}  {counts}, from {begin}"


def _difference(
    place: int, each: Difference, width: int | None, leading: Collection[str], *, color: bool
) -> Iterator[str]:
    sides = {"good": each.good, "bad": each.bad}
    numbers = {name: shown.examples[0] for name, shown in sides.items() if shown.examples and name in leading}
    head = f"{place:>3}.  [{each.aspect}] "
    first, *more = wrapped(head + words.line(each.sentence), width, _INDENT, first="")
    number = numbers.get("bad", numbers.get("good"))
    yield Line(style(first, fg=_COLORS.get(each.aspect), bold=True) if color else first, number)
    yield from (Line(text, number) for text in more)
    for name, shown in sides.items():
        for text in wrapped(_shown(shown), width, f"{_INDENT}      ", first=f"{_INDENT}{name:<4}  "):
            yield Line(text, numbers.get(name))


def _shown(shown: Shown) -> str:
    if not shown.examples:
        return words.line(shown.text)
    numbers = " ".join(f"#{number}" for number in shown.examples)
    return f"{words.line(shown.text)}  ({numbers})"
