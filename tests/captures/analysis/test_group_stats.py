"""Groups: their requests and descriptions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from captures.analysis.group_stats import TAKEN, GroupRow, GroupStats
from captures.exchanges import Exchange, ExchangeReader, open_capture
from captures.exchanges.columns import ExchangeColumns
from tests.captures.analysis.kit import MS, error, exchange
from tests.conftest import DATA


def counted(*exchanges: Exchange) -> GroupRow:
    stats = GroupStats()
    for number, each in enumerate(exchanges, 1):
        each.number, each.time = number, number * 1_000 * MS
        stats.add(each)
    (row,) = stats.result()
    return row


def beat(member: str, code: int = 0) -> Exchange:
    request = {"group_id": "audit", "member_id": member, "generation_id": 7}
    errors = [error(code)] if code else []
    return exchange(12, 3, request=request, response={"error_code": code}, errors=errors)


def test_what_is_asked_of_a_group() -> None:
    joined = {"error_code": 0, "generation_id": 7, "member_id": "m1"}
    row = counted(
        exchange(11, 5, request={"group_id": "audit", "member_id": ""}, response=joined),
        *(beat("m1"), beat("m2", 27), beat("m2", 27)),
    )
    assert (row.exchanges, row.apis) == (4, {"JoinGroup": 1, "Heartbeat": 3})
    assert row.errors == {"REBALANCE_IN_PROGRESS": 2}
    # joining members are counted under the ID they are given
    assert row.members == {"m1": 2, "m2": 2}
    assert (row.first, row.last) == (1_000 * MS, 4_000 * MS)


def test_expected_errors_are_left_out() -> None:
    required = error(79)
    asked = {"group_id": "audit", "member_id": "", "protocols": []}
    told = {"error_code": 79, "generation_id": -1, "member_id": "m1"}
    row = counted(exchange(11, 4, request=asked, response=told, errors=[required], expected=[required]))
    assert row.errors == {}


def test_what_describing_tells() -> None:
    described = {
        "groups": [
            {"group_id": "audit", "error_code": 0, "group_state": "Stable", "protocol_type": "connect"},
            {"group_id": "other", "error_code": 16},
        ]
    }
    stats = GroupStats()
    stats.add(exchange(15, 5, request={"groups": ["audit", "other"]}, response=described))
    audit, other = stats.result()
    assert (audit.state, audit.protocol_type) == ("Stable", "connect")
    assert (other.state, other.exchanges) == ("", 1)
    listed = {"groups": [{"group_id": "audit", "group_state": "Empty", "group_type": "Consumer"}]}
    stats.add(exchange(16, 5, request={}, response=listed))
    assert (audit.state, audit.kind) == ("Empty", "consumer")


@pytest.mark.parametrize(
    "path", sorted((DATA.parent / "groups").glob("*.zst"))[::6], ids=lambda path: path.name.partition(".")[0]
)
def test_columns_count_what_exchanges_one_by_one_do(path: Path) -> None:
    capture = open_capture(str(path))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    by_columns, one_by_one = GroupStats(), GroupStats()
    columns = ExchangeColumns(capture, reader.rows)
    columns.prepare(TAKEN)
    by_columns.add_columns(columns, reader, np.arange(len(reader)))
    for each in reader.several(range(len(reader))):
        one_by_one.add(each)
    assert by_columns.result() == one_by_one.result()
    assert by_columns.result()
