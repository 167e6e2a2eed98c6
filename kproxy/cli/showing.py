"""How commands show exchanges: as lines, trees or JSON, of whole captures and of those that still grow."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, tzinfo
from itertools import chain, islice
from types import FrameType
from typing import TYPE_CHECKING, Any

from kproxy.cli.printing import echo, echo_lines, json_output

if TYPE_CHECKING:
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from captures.faults import Faults
    from kproxy.tui.session import Session

SHOWING = "showing it"
"""What is being done, for faults."""
_SAMPLE = 200  # exchanges that decide the column widths
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Showing:
    """The options on how to show exchanges.

    :param verbose: every field of requests and responses below each line
    :param as_json: a JSON object per exchange in place of lines
    :param text: in JSON, bytes as text where they are UTF-8
    :param color: ``auto``, ``always`` or ``never``
    :ivar zone: of the times, None is the local one
    :ivar terminal: whether standard output is one
    :ivar chosen_color: as given
    """

    def __init__(
        self,
        *,
        verbose: bool,
        as_json: bool,
        utc: bool,
        show_secrets: bool,
        payload: str,
        text: bool,
        color: str,
    ) -> None:
        self.verbose = verbose
        self.as_json = as_json
        self.zone: tzinfo | None = UTC if utc else None
        self.terminal = sys.stdout.isatty()
        self.color = color == "always" or (
            color == "auto" and self.terminal and not os.environ.get("NO_COLOR")
        )
        self.chosen_color = color
        self._show_secrets = show_secrets
        self._payload: Any = payload
        self.text = text

    def session(self, capture: Capture, title: str) -> Session:
        """Return a session of live traffic, for the UI."""
        from kproxy.tui.session import Session

        return Session(
            capture,
            title=title,
            live=True,
            zone=self.zone,
            show_secrets=self._show_secrets,
            payload=self._payload,
        )

    def reader(self, capture: Capture, *, live: bool = False, annotate: bool = False) -> ExchangeReader:
        """Return what decodes exchanges as far as they are to be shown.

        :param live: the capture still grows
        :param annotate: make bodies ready to be shown though lines do not show them
        """
        from captures.exchanges import ExchangeReader

        return ExchangeReader(
            capture,
            show_secrets=self._show_secrets,
            payload=self._payload,
            annotate=annotate or self.as_json or self.verbose,
            gist=not self.as_json,
            live=live,
        )

    def show(self, exchanges: Iterator[Exchange], faults: Faults, *, live: bool = False) -> None:
        """Print exchanges.

        :param faults: where to note what cannot be shown by a fault of ours
        :param live: they come as time goes by: each is printed when it has come
        """
        if self.as_json:
            self._print_json(exchanges, faults)
        else:
            self._print_lines(exchanges, faults, live=live)

    def _print_json(self, exchanges: Iterable[Exchange], faults: Faults) -> None:
        from captures.export.jsonlines import write_json_lines

        write_json_lines(exchanges, json_output(), text=self.text, faults=faults)

    def _print_lines(self, exchanges: Iterator[Exchange], faults: Faults, *, live: bool) -> None:
        from kproxy.cli.lines import Lines
        from kproxy.cli.tree import exchange_tree

        width = shutil.get_terminal_size().columns if self.terminal else None
        lines = Lines(width, self.zone, color=self.color)
        sample = list(islice(exchanges, 1 if live else _SAMPLE))
        lines.fit(sample, more=live)
        if sample:
            echo(lines.header(sample[0].time), wait=True)
        for exchange in chain(sample, exchanges):
            try:
                echo(lines.line(exchange), wait=True)
                if self.verbose:
                    echo_lines(
                        faults.whole(exchange_tree(exchange, color=self.color), SHOWING, exchange.number)
                    )
            except Exception as error:
                faults.note(error, SHOWING, exchange.number)


@contextmanager
def ended_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C, and being asked to terminate, call `stop` the first time, and do what they always do the second."""

    def end(number: int, _: FrameType | None) -> None:
        signal.signal(number, before[number])
        stop()

    heeded = [number for number in _ENDINGS if signal.getsignal(number) is not signal.SIG_IGN]
    before: dict[int, Any] = {number: signal.signal(number, end) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
