"""The rebalances in which a party took part, according to :mod:`captures.analysis.groups`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from captures.analysis.client_trace.model import NUMBERS_SHOWN, Line, Party, Phase
from captures.analysis.groups.facts import took
from captures.analysis.groups.labels import Labels, partitions, step
from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Trait
from captures.meaning import words


def rebalance_lines(timelines: Iterable[GroupTimeline], party: Party) -> Iterator[Line]:
    """Yield a line for each rebalance that involved the party."""
    mine = frozenset(party.members)
    for timeline in timelines:
        if timeline.group not in party.groups:
            continue
        labels = Labels(timeline)
        for told in timeline.rebalances:
            if mine & _concerned(told):
                yield _line(timeline, told, labels, mine)


def _concerned(told: Rebalance) -> set[str]:
    causes = {cause.member for cause in told.causes}
    return {*told.members, *told.joined, *told.gone, *causes, *told.assigned}


def _line(timeline: GroupTimeline, told: Rebalance, labels: Labels, mine: frozenset[str]) -> Line:
    own = [
        f"{labels.of(member)} has {partitions(places) or 'nothing'}"
        for member, places in told.assigned.items()
        if member in mine
    ]
    how = words.listed([step(told), took(told, timeline)])
    said = f"{words.line(timeline.group)} {how}: {told.sentence}"
    if own:
        said = f"{said} {'; '.join(own)}."
    return Line(
        time=told.time,
        until=told.time if told.end is None else told.end,
        what="rebalance",
        phase=Phase.GROUP,
        text=said,
        count=len(told.evidence),
        numbers=told.evidence[:NUMBERS_SHOWN],
        last=max(told.evidence, default=None),
        trouble=told.running
        or any(Trait.PUT_OUT in cause.trigger.traits and cause.member in mine for cause in told.causes),
        certainty=told.certainty,
        key=("rebalance", timeline.group, told.trigger, told.cause.client),
    )
