"""The main screen: views on the digit keys, input bars, and the commands that are available everywhere."""

from __future__ import annotations

from asyncio import Lock
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Static

from kproxy.session import Session, Status
from kproxy.tui.commands import COMMANDS, Scope, bindings
from kproxy.tui.main.app_commands import AppCommands
from kproxy.tui.main.command_entry import CommandEntry
from kproxy.tui.main.exchange_commands import ExchangeCommands
from kproxy.tui.main.lines import Headline, KeyLine, StatusLine
from kproxy.tui.main.list_commands import ListCommands
from kproxy.tui.main.live_commands import LiveCommands
from kproxy.tui.main.questions import Questions
from kproxy.tui.main.searches import Searches
from kproxy.tui.main.view_line import ViewLine, ViewState
from kproxy.tui.safe import plain
from kproxy.tui.views.all import make_view
from kproxy.tui.views.base import Progress, View
from kproxy.tui.views.exchanges import Arrangement, Exchanges
from kproxy.tui.views.faults import Faults
from kproxy.tui.widgets.command_line import CommandLine
from kproxy.tui.widgets.exchange_list import ExchangeList
from kproxy.tui.widgets.field_tree import FieldTree
from kproxy.tui.widgets.filter_bar import FilterBar
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.search_bar import SearchBar

if TYPE_CHECKING:
    from kproxy.tui.app import KproxyApp

_TICK = 1 / 15
"""Seconds between two polls of the session."""
_VIEW_TICKS = 8
"""Polls between two renewals of a view."""
_LOADING_TICKS = 5
"""Polls between two updates while a file is read."""
_MOST_VISITS = 50
"""Most visits that escape leads back to."""
_WIDE = 150
"""Columns from which panes fit side by side."""


class MainScreen(Screen[None]):
    """The screen with everything about a session.

    :param session: the session to show
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(Scope.SCREEN),
        Binding("escape", "back", show=False),  # of the widget that has the focus, if that binds it
    ]

    DEFAULT_CSS = """
    MainScreen {
        & #banner { height: auto; max-height: 3; padding: 0 1; display: none; }
        & #banner { background: $warning 30%; color: $foreground; }
        & #banner.shown { display: block; }
        & #views { height: 1fr; }
        & .-maximized { width: 1fr !important; height: 1fr !important; max-height: 100% !important; }
    }
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.list = ListCommands(self)
        self.searches = Searches(self)
        self.live = LiveCommands(self)
        self.typing = CommandEntry(self)
        for command in COMMANDS:
            if command.group == "view":
                name = command.name.removeprefix("view.")
                setattr(self, f"action_{command.action}", partial(self.show_view, name))
        self._parts = (
            self.list,
            self.searches,
            self.live,
            self.typing,
            ExchangeCommands(self),
            Questions(self),
            AppCommands(self),
        )
        for part in self._parts:
            for name in dir(part):
                if name.startswith("action_"):
                    setattr(self, name, getattr(part, name))
        self._seen: tuple[int, ...] = ()
        self._view_seen: tuple[Any, ...] = ()
        self._ticks = 0
        self._counting: Progress | None = None
        self._finished = False
        self._banner_of: tuple[str, ...] = ()
        self._visits: list[ViewState] = []
        self._mounting = Lock()

    # ------------------------------------------------------------ for parts and widgets
    @property
    def kproxy(self) -> KproxyApp:
        app: Any = self.app
        return app  # type: ignore[no-any-return]

    @property
    def exchanges(self) -> Exchanges:
        """The view with the list and the details."""
        return self.query_one(Exchanges)

    @property
    def view(self) -> View:
        return self.query_one(f"#{self.query_one('#views', ContentSwitcher).current}", View)

    @property
    def number(self) -> int | None:
        """Number of the exchange under the list's cursor, None if there is none."""
        return self.exchanges.list.number

    def report(self, message: str) -> None:
        """Show a message for some seconds; it may contain text from the wire."""
        self.query_one(StatusLine).show_message(message)

    def go_to(self, number: int) -> None:
        """Move the list's cursor to an exchange, unless it is hidden; escape leads back."""
        self.remember()
        self._show(Exchanges.view_name)
        if not self.exchanges.list.go_to(number):
            self.report(f"exchange {number:,} is not shown")

    # ------------------------------------------------------------ messages of widgets, for the parts
    _filter_typed = on(FilterBar.Applied)(lambda self, message: self.list.filter_typed(message))
    _sort = on(ExchangeList.SortBy)(lambda self, message: self.list.sort(message))
    _profile_changed = on(ExchangeList.ProfileChanged)(
        lambda self, message: self.list.profile_changed(message)
    )
    _add_column = on(FieldTree.AddColumn)(lambda self, message: self.list.add_column(message))
    _step = on(FieldTree.StepExchange)(lambda self, message: self.list.step(message))
    _search_typed = on(SearchBar.Search)(lambda self, message: self.searches.search_typed(message))
    _add_rule = on(Faults.AddRule)(lambda self: self.live.action_rule_add())
    _remove_rule = on(Faults.RemoveRule)(lambda self, message: self.live.remove_rule(message.number))
    _view_chosen = on(ViewLine.Chosen)(lambda self, message: self.show_view(message.name))
    _command_typed = on(CommandLine.Submitted)(
        lambda self, message: self.typing.perform(message.command, message.argument)
    )

    def action_back(self) -> None:
        """Cancel a running search or filter; otherwise return to the previous visit."""
        if self.searches.cancel() or self.list.stop_filtering():
            return
        if isinstance(self.view, Exchanges) and not self.exchanges.list.has_focus:
            self.exchanges.take_focus()
        elif self._visits:
            visit = self._visits.pop()
            self._show(visit.view)
            if visit.focus is not None and visit.focus.is_attached and self.view in visit.focus.ancestors:
                visit.focus.focus()
            self.list.restore(visit)

    @property
    def position(self) -> ViewState:
        """The current visit."""
        positions = tuple(
            position for table in self.view.query(RowTable) if (position := table.position) is not None
        )
        return ViewState(
            self.view.view_name,
            self.session.status.filter,
            self.exchanges.list.position,
            positions,
            self.focused,
        )

    def remember(self, visit: ViewState | None = None) -> None:
        """Make escape lead back to a visit; to the current one if None."""
        visit = visit or self.position
        if not self._visits or self._visits[-1] != visit:
            self._visits.append(visit)
            del self._visits[:-_MOST_VISITS]
            self._show_place()

    def _show_place(self) -> None:
        self.query_one(ViewLine).show(self.view.view_name)
        self.query_one(StatusLine).lead_back(self._visits[-1].title if self._visits else "")

    # ------------------------------------------------------------ content
    def compose(self) -> ComposeResult:
        yield Headline(self.session.title, self.session.zone)
        yield ViewLine(self.kproxy.settings.keymap)
        yield self.list.filter_bar()
        yield Static(id="banner", markup=False)
        with ContentSwitcher(initial=Exchanges.view_name, id="views"):
            yield Exchanges(self.session, self.kproxy.settings.profile, self.kproxy.link)
        yield SearchBar()
        yield self.typing.line()
        yield StatusLine()
        yield KeyLine()

    def on_mount(self) -> None:
        """Apply the settings, and start polling the session."""
        self.session.summaries.show_fields(self.exchanges.list.profile.fields)
        self.exchanges.list.following = self.session.live and self.kproxy.settings.config.follow
        self.exchanges.lay_out(Arrangement[self.kproxy.settings.config.layout.upper()])
        self.query_one(KeyLine).display = self.kproxy.settings.config.footer
        self.exchanges.take_focus()
        self.set_interval(_TICK, self._tick)
        self.live.listen()
        self._show_place()
        self.call_after_refresh(self.kproxy.settled)

    # ------------------------------------------------------------ renewal
    @property
    def up_to_date(self) -> bool:
        """Whether the screen shows everything that was published."""
        view = self.view
        shown = isinstance(view, Exchanges) or self._view_seen == (view.view_name, *view.state())
        return self._seen == self._published() and shown

    def _published(self) -> tuple[int, ...]:
        session = self.session
        return session.status.version, session.shown.version, session.summaries.version, id(session.held)

    def _tick(self) -> None:
        self._ticks += 1
        session = self.session
        session.report_faults()  # internal errors found meanwhile by rows and searches
        status, seen = session.status, self._published()
        # drawing less makes reading a file faster
        waits = not (session.live or status.finished) and self._ticks % _LOADING_TICKS
        if seen != self._seen and not waits:
            self._seen = seen
            if status.finished and not self._finished:
                self._finished = True
                self.kproxy.settled()
            self._show_status(status)
            if isinstance(self.view, Exchanges):
                self.exchanges.list.refresh_rows()
        if self._ticks % _VIEW_TICKS == 0:
            self._renew_view()
            if session.live or self.view.counting != self._counting:
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
        self._counting = self.view.counting
        self.query_one(Headline).show(status, self.list.filter_off, self._counting)
        states: list[str] = []
        loud: list[str] = []
        if self.exchanges.list.following and isinstance(self.view, Exchanges):
            states.append("following")
        if self.session.live and not status.finished:
            states.append(f"{status.current_rate:,.0f}/s")
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
        self.live.add_states(states, loud)
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
    async def show_view(self, name: str) -> None:
        """Switch to a view; escape leads back to the previous one."""
        await self.mounted_view(name)
        if self.view.view_name != name:
            self.remember()
        self._show(name)

    async def mounted_view(self, name: str) -> View:
        """Return a view; it is made and mounted on first use."""
        switcher = self.query_one("#views", ContentSwitcher)
        async with self._mounting:  # keys, clicks and commands may ask for the same view at once
            if not switcher.query_children(f"#{name}"):
                await switcher.add_content(make_view(name, self.session, self.kproxy.link))
        return switcher.query_one(f"#{name}", View)

    def _show(self, name: str) -> None:
        before = self.view
        if self.maximized is not None:
            self.minimize()
        switcher = self.query_one("#views", ContentSwitcher)
        if before.view_name != name:
            before.on_hidden()
            switcher.current = name
            if self.number is not None and not self.exchanges.list.following:
                self.view.look_at(self.number)
            self.view.on_shown()
            self._view_seen = ()
        self.view.take_focus()
        self._show_place()
        if isinstance(self.view, Exchanges):
            self.exchanges.list.refresh_rows()
        else:
            self._renew_view()

    @on(View.Narrow)
    def _narrow(self, message: View.Narrow) -> None:
        self.list.add_to_filter(message.filter)
        self._show(Exchanges.view_name)

    @on(View.GoTo)
    def _go_to(self, message: View.GoTo) -> None:
        self.go_to(message.number)
        if message.path:
            self.exchanges.details.seek(message.number, message.path)
            self._enter()

    @on(View.GoToIncident)
    async def _go_to_incident(self, message: View.GoToIncident) -> None:
        await self.show_view("incidents")
        self.view.seek(message.incident)

    @on(ExchangeList.Entered)
    def _enter(self) -> None:
        if self.exchanges.arrangement is Arrangement.LIST:
            self.exchanges.lay_out(Arrangement.STACKED)
        self.exchanges.details.focus_fields()

    # ------------------------------------------------------------ layout
    def action_layout_cycle(self) -> None:
        """Switch to the next arrangement of list, fields and bytes."""
        if not isinstance(self.view, Exchanges):
            self.report("only the view of exchanges has panes to arrange")
            return
        arrangements = list(Arrangement)
        at = arrangements.index(self.exchanges.arrangement)
        following = arrangements[(at + 1) % len(arrangements)]
        if following is Arrangement.BESIDE and self.size.width < _WIDE // 2:
            following = Arrangement.LIST
        self.exchanges.lay_out(following)
        self.report(following.value)

    def action_layout_maximise(self) -> None:
        """Maximise the focused pane, or restore the layout."""
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused)

    def action_footer_toggle(self) -> None:
        footer = self.query_one(KeyLine)
        footer.display = not footer.display
