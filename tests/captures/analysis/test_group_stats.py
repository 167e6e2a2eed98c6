"""Groups: members, generations, coordinators."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.group_stats import MOST_GENERATIONS, MOST_MEMBERS, GroupRow, GroupStats
from captures.exchanges import Exchange, ExchangeReader, open_capture
from tests.captures.analysis.kit import MS, error, exchange
from tests.captures.recorded import FOLDER


def counted(*exchanges: Exchange) -> GroupRow:
    stats = GroupStats()
    for number, each in enumerate(exchanges, 1):
        each.number, each.time = number, number * 1_000 * MS
        stats.add(each)
    (row,) = stats.result()
    return row


def join(member: str, generation: int, *, leader: str = "m1", size: int = 0, **fields: Any) -> Exchange:
    members = [{"member_id": f"m{number}"} for number in range(size)]
    request = {"group_id": "audit", "member_id": "", "protocol_type": "consumer", "protocols": []}
    response = {
        "error_code": 0,
        "generation_id": generation,
        "member_id": member,
        "leader": leader,
        "protocol_name": "range",
        "members": members,
    }
    return exchange(11, 5, request=request, response=response, **fields)


def beat(member: str, generation: int, code: int = 0) -> Exchange:
    request = {"group_id": "audit", "member_id": member, "generation_id": generation}
    errors = [error(code)] if code else []
    return exchange(12, 3, request=request, response={"error_code": code}, errors=errors)


def test_members_join_stay_and_leave() -> None:
    leave = exchange(
        13, 3, request={"group_id": "audit", "members": [{"member_id": "m2"}]}, response={"error_code": 0}
    )
    row = counted(
        join("m1", 7, size=2), join("m2", 7, client_id="other"), beat("m1", 7), beat("m2", 7, 27), leave
    )
    assert (row.kind, row.protocol_type, row.protocol) == ("classic", "consumer", "range")
    assert row.coordinator == "10.0.0.1:9092"
    assert (row.exchanges, row.rebalances, row.generation) == (5, 1, 7)
    assert row.apis == {"JoinGroup": 2, "Heartbeat": 2, "LeaveGroup": 1}
    assert row.errors == {"REBALANCE_IN_PROGRESS": 1}
    assert [member.member_id for member in row.present] == ["m1"]
    gone = row.members["m2"]
    assert (gone.client, gone.host, gone.generation, gone.exchanges) == ("other", "10.0.0.9", 7, 2)
    assert gone.left == 5_000 * MS
    (generation,) = row.generations
    assert (generation.leader, generation.size, generation.members) == ("m1", 2, ["m1", "m2"])
    assert (generation.first, generation.time) == (1, 1_002 * MS)


def test_each_new_generation_is_a_rebalance() -> None:
    row = counted(join("m1", 7), join("m1", 8), join("m2", 8), join("m1", 9))
    assert (row.rebalances, row.generation) == (3, 9)
    assert [generation.number for generation in row.generations] == [7, 8, 9]


def test_only_the_latest_generations_are_kept() -> None:
    row = counted(*(join("m1", number) for number in range(MOST_GENERATIONS + 10)))
    assert row.rebalances == MOST_GENERATIONS + 10
    assert [row.generations[0].number, len(row.generations)] == [10, MOST_GENERATIONS]


def test_only_the_latest_members_are_kept() -> None:
    row = counted(*(join(f"m{number}", 1) for number in range(MOST_MEMBERS + 3)))
    assert len(row.members) == MOST_MEMBERS
    assert next(iter(row.members)) == "m3"
    assert len(row.present) == MOST_MEMBERS


def test_a_member_that_has_only_to_take_its_id_is_none_yet() -> None:
    required = error(79)
    asked = {"group_id": "audit", "member_id": "", "protocols": []}
    told = {"error_code": 79, "generation_id": -1, "member_id": "m1"}
    row = counted(exchange(11, 4, request=asked, response=told, errors=[required], expected=[required]))
    assert (row.members, row.rebalances, row.errors, row.coordinator) == ({}, 0, {}, "")


def test_static_members_leave_by_their_name() -> None:
    static = join("m1", 7)
    assert static.request is not None
    static.request.value["group_instance_id"] = "pod-1"
    left = {"group_id": "audit", "members": [{"member_id": "", "group_instance_id": "pod-1"}]}
    row = counted(static, exchange(13, 3, request=left, response={"error_code": 0}))
    assert (row.present, row.members["m1"].instance_id) == ([], "pod-1")


def test_what_describing_tells() -> None:
    described = {
        "groups": [
            {"group_id": "audit", "error_code": 0, "group_state": "Stable", "protocol_type": "connect"},
            {"group_id": "other", "error_code": 16},
        ]
    }
    stats = GroupStats()
    stats.add(exchange(15, 5, request={"groups": ["audit", "other"]}, response=described))
    audit, other = stats.result()
    assert (audit.state, audit.protocol_type) == ("Stable", "connect")
    assert (other.state, other.exchanges) == ("", 1)
    listed = {"groups": [{"group_id": "audit", "group_state": "Empty", "group_type": "Consumer"}]}
    stats.add(exchange(16, 5, request={}, response=listed))
    assert (audit.state, audit.kind) == ("Empty", "consumer")


@pytest.mark.parametrize(
    ("name", "kind", "members"),
    [
        ("21_k430_kip848_java.pcap.zst", "consumer", 4),
        ("21_k430_share_group.pcap.zst", "share", 3),
        ("21_k430_streams_kip1071.pcap.zst", "streams", 3),
    ],
)
def test_the_newer_kinds(name: str, kind: str, members: int) -> None:
    capture = open_capture(str(FOLDER / name))
    capture.read()
    stats = GroupStats()
    for each in ExchangeReader(capture, annotate=False, gist=False):
        stats.add(each)
    row = stats.result()[0]
    assert (row.kind, len(row.members)) == (kind, members)
    assert len(row.present) == 1  # the one that was killed could not leave
    assert row.generation == 7
    assert row.coordinator.startswith("127.0.0.1:")
