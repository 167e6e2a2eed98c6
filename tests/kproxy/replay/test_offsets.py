"""The mapping of recorded to live offsets."""

from __future__ import annotations

import pytest

from dissectors.api_keys import ApiKey
from dissectors.apis import api
from dissectors.records import Codec, Record
from dissectors.records.build import build_batch
from kproxy.replay.offsets import Offsets, reported_offsets

PLACE = ("orders", 0)


def test_nothing_known_changes_nothing() -> None:
    assert Offsets().live(PLACE, 42) == 42


def test_offsets_move_as_the_nearest_point_below() -> None:
    offsets = Offsets()
    offsets.learn(PLACE, 100, 0)
    offsets.learn(PLACE, 200, 50)
    assert [offsets.live(PLACE, each) for each in (100, 150, 199, 200, 230)] == [0, 50, 99, 50, 80]
    assert offsets.live(("orders", 1), 150) == 150


def test_below_the_first_point_no_offset_is_negative() -> None:
    offsets = Offsets()
    offsets.learn(PLACE, 100, 10)
    assert [offsets.live(PLACE, each) for each in (95, 90, 50)] == [5, 0, 0]


def test_special_offsets_stay_what_they_are() -> None:
    offsets = Offsets()
    offsets.learn(PLACE, -1, 5)
    offsets.learn(PLACE, 5, -1)
    assert offsets.live(PLACE, 5) == 5
    offsets.learn(PLACE, 100, 0)
    assert offsets.live(PLACE, -1) == -1


def test_what_was_learned_last_counts() -> None:
    offsets = Offsets()
    offsets.learn(PLACE, 100, 0)
    offsets.learn(PLACE, 100, 7)
    assert offsets.live(PLACE, 101) == 8


def test_what_responses_tell() -> None:
    batch = build_batch(
        [Record(120 + n, 0, b"k", b"v", []) for n in range(3)], base_offset=120, codec=Codec.GZIP
    )
    fetched = {"partition_index": 0, "error_code": 0, "records": batch}
    failed = {"partition_index": 1, "error_code": 1, "records": batch}
    responses = {
        ApiKey.FETCH: {"responses": [{"topic": "orders", "partitions": [fetched, failed]}]},
        ApiKey.LIST_OFFSETS: {
            "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 9}]}]
        },
        ApiKey.OFFSET_FETCH: {
            "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 4}]}]
        },
        ApiKey.PRODUCE: {
            "responses": [{"topic_id": "x", "partition_responses": [{"index": 0, "base_offset": 5}]}]
        },
    }
    told = {key: dict(reported_offsets(key, body, lambda _: "orders")) for key, body in responses.items()}
    assert told == {
        ApiKey.FETCH: {PLACE: (120, 123)},
        ApiKey.LIST_OFFSETS: {PLACE: (9, 9)},
        ApiKey.OFFSET_FETCH: {PLACE: (4, 4)},
        ApiKey.PRODUCE: {PLACE: (5, 5)},
    }


@pytest.mark.parametrize("version", [0, 1, 7])
def test_list_offsets_of_all_shapes(version: int) -> None:
    known = api(ApiKey.LIST_OFFSETS)
    assert known is not None
    row = {"partition_index": 0, "error_code": 0, "offset": 9, "old_style_offsets": [9, 3]}
    layout = known.response[version]
    body = layout.parse(layout.build({"topics": [{"name": "orders", "partitions": [row]}]}))
    assert dict(reported_offsets(ApiKey.LIST_OFFSETS, body, lambda _: None)) == {PLACE: (9, 9)}
