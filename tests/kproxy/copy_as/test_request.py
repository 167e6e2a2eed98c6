"""Requests as seen by code that writes command lines."""

from __future__ import annotations

from kproxy.copy_as.request import asked as request_of
from kproxy.copy_as.request import has_id, rendered, with_value
from kproxy.copy_as.shell import Command
from tests.kproxy.copy_as.kit import asked

HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}


def test_a_value_is_never_taken_for_an_option() -> None:
    assert with_value("--topic", "orders") == ["--topic", "orders"]
    assert with_value("--topic", "--delete") == ["--topic=--delete"]
    assert with_value("--to-offset", 5) == ["--to-offset", "5"]


def test_a_request_that_was_not_read_to_its_end_is_none() -> None:
    exchange = asked(12, 3, HEARTBEAT)
    assert request_of(exchange) is not None
    exchange.request = None
    assert request_of(exchange) is None


def test_topics_go_by_name_where_the_name_of_an_id_was_seen() -> None:
    topic = "lB83RMqXT2KjX28Z0oSeOA"
    body = {
        "topics": [{"name": None, "topic_id": topic}, {"name": "a", "topic_id": "A" * 22}],
        "timeout_ms": 1,
    }
    exchange = asked(20, 6, body)
    request = request_of(exchange)
    assert request is not None
    assert [name for name, _, _ in request.topics()] == [None, "a"]
    assert [has_id(fields) for _, fields, _ in request.topics()] == [True, False]
    exchange.annotations.decoded["request.topics[0].topic_id"] = "orders"
    assert [name for name, _, _ in request.topics()] == ["orders", "a"]


def test_commands_stand_under_what_they_are_of_and_are_not_endless() -> None:
    exchange = asked(12, 3, HEARTBEAT)
    exchange.client_id = "evil\nrm -rf ~"
    text = rendered([(exchange, [Command(["true"])] * 60)], tls="encrypted")
    assert text.splitlines() == [
        "# Heartbeat v3 of exchange 1, client ID evil�rm -rf ~",
        "# encrypted",
        *["true"] * 50,
        "# left out: 10 more commands",
    ]
