"""kafka-topics and its relatives. Most command lines were tried against Kafka 4.3.0."""

from __future__ import annotations

import pytest

from kproxy.copy_as.tools import commands
from tests.kproxy.copy_as.kit import asked, lines, words

CREATED = {
    "name": "orders.eu",
    "num_partitions": 3,
    "replication_factor": -1,
    "assignments": [],
    "configs": [{"name": "retention.ms", "value": "1000"}],
}


def create(*topics: dict, validate_only: bool = False) -> list[list[str]]:
    body = {"topics": list(topics), "timeout_ms": 1000, "validate_only": validate_only}
    return list(words(commands(asked(19, 5, body))))


def test_topics_are_created() -> None:
    assigned = {
        "num_partitions": -1,
        "configs": [],
        "assignments": [
            {"partition_index": 1, "broker_ids": [2, 3]},
            {"partition_index": 0, "broker_ids": [1, 2]},
        ],
    }
    assert create(CREATED, CREATED | assigned) == [
        [
            "kafka-topics.sh",
            "--create",
            "--topic",
            "orders.eu",
            "--partitions",
            "3",
            "--config",
            "retention.ms=1000",
        ],
        ["kafka-topics.sh", "--create", "--topic", "orders.eu", "--replica-assignment", "1:2,2:3"],
    ]


def test_what_only_asks_whether_it_could_has_no_command() -> None:
    assert create(CREATED, validate_only=True) == []


def test_a_name_is_no_regular_expression() -> None:
    """``--topic a.b`` would delete ``axb`` too."""
    body = {"topic_names": ["orders.eu", "-x"], "timeout_ms": 1000}
    assert list(words(commands(asked(20, 5, body)))) == [
        ["kafka-topics.sh", "--delete", "--topic", r"orders\.eu"],
        ["kafka-topics.sh", "--delete", "--topic=-x"],
    ]


def test_topics_are_described() -> None:
    body = {
        "topics": [{"name": "a.b"}],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    describe = ["kafka-topics.sh", "--describe"]
    assert list(words(commands(asked(3, 9, body)))) == [[*describe, "--topic", r"a\.b"]]
    assert list(words(commands(asked(3, 9, body | {"topics": None})))) == [describe]
    assert list(words(commands(asked(3, 9, body | {"topics": []})))) == [["kafka-broker-api-versions.sh"]]
    by_id = body | {"topics": [{"topic_id": "lB83RMqXT2KjX28Z0oSeOA", "name": None}]}
    assert list(words(commands(asked(3, 12, by_id)))) == [[*describe, "--topic-id", "lB83RMqXT2KjX28Z0oSeOA"]]
    cursor = {"topics": [{"name": "t"}], "response_partition_limit": 10, "cursor": None}
    assert list(words(commands(asked(75, 0, cursor)))) == [[*describe, "--topic", "t"]]
    assert list(words(commands(asked(75, 0, cursor | {"topics": []})))) == [describe]


def test_offsets_of_one_time_are_asked_together() -> None:
    places = [(0, -1), (1, -1), (2, 170)]
    body = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [
            {
                "name": "a.b",
                "partitions": [
                    {"partition_index": index, "current_leader_epoch": -1, "timestamp": time}
                    for index, time in places
                ],
            }
        ],
    }
    ask = ["kafka-get-offsets.sh", "--topic-partitions"]
    assert list(words(commands(asked(2, 5, body)))) == [
        [*ask, r"a\.b:0,a\.b:1", "--time", "latest"],
        [*ask, r"a\.b:2", "--time", "170"],
    ]


def test_partitions_are_added() -> None:
    topic = {"name": "t", "count": 6, "assignments": [{"broker_ids": [1, 2]}]}
    body = {"topics": [topic], "timeout_ms": 1000, "validate_only": False}
    note, line = lines(commands(asked(37, 2, body)))
    assert note == "# replicas of the new partitions were chosen: 1:2"
    assert line.endswith("--alter --topic t --partitions 6")
    assert commands(asked(37, 2, body | {"validate_only": True})) == []


def test_json_files_are_made_by_the_shell() -> None:
    body = {
        "topics": [{"name": "it's", "partitions": [{"partition_index": 0, "offset": -1}]}],
        "timeout_ms": 1000,
    }
    (line,) = lines(commands(asked(21, 2, body)))
    assert line.endswith(
        "--offset-json-file <(printf %s "
        """'{"partitions": [{"topic": "it'"'"'s", "partition": 0, "offset": -1}], "version": 1}')"""
    )
    moves = [{"partition_index": 0, "replicas": [1, 2]}, {"partition_index": 1, "replicas": None}]
    note, line = lines(
        commands(asked(45, 0, {"timeout_ms": 1, "topics": [{"name": "t", "partitions": moves}]}))
    )
    assert note == "# left out: 1 moves that were cancelled"
    assert '"replicas": [1, 2]' in line


@pytest.mark.parametrize(
    ("topics", "rest"),
    [
        (None, ["--all-topic-partitions"]),
        ([{"topic": "t", "partitions": [4]}], ["--topic", "t", "--partition", "4"]),
    ],
)
def test_leaders_are_elected(topics: list | None, rest: list[str]) -> None:
    body = {"election_type": 1, "topic_partitions": topics, "timeout_ms": 1000}
    (found,) = words(commands(asked(43, 2, body)))
    assert found == ["kafka-leader-election.sh", "--election-type", "unclean", *rest]


def test_reassignments_are_listed() -> None:
    (found,) = words(commands(asked(46, 0, {"timeout_ms": 1, "topics": None})))
    assert found == ["kafka-reassign-partitions.sh", "--list"]
