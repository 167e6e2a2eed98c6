"""The application: themes, keys, notices and quitting. Everything about a session is on its main screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import time_ns
from typing import Any, TypedDict, Unpack

from textual import events
from textual.actions import ActionParseResult
from textual.app import App, SystemCommand
from textual.dom import DOMNode
from textual.driver import Driver
from textual.filter import LineFilter
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.worker import WorkerFailed

from captures.filters import Filter
from kproxy.session import Session
from kproxy.session.summaries import no_color
from kproxy.tui.commands import BY_ACTION, Command, Effect
from kproxy.tui.dialogs.leave import Leaving
from kproxy.tui.live.link import Link
from kproxy.tui.main.screen import MainScreen
from kproxy.tui.palette import offers
from kproxy.tui.row_colors import RowColors
from kproxy.tui.safe import EXPLICIT_DIRECTION, IMPLICIT_DIRECTION, plain
from kproxy.tui.settings import Settings
from kproxy.tui.themes import COLORLESS, add_themes, line_filters
from kproxy.tui.typed_keys import TypedKeys

_MOST_EVENTS = 1000


@dataclass(frozen=True, slots=True)
class Event:
    """A notice that was shown to the user.

    :ivar time: ns since the epoch
    :ivar text: unescaped: it may contain text from the wire
    """

    time: int
    text: str
    severity: SeverityLevel


class AppOptions(TypedDict, total=False):
    """Options of the command that opens the UI.

    :ivar wanted: the first filter
    :ivar recorder: makes a flight recorder of this process keep the moment
    :ivar run_name: name by which the proxy is found again
    :ivar ends_proxy: whether the proxy ends with the UI, unless the user decides otherwise
    :ivar read_only: whether commands that do more than show are disabled
    """

    wanted: Filter | None
    recorder: Callable[[], None] | None
    run_name: str
    ends_proxy: bool
    read_only: bool


class KproxyApp(App[Leaving]):
    """The UI of one session.

    :param session: started and ended here
    :param settings: the user's settings
    :param link: connection to the proxy that the session shows
    :param settled: called when the screen is ready, and when a capture was read to its end: objects alive then stay
    :ivar events: notices so far
    :ivar typed_keys: keys that are not handled yet
    """

    TITLE = "kproxy"
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        session: Session,
        settings: Settings,
        *,
        link: Link | None = None,
        settled: Callable[[], None] = lambda: None,
        **options: Unpack[AppOptions],
    ) -> None:
        super().__init__()
        self.settled = settled
        self.session = session
        self.settings = settings
        self.link = link
        self.recorder = options.get("recorder")
        self.run_name = options.get("run_name", "")
        self.ends_proxy = options.get("ends_proxy", False)
        self.read_only = options.get("read_only", False)
        self.events: list[Event] = []
        self.typed_keys = TypedKeys(self, super().on_event, self._refuse_key)
        self._wanted = options.get("wanted")
        add_themes(self, settings.config.colors)
        self.theme = COLORLESS.name if self.no_color else settings.theme
        self.set_keymap(settings.keymap)

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver, or the subclass that survives the loss of its terminal or page."""
        usual = super().get_driver_class()
        if usual.__name__ == "LinuxDriver":
            from kproxy.tui.drivers import TerminalDriver

            return TerminalDriver
        if usual.__name__ == "WebDriver":
            from kproxy.tui.drivers import PageDriver

            return PageDriver
        return usual

    def get_default_screen(self) -> MainScreen:
        return MainScreen(self.session)

    def on_load(self) -> None:
        """Start reading while the screen is still being built."""
        self.session.summaries.slow = self.settings.config.slow
        if self.settings.config.coloring:
            self.color_rows(on=True)
        self.session.start()

    async def on_mount(self) -> None:
        """Show problems with the settings, and apply the first filter."""
        self._echo_characters()
        self._report_problems()
        if self._wanted is not None:
            self.main.list.set_filter(self._wanted)

    def _report_problems(self) -> None:
        problems = self.settings.problems
        for problem in problems:
            self.note(problem, "warning")
        if problems:
            more = f" (and {len(problems) - 1} more: E shows them)" if len(problems) > 1 else ""
            self.notify(plain(f"{problems[0]}{more}").plain, severity="warning", markup=False)

    @property
    def main(self) -> MainScreen:
        screen = self.screen_stack[0]
        assert isinstance(screen, MainScreen)
        return screen

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters that lines pass on their way to the terminal."""
        return line_filters(self, super().get_line_filters())

    # ------------------------------------------------------------ keys
    async def on_event(self, event: events.Event) -> None:
        """Handle an event; keys and pasted text strictly in order."""
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            self.typed_keys.put(event)
        else:
            await super().on_event(event)

    def push_screen(self, *arguments: Any, **options: Any) -> Any:
        """Open a dialog, which receives everything typed from now on."""
        pushed = super().push_screen(*arguments, **options)
        self.typed_keys.dialog_opened()
        return pushed

    @property
    def writes_files(self) -> bool:
        """Whether the user may write files; in a browser they are downloads."""
        return not self.read_only or self.is_web

    def leaves_out(self, command: Command) -> bool:
        """Return whether a command is disabled in this UI."""
        writes = command.effect is Effect.FILE and self.writes_files
        return self.read_only and command.effect is not Effect.NONE and not writes

    def refuses(self, command: Command | None) -> bool:
        """Return whether a command is disabled in this UI, and show a message if so."""
        if command is None or not self.leaves_out(command):
            return False
        self.main.report(f"{command.title} is disabled: this UI is read-only")
        return True

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run the action of a key or a click, unless its command is disabled."""
        name = action if isinstance(action, str) else action[1]
        if self.refuses(BY_ACTION.get(name)):
            return False
        return await super().run_action(action, default_namespace, namespaces)

    def _refuse_key(self, command: Command) -> None:
        self.main.report(
            f"{command.title}: a line or dialog had just opened, so this key was ignored; press it again"
        )

    # ------------------------------------------------------------ notices
    def note(self, text: str, severity: SeverityLevel = "information") -> None:
        """Add a notice to the events without showing it."""
        self.events.append(Event(time_ns(), text, severity))
        del self.events[:-_MOST_EVENTS]

    def report(self, text: str, *, severity: SeverityLevel = "information") -> None:
        self.note(text, severity)
        earlier = len(self._notifications)
        if earlier:  # one at a time, so that they do not cover the screen
            self.clear_notifications()
            text = f"{text} (E shows earlier notices)"
        self.notify(plain(text).plain, severity=severity, markup=False)

    def notice(self, text: str) -> None:
        """Show a notice; may be called from any thread."""
        self.call_later(self.report, text)

    def color_rows(self, *, on: bool) -> None:
        """Switch the colours of list rows on or off."""
        summaries = self.session.summaries
        summaries.color = RowColors.of(self.settings.config.row_colors).color if on else no_color
        summaries.clear()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        return offers(screen) if isinstance(screen, MainScreen) else ()

    def _handle_exception(self, error: Exception) -> None:
        """Report an exception in a worker and continue; any other ends the application."""
        if isinstance(error, WorkerFailed) and not self.is_headless:
            cause = error.error
            self.log.error(cause)
            self.report(f"this failed: {type(cause).__name__}: {cause}", severity="error")
            return
        super()._handle_exception(error)

    # ------------------------------------------------------------ the way in and out
    def _echo_characters(self) -> None:
        if self._driver is not None and not self.is_headless:
            self._driver.write(EXPLICIT_DIRECTION)

    async def on_unmount(self) -> None:
        """Restore the terminal."""
        if self._driver is not None and not self.is_headless:
            self._driver.write(IMPLICIT_DIRECTION)

    def end_soon(self) -> None:
        """Quit without asking; may be called by a signal handler."""
        self.call_later(self.exit, "end")

    async def action_quit(self) -> None:
        """Quit, after asking if that ends something; Textual's own key has this action too."""
        self.main.live.action_app_quit()
