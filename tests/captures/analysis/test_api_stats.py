"""Figures by API and version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from captures.analysis.api_stats import PAUSED, ApiStats
from captures.exchanges import Capture, ExchangeTable, Flag
from captures.exchanges.columns import ExchangeColumns
from captures.json_objects import to_json
from tests.captures.analysis.kit import MS, error, exchange, unanswered


def test_versions_of_an_api_are_counted_apart_and_the_most_frequent_comes_first() -> None:
    stats = ApiStats()
    for version in (9, 12, 12):
        stats.add(exchange(3, version))
    assert [(row.api, row.version, row.exchanges) for row in stats.result()] == [
        ("Metadata", 12, 2),
        ("Metadata", 9, 1),
    ]


def test_errors_that_are_expected_are_counted_apart() -> None:
    stats = ApiStats()
    routine, trouble = error(79), error(27)
    stats.add(exchange(11, 9, errors=[routine], expected=[routine]))
    stats.add(exchange(11, 9, errors=[trouble]))
    stats.add(exchange(11, 9, errors=[routine, trouble], expected=[routine]))
    (row,) = stats.result()
    assert (row.errors, row.expected_errors) == (2, 1)


def test_waits_are_taken_off_and_told() -> None:
    stats = ApiStats()
    stats.add(exchange(1, 18, latency=503 * MS, wait=500 * MS, wait_reason="long poll"))
    stats.add(exchange(1, 18, latency=4 * MS))
    (row,) = stats.result()
    assert row.latency.max == 503 * MS
    assert (row.broker_time.count, row.broker_time.p50, row.broker_time.max) == (2, 3 * MS, 4 * MS)
    assert (row.waited.count, row.waited.max) == (1, 500 * MS)
    assert row.wait_reasons == {"long poll": 1}


def test_an_exchange_that_only_waited_tells_no_broker_time() -> None:
    stats = ApiStats()
    stats.add(exchange(11, 9, latency=3000 * MS, wait=3000 * MS, wait_reason="members"))
    (row,) = stats.result()
    assert row.broker_time is None
    assert row.waited.count == row.latency.count == 1


def test_a_pause_of_the_connection_is_no_broker_time() -> None:
    stats = ApiStats()
    stats.add(exchange(0, 9, time=0, response={"throttle_time_ms": 1000}))
    stats.add(exchange(0, 9, time=12 * MS, latency=993 * MS, response={"throttle_time_ms": 0}))
    (row,) = stats.result()
    assert row.wait_reasons == {PAUSED: 1}
    # answered at 2 ms, so paused until 1,002 ms
    assert (row.waited.max, row.broker_time.max, row.broker_time.count) == (990 * MS, 3 * MS, 2)


def test_what_has_no_latency_is_counted_without_one() -> None:
    stats = ApiStats()
    stats.add(unanswered())
    stats.add(exchange(latency=None, response_size=0, flag=Flag.NO_RESPONSE_EXPECTED))
    (row,) = stats.result()
    assert (row.exchanges, row.unanswered, row.no_response_expected) == (2, 1, 1)
    assert row.latency is None
    assert (row.request_bytes, row.response_bytes) == (200, 0)


def test_tokens_and_orphans_have_names_of_their_own() -> None:
    stats = ApiStats()
    stats.add(exchange(None, None, flag=Flag.SASL_TOKEN))
    stats.add(exchange(None, None, flag=Flag.ORPHAN, request_size=0, latency=None))
    assert {(row.api, row.api_key, row.version) for row in stats.result()} == {
        ("SaslToken", None, None),
        ("unknown", None, None),
    }


@pytest.fixture
def table() -> ExchangeTable:
    made = ExchangeTable()
    rows = made.append(5)
    made.set(
        rows,
        api_key=[0, 0, 18, -1, -1],
        version=[10, 10, -3, -1, -1],  # a version that was garbage on the wire keeps its own row
        flags=[0, Flag.UNANSWERED, 0, Flag.SASL_TOKEN, Flag.ORPHAN],
        request_size=[100, 200, 30, 40, 0],
        response_size=[50, 0, 60, 0, 70],
        request_last=[10, 20, 30, 40, -1],
        response_first=[14, -1, 37, -1, 99],
    )
    return made


def columns(table: ExchangeTable, rows: NDArray[np.int64]) -> ExchangeColumns:
    capture = SimpleNamespace(
        table=table, cache=None, endpoints=lambda connection: ("10.0.0.7:5000", "10.0.0.1:9092")
    )
    return ExchangeColumns(cast("Capture", capture), rows)


def test_columns_give_what_exchanges_give(table: ExchangeTable) -> None:
    by_columns, by_exchanges = ApiStats(), ApiStats()
    by_columns.add_columns(columns(table, np.arange(5)), bodies=False)
    by_exchanges.add(exchange(0, 10, latency=4))
    by_exchanges.add(unanswered(0, 10, request_size=200))
    by_exchanges.add(exchange(18, -3, latency=7, request_size=30, response_size=60))
    by_exchanges.add(
        exchange(None, None, flag=Flag.SASL_TOKEN, request_size=40, response_size=0, latency=None)
    )
    by_exchanges.add(exchange(None, None, flag=Flag.ORPHAN, request_size=0, response_size=70, latency=None))
    without_bodies = [row | {"broker_time": None} for row in to_json(by_exchanges.result())]
    assert to_json(by_columns.result()) == without_bodies


def test_only_the_rows_asked_for_are_counted(table: ExchangeTable) -> None:
    stats = ApiStats()
    stats.add_columns(columns(table, np.array([1])), bodies=False)
    (row,) = stats.result()
    assert (row.exchanges, row.unanswered, row.request_bytes) == (1, 1, 200)
