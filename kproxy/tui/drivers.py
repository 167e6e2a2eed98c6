"""What Textual draws on: the terminal, and pages in browsers; either may go away.

Textual writes in a thread that ends at the first error, and waits for it for ever then. The UI has to be left in order
even so: a proxy behind it has requests in flight.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TextIO, cast

from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver


class TerminalDriver(LinuxDriver):
    """Draws on a terminal as long as it is there, and on nothing after that."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file = cast(Any, _ForgivingFile(cast(TextIO, self._file)))


class _ForgivingFile:
    """A text file; what cannot be written to it is lost.

    :param file: the file
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write text, if there is still somebody to read it."""
        with suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Hand over what was written, likewise."""
        with suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class PageDriver(WebDriver):
    """Draws on a page as long as its server is there; the UI ends after that."""

    def run_input_thread(self) -> None:
        """Read keys until there are no more."""
        super().run_input_thread()
        self._app.call_later(self._app.exit)
