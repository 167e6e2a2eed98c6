"""A scrolling sequence diagram: lifelines of clients and brokers, with arrows between them.

Lines and participants are unlimited; only the visible part is drawn. Heads of lifelines and times do not scroll. The
text of an arrow is at its origin, or at the nearest visible part, and is cut to the length of the arrow. All arrows go
between clients on the left and brokers on the right, so the gap between those is the widest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from itertools import zip_longest
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from captures.analysis.conversation import Kind, Outcome, Participant, Step
from captures.filters.regex import TextRegex
from captures.time_format import clock
from dissectors.printable import printable
from kproxy.text.cells import cut, cut_apart, cut_name, fit, width
from kproxy.tui.widgets.cursor_lines import CursorLines
from kproxy.tui.widgets.line_styles import style_classes, style_rules
from kproxy.tui.widgets.sequence_lines import FoldKey, Line, LineKind

_CURSOR = "▌"
_TIME = 12
_LEFT = len(_CURSOR) + 1 + 1 + _TIME + 1
_CLIENTS, _BROKERS, _MIDDLE = (6, 36), (9, 36), (32, 110)
"""Least and most cells between clients, between brokers, and from the last client to the first broker."""
_WIDE_MIDDLE = 50
"""Cells between the last client and the first broker before the other gaps grow."""
_STAGGERED = 18
"""Cells of a gap below which names alternate between two lines, without addresses."""
_TAIL = 16
"""Cells after the last broker, for its name."""
_LIFELINE, _BROKEN = "│", "┊"
_ASKED, _ANSWERED, _CROSSING = "─", "╌", "┼"
_RIGHT_HEAD, _LEFT_HEAD, _NO_HEAD = "▶", "◀", "✗"
_SCROLLED = 8  # cells per key press
_LEAST_TEXT = 12
"""Least visible cells of an arrow for its text to be placed there."""

_SYMBOLS = {
    Outcome.ERROR: "✗ ",
    Outcome.UNANSWERED: "∅ ",
    Outcome.NOT_RECORDED: "? ",
    Outcome.IN_FLIGHT: "… ",
    Outcome.ORPHAN: "← ",
}
_OUTCOME_ROLES = {
    Outcome.ERROR: "error",
    Outcome.UNANSWERED: "warning",
    Outcome.NOT_RECORDED: "warning",
    Outcome.IN_FLIGHT: "muted",
    Outcome.ORPHAN: "warning",
}


_ROLES = ("title", "strong", "plain", "muted", "primary", "success", "warning", "error", "cursor")
_UNSEEN = (Outcome.UNANSWERED, Outcome.NOT_RECORDED)


class SequenceDiagram(CursorLines, can_focus=True, inherit_bindings=False):
    """The diagram, with a cursor on one of its lines. The view that contains it binds the keys.

    :param zone: time zone; None for local time
    :ivar following: whether the cursor stays on the last line as more are added
    """

    HEADER = 3  # a title, names, addresses
    COMPONENT_CLASSES: ClassVar[set[str]] = style_classes(_ROLES)
    DEFAULT_CSS = style_rules("SequenceDiagram", _ROLES)

    @dataclass
    class Entered(Message):
        """A line was chosen.

        :ivar line: the line
        """

        line: Line

    def __init__(self, zone: tzinfo | None, *, empty: str = "Nothing to show.") -> None:
        super().__init__()
        self._zone = zone
        self._empty = empty
        self._title = ""
        self._participants: tuple[Participant, ...] = ()
        self._places: dict[Participant, int] = {}
        self._staggered = False
        self._lifelines = self._broken_lifelines = ""
        self._lines: Sequence[Line] = ()
        self.following = False

    # ------------------------------------------------------------ content
    @property
    def current(self) -> Line | None:
        """The line under the cursor, None if there are none."""
        return self._lines[self.cursor] if self.cursor < len(self._lines) else None

    @property
    def participants(self) -> tuple[Participant, ...]:
        """The participants from left to right."""
        return self._participants

    def show(self, title: str, participants: tuple[Participant, ...], lines: Sequence[Line]) -> None:
        """Show another diagram; the cursor stays on its line if that exists, or on the last if it follows.

        :param title: may contain text from the wire, as may names of participants and texts of lines
        """
        here, on_screen = self.current, self.cursor - self.scroll_offset.y
        self._title, self._lines = title, lines
        self._participants = participants
        self._lay_out()
        if self.following or here is None:
            self.cursor = max(len(lines) - 1, 0) if self.following else 0
            self.show_cursor()
        else:
            self.cursor = self._place(here)
            if 0 <= on_screen < self.page:
                self.scroll_to(y=max(self.cursor - on_screen, 0), animate=False, force=True)
            self.show_cursor()
        self.refresh()

    def _place(self, line: Line) -> int:
        """Return the new index of a line, or of the one nearest in time."""
        identity = line.identity
        for index, other in enumerate(self._lines):
            if other.identity == identity:
                return index
        if line.step is None:
            return min(self.cursor, max(len(self._lines) - 1, 0))
        times = (abs(other.step.time - line.step.time) if other.step else None for other in self._lines)
        near = [(far, index) for index, far in enumerate(times) if far is not None]
        return min(near)[1] if near else 0

    def go_to(self, number: int) -> None:
        """Move the cursor to an exchange, or to its fold, or to the exchange before."""
        best, at = 0, 0
        for index, line in enumerate(self._lines):
            if line.step is not None and best < line.step.number <= number:
                best, at = line.step.number, index
        self.move_to(at)

    def go_to_fold(self, key: FoldKey) -> None:
        """Move the cursor to the first line of a fold."""
        self.move_to(next((index for index, line in enumerate(self._lines) if line.fold == key), self.cursor))

    def search(self, pattern: TextRegex, *, forward: bool) -> bool:
        """Move to the next line that matches; return whether there is one."""
        count, step = len(self._lines), 1 if forward else -1
        for distance in range(1, count + 1):
            index = (self.cursor + step * distance) % count
            if pattern.found(self._lines[index].text):
                self.move_to(index)
                return True
        return False

    # ------------------------------------------------------------ the cursor
    def scroll_sideways(self, steps: int) -> None:
        """Scroll to the right, to the left if negative."""
        self.scroll_to(x=self.scroll_offset.x + steps * _SCROLLED, animate=False, force=True)

    def enter(self) -> None:
        if self.current is not None:
            self.post_message(self.Entered(self.current))

    def move_to(self, line: int) -> None:
        self.put_cursor(line)
        if self.following and self.cursor < len(self._lines) - 1:
            self.following = False
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor; a double click chooses the line."""
        index = self.line_of_click(event)
        if index is not None:
            self.move_to(index)
            if event.chain == 2:
                self.enter()

    # ------------------------------------------------------------ layout
    @property
    def _room(self) -> int:
        return self.scrollable_content_region.width

    @property
    def cursor_lines(self) -> int:
        return len(self._lines)

    def on_resize(self, _: events.Resize) -> None:
        """Place the lifelines for the new width."""
        self._lay_out()
        self.show_cursor()
        self.refresh()

    def _lay_out(self) -> None:
        """Place the lifelines, and draw them without arrows."""
        count = len(self._participants)
        clients = sum(participant.is_client for participant in self._participants)
        # the name of a single broker is to the left of its lifeline
        brokers = count - clients
        tail = _TAIL if brokers > 1 else 0
        room = self._room - _LEFT - 1 - tail
        gap = (room - _WIDE_MIDDLE) // max(count - 2, 1)
        between_clients, between_brokers = _within(gap, _CLIENTS), _within(gap, _BROKERS)
        rest = room - between_clients * (clients - 1) - between_brokers * (brokers - 1)
        at = 0
        self._places = {}
        for index, participant in enumerate(self._participants):
            if index == clients:
                at += _within(rest, _MIDDLE)
            elif index:
                at += between_clients if participant.is_client else between_brokers
            self._places[participant] = at
        self._staggered = count > 2 and gap < _STAGGERED
        self._lifelines = self._drawn_lifelines(_LIFELINE)
        self._broken_lifelines = self._drawn_lifelines(_BROKEN)
        self.virtual_size = Size(_LEFT + at + 1 + tail, self.HEADER + len(self._lines))

    def _drawn_lifelines(self, sign: str) -> str:
        text = ""
        for index in self._places.values():
            text += " " * (index - len(text)) + sign
        return text

    # ------------------------------------------------------------ drawing
    def render_line(self, y: int) -> Strip:
        """Return one line of the widget: title, names, addresses, then lines of the diagram."""
        room, left, style = self._room, self.scroll_offset.x, self.rich_style
        if y == 0:
            title = f" {self._title}{'  ·  following' if self.following else ''}"
            return Strip([Segment(fit(title, room), self.drawn_style("title"))])
        if y < self.HEADER:
            head, role = self._heads(y), "strong" if y == 1 else "muted"
            strip = Strip([Segment(" " * _LEFT, style)])
            return self._scrolled(strip, Strip([Segment(head, self.drawn_style(role))]), left, style)
        index = self.scroll_offset.y + y - self.HEADER
        if index < len(self._lines):
            return self._line(self._lines[index], current=index == self.cursor)
        text = f" {self._empty}" if y == self.HEADER and not self._lines else ""
        return Strip([Segment(fit(text, room), self.drawn_style("muted"))])

    def _scrolled(self, fixed: Strip, moving: Strip, left: int, style: Style) -> Strip:
        """Join a fixed strip with one that scrolls sideways."""
        room = max(self._room - fixed.cell_length, 0)
        return Strip.join([fixed, moving.crop_extend(left, left + room, style)]).crop_extend(
            0, self._room, style
        )

    def _heads(self, y: int) -> str:
        """Return the line of names, or of addresses.

        :param y: 1 or 2
        """
        every = list(self._places.items())
        alone = sum(not participant.is_client for participant in self._participants) == 1
        if self._staggered:
            every = every[y - 1 :: 2]
        text, shown = "", set(self._heads(1).split()) if self._staggered and y > 1 else set[str]()
        for (participant, place), following in zip_longest(every, every[1:]):
            title = printable(participant.name if y == 1 or self._staggered else _about(participant))
            if alone and not participant.is_client:
                # to the left of its lifeline
                room = max(place + 1 - width(text), 0)
                text += fit(cut_name(title, room), room, right=True)
                continue
            end = self.virtual_size.width - _LEFT if following is None else following[1]
            room = end - place
            if alone and following is not None and not following[0].is_client:
                room //= 2
            title = cut_apart(title, max(room - 2, 1), shown)
            shown.add(title)
            text += " " * (place - width(text)) + f"{fit(title, max(room - 2, 1))}  "
        return text

    def _line(self, line: Line, *, current: bool) -> Strip:
        cursor = self.drawn_style("cursor") if current else None
        time = "" if line.time is None else clock(line.time, self._zone)
        fixed = Segment(
            f"{_CURSOR if current else ' '}{line.margin} {time:<{_TIME}} ",
            cursor or self.drawn_style("muted"),
        )
        parts = [(text, cursor or self.drawn_style(role)) for text, role in self._parts(line)]
        moving = Strip([Segment(text, style) for text, style in parts])
        filling = cursor or self.rich_style
        return self._scrolled(Strip([fixed]), moving, self.scroll_offset.x, filling)

    def _parts(self, line: Line) -> list[tuple[str, str]]:
        """Return the texts of a line with their roles, starting at the first lifeline."""
        if line.kind in (LineKind.EARLIER, LineKind.LATER):
            return [(printable(line.text), "warning")]
        if line.kind in (LineKind.SILENCE, LineKind.LOOP):
            silent = line.kind is LineKind.SILENCE
            lifelines, text = (
                self._broken_lifelines if silent else self._lifelines,
                f" {printable(line.text)} ",
            )
            return [
                (lifelines[:1], "muted"),
                (text, "muted"),
                (lifelines[1 + width(text) :], "muted"),
            ]
        assert line.step is not None
        return self._arrow(line, line.step)

    def _arrow(self, line: Line, step: Step) -> list[tuple[str, str]]:
        source, target = self._places[step.client], self._places[step.broker]
        if line.kind is LineKind.RESPONSE or (line.kind is LineKind.EVENT and step.by_broker):
            source, target = target, source
        low, high = min(source, target), max(source, target)
        return [
            (self._lifelines[: low + 1], "muted"),
            (self._arrow_body(line, step, low + 1, high, rightwards=source < target), _role(line, step)),
            (self._lifelines[high:], "muted"),
        ]

    def _arrow_body(self, line: Line, step: Step, low: int, high: int, *, rightwards: bool) -> str:
        """Return the arrow between two lifelines: shaft, text and head.

        :param low: its first cell
        :param high: exclusive end
        """
        answer = line.kind is LineKind.RESPONSE
        shaft = self._shaft(line, step, low, high)
        if not answer or step.outcome is not Outcome.IN_FLIGHT:
            arrives = step.kind is not Kind.RESET and (not answer or step.outcome not in _UNSEEN)
            head = (_RIGHT_HEAD if rightwards else _LEFT_HEAD) if arrives else _NO_HEAD
            shaft = f"{shaft[:-1]}{head}" if rightwards else f"{head}{shaft[1:]}"
        symbol = _SYMBOLS.get(step.outcome, "") if answer else ""
        # the text is in the visible part of the arrow
        left = self.scroll_offset.x
        begin, end = max(low, left) - low, min(high, left + self._room - _LEFT) - low
        if end - begin < _LEAST_TEXT:
            begin, end = 0, high - low
        text = f" {cut(printable(symbol + line.text), max(end - begin - 3, 1))} "
        at = begin if rightwards else end - width(text)
        return f"{shaft[:at]}{text}{shaft[at + width(text) :]}"

    def _shaft(self, line: Line, step: Step, low: int, high: int) -> str:
        if line.kind is LineKind.RESPONSE and step.outcome is Outcome.IN_FLIGHT:
            return self._lifelines[low:high]
        sign = _ANSWERED if line.kind is LineKind.RESPONSE else _ASKED
        return self._lifelines[low:high].replace(" ", sign).replace(_LIFELINE, _CROSSING)


def _within(value: int, bounds: tuple[int, int]) -> int:
    return min(max(value, bounds[0]), bounds[1])


def _about(participant: Participant) -> str:
    kind = "client" if participant.is_client else "broker"
    return kind if participant.name == participant.address else f"{kind} {participant.address}"


def _role(line: Line, step: Step) -> str:
    if line.kind is LineKind.EVENT:
        return "warning" if step.kind is Kind.RESET else "success"
    if line.kind is LineKind.REQUEST:
        return "plain"
    return _OUTCOME_ROLES.get(step.outcome, "primary")
