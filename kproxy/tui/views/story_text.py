"""A rebalance as lines of a label and what it is about, for the view of groups."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

from captures.analysis.groups.facts import Tone, facts, manner, took
from captures.analysis.groups.labels import Labels, counter_of, step
from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.meaning import words
from captures.time_format import clock
from kproxy.tui.widgets.table_rows import AnyCell, Cell, Role

_ROLES = {Tone.PLAIN: Role.PLAIN, Tone.QUIET: Role.MUTED, Tone.ODD: Role.WARNING, Tone.TROUBLE: Role.ERROR}


def story_lines(
    told: Rebalance, timeline: GroupTimeline, zone: tzinfo | None
) -> Iterator[tuple[AnyCell, ...]]:
    """Yield the lines: the sentence, when and how it went, and what is known beside that.

    :param timeline: of its group
    """
    labels, counter = Labels(timeline), counter_of(told.kind)
    storm = f"one of {words.counted(told.storm, 'rebalance')} of one cause" if told.storm else ""
    yield "", Cell(told.sentence, Role.STRONG)
    yield (
        counter,
        step(told).removeprefix(f"{counter} "),
        clock(told.time, zone),
        took(told, timeline),
        manner(told),
        Cell(storm, Role.WARNING),
    )
    yield "trigger", f"{told.trigger} ({told.certainty})"
    for fact in facts(told, timeline, labels):
        yield fact.title, Cell(fact.text, _ROLES[fact.tone])
