"""How commands show exchanges: as lines, trees or JSON, of whole captures and of those that still grow."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo
from itertools import chain, islice
from typing import TYPE_CHECKING

from kproxy.cli.options import ShowingOptions
from kproxy.output import echo, echo_gated, gated_lines, json_output

if TYPE_CHECKING:
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from captures.faults import Faults
    from kproxy.session import Session
    from kproxy.text.lines import Lines

SHOWING = "showing it"
"""What is being done, for faults."""
SAMPLE = 200
"""Exchanges that decide the column widths."""


class ExchangeOutput:
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
        self._lines: Lines

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

    def show_live(self, exchanges: Iterator[Exchange], faults: Faults) -> None:
        """Print exchanges that come as time goes by, each when it has come.

        :param faults: where to note what cannot be shown by a fault of ours
        """
        if self.as_json:
            from captures.export.jsonlines import write_json_lines

            write_json_lines(exchanges, json_output(), text=self.text, faults=faults)
            return
        sample = list(islice(exchanges, 1))
        self.begin(sample, more=True)
        for line in self._lines_of(chain(sample, exchanges), faults):
            echo(line, wait=True)

    def begin(self, sample: list[Exchange], *, more: bool = False) -> None:
        """Print what stands above lines, whose columns are as wide as the first exchanges need.

        :param sample: at most :data:`SAMPLE` of them
        :param more: they are few, and others will come
        """
        from kproxy.text.lines import Lines

        width = shutil.get_terminal_size().columns if self.terminal else None
        self._lines = Lines(width, self.zone)
        self._lines.fit(sample, more=more)
        if sample:
            echo(self._lines.header(sample[0].time), wait=True)

    def pieces(self, exchanges: Iterable[Exchange], faults: Faults) -> Iterator[str | bytearray]:
        """Yield what :meth:`write` prints of exchanges, the lines of several at a time.

        :param faults: where to note what cannot be shown by a fault of ours
        """
        if self.as_json:
            from captures.export.jsonlines import json_pieces

            return json_pieces(exchanges, text=self.text, faults=faults)
        return gated_lines(self._lines_of(exchanges, faults))

    def write(self, piece: str | bytearray) -> None:
        """Print what :meth:`pieces` has yielded, in this process or in another."""
        if isinstance(piece, str):
            echo_gated(piece)
        else:
            json_output().write(piece)

    def _lines_of(self, exchanges: Iterable[Exchange], faults: Faults) -> Iterator[str]:
        """Yield the line of each exchange, and the lines of its fields if they are to be shown."""
        from kproxy.text.tree import exchange_tree

        for exchange in exchanges:
            try:
                yield self._lines.line(exchange)
                if self.verbose:
                    yield from faults.whole(exchange_tree(exchange), SHOWING, exchange.number)
            except Exception as error:
                faults.note(error, SHOWING, exchange.number)
