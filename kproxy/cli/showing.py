"""How commands show exchanges: as lines, trees or JSON, of whole captures and of those that still grow."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo
from itertools import chain, islice
from typing import TYPE_CHECKING

from kproxy.cli.options import ShowingOptions
from kproxy.printing import echo, echo_lines, json_output

if TYPE_CHECKING:
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from captures.faults import Faults
    from kproxy.session import Session
    from kproxy.text.lines import Lines

SHOWING = "showing it"
"""What is being done, for faults."""
_SAMPLE = 200  # exchanges that decide the column widths


class Showing:
    """How exchanges are shown, as the options say.

    :ivar zone: of the times, None is the local one
    :ivar terminal: whether standard output is one
    :ivar chosen_color: as given
    """

    def __init__(self, options: ShowingOptions) -> None:
        self.verbose = options.verbose
        self.as_json = options.as_json
        self.zone: tzinfo | None = UTC if options.utc else None
        self.terminal = sys.stdout.isatty()
        self.chosen_color = options.color
        self._show_secrets = options.show_secrets
        self._payload = options.payload
        self.text = options.text

    def session(self, capture: Capture, title: str) -> Session:
        """Return a session of live traffic, for the UI."""
        from kproxy.session import Session

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
            summary=not self.as_json,
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
        from kproxy.text.lines import Lines

        width = shutil.get_terminal_size().columns if self.terminal else None
        lines = Lines(width, self.zone)
        sample = list(islice(exchanges, 1 if live else _SAMPLE))
        lines.fit(sample, more=live)
        if sample:
            echo(lines.header(sample[0].time), wait=True)
        shown = self._lines_of(lines, chain(sample, exchanges), faults)
        if not live:
            echo_lines(shown)
            return
        for line in shown:
            echo(line, wait=True)

    def _lines_of(self, lines: Lines, exchanges: Iterable[Exchange], faults: Faults) -> Iterator[str]:
        """Yield the line of each exchange, and the lines of its fields if they are to be shown."""
        from kproxy.text.tree import exchange_tree

        for exchange in exchanges:
            try:
                yield lines.line(exchange)
                if self.verbose:
                    yield from faults.whole(exchange_tree(exchange), SHOWING, exchange.number)
            except Exception as error:
                faults.note(error, SHOWING, exchange.number)
