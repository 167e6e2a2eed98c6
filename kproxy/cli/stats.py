"""``kproxy stats``: a capture to tables of figures."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.common import early_ends, filter_option, with_progress
from kproxy.cli.filtering import FILTER
from kproxy.cli.options import color_option, reading_options, time_options, utc_option
from kproxy.cli.printing import echo, echo_json, flush
from kproxy.cli.reading import Reading, colored, conclude, tell_notes, terminal_width
from kproxy.cli.selecting import Selecting
from kproxy.cli.times import clock, zone_name

if TYPE_CHECKING:
    from captures.analysis.api_stats import ApiStats
    from captures.analysis.client_stats import ClientStats
    from captures.analysis.connection_stats import ConnectionRow, ConnectionStats
    from captures.analysis.error_stats import ErrorStats
    from captures.analysis.throttling import ThrottleStats
    from captures.analysis.time_shares import TimeShares
    from captures.analysis.topic_stats import TopicStats
    from captures.exchanges import Capture, ExchangeReader
    from kproxy.cli.summary import Tally
    from kproxy.cli.tables import Table

OVERVIEW = ("api", "error", "client", "topic", "connection", "throttle")
TABLES = (*OVERVIEW, "latency")

_ROWS_IN_OVERVIEW = 10
_ROWS_OF_ONE = 40


@click.command(short_help="Show what a capture adds up to.")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="CAPTURE...")
@click.option(
    "--by",
    "tables",
    type=click.Choice(TABLES),
    multiple=True,
    help="Show this table in full breadth; may be given several times. Without it: all but latency, in short.",
)
@click.option(
    "-Y",
    "--filter",
    "wanted",
    type=FILTER,
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
@time_options
@reading_options
@utc_option
@color_option
def stats(files: tuple[str, ...], **options: Any) -> None:
    """Show what the Kafka traffic in CAPTURE... adds up to.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    \b
    api         per API and version: counts, errors, bytes, latency percentiles
    error       per error: how often, whose, and which exchange to look at
    client      per client ID: software, principal, addresses, counts
    topic       per topic and partition: bytes and records, who produces, who fetches
    connection  per TCP connection: number, software, SASL, versions, trouble, how it ended
    throttle    per client and API: quotas at work
    latency     per API: broker, designed waits, followers, quotas, network, client, told apart

    Latency is broker time and network. What Kafka waits by design (a Fetch for records, a JoinGroup for members) is
    shown apart from it.
    """
    run = Stats(files, **options)
    with early_ends():
        run.run()
    sys.exit(run.reading.exit_code(clean=run.clean))


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
        utc: bool,
        color: str,
        **reading: Any,
    ) -> None:
        from captures.analysis.api_stats import ApiStats
        from captures.analysis.client_stats import ClientStats
        from captures.analysis.error_stats import ErrorStats
        from captures.analysis.throttling import ThrottleStats
        from captures.analysis.topic_stats import TopicStats

        if quick and set(tables) - {"api"}:
            raise click.UsageError("--quick knows the APIs only: what else there is lies in bodies")
        self.reading = Reading(files, utc=utc, **reading)
        self.overview = not tables and not quick
        self.tables = ("api",) if quick else tuple(dict.fromkeys(tables)) or OVERVIEW
        self.show_all = show_all
        self.as_json = as_json
        self.quick = quick
        zone = self.reading.zone
        self.selecting = Selecting(filter_option(wanted, zone), begin, end, zone)
        if quick and self.selecting.wanted is not None and self.selecting.wanted.needs_bodies:
            raise click.UsageError("--quick decodes no bodies, which this filter needs")
        self.color = colored(color)
        self.clean = True
        self.apis: ApiStats = ApiStats()
        self.errors: ErrorStats = ErrorStats()
        self.clients: ClientStats = ClientStats()
        self.topics: TopicStats = TopicStats(self._topic_name)
        self.throttling: ThrottleStats = ThrottleStats()
        self.shares: TimeShares
        self._reader: ExchangeReader | None = None

    def run(self) -> None:
        """Read the capture, and print what it adds up to."""
        from captures.analysis.connection_stats import ConnectionStats
        from captures.analysis.time_shares import TimeShares
        from kproxy.cli.summary import Tally

        capture = self.reading.capture()
        tally = Tally()
        connections = ConnectionStats(capture)
        self.shares = TimeShares(capture, self._topic_name)
        if self.quick:
            self._add_columns(capture)
            tell_notes(capture)
        else:
            self._add(capture, connections, tally)
            self.clean = conclude(capture, tally, told=not self.as_json, wanted=self.selecting.wanted)
        rows = self._connection_rows(capture, connections)
        if self.as_json:
            self._print_json(capture, tally, rows)
        else:
            self._print_tables(capture, tally, rows)
        flush()

    # ------------------------------------------------------------ adding up
    def _add(self, capture: Capture, connections: ConnectionStats, tally: Tally) -> None:
        from captures.exchanges import ExchangeReader

        self._reader = ExchangeReader(capture, annotate=False, gist=False)
        by_table = {
            "api": self.apis.add,
            "error": self.errors.add,
            "client": self.clients.add,
            "topic": self.topics.add,
            "connection": connections.add,
            "throttle": self.throttling.add,
            "latency": self.shares.add,
        }
        guarded = capture.faults.guarded
        adding = [guarded(by_table[table], f"the table {table}") for table in self.tables]
        exchanges = self.selecting.exchanges(capture, self._reader)
        for exchange in with_progress(exchanges, lambda each: each.number, len(self._reader), "adding up"):
            tally.add(exchange)
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
        return None if self._reader is None else self._reader.knowledge.topic_name(topic_id)

    # ------------------------------------------------------------ what came of it
    def _connection_rows(self, capture: Capture, connections: ConnectionStats) -> list[ConnectionRow]:
        if "connection" not in self.tables:
            return []
        begin, end = self.selecting.bounds(capture)
        rows = [
            row
            for row in connections.result(begin=begin, end=end)
            if row.exchanges or self.selecting.wanted is None
        ]
        return sorted(rows, key=lambda row: (not row.troubled, -row.exchanges))

    def _print_json(self, capture: Capture, tally: Tally, connections: list[ConnectionRow]) -> None:

        from captures.exchanges import rfc3339

        shape: dict[str, Any] = {"captures": list(self.reading.files)}
        if not self.quick:
            shape |= {
                "exchanges": tally.exchanges,
                "first": None if tally.first is None else rfc3339(tally.first),
                "last": None if tally.first is None else rfc3339(tally.last),
            }
        shape["names"] = self._names_met(capture)
        made = {
            "api": ("apis", self.apis.to_json),
            "error": ("errors", self.errors.to_json),
            "client": ("clients", self.clients.to_json),
            "topic": ("topics", self.topics.to_json),
            "connection": ("connections", lambda: [row.to_json() for row in connections]),
            "throttle": ("throttling", self.throttling.to_json),
            "latency": ("time_shares", self.shares.to_json),
        }
        for table in self.tables:
            name, rows = made[table]
            nothing: list[Any] = []
            shape[name] = capture.faults.made(rows, f"the table {table}", nothing)
        echo_json(shape, wait=True)

    def _names_met(self, capture: Capture) -> dict[str, list[str]]:
        """Return the names of addresses in the capture, of those that have any."""
        names = self.reading.names
        ends = {
            end for connection in range(len(capture.connections)) for end in capture.endpoints(connection)
        }
        hosts = sorted({end.rpartition(":")[0] for end in ends}) if names else []
        return {host: list(found) for host in hosts if (found := names.of_host(host))}

    def _print_tables(self, capture: Capture, tally: Tally, connections: list[ConnectionRow]) -> None:
        width = terminal_width()
        limit = None if self.show_all else _ROWS_IN_OVERVIEW if self.overview else _ROWS_OF_ONE
        if not self.quick:
            zone = self.reading.zone
            echo(tally.sentence(capture))
            if tally.first is not None:
                begin, end = clock(tally.first, zone), clock(tally.last, zone)
                echo(f"{begin} to {end} {zone_name(tally.first, zone)}")
        for name in self.tables:
            made = partial(self._table, name, connections)
            table = capture.faults.made(made, f"the table {name}", None)
            if table is None:
                continue
            if table.rows:
                echo()
                for line in table.lines(width, limit, color=self.color):
                    echo(line)
            elif not self.overview:
                echo()
                echo(f"{table.title}: none")

    def _table(self, name: str, connections: list[ConnectionRow]) -> Table:
        from kproxy.cli import stats_tables as tables

        names = self.reading.names
        match name:
            case "api":
                return tables.api_table(self.apis.result(), waits_known=not self.quick)
            case "error":
                return tables.error_table(self.errors.result(), names)
            case "client":
                return tables.client_table(self.clients.result(), names)
            case "topic":
                return tables.topic_table(self.topics.result(), names, partitions=not self.overview)
            case "connection":
                return tables.connection_table(connections, names, self.reading.zone, story=not self.overview)
            case "latency":
                return tables.latency_table(self.shares.result())
            case _:
                return tables.throttle_table(self.throttling.result(), names)
