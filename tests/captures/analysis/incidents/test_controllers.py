"""Controller changes, with synthetic exchanges."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.controllers import Controllers
from captures.analysis.incidents.model import Incident, IncidentKind
from captures.exchanges import Exchange
from dissectors.api_keys import ApiKey
from dissectors.units import SECOND
from tests.captures.analysis.kit import exchange


def quorum(key: ApiKey, at: int, **part: Any) -> Exchange:
    request = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [part]}]}
    return exchange(key, 1, request=request, response={}, time=at * SECOND, number=at)


def begun(at: int, leader: int, epoch: int) -> Exchange:
    return quorum(ApiKey.BEGIN_QUORUM_EPOCH, at, leader_id=leader, leader_epoch=epoch)


def named(at: int, controller: int, broker: str = "10.0.0.1:9092") -> Exchange:
    response = {"controller_id": controller}
    return exchange(
        ApiKey.METADATA, 9, request={}, response=response, time=at * SECOND, number=at, broker=broker
    )


def versions(*offered: ApiKey) -> Exchange:
    response = {"error_code": 0, "api_keys": [{"api_key": key} for key in offered]}
    return exchange(ApiKey.API_VERSIONS, 3, request={}, response=response)


def outage(begin: int, broker: str) -> Incident:
    return Incident(
        kind=IncidentKind.BROKER_OUTAGE,
        begin=begin * SECOND,
        end=None,
        who=(broker,),
        brokers=(broker,),
        sentence="",
    )


def told(*exchanges: Exchange) -> Controllers:
    controllers = Controllers()
    for each in exchanges:
        controllers.add(each)
    return controllers


def test_epochs_tell_a_move_in_whatever_order_they_come() -> None:
    vote = quorum(ApiKey.VOTE, 18, replica_epoch=4, pre_vote=False)
    earlier = quorum(ApiKey.VOTE, 5, replica_epoch=3, pre_vote=False)
    (move,) = told(begun(20, 2, 4), vote, begun(30, 2, 5), earlier, begun(10, 1, 3)).incidents([], {})
    assert (move.kind, move.certainty) == (IncidentKind.CONTROLLER_MOVE, Certainty.OBSERVED)
    assert move.sentence == "The controller moved from node 1 to node 2, 2 s after the first vote."
    assert (move.begin, move.end, move.evidence) == (18 * SECOND, 20 * SECOND, (20,))


@pytest.mark.parametrize(("node", "follows"), [(1, True), (3, False)])
def test_a_move_follows_from_the_outage_of_the_former_controller(node: int, follows: bool) -> None:
    away = outage(15, "10.0.0.7:9092")
    nodes = {"10.0.0.7:9092": frozenset({node})}
    own = list(told(begun(10, 1, 3), begun(20, 2, 4)).incidents([away], nodes))
    assert [each.kind for each in away.moves] == ["controller_move"] * follows
    assert len(own) == 1 - follows


def test_an_outage_long_before_is_not_why() -> None:
    away = outage(15, "10.0.0.7:9092")
    assert len(list(told(begun(10, 1, 3), begun(100, 2, 4)).incidents([away], {}))) == 1


def test_what_clients_are_told_counts_with_zookeeper_only() -> None:
    said = [named(1, 1), named(2, 2), named(3, 1, "10.0.0.2:9092"), named(4, 2, "10.0.0.2:9092")]
    zookeeper = versions(ApiKey.METADATA, ApiKey.LEADER_AND_ISR)
    (move,) = told(zookeeper, named(0, 1, "10.0.0.2:9092"), *said).incidents([], {})
    assert move.who == ("node 1", "node 2")
    assert not list(told(versions(ApiKey.METADATA), *said).incidents([], {}))
    assert not list(told(*said).incidents([], {}))


def test_what_is_missing_or_negative_says_nothing() -> None:
    nothing = exchange(ApiKey.VOTE, 1, request=None, response=None)
    unknown = quorum(ApiKey.DESCRIBE_QUORUM, 3, leader_id=-1, leader_epoch=9)
    assert not list(told(nothing, begun(1, 1, 1), unknown, named(2, -1)).incidents([], {}))
