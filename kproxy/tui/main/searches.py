"""Searching in the list, in the fields and bytes of an exchange, or in another view."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from contextlib import suppress
from typing import TYPE_CHECKING

from kproxy.tui.main.part import Part, work
from kproxy.tui.search import ListSearch, Search, SearchError, parse_search
from kproxy.tui.views.exchanges import Exchanges
from kproxy.tui.widgets.detail_pane import DetailPane
from kproxy.tui.widgets.search_bar import SearchBar

if TYPE_CHECKING:
    from kproxy.tui.main.screen import MainScreen

_TELL_SECONDS = 0.5


class Searches(Part):
    """The main screen's search commands."""

    def __init__(self, screen: MainScreen) -> None:
        super().__init__(screen)
        self._search: Search | None = None
        self._deep = False
        self._found: Hashable = None

    def action_search_start(self, text: str = "") -> None:
        """Open the search bar for the focused place, or search for `text`."""
        if text:
            try:
                self._search = parse_search(text)
            except SearchError as error:
                self.report(str(error))
                return
            self._look(forward=True)
            return
        self.screen.query_one(SearchBar).ask(self._where, deep=self._in_list)

    @property
    def _in_list(self) -> bool:
        return isinstance(self.screen.view, Exchanges) and not self._in_details

    @property
    def _in_details(self) -> bool:
        return self.screen.focused is not None and any(
            isinstance(each, DetailPane) for each in self.screen.focused.ancestors
        )

    @property
    def _where(self) -> str:
        if not isinstance(self.screen.view, Exchanges):
            return self.screen.view.view_name
        if not self._in_details:
            return "list"
        return "bytes" if self.exchanges.details.bytes.has_focus else "fields"

    def search_typed(self, message: SearchBar.Search) -> None:
        self._search, self._deep = message.search, message.deep
        self._look(forward=message.forward)

    def action_search_next(self) -> None:
        self._look(forward=True)

    def action_search_previous(self) -> None:
        self._look(forward=False)

    @work("search", exclusive=True)
    async def _look(self, *, forward: bool) -> None:
        search, screen = self._search, self.screen
        if search is None:
            self.report("no search yet: / starts one")
            return
        before = screen.position
        await self._go_to_match(search, forward=forward)
        found = screen.position.cursors
        if found != before.cursors:
            if before.cursors != self._found:  # escape leads back to the start of a series of matches
                screen.remember(before)
            self._found = found

    async def _go_to_match(self, search: Search, *, forward: bool) -> None:
        if not isinstance(self.screen.view, Exchanges):
            if not self.screen.view.search(search.pattern, forward=forward):
                self.report(f"{search.text} is not in this view")
        elif self._in_details:
            if not await self.exchanges.details.search(search, forward=forward):
                self.report(f"{search.text} is not in this exchange")
        else:
            await self._look_in_list(search, forward=forward)

    async def _look_in_list(self, search: Search, *, forward: bool) -> None:
        shown, number = self.session.shown, self.number
        start = -1 if number is None else shown.index_of(number)
        job = ListSearch(
            search,
            shown,
            -1 if start is None else start,
            forward=forward,
            deep=self._deep,
            slow=self.session.summaries.slow,
        )
        looking = asyncio.ensure_future(self.session.run(job))
        try:
            while not looking.done():
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(looking), _TELL_SECONDS)
                if not looking.done():
                    self.report(f"searching: {job.share:.0%} (escape ends it)")
        except asyncio.CancelledError:
            looking.cancel()
            raise
        found = looking.result()
        if found is None:
            self.report(f"{search.text} is in no exchange of the list")
            return
        self.exchanges.list.go_to(found.number)
        if found.wrapped:
            self.report(f"the search continued from the {'beginning' if forward else 'end'}")

    def cancel(self) -> bool:
        """Cancel a running search; return whether there was one."""
        return bool(self.screen.workers.cancel_group(self.screen, "search"))
