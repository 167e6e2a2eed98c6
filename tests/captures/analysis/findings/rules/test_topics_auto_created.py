"""Topics that were created because a client requested them."""

from __future__ import annotations

from typing import Any

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.metadata import TopicsAutoCreated
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Exchange
from tests.captures.analysis.findings.group_kit import of_exchanges
from tests.captures.analysis.findings.record_kit import made, of_recording

THERE = [{"partition_index": 0, "replica_nodes": (1, 2)}, {"partition_index": 1, "replica_nodes": (2, 1)}]


def metadata(error: int, name: str = "ordres", *, allow: bool = True, **fields: Any) -> Exchange:
    row = {"error_code": error, "name": name, "partitions": [] if error else THERE}
    request = {"topics": [{"name": name}], "allow_auto_topic_creation": allow}
    return made(3, 9, request, {"topics": [row]}, **fields)


def test_the_answer_that_a_leader_is_being_chosen_shows_it() -> None:
    (found,) = of_recording("30_k0822_errors", TopicsAutoCreated)
    assert (found.subject, found.evidence) == ("topic raw-auto", (19, 41))
    assert (found.severity, found.certainty) == (Severity.LOW, Certainty.INFERRED)
    assert (
        "was created because client raw requested its metadata: 1 partition, replication factor 1"
        in found.sentence
    )


def test_the_first_who_asks_creates_it() -> None:
    (found,) = of_exchanges(
        TopicsAutoCreated,
        metadata(3, number=1),
        metadata(5, number=2, client_id="other"),
        metadata(0, number=3, client_id="other"),
        metadata(0, number=4),
    )
    assert found.evidence == (1, 3)
    assert "client app requested its metadata: 2 partitions, replication factor 2" in found.sentence
    assert found.certainty is Certainty.INFERRED


def test_somebody_else_may_have_created_it() -> None:
    (found,) = of_exchanges(TopicsAutoCreated, metadata(3), metadata(0))
    assert found.certainty is Certainty.POSSIBLE
    assert "did not exist, and was created after client app requested its metadata" in found.sentence


def test_what_is_created_on_purpose() -> None:
    created = made(19, 7, {"topics": [{"name": "ordres"}]}, {"topics": [{"name": "ordres", "error_code": 0}]})
    assert of_exchanges(TopicsAutoCreated, metadata(3), created, metadata(0)) == []
    assert of_exchanges(TopicsAutoCreated, metadata(3, allow=False), metadata(0)) == []
    assert (
        of_exchanges(TopicsAutoCreated, metadata(3, "__consumer_offsets"), metadata(0, "__consumer_offsets"))
        == []
    )
    assert of_exchanges(TopicsAutoCreated, metadata(3), metadata(3), metadata(0, "orders")) == []
