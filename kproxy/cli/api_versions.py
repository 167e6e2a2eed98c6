"""``kproxy api-versions``: which versions brokers offer, and which ones clients use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from kproxy.cli.capture_run import CaptureRun
from kproxy.cli.command import option, options
from kproxy.cli.options import ClientOption, JobsOption, ReadingOptions, ReportOptions
from kproxy.cli.selection import chosen, there_are

if TYPE_CHECKING:
    from captures.analysis.negotiation import Matrix
    from captures.exchanges import Capture
    from kproxy.text.blocks import Block

_ROWS = 60


@options
class ApiVersionsOptions(ReportOptions, ReadingOptions, JobsOption, ClientOption):
    """Options of ``kproxy api-versions``."""

    broker: str | None = option(
        "--broker", metavar="BROKER", help="Show only this broker: host:port, or one of its names."
    )
    show_all: bool = option("--all", help="Show every row, and APIs that are offered but not used.")
    as_json: bool = option("--json", help="Print one JSON object (docs/api-versions.md).")


class ApiVersionsRun(
    CaptureRun[ApiVersionsOptions], short_help="Show which API versions brokers offer and clients use."
):
    """Show which API versions the brokers in CAPTURE... offer, and which of them clients use and could use.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    A client's own highest version is not on the wire. The output shows what it could use as far as that is known: the
    versions that the broker offers, from the highest that the client used with any broker. Warnings point out versions
    that Kafka 4.0 brokers refuse (KIP-896), versions that are used but not offered, and clients that never ask for
    versions.
    """

    def run(self) -> None:
        from kproxy.cli.results import Versions
        from kproxy.text.blocks import spaced

        capture = self.reading.capture()
        matrix = self._matrix(capture)
        self.conclude(capture)
        clients = chosen([each.name for each in matrix.clients], self.options.clients, "client")
        matrix = matrix.of(clients if self.options.clients else None, self._broker(matrix))
        for broker in matrix.brokers:
            broker.name = next(iter(self.reading.names.of(broker.broker)), None)
        self.answer(Versions(self.reading.files, matrix), blocks=spaced(self._blocks(matrix)))

    def _matrix(self, capture: Capture) -> Matrix:
        import numpy as np

        from captures.analysis.negotiation import TAKEN, Negotiation, learn_versions

        negotiation, reader = Negotiation(capture), self.reading.reader(capture)
        columns = self.reading.counted(reader, np.arange(len(reader)), TAKEN, "reading versions")
        deque(learn_versions(negotiation, reader, columns), maxlen=0)
        return negotiation.result()

    def _broker(self, matrix: Matrix) -> str | None:
        """Return the broker selected by ``--broker``, as ``host:port``.

        :raises click.UsageError: if there is no such broker, or several
        """
        wanted = self.options.broker
        if wanted is None:
            return None
        brokers = [each.broker for each in matrix.brokers]
        names = self.reading.names
        fits = [
            each
            for each in brokers
            if wanted in (each, each.rpartition(":")[0], names.shown(each), *names.of(each))
        ]
        if len(fits) == 1:
            return fits[0]
        what = f"{len(fits)} brokers are" if fits else "no broker is"
        raise click.UsageError(f"{what} {wanted!r} in the capture; {there_are(fits or brokers)}")

    # ------------------------------------------------------------ output
    def _blocks(self, matrix: Matrix) -> Iterator[Block]:
        from kproxy.text import api_versions as tables
        from kproxy.text.blocks import Paragraph

        names = self.reading.names
        if not matrix.clients:
            yield Paragraph("No requests were seen, so nothing is known of versions.")
        for table in (
            tables.broker_table(matrix, names),
            tables.client_table(matrix, names),
            tables.use_table(matrix, names, unused=self.options.show_all),
            tables.warning_table(matrix, names),
        ):
            if table.rows:
                table.most = None if self.options.show_all else _ROWS
                yield table
        if matrix.clients and not matrix.warnings:
            yield Paragraph("No warnings.")
