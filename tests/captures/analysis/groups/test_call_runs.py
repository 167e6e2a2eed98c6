"""Groups and rules about members find the same whether they see all exchanges or only those selected by columns.

The traffic is random: members join, send heartbeats, commit and fetch, on several connections and by two addresses of
the coordinator; some calls fail, some are not answered, some members leave. Pauses are arbitrarily short.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from captures.analysis import slow_answers
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.groups import call_runs, context
from captures.analysis.groups.calls import Run
from captures.exchanges import Capture, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from tests.captures.analysis.findings.test_record_rules_by_columns import fetched
from tests.captures.analysis.groups.talk import assignment, subscription
from tests.captures.exchanges.talk import Talk, capture_of, mixed, packets
from tests.captures.packets.kit import MS

NOT_COORDINATOR, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS = 16, 22, 27
LIMITS = {
    "heartbeat_gaps.share": (5, 20, 75),
    "heartbeat_gaps.session": (20, 200),
    "commit_failures.stuck": (20, 30_000),
}


class Member:
    """Makes random calls.

    :param well: whether none of them fails
    """

    def __init__(self, rng: Random, name: str, *, well: bool = False) -> None:
        self.rng = rng
        self.name = name
        self._well = well
        self.group = rng.choice(("billing", "billing", "audit"))
        self.generation = 1
        self.number = 0

    def speak(self, talk: Talk) -> None:
        """Make some call."""
        say = self.rng.choices(
            (self.beat, self.commit, self.fetch, self.newer, self.join, self.search, self.leave, self.look),
            (40, 20, 15, 8, 4, 2, 1, 2),
        )[0]
        for _ in range(self.rng.choice((1, 1, 2, 6))):
            self.number += 1
            say(talk)

    def failing(self) -> int:
        """Return an error code, usually 0."""
        codes = 0, NOT_COORDINATOR, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS
        return 0 if self._well else self.rng.choices(codes, (40, 1, 1, 1))[0]

    def call(self, talk: Talk, key: int, version: int, request: Any, response: Any) -> None:
        """Send a request; rarely, it and everything after it on this connection is not answered."""
        silent = not self._well and self.rng.random() < 0.005
        client = self.name if self._well else self.rng.choices((self.name, "other"), (60, 1))[0]
        talk.call(self.number, client, key, version, request, None if silent or talk.in_flight else response)

    def beat(self, talk: Talk) -> None:
        request = {
            "group_id": self.group, "generation_id": self.generation, "member_id": self.name,
            "group_instance_id": None,
        }  # fmt: skip
        version = self.rng.choice((3, 4))
        self.call(talk, 12, version, request, {"throttle_time_ms": 0, "error_code": self.failing()})

    def commit(self, talk: Talk) -> None:
        places = self.rng.sample(range(3), self.rng.choice((1, 1, 2)))
        offset = self.number if self.rng.random() < 0.95 else 1
        asked = [
            {
                "partition_index": at, "committed_offset": offset, "committed_leader_epoch": -1,
                "committed_metadata": None,
            }
            for at in places
        ]  # fmt: skip
        request = {
            "group_id": self.group, "generation_id_or_member_epoch": self.generation, "member_id": self.name,
            "group_instance_id": None, "topics": [{"name": "orders", "partitions": asked}],
        }  # fmt: skip
        told = [{"partition_index": at, "error_code": self.failing()} for at in places]
        response = {"throttle_time_ms": 0, "topics": [{"name": "orders", "partitions": told}]}
        self.call(talk, 8, 7, request, response)

    def fetch(self, talk: Talk) -> None:
        if not talk.in_flight:
            fetched(self.rng, talk, self.number, self.name, ("plain", "none"))

    def newer(self, talk: Talk) -> None:
        places = [{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": [1, 2]}]
        request = {
            "group_id": self.group, "member_id": self.name, "member_epoch": self.rng.choice((3, 3, 3, 0, 4)),
            "instance_id": None, "rack_id": None, "rebalance_timeout_ms": -1, "subscribed_topic_names": None,
            "server_assignor": None, "topic_partitions": self.rng.choice((None, None, places)),
        }  # fmt: skip
        assigned = self.rng.choice((None, None, {"topic_partitions": places}))
        response = {
            "throttle_time_ms": 0, "error_code": self.failing(), "error_message": None, "member_id": self.name,
            "member_epoch": 3, "heartbeat_interval_ms": 5_000, "assignment": assigned,
        }  # fmt: skip
        self.call(talk, 68, 0, request, response)

    def join(self, talk: Talk) -> None:
        protocols = [{"name": "range", "metadata": subscription(("orders",))}]
        request = {
            "group_id": self.group, "session_timeout_ms": self.rng.choice((50, 200)), "rebalance_timeout_ms": 500,
            "member_id": self.name, "group_instance_id": None, "protocol_type": "consumer", "protocols": protocols,
        }  # fmt: skip
        self.generation += 1
        response = {
            "throttle_time_ms": 0, "error_code": self.failing(), "generation_id": self.generation,
            "protocol_name": "range", "leader": "m0", "member_id": self.name, "members": [],
        }  # fmt: skip
        self.call(talk, 11, 5, request, response)
        self.number += 1
        request = {
            "group_id": self.group, "generation_id": self.generation, "member_id": self.name,
            "group_instance_id": None, "assignments": [],
        }  # fmt: skip
        given = assignment({"orders": self.rng.sample(range(3), 1)})
        self.call(talk, 14, 3, request, {"throttle_time_ms": 0, "error_code": 0, "assignment": given})

    def search(self, talk: Talk) -> None:
        host = self.rng.choice(("one", "two"))
        response = {
            "throttle_time_ms": 0, "error_code": 0, "error_message": None, "node_id": 1, "host": host, "port": 9092,
        }  # fmt: skip
        self.call(talk, 10, 1, {"key": self.group, "key_type": 0}, response)

    def leave(self, talk: Talk) -> None:
        request = {"group_id": self.group, "member_id": self.name}
        self.call(talk, 13, 1, request, {"throttle_time_ms": 0, "error_code": self.failing()})

    def look(self, talk: Talk) -> None:
        request = {"group_id": self.group, "topics": [{"name": "orders", "partition_indexes": [0]}]}
        row = {"partition_index": 0, "committed_offset": 1, "metadata": None, "error_code": 0}
        response = {"topics": [{"name": "orders", "partitions": [row]}], "error_code": 0}
        self.call(talk, 9, 2, request, response)


def traffic(rng: Random, folder: Path) -> Capture:
    """Return a capture of several members."""
    members = [Member(rng, rng.choice(("m0", "m1", f"m{number}"))) for number in range(rng.randrange(1, 5))]
    connections = []
    for number in range(rng.randrange(1, 5)):
        talk = Talk(number)
        for _ in range(rng.randrange(1, 60)):
            rng.choice(members[:2] if rng.random() < 0.2 else members[-1:]).speak(talk)
        broker = rng.choice(("10.0.0.9", "10.0.0.8")), 9092
        connections.append(packets(talk, rng, most=9_000, broker=broker))
    return capture_of(folder, mixed(connections, rng))


def diagnosed(capture: Capture, limits: dict[str, float], *, by_columns: bool) -> tuple[Diagnosis, int]:
    reader = ExchangeReader(capture, annotate=False, summary=False)
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name, limits=limits)
    if by_columns:
        columns, indexes = ExchangeColumns(capture, reader.rows), np.arange(len(reader))
        return diagnosis, sum(1 for _ in diagnosis.add_all(reader, columns, indexes))
    for each in reader:
        diagnosis.add(each)
    return diagnosis, len(reader)


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_told_the_same_by_columns(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(seed)
    pause = rng.choice((8, 40, 60_000)) * MS
    for module in (call_runs, context):
        monkeypatch.setattr(module, "PAUSE", pause)
    monkeypatch.setattr(slow_answers, "LEAST", (slow_answers.LEAST, 2 * MS)[seed % 2])
    capture = traffic(rng, tmp_path)
    limits = {name: rng.choice(values) for name, values in LIMITS.items()}
    (mine, shown), (theirs, every) = (diagnosed(capture, limits, by_columns=way) for way in (True, False))
    assert shown <= every
    assert not capture.faults
    ours, others = ([(each.group, each.calls) for each in made.groups.calls] for made in (mine, theirs))
    assert ours == others
    assert mine.groups.result() == theirs.groups.result()
    assert mine.findings() == theirs.findings()
    assert mine.blind() == theirs.blind()


def test_a_group_at_peace_needs_few_exchanges(tmp_path: Path) -> None:
    rng = Random(1)
    member, talk = Member(rng, "m0", well=True), Talk(1)
    for say in (member.beat, member.beat, member.commit) * 100:
        member.number += 1
        say(talk)
    capture = capture_of(tmp_path, mixed([packets(talk, rng, most=9_000)], rng))
    diagnosis, shown = diagnosed(capture, {}, by_columns=True)
    assert shown < 20
    runs = diagnosis.groups.calls[0].calls
    assert all(isinstance(run, Run) for run in runs)
    assert sum(run.count for run in runs if isinstance(run, Run)) == 300
