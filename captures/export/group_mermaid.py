"""Rebalances as a Mermaid sequence diagram (https://mermaid.js.org/syntax/sequenceDiagram.html).

The coordinator and the members are participants. A rebalance is a shaded block: a note that describes it, arrows from
the members that triggered it, and each member's new assignment. Rebalances of a storm share one block. To stay
readable, the diagram ends after a number of blocks and says how many it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from captures.analysis.groups.facts import duration_text, storm_title, storms
from captures.analysis.groups.labels import Labels, partitions, step
from captures.analysis.groups.model import Cause, GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Certainty, Trait
from captures.export.mermaid import escaped
from captures.meaning import words
from captures.time_format import Clock, span

MAX_BLOCKS = 60
MAX_MEMBERS = 24
_BLOCK = "rect rgb(226, 233, 246)"


def lines(groups: Sequence[tuple[GroupTimeline, Sequence[Rebalance]]], zone: tzinfo | None) -> Iterator[str]:
    """Yield the lines of the diagram.

    :param groups: groups, each with its rebalances to be shown
    :param zone: time zone of the times; None is the local one
    """
    drawn = [
        _Group(timeline, rebalances, f"G{number}", zone)
        for number, (timeline, rebalances) in enumerate(groups, 1)
    ]
    yield "sequenceDiagram"
    for group in drawn:
        yield from group.participants()
    left = MAX_BLOCKS
    for group in drawn:
        yield from group.blocks(left)
        left = max(left - group.count, 0)
    if not drawn:
        yield "    participant N as no group was seen"


class _Group:
    """Draws one group.

    :ivar count: number of its blocks
    """

    def __init__(
        self, timeline: GroupTimeline, rebalances: Sequence[Rebalance], alias: str, zone: tzinfo | None
    ) -> None:
        self._timeline = timeline
        self._labels = Labels(timeline)
        self._alias = alias
        self._clock = Clock.of(timeline.first, timeline.last, zone)
        self._blocks = storms(rebalances)
        self.count = len(self._blocks)
        self._members: dict[str, str] = {}
        self._clients = {cause.member: cause.client for rebalance in rebalances for cause in rebalance.causes}
        for block in self._blocks[:MAX_BLOCKS]:
            for member in self._speaking(block):
                if member not in self._members and len(self._members) < MAX_MEMBERS:
                    self._members[member] = f"{alias}M{len(self._members) + 1}"

    def _speaking(self, block: Sequence[Rebalance]) -> Iterator[str]:
        """Yield the members that take part in a block."""
        for cause in block[0].causes:
            yield self._known(cause.member)
        for member in block[-1].assigned:
            yield self._known(member)

    def _known(self, member_id: str) -> str:
        """Return the ID by which the timeline knows a member; a static member may have had others."""
        member = self._timeline.member(member_id) if member_id else None
        return member_id if member is None else member.member

    def participants(self) -> Iterator[str]:
        """Yield the members and the coordinator."""
        for member, alias in self._members.items():
            if member:
                yield f"    actor {alias} as {escaped(self._labels.of(member, self._clients.get(member, '')))}"
        yield f"    participant {self._alias} as coordinator of {escaped(self._timeline.group)}"

    def blocks(self, most: int) -> Iterator[str]:
        """Yield at most `most` blocks."""
        for block in self._blocks[:most]:
            yield f"    {_BLOCK}"
            yield from self._storm(block) if len(block) > 1 else self._rebalance(block[0])
            yield "    end"
        if self.count > most:
            yield self._note(f"{self.count - most:,} more rebalances are left out")

    def _storm(self, block: Sequence[Rebalance]) -> Iterator[str]:
        first, last = block[0], block[-1]
        lasted = span((last.end or last.time) - first.time)
        yield self._note(
            f"{self._clock(first.time)} {step(first, last)}, {storm_title(block, self._labels)} in {lasted}"
        )
        yield from self._causes(first)
        yield from self._assigned(last)

    def _rebalance(self, rebalance: Rebalance) -> Iterator[str]:
        what = [
            step(rebalance),
            "now empty" if rebalance.emptied else "",
            duration_text(rebalance, self._timeline),
        ]
        yield self._note(f"{self._clock(rebalance.time)} {words.listed(what)}")
        yield from self._causes(rebalance)
        for each in rebalance.awaited:
            yield self._note(f"waits for {self._labels.of(each.member, each.client)}")
        yield from self._assigned(rebalance)
        if rebalance.commit_failures:
            yield self._note(f"{words.counted(len(rebalance.commit_failures), 'commit')} failed")

    def _causes(self, rebalance: Rebalance) -> Iterator[str]:
        for cause in rebalance.causes:
            doubt = "" if cause.certainty is Certainty.OBSERVED else f" ({cause.certainty})"
            text = escaped(f"{cause.trigger}{doubt}: {cause.sentence}")
            alias = self._alias_of(cause)
            yield (
                f"        Note over {self._alias}: {text}"
                if alias is None
                else f"        {alias}{'--x' if Trait.SILENT in cause.trigger.traits else '->>'}{self._alias}: {text}"
            )

    def _alias_of(self, cause: Cause) -> str | None:
        return self._members.get(self._known(cause.member)) if cause.member else None

    def _assigned(self, rebalance: Rebalance) -> Iterator[str]:
        for member, topic_partitions in rebalance.assigned.items():
            alias = self._members.get(self._known(member))
            if alias is not None:
                yield f"        {self._alias}-->>{alias}: {escaped(partitions(topic_partitions) or 'nothing assigned')}"

    def _note(self, text: str) -> str:
        aliases = [alias for member, alias in self._members.items() if member]
        over = f"{aliases[0]},{self._alias}" if aliases else self._alias
        return f"        Note over {over}: {escaped(text)}"
