from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment as KafkaPythonAssignment
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription as KafkaPythonSubscription
from kafka.structs import TopicPartition

from dissectors.embedded import EmbeddedValue, Hints, decode, trace
from dissectors.embedded.consumer_protocol import ConsumerProtocolSubscription
from dissectors.trace import Node
from tests.dissectors.values import Values

pytestmark = pytest.mark.quick


def metadata(hexed: str, assignor: str | None = None, protocol: str | None = "consumer") -> EmbeddedValue:
    return decode("group_metadata", bytes.fromhex(hexed), Hints(protocol, assignor))


def assignment(hexed: str, assignor: str | None = None, protocol: str | None = "consumer") -> EmbeddedValue:
    return decode("group_assignment", bytes.fromhex(hexed), Hints(protocol, assignor))


# 01_mock_aio_lz4.pcap: aiokafka's JoinGroup v5, assignor roundrobin
AIOKAFKA = "0000000000010009742d61696f2d6c7a3400000000"
# 20_k430_sarama_gzip.pcap: JoinGroup, assignor range, version 2
SARAMA = "000200000001000a71632d73612d677a6970ffffffff00000000ffffffff"
# 20_k430_kafkago_zstd.pcap: kafka-go announces version 1 and leaves owned partitions out
KAFKA_GO = "000100000001000a71632d6b672d7a737464ffffffff"
# 01_mock_aio_lz4.pcap: SyncGroup v3
AIOKAFKA_ASSIGNMENT = "0000000000010009742d61696f2d6c7a34000000040000000000000001000000020000000300000000"


def test_subscriptions_of_all_versions() -> None:
    assert metadata(AIOKAFKA).value == {"version": 0, "topics": ["t-aio-lz4"], "user_data": b""}
    found = metadata(SARAMA, "range")
    assert found.value == {
        "version": 2,
        "topics": ["qc-sa-gzip"],
        "user_data": None,
        "owned_partitions": [],
        "generation_id": -1,
    }
    assert (found.label, found.version) == ("ConsumerProtocolSubscription v2", 2)
    assert found.names == {"generation_id": "NONE"}
    assert found.problems == ()


def test_an_assignment() -> None:
    assert assignment(AIOKAFKA_ASSIGNMENT).value == {
        "version": 0,
        "assigned_partitions": [{"topic": "t-aio-lz4", "partitions": (0, 1, 2, 3)}],
        "user_data": b"",
    }


def test_less_than_the_announced_version() -> None:
    found = metadata(KAFKA_GO, "range")
    assert found.value == {"version": 1, "topics": ["qc-kg-zstd"], "user_data": None}
    assert found.guess == "announced as version 1, written as version 0"
    assert found.problems == ()
    tree = trace("group_metadata", bytes.fromhex(KAFKA_GO), Hints("consumer", "range"))
    assert tree is not None
    assert tree.to_value() == found.value


def test_a_version_of_the_future_is_read_as_the_newest_known() -> None:
    # ConsumerProtocolSubscription v3 announced as v9, with four bytes of fields to come
    newest = ConsumerProtocolSubscription[3].build({"topics": ["t"]}).hex()
    found = metadata("0009" + newest + "00000007", "range")
    assert found.value["topics"] == ["t"]
    assert found.value["undecoded"] == b"\0\0\0\7"
    assert found.guess == "version 9 is not known here, read as 3"
    assert found.version == 9
    assert found.problems == ()


def test_bytes_left_over_are_a_problem() -> None:
    found = metadata(AIOKAFKA + "ff", "range")
    assert found.value["topics"] == ["t-aio-lz4"]
    assert found.problems == ((21, "", "1 bytes left over after ConsumerProtocolSubscription v0"),)


def test_a_cut_keeps_what_came_before() -> None:
    found = decode("group_metadata", bytes.fromhex(SARAMA)[:-6], Hints("consumer", "range"))
    assert found.value["topics"] == ["qc-sa-gzip"]
    [(offset, path, reason)] = found.problems
    assert (offset, path) == (24, "owned_partitions")
    assert "end inside" in reason


@pytest.mark.parametrize("content", ["group_metadata", "group_assignment"])
def test_nothing_said(content: str) -> None:
    for protocol in ("consumer", "connect", "sr", "mine", None):
        found = decode(content, b"", Hints(protocol))
        assert (found.value, found.problems, found.guess) == (None, (), "")
        assert trace(content, b"", Hints(protocol)) is None


def test_no_version() -> None:
    assert metadata("00").problems == ((0, "", "no version at the start"),)
    assert metadata("ffff", protocol="connect").problems == ((0, "", "no version at the start"),)


def test_unknown_protocol_types_are_opaque_and_unseen_ones_are_tried() -> None:
    found = metadata(AIOKAFKA, protocol="mine")
    assert (found.value, found.label, found.problems) == (None, "opaque (protocol type mine)", ())
    found = metadata(AIOKAFKA, protocol=None)
    assert found.value["topics"] == ["t-aio-lz4"]
    assert found.guess == "protocol type not seen, all bytes match consumer"
    found = metadata(AIOKAFKA + "00", protocol=None)
    assert (found.value, found.label) == (None, "opaque (protocol type unknown)")


def test_schema_registry() -> None:
    # the layout of SchemaRegistryIdentity: {"version":..,"host":..,"port":..,"master_eligibility":..}
    identity = {"version": 1, "host": "sr-1", "port": 8081, "master_eligibility": True}
    found = decode("group_metadata", json.dumps(identity).encode(), Hints("sr", "v0"))
    assert (found.value, found.version, found.label) == (identity, 1, "Schema Registry metadata")
    for broken in (b"{", b"\xff\xff", b"[" * 100_000):
        found = decode("group_assignment", broken, Hints("sr", "v0"))
        assert found.value is None
        assert len(found.problems) == 1


# ---------------------------------------------------------------- user data of assignors
# 34_k111_rebalance_sticky.pcap: Java 1.1.1, assignor sticky, user data without generation
STICKY_V0 = (
    "0000 00000002 000472656232 0003726562 0000003f"
    "00000002 000472656232 00000004 00000000000000010000000200000003"
    "0003726562 00000006 000000000000000100000002000000030000000400000005"
)  # fmt: skip
# 21_k430_java_sticky.pcap: Java 4.3.0, with generation
STICKY_V1 = (
    "0003 00000001 000e72322d6a6176615f737469636b79 00000034"
    "00000001 000e72322d6a6176615f737469636b79"
    "00000006 000000000000000100000002000000030000000400000005 00000001"
    "00000000 00000001 ffff"
)  # fmt: skip
# 01_nafka_java_none.pcap: Java 4.3.0, assignor cooperative-sticky
COOPERATIVE = "000300000001000b742d6a6176612d6e6f6e6500000004ffffffff00000000ffffffffffff"
# 02_mock_rebalance_confluent_coop.pcap: librdkafka 2.16 writes the sticky assignor's user data there
COOPERATIVE_LIBRDKAFKA = (
    "0003 00000001 000372623200000019 00000001 0003726232 00000002 0000000000000002 00000002"
    "00000001 0003726232 00000002 0000000000000002 00000002 0000"
)  # fmt: skip


def test_sticky_user_data() -> None:
    found = metadata(STICKY_V0, "sticky")
    assert found.value["user_data"] == {
        "previous_assignment": [
            {"topic": "reb2", "partitions": (0, 1, 2, 3)},
            {"topic": "reb", "partitions": (0, 1, 2, 3, 4, 5)},
        ]
    }
    found = metadata(STICKY_V1, "sticky")
    assert found.value["user_data"] == {
        "previous_assignment": [{"topic": "r2-java_sticky", "partitions": (0, 1, 2, 3, 4, 5)}],
        "generation": 1,
    }
    assert found.problems == ()


def test_cooperative_sticky_user_data() -> None:
    found = metadata(COOPERATIVE, "cooperative-sticky")
    assert found.value["user_data"] == {"generation": -1}
    assert found.names == {"user_data.generation": "NONE", "generation_id": "NONE"}
    found = metadata(COOPERATIVE_LIBRDKAFKA, "cooperative-sticky")
    assert found.value["user_data"] == {
        "previous_assignment": [{"topic": "rb2", "partitions": (0, 2)}],
        "generation": 2,
    }
    assert found.problems == ()


def test_user_data_of_an_assignor_that_nobody_named() -> None:
    assert metadata(STICKY_V1).value["user_data"]["generation"] == 1
    assert metadata(STICKY_V1, "mine").value["user_data"][:4] == b"\0\0\0\1"


def test_kafka_python_puts_a_version_before_its_user_data() -> None:
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    data = StickyPartitionAssignor._metadata(["t"], partitions, 5).encode()
    found = decode("group_metadata", data, Hints("consumer", "sticky"))
    assert found.value["user_data"] == {
        "version": 1,
        "previous_assignment": [{"topic": "t", "partitions": (0, 1)}],
        "generation": 5,
    }
    assert found.guess == "user_data: with a version prefix, which only kafka-python writes"


def test_wrong_user_data_is_located() -> None:
    # a sticky assignment of one topic, whose name is announced with 9 bytes and has 2
    fields = {"topics": ["t"], "user_data": bytes.fromhex("00000001 0009 6162")}
    found = metadata("0000" + ConsumerProtocolSubscription[0].build(fields).hex(), "sticky")
    assert found.value["topics"] == ["t"]
    [(offset, path, reason)] = found.problems
    assert path == "user_data.previous_assignment[0].topic"
    assert offset == 2 + (4 + 2 + 1) + 4 + (4 + 2)
    assert reason == "7 of 9 bytes of string are missing"


@pytest.mark.parametrize("version", range(4))
def test_kafka_python_reads_and_writes_the_same(version: int) -> None:
    values = Values(f"groups {version}", unknown_tags=False)
    drawn = values.draw(ConsumerProtocolSubscription[version].struct)
    pairs = drawn.get("owned_partitions") or []
    owned = [KafkaPythonSubscription.TopicPartition(**pair) for pair in pairs]
    more: dict[str, Any] = {"owned_partitions": owned} if version >= 1 else {}
    data = KafkaPythonSubscription(
        version=version, **{name: item for name, item in drawn.items() if name != "owned_partitions"}, **more
    ).encode()
    found = decode("group_metadata", data, Hints("consumer", "range"))
    assert found.value == {"version": version, **drawn}
    data = KafkaPythonAssignment(version, [("t", [0, 7])], b"x").encode()
    assert decode("group_assignment", data, Hints("consumer", "range")).value == {
        "version": version,
        "assigned_partitions": [{"topic": "t", "partitions": (0, 7)}],
        "user_data": b"x",
    }


# ---------------------------------------------------------------- trees
def flat(tree: Node) -> dict[str, tuple[int, int]]:
    return {path: (node.start, node.end) for path, node in tree.walk()}


def test_the_tree_has_the_bytes_of_every_field() -> None:
    data = bytes.fromhex(STICKY_V1)
    tree = trace("group_metadata", data, Hints("consumer", "sticky"))
    assert tree is not None
    ranges = flat(tree)
    assert ranges["version"] == (0, 2)
    assert ranges["topics[0]"] == (6, 22)
    assert ranges["user_data"] == (22, 78)
    assert ranges["user_data.previous_assignment[0].topic"] == (30, 46)
    assert ranges["user_data.generation"] == (74, 78)
    assert data[slice(*ranges["user_data.generation"])] == b"\0\0\0\1"
    assert ranges["rack_id"] == (86, 88)
    assert (tree.start, tree.end) == (0, 88)


def test_the_tree_shows_what_is_left_over() -> None:
    tree = trace("group_metadata", bytes.fromhex(AIOKAFKA + "aabb"), Hints("consumer"))
    assert tree is not None
    assert tree.to_value()["undecoded"] == b"\xaa\xbb"
    assert flat(tree)["undecoded"] == (21, 23)


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["range", "sticky", "cooperative-sticky", "stream", None]))
def test_any_bytes(data: bytes, assignor: str | None) -> None:
    for content in ("group_metadata", "group_assignment"):
        for protocol in ("consumer", "connect", None):
            hints = Hints(protocol, assignor)
            found = decode(content, data, hints)
            tree = trace(content, data, hints)
            if tree is not None and not found.problems:
                assert tree.to_value() == found.value
