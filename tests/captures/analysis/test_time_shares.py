"""The breakdown of exchange times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from captures.analysis.percentiles import Percentiles
from captures.analysis.time_shares import ShareRow, TimeShares
from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture
from captures.exchanges.columns import ExchangeColumns
from captures.json_objects import to_json
from tests.captures.analysis.kit import MS, exchange, unanswered
from tests.captures.analysis.row_shares import RowShares
from tests.captures.packets.kit import Conversation, pcap
from tests.conftest import DATA

CLEAN = Path(__file__).resolve().parents[2] / "data" / "clean"
SAMPLES = Path(__file__).resolve().parents[3] / "captures" / "samples"
BATCH_OF_TEN = (
    b"\0" * 8  # base offset 0, as clients send it
    + (49).to_bytes(4, "big")  # length of what follows
    + (0).to_bytes(4, "big")  # length of the rest
    + b"\x02"  # magic
    + b"\0" * 4  # CRC, not checked here
    + b"\0" * 2  # attributes
    + (9).to_bytes(4, "big")  # last offset delta
    + b"\0" * 16  # timestamps
    + b"\xff" * 14  # producer ID, epoch, sequence
    + (10).to_bytes(4, "big")  # records
)
"""A record batch v2 without its records (DefaultRecordBatch.java)."""


@pytest.fixture
def capture(tmp_path: Path) -> Capture:
    """Connections with a handshake of 1 ms."""
    conversation = Conversation()
    conversation.handshake()
    for each in (Conversation(client=("10.0.0.1", 40001)), Conversation(client=("10.0.0.1", 40002))):
        each.handshake()
        conversation.records += each.records
    path = tmp_path / "one.pcap"
    path.write_bytes(pcap(list(conversation.records)))
    return read(path)


def read(*paths: Path) -> Capture:
    found = open_capture([str(path) for path in paths])
    found.read()
    return found


def told(shares: RowShares, *exchanges: Exchange) -> dict[str, ShareRow]:
    for each in exchanges:
        shares.add(each)
    return {row.api: row for row in shares.result()}


def only(share: Percentiles | None) -> int:
    assert share is not None
    assert share.count == 1
    return share.total


def test_a_latency_is_taken_apart(capture: Capture) -> None:
    slow = exchange(
        12, 4, latency=20 * MS, wait=12 * MS, wait_reason="a reason", response={"throttle_time_ms": 0}
    )
    found = told(RowShares(capture, lambda _: None), slow)["Heartbeat"]
    assert only(found.latency) == 20 * MS
    assert only(found.waited) == 12 * MS
    assert found.wait_reasons == {"a reason": 12 * MS}
    assert only(found.network) == 1 * MS
    assert only(found.broker) == 8 * MS - 1 * MS
    assert found.followers is found.paused is found.throttled is found.client is None


def test_who_only_waited_tells_nothing_of_the_broker(capture: Capture) -> None:
    poll = exchange(1, 11, latency=500 * MS, wait=500 * MS, wait_reason="long poll", response={})
    assert told(RowShares(capture, lambda _: None), poll)["Fetch"].broker is None


def test_a_response_that_is_quicker_than_the_network_is_not_less_than_nothing(capture: Capture) -> None:
    found = told(RowShares(capture, lambda _: None), exchange(12, 4, latency=100_000, response={}))[
        "Heartbeat"
    ]
    assert only(found.network) == 100_000
    assert only(found.broker) == 0


def test_quotas(capture: Capture) -> None:
    first = exchange(1, 11, number=1, time=0, latency=2 * MS, response={"throttle_time_ms": 50})
    second = exchange(1, 11, number=2, time=12 * MS, latency=43 * MS, response={"throttle_time_ms": 0})
    found = told(RowShares(capture, lambda _: None), first, second)["Fetch"]
    assert only(found.throttled) == 50 * MS
    assert only(found.paused) == 40 * MS, "the connection was paused up to 52 ms"


def test_the_client_is_measured_where_it_has_nothing_under_way(capture: Capture) -> None:
    found = told(
        RowShares(capture, lambda _: None),
        exchange(12, 4, number=1, time=0, latency=10 * MS, response={}),
        exchange(3, 9, number=2, time=30 * MS, latency=10 * MS, response={}),
        exchange(3, 9, number=3, time=35 * MS, latency=10 * MS, response={}),  # sent before the answer
        unanswered(3, 9, number=4, time=60 * MS),
        exchange(12, 4, number=5, time=90 * MS, latency=10 * MS, response={}),
        exchange(12, 4, number=6, time=95 * MS, latency=10 * MS, response={}, connection=1),
    )
    assert only(found["Heartbeat"].client) == 20 * MS
    assert only(found["Metadata"].client) == 15 * MS


def produce(time: int, latency: int, acks: int = -1) -> Exchange:
    topic: dict[str, Any] = {"name": "t", "partition_data": [{"index": 0, "records": BATCH_OF_TEN}]}
    answer = {"name": "t", "partition_responses": [{"index": 0, "error_code": 0, "base_offset": 100}]}
    return exchange(
        0,
        9,
        time=time,
        latency=latency,
        request={"acks": acks, "topic_data": [topic]},
        response={"responses": [answer]},
    )


def fetch(time: int, replica: int, offset: int) -> Exchange:
    partitions = [{"partition": 0, "fetch_offset": offset}]
    request = {"replica_id": replica, "topics": [{"topic": "t", "partitions": partitions}]}
    return exchange(1, 11, time=time, request=request, response={}, connection=1)


def test_a_produce_waits_for_its_followers(capture: Capture) -> None:
    found = told(
        RowShares(capture, lambda _: None),
        fetch(0, 2, 100),
        fetch(1 * MS, 3, 100),
        produce(2 * MS, 20 * MS),
        fetch(8 * MS, 2, 110),
        fetch(17 * MS, 3, 110),
        fetch(40 * MS, 2, 110),
    )["Produce"]
    assert only(found.followers) == 15 * MS
    assert only(found.broker) == 5 * MS - 1 * MS


@pytest.mark.parametrize("acks", [0, 1])
def test_a_produce_that_asks_for_none_does_not(capture: Capture, acks: int) -> None:
    found = told(
        RowShares(capture, lambda _: None),
        fetch(0, 2, 100),
        produce(2 * MS, 20 * MS, acks),
        fetch(8 * MS, 2, 110),
    )
    assert found["Produce"].followers is None


def test_consumers_are_no_followers(capture: Capture) -> None:
    found = told(
        RowShares(capture, lambda _: None),
        fetch(0, -1, 100),
        produce(2 * MS, 20 * MS),
        fetch(8 * MS, -1, 110),
    )
    assert found["Produce"].followers is None


def test_a_real_cluster() -> None:
    capture = read(*(CLEAN / f"26_k430_steady_{side}.pcap.zst" for side in ("clients", "interbroker")))
    reader = ExchangeReader(capture, annotate=False, summary=False)
    found = told(RowShares(capture, reader.knowledge.topic_name), *reader)
    produced = found["Produce"]
    assert produced.followers is not None
    assert produced.latency is not None
    assert produced.followers.max < produced.latency.max
    polls = found["Fetch"]
    assert polls.waited is not None
    assert polls.broker is not None
    assert polls.broker.p50 < 10 * MS < 400 * MS < polls.waited.p50


def test_asking_twice_gives_the_same() -> None:
    capture = read(SAMPLES / "rebalance.pcap")
    shares = RowShares(capture, lambda _: None)
    for each in ExchangeReader(capture, annotate=False, summary=False):
        shares.add(each)
    assert to_json(shares.result()) == to_json(shares.result())
    assert {row["api"] for row in to_json(shares.result())} >= {"Fetch", "JoinGroup", "Heartbeat"}


CAPTURES = sorted(
    path for folder in ("findings", "groups", "captures") for path in (DATA.parent / folder).glob("*.pcap*")
)


@pytest.mark.sample(4)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_columns_give_what_exchanges_give(path: Path) -> None:
    capture = open_capture(str(path))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    reader.learn(len(reader))
    indexes = np.arange(len(reader))
    by_columns, one_by_one = (kind(capture, reader.knowledge.topic_name) for kind in (TimeShares, RowShares))
    by_columns.add_columns(ExchangeColumns(capture, reader.rows), reader, indexes)
    for each in reader.several(indexes.tolist()):
        one_by_one.add(each)
    assert by_columns.result() == one_by_one.result()
