"""The figures of a report's statements in DuckDB, and their equality in Spark SQL."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from captures.analysis.api_stats import ApiStats
from captures.exchanges import ExchangeReader, open_capture
from captures.export.report import statements
from captures.export.report.database import Statement, Tables
from captures.tables.options import TablesOptions
from captures.tables.single import write_tables
from tests.captures.export.report import samples
from tests.captures.export.report.kit import SECOND, at, exchange, failed, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MILLISECOND = 1_000_000
SAMPLE = Path(__file__).parents[4] / "captures" / "samples" / "rebalance.pcap"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.whole(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def tables(folder: Path) -> Iterator[Tables]:
    with Tables(folder) as opened:
        yield opened


def every() -> dict[str, Statement]:
    """All statements; those over time have slices of 10 s."""
    found = {name: each for name, each in vars(statements).items() if isinstance(each, Statement)}
    width = 10 * SECOND
    return found | {
        "bounds": statements.bounds(["exchanges", "rebalances"]),
        "traffic": statements.traffic(width),
        "latency": statements.latency(width),
        "latency_by_api": statements.latency_by_api(),
        "heat": statements.heat(width, 5),
        "errors": statements.errors(width),
        "openings": statements.openings(width),
    }


@pytest.mark.slow
def test_every_statement_finds_the_columns_that_it_names(tables: Tables) -> None:
    for name, statement in every().items():
        assert tables.missing(statement) == [], name
        assert tables.rows(statement), name


def test_the_summary_counts(tables: Tables) -> None:
    (row,) = tables.rows(statements.SUMMARY)
    made = samples.exchanges()
    assert row["exchanges"] == len(made) == 461
    assert (row["first_ns"], row["last_ns"]) == (at(1 / 3), at(100))
    assert row["bytes"] == sum(each["request_size"] + each["response_size"] for each in made)
    assert (row["with_errors"], row["unanswered"], row["orphans"], row["records"]) == (9, 1, 0, 3000)
    assert (row["apis"], row["brokers"], row["client_ids"], row["connections"]) == (5, 1, 3, 2)
    assert tables.rows(statements.LOST) == [{"lost": 500, "cut": 0}]


def test_traffic_is_all_exchanges_by_slice_and_api(tables: Tables) -> None:
    width = 10 * SECOND
    counted: Counter[tuple[int, str]] = Counter()
    sizes: Counter[tuple[int, str]] = Counter()
    for each in samples.exchanges():
        key = each["time_ns"] // width * width, each["api"]
        counted[key] += 1
        sizes[key] += each["request_size"] + each["response_size"]
    rows = tables.rows(statements.traffic(width))
    assert {(row["slice_ns"], row["api_name"]): row["exchanges"] for row in rows} == counted
    assert {(row["slice_ns"], row["api_name"]): row["bytes"] for row in rows} == sizes


def test_seldom_apis_are_put_together(tmp_path: Path) -> None:
    rows = [exchange(n, n, f"Api#{n // 10}") for n in range(1, 200)]
    with Tables(write(tmp_path, exchanges=rows)) as opened:
        found = opened.rows(statements.traffic(1000 * SECOND))
    names = {row["api_name"] for row in found}
    assert len(names) == statements.COLOURS + 1
    assert sum(row["exchanges"] for row in found) == 199
    assert sum(row["exchanges"] for row in found if row["api_name"] == "other") == 199 - 70


def test_percentiles_are_of_what_was_not_waited_by_design(tables: Tables) -> None:
    rows = {row["api"]: row for row in tables.rows(statements.latency_by_api())}
    produce, fetch = rows["Produce"], rows["Fetch"]
    assert produce["exchanges"] == 308
    assert [produce[name] / MILLISECOND for name in ("p50_ns", "p95_ns", "p99_ns", "longest_ns")] == [
        2,
        2,
        3,
        3,
    ]
    assert produce["spent_ns"] == (300 * 2 + 8 * 3) * MILLISECOND
    assert (fetch["exchanges"], fetch["p50_ns"]) == (50, 40 * MILLISECOND)  # without the 100 that only waited
    assert "Metadata" not in rows  # it was not answered
    assert list(rows)[:2] == ["Fetch", "Produce"]  # by the time spent


@pytest.mark.slow
def test_percentiles_are_near_those_by_rank(tmp_path: Path) -> None:
    chosen = random.Random(9)
    latencies = [int(10 ** chosen.uniform(4, 10)) for _ in range(2000)]
    rows = [
        exchange(n, n / 100, latency_ns=each, designed_wait_ns=each // 3)
        for n, each in enumerate(latencies, 1)
    ]
    with Tables(write(tmp_path, exchanges=rows)) as opened:
        (row,) = opened.rows(statements.latency(10**6 * SECOND))
    left = sorted(each - each // 3 for each in latencies)
    for percent in (50, 95, 99):
        exact = left[ceil(len(left) * percent / 100) - 1]
        assert exact <= row[f"p{percent}_ns"] <= exact * 1.024
        assert row[f"p{percent}_ns"] in left
    assert (row["shortest_ns"], row["longest_ns"], row["exchanges"]) == (left[0], left[-1], 2000)


def test_latencies_of_nothing_and_less_are_counted(tmp_path: Path) -> None:
    rows = [exchange(1, 0, latency_ns=0), exchange(2, 0, latency_ns=-5), exchange(3, 0, latency_ns=10)]
    with Tables(write(tmp_path, exchanges=rows)) as opened:
        found = opened.rows(statements.heat(SECOND, 5))
    assert {row["step"]: row["exchanges"] for row in found} == {0: 2, 5: 1}


def test_the_heat_map_has_every_exchange_once(tables: Tables) -> None:
    rows = tables.rows(statements.heat(10 * SECOND, 5))
    assert sum(row["exchanges"] for row in rows) == 308 + 50 + 2
    steps: Counter[int] = Counter()
    for row in rows:
        steps[row["step"]] += row["exchanges"]
    assert steps == {30: 2, 31: 300, 32: 8, 38: 50}  # 1, 2, 3 and 40 ms: 5 * log10 of the ns


def test_errors_are_those_that_are_not_expected(tables: Tables) -> None:
    rows = tables.rows(statements.errors(10 * SECOND))
    assert [(row["slice_ns"] - at(0), row["error_name"], row["exchanges"]) for row in rows] == [
        (60 * SECOND, "NOT_LEADER_OR_FOLLOWER", 8),
        (70 * SECOND, "REBALANCE_IN_PROGRESS", 1),
    ]
    first, second = tables.rows(statements.ERROR_TABLE)
    assert (first["error"], first["api"], first["exchanges"], first["number"]) == (
        *("NOT_LEADER_OR_FOLLOWER", "Produce"),
        *(8, 451),
    )
    assert (first["first_ns"], first["last_ns"], first["of_all"]) == (at(61), at(68), 2)
    assert second["error"] == "REBALANCE_IN_PROGRESS"


def test_an_exchange_with_several_errors_counts_for_each(tmp_path: Path) -> None:
    rows = [failed(1, 1, "A", "B", "C", expected_errors=["C"]), failed(2, 2, "B")]
    with Tables(write(tmp_path, exchanges=rows)) as opened:
        found = opened.rows(statements.ERROR_TABLE)
    assert [(row["error"], row["exchanges"]) for row in found] == [("B", 2), ("A", 1)]


def test_rebalances_are_told_the_longest_first(tables: Tables) -> None:
    stories = tables.rows(statements.REBALANCE_STORIES)
    assert [row["trigger"] for row in stories] == [
        "unknown",
        "session_timeout",
        "member_left",
        "member_joined",
    ]
    billing, reports = tables.rows(statements.REBALANCE_GROUPS)
    assert (billing["group_id"], billing["rebalances"], billing["timeouts"]) == ("billing", 3, 1)
    assert (billing["total_ns"], billing["most_ns"]) == (16.5 * SECOND, 12 * SECOND)
    assert (billing["stopped"], billing["commit_failures"], reports["stopped"]) == (2, 1, 0)
    assert (reports["running"], reports["total_ns"]) == (1, None)


@pytest.mark.slow
def test_of_many_rebalances_the_longest_are_drawn(tmp_path: Path) -> None:
    rows = [
        {"time_ns": at(n), "group": f"g{n % 30:02}", "duration_ns": n, "trigger": "unknown"}
        for n in range(900)
    ]
    with Tables(write(tmp_path, rebalances=rows)) as opened:
        groups = opened.rows(statements.REBALANCE_GROUPS)
        bars = opened.rows(statements.REBALANCE_BARS)
    assert (len(groups), groups[0]["of_all"]) == (statements.MOST_GROUPS, 30)
    assert (len(bars), bars[0]["of_all"]) == (statements.MOST_BARS, 30 * statements.MOST_GROUPS)
    drawn = [n for n in range(900) if n % 30 < statements.MOST_GROUPS][-statements.MOST_BARS :]
    assert {row["duration_ns"] for row in bars} == set(drawn)


def test_talkers_come_by_bytes(tables: Tables) -> None:
    clients = tables.rows(statements.CLIENTS)
    assert [(row["who"], row["exchanges"], row["with_errors"]) for row in clients] == [
        ("shop", 308, 8),
        ("billing", 152, 1),
        ("app", 1, 0),
    ]
    assert clients[0]["total_bytes"] == 300 * 1100 + 8 * 150
    (broker,) = tables.rows(statements.BROKERS)
    assert (broker["who"], broker["connections"], broker["exchanges"]) == ("10.0.0.1:9092", 2, 461)
    assert tables.rows(statements.CONNECTIONS)[0]["connection"] == 1


def test_clients_without_an_id_are_told_by_their_host(tmp_path: Path) -> None:
    rows = [exchange(n, n, client_id=None, client=f"[::1]:{4000 + n}") for n in range(1, 4)]
    with Tables(write(tmp_path, exchanges=rows)) as opened:
        (row,) = opened.rows(statements.CLIENTS)
    assert (row["who"], row["hosts"], row["exchanges"]) == ("[::1]", 1, 3)


def test_topics_are_told_apart_by_who_reads(tables: Tables) -> None:
    orders, audit = tables.rows(statements.TOPICS)
    assert (orders["who"], orders["partitions"]) == ("orders", 3)
    assert (orders["produced"], orders["fetched"], orders["replicated"]) == (270_000, 240_000, 0)
    assert (orders["records_produced"], orders["records_fetched"]) == (3000, 2500)
    assert (audit["who"], audit["fetched"], audit["replicated"]) == ("audit", 0, 12_000)
    partitions = tables.rows(statements.PARTITIONS)
    assert [(row["who"], row["part"], row["total_bytes"]) for row in partitions] == [
        ("orders", 0, 330_000),
        ("orders", 1, 90_000),
        ("orders", 2, 90_000),
        ("audit", 7, 12_000),
    ]


def test_versions_are_of_clients_and_offers_beside_them(tables: Tables) -> None:
    rows = tables.rows(statements.VERSIONS)
    assert [(row["api"], row["version"], row["exchanges"], row["offered_max"]) for row in rows] == [
        ("Fetch", 11, 150, 17),
        ("Produce", 2, 1, 13),
        ("Produce", 9, 308, 13),
    ]
    libraries = tables.rows(statements.LIBRARIES)
    assert [(row["library_name"], row["release_name"], row["clients"]) for row in libraries] == [
        ("apache-kafka-java", "3.9.0", 1),
        ("librdkafka", "2.3.0", 1),
    ]
    (warning,) = tables.rows(statements.WARNINGS)
    assert (warning["warning"], warning["client_example"]) == (
        "Kafka 4 does not know this version",
        "billing",
    )


def test_findings_come_the_gravest_first(tables: Tables) -> None:
    rows = tables.rows(statements.FINDINGS)
    assert [row["severity"] for row in rows] == ["high", "medium", "low", "info"]
    assert rows[0]["evidence"] == [459, 460]


def test_tcp_is_told_by_direction_and_trouble(tables: Tables) -> None:
    clients, brokers = tables.rows(statements.DIRECTIONS)
    assert (clients["direction"], clients["payload"], clients["retransmitted"]) == ("client", 30_000, 2048)
    assert (brokers["lost"], brokers["resets"]) == (500, 1)
    troubled = tables.rows(statements.TROUBLED)
    assert [(row["connection"], row["direction"]) for row in troubled] == [(1, "client"), (3, "broker")]
    (trips,) = tables.rows(statements.ROUND_TRIPS)
    assert (trips["p50_ns"], trips["most_ns"], trips["connections"]) == (200_000, 300_000, 3)
    ended = {row["ended"]: row["connections"] for row in tables.rows(statements.openings(10 * SECOND))}
    assert ended == {"open": 1, "closed by client": 1, "reset by broker": 1}


@pytest.mark.slow
def test_a_capture_gives_the_figures_of_stats(tmp_path: Path) -> None:
    capture = open_capture([str(SAMPLE)])
    capture.read()
    stats = ApiStats()
    for each in ExchangeReader(capture, annotate=False, summary=False):
        stats.add(each)
    rows = stats.result()
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row.api] += row.broker_time.count if row.broker_time else 0
    write_tables([str(SAMPLE)], str(tmp_path / "out"), TablesOptions())
    with Tables(tmp_path / "out") as opened:
        found = {row["api"]: row for row in opened.rows(statements.latency_by_api())}
        (summary,) = opened.rows(statements.SUMMARY)
    assert {api: row["exchanges"] for api, row in found.items()} == {api: n for api, n in sums.items() if n}
    compared = [row for row in rows if row.broker_time and row.broker_time.count == sums[row.api]]
    assert len(compared) > 8  # APIs with only one version in use
    for row in compared:
        if row.broker_time:
            ours = found[row.api]
            assert ours["longest_ns"] == row.broker_time.max
            for percent in (50, 95, 99):
                exact = getattr(row.broker_time, f"p{percent}")
                assert exact <= ours[f"p{percent}_ns"] <= exact * 1.024
    assert summary["exchanges"] == sum(row.exchanges for row in rows)
    assert summary["with_errors"] == sum(row.errors for row in rows) == 8
    assert summary["bytes"] == sum(row.request_bytes + row.response_bytes for row in rows)


@pytest.fixture(scope="module")
def on_spark(spark: SparkSession, tables: Tables, folder: Path) -> SparkSession:
    """An interpreting session with the tables as views: for few rows, that is faster than compiling code."""
    session = spark.newSession()
    for name, value in (
        ("spark.sql.shuffle.partitions", "1"),
        ("spark.sql.codegen.wholeStage", "false"),
        ("spark.sql.codegen.factoryMode", "NO_CODEGEN"),
    ):
        session.conf.set(name, value)
    for name in tables.names:
        session.read.parquet(f"{folder}/{name}").createOrReplaceTempView(name)
    return session


@pytest.mark.parametrize("statement", every().values(), ids=every())
def test_spark_says_the_same(statement: Statement, on_spark: SparkSession, tables: Tables) -> None:
    found = [row.asDict() for row in on_spark.sql(statement.sql).collect()]
    ours = tables.rows(statement)
    if "ORDER BY" not in statement.sql:  # the rows of a UNION come in any order
        found, ours = (sorted(rows, key=str) for rows in (found, ours))
    assert found == ours
