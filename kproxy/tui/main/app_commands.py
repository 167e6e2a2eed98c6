"""Commands for the application: notices, help, colours, quitting."""

from __future__ import annotations

import asyncio

from kproxy.tui.main.part import Part, work
from kproxy.tui.manual import about_sections
from kproxy.tui.settings import SettingsError
from kproxy.tui.themes import all_themes


class AppCommands(Part):
    """The main screen's commands for the application."""

    def action_app_quit_now(self) -> None:
        """Quit at once; end the proxy if it ends with the UI."""
        self.kproxy.exit("end" if self.kproxy.ends_proxy else "background")

    def action_app_events(self) -> None:
        """Show the notices so far."""
        from kproxy.tui.dialogs.events import EventsDialog

        self.app.push_screen(EventsDialog(self.kproxy.events, self.session.zone))

    def action_help_show(self) -> None:
        """Show keys and the filter language."""
        from kproxy.tui.dialogs.help import HelpDialog

        settings = self.kproxy.settings
        about = about_sections([("capture", self.session.title)], settings.problems, settings.file)
        self.app.push_screen(HelpDialog(self.screen.focused, settings.keymap, about))

    def action_app_theme(self, name: str = "") -> None:
        """Switch to a theme; without a name ask for one."""
        app = self.kproxy
        if app.no_color:
            app.report("themes change nothing without colours (NO_COLOR, or --color never)")
        elif not name:
            app.search_themes()
        elif name in all_themes():
            app.theme = name
            self._keep_theme(name)
        else:
            app.report(f"there is no theme {name!r}; there are {', '.join(all_themes())}")

    @work("settings")
    async def _keep_theme(self, name: str) -> None:
        try:
            await asyncio.to_thread(self.kproxy.settings.keep_theme, name)
        except SettingsError as error:
            self.kproxy.note(str(error), "warning")
