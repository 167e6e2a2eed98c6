"""What the list shows, in which order, and where in it something is: filters, search, order, columns."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from textual import on, work
from textual.app import ComposeResult

from captures.filters import Filter, FilterError, compile_filter
from kproxy.tui.columns import COLUMNS
from kproxy.tui.dialogs.ask import Prompt
from kproxy.tui.dialogs.columns import ColumnsDialog
from kproxy.tui.dialogs.order import OrderDialog
from kproxy.tui.main.base import MainScreenBase
from kproxy.tui.profiles import Profile
from kproxy.tui.quick_filters import Use, combined
from kproxy.tui.session import Order
from kproxy.tui.settings import SettingsError
from kproxy.tui.widgets.exchange_list import ExchangeList
from kproxy.tui.widgets.field_tree import FieldTree
from kproxy.tui.widgets.filter_bar import FilterBar


class Narrowing(MainScreenBase):
    """The commands of the main screen about what is shown."""

    filter_off = ""
    """The text of a filter that was switched off."""

    def compose_filter_bar(self) -> ComposeResult:
        """Lay out the bar in which filters are typed."""
        yield FilterBar(
            self.session.known,
            self.kproxy.settings.filters,
            check=lambda text: compile_filter(text, self.session.zone),
            id="filter",
        )

    # ------------------------------------------------------------ filter
    @property
    def filter_text(self) -> str:
        """The filter that holds, empty for none."""
        wanted = self.session.status.filter
        return "" if wanted is None else wanted.text

    def action_filter_edit(self, text: str = "") -> None:
        """Type a filter, or take one from the command line."""
        if text:
            self.use_filter(text)
        else:
            self.query_one("#filter", FilterBar).open(self.filter_text or self.filter_off)

    @on(FilterBar.Applied, "#filter")
    def _typed(self, message: FilterBar.Applied) -> None:
        self.set_filter(message.filter)
        self.view.take_focus()

    def use_filter(self, text: str) -> None:
        """Show what fits a filter."""
        try:
            wanted = compile_filter(text, self.session.zone) if text.strip() else None
        except FilterError as error:
            self.tell(f"the filter is not understood: {error}")
            return
        self.set_filter(wanted)

    def add_to_filter(self, text: str) -> None:
        """Show what fits a filter too, of what is shown."""
        self.use_filter(combined(self.filter_text, text, Use.ONLY))

    @work(group="filter", exclusive=True)
    async def set_filter(self, wanted: Filter | None) -> None:
        """Show what fits; everything if None."""
        self.filter_off = ""
        await self.session.set_filter(wanted)

    def action_filter_clear(self) -> None:
        """Show everything."""
        self.set_filter(None)

    @work(group="filter", exclusive=True)
    async def action_filter_toggle(self) -> None:
        """Switch the filter off, and on again."""
        wanted = self.session.status.filter
        if wanted is not None:
            self.filter_off = wanted.text
            await self.session.set_filter(None)
        elif self.filter_off:
            text, self.filter_off = self.filter_off, ""
            await self.session.set_filter(compile_filter(text, self.session.zone))
        else:
            self.tell("there is no filter: f types one")

    @work(group="settings")
    async def action_filter_save(self, name: str = "") -> None:
        """Keep the filter under a name."""
        settings, text = self.kproxy.settings, self.filter_text
        if not text:
            self.tell("there is no filter to keep: f types one")
            return
        if not name:
            answer = await self.app.push_screen_wait(
                Prompt(
                    f"Keep this filter under a name:\n{text}", validate=settings.filter_problem, title="keep"
                )
            )
            if not answer:
                return
            name = answer
        try:
            await asyncio.to_thread(settings.keep_filter, name, text)
        except SettingsError as error:
            self.tell(str(error))
            return
        self.query_one("#filter", FilterBar).saved = settings.filters
        self.tell(f"kept: @{name} offers it when a filter is typed")

    # ------------------------------------------------------------ order and columns
    @work(group="order", exclusive=True)
    async def set_order(self, order: Order | None) -> None:
        """Order the list; by number if None."""
        try:
            await self.session.set_order(order)
        except (FilterError, LookupError) as error:
            self.tell(f"the list cannot be ordered by that: {error}")

    @on(ExchangeList.SortBy)
    def _sort(self, message: ExchangeList.SortBy) -> None:
        now = self.session.status.order
        if now is None or now.column != message.order:
            self.set_order(Order(message.order))
        else:
            self.set_order(None if now.descending else Order(message.order, True))

    def action_order_reverse(self) -> None:
        """Turn the order round."""
        now = self.session.status.order or Order("number")
        turned = Order(now.column, not now.descending)
        self.set_order(None if turned == Order("number") else turned)

    @work(group="order", exclusive=True)
    async def action_order_choose(self, column: str = "") -> None:
        """Order the list by a column."""
        if column:
            known = COLUMNS.get(column)
            if known is not None and not known.order:
                self.tell(f"the list cannot be ordered by {column}")
            else:
                self.set_order(Order(column if known is None else known.order))
            return
        chosen = await self.app.push_screen_wait(
            OrderDialog(self.exchanges.list.profile, self.session.status.order)
        )
        if chosen is not None:
            self.set_order(None if chosen == Order("number") else chosen)

    @work(group="columns", exclusive=True)
    async def action_columns_edit(self) -> None:
        """Choose the columns."""
        settings = self.kproxy.settings
        chosen = await self.app.push_screen_wait(
            ColumnsDialog(self.exchanges.list.profile, settings.profiles, settings.profile_problem)
        )
        if chosen is None:
            return
        self.use_profile(chosen)
        if chosen.name and settings.profiles.get(chosen.name) != chosen:
            try:
                await asyncio.to_thread(settings.keep_profile, chosen)
            except SettingsError as error:
                self.tell(str(error))

    def use_profile(self, profile: Profile) -> None:
        """Show other columns."""
        self.exchanges.list.profile = profile

    @on(ExchangeList.ProfileChanged)
    def _fields_of_profile(self, message: ExchangeList.ProfileChanged) -> None:
        self.session.summaries.show_fields(message.profile.fields)
        self.exchanges.refresh_rows()

    @work(group="settings")
    async def action_columns_profile(self, name: str = "") -> None:
        """Use columns that were kept under a name; keep the present ones if there are none."""
        settings = self.kproxy.settings
        if not name:
            self.action_columns_edit()
            return
        known = settings.profiles.get(name)
        try:
            if known is not None:
                self.use_profile(known)
                await asyncio.to_thread(settings.use_profile, name)
            else:
                kept = replace(self.exchanges.list.profile, name=name)
                await asyncio.to_thread(settings.keep_profile, kept)
                self.tell(f"these columns are kept as {name}")
        except SettingsError as error:
            self.tell(str(error))

    @on(FieldTree.AddColumn)
    def _add_column(self, message: FieldTree.AddColumn) -> None:
        self.use_profile(self.exchanges.list.profile.with_column(message.field))
        self.tell(f"{message.field} is a column of the list; C chooses columns")

    @on(FieldTree.StepExchange)
    def _step(self, message: FieldTree.StepExchange) -> None:
        move = (
            self.exchanges.list.action_list_down if message.step > 0 else self.exchanges.list.action_list_up
        )
        move()

    # ------------------------------------------------------------ places in the list
    def go_to(self, number: int) -> None:
        """Go to an exchange in the list; where it is not shown, to where it would be."""
        if not self.exchanges.list.go_to(number):
            self.tell(f"exchange {number:,} is not shown")

    @work(group="goto", exclusive=True)
    async def action_goto_number(self, text: str = "") -> None:
        """Go to an exchange by its number."""
        if not text:
            answer = await self.app.push_screen_wait(
                Prompt("Go to the exchange with this number.", validate=_no_number, title="go to")
            )
            if not answer:
                return
            text = answer
        self.show_view("exchanges")
        self.go_to(int(text.replace(",", "").replace("_", "")))

    def action_follow_toggle(self) -> None:
        """Stay with the newest exchange, or not."""
        self.exchanges.list.following = not self.exchanges.list.following


def _no_number(text: str) -> str:
    digits = text.strip().replace(",", "").replace("_", "")
    return "" if digits.isascii() and digits.isdigit() else "a number, such as 17 or 120,412"
