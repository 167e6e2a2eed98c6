"""Commands on the list: filters, order, columns, and places in it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from captures.filters import Context, Filter, FilterError
from kproxy.proxy.rules.parser import with_saved_filters
from kproxy.session import Access, Order, Priority
from kproxy.session.summaries import no_color
from kproxy.tui.columns import COLUMNS, compile_typed
from kproxy.tui.dialogs.ask import Prompt
from kproxy.tui.dialogs.columns import ColumnsDialog
from kproxy.tui.dialogs.order import OrderDialog
from kproxy.tui.dialogs.quick_filter import QuickFilterDialog
from kproxy.tui.main.part import Part, work
from kproxy.tui.quick_filters import QuickFilter, Use, combined, of_exchange, of_field
from kproxy.tui.settings import SettingsError
from kproxy.tui.widgets.command_line import number_of
from kproxy.tui.widgets.exchange_list import ExchangeList
from kproxy.tui.widgets.field_tree import FieldTree
from kproxy.tui.widgets.filter_bar import FilterBar

if TYPE_CHECKING:
    from kproxy.tui.main.screen import MainScreen
    from kproxy.tui.main.view_line import ViewState

_LOOK, _LOOKS = 0.05, 40
"""Seconds between checks whether a view has finished counting, and the number of checks before giving up."""


class ListCommands(Part):
    """Commands on the content of the list.

    :ivar filter_off: text of the filter that is switched off
    """

    def __init__(self, screen: MainScreen) -> None:
        super().__init__(screen)
        self.filter_off = ""

    def filter_bar(self) -> FilterBar:
        return FilterBar(
            self.session.known,
            self.kproxy.settings.filters,
            check=lambda text: compile_typed(text, self.session.zone),
        )

    # ------------------------------------------------------------ filter
    @property
    def filter_text(self) -> str:
        """Text of the current filter, empty for none."""
        wanted = self.session.status.filter
        return "" if wanted is None else wanted.text

    def action_filter_edit(self, text: str = "") -> None:
        """Open the filter bar, or apply the filter `text`."""
        if text:
            self.use_filter(text)
        else:
            self.screen.query_one(FilterBar).open(self.filter_text or self.filter_off)

    def filter_typed(self, message: FilterBar.Applied) -> None:
        self._choose(message.filter)
        self.screen.view.take_focus()

    def use_filter(self, text: str) -> None:
        """Apply a filter, after replacing names of saved filters."""
        try:
            text = with_saved_filters(text, self.kproxy.settings.filters)
            wanted = compile_typed(text, self.session.zone) if text.strip() else None
        except FilterError as error:
            self.report(f"invalid filter: {error}")
            return
        self._choose(wanted)

    def add_to_filter(self, text: str) -> None:
        """Require `text` in addition to the current filter."""
        self.use_filter(combined(self.filter_text, text, Use.ONLY))

    def _choose(self, wanted: Filter | None) -> None:
        """Apply a filter; escape leads back to the previous one."""
        if self.filter_text != ("" if wanted is None else wanted.text):
            self.screen.remember()
        self.set_filter(wanted)

    @work("filter", exclusive=True)
    async def set_filter(self, wanted: Filter | None, off: str = "") -> None:
        """Apply a filter; None shows everything.

        :param off: filter that can be switched on again
        """
        self.filter_off = off
        await self.session.set_filter(wanted)

    def action_rows_colors(self) -> None:
        """Switch the colours of list rows on or off."""
        plain = self.session.summaries.color is no_color
        self.kproxy.color_rows(on=plain)
        self.exchanges.list.refresh_rows()
        self.report(f"lines are {'coloured by rules' if plain else 'plain'}")

    def action_filter_clear(self) -> None:
        self._choose(None)

    @work("filter", exclusive=True)
    async def restore(self, visit: ViewState) -> None:
        """Return to a visit, with its filter, cursors and scroll positions."""
        if visit.filter is not self.session.status.filter:
            self.filter_off = ""
            await self.session.set_filter(visit.filter)
            self.exchanges.list.refresh_rows()
        if visit.position is not None:
            self.exchanges.list.come_back(visit.position)
        view = self.screen.view
        if visit.tables and view.view_name == visit.view:
            looks = _LOOKS
            while view.counting is not None and looks:  # rows appear while they are counted
                looks -= 1
                await asyncio.sleep(_LOOK)
            await view.renew()
            for position in visit.tables:
                position.table.come_back(position)

    def stop_filtering(self) -> bool:
        """Cancel a running filter; return whether there was one. It can be switched on again."""
        status = self.session.status
        if status.filtering is not None and status.filter is not None:
            self.set_filter(None, status.filter.text)
            self.report("filter cancelled: t starts it again")
            return True
        return False

    @work("filter", exclusive=True)
    async def action_filter_toggle(self) -> None:
        """Switch the filter off, or on again."""
        wanted = self.session.status.filter
        if wanted is not None:
            self.filter_off = wanted.text
            await self.session.set_filter(None)
        elif self.filter_off:
            text, self.filter_off = self.filter_off, ""
            await self.session.set_filter(compile_typed(text, self.session.zone))
        else:
            self.report("no filter: press f to type one")

    @work("settings", asks=True)
    async def action_filter_save(self, name: str = "") -> None:
        settings, text = self.kproxy.settings, self.filter_text
        if not text:
            self.report("no filter to save: press f to type one")
            return
        if not name:
            answer = await self.screen.app.push_screen_wait(
                Prompt(
                    f"Save this filter under a name:\n{text}", validate=settings.filter_problem, title="keep"
                )
            )
            if not answer:
                return
            name = answer
        try:
            await asyncio.to_thread(settings.keep_filter, name, text)
        except SettingsError as error:
            self.report(str(error))
            return
        self.screen.query_one(FilterBar).saved = settings.filters
        self.report(f"saved as @{name}, for the UI and for commands")

    @work("filter", exclusive=True, asks=True)
    async def action_filter_quick(self) -> None:
        """Offer filters made from the selected field or exchange."""
        number = self.number
        if number is None:
            self.report("no exchange to make a filter from")
            return
        details = self.exchanges.details
        focused = self.screen.focused
        in_fields = focused is not None and details in focused.ancestors
        field = details.selected_field if in_fields else None

        def make(access: Access) -> list[QuickFilter]:
            exchange = access.exchange(number)
            context = Context(access.reader.knowledge.topic_name)
            if field is not None:
                return list(of_field(field.path, field.value, exchange, context))
            return list(of_exchange(exchange, context))

        try:
            offers = await self.session.run(make, Priority.LOOK)
        except LookupError as error:
            self.report(str(error))
            return
        present = self.filter_text
        chosen = await self.screen.app.push_screen_wait(QuickFilterDialog(offers, present))
        if chosen is not None:
            offer, use = chosen
            self.use_filter(combined(present, offer.text, use))

    # ------------------------------------------------------------ order and columns
    @work("order", exclusive=True)
    async def set_order(self, order: Order | None) -> None:
        """Sort the list; by number if None."""
        try:
            await self.session.set_order(order)
        except (FilterError, LookupError) as error:
            self.report(f"the list cannot be sorted: {error}")

    def sort(self, message: ExchangeList.SortBy) -> None:
        """Sort by a column, then descending, then by number again."""
        now = self.session.status.order
        if now is None or now.column != message.order:
            self.set_order(Order(message.order))
        else:
            self.set_order(None if now.descending else Order(message.order, True))

    def action_order_reverse(self) -> None:
        now = self.session.status.order or Order("number")
        turned = Order(now.column, not now.descending)
        self.set_order(None if turned == Order("number") else turned)

    @work("order", exclusive=True, asks=True)
    async def action_order_choose(self, column: str = "") -> None:
        """Sort the list by a column; if empty, ask for one."""
        if column:
            known = COLUMNS.get(column)
            if known is not None and not known.order:
                self.report(f"the list cannot be sorted by {column}")
            else:
                self.set_order(Order(column if known is None else known.order))
            return
        chosen = await self.screen.app.push_screen_wait(
            OrderDialog(self.exchanges.list.profile, self.session.status.order)
        )
        if chosen is not None:
            self.set_order(None if chosen == Order("number") else chosen)

    @work("columns", exclusive=True, asks=True)
    async def action_columns_edit(self) -> None:
        settings = self.kproxy.settings
        chosen = await self.screen.app.push_screen_wait(
            ColumnsDialog(self.exchanges.list.profile, settings.profiles, settings.profile_problem)
        )
        if chosen is None:
            return
        self.exchanges.list.profile = chosen
        if chosen.name and settings.profiles.get(chosen.name) != chosen:
            try:
                await asyncio.to_thread(settings.keep_profile, chosen)
            except SettingsError as error:
                self.report(str(error))

    def profile_changed(self, message: ExchangeList.ProfileChanged) -> None:
        """Request the fields of the new columns; save a width that was dragged."""
        self.session.summaries.show_fields(message.profile.fields)
        self.exchanges.list.refresh_rows()
        for each in message.profile.columns:
            if each.column == message.dragged and each.width is not None:
                self._keep_width(each.column, each.width)

    @work("settings")
    async def _keep_width(self, name: str, width: int) -> None:
        try:
            await asyncio.to_thread(self.kproxy.settings.keep_width, name, width)
        except SettingsError as error:
            self.report(str(error))

    @work("settings", asks=True)
    async def action_columns_profile(self, name: str = "") -> None:
        """Use the columns saved under a name; save the current ones if there are none."""
        settings = self.kproxy.settings
        if not name:
            self.action_columns_edit()
            return
        known = settings.profiles.get(name)
        try:
            if known is not None:
                self.exchanges.list.profile = known
                await asyncio.to_thread(settings.use_profile, name)
            else:
                kept = replace(self.exchanges.list.profile, name=name)
                await asyncio.to_thread(settings.keep_profile, kept)
                self.report(f"columns saved as {name}")
        except SettingsError as error:
            self.report(str(error))

    def add_column(self, message: FieldTree.AddColumn) -> None:
        self.exchanges.list.profile = self.exchanges.list.profile.with_column(message.field)
        self.report(f"{message.field} is now a column of the list; C edits columns")

    def step(self, message: FieldTree.StepExchange) -> None:
        self.exchanges.list.action_move(message.step)

    # ------------------------------------------------------------ places in the list
    @work("goto", exclusive=True, asks=True)
    async def action_goto_number(self, text: str = "") -> None:
        if not text:
            answer = await self.screen.app.push_screen_wait(
                Prompt(
                    "Go to the exchange with this number.",
                    validate=_problem_of_number,
                    title="go to",
                )
            )
            if not answer:
                return
            text = answer
        self.screen.go_to(number_of(text))

    def action_follow_toggle(self) -> None:
        """Start or stop following the newest exchange."""
        self.exchanges.list.following = not self.exchanges.list.following


def _problem_of_number(text: str) -> str:
    return "" if number_of(text) else "a number, such as 17 or 120,412"
