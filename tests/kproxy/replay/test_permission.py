"""Without permission only reads are sent: every API is in one class, and writes are excluded."""

from __future__ import annotations

import pytest

from dissectors.apis import NAMES, api, keys_by_name
from kproxy.replay.permission import (
    AUTHENTICATION,
    BETWEEN_NODES,
    READING,
    WRITING,
    NotAllowedError,
    allowed_keys,
    refusal,
)

pytestmark = pytest.mark.quick

KEYS = keys_by_name()


def reason(name: str, version: int, *allowed: str, **body: object) -> str:
    return refusal(KEYS[name.lower()], version, body, allowed_keys(allowed))


def test_every_api_is_of_one_class() -> None:
    classes = (READING, AUTHENTICATION, BETWEEN_NODES, WRITING)
    assert sum(map(len, classes)) == len(NAMES)
    assert frozenset().union(*classes) == set(NAMES)


def test_only_what_asks_reads() -> None:
    """The check uses Kafka's own names: APIs other than describe, list and fetch need a reason, given here."""
    others = {
        name for name in READING if not name.startswith(("Describe", "List")) and "Describe" not in name
    }
    assert others == {
        "Fetch", "Metadata", "OffsetFetch", "FindCoordinator", "ApiVersions", "OffsetForLeaderEpoch",
        "GetTelemetrySubscriptions",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(WRITING))
def test_writes_need_their_name(name: str) -> None:
    key = KEYS[name.lower()]
    known = api(key)
    assert known is not None
    version = known.request.versions.first
    assert refusal(key, version, {}, frozenset()) == "writes: needs --allow"
    assert refusal(key, version, {}, allowed_keys([name])) == ""


@pytest.mark.parametrize("name", sorted(AUTHENTICATION | BETWEEN_NODES))
def test_what_is_never_sent_cannot_be_allowed(name: str) -> None:
    assert reason(name, 0)
    with pytest.raises(NotAllowedError, match=f"{name} is never replayed"):
        allowed_keys([name])


def test_names_in_any_case_and_former_names() -> None:
    assert allowed_keys(["produce", " OffsetCommit"]) == {0, 8}
    assert allowed_keys(["ElectPreferredLeaders"]) == {43}
    with pytest.raises(NotAllowedError, match="'Produced' is not a Kafka API"):
        allowed_keys(["Produced"])


def test_fetches_of_followers_stay_out() -> None:
    assert not reason("Fetch", 12, replica_id=-1)
    assert "high watermark" in reason("Fetch", 12, replica_id=2)
    assert "high watermark" in reason("Fetch", 17, replica_state={"replica_id": 2, "replica_epoch": 7})
    assert not reason("Fetch", 17)
    assert reason("ListOffsets", 7, replica_id=0)


def test_a_transaction_needs_its_producer_id() -> None:
    assert "InitProducerId" in reason("Produce", 9, "Produce", transactional_id="t")
    assert not reason("Produce", 9, "Produce", "InitProducerId", transactional_id="t")
    assert not reason("Produce", 9, "Produce", transactional_id=None)


def test_unknown_apis_stay_out() -> None:
    assert refusal(10_000, 0, {}, frozenset())
