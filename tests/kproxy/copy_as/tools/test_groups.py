"""kafka-consumer-groups, its relatives, and kafka-transactions. Most command lines were tried against Kafka 4.3.0."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.copy_as.tools import commands
from tests.kproxy.copy_as.kit import asked, lines, words

GROUPS = "kafka-consumer-groups.sh"
DESCRIBED = ["--describe", "--group", "g", "--members", "--verbose"]
PLACE = {"partition_index": 2, "committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": ""}
COMMIT = {
    "group_id": "g",
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "group_instance_id": None,
    "topics": [{"name": "t", "partitions": [PLACE, PLACE | {"partition_index": 3}]}],
}


@pytest.mark.parametrize(
    ("key", "version", "body", "expected"),
    [
        (16, 3, {}, [[GROUPS, "--list"]]),
        (
            16,
            5,
            {"states_filter": ["Stable", "Empty"], "types_filter": ["classic"]},
            [[GROUPS, "--list", "--state", "Stable,Empty", "--type", "classic"]],
        ),
        (15, 4, {"groups": ["g"], "include_authorized_operations": False}, [[GROUPS, *DESCRIBED]]),
        (69, 0, {"group_ids": ["g"], "include_authorized_operations": False}, [[GROUPS, *DESCRIBED]]),
        (
            77,
            1,
            {"group_ids": ["g"], "include_authorized_operations": False},
            [["kafka-share-groups.sh", *DESCRIBED]],
        ),
        (
            42,
            2,
            {"groups_names": ["g", "h"]},
            [[GROUPS, "--delete", "--group", "g"], [GROUPS, "--delete", "--group", "h"]],
        ),
        (10, 1, {"key": "g", "key_type": 0}, [[GROUPS, "--describe", "--group", "g", "--state"]]),
        (
            10,
            4,
            {"key_type": 1, "coordinator_keys": ["tx"]},
            [["kafka-transactions.sh", "describe", "--transactional-id", "tx"]],
        ),
        (10, 6, {"key_type": 2, "coordinator_keys": ["s"]}, []),
        (
            9,
            8,
            {"groups": [{"group_id": "g", "topics": None}], "require_stable": False},
            [[GROUPS, "--describe", "--group", "g", "--offsets"]],
        ),
        (
            47,
            0,
            {
                "group_id": "g",
                "topics": [{"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 2}]}],
            },
            [[GROUPS, "--delete-offsets", "--group", "g", "--topic", "t:0,2"]],
        ),
        (
            66,
            2,
            {
                "state_filters": [],
                "producer_id_filters": [],
                "duration_filter": 100,
                "transactional_id_pattern": "a.*",
            },
            [
                [
                    "kafka-transactions.sh",
                    "list",
                    "--duration-filter",
                    "100",
                    "--transactional-id-pattern",
                    "a.*",
                ]
            ],
        ),
        (
            65,
            0,
            {"transactional_ids": ["-t"]},
            [["kafka-transactions.sh", "describe", "--transactional-id=-t"]],
        ),
        (
            61,
            0,
            {"topics": [{"name": "t", "partition_indexes": [1]}]},
            [["kafka-transactions.sh", "describe-producers", "--topic", "t", "--partition", "1"]],
        ),
    ],
)
def test_a_request_is_asked_again(
    key: int, version: int, body: dict[str, Any], expected: list[list[str]]
) -> None:
    assert list(words(commands(asked(key, version, body)))) == expected


def test_commits_are_resets_of_offsets() -> None:
    made = commands(asked(8, 7, COMMIT))
    reset = [GROUPS, "--reset-offsets", "--group", "g", "--topic"]
    assert list(words(made)) == [
        [*reset, "t:2", "--to-offset", "7", "--execute"],
        [*reset, "t:3", "--to-offset", "7", "--execute"],
    ]
    assert lines(made)[0] == "# commits need a group without members; metadata and leader epochs are not kept"


def test_what_is_narrower_than_the_tool_is_said() -> None:
    body = {
        "groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}],
        "require_stable": False,
    }
    assert lines(commands(asked(9, 8, body)))[0] == "# shows all partitions of the group"
