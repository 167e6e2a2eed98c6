"""The page: for each group its facts, its picture, the stories of its rebalances, and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo

import msgspec

from captures.analysis.groups.facts import (
    Fact,
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
from captures.analysis.groups.labels import Labels, counter_of, step
from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.model import Incident, in_line
from captures.export.group_html.markers import NumberedRebalance
from captures.export.group_html.picture import Legend, picture
from captures.export.markup import PARTS
from captures.export.markup import page as render
from captures.meaning import words
from captures.names import Names
from captures.time_format import Clock, clock, day, span, zone_name

TimelineShown = tuple[GroupTimeline, Sequence[Rebalance]]
"""A group, and its rebalances to be shown."""


def page(
    shown: Sequence[TimelineShown],
    *,
    names: Names,
    zone: tzinfo | None,
    source: str,
    incidents: Sequence[Incident] = (),
    begin: int | None = None,
    end: int | None = None,
) -> str:
    """Return the page.

    :param names: names of addresses
    :param zone: time zone of the times; None is the local one
    :param source: what the page was made from, for its title
    :param incidents: shown among the facts of their groups
    :param begin: start of the pictures, ns since the epoch; None for all
    :param end: end of the pictures, ns since the epoch; None for all
    """
    groups = [_Group(each, f"g{number}", names, zone, incidents) for number, each in enumerate(shown, 1)]
    for group in groups:
        group.draw(begin, end)
    return render("groups.html", title=f"Kafka groups in {source}", groups=groups, when=_when(shown, zone))


def _when(shown: Sequence[TimelineShown], zone: tzinfo | None) -> str:
    first = min((timeline.first for timeline, _ in shown), default=0)
    last = max((timeline.last for timeline, _ in shown), default=0)
    until = f"{'' if day(first, zone) == day(last, zone) else day(last, zone) + ' '}{clock(last, zone)}"
    return f"{day(first, zone)} {clock(first, zone)} to {until} {zone_name(first, zone)}"


class _Storm(msgspec.Struct, frozen=True):
    """Rebalances of one cause, shown as one story."""

    title: str
    when: str
    facts: list[Fact]


class _Group:
    """The content of one group for ``groups.html``.

    :ivar anchor: name of its anchor
    :ivar numbered: its rebalances
    :ivar members: rows of a table
    """

    def __init__(
        self,
        shown: TimelineShown,
        anchor: str,
        names: Names,
        zone: tzinfo | None,
        incidents: Sequence[Incident],
    ) -> None:
        self._timeline, rebalances = shown
        self._incidents = [each for each in incidents if self._timeline.group in each.groups]
        self.anchor = anchor
        self.name = words.line(self._timeline.group)
        self.count = words.counted(len(rebalances), "rebalance")
        self._names = names
        self._clock = Clock.of(self._timeline.first, self._timeline.last, zone)
        self._labels = Labels(self._timeline)
        self.numbered = [
            NumberedRebalance(number, f"{anchor}r{number}", each) for number, each in enumerate(rebalances, 1)
        ]
        self.legend = Legend.of(self._timeline)
        self.members = self._members()
        self.counter = counter_of(self._timeline.kind)

    def draw(self, begin: int | None, end: int | None) -> None:
        self.picture = picture(self._timeline, self.numbered, self._labels, self._clock.zone, begin, end)

    def about(self) -> Iterator[Fact]:
        """Yield the facts about the group."""
        timeline = self._timeline
        yield Fact("group", in_brief(timeline))
        yield from about(timeline, self._names, self._clock)
        for incident in self._incidents:
            yield Fact("happened", in_line(incident, self._clock), Tone.ODD)

    # ------------------------------------------------------------ stories
    def blocks(self) -> Iterator[list[NumberedRebalance]]:
        """Yield its rebalances; those of a storm together."""
        numbered = {id(each.rebalance): each for each in self.numbered}
        for block in storms([each.rebalance for each in self.numbered]):
            yield [numbered[id(rebalance)] for rebalance in block]

    def storm(self, block: Sequence[NumberedRebalance]) -> _Storm:
        """Return the story of a storm."""
        rebalances = [each.rebalance for each in block]
        first, last = rebalances[0], rebalances[-1]
        when = f"{self._clock(first.time)} to {self._clock(last.end or last.time)} {step(first, last)}"
        title = storm_title(rebalances, self._labels)
        return _Storm(f"{title[0].upper()}{title[1:]}", when, storm_facts(rebalances))

    def what(self, rebalance: Rebalance) -> str:
        """Return what triggered a rebalance."""
        name = who(rebalance, self._labels)
        doubt = "" if rebalance.certainty is Certainty.OBSERVED else f" ({rebalance.certainty})"
        return f"{rebalance.trigger}{' ' + name if name else ''}{doubt}"

    def how(self, rebalance: Rebalance) -> str:
        """Return when a rebalance happened, and how it went."""
        emptied = " (now empty)" if rebalance.emptied else ""
        how = words.listed(
            [f"{step(rebalance)}{emptied}", duration_text(rebalance, self._timeline), manner(rebalance)]
        )
        return f"{self._clock(rebalance.time)} {how}"

    def tone(self, rebalance: Rebalance) -> str:
        """Return the tone in which the story of a rebalance is shown."""
        return tone(rebalance).value

    def facts(self, rebalance: Rebalance) -> list[Fact]:
        return list(facts(rebalance, self._timeline, self._labels, shown=None))

    # ------------------------------------------------------------ tables
    def overview(self) -> list[list[str]]:
        """Return a row for each rebalance."""
        return [self._overview_row(each) for each in self.numbered]

    def _overview_row(self, each: NumberedRebalance) -> list[str]:
        rebalance = each.rebalance
        longest = max((stop.duration for stop in rebalance.stopped), default=None)
        return [
            PARTS.link(each.anchor, each.number),
            self._clock(rebalance.time),
            step(rebalance).partition(" ")[2],
            "not ended"
            if rebalance.running
            else "?"
            if rebalance.duration is None
            else span(rebalance.duration),
            str(rebalance.trigger),
            who(rebalance, self._labels),
            str(rebalance.certainty),
            words.figure(len(rebalance.moved)),
            words.figure(len(rebalance.stopped)),
            "" if longest is None else span(longest),
            words.figure(sum(found.count for found in rebalance.refetched)),
            words.figure(len(rebalance.commit_failures)),
        ]

    def failures(self) -> list[list[str]]:
        """Return a row for each failed commit."""
        return [
            [
                self._clock(failure.time),
                self._labels.of(failure.member),
                failure.name,
                f"#{failure.number}",
                PARTS.link(each.anchor, each.number),
            ]
            for each in self.numbered
            for failure in each.rebalance.commit_failures
        ]

    def _members(self) -> list[list[str]]:
        return [
            [
                self._labels.of(member.member),
                PARTS.styled("id", member.member),
                member.client,
                member.instance or "",
                self._names.shown_host(member.host),
                member.rack,
                words.listed(member.subscription),
                "" if member.session_timeout is None else span(member.session_timeout),
                self._clock(member.first),
                self._clock(member.gone),
                "" if member.left is None else "gone",
            ]
            for member in self._timeline.members
        ]
