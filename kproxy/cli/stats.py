"""``kproxy stats``: statistics of a capture, in tables."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from captures.time_format import clock, zone_name
from kproxy.cli.capture_run import CaptureRun, print_notes
from kproxy.cli.command import option, options
from kproxy.cli.common import filter_option, with_progress
from kproxy.cli.options import FilterString, JobsOption, ReadingOptions, ReportOptions, TimeOptions, UtcOption
from kproxy.cli.selection import ExchangeSelection

if TYPE_CHECKING:
    from captures.analysis.api_stats import ApiStats
    from captures.analysis.client_stats import ClientStats
    from captures.analysis.connection_stats import ConnectionRow, ConnectionStats
    from captures.analysis.error_stats import ErrorStats
    from captures.analysis.throttling import ThrottleStats
    from captures.analysis.time_shares import TimeShares
    from captures.analysis.topic_stats import TopicRow, TopicStats
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from kproxy.text.blocks import Block
    from kproxy.text.summary import Tally
    from kproxy.text.tables import Table

_Result = tuple[str, Callable[[], list[Any]], "Callable[[list[Any]], Table]"]

OVERVIEW = ("api", "error", "client", "topic", "connection", "throttle")
TABLES = (*OVERVIEW, "latency")

_SOFTWARE = ("software_name", "software_version")
_COLUMNS = {
    "api": ("wait", "throttle_time_ms"),
    "client": _SOFTWARE,
    "topic": ("flow_topics", "replica_id"),
    "connection": _SOFTWARE,
    "throttle": ("throttle_time_ms", "response_told"),
    "latency": ("wait", "throttle_time_ms", "replica_id"),
}
"""Columns of messages that a table needs, besides those for counting."""
_ROWS_IN_OVERVIEW = 10
_ROWS_OF_ONE = 40


@options
class StatsOptions(UtcOption, ReportOptions, ReadingOptions, JobsOption, TimeOptions):
    """Options of ``kproxy stats``."""

    tables: tuple[str, ...] = option(
        "--by",
        type=click.Choice(TABLES),
        help="Show this table in full; may be given several times. Default: a short form of all but latency.",
    )
    wanted: FilterString | None = option(
        "-Y", "--filter", help="Count only exchanges that match, such as 'api == Fetch'."
    )
    show_all: bool = option("--all", help="Show every row.")
    as_json: bool = option("--json", help="Print one JSON object (docs/json-stats.md).")
    quick: bool = option(
        "--quick",
        help="Show only APIs, from frame headers: counts, bytes, latency. For huge captures: bodies are not decoded, "
        "so errors do not show and latency includes designed waits.",
    )


class StatsRun(CaptureRun[StatsOptions], short_help="Show statistics of a capture."):
    """Show statistics of the Kafka traffic in CAPTURE...

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    \b
    api         per API and version: counts, errors, bytes, latency percentiles
    error       per error: how often, which clients, and an exchange to look at
    client      per client ID: software, principal, addresses, counts
    topic       per topic and partition: bytes and records, producers, consumers
    connection  per TCP connection: number, software, SASL, versions, trouble, how it ended
    throttle    per client and API: quotas at work
    latency     per API, split: broker, designed waits, followers, quotas, network, client

    Latency is broker time plus network. Waits by design (a Fetch for records, a JoinGroup for members) are shown
    separately.
    """

    def __init__(self, options: StatsOptions) -> None:
        from captures.analysis.api_stats import ApiStats
        from captures.analysis.client_stats import ClientStats
        from captures.analysis.error_stats import ErrorStats
        from captures.analysis.throttling import ThrottleStats

        quick, tables = options.quick, options.tables
        if quick and set(tables) - {"api"}:
            raise click.UsageError("--quick shows APIs only: everything else needs bodies")
        super().__init__(options)
        self.overview = not tables and not quick
        self.tables = ("api",) if quick else tuple(dict.fromkeys(tables)) or OVERVIEW
        zone = self.reading.zone
        self.selecting = ExchangeSelection(
            filter_option(options.wanted, zone), options.begin, options.end, zone
        )
        if quick and self.selecting.wanted is not None and self.selecting.wanted.needs_bodies:
            raise click.UsageError("--quick decodes no bodies, which this filter needs")
        self.apis: ApiStats = ApiStats()
        self.errors: ErrorStats = ErrorStats()
        self.clients: ClientStats = ClientStats()
        self.topics: dict[str, TopicStats] = {}
        """By member of :attr:`~captures.analysis.clusters.Clusters.parts`."""
        self.throttling: ThrottleStats = ThrottleStats()
        self.shares: TimeShares
        self._reader: ExchangeReader | None = None

    def run(self) -> None:
        from captures.analysis.connection_stats import ConnectionStats
        from captures.analysis.time_shares import TimeShares

        capture = self.reading.capture()
        tally = self.reading.tally
        connections = ConnectionStats(capture)
        self.shares = TimeShares(capture, self._topic_name)
        if self.options.quick:
            self._add_columns(capture)
            print_notes(capture)
        else:
            self._add(capture, connections, tally)
            self.conclude(capture, printed=not self.options.as_json, wanted=self.selecting.wanted)
        results = self._results(self._connection_rows(capture, connections))
        result = self._result(capture, tally, results) if self.as_json else None
        self.answer(result, blocks=self._blocks(capture, tally, results))

    # ------------------------------------------------------------ adding up
    def _topic_rows(self) -> list[TopicRow]:
        from msgspec import UNSET

        return [
            replace(row, cluster=part or UNSET)
            for part, stats in self.topics.items()
            for row in stats.result()
        ]

    def _add(self, capture: Capture, connections: ConnectionStats, tally: Tally) -> None:
        from captures.analysis.decision_columns import DecisionColumns
        from captures.analysis.exchange_groups import COUNTED, exchange_groups
        from captures.analysis.topic_stats import TopicStats
        from captures.exchanges.columns import ExchangeColumns
        from dissectors.api_keys import ApiKey

        reader = self._reader = self.reading.reader(capture)
        indexes = self.selecting.indexes(capture, reader)
        columns = ExchangeColumns(capture, reader.rows[indexes], names=self._topic_name)
        needed = [*COUNTED, *(name for table in self.tables for name in _COLUMNS.get(table, ()))]
        filled = columns.preparing(needed)
        deque(with_progress(filled, lambda rows: rows, len(columns), "adding up"), maxlen=0)
        groups = exchange_groups(columns)
        for group in groups:
            tally.count(group)
        reader.learn(len(reader))
        failed = columns.ragged("error_codes").filled | columns.ragged("expected_error_codes").filled
        numbers = indexes + reader.first

        def with_errors(add: Callable[[Exchange], None]) -> None:
            for exchange in reader.several(indexes[failed].tolist()):
                add(exchange)

        def by_group(stats: ClientStats | ConnectionStats) -> None:
            for group in groups:
                stats.count(group)

        def of_topics() -> None:
            clusters = self.reading.clusters(reader)
            for part, rows in clusters.rows_of(columns.flat("connection")):
                self.topics[part] = TopicStats(self._topic_name)
                self.topics[part].add_columns(columns, rows)
            with_errors(lambda each: self.topics[clusters.part_of(each.connection)].add_errors(each))

        by_table: dict[str, Callable[[], None]] = {
            "api": lambda: self.apis.add_columns(columns, groups=groups),
            "error": lambda: with_errors(self.errors.add),
            "client": lambda: by_group(self.clients),
            "topic": of_topics,
            "connection": lambda: by_group(connections),
            "throttle": lambda: self.throttling.add_columns(columns, numbers),
            "latency": lambda: self.shares.add_columns(columns, reader, indexes),
        }
        for table in self.tables:
            capture.faults.contained(by_table[table], f"the table {table}", None)
        introduced: dict[str, ClientStats | ConnectionStats] = {
            "client": self.clients,
            "connection": connections,
        }
        introduce = []
        for table, stats in introduced.items():
            if table not in self.tables:
                continue
            doing = f"the table {table}"
            capture.faults.contained(partial(stats.introductions.add_software, columns), doing, None)
            introduce.append(capture.faults.guarded(stats.introduce, doing))
        rows = DecisionColumns(columns)
        falling_back = rows.of_api({ApiKey.API_VERSIONS}) & (columns.flat("guessed") > 0)
        introducing = (rows.authenticating | falling_back) & bool(introduce)
        for exchange in reader.several(indexes[introducing].tolist()):
            for add in introduce:
                add(exchange)

    def _add_columns(self, capture: Capture) -> None:
        from captures.exchanges.columns import ExchangeColumns

        chosen = self.selecting.rows(capture)
        if self.selecting.wanted is not None:
            from captures.filters import Context, TableColumns

            columns = TableColumns.of(capture)
            chosen &= self.selecting.wanted.mask(columns, Context(start=columns.start)).matches
        self.apis.add_columns(ExchangeColumns(capture, chosen.nonzero()[0]), bodies=False)

    def _topic_name(self, topic_id: str) -> str | None:
        return None if self._reader is None else self._reader.knowledge.topic_name(topic_id)

    # ------------------------------------------------------------ results
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

    def _results(self, connections: list[ConnectionRow]) -> dict[str, _Result]:
        """Return the key in JSON, the rows and the text of each table."""
        from kproxy.text import stats as tables

        names, zone, overview = self.reading.names, self.reading.zone, self.overview
        apis = partial(tables.api_table, waits_known=not self.options.quick)
        topics = partial(tables.topic_table, names=names, partitions=not overview)
        of_connections = partial(tables.connection_table, names=names, zone=zone, story=not overview)
        return {
            "api": ("apis", self.apis.result, apis),
            "error": ("errors", self.errors.result, partial(tables.error_table, names=names)),
            "client": ("clients", self.clients.result, partial(tables.client_table, names=names)),
            "topic": ("topics", self._topic_rows, topics),
            "connection": ("connections", lambda: connections, of_connections),
            "throttle": ("throttling", self.throttling.result, partial(tables.throttle_table, names=names)),
            "latency": ("time_shares", self.shares.result, tables.latency_table),
        }

    def _result(self, capture: Capture, tally: Tally, results: dict[str, _Result]) -> dict[str, Any]:
        from captures.json_objects import to_json
        from kproxy.cli.results import Statistics

        shown = Statistics(self.reading.files, self._names_found(capture))
        if not self.options.quick:
            shown.exchanges, shown.first, shown.last = tally.exchanges, tally.first, tally.last
        shape: dict[str, Any] = to_json(shown)
        for table in self.tables:  # in the order requested
            key, rows, _ = results[table]
            shape[key] = capture.faults.contained(rows, f"the table {table}", [])
        return shape

    def _names_found(self, capture: Capture) -> dict[str, list[str]]:
        """Return the names of addresses in the capture, for those that have any."""
        names = self.reading.names
        ends = {
            end for connection in range(len(capture.connections)) for end in capture.endpoints(connection)
        }
        hosts = sorted({end.rpartition(":")[0] for end in ends}) if names else []
        return {host: list(found) for host in hosts if (found := names.of_host(host))}

    def _blocks(self, capture: Capture, tally: Tally, results: dict[str, _Result]) -> Iterator[Block]:
        from kproxy.text.blocks import BLANK, Paragraph

        if not self.options.quick:
            zone = self.reading.zone
            yield Paragraph(tally.sentence(capture, self.selecting.wanted), whole=True)
            if tally.first is not None:
                begin, end = clock(tally.first, zone), clock(tally.last, zone)
                yield Paragraph(f"{begin} to {end} {zone_name(tally.first, zone)}")
        for name in self.tables:
            _, rows, shown = results[name]
            table = capture.faults.contained(partial(_made, rows, shown), f"the table {name}", None)
            if table is not None and table.rows:
                of_one = _ROWS_IN_OVERVIEW if self.overview else _ROWS_OF_ONE
                table.most = None if self.options.show_all else of_one
                yield from (BLANK, table)
            elif table is not None and not self.overview:
                yield from (BLANK, Paragraph(f"{table.title}: none"))


def _made(rows: Callable[[], list[Any]], table: Callable[[list[Any]], Table]) -> Table:
    return table(rows())
