"""The identity of a party against the processes started in the recordings: each has its own connections only."""

from __future__ import annotations

import re

import pytest

from captures.analysis.client_trace.connections import known_names
from captures.analysis.client_trace.model import AssociationReason, QuestionKind
from captures.analysis.groups.vocabulary import Certainty
from tests.captures.analysis.client_trace.kit import FINDINGS, GROUPS, NS, opened, party, truth_of

FENCE = FINDINGS / "22_k411_tx_java_fence.pcap.zst"
EOS = FINDINGS / "27_k391_tx_java_eos.pcap.zst"
SIGKILL = FINDINGS / "25_k430_broker_sigkill.pcap.zst"
_SLACK = NS // 2


def test_all_connections_of_a_client_id() -> None:
    found = party(opened(GROUPS / "21_k430_java_eager_range.pcap.zst"), "m1")
    assert list(found.ties) == [4, 5, 6]
    assert {tie.bond for tie in found.ties.values()} == {AssociationReason.CLIENT_ID}
    assert [found.ties[each].number for each in (4, 5, 6)] == [12, 15, 16]
    assert found.groups == ["gr2-java_eager_range"]
    assert found.members == ["m1-b4cacd93-cf32-4f5f-9e0f-8a3974052045"]


@pytest.mark.parametrize(
    "name", ["21_k430_java_eager_range", "21_k430_java_sticky", "27_k391_java_eager_range"]
)
def test_members_are_those_that_the_clients_say_they_were(name: str) -> None:
    capture = opened(GROUPS / f"{name}.pcap.zst")
    told: dict[str, set[str]] = {}
    for event in truth_of(name)["events"]:
        if event["what"] == "assigned":
            told.setdefault(event["who"], set()).update(re.findall(r"member=(\S+)", event["data"]))
    assert len(told) == 4
    for who, members in told.items():
        assert set(party(capture, who).members) == members


def test_each_process_of_a_crash_loop_has_its_own_connections() -> None:
    """All have the same client ID and address; only member IDs and times distinguish them."""
    name = "21_k430_ck_crashloop"
    capture, events = opened(GROUPS / f"{name}.pcap.zst"), truth_of(name)["events"]
    every = party(capture, "crash")
    lives = [
        (
            next(event["t"] for event in events if event["what"] == "spawn" and event["who"] == who),
            next(event["t"] for event in events if event["what"] == "SIGKILL" and event["who"] == who),
        )
        for who in dict.fromkeys(event["who"] for event in events if event["who"].startswith("crash"))
        if any(event["what"] == "SIGKILL" and event["who"] == who for event in events)
    ]
    assert len(lives) == len(every.members) >= 4
    claimed: list[int] = []
    for member, (begin, end) in zip(every.members, lives, strict=True):
        found = party(capture, member, QuestionKind.MEMBER)
        assert len(found.ties) == 3  # bootstrap, coordinator, broker
        assert {tie.certainty for tie in found.ties.values()} <= {Certainty.OBSERVED, Certainty.INFERRED}
        for connection in found.ties:
            known = capture.connections[connection]
            assert begin * NS - _SLACK <= known.first_time
            assert known.last_time <= end * NS + _SLACK
        claimed += found.ties
    assert sorted(claimed) == list(every.ties)


def test_a_connection_leads_to_the_others_of_its_client() -> None:
    capture = opened(GROUPS / "21_k430_java_eager_range.pcap.zst")
    for connection in (4, 5, 6):
        found = party(capture, str(connection), QuestionKind.CONNECTION)
        assert list(found.ties) == [4, 5, 6]
        assert found.ties[connection].bond is AssociationReason.CONNECTION
        others = {tie.bond for each, tie in found.ties.items() if each != connection}
        assert others <= {AssociationReason.SAME_CLIENT, AssociationReason.MEMBER}


def test_a_static_member_is_found_by_its_instance_id() -> None:
    capture = opened(GROUPS / "21_k430_ck_fenced_instance.pcap.zst")
    instances = {instance for who in known_names(capture) for instance in party(capture, who).instances}
    assert instances
    for instance in instances:
        found = party(capture, instance)
        assert instance in found.instances
        assert AssociationReason.INSTANCE in {tie.bond for tie in found.ties.values()}


def test_a_fenced_producer_is_not_its_successor() -> None:
    """Both have the same transactional ID, producer ID and address; their epochs differ."""
    capture = opened(FENCE)
    assert list(party(capture, "p-old").ties) == [2, 4]
    assert list(party(capture, "p-new").ties) == [3, 5]
    for by, text in ((QuestionKind.TRANSACTION, "fx-o-tx2"), (QuestionKind.PRODUCER, "2")):
        found = party(capture, text, by)
        assert found.client_ids == ["p-old", "p-new", "adminclient-2"]
        assert list(found.ties) == [2, 3, 4, 5, 6, 7]
        assert [found.ties[each].certainty for each in (2, 4)] == [Certainty.INFERRED, Certainty.OBSERVED]


def test_a_pattern_finds_several_and_an_id_that_is_there_is_none() -> None:
    capture = opened(GROUPS / "21_k430_java_eager_range.pcap.zst")
    assert party(capture, "m[12]").client_ids == ["m1", "m2"]
    assert (
        party(capture, "m?").client_ids == ["m1", "m2", "m3", "m4"]
        or len(party(capture, "m?").client_ids) == 5
    )
    assert party(capture, "m").ties == {}


def test_an_address_finds_all_that_speak_from_it() -> None:
    capture = opened(FENCE)
    found = party(capture, "127.0.0.1")
    assert len(found.ties) == len(capture.connections)
    assert {(tie.bond, tie.value) for tie in found.ties.values()} == {
        (AssociationReason.ADDRESS, "127.0.0.1")
    }


def test_silent_connections_are_counted_where_others_speak_and_taken_where_nobody_else_does() -> None:
    capture = opened(SIGKILL)
    alone = party(capture, "m")
    spoken = set(capture.table.column("connection").tolist())
    assert alone.unclaimed == len(capture.connections) - len(spoken) == 235
    both = party(capture, "[mp]*")
    assert both.client_ids == ["pump", "m"]
    assert both.unclaimed == 0
    silent = [tie for each, tie in both.ties.items() if each not in spoken]
    assert len(silent) == 235
    assert {(tie.bond, tie.certainty) for tie in silent} == {(AssociationReason.ADDRESS, Certainty.INFERRED)}


def test_nobody_is_nobody() -> None:
    capture = opened(FENCE)
    for by in QuestionKind:
        assert party(capture, "99", by).ties == {}
    assert {"adminclient-1", "p-old", "p-new"} < set(known_names(capture))


def test_only_own_names_count() -> None:
    """The leader of a group sends the assignments of all members, so it learns their IDs."""
    capture = opened(GROUPS / "21_k430_java_eager_range.pcap.zst")
    second = party(capture, "m2").members[0]
    assert party(capture, second, QuestionKind.MEMBER).client_ids == ["m2"]
