"""The mapping of recorded to live values."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.apis import keys_by_name
from dissectors.records import Record, record_set
from dissectors.records.build import build_batch
from dissectors.session_context import SessionContext
from kproxy.replay.cluster import LiveCluster
from kproxy.replay.value_mapping import ValueMapping

KEYS = keys_by_name()
RECORDED_ID, LIVE_ID = "AAAAAAAAAAAAAAAAAAAABQ", "AAAAAAAAAAAAAAAAAAAABg"

Body = dict[str, Any]


class Talk:
    """A mapping, with another ID for the topic orders in the live cluster, and leader epoch 2."""

    def __init__(self, *, keep_offsets: bool = False) -> None:
        knowledge, self.cluster = SessionContext(), LiveCluster({})
        knowledge.learn_topic(RECORDED_ID, "orders")
        partition = {"partition_index": 0, "leader_id": 1, "leader_epoch": 2}
        topic = {"name": "orders", "topic_id": LIVE_ID, "partitions": [partition]}
        self.cluster.observe(KEYS["metadata"], {}, {"brokers": [], "cluster_id": "live", "topics": [topic]})
        self.values = ValueMapping(knowledge, self.cluster, keep_offsets=keep_offsets)

    def request(self, name: str, version: int, body: Body) -> Body:
        return self.values.request(KEYS[name.lower()], version, body)[0]

    def learn(self, name: str, request: Body, recorded: Body | None, live: Body | None) -> None:
        self.values.learn(KEYS[name.lower()], request, recorded, request, live)


def test_topic_ids_are_mapped_by_name() -> None:
    talk = Talk()
    sent = talk.request(
        "OffsetCommit", 10, {"group_id": "g", "topics": [{"topic_id": RECORDED_ID, "partitions": []}]}
    )
    assert sent["topics"][0]["topic_id"] == LIVE_ID
    other = {"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": []}
    assert talk.request("OffsetCommit", 10, {"group_id": "g", "topics": [other]})["topics"] == [other]


def test_members_and_generations_of_the_classic_protocol() -> None:
    talk = Talk()
    join = {"group_id": "g", "member_id": ""}
    refused = {"error_code": 79, "generation_id": -1}
    talk.learn("JoinGroup", join, refused | {"member_id": "m1"}, refused | {"member_id": "M9"})
    again = talk.request("JoinGroup", 5, {"group_id": "g", "member_id": "m1", "protocols": []})
    assert again["member_id"] == "M9"
    talk.learn(
        "JoinGroup", again, {"generation_id": 1, "member_id": "m1"}, {"generation_id": 7, "member_id": "M9"}
    )
    sync = {
        "group_id": "g",
        "generation_id": 1,
        "member_id": "m1",
        "assignments": [{"member_id": "m1", "assignment": b""}, {"member_id": "m2", "assignment": b""}],
    }
    sent = talk.request("SyncGroup", 3, sync)
    assert (sent["generation_id"], sent["member_id"]) == (7, "M9")
    assert [each["member_id"] for each in sent["assignments"]] == ["M9", "m2"]
    leave = talk.request("LeaveGroup", 4, {"group_id": "g", "members": [{"member_id": "m1"}]})
    assert leave["members"][0]["member_id"] == "M9"
    commit = {"group_id": "g", "generation_id_or_member_epoch": 1, "member_id": "m1", "topics": []}
    assert talk.request("OffsetCommit", 8, commit)["generation_id_or_member_epoch"] == 7


def test_generations_are_those_of_the_group_and_member() -> None:
    talk = Talk()
    talk.learn(
        "JoinGroup",
        {"group_id": "g", "member_id": "m"},
        {"generation_id": 1, "member_id": "m"},
        {"generation_id": 7, "member_id": "m"},
    )
    beat = {"generation_id": 1, "member_id": "m"}
    assert talk.request("Heartbeat", 4, {"group_id": "g", **beat})["generation_id"] == 7
    assert talk.request("Heartbeat", 4, {"group_id": "other", **beat})["generation_id"] == 1


@pytest.mark.parametrize("name", ["ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"])
def test_member_epochs_of_the_new_protocol(name: str) -> None:
    talk = Talk()
    request = {"group_id": "g", "member_id": "m", "member_epoch": 0}
    assert talk.request(name, 1, request)["member_epoch"] == 0
    talk.learn(name, request, {"member_id": "m", "member_epoch": 3}, {"member_id": "m", "member_epoch": 11})
    assert talk.request(name, 1, request | {"member_epoch": 3})["member_epoch"] == 11
    for special in (0, -1, -2):
        assert talk.request(name, 1, request | {"member_epoch": special})["member_epoch"] == special


def test_producers() -> None:
    talk = Talk()
    request = {"transactional_id": "t"}
    talk.learn(
        "InitProducerId",
        request,
        {"producer_id": 5, "producer_epoch": 0},
        {"producer_id": 70, "producer_epoch": 4},
    )
    end = {"transactional_id": "t", "producer_id": 5, "producer_epoch": 0, "committed": True}
    assert talk.request("EndTxn", 3, end) == end | {"producer_id": 70, "producer_epoch": 4}
    add = {"v3_and_below_producer_id": 5, "v3_and_below_producer_epoch": 0, "v3_and_below_topics": []}
    assert talk.request("AddPartitionsToTxn", 3, add)["v3_and_below_producer_id"] == 70
    records = build_batch([Record(0, 1, None, b"v")], producer_id=5, producer_epoch=0, base_sequence=0)
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
    sent = talk.request("Produce", 9, {"acks": -1, "topic_data": topics})
    (batch,) = record_set(sent["topic_data"][0]["partition_data"][0]["records"]).batches
    assert (batch.producer_id, batch.producer_epoch) == (70, 4)
    talk.learn(
        "EndTxn", end, {"producer_id": 5, "producer_epoch": 1}, {"producer_id": 70, "producer_epoch": 5}
    )
    assert talk.request("EndTxn", 5, end | {"producer_epoch": 1})["producer_epoch"] == 5


def list_offsets(offset: int) -> Body:
    return {
        "topics": [
            {"name": "orders", "partitions": [{"partition_index": 0, "error_code": 0, "offset": offset}]}
        ]
    }


def fetch(offset: int, epoch: int = 0) -> Body:
    partition = {
        "partition": 0,
        "fetch_offset": offset,
        "current_leader_epoch": epoch,
        "last_fetched_epoch": 6,
    }
    return {
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic_id": RECORDED_ID, "partitions": [partition]}],
    }


def fetched(topic_id: str, *records: Record) -> Body:
    data = build_batch(records) if records else None
    partition = {"partition_index": 0, "error_code": 0, "records": data}
    return {
        "session_id": 0,
        "error_code": 0,
        "responses": [{"topic_id": topic_id, "partitions": [partition]}],
    }


def offset_of(sent: Body) -> int:
    offset: int = sent["topics"][0]["partitions"][0]["fetch_offset"]
    return offset


def test_offsets_follow_what_was_told() -> None:
    talk = Talk()
    talk.learn("ListOffsets", {}, list_offsets(100), list_offsets(0))
    assert offset_of(talk.request("Fetch", 13, fetch(100))) == 0
    before = [Record(100 + n, 1, None, b"v") for n in range(5)]
    talk.learn("Fetch", fetch(100), fetched(RECORDED_ID, *before), fetched(LIVE_ID, Record(0, 1, None, b"v")))
    assert offset_of(talk.request("Fetch", 13, fetch(105))) == 1
    more = [Record(105 + n, 1, None, b"v") for n in range(5)]
    talk.learn("Fetch", fetch(105), fetched(RECORDED_ID, *more), fetched(LIVE_ID))
    assert offset_of(talk.request("Fetch", 13, fetch(110))) == 1  # no records: the position is unchanged
    commit = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 110}]}]
    sent = talk.request("OffsetCommit", 8, {"group_id": "g", "topics": commit})
    assert sent["topics"][0]["partitions"][0]["committed_offset"] == 1


def test_offsets_can_be_kept() -> None:
    talk = Talk(keep_offsets=True)
    talk.learn("ListOffsets", {}, list_offsets(100), list_offsets(0))
    assert offset_of(talk.request("Fetch", 13, fetch(100))) == 100


def test_leader_epochs_are_those_of_the_live_leader() -> None:
    talk = Talk()
    (partition,) = talk.request("Fetch", 13, fetch(0, epoch=9))["topics"][0]["partitions"]
    assert (partition["current_leader_epoch"], partition["last_fetched_epoch"]) == (2, -1)
    (partition,) = talk.request("Fetch", 13, fetch(0, epoch=-1))["topics"][0]["partitions"]
    assert partition["current_leader_epoch"] == -1


def test_the_recorded_body_is_left_as_it_is() -> None:
    talk, body = Talk(), fetch(100, epoch=9)
    talk.learn("ListOffsets", {}, list_offsets(100), list_offsets(0))
    talk.request("Fetch", 13, body)
    assert body == fetch(100, epoch=9)


def test_an_unknown_partition_keeps_its_epoch() -> None:
    partition = {"partition_index": 0, "current_leader_epoch": 9, "timestamp": -1}
    body = {"replica_id": -1, "topics": [{"name": "gone", "partitions": [partition]}]}
    assert Talk().request("ListOffsets", 7, body) == body


def test_what_a_client_was_given_for_its_metrics() -> None:
    talk = Talk()
    recorded = {"client_instance_id": RECORDED_ID, "subscription_id": 5}
    talk.learn(
        "GetTelemetrySubscriptions", {}, recorded, {"client_instance_id": LIVE_ID, "subscription_id": 6}
    )
    sent = talk.request("PushTelemetry", 0, recorded | {"terminating": False})
    assert (sent["client_instance_id"], sent["subscription_id"]) == (LIVE_ID, 6)


def test_the_cluster_that_a_client_believes_in() -> None:
    body = {
        "client_software_name": "x",
        "client_software_version": "1",
        "cluster_id": "recorded",
        "node_id": 1,
    }
    assert Talk().request("ApiVersions", 5, body)["cluster_id"] == "live"
    assert Talk().request("ApiVersions", 5, body | {"cluster_id": None})["cluster_id"] is None


def test_no_response_teaches_nothing() -> None:
    talk = Talk()
    talk.learn("ListOffsets", {}, None, list_offsets(0))
    talk.learn("ListOffsets", {}, list_offsets(100), None)
    assert offset_of(talk.request("Fetch", 13, fetch(100))) == 100
