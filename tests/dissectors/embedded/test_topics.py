from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors import wire
from dissectors.embedded import (
    INTERNAL_TOPICS,
    EmbeddedValue,
    cluster_metadata,
    internal_topic_record,
    topics,
)
from dissectors.embedded.consumer_offsets import ConsumerGroupMemberMetadataValue
from dissectors.embedded.consumer_protocol import ConsumerProtocolSubscription
from dissectors.message_version import MessageVersion
from tests.definitions import facts
from tests.dissectors.values import Values


def record(
    topic: str, key: str | bytes | None, value: str | bytes | None, *, show: bool = False
) -> EmbeddedValue:
    made = [bytes.fromhex(item) if isinstance(item, str) else item for item in (key, value)]
    found = internal_topic_record(topic, made[0], made[1], show_secrets=show)
    assert found is not None
    return found


# 35_k282_cluster.pcap: Kafka 2.8.2, followers fetching __consumer_offsets and __transaction_state
OFFSET_KEY = "0001 0004672d7433 00027433 00000000"
OFFSET_VALUE = "0003 0000000000000002 ffffffff 00046d657461 000001a1fd85db4a"
GROUP_KEY = "0002 000572632d7433"
GROUP_VALUE = (
    "0003 0008636f6e73756d6572 00000001 000572616e6765"
    "0035 636f6e73756d65722d72632d74332d312d36663435356661392d306133642d346466382d623934642d313031666264323561373636"
    "000001a1fd85e8af 00000001"
    "0035 636f6e73756d65722d72632d74332d312d36663435356661392d306133642d346466382d623934642d313031666264323561373636"
    "ffff 0010636f6e73756d65722d72632d74332d31 000a2f3132372e302e302e31 000493e0 00002710"
    "00000012 0001 00000001 00027433 ffffffff 00000000"
    "0000001e 0001 00000001 00027433 00000003 000000000000000100000002 ffffffff"
)
TRANSACTION_KEY = "0000 000574782d7433"
TRANSACTION_VALUE = "0000 00000000000007d0 0000 00001f40 00 ffffffff 000001a1fd85d5fc ffffffffffffffff"


def test_an_offset_commit() -> None:
    found = record("__consumer_offsets", OFFSET_KEY, OFFSET_VALUE)
    assert found.value == {
        "type": "OffsetCommit",
        "version": 3,
        "key": {"group": "g-t3", "topic": "t3", "partition": 0},
        "value": {"offset": 2, "leader_epoch": -1, "metadata": "meta", "commit_timestamp": 1795254770506},
    }
    assert (found.label, found.problems) == ("OffsetCommitValue v3", ())
    first_form = record("__consumer_offsets", "0000" + OFFSET_KEY[4:], OFFSET_VALUE)
    assert first_form.value == found.value


def test_tombstones() -> None:
    found = record("__consumer_offsets", OFFSET_KEY, None)
    assert found.value["value"] is None
    assert found.value["tombstone"] is True
    assert found.problems == ()


def test_group_metadata_holds_subscriptions_and_assignments() -> None:
    found = record("__consumer_offsets", GROUP_KEY, GROUP_VALUE)
    assert found.problems == ()
    assert found.value["type"] == "GroupMetadata"
    [member] = found.value["value"]["members"]
    assert member["subscription"] == {
        "version": 1,
        "topics": ["t3"],
        "user_data": None,
        "owned_partitions": [],
    }
    assert member["assignment"]["assigned_partitions"] == [{"topic": "t3", "partitions": (0, 1, 2)}]


def test_classic_members_of_new_groups() -> None:
    # KIP-848's conversion: what a classic member sent is kept in the group's member record
    subscription = b"\0\0" + ConsumerProtocolSubscription[0].build({"topics": ["t"]})
    protocols = [{"name": "range", "metadata": subscription}]
    value = {"classic_member_metadata": {"session_timeout_ms": 1, "supported_protocols": protocols}}
    data = b"\0\0" + ConsumerGroupMemberMetadataValue[0].build({**value, "subscribed_topic_names": []})
    found = record("__consumer_offsets", b"\0\5\0\1g\0\1m", data)
    [protocol] = found.value["value"]["classic_member_metadata"]["supported_protocols"]
    assert protocol["metadata"]["topics"] == ["t"]


def test_a_transaction() -> None:
    found = record("__transaction_state", TRANSACTION_KEY, TRANSACTION_VALUE)
    assert found.value["key"] == {"transactional_id": "tx-t3"}
    assert found.value["value"]["producer_id"] == 2000
    assert found.names["value.transaction_status"] == "Empty"
    assert found.problems == ()


# 26_k430_add_controller_controller.pcap: Kafka 4.3.0, the metadata log in Fetch and FetchSnapshot responses
def test_cluster_metadata() -> None:
    found = record(
        "__cluster_metadata",
        None,
        "01 02 00 036374 2d154350e39f41139e20dc89f760c41a 00",
    )
    assert found.value == {
        "type": "Topic",
        "version": 0,
        "frame_version": 1,
        "value": {"name": "ct", "topic_id": "LRVDUOOfQROeINyJ92DEGg"},
    }
    assert record("__cluster_metadata", None, "01140000").value["type"] == "NoOp"


def test_secrets_in_cluster_metadata() -> None:
    config = {"resource_type": 4, "resource_name": "1", "name": "sasl.jaas.config", "value": "hunter2"}
    data = b"\1\4\0" + cluster_metadata.ConfigRecord[0].build(config)
    found = record("__cluster_metadata", None, data)
    assert found.masked == ("value.value",)
    assert found.value["value"]["value"] is None
    assert record("__cluster_metadata", None, data, show=True).value["value"]["value"] == "hunter2"


def test_the_frames_of_2_8() -> None:
    quota = {
        "entity": [{"entity_type": "user", "entity_name": None}],
        "key": "k",
        "value": 1.5,
        "remove": False,
    }
    found = record("__cluster_metadata", None, b"\0\x0e\0" + topics.QuotaRecord[0].build(quota))
    assert (found.value["type"], found.value["value"], found.problems) == ("Quota", quota, ())
    older = cluster_metadata.FeatureLevelRecord[0].older[-1]
    level = {"name": "f", "min_feature_level": 1, "max_feature_level": 2}
    found = record("__cluster_metadata", None, b"\0\x0c\0" + older.build(level))
    assert (found.value["frame_version"], found.value["value"]) == (0, level)


#: values with group data inside, which random bytes are not
_EMBEDDING = {"GroupMetadataValue", "ConsumerGroupMemberMetadataValue"}


def both(layout: MessageVersion) -> tuple[dict[str, Any], bytes]:
    value = Values(f"topics {layout!r}", unknown_tags=False).draw(layout.struct)
    return value, layout.build(value)


@pytest.mark.parametrize("topic", sorted(topics.COORDINATOR_TOPICS))
def test_every_coordinator_record_in_every_version(topic: str) -> None:
    for type_id, (key_message, value_message) in topics.COORDINATOR_TOPICS[topic].items():
        assert key_message.name.removesuffix("Key") == value_message.name.removesuffix("Value")
        key, key_data = both(key_message[key_message.versions.first])
        for version in value_message.versions:
            value, data = both(value_message[version])
            found = record(topic, type_id.to_bytes(2) + key_data, version.to_bytes(2) + data, show=True)
            if value_message.name not in _EMBEDDING:
                assert (found.problems, found.guess, found.value["value"]) == ((), "", value)
            assert (found.value["key"], found.version) == (key, version)
            assert set(found.value["value"]) == set(value)


@pytest.mark.parametrize("topic", sorted(topics.METADATA_TOPICS))
def test_every_metadata_record_in_every_version(topic: str) -> None:
    for type_id, message in topics.METADATA_TOPICS[topic].items():
        assert message.key == type_id
        for version in message.versions:
            value, data = both(message[version])
            found = record(topic, None, bytes([1, type_id, version]) + data, show=True)
            assert (found.problems, found.value["value"]) == ((), value)


def test_no_record_type_is_missing() -> None:
    known = {
        (kind, message.name)
        for kind, tables in (("coordinator-key", 0), ("coordinator-value", 1))
        for table in topics.COORDINATOR_TOPICS.values()
        for message in [pair[tables] for pair in table.values()]
    }
    known |= {
        ("metadata", message.name) for table in topics.METADATA_TOPICS.values() for message in table.values()
    }
    known.add(("metadata", "QuotaRecord"))
    for record in facts.kept().of_kind("coordinator-key", "coordinator-value", "metadata"):
        assert (record.kind, record.name.removeprefix("Legacy")) in known


def test_unknown_types_and_versions_say_so() -> None:
    found = record("__consumer_offsets", "0012 0001 67", "0000")
    assert found.value == {"type": None, "type_id": 18, "tombstone": False}
    assert found.guess == "record type 18 is not known here"
    found = record("__cluster_metadata", None, "01 7f 02 aabb")
    assert found.value == {"type": None, "type_id": 127, "version": 2, "frame_version": 1}
    newest = OFFSET_VALUE.replace("0003", "0063", 1)
    found = record("__consumer_offsets", OFFSET_KEY, newest)
    assert "version 99 is not known here, read as 4" in found.guess
    assert found.value["version"] == 99


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
def test_nothing_where_something_must_be(topic: str) -> None:
    metadata = topic in topics.METADATA_TOPICS
    for key, value in ((None, None), (b"", b""), (b"\0", b"\xff"), (b"\0\0", b"\0")):
        found = record(topic, key, value)
        assert found.problems, (key, value)
        assert metadata or found.value["type"] in (None, "OffsetCommit", "TransactionLog", "ShareSnapshot")


def test_other_topics() -> None:
    assert internal_topic_record("orders", b"\0\1", b"\0") is None
    assert set(topics.COORDINATOR_TOPICS) | set(topics.METADATA_TOPICS) == INTERNAL_TOPICS


def test_cuts_are_located() -> None:
    found = record("__consumer_offsets", OFFSET_KEY, bytes.fromhex(OFFSET_VALUE)[:-3])
    assert found.value["value"]["offset"] == 2
    assert found.problems[0][1] == "value.commit_timestamp"
    found = record("__cluster_metadata", None, b"\1\2\0\3ct")
    assert found.problems[0][1] == "value.topic_id"
    assert found.problems[0][0] == 6


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=60), st.sampled_from(sorted(INTERNAL_TOPICS)), st.integers(0, 30), st.integers(0, 3)
)
def test_any_bytes(data: bytes, topic: str, type_id: int, version: int) -> None:
    key = type_id.to_bytes(2) + data
    frame = wire.uvarint_bytes(version % 2) + wire.uvarint_bytes(type_id) + b"\0" + data
    for value in (version.to_bytes(2) + data, frame, data, None):
        found = record(topic, key, value)
        assert isinstance(found.value, dict)
