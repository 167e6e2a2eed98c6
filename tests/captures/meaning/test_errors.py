"""Errors of responses: found everywhere, classified, and put into words."""

from __future__ import annotations

from typing import Any

import pytest

from captures.meaning import EXPECTED, errors_in, expected_errors
from captures.meaning.errors import errors_text
from dissectors import apis
from dissectors.domains import ERROR_CODE
from dissectors.error_codes import BY_CODE
from dissectors.schema import Array, Struct
from dissectors.wire import UNKNOWN_TAGS
from tests.dissectors.values import Values

pytestmark = pytest.mark.quick


def key_of(api: str) -> int:
    return apis.keys_by_name()[api.lower()]


def nameless(_: str) -> None:
    return None


def test_paths_codes_and_messages() -> None:
    body = {
        "error_code": 0,
        "responses": [
            {
                "name": "a",
                "partition_responses": [{"index": 0, "error_code": 0}, {"index": 1, "error_code": 6}],
            },
            {
                "name": "b",
                "partition_responses": [{"index": 7, "error_code": 87, "error_message": "bad record"}],
            },
        ],
    }
    found = errors_in(0, 9, body)
    assert [error[:3] for error in found] == [
        ("responses[0].partition_responses[1].error_code", 6, None),
        ("responses[1].partition_responses[0].error_code", 87, "bad record"),
    ]
    assert found[0].name == "NOT_LEADER_OR_FOLLOWER"
    assert found[0].holders == (
        body,
        body["responses"][0],  # type: ignore[index]  # a dict of several kinds of values
        body["responses"][0]["partition_responses"][1],  # type: ignore[index]  # as above
    )


def test_error_fields_of_other_names() -> None:
    body = {
        "responses": [
            {
                "partitions": [
                    {
                        "partition_index": 0,
                        "acknowledge_error_code": 121,
                        "acknowledge_error_message": "no such record",
                    }
                ]
            }
        ]
    }
    assert [error[:3] for error in errors_in(key_of("ShareFetch"), 1, body)] == [
        ("responses[0].partitions[0].acknowledge_error_code", 121, "no such record")
    ]
    created = {"topics": [{"name": "a", "error_code": 0, "topic_config_error_code": 29}]}
    assert [error[:2] for error in errors_in(key_of("CreateTopics"), 7, created)] == [
        ("topics[0].topic_config_error_code", 29)
    ]


@pytest.mark.sample(91)
@pytest.mark.parametrize("key", range(len(apis.NAMES)), ids=apis.NAMES)
def test_every_error_field_of_every_version_is_found(key: int) -> None:
    """Against an independent walk: every field declared as an error code, in random bodies of every version."""
    known = apis.api(key)
    assert known is not None
    for version in known.response.versions:
        body = Values(f"errors {key} {version}", unknown_tags=False).draw(known.response[version].struct)
        wanted = sorted(declared(known.response.struct, body, ""))
        assert sorted((error.path, error.code) for error in errors_in(key, version, body)) == wanted


def declared(struct: Struct, body: dict[str, Any], path: str) -> list[tuple[str, int]]:
    out: list[tuple[str, int]] = []
    for field in struct.fields:
        value = body.get(field.name)
        kind = field.type
        if not value or field.name == UNKNOWN_TAGS:
            continue
        if kind.domain is ERROR_CODE:
            out.append((path + field.name, value))
        elif isinstance(kind, Struct):
            out += declared(kind, value, f"{path}{field.name}.")
        elif isinstance(kind, Array) and isinstance(kind.element, Struct):
            for number, row in enumerate(value):
                out += declared(kind.element, row, f"{path}{field.name}[{number}].")
    return list(dict.fromkeys(out))


def test_no_errors_of_an_unknown_api_or_body() -> None:
    assert errors_in(999, 0, {"error_code": 3}) == []
    assert errors_in(3, 9, None) == []
    assert [error.code for error in errors_in(3, 99, {"topics": [{"error_code": 3}]})] == [3]


def test_many_errors_are_put_together() -> None:
    partitions = [{"index": n, "error_code": 6 if n < 40 else 10} for n in range(41)]
    found = errors_in(0, 9, {"responses": [{"name": "a", "partition_responses": partitions}]})
    assert errors_text(found, nameless) == "a 0-39 NOT_LEADER_OR_FOLLOWER, a-40 MESSAGE_TOO_LARGE"
    groups = [{"group_id": f"g{n}", "error_code": 69} for n in range(9)]
    assert errors_text(errors_in(15, 5, {"groups": groups}), nameless) == "9× GROUP_ID_NOT_FOUND"
    codes = [{"group_id": f"g{n}", "error_code": 10 + n} for n in range(5)]
    assert errors_text(errors_in(15, 5, {"groups": codes}), nameless).endswith("+2 other errors")


def test_unknown_code_has_a_name() -> None:
    assert errors_text(errors_in(12, 4, {"error_code": 999}), nameless) == "UNKNOWN_CODE_999"


EXPECTATIONS: list[tuple[str, int, dict[str, Any], dict[str, Any], bool]] = [
    ("ApiVersions", 5, {}, {"error_code": 35}, True),
    ("ApiVersions", 0, {}, {"error_code": 35}, False),
    ("ApiVersions", 4, {}, {"error_code": 42}, False),
    ("JoinGroup", 5, {"member_id": ""}, {"error_code": 79}, True),
    ("JoinGroup", 5, {"member_id": "m"}, {"error_code": 79}, False),
    ("JoinGroup", 5, {"member_id": ""}, {"error_code": 81}, False),
    ("Metadata", 9, {}, {"topics": [{"name": "a", "error_code": 5, "partitions": []}]}, True),
    (
        "Metadata",
        9,
        {"allow_auto_topic_creation": False},
        {"topics": [{"name": "a", "error_code": 5, "partitions": []}]},
        False,
    ),
    (
        "Metadata",
        9,
        {"allow_auto_topic_creation": True},
        {"topics": [{"name": "a", "error_code": 0, "partitions": [{"error_code": 5, "partition_index": 0}]}]},
        False,  # a partition that has lost its leader is an outage
    ),
    ("Metadata", 9, {}, {"topics": [{"name": "a", "error_code": 3}]}, False),
    ("Fetch", 12, {"session_id": 77}, {"error_code": 70}, True),
    ("Fetch", 12, {"session_id": 0}, {"error_code": 70}, False),
    ("Fetch", 12, {"session_id": 77}, {"error_code": 71}, False),
    ("ShareFetch", 1, {"share_session_epoch": 3}, {"error_code": 122}, True),
    ("ShareFetch", 1, {"share_session_epoch": 0}, {"error_code": 122}, False),
    ("OffsetCommit", 9, {}, {"topics": [{"name": "a", "partitions": [{"error_code": 113}]}]}, True),
    ("OffsetCommit", 9, {}, {"topics": [{"name": "a", "partitions": [{"error_code": 25}]}]}, False),
    (
        "OffsetFetch",
        7,
        {"require_stable": True},
        {"topics": [{"name": "a", "partitions": [{"error_code": 88}]}]},
        True,
    ),
    (
        "OffsetFetch",
        7,
        {"require_stable": False},
        {"topics": [{"name": "a", "partitions": [{"error_code": 88}]}]},
        False,
    ),
    ("InitProducerId", 4, {}, {"error_code": 51}, True),
    ("Heartbeat", 4, {}, {"error_code": 27}, False),
    ("FindCoordinator", 3, {}, {"error_code": 15}, False),
    ("ConsumerGroupDescribe", 0, {}, {"groups": [{"group_id": "a", "error_code": 69}]}, True),
    ("DescribeGroups", 5, {}, {"groups": [{"group_id": "a", "error_code": 69}]}, False),
    ("PushTelemetry", 0, {}, {"error_code": 117}, True),
]


@pytest.mark.parametrize(("api", "version", "request_body", "response", "expected"), EXPECTATIONS)
def test_expected(
    api: str, version: int, request_body: dict[str, Any], response: dict[str, Any], expected: bool
) -> None:
    key = key_of(api)
    errors = errors_in(key, version, response)
    assert len(errors) == 1
    assert expected_errors(key, version, request_body, response) == (errors if expected else [])


def test_only_some_of_the_errors_are_expected() -> None:
    response = {"topics": [{"name": "a", "partitions": [{"error_code": 113}, {"error_code": 25}]}]}
    errors = errors_in(8, 9, response)
    assert expected_errors(8, 9, {}, response, errors) == errors[:1]


def test_expectations_are_about_known_apis_and_codes() -> None:
    for (key, code), rule in EXPECTED.items():
        assert apis.api(key) is not None
        assert code in BY_CODE
        assert rule.reason.endswith(".")
