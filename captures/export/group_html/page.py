"""The page: for each group what is known of it, its picture, the stories of its rebalances, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo

from captures.analysis.groups.facts import (
    Fact,
    Tone,
    facts,
    in_brief,
    manner,
    storm_facts,
    storm_title,
    storms,
    tone,
    took,
    who,
)
from captures.analysis.groups.labels import Labels, counter_of, step
from captures.analysis.groups.model import Certainty, GroupTimeline, Rebalance
from captures.export.group_html.legend import legend
from captures.export.group_html.markers import Numbered
from captures.export.group_html.markup import Markup, document, table, tag, together
from captures.export.group_html.picture import picture
from captures.export.group_html.style import STYLE
from captures.meaning import words
from captures.moments import Clock, clock, day, span, zone_name
from captures.names import Names

Told = tuple[GroupTimeline, Sequence[Rebalance]]
"""A group, and those of its rebalances that are to be shown."""


def page(
    told: Sequence[Told],
    *,
    names: Names,
    zone: tzinfo | None,
    source: str,
    begin: int | None = None,
    end: int | None = None,
) -> str:
    """Return the page.

    :param names: what addresses are called
    :param zone: of the times; None is the local one
    :param source: what it was made from, for its title
    :param begin: ns since the epoch, when the pictures begin; None for all
    :param end: likewise
    """
    title = f"Kafka groups in {source}"
    sections = [
        _Section(each, f"g{number}", names, zone).lines(begin, end) for number, each in enumerate(told, 1)
    ]
    body = together(
        tag("h1", title),
        *_contents(told, zone),
        *[part for section in sections for part in section],
    )
    return document(title, body, STYLE)


def _contents(told: Sequence[Told], zone: tzinfo | None) -> Iterator[Markup]:
    if not told:
        yield tag("p", "No group was seen: nobody spoke with a coordinator as a member.")
        return
    first = min(timeline.first for timeline, _ in told)
    last = max(timeline.last for timeline, _ in told)
    when = f"{day(first, zone)} {clock(first, zone)} to "
    when += f"{'' if day(first, zone) == day(last, zone) else day(last, zone) + ' '}{clock(last, zone)}"
    yield tag(
        "p",
        f"{when} {zone_name(first, zone)}. Numbers with # are exchanges: ",
        tag("code", "kproxy read --exchange N"),
        " shows one.",
        class_="dim",
    )
    if len(told) > 1:
        items = [
            tag(
                "li",
                tag("a", words.line(timeline.group), href=f"#g{number}"),
                f" {words.counted(len(rebalances), 'rebalance')}",
            )
            for number, (timeline, rebalances) in enumerate(told, 1)
        ]
        yield tag("ul", *items)


class _Section:
    """What the page says of one group.

    :param anchor: name of its place
    """

    def __init__(self, told: Told, anchor: str, names: Names, zone: tzinfo | None) -> None:
        self._timeline, rebalances = told
        self._anchor = anchor
        self._names = names
        self._clock = Clock.of(self._timeline.first, self._timeline.last, zone)
        self._labels = Labels(self._timeline)
        self._numbered = [
            Numbered(number, f"{anchor}r{number}", each) for number, each in enumerate(rebalances, 1)
        ]

    def lines(self, begin: int | None, end: int | None) -> Iterator[Markup]:
        """Yield the parts of it."""
        timeline = self._timeline
        yield tag("h2", words.line(timeline.group), id=self._anchor)
        yield _list(self._about())
        if timeline.members:
            drawn = picture(timeline, self._numbered, self._labels, self._clock.zone, begin, end)
            yield tag("figure", drawn, legend(timeline))
        if self._numbered:
            yield tag("h3", "What happened")
            yield from self._stories()
            yield self._overview()
        else:
            yield tag("p", "No rebalance was seen.")
        yield from self._failures()
        yield from self._members()

    def _about(self) -> Iterator[Fact]:
        timeline = self._timeline
        yield Fact("group", in_brief(timeline))
        moves = [
            f"{self._names.shown(seen.broker)} from {self._clock(seen.time)}"
            for seen in timeline.coordinators
        ]
        if len(moves) == 1:
            moves = [self._names.shown(timeline.coordinators[0].broker)]
        yield Fact("coordinator", ", then ".join(moves), Tone.ODD if len(moves) > 1 else Tone.PLAIN)
        for seen in timeline.seen:
            yield Fact("seen", seen, Tone.ODD)

    # ------------------------------------------------------------ stories
    def _stories(self) -> Iterator[Markup]:
        numbered = {id(each.told): each for each in self._numbered}
        for block in storms([each.told for each in self._numbered]):
            stories = [self._story(numbered[id(told)]) for told in block]
            if len(block) == 1:
                yield stories[0]
                continue
            yield self._storm(block, stories)

    def _storm(self, block: Sequence[Rebalance], stories: Sequence[Markup]) -> Markup:
        first, last = block[0], block[-1]
        when = f"{self._clock(first.time)} to {self._clock(last.end or last.time)} {step(first, last)}"
        title = storm_title(block, self._labels)
        each = tag("details", tag("summary", "each of them"), *stories)
        return tag(
            "section",
            tag("h4", f"{title[0].upper()}{title[1:]} ", tag("span", when, class_="dim")),
            tag("p", f"The first: {first.sentence}"),
            _list(storm_facts(block)),
            each,
            class_=Tone.TROUBLE.value,
        )

    def _story(self, each: Numbered) -> Markup:
        told = each.told
        name = who(told, self._labels)
        doubt = "" if told.certainty is Certainty.OBSERVED else f" ({told.certainty})"
        what = f"{told.trigger}{' ' + name if name else ''}{doubt}"
        facts_ = facts(told, self._timeline, self._labels, shown=None)
        emptied = " (now empty)" if told.emptied else ""
        how = words.listed([f"{step(told)}{emptied}", took(told, self._timeline), manner(told)])
        return tag(
            "article",
            tag(
                "h4", f"{each.number}. {what} ", tag("span", f"{self._clock(told.time)} {how}", class_="dim")
            ),
            tag("p", told.sentence),
            _list(facts_),
            id=each.anchor,
            class_=tone(told).value,
        )

    def _overview(self) -> Markup:
        head = ["#", "time", counter_of(self._timeline.kind), "took", "trigger", "who", "certainty"]
        head += ["moved", "stopped", "longest", "twice", "commits failed"]
        rows = [self._overview_row(each) for each in self._numbered]
        return together(tag("h3", "In one table"), table(head, rows, right={0, 3, 7, 8, 9, 10, 11}))

    def _overview_row(self, each: Numbered) -> list[str | Markup]:
        told = each.told
        longest = max((stop.duration for stop in told.stopped), default=None)
        return [
            tag("a", str(each.number), href=f"#{each.anchor}"),
            self._clock(told.time),
            step(told).partition(" ")[2],
            "not ended" if told.running else "?" if told.duration is None else span(told.duration),
            str(told.trigger),
            who(told, self._labels),
            str(told.certainty),
            _count(len(told.moved)),
            _count(len(told.stopped)),
            "" if longest is None else span(longest),
            _count(sum(found.count for found in told.again)),
            _count(len(told.commit_failures)),
        ]

    # ------------------------------------------------------------ tables
    def _failures(self) -> Iterator[Markup]:
        rows: list[list[str | Markup]] = [
            [
                self._clock(failure.time),
                self._labels.of(failure.member),
                failure.name,
                f"#{failure.number}",
                tag("a", str(each.number), href=f"#{each.anchor}"),
            ]
            for each in self._numbered
            for failure in each.told.commit_failures
        ]
        if rows:
            yield tag("h3", "Commits that failed")
            yield table(["time", "member", "error", "exchange", "rebalance"], rows)

    def _members(self) -> Iterator[Markup]:
        rows: list[list[str | Markup]] = [
            [
                self._labels.of(member.member),
                tag("span", member.member, class_="id"),
                member.client,
                member.instance or "",
                self._names.shown_host(member.host),
                member.rack,
                words.listed(member.subscription),
                "" if member.session_timeout is None else span(member.session_timeout),
                self._clock(member.first),
                self._clock(member.last if member.left is None else member.left),
                "" if member.left is None else "gone",
            ]
            for member in self._timeline.members
        ]
        if rows:
            head = [
                "member",
                "member ID",
                "client ID",
                "instance ID",
                "host",
                "rack",
                "subscription",
                "session",
            ]
            yield tag("h3", "Members")
            yield table([*head, "from", "to", ""], rows)


def _list(found: Iterable[Fact]) -> Markup:
    parts = [
        part
        for fact in found
        if fact.text
        for part in (tag("dt", fact.title), tag("dd", fact.text, class_=fact.tone.value))
    ]
    return tag("dl", *parts) if parts else Markup("")


def _count(count: int) -> str:
    return f"{count:,}" if count else ""
