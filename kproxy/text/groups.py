"""What ``kproxy groups`` prints: groups, their members, and their rebalances as stories.

A block for each rebalance: when, from which generation to which, how long, and why; below it the story in words and
what it cost. The rebalances of a storm are one block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo

import click

from captures.analysis.groups.facts import (
    SHOWN,
    Fact,
    Tone,
    facts,
    in_brief,
    manner,
    refusals,
    storm_facts,
    storm_title,
    storms,
    tone,
    took,
    who,
)
from captures.analysis.groups.labels import Labels, partitions, step
from captures.analysis.groups.model import Certainty, GroupMember, GroupTimeline, Phase, Rebalance
from captures.analysis.incidents.model import Incident, in_line
from captures.meaning import words
from captures.names import Names
from captures.time_format import Clock, span, zone_name
from kproxy.printing import style
from kproxy.text.paragraphs import wrapped
from kproxy.text.tables import GAP, Column, Row, Table

_TROUBLE = "red"
_ODD = "yellow"
_QUIET = "bright_black"
_INDENT = "    "
_TITLE = 11
"""Characters of the words that begin the lines of a block."""
_MEMBERS = 20
_COLORS = {Tone.PLAIN: None, Tone.QUIET: _QUIET, Tone.ODD: _ODD, Tone.TROUBLE: _TROUBLE}


class GroupText:
    """Puts a group into lines.

    :param width: columns of the terminal, or None for a pipe
    :param zone: zone of the times; None is the local one
    :param names: what addresses are called
    :param color: whether to colour
    :param show_all: whether to leave nothing out, and fold no storms
    :param incidents: what happened in the capture; each is told in the header of its groups
    """

    def __init__(
        self,
        width: int | None,
        zone: tzinfo | None,
        names: Names,
        *,
        color: bool,
        show_all: bool,
        incidents: Sequence[Incident] = (),
    ) -> None:
        self._incidents = incidents
        self._width = width
        self._zone = zone
        self._clock = Clock(zone, dated=False)
        self._names = names
        self._color = color
        self._show_all = show_all

    def lines(self, timeline: GroupTimeline, rebalances: Sequence[Rebalance]) -> Iterator[str]:
        """Yield the lines of a group.

        :param rebalances: those of it that are to be shown
        """
        labels = Labels(timeline)
        self._clock = Clock.of(timeline.first, timeline.last, self._zone)
        yield from self._header(timeline, rebalances)
        yield ""
        yield from self._members(timeline, labels)
        left_out = len(timeline.rebalances) - len(rebalances)
        if left_out:
            yield ""
            yield f"  {words.counted(left_out, 'rebalance')} before --from or after --to"
        for block in storms(rebalances) if not self._show_all else [[each] for each in rebalances]:
            yield ""
            if len(block) > 1:
                yield from self._storm(block, labels)
            else:
                yield from self._rebalance(block[0], timeline, labels)
        if not timeline.rebalances:
            yield ""
            yield "  no rebalance was seen"

    def story(self, timeline: GroupTimeline, told: Rebalance) -> Iterator[str]:
        """Yield the lines of one rebalance that stands alone, its group before it."""
        yield self._style(words.line(timeline.group), bold=True)
        yield from self._rebalance(told, timeline, Labels(timeline))

    # ------------------------------------------------------------ the group
    def _header(self, timeline: GroupTimeline, rebalances: Sequence[Rebalance]) -> Iterator[str]:
        name = style(words.line(timeline.group), bold=True)
        for line in self._title(name, in_brief(timeline)):
            yield line.removeprefix(GAP)
        moves = [
            f"{self._clock(seen.time)} {self._names.shown(seen.broker)}" for seen in timeline.coordinators
        ]
        if len(moves) == 1:
            moves = [self._names.shown(timeline.coordinators[0].broker)]
        yield from self._line("coordinator", ", then ".join(moves), _ODD if len(moves) > 1 else None)
        for known in timeline.seen:
            yield from self._line("seen", words.line(known), _ODD)
        for refused in refusals(timeline):
            yield from self._line("refused", refused, _ODD)
        zone = zone_name(timeline.first, self._zone)
        when = f"{self._clock(timeline.first)} to {self._clock(timeline.last)} {zone}"
        yield from self._line("time", when)
        if rebalances:
            spent = sum(each.duration or 0 for each in rebalances)
            text = f"{len(rebalances):,}" + (f", {span(spent)} in all" if spent else "")
            yield from self._line("rebalances", text)
        for incident in self._incidents:
            if timeline.group in incident.groups:
                yield from self._line("happened", in_line(incident, self._clock), _ODD)

    def _members(self, timeline: GroupTimeline, labels: Labels) -> Iterator[str]:
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
        # those that are there now, then those that were last
        ordered = sorted(timeline.members, key=lambda each: (each.left is not None, -each.last, each.first))
        shown = ordered if len(ordered) > _MEMBERS else timeline.members
        rows = [self._member(member, timeline, labels) for member in shown]
        if rows:
            table = Table("Members", columns, rows)
            yield from table.lines(self._width, None if self._show_all else _MEMBERS, color=self._color)

    def _member(self, member: GroupMember, timeline: GroupTimeline, labels: Labels) -> Row:
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
    def _rebalance(self, told: Rebalance, timeline: GroupTimeline, labels: Labels) -> Iterator[str]:
        yield from self._title(
            self._clock(told.time),
            step(told) + (" (now empty)" if told.emptied else ""),
            took(told, timeline),
            style(f"{told.trigger} {who(told, labels)}".rstrip(), fg=_COLORS[tone(told)], bold=True),
            manner(told),
            "" if told.certainty is Certainty.OBSERVED else str(told.certainty),
        )
        yield from wrapped(words.line(told.sentence), self._width, _INDENT)
        yield from self._facts(facts(told, timeline, labels, shown=None if self._show_all else SHOWN))

    def _storm(self, block: Sequence[Rebalance], labels: Labels) -> Iterator[str]:
        first, last = block[0], block[-1]
        yield from self._title(
            f"{self._clock(first.time)} to {self._clock(last.end or last.time)}",
            step(first, last),
            style(storm_title(block, labels), fg=_TROUBLE, bold=True),
        )
        yield from wrapped(f"the first: {words.line(first.sentence)}", self._width, _INDENT)
        yield from self._facts(storm_facts(block))
        yield f"{_INDENT}{self._style('--all shows each of them', dim=True)}"

    def _title(self, *parts: str) -> Iterator[str]:
        """Yield the line that a block begins with; what has no room continues below it."""
        line, length = "", 0
        for part in filter(None, parts):
            size = len(click.unstyle(part))
            if line and self._width is not None and length + len(GAP) + size > self._width:
                yield line
                line, length = f"{_INDENT}{part}", len(_INDENT) + size
            else:
                line, length = f"{line}{GAP}{part}", length + len(GAP) + size
            if not self._color:
                line = click.unstyle(line)
        yield line

    def _facts(self, found: Iterable[Fact]) -> Iterator[str]:
        for fact in found:
            yield from self._line(fact.title, fact.text, _COLORS[fact.tone])

    # ------------------------------------------------------------ lines
    def _line(self, title: str, text: str, color: str | None = None) -> Iterator[str]:
        """Yield a line of a block, and what continues below it; nothing if there is no text."""
        if not text:
            return
        head = f"{_INDENT}{title:<{_TITLE}} "
        room = None if self._width is None else self._width - len(head)
        for index, part in enumerate(wrapped(text, room)):
            lead = self._style(head, dim=True) if not index else " " * len(head)
            yield lead + self._style(part, fg=color)

    def _style(self, text: str, **how: bool | str | None) -> str:
        return style(text, **how) if self._color and any(how.values()) else text  # type: ignore[arg-type]
