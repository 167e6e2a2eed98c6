"""Painting the list of exchanges: only the visible lines exist, however many exchanges there are."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Offset, Region, Size
from textual.selection import Selection
from textual.strip import Strip

from dissectors.printable import printable
from dissectors.units import SECOND
from kproxy.session.published import Summary
from kproxy.text.cells import fit
from kproxy.tui.column_layout import Layout, lay_out
from kproxy.tui.columns import Clock, as_summary
from kproxy.tui.list_position import Position, Window
from kproxy.tui.profiles import WIDEST, Profile
from kproxy.tui.row_colors import COLORS
from kproxy.tui.states import ROLES
from kproxy.tui.widgets.exchange_lines import MARGIN, LinePainter, LineStyles
from kproxy.tui.widgets.line_styles import style_class, style_classes, style_rules
from kproxy.tui.widgets.selectable import SelectableLines

if TYPE_CHECKING:
    from kproxy.session import Session

_TICK = 0.2  # seconds between two updates of running times
_DAY = 86_400 * SECOND
_STYLES = ("title", "sorted", "cursor", "repeated", "accent", *ROLES, *COLORS)


class ExchangeView(SelectableLines, inherit_bindings=False):
    """The shown exchanges of a session, one per line, below a line of titles and above the held messages.

    :param session: the session
    :param profile: the columns
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = style_classes(_STYLES)
    DEFAULT_CSS = (
        style_rules("ExchangeView", _STYLES)
        + """
    ExchangeView {
        &:nocolor > .drawn--error { text-style: bold; }
        &:ansi > .drawn--repeated { text-style: dim; }
        &:ansi > .drawn--muted { text-style: dim; }
        &:ansi > .drawn--sorted { background: ansi_default; text-style: bold underline reverse; }
    }
    """
    )

    def __init__(
        self,
        session: Session,
        profile: Profile,
    ) -> None:
        super().__init__()
        self.session = session
        self._profile = profile
        self._position = Position()
        self._held_top = 0
        self._painter: LinePainter | None = None
        self._header: tuple[tuple[str, bool], Strip] | None = None
        self._ticking: set[int] = set()
        self._latest = self._latest_came = 0
        self._dated = False

    def on_mount(self) -> None:
        """Start updating running times, if traffic is live."""
        if self.session.live:
            self.set_interval(_TICK, self._tick)

    def _tick(self) -> None:
        """Repaint the lines with running times."""
        lines, self._ticking = self._ticking, set()
        width, height = self.size
        if lines:
            self.refresh(*(Region(0, y, width, 1) for y in lines if y < height))

    # ------------------------------------------------------------ sizes and places
    @property
    def _room(self) -> Size:
        """Size without the scroll bars."""
        size, taken = self.size, self.scrollbar_gutter
        return Size(size.width - taken.right, size.height - taken.bottom)

    def _window(self) -> Window:
        (width, height), (left, top), position = self._room, self.scroll_offset, self._position
        return Window(width, height, left, top, len(position.shown), len(position.held), self._held_top)

    def _resize(self) -> None:
        """Update the virtual size."""
        window = self._window()
        size = Size(self._paint().layout.width, 1 + window.exchanges + window.pinned)
        if size != self.virtual_size:
            # instead of a layout of the whole screen, because the list may grow fifteen times a second
            self.set_reactive(ExchangeView.virtual_size, size)
            self._scroll_update(size)
        self._held_top = max(min(self._held_top, window.held - window.pinned), 0)

    def _refresh_row(self, row: int) -> None:
        y = self._window().y_of(row)
        if y is not None:
            self.refresh(Region(0, y, self.size.width, 1))

    # ------------------------------------------------------------ columns
    def _layout(self, longest: dict[str, int]) -> Layout:
        profile = self._profile.dated() if self._over_a_day else self._profile
        return lay_out(profile, self._room.width, longest, margin=MARGIN)

    @property
    def _over_a_day(self) -> bool:
        """Whether times of day are ambiguous."""
        status = self.session.status
        return bool(status.begin) and status.latest - status.begin >= _DAY

    def _lay_out(self) -> None:
        """Recompute the places of the columns."""
        painter, width = self._paint(), self._room.width
        painter.outgrown = False
        layout = self._layout(painter.longest)
        if layout == painter.layout and width == painter.room:
            return
        painter.layout, painter.room = layout, width
        painter.forget()
        self._header = None
        self._resize()
        self.refresh()

    # ------------------------------------------------------------ painting
    def notify_style_update(self) -> None:
        """Discard lines painted in other colours."""
        super().notify_style_update()
        if self._painter is not None:
            self._painter.styles = self._styles()
            self._painter.forget()
            self._header = None

    def watch_has_focus(self, _has_focus: bool) -> None:
        """Repaint, because the cursor's colours differ."""
        super().watch_has_focus(_has_focus)
        self.call_after_refresh(self._paint_anew)

    def _paint_anew(self) -> None:
        self.notify_style_update()
        self.refresh()

    def _styles(self) -> LineStyles:
        def style(role: str) -> Style:
            return self.get_component_rich_style(style_class(role))

        return LineStyles(
            plain=self.rich_style,
            repeated=style("repeated"),
            roles={role: style(role) for role in ROLES},
            rows={color: style(color) for color in COLORS},
            accent=style("accent"),
            cursor=style("cursor"),
            header=style("title"),
            sorted_header=style("sorted"),
        )

    def _paint(self) -> LinePainter:
        if self._painter is None:
            self._painter = LinePainter(self._styles(), self._layout({}), self._room.width)
        return self._painter

    def _clock(self) -> Clock:
        """Return the references for showing times.

        The clock of live traffic, possibly that of another machine, continues from the latest packet.
        """
        session, now = self.session, self.session.status.latest
        if session.live:
            if now != self._latest:
                self._latest, self._latest_came = now, monotonic_ns()
            now += monotonic_ns() - self._latest_came
        return Clock(session.zone, session.status.begin, now)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines of a region.

        They have no border or padding, so moved lines need not be rebuilt: an unchanged line is the same object
        wherever it is drawn, together with what Textual has cached in it.
        """
        filters, background = self.get_line_filters(), self.background_colors[1]
        window, at, strips = self._window(), self._clock(), []
        missing = self.size.width - window.width if not self.show_vertical_scrollbar else 0
        for y in crop.line_range:
            strip = self._line(y, window, at)
            if missing:
                strip = strip.extend_cell_length(self.size.width, self._paint().styles.plain)
            for each in filters:
                strip = strip.apply_filter(each, background)
            strips.append(strip)
        if self._paint().outgrown:
            self.call_later(self._lay_out)
        if crop.column_span != (0, self.size.width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        """Return a line with the text offsets that mouse selection needs."""
        window, at = self._window(), self._clock()
        strip, row = self._line(y, window, at), window.row_at(y)
        if row is None:
            return strip
        return strip.apply_offsets(
            len(self._row(row, at).crop(0, window.left).text) if window.left else 0, row
        )

    def _line(self, y: int, window: Window, at: Clock) -> Strip:
        """Return a line of the screen."""
        painter, row = self._paint(), window.row_at(y)
        left, right = window.left, window.left + window.width
        if y == 0:
            return self._header_line(painter).crop_extend(left, right, painter.styles.header)
        if row is None:
            nothing = self._nothing() if y == 1 and not window.exchanges else ""
            return Strip([Segment(fit(nothing, window.width), painter.styles.repeated)], window.width)
        strip = self._row(row, at, y)
        span = None if self.text_selection is None else self.text_selection.get_span(row)
        if span is not None:
            strip = self.highlighted(strip, *span)
        return strip.crop_extend(
            left, right, painter.styles.cursor if row == self._position.row else painter.styles.plain
        )

    def _row(self, row: int, at: Clock, y: int | None = None) -> Strip:
        """Return the whole line of an exchange or a held message.

        :param y: its screen line, to be repainted if it shows a running time
        """
        position, painter = self._position, self._paint()
        selected = row == position.row
        held = row - len(position.shown)
        if held >= 0:
            if self.session.live:  # this machine's clock applies to held messages
                at = replace(at, now=time_ns())
            summary = as_summary(position.held[held], at.now)
            above = as_summary(position.held[held - 1], at.now) if held else None
        else:
            found = self._summary(row)
            if found is None:
                return painter.unknown(position.shown.number(row), selected=selected)
            summary, above = found, self._summary(row - 1)
        if summary.running_since is not None and y is not None:
            self._ticking.add(y)
        return painter.line(summary, above, at, selected=selected)

    def _summary(self, row: int) -> Summary | None:
        return self.session.summaries.get(self._position.shown.number(row)) if row >= 0 else None

    def _header_line(self, painter: LinePainter) -> Strip:
        order = self.session.status.order
        key = ("", False) if order is None else (order.column, order.descending)
        if self._header is None or self._header[0] != key:
            self._header = key, painter.header(key[0], descending=key[1])
        return self._header[1]

    def _nothing(self) -> str:
        status = self.session.status
        if status.shown:
            return ""
        wanted = "" if status.filter is None else f" the filter {printable(status.filter.text)}"
        if status.filtering is not None:
            return f"   nothing so far matches{wanted}: {status.filtering:.0%} searched"
        if status.exchanges and status.marked_only:
            return "   no marked exchange matches the filter"
        if status.exchanges and status.filter is not None:
            return f"   nothing matches{wanted}"
        if status.finished:
            return "   no exchanges"
        return (
            "   no exchanges yet" if self.session.live else "   no exchanges so far: the file is being read"
        )

    # ------------------------------------------------------------ selecting text
    def line_count(self) -> int:
        return self._position.rows

    def line_text(self, y: int) -> str:
        return self._row(y, self._clock()).text

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, as far as its summaries exist; without an end, of visible lines."""
        window = self._window()
        start = selection.start or Offset(0, window.top)
        end = selection.end or Offset(WIDEST, window.top + window.body - 1)
        found = super().get_selection(Selection(start, end))
        return found if found is not None and found[0] else None
