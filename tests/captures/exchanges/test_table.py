"""The exchange table's columns, numbering and memory."""

from __future__ import annotations

import numpy as np

from captures.exchanges import ExchangeTable, Flag
from captures.exchanges.table import NO_TIME, ROW_BYTES
from dissectors.sides import SIDES


def test_a_row_is_small() -> None:
    assert ROW_BYTES <= 120


def test_new_rows_know_nothing() -> None:
    table = ExchangeTable()
    where = table.append(2)
    assert (where, len(table)) == (slice(0, 2), 2)
    row = table.row(1)
    unknown = {name: row[name] for name in ("client_id", "api_key", "version")}
    assert set(unknown.values()) == {-1}
    times = {row[f"{side}_{end}"] for side in SIDES for end in ("first", "last")}
    assert times == {NO_TIME}
    assert row["flags"] == row["request_size"] == row["response_size"] == 0


def test_growth_keeps_what_was_written() -> None:
    table = ExchangeTable()
    for number in range(0, 5000, 100):
        table.set(table.append(100), correlation_id=np.arange(number, number + 100))
    assert table.column("correlation_id").tolist() == list(range(5000))
    table.mark([3, 4], Flag.UNANSWERED)
    table.mark(4, Flag.REQUEST_DAMAGED)
    assert table.column("flags")[2:6].tolist() == [0, 1, 17, 0]
    assert Flag(int(table.row(4)["flags"])).names == ["unanswered", "request_damaged"]


def test_numbering_follows_the_capture() -> None:
    """In order of the first byte; several requests in one packet in their order there."""
    table = ExchangeTable()
    table.set(
        table.append(4), packet=[900, 100, 500, 100], connection=[0, 2, 1, 1], request_position=[0, 8, 0, 9]
    )
    assert table.order().tolist() == list(table) == [3, 1, 2, 0]


def test_client_ids_are_kept_once() -> None:
    table = ExchangeTable()
    numbers = [table.client_number(name) for name in (b"a", None, b"a", b"", b"\xff", None)]
    assert numbers == [0, 1, 0, 2, 3, 1]
    assert table.client_ids == ["a", None, "", "\ufffd"]
