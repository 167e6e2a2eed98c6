from __future__ import annotations

from typing import Any

import pytest

from kproxy.proxy.rules.views import held_until
from tests.kproxy.proxy.rules.frames import FETCH, SECOND, START, request, response

DEFAULT = 30 * SECOND
JOIN = {
    "group_id": "g",
    "session_timeout_ms": 45_000,
    "member_id": "",
    "protocol_type": "consumer",
    "protocols": [],
}


@pytest.mark.parametrize(
    ("name", "version", "body", "seconds"),
    [
        ("Metadata", 4, {"topics": None, "allow_auto_topic_creation": True}, 24),
        ("Fetch", 4, FETCH, 24),
        ("Fetch", 4, FETCH | {"max_wait_ms": 60_000}, 60),
        ("Produce", 7, {"acks": -1, "timeout_ms": 5_000, "topic_data": []}, 4),
        ("Produce", 7, {"acks": -1, "timeout_ms": 120_000, "topic_data": []}, 24),
        ("CreateTopics", 2, {"topics": [], "timeout_ms": 10_000, "validate_only": False}, 8),
        ("JoinGroup", 2, JOIN | {"rebalance_timeout_ms": 300_000}, 240),
        ("JoinGroup", 2, JOIN | {"rebalance_timeout_ms": 6_000}, 24),
        ("JoinGroup", 0, JOIN, 36),
    ],
)
def test_how_long_a_request_may_be_held(
    name: str, version: int, body: dict[str, Any], seconds: float
) -> None:
    frame = request(name, version, body)
    assert held_until(frame, DEFAULT) == START + seconds * SECOND


def test_a_response_counts_from_its_request() -> None:
    asked = request("Fetch", 4, FETCH)
    answer = response("Fetch", 4, {"responses": []}, to=asked, time=START + 10 * SECOND)
    assert held_until(answer, DEFAULT) == START + 24 * SECOND


def test_a_response_without_its_request_counts_from_itself() -> None:
    answer = response("Fetch", 4, {"responses": []}, time=START + 10 * SECOND)
    assert held_until(answer, DEFAULT) == START + 34 * SECOND


def test_the_clients_timeout_can_be_told() -> None:
    assert held_until(request("Fetch", 4, FETCH), 60 * SECOND) == START + 48 * SECOND


def test_a_request_that_cannot_be_read_is_held_as_long_as_any() -> None:
    frame = request("JoinGroup", 2, JOIN | {"rebalance_timeout_ms": 300_000})
    frame.data = frame.data[:14]
    assert held_until(frame, DEFAULT) == START + 24 * SECOND
