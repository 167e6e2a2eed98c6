"""Drivers for the terminal and for pages in browsers that survive the loss of either.

Textual writes in a thread that ends at the first error, and then waits for it forever. The UI must still shut down
properly, because a proxy behind it has requests in flight.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TextIO, cast

from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver


class TerminalDriver(LinuxDriver):
    """A driver that draws on the terminal while it exists, and discards output afterwards."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file = cast(Any, _ForgivingFile(cast(TextIO, self._file)))


class _ForgivingFile:
    """A text file that discards output it cannot write."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class PageDriver(WebDriver):
    """A driver that draws on a page, and exits the UI when the page's server is gone."""

    def run_input_thread(self) -> None:
        """Read keys until the input ends, then exit."""
        super().run_input_thread()
        self._app.call_later(self._app.exit)
