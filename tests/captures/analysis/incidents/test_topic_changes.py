"""Changed topics, with synthetic exchanges."""

from __future__ import annotations

from captures.analysis.groups.context import PartitionCounts
from captures.analysis.groups.model import Cause
from captures.analysis.groups.vocabulary import Certainty, Trigger
from captures.analysis.incidents.topic_changes import topic_changes
from captures.exchanges import Exchange
from dissectors.api_keys import ApiKey
from dissectors.units import SECOND
from tests.captures.analysis.groups.kit import cause, rebalance, timeline
from tests.captures.analysis.kit import exchange


def metadata(at: int, count: int, client: str = "app") -> Exchange:
    topic = {
        "error_code": 0 if count else 3,
        "name": "orders",
        "partitions": [{"partition_index": i} for i in range(count)],
    }
    return exchange(
        ApiKey.METADATA,
        9,
        request={},
        response={"topics": [topic]},
        time=at * SECOND,
        number=at,
        client_id=client,
    )


def deleted(at: int) -> Exchange:
    response = {"responses": [{"name": "orders", "error_code": 0}]}
    return exchange(
        ApiKey.DELETE_TOPICS, 4, request={}, response=response, time=at * SECOND, number=at, client_id="admin"
    )


def created(at: int, count: int) -> Exchange:
    response = {"topics": [{"name": "orders", "error_code": 0, "num_partitions": count}]}
    return exchange(
        ApiKey.CREATE_TOPICS, 5, request={}, response=response, time=at * SECOND, number=at, client_id="admin"
    )


def changed(at: int) -> Cause:
    return cause(Trigger.PARTITIONS_CHANGED, time=at * SECOND, evidence=(at,))


def told(*exchanges: Exchange) -> list[tuple[str, tuple[int, ...]]]:
    counts = PartitionCounts(lambda topic: None)
    for each in exchanges:
        counts.add(each)
    found = topic_changes(counts, ())
    assert all(each.certainty is Certainty.OBSERVED for each in found)
    return [(each.sentence, each.evidence) for each in found]


def test_a_topic_that_grows_is_told_once() -> None:
    seen = (
        metadata(1, 3),
        metadata(2, 3, "other"),
        metadata(5, 6),
        metadata(6, 6, "other"),
        metadata(7, 3, "slow"),
    )
    assert told(*seen) == [("Topic orders got more partitions: 6 instead of 3.", (5,))]


def test_a_topic_that_is_deleted_and_created_again_is_one_change() -> None:
    assert told(
        created(1, 3), metadata(2, 3), deleted(5), metadata(6, 0), created(9, 4), metadata(10, 4)
    ) == [("Topic orders was deleted, and created again after 4 s with 4 partitions.", (5, 9))]


def test_a_topic_that_is_created_again_much_later() -> None:
    assert told(metadata(2, 3), deleted(5), created(100, 1)) == [
        ("Topic orders was deleted.", (5,)),
        ("Topic orders was created again, with 1 partition.", (100,)),
    ]


def test_topics_that_no_other_client_used_are_not_told() -> None:
    assert not told(created(1, 3), deleted(5), created(6, 4))


def test_metadata_without_a_topic_is_no_deletion() -> None:
    assert not told(metadata(1, 3), metadata(5, 0), metadata(6, 3))


def test_a_rebalance_follows_from_the_change_that_its_exchange_shows() -> None:
    counts = PartitionCounts(lambda topic: None)
    for each in (metadata(1, 3), metadata(2, 3, "other"), metadata(5, 6), metadata(6, 6, "other")):
        counts.add(each)
    shown, unknown, again = (rebalance(causes=[changed(at)]) for at in (6, 8, 9))
    grown, seen = topic_changes(counts, [timeline(shown, unknown, again)])
    assert (grown.evidence, grown.rebalances) == ((5,), [shown])
    assert (seen.evidence, seen.rebalances) == ((8,), [unknown, again])
    assert list(grown.groups) == list(seen.groups) == ["orders"]
