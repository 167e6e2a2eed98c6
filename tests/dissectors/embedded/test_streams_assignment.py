from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.embedded import EmbeddedValue, Hints, decode, trace
from dissectors.embedded.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from dissectors.embedded.streams_assignment import ModifiedUtf8, StreamsAssignmentInfo, Utf16
from dissectors.embedded.streams_subscription import SubscriptionInfoData
from dissectors.errors import DecodeError

STREAM = Hints("consumer", "stream")

# 21_k430_streams_classic.pcap: user data of a SyncGroup response's assignment, kafka-streams 4.3.0 (version 11)
ASSIGNMENT = bytes.fromhex(
    "0000000b 0000000b"
    "00000002 00000001 00000000 00000000 00000001 00000001 00000000"
    "00000000 00000000 00000000 00000000 00000000 7fffffffffffffff"
)  # fmt: skip
# same recording: user data of a JoinGroup's subscription
SUBSCRIPTION = bytes.fromhex(
    "0000000b0000000b4fe8012c85194148aed5a9c94bd074140000000000000000010000000000000000"
)


def assigned(user_data: bytes) -> EmbeddedValue:
    data = b"\0\3" + ConsumerProtocolAssignment[3].build({"user_data": user_data})
    found = decode("group_assignment", data, STREAM)
    tree = trace("group_assignment", data, STREAM)
    assert tree is not None
    assert tree.to_value() == found.value
    return found


def subscribed(user_data: bytes) -> EmbeddedValue:
    data = b"\0\0" + ConsumerProtocolSubscription[0].build({"topics": ["t"], "user_data": user_data})
    return decode("group_metadata", data, STREAM)


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def ints(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def test_a_recorded_assignment() -> None:
    found = assigned(ASSIGNMENT)
    assert found.problems == ()
    assert found.value["user_data"] == {
        "version": 11,
        "commonly_supported_version": 11,
        "active_tasks": [
            {"subtopology": 1, "partition": 0, "named_topology": None},
            {"subtopology": 1, "partition": 1, "named_topology": None},
        ],
        "standby_tasks": [],
        "topic_dictionary": [],
        "active_partitions_by_host": [],
        "standby_partitions_by_host": [],
        "error_code": 0,
        "next_rebalance_ms": 2**63 - 1,
    }
    assert found.names == {"user_data.error_code": "NONE"}


def test_a_recorded_subscription() -> None:
    found = subscribed(SUBSCRIPTION)
    assert found.problems == ()
    assert found.value["user_data"] == {
        "version": 11,
        "latest_supported_version": 11,
        "process_id": "T-gBLIUZQUiu1anJS9B0FA",
        "user_end_point": "",
        "task_offset_sums": [],
        "unique_field": 1,
        "error_code": 0,
        "client_tags": [],
    }


def test_texts_are_text() -> None:
    info = {
        "version": 11,
        "latest_supported_version": 11,
        "user_end_point": b"app-1:7070",
        "client_tags": [{"key": b"zone", "value": b"eu-1a"}],
    }
    found = subscribed(SubscriptionInfoData[11].build(info))
    assert found.value["user_data"]["user_end_point"] == "app-1:7070"
    assert found.value["user_data"]["client_tags"] == [{"key": "zone", "value": "eu-1a"}]


# Written by hand after AssignmentInfo.java: version 1 and 2 (0.10.0, 0.10.1), 3 (2.0), 5 (2.4), 6 (2.5), 10 (3.0)
TASKS = ints(1, 0, 3) + ints(1, 1, 2) + ints(1) + utf("log") + ints(2)
HOSTS = ints(1) + utf("app-1") + ints(7070, 1) + utf("in") + ints(3)
DICTIONARY = ints(1, 0) + utf("in") + ints(1) + utf("app-1") + ints(7070, 1) + ints(0, 3)
ACTIVE = [{"subtopology": 0, "partition": 3}]
STANDBY = [{"subtopology": 1, "partition": 2, "partitions": [{"topic": "log", "partition": 2}]}]
BY_HOST = [{"host": "app-1", "port": 7070, "partitions": [{"topic": "in", "partition": 3}]}]
BY_INDEX = [{"host": "app-1", "port": 7070, "partitions": [{"topic_index": 0, "partition": 3}]}]


@pytest.mark.parametrize(
    ("version", "data", "expected"),
    [
        (1, TASKS, {}),
        (1, TASKS + HOSTS, {"partitions_by_host": BY_HOST}),
        (2, TASKS + HOSTS, {"partitions_by_host": BY_HOST}),
        (4, TASKS + HOSTS + ints(2), {"partitions_by_host": BY_HOST, "error_code": 2}),
        (5, TASKS + DICTIONARY + ints(0), {"active_partitions_by_host": BY_INDEX, "error_code": 0}),
        (6, TASKS + DICTIONARY + ints(0, 0), {"standby_partitions_by_host": [], "error_code": 0}),
        (7, TASKS + DICTIONARY + ints(0, 3, 0, 9), {"error_code": 3, "next_rebalance_ms": 9}),
    ],
    ids=lambda item: str(item) if isinstance(item, int) else "",
)
def test_assignments_of_older_versions(version: int, data: bytes, expected: dict[str, object]) -> None:
    versions = ints(version) if version < 3 else ints(version, 8)
    found = assigned(versions + data)
    assert found.problems == ()
    info = found.value["user_data"]
    assert (info["version"], info["active_tasks"], info["standby_tasks"]) == (version, ACTIVE, STANDBY)
    assert {name: info[name] for name in expected} == expected


def test_named_topologies_are_utf16() -> None:
    task = ints(0, 3, 5) + "größe".encode("utf-16-be")
    info = ints(10, 10) + ints(1) + task + ints(0, 0, 0, 0, 0) + bytes(8)
    found = assigned(info)
    assert found.problems == ()
    assert found.value["user_data"]["active_tasks"] == [
        {"subtopology": 0, "partition": 3, "named_topology": "größe"}
    ]


def test_versions_of_the_future() -> None:
    found = assigned(ints(12, 13, 99))
    assert found.value["user_data"] == {
        "version": 12,
        "latest_supported_version": 13,
        "undecoded": ints(99),
    }
    assert "version 12 of StreamsAssignmentInfo is not known here" in found.guess
    assert found.problems == ()
    assert subscribed(ints(12, 13)).value["user_data"] == {"version": 12, "latest_supported_version": 13}


def test_a_cut_assignment_keeps_its_tasks() -> None:
    found = assigned(ASSIGNMENT[:33])
    assert found.value["user_data"]["active_tasks"][0]["partition"] == 0
    [(offset, path, _)] = found.problems
    assert path.startswith("user_data.")
    assert offset == 2 + 4 + 4 + 33


# ---------------------------------------------------------------- Java's strings
# DataOutput.writeUTF: java.io.DataInput, "Modified UTF-8"
@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a", b"\0\1a"),
        ("\0", b"\0\2\xc0\x80"),
        ("ß", b"\0\2\xc3\x9f"),
        ("\U0001f993", b"\0\6\xed\xa0\xbe\xed\xb6\x93"),
    ],
)
def test_modified_utf8(text: str, data: bytes) -> None:
    con = ModifiedUtf8(compact=False, nullable=False)
    assert con.read(data, 0) == (text, len(data))
    assert con.build(text) == data


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=50))
def test_java_strings_come_back(text: str) -> None:
    utf8, utf16 = ModifiedUtf8(compact=False, nullable=False), Utf16(compact=False, nullable=True)
    assert utf8.read(utf8.build(text), 0)[0] == text
    assert utf16.read(utf16.build(text), 0)[0] == (text or None)


def test_java_strings_that_are_wrong() -> None:
    utf8, utf16 = ModifiedUtf8(compact=False, nullable=False), Utf16(compact=False, nullable=True)
    with pytest.raises(DecodeError, match="not modified UTF-8") as caught:
        utf8.read(b"\0\3ab\xff", 0)
    assert caught.value.offset == 4
    with pytest.raises(DecodeError, match="missing"):
        utf8.read(b"\xff\xffab", 0)
    with pytest.raises(DecodeError, match="string of -1 characters"):
        utf16.read(ints(-1), 0)
    with pytest.raises(DecodeError, match="missing") as caught:
        utf16.read(ints(2**31 - 1) + b"ab", 0)
    assert caught.value.truncated
    assert utf16.read(ints(1) + b"\xd8\x00", 0)[0] == "\N{REPLACEMENT CHARACTER}"


def test_what_is_built_is_what_java_writes() -> None:
    value = assigned(ASSIGNMENT).value["user_data"]
    assert StreamsAssignmentInfo[11].build(value) == ASSIGNMENT
