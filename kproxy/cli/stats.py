"""``kproxy stats``: captures to tables of figures."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.common import EXIT_INCOMPLETE, EXIT_UNREADABLE, filter_option, keylog_option, reading_progress
from kproxy.cli.selecting import Selecting
from kproxy.cli.times import Moment, clock, zone_name

if TYPE_CHECKING:
    from captures.analysis.api_stats import ApiStats
    from captures.analysis.client_stats import ClientStats
    from captures.analysis.connection_stats import ConnectionRow, ConnectionStats
    from captures.analysis.error_stats import ErrorStats
    from captures.analysis.throttling import ThrottleStats
    from captures.analysis.topic_stats import TopicStats
    from captures.exchanges import Capture, ExchangeReader
    from kproxy.cli.summary import Tally
    from kproxy.cli.tables import Table

TABLES = ("api", "error", "client", "topic", "connection", "throttle")

_ROWS_IN_OVERVIEW = 10
_ROWS_OF_ONE = 40


@click.command(short_help="Show what captures add up to.")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="CAPTURE...")
@click.option(
    "--by",
    "tables",
    type=click.Choice(TABLES),
    multiple=True,
    help="Show this table in full breadth; may be given several times. Without it: all of them, in short.",
)
@click.option(
    "-Y",
    "--filter",
    "wanted",
    metavar="FILTER",
    help="Count only exchanges that fit, such as 'api == Fetch'.",
)
@click.option("--all", "show_all", is_flag=True, help="Show every row.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/json-stats.md).")
@click.option(
    "--quick",
    is_flag=True,
    help="Only the APIs, by the headers of frames: counts, bytes, latency. For huge captures: no body is decoded, "
    "so errors are not seen and waits are not told from work.",
)
@click.option(
    "--from", "begin", type=Moment(), help="Leave out what came before: 5s, 09:14:03, 2026-11-21T09:14:03Z."
)
@click.option("--to", "end", type=Moment(), help="Leave out what came after.")
@click.option(
    "--keylog", type=click.Path(), metavar="FILE", help="Decrypt TLS with the secrets in this NSS key log."
)
@click.option("--utc", is_flag=True, help="Show times in UTC instead of the local zone.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colour the output; auto: on a terminal, unless NO_COLOR is set.",
)
def stats(files: tuple[str, ...], **options: Any) -> None:
    """Show what the Kafka traffic in CAPTURE... adds up to.

    \b
    api         per API and version: counts, errors, bytes, latency percentiles
    error       per error: how often, whose, and which exchange to look at
    client      per client ID: software, principal, addresses, counts
    topic       per topic and partition: bytes and records, who produces, who fetches
    connection  per TCP connection: software, SASL, versions, trouble, how it ended
    throttle    per client and API: quotas at work

    Latency is broker time and network. What Kafka waits by design (a Fetch for records, a JoinGroup for members) is
    shown apart from it.
    """
    from captures.packets import CaptureError

    run = Stats(files, **options)
    try:
        run.run()
    except CaptureError as error:
        click.echo(f"kproxy: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)
    except BrokenPipeError:
        # the reader of our output has seen enough (head, less): nothing is wrong
        sys.stderr.close()
        sys.exit(0)
    sys.exit(0 if run.clean else EXIT_INCOMPLETE)


class Stats:
    """One run of ``kproxy stats``: the options, and the accumulators that they ask for."""

    def __init__(
        self,
        files: tuple[str, ...],
        *,
        tables: tuple[str, ...],
        wanted: str | None,
        show_all: bool,
        as_json: bool,
        quick: bool,
        begin: str | None,
        end: str | None,
        keylog: str | None,
        utc: bool,
        color: str,
    ) -> None:
        from captures.analysis.api_stats import ApiStats
        from captures.analysis.client_stats import ClientStats
        from captures.analysis.error_stats import ErrorStats
        from captures.analysis.throttling import ThrottleStats
        from captures.analysis.topic_stats import TopicStats

        if quick and set(tables) - {"api"}:
            raise click.UsageError("--quick knows the APIs only: what else there is lies in bodies")
        self.files = files
        self.overview = not tables and not quick
        self.tables = ("api",) if quick else tuple(dict.fromkeys(tables)) or TABLES
        self.show_all = show_all
        self.as_json = as_json
        self.quick = quick
        self.zone: tzinfo | None = UTC if utc else None
        self.terminal = sys.stdout.isatty()
        self.selecting = Selecting(filter_option(wanted, self.zone), begin, end, self.zone)
        self.keylog = keylog_option(keylog)
        if quick and self.selecting.wanted is not None and self.selecting.wanted.needs_bodies:
            raise click.UsageError("--quick decodes no bodies, which this filter needs")
        self.color = color == "always" or (
            color == "auto" and self.terminal and not os.environ.get("NO_COLOR")
        )
        self.clean = True
        self.apis: ApiStats = ApiStats()
        self.errors: ErrorStats = ErrorStats()
        self.clients: ClientStats = ClientStats()
        self.topics: TopicStats = TopicStats(self._topic_name)
        self.throttling: ThrottleStats = ThrottleStats()
        self.connections: list[tuple[ConnectionStats, int | None, int | None]] = []
        self._readers: list[ExchangeReader] = []
        self._captures: list[Capture] = []

    def run(self) -> None:
        """Read the files, and print what they add up to."""
        from kproxy.cli.summary import Tally, notes

        tally = Tally()
        number = 1
        for path in self.files:
            capture = self._open(path)
            if self.quick:
                self._add_columns(capture)
            else:
                self._add(capture, number, tally)
            number += len(capture.table)
        for capture in self._captures:
            for note in notes(capture):
                click.echo(f"kproxy: {note}", err=True)
        if not self.quick:
            self.clean = tally.clean(self._captures)
        if self.as_json:
            self._print_json(tally)
        else:
            self._print_tables(tally)
        sys.stdout.flush()

    # ------------------------------------------------------------ adding up
    def _open(self, path: str) -> Capture:
        from captures.exchanges import open_capture

        capture = open_capture(path, keylog=self.keylog)
        self._captures.append(capture)
        with reading_progress(path) as progress:
            capture.read(progress)
        return capture

    def _add(self, capture: Capture, number: int, tally: Tally) -> None:
        from captures.analysis.connection_stats import ConnectionStats
        from captures.exchanges import ExchangeReader

        reader = ExchangeReader(capture, annotate=False, gist=False, first_number=number)
        self._readers.append(reader)
        connections = ConnectionStats(capture)
        self.connections.append((connections, *self.selecting.bounds(capture)))
        by_table = {
            "api": self.apis.add,
            "error": self.errors.add,
            "client": self.clients.add,
            "topic": self.topics.add,
            "connection": connections.add,
            "throttle": self.throttling.add,
        }
        adding = [tally.add, *(by_table[table] for table in self.tables)]
        for exchange in self.selecting.exchanges(capture, reader):
            for add in adding:
                add(exchange)

    def _add_columns(self, capture: Capture) -> None:
        chosen = self.selecting.rows(capture)
        if self.selecting.wanted is not None:
            from captures.filters import Context, TableColumns

            columns = TableColumns.of(capture)
            chosen &= self.selecting.wanted.mask(columns, Context(start=columns.start)).matches
        self.apis.add_columns(capture.table, chosen.nonzero()[0])

    def _topic_name(self, topic_id: str) -> str | None:
        return next(
            (name for reader in self._readers if (name := reader.knowledge.topic_name(topic_id))), None
        )

    # ------------------------------------------------------------ what came of it
    def _connections(self) -> list[ConnectionRow]:
        rows = [
            row
            for each, low, high in self.connections
            for row in each.result(begin=low, end=high)
            if row.exchanges or self.selecting.wanted is None
        ]
        return sorted(rows, key=lambda row: (not row.troubled, -row.exchanges))

    def _print_json(self, tally: Tally) -> None:
        import msgspec

        from captures.exchanges import rfc3339

        shape: dict[str, Any] = {"captures": list(self.files)}
        if not self.quick:
            shape |= {
                "exchanges": tally.exchanges,
                "first": None if tally.first is None else rfc3339(tally.first),
                "last": None if tally.first is None else rfc3339(tally.last),
            }
        made = {
            "api": ("apis", self.apis.to_json),
            "error": ("errors", self.errors.to_json),
            "client": ("clients", self.clients.to_json),
            "topic": ("topics", self.topics.to_json),
            "connection": ("connections", lambda: [row.to_json() for row in self._connections()]),
            "throttle": ("throttling", self.throttling.to_json),
        }
        for table in self.tables:
            name, rows = made[table]
            shape[name] = rows()
        sys.stdout.buffer.write(msgspec.json.encode(shape) + b"\n")

    def _print_tables(self, tally: Tally) -> None:
        width = shutil.get_terminal_size().columns if self.terminal else None
        limit = None if self.show_all else _ROWS_IN_OVERVIEW if self.overview else _ROWS_OF_ONE
        if not self.quick:
            click.echo(tally.sentence(self._captures))
            if tally.first is not None:
                begin, end = clock(tally.first, self.zone), clock(tally.last, self.zone)
                click.echo(f"{begin} to {end} {zone_name(tally.first, self.zone)}")
        for name in self.tables:
            table = self._table(name)
            if table.rows:
                click.echo()
                for line in table.lines(width, limit, color=self.color):
                    click.echo(line)
            elif not self.overview:
                click.echo(f"\n{table.title}: none")

    def _table(self, name: str) -> Table:
        from kproxy.cli import stats_tables as tables

        match name:
            case "api":
                return tables.api_table(self.apis.result(), waits_known=not self.quick)
            case "error":
                return tables.error_table(self.errors.result())
            case "client":
                return tables.client_table(self.clients.result())
            case "topic":
                return tables.topic_table(self.topics.result(), partitions=not self.overview)
            case "connection":
                return tables.connection_table(self._connections(), self.zone, story=not self.overview)
            case _:
                return tables.throttle_table(self.throttling.result())
