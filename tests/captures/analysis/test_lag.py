"""The lag of groups over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from captures.analysis import lag
from captures.analysis.lag import LEAST_SLICE, MOST_SLICES, NEEDED, LagOverTime, LagRow, LagStats, total
from captures.exchanges import Exchange, ExchangeReader, open_capture
from captures.exchanges.columns import ExchangeColumns
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.analysis.kit import MS, exchange
from tests.captures.recorded import CAPTURES, FOLDER

RECORDED = Path(__file__).parents[2] / "data" / "groups"
SECOND = 1_000_000_000
T0 = 1_790_000_000 * SECOND


def at(seconds: float) -> int:
    return T0 + round(seconds * SECOND)


def learned(*exchanges: Exchange) -> LagStats:
    stats = LagStats(lambda _: None)
    for number, each in enumerate(exchanges, 1):
        each.number = number
        stats.add(each)
    return stats


def row(*exchanges: Exchange) -> LagRow:
    (found,) = learned(*exchanges).result()
    return found


def joined(**fields: Any) -> Exchange:
    asked = {"group_id": "billing", "member_id": "m", "generation_id": 1}
    return exchange(12, 4, request=asked, response={"error_code": 0}, time=at(0), **fields)


def fetch(
    seconds: float, offset: int, end: int | None, *, took: float = 0.001, partition: int = 3, **fields: Any
) -> Exchange:
    told = {"partition_index": partition, "error_code": 0, "high_watermark": -1 if end is None else end}
    return exchange(
        1,
        12,
        request={
            "replica_id": -1,
            "topics": [{"topic": "orders", "partitions": [{"partition": partition, "fetch_offset": offset}]}],
        },
        response={"responses": [{"topic": "orders", "partitions": [told]}]},
        time=at(seconds),
        latency=round(took * SECOND),
        **fields,
    )


def commit(seconds: float, offset: int, *, code: int = 0) -> Exchange:
    asked = {"partition_index": 3, "committed_offset": offset}
    told = {"partition_index": 3, "error_code": code}
    return exchange(
        8,
        8,
        request={"group_id": "billing", "topics": [{"name": "orders", "partitions": [asked]}]},
        response={"topics": [{"name": "orders", "partitions": [told]}]},
        time=at(seconds),
    )


def produce(seconds: float, base: int, count: int, *, acks: int = -1, code: int = 0) -> Exchange:
    records = bytes(build_batch([Record(place, 0, None, b"v", ()) for place in range(count)]))
    told = {"index": 3, "error_code": code, "base_offset": base}
    return exchange(
        0,
        9,
        request={
            "acks": acks,
            "topic_data": [{"name": "orders", "partition_data": [{"index": 3, "records": records}]}],
        },
        response={"responses": [{"name": "orders", "partition_responses": [told]}]},
        time=at(seconds),
        client_id="shop",
        client="10.0.0.7:1",
    )


def test_lag_is_the_end_less_what_is_committed() -> None:
    found = row(joined(), fetch(1, 100, 120), commit(2, 110))
    assert (found.group, found.topic, found.partition) == ("billing", "orders", 3)
    assert (found.committed, found.position, found.end, found.client) == (110, 100, 120, "app")
    assert (found.lag, found.behind) == (10, 20)
    assert (found.committed_at, found.end_at) == (at(2) + 2 * MS, at(1.001))


def test_until_something_is_committed_the_position_counts() -> None:
    found = row(joined(), fetch(1, 100, 120))
    assert (found.committed, found.lag) == (None, 20)


def test_a_failed_commit_commits_nothing() -> None:
    assert row(joined(), fetch(1, 100, 120), commit(2, 110), commit(3, 115, code=25)).lag == 10


def test_the_highest_lag_has_its_time() -> None:
    found = row(joined(), fetch(1, 100, 120), commit(2, 110), fetch(3, 120, 190), commit(4, 185))
    assert (found.lag, found.highest, found.highest_at) == (5, 80, at(3.001))


def test_lag_grows_while_nobody_fetches() -> None:
    """The high watermark is the end."""
    found = row(joined(), fetch(1, 100, 100), commit(2, 100), produce(5, 100, 30), produce(6, 130, 10))
    assert (found.lag, found.end_at) == (40, at(6) + 2 * MS)


@pytest.mark.parametrize("fields", [{"acks": 1}, {"acks": 0}, {"code": 7}])
def test_records_that_may_be_lost_tell_no_end(fields: dict[str, Any]) -> None:
    assert row(joined(), fetch(1, 100, 100), commit(2, 100), produce(5, 100, 30, **fields)).lag == 0


def test_what_is_answered_later_tells_what_is_true_later() -> None:
    """The Fetch is sent before the commit, and reports an end that is unknown at the commit."""
    found = row(joined(), fetch(1, 100, 100), commit(1.1, 100), fetch(1.2, 100, 150, took=5), commit(2, 100))
    assert (found.highest, found.highest_at) == (50, at(6.2))


def test_what_is_not_known_stays_unknown() -> None:
    assert row(joined(), fetch(1, 100, None)).lag is None
    older = row(joined(), fetch(1, 100, 120), commit(2, 130))
    assert (older.lag, older.highest) == (None, 20)
    alone = row(commit(2, 110))
    assert (alone.lag, alone.end, alone.position, alone.highest) == (None, None, None, None)


def polled(seconds: float, epoch: int, *topics: dict[str, Any], **fields: Any) -> Exchange:
    asked = {"session_id": 7 if epoch else 0, "session_epoch": epoch, "topics": list(topics)}
    row = {"partition_index": 3, "error_code": 0, "high_watermark": 120}
    told = {"session_id": 7, "responses": [{"topic": "orders", "partitions": [row]}] if topics else []}
    return exchange(1, 12, request=asked, response=told, time=at(seconds), latency=0, **fields)


FIRST = {"topic": "orders", "partitions": [{"partition": 3, "fetch_offset": 120}]}


def test_a_session_without_news_confirms_the_end() -> None:
    found = row(joined(), polled(1, 0, FIRST), commit(2, 120), polled(300, 1))
    assert (found.lag, found.end_at) == (0, at(300))


def test_a_session_that_is_forgotten_has_confirmed_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "MOST_SESSIONS", 1)
    others = [fetch(300 + number, 5, 9, partition=4, connection=number) for number in range(1, 4)]
    rows = learned(joined(), polled(1, 0, FIRST), commit(2, 120), polled(300, 1), *others).result()
    assert [(found.partition, found.end_at) for found in rows] == [(3, at(300)), (4, at(303.001))]


def test_fetches_of_no_group_have_no_lag() -> None:
    assert learned(fetch(1, 100, 120)).result() == []


def test_followers_tell_ends_and_have_no_position() -> None:
    follower = fetch(1, 100, 120, client_id="broker-2", client="10.0.0.2:1")
    assert follower.request is not None
    follower.request.value["replica_id"] = 2
    found = row(joined(), follower, commit(2, 110))
    assert (found.lag, found.position) == (10, None)


def test_each_group_has_its_own_lag() -> None:
    other = commit(2, 60)
    assert other.request is not None
    other.request.value["group_id"] = "audit"
    lags = {
        each.group: each.lag for each in learned(joined(), fetch(1, 100, 120), commit(2, 110), other).result()
    }
    assert lags == {"billing": 10, "audit": 60}


def test_asking_twice_tells_the_same_and_goes_on() -> None:
    stats = learned(joined(), fetch(1, 100, 120), commit(2, 110))
    assert stats.result() == stats.result()
    later = fetch(9, 110, 200)
    later.number = 50
    stats.add(later)
    assert stats.result()[0].lag == 90


# ---------------------------------------------------------------- over time
def test_over_time_a_lag_lasts_until_another_is_known() -> None:
    found = row(joined(), fetch(1, 100, 107), commit(1.5, 107), produce(1.7, 107, 4), fetch(2, 107, 111))
    assert (found.over_time.begin, found.over_time.width) == (at(1), LEAST_SLICE)
    assert found.over_time.highest == [7, 7, 7, 7, 7, 7, 0, 4, 4, 4, 4]


@pytest.mark.slow
def test_slices_get_wider_and_keep_the_highest() -> None:
    lags = [produce(n, 100 + n, 1) for n in range(2, 5000)]
    found = row(joined(), fetch(1, 100, 100), commit(1, 100), *lags)
    assert len(found.over_time.highest) <= MOST_SLICES
    assert found.over_time.width > 30 * SECOND
    known = [lag for lag in found.over_time.highest if lag is not None]
    assert known == sorted(known)
    assert known[-1] == found.lag == found.highest == 5000


def test_the_time_after_the_last_news_is_covered() -> None:
    found = row(joined(), fetch(1, 100, 120), commit(2, 110), exchange(3, 12, time=at(3600)))
    assert len(found.over_time.highest) <= MOST_SLICES
    assert found.over_time.begin + found.over_time.width * len(found.over_time.highest) > at(3600)
    assert found.over_time.highest[-1] == 10


def test_merged_keeps_the_highest_of_each() -> None:
    over_time = LagOverTime(0, 1, [None, 1, 5, 2, None])
    assert over_time.merged(5) == [None, 1, 5, 2, None]
    assert over_time.merged(3) == [1, 5, None]
    assert over_time.merged(1) == [5]
    assert LagOverTime(0, 1, []).merged(10) == []


@pytest.mark.slow
def test_memory_does_not_grow_with_time() -> None:
    def size(count: int) -> int:
        every = [
            each
            for n in range(1, count)
            for each in (produce(n, 100 + n, 1), fetch(n + 0.5, 100 + n, 101 + n))
        ]
        stats = learned(joined(), commit(0.5, 100), *every)
        return sum(
            len(group.series.slices) for kept in stats._partitions.values() for group in kept.groups.values()
        ) + len(stats._waiting)

    assert size(4000) <= max(size(1000), MOST_SLICES + 1)


@pytest.mark.parametrize("key", [0, 1, 2, 8, 9])
def test_partial_bodies_do_no_harm(key: int) -> None:
    for request in (None, {}, {"topics": [None, {"partitions": [None, {}]}], "topic_data": [None]}):
        for response in (None, {}, {"responses": [None], "topics": [{"partitions": [None]}]}):
            learned(joined(), exchange(key, 8, request=request, response=response)).result()


def test_total_counts_what_is_known() -> None:
    known, unknown = row(joined(), fetch(1, 100, 120)), row(joined(), fetch(1, 100, None))
    assert total([known, known, unknown]) == (40, 1)


# ---------------------------------------------------------------- recordings
def offsets(exchanges: list[Exchange], group: str) -> tuple[dict[int, int], dict[int, int]]:
    """Return a group's last commit and the highest end in any message, computed independently of the code."""
    committed: dict[int, int] = {}
    ends: dict[int, int] = {}
    for each in exchanges:
        request = (each.request.value if each.request else None) or {}
        response = (each.response.value if each.response else None) or {}
        if each.api_key == 8 and request["group_id"] == group and not each.errors and response:
            for topic in request["topics"]:
                for partition in topic["partitions"]:
                    committed[partition["partition_index"]] = partition["committed_offset"]
        if each.api_key == 1:
            for topic in response.get("responses", ()):
                for partition in topic["partitions"]:
                    index = partition["partition_index"]
                    ends[index] = max(ends.get(index, 0), partition["high_watermark"])
        if each.api_key == 0:  # each Produce of these recordings has one record
            for topic in response.get("responses", ()):
                for partition in topic["partition_responses"]:
                    index = partition["index"]
                    ends[index] = max(ends.get(index, 0), partition["base_offset"] + 1)
    return committed, ends


@pytest.mark.parametrize(
    "name", ["java_sigstop", "kp_range", "kafkajs", "sarama_range", "franz_coop", "kip848_java"]
)
def test_recorded_lag_is_that_of_kafka_consumer_groups(name: str) -> None:
    capture = open_capture(str(RECORDED / f"21_k430_{name}.pcap.zst"))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    stats = LagStats(reader.knowledge.topic_name)
    exchanges = list(reader)
    for each in exchanges:
        stats.add(each)
    rows = {each.partition: each for each in stats.result() if each.group == f"gr2-{name}"}
    committed, ends = offsets(exchanges, f"gr2-{name}")
    assert sorted(rows) == [0, 1, 2, 3, 4, 5]
    assert {partition: each.committed for partition, each in rows.items()} == committed
    assert {partition: each.end for partition, each in rows.items()} == ends
    assert {partition: each.lag for partition, each in rows.items()} == {
        partition: ends[partition] - offset for partition, offset in committed.items()
    }


def test_lag_grows_while_a_member_is_stopped() -> None:
    """m2, which has partitions 3 to 5, is stopped for 12 s (truth/21_k430_java_sigstop.json); m1 takes over after 6."""
    capture = open_capture(str(RECORDED / "21_k430_java_sigstop.pcap.zst"))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    stats = LagStats(reader.knowledge.topic_name)
    for each in reader:
        stats.add(each)
    found = {each.partition: each for each in stats.result()}
    stopped, taken_over = 1_795_254_708_570_000_000, 1_795_254_713_817_000_000
    assert found[5].highest_at is not None
    assert stopped < found[5].highest_at < taken_over + SECOND


def rows_of(path: Path, *, by_columns: bool) -> list[LagRow]:
    capture = open_capture(str(path))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    stats = LagStats(reader.knowledge.topic_name)
    if by_columns:
        every = np.arange(len(reader))
        for _ in stats.add_all(reader, ExchangeColumns(capture, reader.rows), every, every):
            pass
    else:
        reader.learn(len(reader))
        for each in reader:
            if each.api_key in NEEDED:
                stats.add(each)
    assert not capture.faults
    return stats.result(capture.latest)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", CAPTURES)
def test_columns_tell_what_exchanges_do(name: str) -> None:
    path = FOLDER / name
    assert rows_of(path, by_columns=True) == rows_of(path, by_columns=False)


def test_of_what_columns_tell_hardly_any_exchange_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    read = ExchangeReader.exchange
    monkeypatch.setattr(
        ExchangeReader, "exchange", lambda self, index: made.append(index) or read(self, index)
    )
    path = RECORDED / "21_k430_java_sigstop.pcap.zst"
    by_columns = rows_of(path, by_columns=True)
    few = len(made)
    made.clear()
    assert rows_of(path, by_columns=False) == by_columns
    assert few < len(made) / 10
