"""Broker registrations, with synthetic exchanges with their controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.model import Incident, IncidentKind
from captures.analysis.incidents.of_brokers import Registrations
from captures.exchanges import Capture, Exchange, open_capture
from dissectors.api_keys import ApiKey
from dissectors.units import SECOND
from tests.captures.analysis.groups.truth import FOLDER
from tests.captures.analysis.kit import exchange

NODES = {"10.0.0.1:9092": frozenset({1})}


@pytest.fixture(scope="module")
def capture() -> Capture:
    """A capture that names no broker."""
    return open_capture(str(Path(FOLDER) / "46_k430_quick_return.pcap.zst"))


def beat(at: float, epoch: int, metadata: int, **request: object) -> Exchange:
    body = {"broker_id": 1, "broker_epoch": epoch, "current_metadata_offset": metadata, **request}
    time = round(at * SECOND)
    return exchange(
        ApiKey.BROKER_HEARTBEAT, 1, request=body, response={"is_fenced": False}, time=time, number=int(at)
    )


def registered(at: int, epoch: int, incarnation: str) -> Exchange:
    request, response = {"broker_id": 1, "incarnation_id": incarnation}, {"broker_epoch": epoch}
    return exchange(
        ApiKey.BROKER_REGISTRATION,
        4,
        request=request,
        response=response,
        time=at * SECOND,
        number=at,
        connection=1,
    )


def told(*exchanges: Exchange) -> Registrations:
    made = Registrations()
    for each in exchanges:
        made.add(each)
    return made


def outage(begin: int, end: int | None) -> Incident:
    return Incident(
        kind=IncidentKind.BROKER_OUTAGE,
        begin=begin * SECOND,
        end=None if end is None else end * SECOND,
        who=("10.0.0.1:9092",),
        brokers=("10.0.0.1:9092",),
        sentence="Broker 10.0.0.1:9092 was down.",
        certainty=Certainty.POSSIBLE,
        alternatives=("the network between it and its clients was cut",),
    )


def test_another_incarnation_is_a_restart_that_no_connection_has_to_show(capture: Capture) -> None:
    seen = told(registered(5, 7, "a"), beat(6, 7, 10), registered(20, 9, "b"), beat(21, 9, 12))
    (found,) = seen.restarts(capture, [], NODES)
    assert (found.kind, found.begin, found.end) == (IncidentKind.BROKER_OUTAGE, 6 * SECOND, 20 * SECOND)
    assert found.brokers == ("10.0.0.1:9092",)
    assert found.evidence == (20,)


def test_the_same_incarnation_is_no_restart(capture: Capture) -> None:
    seen = told(registered(5, 7, "a"), beat(6, 7, 10), registered(20, 9, "a"))
    assert not list(seen.restarts(capture, [], NODES))


def test_a_registration_settles_what_the_network_might_explain(capture: Capture) -> None:
    known = outage(8, 19)
    assert not list(told(beat(6, 7, 10), registered(20, 9, "b")).restarts(capture, [known], NODES))
    assert (known.certainty, known.alternatives) == (Certainty.INFERRED, ())
    assert known.sentence == "Broker 10.0.0.1:9092 was down; its new process registered (#20)."


def test_a_broker_that_asks_to_shut_down_is_told_without_connections(capture: Capture) -> None:
    seen = told(beat(6, 7, 10), beat(8, 7, 14, want_shut_down=True), beat(9, 7, 14, want_shut_down=True))
    (found,) = seen.restarts(capture, [], {})
    assert (found.who, found.sentence.split(";")[0]) == (("node 1",), "Node 1 was shut down")
    assert (found.begin, found.end, found.in_order, found.evidence) == (8 * SECOND, None, True, (8,))


@pytest.mark.parametrize(("metadata", "count"), [(10, 1), (12, 1), (40, 0)])
def test_a_broker_without_heartbeats_or_metadata_may_have_paused(
    capture: Capture, metadata: int, count: int
) -> None:
    """A broker with newer metadata talked to another controller meanwhile."""
    found = list(told(beat(4, 7, 6), beat(6, 7, 10), beat(19, 7, metadata)).pauses(capture, [], NODES))
    assert [(each.begin, each.end) for each in found] == [(6 * SECOND, 19 * SECOND)] * count
    assert all(each.certainty is Certainty.POSSIBLE and each.alternatives for each in found)


def test_a_silence_in_a_known_outage_is_told_once(capture: Capture) -> None:
    seen = told(beat(6, 7, 10), beat(19, 7, 10))
    assert not list(seen.pauses(capture, [outage(7, 18)], NODES))


def test_parts_that_are_merged_tell_the_same(capture: Capture) -> None:
    first, second = told(beat(6, 7, 10), beat(19, 7, 10)), told(registered(30, 9, "b"))
    first.merge(second)
    whole = told(beat(6, 7, 10), beat(19, 7, 10), registered(30, 9, "b"))
    for made in (Registrations.restarts, Registrations.pauses):
        assert list(made(first, capture, [], NODES)) == list(made(whole, capture, [], NODES))
