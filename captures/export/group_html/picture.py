"""The picture of a group: members as lanes, time across, one SVG for each row of time.

Boxes show what members do; a shaded band is a rebalance, with its number above it as a link to its story. Lengths are
in units of the SVG, which is as wide as the page allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo

import msgspec

from captures.analysis.groups.facts import duration_text, who
from captures.analysis.groups.labels import Labels, counter_of, partitions, step
from captures.analysis.groups.model import GroupMember, GroupTimeline, Rebalance, Span
from captures.analysis.groups.vocabulary import Kind, Phase
from captures.export.group_html.axis import WIDTH, AxisRow, Piece, axis
from captures.export.group_html.markers import LETTER, LEVEL, Marker, NumberedRebalance, placed
from captures.export.markup import Markup, on_lines, tag, together
from captures.meaning import words
from captures.time_format import Clock, span

_CLASSES = {
    Phase.JOINING: "joining",
    Phase.SYNCING: "syncing",
    Phase.STABLE: "stable",
    Phase.REVOKING: "revoking",
    Phase.NOT_JOINING: "refusing",
    Phase.SILENT: "silent",
}
_LEGEND = (
    ("joining", "joining"),
    ("syncing", "waiting for its assignment"),
    ("stable", "has partitions"),
    ("idle", "has none"),
    ("unseen", "is a member; its partitions were not captured"),
    ("revoking", "giving partitions up"),
    ("refusing", "knows of the rebalance, and does not join"),
    ("silent", "silent"),
)


_OF_WORKERS = {
    "stable": "runs connectors or tasks",
    "idle": "runs none",
    "unseen": "is a member; what it runs was not captured",
}
"""Legend texts for workers of Kafka Connect."""


def class_of(each: Span) -> str:
    """Return the CSS class of a span's box."""
    if each.phase is Phase.STABLE and not each.assigned:
        return "unseen" if each.assigned is None else "idle"
    return _CLASSES[each.phase]


def lone_topic(timeline: GroupTimeline) -> str:
    """Return the only topic assigned to members of the group; empty if there are several, or tasks instead."""
    found = {tp.topic for member in timeline.members for each in member.spans for tp in each.assigned or ()}
    alone = found.pop() if len(found) == 1 else ""
    return "" if timeline.kind is Kind.STREAMS or timeline.of_workers else alone


class Legend(msgspec.Struct, frozen=True):
    """The meaning of the colours that a picture uses.

    :ivar colours: class and meaning of each
    :ivar failures: whether commits failed
    :ivar topic: topic of the partition numbers in boxes; empty if there are several
    """

    colours: list[tuple[str, str]]
    failures: bool
    topic: str

    @classmethod
    def of(cls, timeline: GroupTimeline) -> Legend:
        """Return the legend for the picture of a group."""
        used = {class_of(each) for member in timeline.members for each in member.spans}
        return cls(
            [
                (name, _OF_WORKERS.get(name, text) if timeline.of_workers else text)
                for name, text in _LEGEND
                if name in used
            ],
            any(rebalance.commit_failures for rebalance in timeline.rebalances),
            words.line(lone_topic(timeline)),
        )


_LEFT = 165.0
_RIGHT = 14.0
_LANE = 24.0
_BAR = 16.0
_BOTTOM = 22.0
MOST_LANES = 60
"""Lanes of a row; of more members, those with events are drawn first, and the rest is counted."""
_LABEL = 23
"""Characters of a lane's label."""
_EDGE = 3.0
"""Least width of a box, so that short spans are visible."""
_MARKS = {"cause": "m0-7l5 7l-5 7l-5-7z", "fail": "m-4-4l8 8m0-8l-8 8"}
"""SVG paths of a diamond and a cross around a point."""
_QUIET = frozenset({Phase.STABLE})


def picture(
    timeline: GroupTimeline,
    rebalances: Sequence[NumberedRebalance],
    labels: Labels,
    zone: tzinfo | None,
    begin: int | None = None,
    end: int | None = None,
) -> Markup:
    """Return the rows of the picture.

    :param rebalances: rebalances to be shown
    :param begin: start of the picture, ns since the epoch; None for the start of the group
    :param end: end of the picture, ns since the epoch; None for the end of the group
    """
    first = timeline.first if begin is None else max(begin, timeline.first)
    last = timeline.last if end is None else min(end, timeline.last)
    drawn = _Picture(timeline, rebalances, labels, zone)
    rows = axis(first, last, drawn.busy(), _usual([each.rebalance for each in rebalances]))
    return together(*[drawn.row(row) for row in rows])


def _usual(rebalances: Sequence[Rebalance]) -> int:
    """Return the median duration of the rebalances, in ns."""
    found = sorted(rebalance.duration for rebalance in rebalances if rebalance.duration is not None)
    return found[len(found) // 2] if found else 0


class _Picture:
    """Draws the rows of one group."""

    def __init__(
        self,
        timeline: GroupTimeline,
        rebalances: Sequence[NumberedRebalance],
        labels: Labels,
        zone: tzinfo | None,
    ) -> None:
        self._timeline = timeline
        self._rebalances = rebalances
        self._labels = labels
        self._clock = Clock.of(timeline.first, timeline.last, zone)
        self._lanes = lanes(timeline, labels)
        self._alone = lone_topic(timeline)
        self._marked = self._marks_of_lanes()

    def busy(self) -> Iterator[tuple[int, int]]:
        """Yield the stretches of time with something to see."""
        for each in self._rebalances:
            yield each.rebalance.time, self._end(each.rebalance)
        for member in self._timeline.members:
            for known in member.spans:
                if known.phase not in _QUIET:
                    yield known.begin, known.end

    def row(self, row: AxisRow) -> Markup:
        there = [lane for lane in self._lanes if lane.within(row.begin, row.end)]
        shown = self._chosen(there, row)
        here = [each for each in self._rebalances if self._shows(each.rebalance, row)]
        markers = self._markers(here, row)
        top = 6 + LEVEL * (1 + max((marker.level for marker in markers), default=0))
        bottom = top + max(len(shown) + (len(there) > len(shown)), 1) * _LANE
        parts = [
            *self._bands(here, row, top, bottom),
            *self._ticks(row, top, bottom),
            *[part for at, lane in enumerate(shown) for part in self._lane(lane, row, top + at * _LANE)],
            *self._left_out(len(there) - len(shown), bottom - _LANE / 2),
            *self._coordinators(row, top, bottom),
            *[self._fold(piece, top, bottom) for piece in row.pieces if piece.folded],
            *[self._number(marker, top) for marker in markers],
        ]
        height = bottom + _BOTTOM
        return tag(
            "svg",
            *parts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {_LEFT + WIDTH + _RIGHT:g} {height:g}",
            role="group",
            aria_label=f"{self._clock(row.begin)} to {self._clock(row.end)}",
        )

    # ------------------------------------------------------------ rebalances
    def _end(self, rebalance: Rebalance) -> int:
        if rebalance.end is not None:
            return rebalance.end
        return self._timeline.last if rebalance.running else rebalance.time

    def _shows(self, rebalance: Rebalance, row: AxisRow) -> bool:
        return rebalance.time <= row.end and self._end(rebalance) >= row.begin

    def _bands(
        self, here: Sequence[NumberedRebalance], row: AxisRow, top: float, bottom: float
    ) -> Iterator[Markup]:
        for each in here:
            left, right = self._x(row, each.rebalance.time), self._x(row, self._end(each.rebalance))
            yield tag(
                "rect",
                x=left,
                y=top,
                width=max(right - left, 1.5),
                height=bottom - top,
                class_="band running" if each.rebalance.running else "band",
            )

    def _markers(self, here: Sequence[NumberedRebalance], row: AxisRow) -> list[Marker]:
        found = [(each, self._x(row, each.rebalance.time)) for each in here if row.holds(each.rebalance.time)]
        return placed(found, _LEFT + WIDTH + _RIGHT)

    def _number(self, marker: Marker, top: float) -> Markup:
        rebalance = marker.each.rebalance
        head = words.listed([step(rebalance), duration_text(rebalance, self._timeline)])
        title = on_lines([f"{head}: {rebalance.trigger}", rebalance.sentence])
        return marker.draw(top, title, f"{rebalance.trigger} {who(rebalance, self._labels)}".rstrip())

    # ------------------------------------------------------------ lanes
    def _chosen(self, there: list[PictureRow], row: AxisRow) -> list[PictureRow]:
        """Return the lanes to draw: all, or at most MOST_LANES of them, those with marks first."""
        if len(there) <= MOST_LANES:
            return there
        marked = {
            index for index, marks in self._marked.items() if any(row.holds(time) for time, *_ in marks)
        }
        first = sorted(range(len(there)), key=lambda at: (id(there[at]) not in marked, at))[:MOST_LANES]
        return [there[at] for at in sorted(first)]

    @staticmethod
    def _left_out(count: int, middle: float) -> Iterator[Markup]:
        if count:
            yield tag("text", f"+ {words.counted(count, 'more member')}", x=_LEFT + 4, y=middle + 3.5)

    def _lane(self, lane: PictureRow, row: AxisRow, top: float) -> Iterator[Markup]:
        middle = top + _LANE / 2
        full = on_lines(_described(member) for member in lane.members[:10])
        label = words.clipped(lane.label, _LABEL)
        yield tag("text", tag("title", full), label, x=_LEFT - 10, y=middle + 3.5, class_="label")
        yield tag("line", x1=_LEFT, y1=middle, x2=_LEFT + row.width, y2=middle, class_="lane")
        for member, known in lane.spans(row.begin, row.end):
            yield from self._box(member, known, row, middle)
        yield from self._marks(lane, row, middle)

    def _box(self, member: GroupMember, known: Span, row: AxisRow, middle: float) -> Iterator[Markup]:
        left, right = self._x(row, known.begin), self._x(row, known.end)
        width = max(right - left, _EDGE)
        has = "" if known.assigned is None else partitions(known.assigned, 99) or "no partitions"
        if known.phase is Phase.STABLE and known.assigned is None:
            has = "its partitions were not captured"
        counted = f"{counter_of(self._timeline.kind)} {known.generation}" if known.generation >= 0 else ""
        title = ", ".join(
            filter(
                None,
                [
                    f"{self._labels.of(member.member, member.client)}: {known.phase}",
                    counted,
                    f"{self._clock(known.begin)} to {self._clock(known.end)} ({span(known.end - known.begin)})",
                    has,
                    f"#{known.number}",
                ],
            )
        )
        yield tag(
            "rect",
            tag("title", title),
            x=left,
            y=middle - _BAR / 2,
            width=width,
            height=_BAR,
            rx=2.0,
            class_=class_of(known),
        )
        if known.phase is Phase.STABLE:
            yield from self._has(known, row, middle)

    def _has(self, known: Span, row: AxisRow, middle: float) -> Iterator[Markup]:
        """Yield the partitions of a member as text, at the first unfolded piece of its box with enough room."""
        has = known.assigned or ()
        # repeating the topic in each box would leave no room for the partitions
        text = words.ranges(tp.partition for tp in has) if self._alone else partitions(has)
        text = "?" if known.assigned is None else text or "none"
        for piece in row.pieces:
            left, right = piece.at(known.begin), piece.at(known.end)
            room = int((right - left - 10) / LETTER)
            if not piece.folded and known.end > piece.begin and room >= min(len(text), 4):
                yield tag("text", words.clipped(text, room), x=_LEFT + left + 7, y=middle + 3.5, class_="has")
                return

    def _marks(self, lane: PictureRow, row: AxisRow, middle: float) -> Iterator[Markup]:
        """Yield the events of a lane: triggers and failed commits."""
        for time, mark, title in self._marked.get(id(lane), ()):
            if row.holds(time):
                x = self._x(row, time)
                yield tag("path", tag("title", title), d=f"M{x:.1f} {middle:.1f}{_MARKS[mark]}", class_=mark)

    def _marks_of_lanes(self) -> dict[int, list[tuple[int, str, str]]]:
        """Return the marks by ``id`` of the lane: time, kind and title."""
        lane_of = {
            known: id(lane)
            for lane in self._lanes
            for member in lane.members
            for known in (member.member, *member.former)
        }
        found: dict[int, list[tuple[int, str, str]]] = {}
        for each in self._rebalances:
            for cause in each.rebalance.causes:
                if cause.member in lane_of:
                    title = f"{cause.trigger} ({cause.certainty}): {cause.sentence}"
                    found.setdefault(lane_of[cause.member], []).append((cause.time, "cause", title))
            for failure in each.rebalance.commit_failures:
                if failure.member in lane_of:
                    title = f"commit failed: {failure.name} (#{failure.number})"
                    found.setdefault(lane_of[failure.member], []).append((failure.time, "fail", title))
        return found

    # ------------------------------------------------------------ time
    def _ticks(self, row: AxisRow, top: float, bottom: float) -> Iterator[Markup]:
        taken = 0.0
        for time in row.ticks():
            x = self._x(row, time)
            yield tag("line", x1=x, y1=top, x2=x, y2=bottom + 4, class_="tick")
            text = self._clock(time).removesuffix(".000")
            half = len(text) * LETTER / 2
            middle = min(x, _LEFT + WIDTH + _RIGHT - half)
            if middle - half >= taken:  # labels with a date or milliseconds may not all have room
                yield tag("text", text, x=middle, y=bottom + 16, class_="time")
                taken = middle + half + LETTER

    def _fold(self, piece: Piece, top: float, bottom: float) -> Markup:
        quiet = span(piece.end - piece.begin)
        title = f"{quiet} in which nothing happens: {self._clock(piece.begin)} to {self._clock(piece.end)}"
        x, middle = _LEFT + piece.x, _LEFT + piece.x + piece.width / 2
        box = tag("rect", x=x, y=top, width=piece.width, height=bottom - top, class_="fold")
        lines = tag(
            "path",
            d=f"M{x:.1f} {top:.1f}V{bottom:.1f}M{x + piece.width:.1f} {top:.1f}V{bottom:.1f}",
            class_="foldedge",
        )
        place = f"rotate(-90 {middle:.1f} {(top + bottom) / 2:.1f})"
        tall = bottom - top >= len(quiet) * LETTER + 6
        text = tag(
            "text",
            quiet,
            x=middle,
            y=(top + bottom) / 2 + 3.5 if tall else bottom + 16,
            transform=place if tall else None,
            class_="quiet",
        )
        return tag("g", tag("title", title), box, lines, text)

    def _coordinators(self, row: AxisRow, top: float, bottom: float) -> Iterator[Markup]:
        for seen in self._timeline.coordinators[1:]:
            if row.holds(seen.time):
                x = self._x(row, seen.time)
                title = tag("title", f"the coordinator is now {seen.broker} (#{seen.number})")
                yield tag("line", title, x1=x, y1=top, x2=x, y2=bottom, class_="coordinator")

    def _x(self, row: AxisRow, time: int) -> float:
        return _LEFT + row.x(time)


def _described(member: GroupMember) -> str:
    parts = [member.member or "(no member ID)", f"client {member.client}", f"on {member.host}"]
    if member.instance is not None:
        parts.append(f"instance {member.instance}")
    return ", ".join(parts)


# ---------------------------------------------------------------- lanes
class PictureRow(msgspec.Struct):
    """One line of the picture.

    :ivar members: members that follow each other in time
    """

    label: str
    members: list[GroupMember]

    @property
    def end(self) -> int:
        """End of its last member, in ns since the epoch."""
        return _end(self.members[-1])

    def within(self, begin: int, end: int) -> bool:
        """Return whether one of its members existed at some time between `begin` and `end`."""
        return any(member.first <= end and _end(member) >= begin for member in self.members)

    def spans(self, begin: int, end: int) -> list[tuple[GroupMember, Span]]:
        """Return the spans of its members between `begin` and `end`."""
        return [
            (member, span)
            for member in self.members
            for span in member.spans
            if span.begin <= end and span.end >= begin
        ]


def lanes(timeline: GroupTimeline, labels: Labels) -> list[PictureRow]:
    """Return the lanes of a group, in the order of their first members."""
    found: list[PictureRow] = []
    by_name: dict[str, list[PictureRow]] = {}
    for member in sorted(timeline.members, key=lambda each: each.first):
        same_name = by_name.setdefault(member.name, [])
        free = next((lane for lane in same_name if lane.end <= member.first), None)
        if free is None:
            free = PictureRow("", [])
            same_name.append(free)
            found.append(free)
        free.members.append(member)
    for lane in found:
        lane.label = _label(lane.members, labels)
    return found


def _label(members: Sequence[GroupMember], labels: Labels) -> str:
    first = labels.of(members[0].member, members[0].client)
    return first if len(members) == 1 else f"{first} +{len(members) - 1}"


def _end(member: GroupMember) -> int:
    ends = [span.end for span in member.spans]
    return max([member.last, *([] if member.left is None else [member.left]), *ends])
