"""The exchanges: the list, and the fields and bytes of the exchange under the cursor."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from enum import Enum

from textual import on, work
from textual.app import ComposeResult

from kproxy.session import Access, HeldMessage, Priority, Session
from kproxy.tui.detail import Detail, detail_of
from kproxy.tui.detail.overview import overview
from kproxy.tui.live.held import held_detail
from kproxy.tui.live.link import Link, LinkError
from kproxy.tui.profiles import Profile
from kproxy.tui.views.base import View
from kproxy.tui.widgets.detail_pane import DetailPane
from kproxy.tui.widgets.exchange_list import ExchangeList


class Arrangement(Enum):
    """The arrangement of list and details."""

    STACKED = "details below"
    BESIDE = "details beside"
    LIST = "the list alone"


_SETTLE_SECONDS = 0.04
"""Seconds that the cursor has to rest on an exchange before its details are made."""


class Exchanges(View):
    """The list with the details.

    :param profile: the columns of the list
    :param link: to the proxy that holds messages
    """

    DEFAULT_CSS = """
    Exchanges {
        & > ExchangeList { height: 2fr; min-height: 5; }
        & > DetailPane { height: 3fr; }
        &.beside { layout: horizontal; }
        &.beside > ExchangeList { width: 1fr; height: 1fr; }
        &.beside > DetailPane { width: 1fr; height: 1fr; border-left: solid $panel; }
        &.list > DetailPane { display: none; }
    }
    """

    view_name = "exchanges"

    def __init__(self, session: Session, profile: Profile, link: Link | None = None) -> None:
        super().__init__(session)
        self._profile = profile
        self._link = link
        self.arrangement = Arrangement.STACKED
        self._shown: tuple[object, int] | None = None

    def compose(self) -> ComposeResult:
        yield ExchangeList(self.session, self._profile)
        yield DetailPane()

    @property
    def list(self) -> ExchangeList:
        """The list."""
        return self.query_one(ExchangeList)

    @property
    def details(self) -> DetailPane:
        """The details."""
        return self.query_one(DetailPane)

    def take_focus(self) -> None:
        self.list.focus()

    def lay_out(self, arrangement: Arrangement) -> None:
        """Change the arrangement."""
        self.arrangement = arrangement
        self.set_class(arrangement is Arrangement.BESIDE, "beside")
        self.set_class(arrangement is Arrangement.LIST, "list")
        if arrangement is Arrangement.LIST:
            self.list.focus()
        else:
            self._renew()

    def outdate_details(self) -> None:
        """Rebuild the details, because the exchange has changed."""
        self._shown = None
        self._renew()

    @on(ExchangeList.Selected)
    def _renew(self) -> None:
        if self.arrangement is not Arrangement.LIST:
            self._show_details(self.list.number, self.list.held)

    @work(exclusive=True, group="details")
    async def _show_details(self, number: int | None, held: HeldMessage | None) -> None:
        await asyncio.sleep(_SETTLE_SECONDS)
        # a changed exchange gets a new summary object
        shown = (held, 0) if number is None else (number, id(self.session.summaries.get(number)))
        if shown == self._shown:
            return
        detail = None
        if number is not None:
            detail = await self.session.run(
                lambda access: _detail(number, access, self.session), Priority.LOOK
            )
        elif held is not None and self._link is not None:
            with suppress(LinkError):  # it was released meanwhile
                detail = await held_detail(self._link, held, show_secrets=self.session.show_secrets)
        self._shown = shown
        self.details.show(detail)


def _detail(number: int, access: Access, session: Session) -> Detail | None:
    try:
        exchange = access.exchange(number)
    except LookupError:  # it was dropped meanwhile
        return None
    try:
        detail = detail_of(exchange, access.capture, show_secrets=session.show_secrets)
        return replace(detail, about=overview(exchange, access))
    except Exception as error:
        session.contain(error, "showing it", number)
        return None
