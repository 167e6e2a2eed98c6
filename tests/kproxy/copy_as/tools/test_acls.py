"""kafka-acls."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.copy_as.tools import commands
from tests.kproxy.copy_as.kit import asked, lines, words

PROGRAM = "kafka-acls.sh"
CREATED = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 10,
    "permission_type": 3,
}
ANY = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
OF_TOPIC = ANY | {"resource_type_filter": 2, "resource_name_filter": "t", "pattern_type_filter": 3}


@pytest.mark.parametrize(
    ("changes", "whom", "on"),
    [
        (
            {},
            ["--allow-principal", "User:alice", "--allow-host", "*", "--operation", "DescribeConfigs"],
            ["--topic", "t"],
        ),
        (
            {"resource_pattern_type": 4, "permission_type": 2, "operation": 3, "resource_type": 3},
            ["--deny-principal", "User:alice", "--deny-host", "*", "--operation", "Read"],
            ["--group", "t", "--resource-pattern-type", "prefixed"],
        ),
        (
            {"resource_type": 4, "resource_name": "kafka-cluster", "operation": 2},
            ["--allow-principal", "User:alice", "--allow-host", "*", "--operation", "All"],
            ["--cluster"],
        ),
    ],
)
def test_acls_are_added(changes: dict[str, Any], whom: list[str], on: list[str]) -> None:
    (found,) = words(commands(asked(30, 2, {"creations": [CREATED | changes]})))
    assert found == [PROGRAM, "--add", *whom, *on]


def test_acls_are_listed() -> None:
    assert list(words(commands(asked(29, 2, ANY)))) == [[PROGRAM, "--list"]]
    (found,) = words(
        commands(asked(29, 2, OF_TOPIC | {"principal_filter": "User:a", "pattern_type_filter": 2}))
    )
    assert found == [
        PROGRAM,
        "--list",
        "--topic",
        "t",
        "--resource-pattern-type",
        "match",
        "--principal",
        "User:a",
    ]
    note, _ = lines(commands(asked(29, 2, ANY | {"resource_type_filter": 2})))
    assert note == "# lists the ACLs of all resources; the request asked for some"
    note, _ = lines(commands(asked(29, 2, OF_TOPIC | {"operation": 3})))
    assert note.startswith("# of all hosts, operations and permissions")


def test_acls_are_removed_by_filters_that_the_tool_can_say() -> None:
    exact = {"principal_filter": "User:a", "host_filter": "*", "operation": 3, "permission_type": 3}
    made = commands(asked(31, 2, {"filters": [OF_TOPIC, OF_TOPIC | exact, OF_TOPIC | {"operation": 3}, ANY]}))
    remove = [PROGRAM, "--remove", "--force", "--topic", "t"]
    assert list(words(made)) == [
        remove,
        [*remove, "--allow-principal", "User:a", "--allow-host", "*", "--operation", "Read"],
        [],
        [],
    ]
    assert [line for line in lines(made) if line.startswith("#")] == [
        "# left out: a filter with some fields open, which the tool cannot express",
        "# left out: a filter of more than one resource, which the tool cannot delete by",
    ]
