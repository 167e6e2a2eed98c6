"""A page in a browser, on which the UI is drawn by textual-serve, at the other end of this process's pipes."""

from __future__ import annotations

from textual.drivers.web_driver import WebDriver


class PageDriver(WebDriver):
    """Draws on a page as long as its server is there; the UI ends after that."""

    def run_input_thread(self) -> None:
        """Read keys until there are no more."""
        super().run_input_thread()
        self._app.call_later(self._app.exit)
