"""Fetch sessions closed by clients, and coordinators that clients are told."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.advertised_addresses import Address
from captures.analysis.groups.farewells import Farewells, NamedCoordinators
from captures.exchanges import Exchange
from dissectors.api_keys import ApiKey
from tests.captures.analysis.kit import exchange

GROUP, TRANSACTION = 0, 1


def fetch(number: int, epoch: int, session: int = 7, **fields: Any) -> Exchange:
    request = {"replica_id": -1, "session_id": session, "session_epoch": epoch, "topics": []}
    return exchange(ApiKey.FETCH, 12, request=request, number=number, time=number, client_id="m1", **fields)


def by_client(*exchanges: Exchange) -> dict[tuple[str, str], list[int]]:
    farewells = Farewells()
    for each in exchanges:
        farewells.add(each)
    found = farewells.by_client(lambda connection: f"10.0.0.{connection}")
    return {who: [each.number for each in every] for who, every in found.items()}


def test_the_last_session_that_was_closed_on_each_connection_counts() -> None:
    closed = [fetch(1, -1, connection=1), fetch(5, -1, connection=1), fetch(3, -1, connection=2)]
    assert by_client(*closed) == {("m1", "10.0.0.1"): [5], ("m1", "10.0.0.2"): [3]}


@pytest.mark.parametrize(("epoch", "session"), [(0, 0), (4, 7), (-1, 0)])
def test_what_opens_or_goes_on_a_session_or_has_none_closes_none(epoch: int, session: int) -> None:
    """librdkafka sends epoch -1 with each Fetch, and has no session."""
    assert by_client(fetch(1, epoch, session)) == {}


def test_a_share_session_is_closed_likewise() -> None:
    request = {"group_id": "g", "member_id": "m", "share_session_epoch": -1}
    told = exchange(ApiKey.SHARE_FETCH, 1, request=request, number=9, client_id="m1", connection=3)
    assert by_client(told) == {("m1", "10.0.0.3"): [9]}


def coordinator(time: int, host: str, *, kind: int = GROUP, error: int = 0) -> Exchange:
    row = {"key": "orders", "node_id": 1, "host": host, "port": 9092, "error_code": error}
    return exchange(
        ApiKey.FIND_COORDINATOR,
        4,
        request={"key_type": kind, "coordinator_keys": ["orders"]},
        response={"coordinators": [row]},
        number=time,
        time=time,
        latency=0,
    )


def test_the_coordinator_that_was_named_last_within_a_time() -> None:
    named = NamedCoordinators()
    for each in (coordinator(30, "b"), coordinator(10, "a"), coordinator(20, "a")):
        named.add(each)
    latest = named.within("orders", 0, 25)
    assert latest is not None
    assert (latest.time, latest.address) == (10, Address("a", 9092))
    assert named.within("orders", 11, 25) is None
    changed = named.within("orders", 11, 30)
    assert changed is not None
    assert changed.address.host == "b"
    assert named.within("audit", 0, 99) is None


@pytest.mark.parametrize("more", [{"kind": TRANSACTION}, {"error": 15}])
def test_coordinators_of_transactions_and_answers_with_errors_name_none(more: dict[str, int]) -> None:
    named = NamedCoordinators()
    named.add(coordinator(10, "a", **more))
    assert named.within("orders", 0, 99) is None
