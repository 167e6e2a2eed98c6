"""The list of exchanges: cursor, following, keys and mouse. :mod:`.exchange_view` paints it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import is_
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.reactive import var

from kproxy.session.published import HeldMessage, Summary
from kproxy.tui.columns import as_summary
from kproxy.tui.commands import Scope, bindings
from kproxy.tui.list_position import ListPosition
from kproxy.tui.profiles import DEFAULT, WIDEST, Profile
from kproxy.tui.widgets.exchange_view import ExchangeView

if TYPE_CHECKING:
    from kproxy.session import Session

_SIDEWAYS = 8  # cells per key press
_SAMPLED = 64  # most exchanges whose texts decide the widths of columns


class ExchangeList(ExchangeView, can_focus=True, inherit_bindings=False):
    """The exchanges that a session shows.

    :param session: the session; call :meth:`refresh_rows` after it has published something
    :param profile: the columns
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.LIST)]

    following: var[bool] = var(False, init=False)
    """Whether the cursor stays on the newest exchange, until it is moved away."""

    @dataclass
    class Selected(Message):
        """Another exchange or held message is under the cursor, because one of them has moved.

        :ivar number: of the exchange, None if it is not an exchange
        :ivar held: the held message, None if it is not one
        """

        number: int | None
        held: HeldMessage | None

    class Entered(Selected):
        """The row was chosen, by Enter or a double click."""

    @dataclass
    class SortBy(Message):
        """The title of a column was clicked.

        :ivar order: column of a :class:`~kproxy.session.Order`
        """

        order: str

    @dataclass
    class ProfileChanged(Message):
        """The columns have changed, or the width of one was dragged.

        :ivar profile: the new columns
        :ivar dragged: the column whose width alone has changed, empty if more has
        """

        profile: Profile
        dragged: str = ""

    def __init__(
        self,
        session: Session,
        profile: Profile = DEFAULT,
    ) -> None:
        super().__init__(session, profile)
        self._posted: tuple[int | None, int | None] = (None, None)
        self._is_settling = False
        self._in_sight = True
        self._edge: tuple[str, int] | None = None
        self._dragged = False
        self._measured: list[Summary] = []

    # ------------------------------------------------------------ content
    @property
    def number(self) -> int | None:
        """Number of the exchange under the cursor, None if there is none."""
        return self._position.number

    @property
    def held(self) -> HeldMessage | None:
        """The held message under the cursor, None if there is none."""
        return self._position.held_message

    @property
    def profile(self) -> Profile:
        """The columns."""
        return self._profile

    @profile.setter
    def profile(self, profile: Profile) -> None:
        self._profile = profile
        self._lay_out()
        self.post_message(self.ProfileChanged(profile))

    def refresh_rows(self) -> None:
        """Show what the session has published."""
        session, position, window = self.session, self._position, self._window()
        shown, held = session.shown, session.held
        if shown is not position.shown or held != position.held:
            top = position.take(
                shown,
                held,
                top=window.top,
                height=replace(window, held=len(held)).body,
                ordered=session.status.order is not None,
                following=self.following,
            )
            with self._settling():
                self._measure_numbers()
                self._resize()
                self._scroll(top)
        if self._over_a_day != self._dated:
            self._dated = not self._dated
            self._lay_out()
        self._measure_sample()
        self._post_selection()
        self._want()
        self.refresh()

    def go_to(self, number: int) -> bool:
        """Move the cursor to an exchange; return whether it is in the list."""
        found = self._position.shown.index_of(number)
        if found is None:
            return False
        self.following = False
        self._go(found, middle=True)
        return True

    @property
    def position(self) -> ListPosition | None:
        """The user's place, None if no exchange is under the cursor, or the list follows the newest."""
        number, shown, top = self.number, self._position.shown, self._window().top
        if number is None or self.following:
            return None
        return ListPosition(number, shown.number(min(top, len(shown) - 1)))

    def come_back(self, position: ListPosition) -> None:
        """Restore cursor and scroll position, if the exchange is in the list."""
        shown = self._position.shown
        found = shown.index_of(position.number)
        if found is not None:
            self.following = False
            self._go(found, top=shown.index_of(position.top), middle=True)

    # ------------------------------------------------------------ keys
    def action_move_page(self, pages: int) -> None:
        rows = pages * self._window().body
        self.action_move(rows, scroll=rows)

    def action_scroll_sideways(self, steps: int) -> None:
        self.scroll_to(x=self.scroll_offset.x + steps * _SIDEWAYS, animate=False)

    def action_move_to_first(self) -> None:
        self.action_move(-self._position.rows)

    def action_move_to_last(self) -> None:
        """Move to the last exchange; from there, to the last held message."""
        last = len(self._position.shown) - 1
        self._go(last if self._position.row < last else self._position.rows - 1)

    def action_list_enter(self) -> None:
        if self._position.rows:
            self.post_message(self.Entered(self.number, self.held))

    def action_move(self, rows: int, *, scroll: int = 0) -> None:
        row = self._position.row + rows
        if self.following and row < len(self._position.shown) - 1:
            self.following = False
        self._go(row, top=self.scroll_offset.y + scroll if scroll else None)

    def _go(self, row: int, *, top: int | None = None, middle: bool = False) -> None:
        """Move the cursor to a row and scroll it into sight.

        :param top: the row to scroll to the top, if the cursor is in sight then; None to scroll as little as possible
        :param middle: scroll the cursor to the middle, unless it is in sight
        """
        position, window = self._position, self._window()
        before = position.row
        position.go(row)
        row, held = position.row, position.row - window.exchanges
        if held >= 0:
            self._held_top = min(max(self._held_top, held - window.pinned + 1), held)
        else:
            top = window.top if top is None else top
            if middle and not top <= row < top + window.body:
                top = row - window.body // 2
            with self._settling():
                self._scroll(min(max(top, row - window.body + 1), row))
        if row != before:
            self._refresh_row(before)
            self._refresh_row(row)
        self._post_selection()

    def _post_selection(self) -> None:
        held = self.held
        selected = self.number, None if held is None else held.number
        if selected != self._posted:
            self._posted = selected
            self.post_message(self.Selected(self.number, held))

    def watch_following(self, following: bool) -> None:
        """Move to the newest exchange."""
        if following:
            self._go(len(self._position.shown) - 1)

    # ------------------------------------------------------------ scrolling
    @contextmanager
    def _settling(self) -> Iterator[None]:
        """Mark scrolling inside as the list's own, which does not stop following."""
        before, self._is_settling = self._is_settling, True
        try:
            yield
        finally:
            self._is_settling = before

    def _scroll(self, top: int) -> None:
        self.scroll_to(y=top, animate=False, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Request the visible summaries. Scrolling away from the end stops following."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) == round(new_value):
            return
        if self.following and not self._is_settling and new_value < self.max_scroll_y:
            self.following = False
        self._want()

    def on_resize(self) -> None:
        """Lay out the columns for the new width, and keep the cursor in sight."""
        was_in_sight = self._in_sight
        self._lay_out()
        with self._settling():
            self._resize()
        window = self._window()
        if self.following or (was_in_sight and window.y_of(self._position.row) is None):
            self._go(self._position.row)
        self._want()

    def _want(self) -> None:
        """Request the summaries of visible rows, then those within a page."""
        shown, window = self._position.shown, self._window()
        page = window.body
        first, end = (
            max(window.top - 1, 0),
            window.top + page,
        )  # texts equal to those of the line above are dimmed
        self._in_sight = window.y_of(self._position.row) is not None
        wanted = shown.numbers(first, end)
        wanted += shown.numbers(end, end + page)
        wanted += shown.numbers(max(first - page, 0), first)
        self.session.summaries.want(wanted + self._sample())

    def _sample(self) -> list[int]:
        """Return exchanges spread evenly over the list, the same ones wherever it is scrolled to."""
        shown = self._position.shown
        count = len(shown)
        return [shown.number(index) for index in range(0, count, 1 << (count // _SAMPLED).bit_length())]

    def _measure_sample(self) -> None:
        """Fit the columns to the texts of the sample and of held messages, so that scrolling does not move them."""
        found = [self.session.summaries.get(number) for number in self._sample()]
        sample = [summary for summary in found if summary is not None]
        held = self._position.held
        if held or len(sample) != len(self._measured) or not all(map(is_, sample, self._measured)):
            self._measured = sample
            at = self._clock()
            self._paint().measure([*sample, *(as_summary(each, at.now) for each in held[:_SAMPLED])], at)
            self._lay_out()

    def _measure_numbers(self) -> None:
        """Reserve the width of the largest number, so that the columns do not move while scrolling."""
        status = self.session.status
        longest = self._paint().longest
        taken = len(str(status.first + status.exchanges)) + 1
        if taken > longest.get("number", 0):
            longest["number"] = taken
            self._lay_out()

    # ------------------------------------------------------------ mouse
    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Start dragging the right edge of a column."""
        self._dragged = False
        at = event.get_content_offset(self)
        if at is None or at.y:
            return
        x = at.x + self.scroll_offset.x
        column = self._paint().layout.edge(x)
        if column is not None:
            name = column.column.id
            named = any(each.column == name for each in self._profile.columns)
            self._edge = name if named else "time", x - column.width  # the column day replaces time
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Change the width of the dragged column."""
        if self._edge is None:
            return
        name, begin = self._edge
        self._dragged = True
        width = min(max(event.x + self.scroll_offset.x - begin, 1), WIDEST)
        self._profile = self._profile.with_width(name, width)
        self._lay_out()

    def on_mouse_up(self) -> None:
        """End dragging."""
        if self._edge is None:
            return
        name, self._edge = self._edge[0], None
        self.release_mouse()
        if self._dragged:
            self.post_message(self.ProfileChanged(self._profile, name))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor, or sort by the clicked title."""
        at = event.get_content_offset(self)
        if at is None or self._dragged or self.text_selection is not None:
            return
        if at.y == 0:
            placed = self._paint().layout.at(at.x + self.scroll_offset.x)
            if placed is not None and placed.column.order:
                self.post_message(self.SortBy(placed.column.order))
            return
        row = self._window().row_at(at.y)
        if row is not None:
            self.action_move(row - self._position.row)
            if event.chain == 2:
                self.action_list_enter()
