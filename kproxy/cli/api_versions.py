"""``kproxy api-versions``: who offers which versions, and who uses which."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.common import early_ends
from kproxy.cli.group_option import there_are
from kproxy.cli.options import color_option, reading_options
from kproxy.cli.printing import echo, echo_json, flush
from kproxy.cli.reading import Reading, colored, conclude, terminal_width

if TYPE_CHECKING:
    from captures.analysis.version_matrix import Matrix
    from captures.exchanges import Capture
    from kproxy.cli.summary import Tally

_ROWS = 60


@click.command("api-versions", short_help="Show which API versions brokers offer and clients use.")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="CAPTURE...")
@click.option(
    "--client", metavar="CLIENT", help="Show only this client, by its client ID, or address without one."
)
@click.option("--broker", metavar="BROKER", help="Show only this broker: host:port, or a name of it.")
@click.option(
    "--all", "show_all", is_flag=True, help="Show every row, and APIs that are offered and not used."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/api-versions.md).")
@reading_options
@color_option
def api_versions(files: tuple[str, ...], **options: Any) -> None:
    """Show which API versions the brokers in CAPTURE... offer, and which of them clients use and could use.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    A client's own highest version is not on the wire. What it could use is shown as far as it is known: the versions
    that the broker offers, from the highest on that the client used with any broker. Warnings tell what brokers of
    Kafka 4.0 refuse (KIP-896), versions that are used and not offered, and clients that never ask.
    """
    run = ApiVersions(files, **options)
    with early_ends():
        run.run()
    sys.exit(run.reading.exit_code(clean=run.clean))


class ApiVersions:
    """One run of ``kproxy api-versions``."""

    def __init__(
        self,
        files: tuple[str, ...],
        *,
        client: str | None,
        broker: str | None,
        show_all: bool,
        as_json: bool,
        color: str,
        **reading: Any,
    ) -> None:
        self.client = client
        self.broker = broker
        self.show_all = show_all
        self.as_json = as_json
        self.reading = Reading(files, utc=True, **reading)
        self.color = colored(color)
        self.clean = True

    def run(self) -> None:
        """Read the capture, and show what was negotiated."""
        from kproxy.cli.summary import Tally

        capture = self.reading.capture()
        tally = Tally()
        matrix = self._matrix(capture, tally)
        self.clean = conclude(capture, tally)
        matrix = matrix.of(self._client(matrix), self._broker(matrix))
        if self.as_json:
            self._print_json(matrix)
        else:
            self._print(matrix)
        flush()

    def _matrix(self, capture: Capture, tally: Tally) -> Matrix:
        from captures.analysis.negotiation import Negotiation
        from captures.exchanges import ExchangeReader

        negotiation = Negotiation(capture)
        reader = ExchangeReader(capture, annotate=False, gist=False)
        add = capture.faults.guarded(negotiation.add, "learning versions")
        for exchange in self.reading.exchanges(reader, tally, "reading versions"):
            add(exchange)
        return negotiation.result()

    def _client(self, matrix: Matrix) -> str | None:
        """Return the client that was asked for.

        :raises click.UsageError: if it is not there
        """
        names = [each.name for each in matrix.clients]
        if self.client is None or self.client in names:
            return self.client
        raise click.UsageError(f"no client {self.client!r} in the capture; {there_are(names)}")

    def _broker(self, matrix: Matrix) -> str | None:
        """Return the broker that was asked for, ``host:port``.

        :raises click.UsageError: if it is not there, or more than one has the name
        """
        wanted = self.broker
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

    # ------------------------------------------------------------ what is shown
    def _print_json(self, matrix: Matrix) -> None:

        shape = {"captures": list(self.reading.files), **matrix.to_json()}
        for broker in shape["brokers"]:
            broker["name"] = next(iter(self.reading.names.of(broker["broker"])), None)
        echo_json(shape, wait=True)

    def _print(self, matrix: Matrix) -> None:
        from kproxy.cli import api_versions_tables as tables

        width = terminal_width()
        names = self.reading.names
        shown = [
            tables.broker_table(matrix, names),
            tables.client_table(matrix, names),
            tables.use_table(matrix, names, unused=self.show_all),
            tables.warning_table(matrix, names),
        ]
        if not matrix.clients:
            echo("No requests were seen, so nothing is known of versions.")
        first = True
        for table in shown:
            if not table.rows:
                continue
            if not first:
                echo()
            first = False
            for line in table.lines(width, None if self.show_all else _ROWS, color=self.color):
                echo(line)
        if matrix.clients and not matrix.warnings:
            echo()
            echo("No warnings.")
