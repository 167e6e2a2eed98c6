"""Ends of partitions, leaders, and the lag of groups and clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from captures.analysis.positions import Position, Positions
from captures.exchanges import Exchange, ExchangeReader, open_capture
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.analysis.kit import exchange

DATA = Path(__file__).parents[2] / "data" / "findings"
ID = "lLiF-TMRRuSo8TJjkfl4vQ"


def learned(*exchanges: Exchange, names: dict[str, str] | None = None) -> dict[tuple[str, int], Position]:
    stats = Positions((names or {}).get)
    for each in exchanges:
        stats.add(each)
    return stats.result()


def fetch(offset: int, end: int, *, topic: dict[str, Any] | None = None, **fields: Any) -> Exchange:
    name = topic or {"topic": "orders"}
    asked = {"partition": 3, "fetch_offset": offset}
    told = {"partition_index": 3, "error_code": 0, "high_watermark": end, "log_start_offset": 5}
    return exchange(
        1,
        12,
        request={"replica_id": -1, "topics": [name | {"partitions": [asked]}]},
        response={"responses": [name | {"partitions": [told]}]},
        **fields,
    )


def commit(offset: int, code: int = 0) -> Exchange:
    asked = {"partition_index": 3, "committed_offset": offset}
    told = {"partition_index": 3, "error_code": code}
    return exchange(
        8,
        8,
        request={"group_id": "billing", "topics": [{"name": "orders", "partitions": [asked]}]},
        response={"topics": [{"name": "orders", "partitions": [told]}]},
    )


def test_fetches_tell_ends_and_positions() -> None:
    (position,) = learned(fetch(10, 12), fetch(12, 20)).values()
    assert (position.begin, position.end, position.fetched) == (5, 20, {"app": 12})
    assert position.lag(12) == 8
    assert position.lag(20) == 0
    assert position.lag(21) is None  # the known end is older


def test_an_end_that_is_out_of_date_tells_no_lag() -> None:
    (position,) = learned(fetch(10, 12), commit(30)).values()
    assert (position.end, position.committed) == (12, {"billing": 30})
    assert position.lag(10) is None


def test_followers_have_no_position() -> None:
    follower = fetch(10, 12)
    assert follower.request is not None
    follower.request.value["replica_id"] = 2
    (position,) = learned(follower).values()
    assert (position.end, position.fetched) == (12, {})


def test_errors_tell_nothing() -> None:
    failed = fetch(10, -1)
    assert failed.response is not None
    failed.response.value["responses"][0]["partitions"][0] |= {"error_code": 6, "high_watermark": 99}
    (position,) = learned(failed).values()
    assert position.end is None
    assert learned(commit(7, code=22)) == {}


def test_groups_commit_and_are_told() -> None:
    told = {"partition_index": 3, "committed_offset": 7, "error_code": 0}
    nothing = {"partition_index": 4, "committed_offset": -1, "error_code": 0}
    topics = [{"name": "orders", "partitions": [told, nothing]}]
    old = exchange(9, 5, request={"group_id": "audit"}, response={"topics": topics})
    new = exchange(9, 8, request={}, response={"groups": [{"group_id": "web", "topics": topics}]})
    found = learned(commit(9), old, new)
    assert found.keys() == {("orders", 3)}
    assert found["orders", 3].committed == {"billing": 9, "audit": 7, "web": 7}


def test_list_offsets_tells_the_end_if_it_was_asked_for() -> None:
    def listed(timestamp: int, **told: Any) -> Exchange:
        asked = {"partition_index": 3, "timestamp": timestamp}
        answered = {"partition_index": 3, "error_code": 0} | told
        return exchange(
            2,
            5,
            request={"topics": [{"name": "orders", "partitions": [asked]}]},
            response={"topics": [{"name": "orders", "partitions": [answered]}]},
        )

    assert learned(listed(-2, offset=4)) == {}
    assert learned(listed(-1, offset=44))["orders", 3].end == 44
    assert learned(listed(-1, old_style_offsets=[43, 0]))["orders", 3].end == 43


def test_metadata_tells_leaders_and_nodes() -> None:
    stats = Positions({}.get)
    brokers = [{"node_id": 2, "host": "b2", "port": 9092}]
    partition = {"partition_index": 3, "leader_id": 2}
    topics = [{"name": "orders", "partitions": [partition]}]
    stats.add(exchange(3, 9, request={}, response={"brokers": brokers, "topics": topics}))
    assert stats.result()["orders", 3].leader == 2
    assert stats.nodes == {2: "b2:9092"}


def test_what_comes_by_id_is_of_the_same_topic() -> None:
    names: dict[str, str] = {}
    stats = Positions(names.get)
    stats.add(fetch(1, 2, topic={"topic_id": ID}, client_id="early"))
    assert stats.result().keys() == {(ID, 3)}
    names[ID] = "orders"
    stats.add(fetch(4, 9, topic={"topic_id": ID}))
    (position,) = stats.result().values()
    assert (position.end, position.fetched) == (9, {"app": 4, "early": 1})


def produced(base: int, count: int, *, acks: int = -1, magic: Literal[1, 2] = 2) -> Exchange:
    records = bytes(build_batch([Record(place, 0, None, b"v", ()) for place in range(count)], magic=magic))
    return exchange(
        0,
        3,
        request={
            "acks": acks,
            "topic_data": [{"name": "orders", "partition_data": [{"index": 3, "records": records}]}],
        },
        response={
            "responses": [
                {
                    "name": "orders",
                    "partition_responses": [{"index": 3, "error_code": 0, "base_offset": base}],
                }
            ]
        },
    )


def test_records_that_all_replicas_have_tell_the_end() -> None:
    (position,) = learned(fetch(10, 12), produced(20, 5)).values()
    assert position.end == 25
    # an exchange that was answered later may have been sent earlier
    (position,) = learned(fetch(10, 40), produced(20, 5)).values()
    assert position.end == 40


def test_records_that_may_be_lost_yet_do_not() -> None:
    for sent in (produced(20, 5, acks=1), produced(20, 5, acks=0), produced(-1, 5), produced(20, 5, magic=1)):
        (position,) = learned(fetch(10, 12), sent).values()
        assert position.end == 12


def test_an_exchange_says_of_which_partitions_it_tells() -> None:
    stats = Positions({}.get)
    stats.add(exchange(3, 12))
    assert {update.tp for update in stats.updates(fetch(10, 12))} == {("orders", 3)}
    assert stats.result() == {}
    stats.add(fetch(10, 12))
    assert stats.result()["orders", 3].end == 12


def in_transaction(offset: int, *, code: int = 0, producer: str = "eos") -> Exchange:
    asked = {"partition_index": 3, "committed_offset": offset}
    told = {"partition_index": 3, "error_code": code}
    return exchange(
        28,
        3,
        request={
            "transactional_id": producer,
            "group_id": "billing",
            "topics": [{"name": "orders", "partitions": [asked]}],
        },
        response={"topics": [{"name": "orders", "partitions": [told]}]},
    )


def ended(*, committed: bool, code: int = 0, producer: str = "eos") -> Exchange:
    asked = {"transactional_id": producer, "committed": committed}
    return exchange(26, 3, request=asked, response={"error_code": code})


def begun(producer: str = "eos") -> Exchange:
    return exchange(22, 3, request={"transactional_id": producer}, response={"error_code": 0})


@pytest.mark.parametrize(
    ("exchanges", "committed"),
    [
        ([in_transaction(7)], 5),
        ([in_transaction(7), ended(committed=True)], 7),
        ([in_transaction(7), ended(committed=False)], 5),
        ([in_transaction(7), ended(committed=False), ended(committed=True)], 5),
        ([in_transaction(7), ended(committed=True, code=51), ended(committed=True)], 7),
        ([in_transaction(7, code=25), ended(committed=True)], 5),
        ([in_transaction(7), ended(committed=True, producer="another")], 5),
        ([in_transaction(7), begun(), ended(committed=True)], 5),
    ],
)
def test_offsets_of_a_transaction_count_once_it_is_committed(
    exchanges: list[Exchange], committed: int
) -> None:
    (position,) = learned(commit(5), *exchanges).values()
    assert position.committed == {"billing": committed}


def test_recorded_transactions() -> None:
    """Commits at 10 and 13, and an abort at 17 (scenario "consume-transform-produce" of the recording)."""
    capture = open_capture(str(DATA / "27_k391_tx_java_eos.pcap.zst"))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    stats = Positions(reader.knowledge.topic_name)
    for each in reader:
        stats.add(each)
    found = {place: known.committed.get("g-o-tx3") for place, known in stats.result().items()}
    assert (found["o-tx3-in", 0], found["o-tx3-in", 1]) == (10, 13)
