"""The output of ``kproxy groups``: groups, their members, and their rebalances as stories.

There is a block for each rebalance: when, between which generations, how long, and why; below it the story in words and
its costs. The rebalances of a storm share one block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo

from msgspec import UnsetType

from captures.analysis.clusters import beside
from captures.analysis.groups.facts import (
    SHOWN,
    Tone,
    about,
    duration_text,
    facts,
    in_brief,
    manner,
    storm_facts,
    storm_title,
    storms,
    tone,
    who,
)
from captures.analysis.groups.facts import Fact as GroupFact
from captures.analysis.groups.labels import Labels, partitions, step
from captures.analysis.groups.model import GroupMember, GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Certainty, Phase
from captures.analysis.incidents.model import Incident, in_line
from captures.meaning import words
from captures.names import Names
from captures.time_format import Clock, span, zone_name
from kproxy.output import style
from kproxy.text.blocks import BLANK, Block, Fact, Heading, Paragraph
from kproxy.text.tables import Column, Row, Table

_TROUBLE = "red"
_ODD = "yellow"
_QUIET = "bright_black"
_MEMBERS = 20
_COLORS = {Tone.PLAIN: None, Tone.QUIET: _QUIET, Tone.ODD: _ODD, Tone.TROUBLE: _TROUBLE}


class GroupText:
    """Renders a group as text.

    :param zone: time zone of the times; None is the local one
    :param names: names of addresses
    :param show_all: whether to leave nothing out, and fold no storms
    :param incidents: incidents of the capture; the header of a group names its own
    """

    def __init__(
        self,
        zone: tzinfo | None,
        names: Names,
        *,
        show_all: bool,
        incidents: Sequence[Incident] = (),
    ) -> None:
        self._incidents: dict[tuple[str, str | UnsetType], list[Incident]] = {}
        for incident in incidents:
            for group in set(incident.groups):
                self._incidents.setdefault((group, incident.cluster), []).append(incident)
        self._zone = zone
        self._clock = Clock(zone, dated=False)
        self._names = names
        self._show_all = show_all
        self._described: set[str] = set()  # incidents in the header

    def blocks(self, timeline: GroupTimeline, rebalances: Sequence[Rebalance]) -> Iterator[Block]:
        """Yield the text about a group.

        :param rebalances: its rebalances to be shown
        """
        labels = Labels(timeline)
        self._clock = Clock.of(timeline.first, timeline.last, self._zone)
        yield from self._header(timeline, rebalances)
        yield BLANK
        yield from self._members(timeline, labels)
        left_out = len(timeline.rebalances) - len(rebalances)
        if left_out:
            text = f"{words.counted(left_out, 'rebalance')} before --from or after --to"
            yield from (BLANK, Paragraph(text, indent=(2, 2)))
        for block in storms(rebalances) if not self._show_all else [[each] for each in rebalances]:
            yield BLANK
            if len(block) > 1:
                yield from self._storm(block, labels)
            else:
                yield from self._rebalance(block[0], timeline, labels)
        if not timeline.rebalances:
            yield from (BLANK, Paragraph("no rebalance was seen", indent=(2, 2)))

    def story(self, timeline: GroupTimeline, rebalance: Rebalance) -> Iterator[Block]:
        """Yield one rebalance on its own, after the name of its group."""
        yield Heading([style(beside(words.line(timeline.group), timeline.cluster), bold=True)])
        yield from self._rebalance(rebalance, timeline, Labels(timeline))

    # ------------------------------------------------------------ the group
    def _header(self, timeline: GroupTimeline, rebalances: Sequence[Rebalance]) -> Iterator[Block]:
        yield Heading(
            [style(beside(words.line(timeline.group), timeline.cluster), bold=True), in_brief(timeline)]
        )
        yield from _facts(about(timeline, self._names, self._clock))
        zone = zone_name(timeline.first, self._zone)
        when = f"{self._clock(timeline.first)} to {self._clock(timeline.last)} {zone}"
        yield Fact("time", when)
        if rebalances:
            spent = sum(each.duration or 0 for each in rebalances)
            text = f"{len(rebalances):,}" + (f", {span(spent)} in all" if spent else "")
            yield Fact("rebalances", text)
        for incident in self._incidents.get((timeline.group, timeline.cluster), ()):
            self._described.add(incident.id)
            yield Fact("happened", in_line(incident, self._clock), color=_ODD)

    def _members(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Block]:
        columns = [
            Column("member", least=12),
            Column("host", least=9, rank=3),
            Column("instance ID", least=8, rank=2),
            Column("rack", least=4, rank=7),
            Column("session", right=True, rank=4),
            Column("subscription", least=10, rank=5),
            Column("assigned", least=12, rank=1),
            Column("from", rank=6),
            Column("to"),
            Column("", least=4),
        ]
        # current members first, then the latest ones
        ordered = sorted(timeline.members, key=lambda each: (each.left is not None, -each.last, each.first))
        shown = ordered if len(ordered) > _MEMBERS else timeline.members
        rows = [self._member(member, labels) for member in shown]
        if rows:
            yield Table("Members", columns, rows, most=None if self._show_all else _MEMBERS)

    def _member(self, member: GroupMember, labels: Labels) -> Row:
        last = member.spans[-1] if member.spans else None
        state, color = "", None
        if member.left is not None:
            state = "gone"
        elif last is not None and last.phase is not Phase.STABLE:
            state, color = str(last.phase), _ODD
        stable = next((each for each in reversed(member.spans) if each.assigned is not None), None)
        assigned = "" if member.left is not None or stable is None else partitions(stable.assigned or ())
        if stable is not None and member.left is None:
            assigned = assigned or "none"
        return Row(
            [
                labels.of(member.member),
                self._names.shown_host(member.host),
                words.line(member.instance or ""),
                words.line(member.rack),
                "" if member.session_timeout is None else span(member.session_timeout),
                words.line(words.some(member.subscription)),
                assigned,
                self._clock(member.first),
                self._clock(member.gone),
                state,
            ],
            color=_QUIET if state == "gone" else color,
        )

    # ------------------------------------------------------------ rebalances
    def _rebalance(self, rebalance: Rebalance, timeline: GroupTimeline, labels: Labels) -> Iterator[Block]:
        yield _title(
            rebalance,
            self._clock(rebalance.time),
            step(rebalance) + (" (now empty)" if rebalance.emptied else ""),
            duration_text(rebalance, timeline),
            style(
                f"{rebalance.trigger} {who(rebalance, labels)}".rstrip(),
                fg=_COLORS[tone(rebalance)],
                bold=True,
            ),
            manner(rebalance),
            "" if rebalance.certainty is Certainty.OBSERVED else str(rebalance.certainty),
        )
        yield Paragraph(rebalance.sentence, indent=(4, 4))
        shown = None if self._show_all else SHOWN
        yield from _facts(facts(rebalance, timeline, labels, shown=shown, described=self._described))

    def _storm(self, block: Sequence[Rebalance], labels: Labels) -> Iterator[Block]:
        first, last = block[0], block[-1]
        yield _title(
            first,
            f"{self._clock(first.time)} to {self._clock(last.end or last.time)}",
            step(first, last),
            style(storm_title(block, labels), fg=_TROUBLE, bold=True),
        )
        yield Paragraph(f"the first: {first.sentence}", indent=(4, 4))
        yield from _facts(storm_facts(block))
        yield Paragraph("--all shows each of them", indent=(4, 4), dim=True)


def _title(rebalance: Rebalance, *parts: str) -> Heading:
    return Heading(parts, 3, (2, 4), rebalance.evidence[0] if rebalance.evidence else None)


def _facts(found: Iterable[GroupFact]) -> Iterator[Block]:
    return (Fact(each.title, each.text, color=_COLORS[each.tone]) for each in found if each.text)
