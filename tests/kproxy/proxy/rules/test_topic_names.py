from __future__ import annotations

import pytest

from dissectors import wire
from kproxy.proxy.rules import topic_names as module
from kproxy.proxy.rules.topic_names import TopicNames
from tests.kproxy.proxy.rules.frames import response_bytes

ID = wire.uuid_text(bytes(range(16)))


def metadata(name: str, correlation_id: int = 1) -> bytes:
    told = {"topics": [{"name": name, "topic_id": ID, "partitions": []}], "brokers": []}
    return response_bytes("Metadata", 12, told, correlation_id)


def test_names_are_told_by_metadata() -> None:
    names = TopicNames()
    assert names.name(ID) is None
    names.remember(3, 12, metadata("orders"))
    assert names.name(ID) == "orders"


def test_other_responses_tell_nothing() -> None:
    names = TopicNames()
    assert not names.has_names(1)
    names.remember(1, 12, metadata("orders"))
    assert names.name(ID) is None


def test_the_same_answer_is_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 3 * len(metadata("orders")))
    names = TopicNames()
    names.remember(3, 12, metadata("orders"))
    for number in range(100):
        names.remember(3, 12, response_bytes("Metadata", 12, {"topics": [], "brokers": []}, number))
    assert names.name(ID) == "orders"


def test_what_is_kept_unread_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 2 * len(metadata("orders-00")))
    names = TopicNames()
    names.remember(3, 12, metadata("orders-00"))
    for number in range(1, 10):
        told = metadata(f"orders-{number:02}").replace(bytes(range(16)), bytes([number] * 16))
        names.remember(3, 12, told)
    assert names.name(ID) is None
    assert names.name(wire.uuid_text(bytes([9] * 16))) == "orders-09"


def test_malformed_answers_tell_nothing() -> None:
    names = TopicNames()
    whole = metadata("orders")
    for size in range(4, len(whole), 3):
        names.remember(3, 12, whole[:size])
    assert names.name(ID) in (None, "orders")
