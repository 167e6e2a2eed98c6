"""The output of ``kproxy diff``: a sentence, the two sides, and the differences with examples."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import tzinfo

from captures.analysis.comparison.model import Aspect, Comparison, Difference, SideFacts, SideValue
from captures.meaning import words
from captures.time_format import clock, day, span, zone_name
from dissectors.units import SECOND
from kproxy.text.blocks import BLANK, Block, Fact, Paragraph

_COLORS = {
    Aspect.FINDINGS: "red",
    Aspect.ERRORS: "red",
    Aspect.LATENCY: "yellow",
    Aspect.REBALANCES: "yellow",
}
_INDENT = 6


def blocks(
    comparison: Comparison,
    most: int | None,
    zone: tzinfo | None,
    *,
    leading: Collection[str] = ("good", "bad"),
) -> Iterator[Block]:
    """Yield the differences.

    :param most: most differences shown, None for all
    :param leading: sides whose exchanges lines link to
    """
    yield Paragraph(comparison.sentence)
    yield BLANK
    yield Fact("good", _side(comparison.good, zone), 0, _INDENT)
    yield Fact("bad", _side(comparison.bad, zone), 0, _INDENT)
    for note in comparison.notes:
        yield Fact("note", note, 0, _INDENT)
    shown = comparison.differences[:most]
    doubted = False
    for index, each in enumerate(shown, 1):
        if not each.certain and not doubted:
            doubted = True
            yield BLANK
            yield Paragraph("May differ, with too little data to be sure:")
        yield BLANK
        yield from _difference(index, each, leading)
    rest = len(comparison.differences) - len(shown)
    if rest:
        yield BLANK
        yield Paragraph(f"… {rest:,} more, --all shows them")


def _side(facts: SideFacts, zone: tzinfo | None) -> str:
    if facts.first is None:
        return f"{words.line(facts.label)}  nothing"
    begin = f"{day(facts.first, zone)} {clock(facts.first, zone)} {zone_name(facts.first, zone)}"
    took = span(round(facts.seconds * SECOND))
    counts = (
        f"{words.counted(facts.exchanges, 'exchange')} of {words.counted(facts.clients, 'client')} in {took}"
    )
    return f"{words.line(facts.label)}  {counts}, from {begin}"


def _difference(index: int, each: Difference, leading: Collection[str]) -> Iterator[Block]:
    sides = {"good": each.good, "bad": each.bad}
    numbers = {name: shown.examples[0] for name, shown in sides.items() if shown.examples and name in leading}
    title = f"{index}.  [{each.aspect}] {each.sentence}"
    indent = (_INDENT - len(f"{index}.  "), _INDENT)
    number = numbers.get("bad", numbers.get("good"))
    color = _COLORS.get(each.aspect)
    yield Paragraph(title, level=3, indent=indent, color=color, bold=True, number=number)
    for name, shown in sides.items():
        yield Fact(name, _shown(shown), _INDENT, _INDENT, number=numbers.get(name))


def _shown(shown: SideValue) -> str:
    if not shown.examples:
        return words.line(shown.text)
    numbers = " ".join(f"#{number}" for number in shown.examples)
    return f"{words.line(shown.text)}  ({numbers})"
