"""The main screen: views on the digit keys, bars to type in, and the commands that hold everywhere."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import ContentSwitcher, Footer, Static

from kproxy.tui.commands import Place, bindings
from kproxy.tui.main.asking import Asking
from kproxy.tui.main.command_typing import CommandTyping
from kproxy.tui.main.headline import Headline
from kproxy.tui.main.live_commands import LiveCommands
from kproxy.tui.main.noting import Noting
from kproxy.tui.main.output import Output
from kproxy.tui.main.quick import Quick
from kproxy.tui.main.searches import Searches
from kproxy.tui.main.status_line import StatusLine
from kproxy.tui.safe import plain
from kproxy.tui.session import Session, Status
from kproxy.tui.views.base import View
from kproxy.tui.views.conversation import ConversationView
from kproxy.tui.views.exchanges import Arrangement, Exchanges
from kproxy.tui.widgets.exchange_list import ExchangeList

_TICK = 1 / 15
"""Seconds between two looks at what the session has published."""
_VIEW_TICKS = 8
"""So many of them between two renewals of a view."""
_LOADING_TICKS = 5
"""So many between two looks while a file is read."""
_WIDE = 150
"""Columns from which the panes have room beside each other."""


class MainScreen(Quick, Searches, Noting, Asking, Output, LiveCommands, CommandTyping):
    """Everything of a session.

    :param session: what is looked at
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Place.SCREEN)]

    DEFAULT_CSS = """
    MainScreen {
        & #banner { height: auto; max-height: 3; padding: 0 1; display: none; }
        & #banner { background: $warning 30%; color: $foreground; }
        & #banner.shown { display: block; }
        & #views { height: 1fr; }
    }
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._seen: tuple[int, ...] = ()
        self._view_seen: tuple[Any, ...] = ()
        self._ticks = 0
        self._finished = False
        self._banner_of: tuple[str, ...] = ()

    # ------------------------------------------------------------ what is on it
    def compose(self) -> ComposeResult:
        """Lay out the lines, bars and views."""
        from kproxy.tui.views.all import views

        yield Headline(self.session.title)
        yield from self.compose_filter_bar()
        yield Static(id="banner", markup=False)
        with ContentSwitcher(initial=Exchanges.view_name, id="views"):
            yield Exchanges(self.session, self.kproxy.settings.profile, self.kproxy.link)
            yield from views(self.session, self.kproxy.link)
        yield from self.compose_search_bar()
        yield from self.compose_command_line()
        yield StatusLine()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to look at what is published."""
        self.session.summaries.show_fields(self.exchanges.list.profile.fields)
        self.exchanges.list.following = self.session.live and self.kproxy.settings.config.follow
        self.exchanges.lay_out(Arrangement[self.kproxy.settings.config.layout.upper()])
        self.query_one(Footer).display = self.kproxy.settings.config.footer
        self.exchanges.take_focus()
        self.set_interval(_TICK, self._tick)
        self.begin_to_listen()
        self.call_after_refresh(self.kproxy.settled)

    # ------------------------------------------------------------ renewal
    @property
    def up_to_date(self) -> bool:
        """Whether everything that was published is shown."""
        view = self.view
        shown = isinstance(view, Exchanges) or self._view_seen == (view.view_name, *view.state())
        return self._seen == self._published() and shown

    def _published(self) -> tuple[int, ...]:
        session = self.session
        return session.status.version, session.shown.version, session.summaries.version, id(session.held)

    def _tick(self) -> None:
        self._ticks += 1
        session = self.session
        session.tell_faults()  # those that lines and searches have brought out meanwhile
        status, seen = session.status, self._published()
        # a file is read the sooner the less is drawn meanwhile
        waits = not (session.live or status.finished) and self._ticks % _LOADING_TICKS
        if seen != self._seen and not waits:
            self._seen = seen
            if status.finished and not self._finished:
                self._finished = True
                self.kproxy.settled()
            self._show_status(status)
            if isinstance(self.view, Exchanges):
                self.exchanges.refresh_rows()
        if self._ticks % _VIEW_TICKS == 0:
            self._renew_view()
            if session.live:
                self._show_status(session.status)

    def _renew_view(self) -> None:
        view = self.view
        if isinstance(view, Exchanges):
            return
        seen = (view.view_name, *view.state())
        if seen != self._view_seen:
            self._view_seen = seen
            self._refresh_data(view)

    @work(exclusive=True, group="view")
    async def _refresh_data(self, view: View) -> None:
        await view.renew()

    def _show_status(self, status: Status) -> None:
        self.query_one(Headline).show(status, self.filter_off)
        states: list[str] = []
        loud: list[str] = []
        if self.exchanges.list.following and isinstance(self.view, Exchanges):
            states.append("following")
        if self.session.live and not status.finished:
            states.append(f"{status.rate:,.0f}/s")
            if status.in_flight:
                states.append(f"{status.in_flight:,} in flight")
        if self.session.live or status.dropped:
            (loud if status.dropped else states).append(f"{status.dropped:,} dropped")
        if status.lost:
            loud.append(f"{status.lost:,} bytes lost")
        if status.marked:
            states.append(f"{status.marked:,} marked")
        if status.order is not None:
            states.append(f"by {status.order.column}{' ↓' if status.order.descending else ' ↑'}")
        self.add_live_states(states, loud)
        self.query_one(StatusLine).show(tuple(states), tuple(loud))
        self._show_banner(status)

    def _show_banner(self, status: Status) -> None:
        about = ((status.failure,) if status.failure else ()) + status.faults + status.notes
        if about == self._banner_of:
            return
        self._banner_of = about
        banner = self.query_one("#banner", Static)
        banner.set_class(bool(about), "shown")
        if about:
            more = f" (and {len(about) - 1} more: E shows them)" if len(about) > 1 else ""
            banner.update(plain(f"! {about[0]}{more}"))
            for line in about:
                self.kproxy.note(line, "warning")

    # ------------------------------------------------------------ views
    def show_view(self, name: str) -> None:
        """Show a view."""
        before = self.view
        if self.maximized is not None:
            self.minimize()
        switcher = self.query_one("#views", ContentSwitcher)
        if before.view_name != name:
            before.on_hidden()
            switcher.current = name
            if isinstance(self.view, ConversationView) and not self.exchanges.list.following:
                number = self.number
                if number is not None:
                    self.view.look_at(number)
            self.view.on_shown()
            self._view_seen = ()
        self.view.take_focus()
        if isinstance(self.view, Exchanges):
            self.exchanges.refresh_rows()
        else:
            self._renew_view()

    def action_view_exchanges(self) -> None:
        """Show the list."""
        self.show_view("exchanges")

    def action_view_connections(self) -> None:
        """Show the connections."""
        self.show_view("connections")

    def action_view_clients(self) -> None:
        """Show the clients."""
        self.show_view("clients")

    def action_view_topics(self) -> None:
        """Show the topics."""
        self.show_view("topics")

    def action_view_groups(self) -> None:
        """Show the groups."""
        self.show_view("groups")

    def action_view_latency(self) -> None:
        """Show the latency."""
        self.show_view("latency")

    def action_view_errors(self) -> None:
        """Show the errors."""
        self.show_view("errors")

    def action_view_conversation(self) -> None:
        """Show the conversation."""
        self.show_view("conversation")

    def action_view_faults(self) -> None:
        """Show holds and faults."""
        self.show_view("faults")

    def action_view_findings(self) -> None:
        """Show the findings."""
        self.show_view("findings")

    @on(View.Narrow)
    def _narrow(self, message: View.Narrow) -> None:
        self.add_to_filter(message.filter)
        self.show_view("exchanges")

    @on(View.GoTo)
    def _go_to(self, message: View.GoTo) -> None:
        self.show_view("exchanges")
        self.go_to(message.number)

    @on(ExchangeList.Entered)
    def _enter(self) -> None:
        if self.exchanges.arrangement is Arrangement.LIST:
            self.exchanges.lay_out(Arrangement.STACKED)
        self.exchanges.details.focus_fields()

    # ------------------------------------------------------------ layout
    def action_layout_cycle(self) -> None:
        """Go on to the next arrangement of list, fields and bytes."""
        if not isinstance(self.view, Exchanges):
            self.tell("only the exchanges have panes to arrange")
            return
        arrangements = list(Arrangement)
        at = arrangements.index(self.exchanges.arrangement)
        following = arrangements[(at + 1) % len(arrangements)]
        if following is Arrangement.BESIDE and self.size.width < _WIDE // 2:
            following = Arrangement.LIST
        self.exchanges.lay_out(following)
        self.tell(following.value)

    def action_layout_maximise(self) -> None:
        """Give the whole screen to the focused pane, and back."""
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused)

    def action_footer_toggle(self) -> None:
        """Show or hide the line of keys."""
        footer = self.query_one(Footer)
        footer.display = not footer.display

    # ------------------------------------------------------------ the application
    async def action_app_quit(self) -> None:
        """Leave, after asking where that ends something."""
        self.kproxy.leave()

    def action_app_quit_now(self) -> None:
        """Leave at once."""
        self.kproxy.leave(asking=False)

    def action_app_events(self) -> None:
        """Show what was told so far."""
        self.kproxy.show_events()

    def action_app_theme(self, name: str = "") -> None:
        """Choose the colours."""
        self.kproxy.choose_theme(name)

    def action_help_show(self) -> None:
        """Show keys and the filter language."""
        self.kproxy.show_help()
