"""The rebalances in which a party took part, according to :mod:`captures.analysis.groups`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from captures.analysis.client_trace.model import NUMBERS_SHOWN, Line, Phase, TracedClient
from captures.analysis.groups.facts import duration_text
from captures.analysis.groups.labels import Labels, partitions, step
from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Trait
from captures.meaning import words


def rebalance_lines(timelines: Iterable[GroupTimeline], party: TracedClient) -> Iterator[Line]:
    """Yield a line for each rebalance that involved the party."""
    members = frozenset(party.members)
    for timeline in timelines:
        if timeline.group not in party.groups:
            continue
        labels = Labels(timeline)
        for rebalance in timeline.rebalances:
            if members & _concerned(rebalance):
                yield _line(timeline, rebalance, labels, members)


def _concerned(rebalance: Rebalance) -> set[str]:
    causes = {cause.member for cause in rebalance.causes}
    return {*rebalance.members, *rebalance.joined, *rebalance.gone, *causes, *rebalance.assigned}


def _line(timeline: GroupTimeline, rebalance: Rebalance, labels: Labels, members: frozenset[str]) -> Line:
    own = [
        f"{labels.of(member)} has {partitions(topic_partitions) or 'nothing'}"
        for member, topic_partitions in rebalance.assigned.items()
        if member in members
    ]
    how = words.listed([step(rebalance), duration_text(rebalance, timeline)])
    text = f"{words.line(timeline.group)} {how}: {rebalance.sentence}"
    if own:
        text = f"{text} {'; '.join(own)}."
    return Line(
        time=rebalance.time,
        until=rebalance.time if rebalance.end is None else rebalance.end,
        what="rebalance",
        phase=Phase.GROUP,
        text=text,
        count=len(rebalance.evidence),
        numbers=rebalance.evidence[:NUMBERS_SHOWN],
        last=max(rebalance.evidence, default=None),
        trouble=rebalance.running
        or any(
            Trait.PUT_OUT in cause.trigger.traits and cause.member in members for cause in rebalance.causes
        ),
        certainty=rebalance.certainty,
        key=("rebalance", timeline.group, rebalance.trigger, rebalance.cause.client),
    )
