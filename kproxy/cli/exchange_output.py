"""How commands show exchanges: as lines, trees or JSON, from whole and from growing captures."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo
from itertools import chain, islice
from typing import TYPE_CHECKING, cast

from kproxy.cli.options import ShowingOptions
from kproxy.output import echo, echo_gated, gated_lines, json_output

if TYPE_CHECKING:
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from captures.exchanges.exchange_block import ExchangeBlock
    from captures.faults import Faults
    from kproxy.session import Session
    from kproxy.text.lines import Lines

SHOWING = "showing it"
"""The activity, for reports of internal errors."""
SAMPLE = 200
"""Exchanges that decide the column widths."""


class ExchangeOutput:
    """Shows exchanges as the options say.

    :ivar zone: time zone, None for local time
    :ivar terminal: whether standard output is a terminal
    :ivar chosen_color: value of ``--color``
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
        """Return a reader that decodes exchanges as far as they are shown.

        :param live: the capture is still growing
        :param annotate: prepare bodies for display even if lines do not show them
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
        """Print exchanges, each as soon as it arrives.

        :param faults: collects exchanges that could not be shown because of a bug
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
        """Print the header of lines, with columns as wide as the first exchanges need.

        :param sample: at most :data:`SAMPLE` exchanges
        :param more: whether the sample is small and more exchanges will follow
        """
        from kproxy.text.lines import Lines

        width = shutil.get_terminal_size().columns if self.terminal else None
        self._lines = Lines(width, self.zone)
        self._lines.fit(sample, more=more)
        if sample:
            echo(self._lines.header(sample[0].time), wait=True)

    def pieces(
        self, exchanges: Iterable[Exchange | ExchangeBlock], faults: Faults
    ) -> Iterator[str | bytearray]:
        """Yield the output for :meth:`write`, the lines of several exchanges at a time.

        :param exchanges: in blocks only for lines in a pipe
        :param faults: collects exchanges that could not be shown because of a bug
        """
        if self.as_json:
            from captures.export.jsonlines import json_pieces

            return json_pieces(cast("Iterable[Exchange]", exchanges), text=self.text, faults=faults)
        return gated_lines(self._lines_of(exchanges, faults))

    def write(self, piece: str | bytearray) -> None:
        """Print a piece from :meth:`pieces`, which may have run in another process."""
        if isinstance(piece, str):
            echo_gated(piece)
        else:
            json_output().write(piece)

    def _lines_of(self, exchanges: Iterable[Exchange | ExchangeBlock], faults: Faults) -> Iterator[str]:
        """Yield the line of each exchange, and with --verbose the lines of its fields."""
        from captures.exchanges.exchange_block import ExchangeBlock
        from kproxy.text.tree import exchange_tree

        for exchange in exchanges:
            if isinstance(exchange, ExchangeBlock):
                try:
                    lines: Iterable[str] = self._lines.block(exchange)
                except Exception:  # one by one, so that only the line that fails is left out
                    lines = self._lines_of(exchange.exchanges(), faults)
                yield from lines
                continue
            try:
                yield self._lines.line(exchange)
                if self.verbose:
                    yield from faults.contained_items(exchange_tree(exchange), SHOWING, exchange.number)
            except Exception as error:
                faults.note(error, SHOWING, exchange.number)
