"""The names by which clients identify themselves."""

from __future__ import annotations

from captures.analysis.client_trace.identities import Identity, identities, needs
from captures.analysis.client_trace.model import AssociationReason
from dissectors.api_keys import MEMBER_APIS, PRODUCER_APIS
from dissectors.records import Record
from dissectors.records.build import build_batch


def found(key: int, version: int, request: object = None, response: object = None) -> list[Identity]:
    return list(identities(key, version, request or {}, response or {}))  # type: ignore[arg-type]


def test_a_member_with_its_instance_id() -> None:
    request = {"group_id": "g", "member_id": "m-1", "group_instance_id": "i-1", "generation_id": 3}
    assert found(12, 4, request) == [
        Identity(AssociationReason.MEMBER, "m-1", "g"),
        Identity(AssociationReason.INSTANCE, "i-1", "g"),
    ]


def test_a_member_learns_its_id_from_the_answer() -> None:
    request = {"group_id": "g", "member_id": "", "group_instance_id": None}
    assert found(11, 9, request, {"member_id": "m-2"}) == [Identity(AssociationReason.MEMBER, "m-2", "g")]


def test_members_that_somebody_else_speaks_of_do_not_count() -> None:
    leave = {"group_id": "g", "members": [{"member_id": "m-3", "group_instance_id": None}]}
    assert found(13, 5, leave) == []
    verify = {"transactions": [{"transactional_id": "tx", "producer_id": 7, "producer_epoch": 0}]}
    assert not [name for name in found(24, 4, verify) if name.bond is AssociationReason.TRANSACTION]


def test_a_producer_is_known_by_its_id_and_epoch() -> None:
    records = build_batch([Record(0, 0, b"k", b"v")], producer_id=7, producer_epoch=2, base_sequence=0)
    request = {
        "transactional_id": "tx",
        "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": records}]}],
    }
    expected = [Identity(AssociationReason.TRANSACTION, "tx"), Identity(AssociationReason.PRODUCER, "7", "2")]
    assert found(0, 9, request) == expected
    begun = {"transactional_id": "tx", "producer_id": -1, "producer_epoch": -1}
    assert found(22, 5, begun, {"producer_id": 7, "producer_epoch": 2}) == expected


def test_what_is_missing_names_nobody() -> None:
    for key in MEMBER_APIS | PRODUCER_APIS:
        assert needs(key)
        for body in ({}, {"group_id": None, "member_id": None}, {"group_id": 5, "member_id": [None]}):
            assert found(key, 0, body, body) == []
    assert needs(3) == frozenset()
