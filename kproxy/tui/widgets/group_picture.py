"""A group over time: a lane for each member with its phases, and the rebalances as marks above them.

It can be zoomed and panned. The cursor is on a rebalance, whose duration is highlighted in all lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip

from captures.analysis.groups.model import GroupMember, GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Phase
from captures.meaning import words
from captures.time_format import span
from kproxy.text.cells import fit, width
from kproxy.tui.commands import Scope, bindings
from kproxy.tui.widgets.line_styles import DrawnLines, style_classes, style_rules
from kproxy.tui.widgets.time_axis import time_axis

_SIGNS = {
    Phase.STABLE: "━",
    Phase.SYNCING: "░",
    Phase.JOINING: "▒",
    Phase.REVOKING: "╌",
    Phase.SILENT: "·",
    Phase.NOT_JOINING: "!",
}
"""Signs of phases. Of several phases in one cell, the last in this order is drawn."""
_ORDER = {phase: place for place, phase in enumerate(_SIGNS)}
_LEFT = "╳"
_MARK, _RUNNING = "▼", "▽"
_ROLES = ("title", "muted", "accent", "cursor", "success", "warning", "error")
_LABEL = (11, 24)
_ZOOM = 2
_PAN = 4
"""Steps of panning per shown time."""
_LEAST = 10_000_000
"""Shortest shown time in ns."""
_FRAME = 3
"""Lines of title, marks and axis."""


class GroupPicture(DrawnLines, can_focus=True):
    """The picture of a group.

    :param zone: time zone; None for local time
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.TIMELINE)]

    COMPONENT_CLASSES: ClassVar[set[str]] = style_classes(_ROLES)
    DEFAULT_CSS = style_rules("GroupPicture", _ROLES)

    @dataclass
    class Selected(Message):
        """The cursor has moved to another rebalance.

        :ivar place: its index in the timeline
        """

        place: int

    class Entered(Selected):
        """A rebalance was chosen."""

    def __init__(self, zone: tzinfo | None) -> None:
        super().__init__()
        self._zone = zone
        self._timeline: GroupTimeline | None = None
        self._cursor = 0
        self._top = 0
        self._window: tuple[int, int] | None = None
        """ns since the epoch: what is shown; None for all of it."""

    # ------------------------------------------------------------ content
    @property
    def wanted_height(self) -> int:
        """Number of lines needed for all members."""
        members = 0 if self._timeline is None else len(self._timeline.members)
        return max(members, 1) + _FRAME

    def show(self, timeline: GroupTimeline | None) -> None:
        """Draw a group, whose names may come from the wire. Cursor and zoom are kept if it is the same group."""
        before, self._timeline = self._timeline, timeline
        if before is None or timeline is None or before.group != timeline.group:
            self._cursor = 0 if timeline is None else max(len(timeline.rebalances) - 1, 0)
            self._top, self._window = 0, None
        elif self._cursor >= len(timeline.rebalances) - 1 or len(before.rebalances) - 1 == self._cursor:
            self._cursor = max(len(timeline.rebalances) - 1, 0)  # a cursor on the latest follows it
        self.refresh(layout=True)

    @property
    def cursor(self) -> int | None:
        """Index of the rebalance under the cursor, None if there are none."""
        return self._cursor if self._rebalances else None

    @property
    def _rebalances(self) -> list[Rebalance]:
        return [] if self._timeline is None else self._timeline.rebalances

    def select(self, index: int) -> None:
        """Move the cursor to a rebalance, and bring its time into view."""
        count = len(self._rebalances)
        if not count:
            return
        index = min(max(index, 0), count - 1)
        if index != self._cursor:
            self._cursor = index
            self._bring_into_view()
            self.post_message(self.Selected(index))
        self.refresh()

    def action_move(self, steps: int) -> None:
        """Move the cursor by `steps` rebalances."""
        self.select(self._cursor + steps)

    def action_move_to_first(self) -> None:
        self.select(0)

    def action_move_to_last(self) -> None:
        self.select(len(self._rebalances) - 1)

    def action_scroll_members(self, lines: int) -> None:
        """Scroll the members, if there are more than lines."""
        members = 0 if self._timeline is None else len(self._timeline.members)
        self._top = min(max(self._top + lines, 0), max(members - self._room, 0))
        self.refresh()

    def action_zoom(self, steps: int) -> None:
        """Show less time around the rebalance under the cursor, or more if ``steps`` is negative; 0 shows all."""
        first, last = self._extent
        begin, end = self._shown
        size = (end - begin) // _ZOOM if steps > 0 else (end - begin) * _ZOOM
        if not steps or size >= last - first:
            self._window = None
        else:
            size = max(size, _LEAST)
            middle = (begin + end) // 2
            if self._rebalances:
                current = self._rebalances[self._cursor]
                middle = (current.time + (current.end or current.time)) // 2
            self._put(middle - size // 2, size)
        self.refresh()

    def action_pan(self, steps: int) -> None:
        """Shift the shown time by steps of a quarter of its length."""
        begin, end = self._shown
        self._put(begin + steps * (end - begin) // _PAN, end - begin)
        self.refresh()

    def _put(self, begin: int, size: int) -> None:
        first, last = self._extent
        begin = max(min(begin, last - size), first)
        self._window = None if size >= last - first else (begin, begin + size)

    def _bring_into_view(self) -> None:
        begin, end = self._shown
        time = self._rebalances[self._cursor].time
        if not begin <= time < end:
            self._put(time - (end - begin) // 2, end - begin)

    @property
    def _extent(self) -> tuple[int, int]:
        timeline = self._timeline
        if timeline is None:
            return 0, _LEAST
        return timeline.first, max(timeline.last, timeline.first + _LEAST)

    @property
    def _shown(self) -> tuple[int, int]:
        return self._window or self._extent

    def action_timeline_enter(self) -> None:
        if self._rebalances:
            self.post_message(self.Entered(self._cursor))

    # ------------------------------------------------------------ the mouse
    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the rebalance nearest to the pointer; a double click chooses it."""
        offset = event.get_content_offset(self)
        if offset is None or not self._rebalances:
            return
        cell = offset.x - self._label
        indexes = range(len(self._rebalances))
        self.select(min(indexes, key=lambda index: abs(self._cell(self._rebalances[index].time) - cell)))
        if event.chain == 2:
            self.action_timeline_enter()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Zoom in with Ctrl, else scroll the members up."""
        if event.ctrl:
            self.action_zoom(1)
        else:
            self.action_scroll_members(-1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Zoom out with Ctrl, else scroll the members down."""
        if event.ctrl:
            self.action_zoom(-1)
        else:
            self.action_scroll_members(1)

    # ------------------------------------------------------------ drawing
    @property
    def _room(self) -> int:
        return max(self.size.height - _FRAME, 1)

    @property
    def _label(self) -> int:
        """Width of the names in cells."""
        members = self._timeline.members if self._timeline else ()
        longest = max((width(fit(_name(member), _LABEL[1]).rstrip()) for member in members), default=0)
        return min(max(longest + 1, _LABEL[0]), _LABEL[1], max(self.size.width // 3, 1))

    @property
    def _cells(self) -> int:
        """Width of the time axis in cells."""
        return max(self.size.width - self._label, 1)

    def _cell(self, time: int) -> int:
        """Return the cell of a time; outside of the range of cells if it is not shown."""
        begin, end = self._shown
        return (time - begin) * self._cells // max(end - begin, 1)

    def render_line(self, y: int) -> Strip:
        """Return the title, the marks, a member, or the axis."""
        room, style = self.size.width, self.rich_style
        if y == 0:
            return Strip([Segment(fit(self._title(), room), self.drawn_style("title"))])
        timeline = self._timeline
        if timeline is None:
            return Strip.blank(room, style)
        lanes = timeline.members[self._top : self._top + self._room]
        if y == 1:
            line = self._marks(timeline)
        elif y - 2 < len(lanes):
            line = self._lane(lanes[y - 2])
        elif y - 2 == len(lanes):
            axis = " " * self._label + time_axis(*self._shown, self._cells, self._zone)
            line = [Segment(fit(axis, room), self.drawn_style("muted"))]
        else:
            line = []
        return Strip(line).crop_extend(0, room, style)

    def _title(self) -> str:
        if self._timeline is None:
            return ""
        begin, end = self._shown
        first, last = self._extent
        shown = span(end - begin) if self._window is None else f"{span(end - begin)} of {span(last - first)}"
        hidden = len(self._timeline.members) - self._room
        more = f"  ·  {words.counted(hidden, 'more member')}" if hidden > 0 else ""
        present = {part.phase for member in self._timeline.members for part in member.spans}
        legend = [f"{sign} {phase}" for phase, sign in _SIGNS.items() if phase in present]
        if any(member.left is not None for member in self._timeline.members):
            legend.append(f"{_LEFT} gone")
        return f" {shown}{more}  ·  {'  '.join(legend)}"

    def _marks(self, timeline: GroupTimeline) -> list[Segment]:
        """Return the line of rebalances, each with its generation if it fits."""
        label = self._label
        segments = [Segment(fit(" rebalance", label), self.drawn_style("muted"))]
        at, chosen = 0, None
        for index, each in enumerate(timeline.rebalances):
            cell = self._cell(each.time)
            current = index == self._cursor
            if not 0 <= cell < self._cells or (cell < at and not current):
                continue
            if cell < at:  # the mark under the cursor is visible even if marks are dense
                chosen = cell
                continue
            text = (_RUNNING if each.running else _MARK) + (
                "" if each.generation < 0 else f"{each.generation}"
            )
            if len(text) > self._cells - cell:
                text = text[0]
            segments.append(Segment(" " * (cell - at), self.rich_style))
            segments.append(Segment(text, self.drawn_style("cursor" if current else "accent")))
            at = cell + len(text)
        strip = Strip(segments).crop_extend(0, label + self._cells, self.rich_style)
        if chosen is None:
            return list(strip)
        mark = Strip([Segment(_MARK, self.drawn_style("cursor"))])
        index = label + chosen
        return list(Strip.join([strip.crop(0, index), mark, strip.crop(index + 1)]))

    def _lane(self, member: GroupMember) -> list[Segment]:
        phases: list[Phase | None] = [None] * self._cells
        for part in member.spans:
            first, last = self._cell(part.begin), self._cell(part.end)
            for cell in range(max(first, 0), min(max(last, first + 1), self._cells)):
                known = phases[cell]
                if known is None or _ORDER[part.phase] > _ORDER[known]:
                    phases[cell] = part.phase
        signs = [" " if phase is None else _SIGNS[phase] for phase in phases]
        styles = [self.rich_style if phase is None else self.drawn_style(_role(phase)) for phase in phases]
        gone = -1 if member.left is None else self._cell(member.left)
        if 0 <= gone < self._cells:
            signs[gone], styles[gone] = _LEFT, self.drawn_style("error")
        for cell in self._chosen_cells():
            styles[cell] = self.drawn_style("cursor")
        label = Segment(f" {fit(_name(member), self._label - 1)}", self.drawn_style("muted"))
        return [label, *(Segment(sign, style) for sign, style in zip(signs, styles, strict=True))]

    def _chosen_cells(self) -> range:
        """Return the cells of the duration of the rebalance under the cursor."""
        if not self._rebalances:
            return range(0)
        current = self._rebalances[self._cursor]
        end = current.end if current.end is not None else self._extent[1] if current.running else current.time
        first, last = self._cell(current.time), self._cell(end)
        return range(min(max(first, 0), self._cells), max(min(last + 1, self._cells), 0))


def _name(member: GroupMember) -> str:
    return member.name or member.member


def _role(phase: Phase) -> str:
    if phase is Phase.STABLE:
        return "success"
    return "error" if phase in (Phase.SILENT, Phase.NOT_JOINING) else "warning"
