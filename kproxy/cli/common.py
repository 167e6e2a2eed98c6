"""What commands that read captures have in common: exit codes, shared options, and a bar for large files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from captures.filters import Filter
    from captures.packets.tls import KeyLog

EXIT_UNREADABLE = 1
EXIT_INCOMPLETE = 3


def keylog_option(path: str | None) -> KeyLog | None:
    """Return the key log of ``--keylog``, None if it was not given.

    :raises click.UsageError: if it cannot be read
    """
    if path is None:
        return None
    from captures.packets.tls import KeyLog

    try:
        return KeyLog(path)
    except OSError as error:
        raise click.UsageError(f"the key log {path} cannot be read: {error.strerror}") from None


def filter_option(text: str | None, zone: tzinfo | None) -> Filter | None:
    """Return the filter of ``-Y``, None if it was not given.

    :raises click.UsageError: with a caret under the place where it stops making sense
    """
    if text is None:
        return None
    from captures.filters import FilterError, compile_filter

    try:
        return compile_filter(text, zone)
    except FilterError as error:
        raise click.UsageError(f"the filter is not understood: {error.render()}") from None


class reading_progress:  # noqa: N801  # a context manager, used like a function
    """Shows the reading of a large capture on a terminal; does nothing elsewhere."""

    LEAST = 64 << 20

    def __init__(self, path: str) -> None:
        self._path = path
        self._bar: Any = None
        self._shown = 0

    def __enter__(self) -> Callable[[int, int | None], None] | None:
        return self._update if sys.stderr.isatty() else None

    def _update(self, done: int, size: int | None) -> None:
        if size is None or size < self.LEAST:
            return
        if self._bar is None:
            self._bar = click.progressbar(length=size, label=f"reading {self._path}", file=sys.stderr)
            self._bar.__enter__()
        self._bar.update(done - self._shown)
        self._shown = done

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
