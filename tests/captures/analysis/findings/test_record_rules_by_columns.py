"""Rules about records find the same whether they see all exchanges or only those selected by columns.

The traffic is random: small and large batches with and without a codec, in transactions, damaged, in old formats,
truncated, with timestamps far off; fetches of these, with and without records beyond the last stable offset. The
thresholds are low enough for rules to find something.
"""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.analysis.decision_columns import DecisionColumns, Fact, _added, merged_facts, of_own_keys
from captures.analysis.findings.batch_samples import Flow, worth_a_look
from captures.analysis.findings.diagnosis import Diagnosis, packed
from captures.analysis.findings.finding import Occurrences
from captures.exchanges import Capture, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from dissectors.codec import Codec
from tests.captures.analysis.findings.record_kit import batch
from tests.captures.exchanges.talk import Talk, capture_of, mixed, packets

TOPICS = ("orders", "logs")
LIMITS = {
    "no_compression.size": (1, 500, 5_000),
    "no_compression.saving": (-500, 10),
    "compression_grows.batches": (1, 20, 40),
    "small_batches.requests": (1, 5, 30),
    "small_batches.rate": (0.5, 20),
    "small_batches.records": (1, 2, 5),
    "small_batches.size": (70, 200, 4_096),
    "empty_fetches.count": (1, 5, 20),
    "empty_fetches.rate": (0.1, 5),
    "empty_fetches.share": (0, 50),
    "empty_fetches.delayed": (0, 1, 5),
    "tiny_fetches.count": (1, 5),
    "tiny_fetches.cut": (1, 2),
    "stuck_position.fetched": (10, 30, 100, 30_000),
    "stuck_position.committed": (10, 30, 100, 60_000),
    "stuck_position.times": (1, 3, 6),
    "hanging_transactions.open": (10, 60_000),
    "heartbeat_gaps.share": (1, 10, 75),
    "timestamps_far_off.past": (1_000, 604_800_000),
}


def records(rng: Random, kind: str) -> bytes:
    """Return a records field."""
    made, codecs = b"", (Codec.GZIP, Codec.LZ4, Codec.ZSTD)
    codec = rng.choice(codecs)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        how: dict[str, Any] = {}
        if kind in ("compressed", "mixed"):
            how["codec"] = codec if kind == "compressed" else rng.choice(codecs)
        value = rng.choice((b"v", b"value" * rng.randrange(1, 40), rng.randbytes(30)))
        made += batch(rng.randrange(1, 5), value=value, **how)
    if kind == "damaged":
        made = made[:-1] + bytes([made[-1] ^ 1])
    if kind == "cut":
        made = made[: -rng.randrange(1, len(made))]
    if kind == "far":
        made = batch(base_timestamp=1_000)
    if kind == "transaction":
        made = batch(2, transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    if kind == "old":
        made = batch(2, magic=1)
    return b"" if kind == "none" else made


def produced(rng: Random, talk: Talk, number: int, client: str, kinds: tuple[str, ...]) -> None:
    """Send a Produce."""
    topics = rng.sample(TOPICS, rng.choice((1, 1, 2)))
    parts = [
        (topic, [(at, records(rng, rng.choice(kinds))) for at in range(rng.choice((1, 1, 2)))])
        for topic in topics
    ]
    request = {
        "transactional_id": rng.choice((None, None, "tx")) if "transaction" in kinds else None,
        "acks": -1,
        "timeout_ms": 1_000,
        "topic_data": [
            {"name": topic, "partition_data": [{"index": at, "records": data} for at, data in partitions]}
            for topic, partitions in parts
        ],
    }
    answers = [
        {"index": at, "error_code": 0, "base_offset": number, "log_append_time_ms": -1, "log_start_offset": 0}
        for at in range(3)
    ]
    for each in answers:
        each |= {"record_errors": [], "error_message": None}
    response = {
        "responses": [
            {"name": topic, "partition_responses": answers[: len(partitions)]} for topic, partitions in parts
        ],
        "throttle_time_ms": 0,
    }
    talk.call(number, client, 0, 8, request, response)


def fetched(rng: Random, talk: Talk, number: int, client: str, kinds: tuple[str, ...]) -> None:
    """Send a Fetch."""
    offset = rng.choice((0, 5, number))
    asked = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset, "log_start_offset": -1}
    request = {
        "replica_id": -1, "max_wait_ms": 1, "min_bytes": rng.choice((1, 1, 500)), "max_bytes": 50_000,
        "isolation_level": 0, "session_id": 0, "session_epoch": -1,
        "topics": [{"topic": "orders", "partitions": [asked | {"partition_max_bytes": rng.choice((90, 1 << 20))}]}],
        "forgotten_topics_data": [], "rack_id": "",
    }  # fmt: skip
    told = {
        "partition_index": 0, "error_code": 0, "high_watermark": number + 1,
        "last_stable_offset": rng.choice((number + 1, number + 1, 3)) if "transaction" in kinds else number + 1,
        "log_start_offset": 0, "aborted_transactions": None, "preferred_read_replica": -1,
        "records": rng.choice((records(rng, rng.choice(kinds)), b"", None)),
    }  # fmt: skip
    response = {
        "throttle_time_ms": 0, "error_code": 0, "session_id": 0,
        "responses": [{"topic": "orders", "partitions": [told]}],
    }  # fmt: skip
    talk.call(number, client, 1, 11, request, response)


def followed(rng: Random, talk: Talk, number: int, client: str, kinds: tuple[str, ...]) -> None:
    """Send a Fetch of a session: it names changed partitions, and so does the response."""
    opens = number == 1 or rng.random() < 0.05
    asked = [
        {
            "partition": at, "current_leader_epoch": -1, "fetch_offset": rng.choice((0, 5, 5, number)),
            "log_start_offset": -1, "partition_max_bytes": 1 << 20,
        }
        for at in range(3) if opens or rng.random() < 0.1
    ]  # fmt: skip
    request = {
        "replica_id": -1, "max_wait_ms": 1, "min_bytes": 1, "max_bytes": 50_000, "isolation_level": 0,
        "session_id": 0 if opens else 7, "session_epoch": 0 if opens else number, "rack_id": "",
        "topics": [{"topic": "orders", "partitions": asked}] if asked else [],
        "forgotten_topics_data": [{"topic": "orders", "partitions": [2]}] if rng.random() < 0.1 else [],
    }  # fmt: skip
    told = [
        {
            "partition_index": at, "error_code": rng.choice((0, 0, 0, 0, 6)),
            "high_watermark": rng.choice((5, 6, number)),
            "last_stable_offset": -1, "log_start_offset": 0, "aborted_transactions": None,
            "preferred_read_replica": -1, "records": records(rng, rng.choice(kinds)),
        }
        for at in range(3) if rng.random() < 0.5
    ]  # fmt: skip
    responses = [{"topic": "orders", "partitions": told}] if told else []
    response = {"throttle_time_ms": 0, "error_code": 0, "session_id": 7, "responses": responses}
    talk.call(number, client, 1, 11, request, response)


def committed(rng: Random, talk: Talk, number: int, client: str, kinds: tuple[str, ...]) -> None:
    """Send an OffsetCommit of two partitions."""
    places = rng.sample(range(3), 2)
    asked = [
        {
            "partition_index": at, "committed_offset": rng.choice((-1, 3, 3, 3, number)),
            "committed_leader_epoch": -1, "committed_metadata": None,
        }
        for at in places
    ]  # fmt: skip
    request = {
        "group_id": rng.choice(("billing", "billing", "audit")), "generation_id_or_member_epoch": 1, "member_id": "m",
        "group_instance_id": None, "topics": [{"name": "orders", "partitions": asked}],
    }  # fmt: skip
    told = [{"partition_index": at, "error_code": rng.choice((0, 0, 0, 25))} for at in places]
    response = {"throttle_time_ms": 0, "topics": [{"name": "orders", "partitions": told}]}
    talk.call(number, client, 8, 7, request, response)


def belonged(rng: Random, talk: Talk, number: int, client: str, _: tuple[str, ...]) -> None:
    """Send a heartbeat, or rejoin."""
    group, error = rng.choice(("billing", "audit")), rng.choice((0, 0, 0, 0, 0, 0, 25, 27))
    member = {"group_id": group, "member_id": f"m{talk.number}", "group_instance_id": None}
    if number == 1 or rng.random() < 0.03:
        timeouts = {"session_timeout_ms": rng.choice((5, 30, 200)), "rebalance_timeout_ms": 60_000}
        request = member | timeouts | {"protocol_type": "consumer", "protocols": []}
        response = {"generation_id": number, "protocol_name": "range", "leader": "m0", "members": []}
        response |= {"error_code": error, "member_id": member["member_id"], "throttle_time_ms": 0}
        talk.call(number, client, 11, 5, request, response)
    else:
        response = {"throttle_time_ms": 0, "error_code": error}
        talk.call(number, client, 12, 3, member | {"generation_id": 1}, response)


def traffic(rng: Random, folder: Path, size: int) -> Capture:
    """Return a capture of some clients that produce, fetch, commit and send heartbeats."""
    every = ("plain", "compressed", "damaged", "cut", "far", "transaction", "old", "none", "mixed")
    kinds = rng.choice((("plain",), ("compressed",), ("plain", "compressed"), rng.sample(every, 3), every))
    talks = []
    for connection in range(rng.randrange(1, 5)):
        talk, client = Talk(connection), rng.choice(("app", "app", "other"))
        way = rng.choice(
            (produced, produced, fetched, followed, followed, committed, committed, belonged, belonged)
        )
        for number in range(1, rng.choice((5, size))):
            way(rng, talk, number, client, tuple(kinds))
        talks.append(talk)
    return capture_of(folder, mixed([packets(talk, rng, most=9_000) for talk in talks], rng))


def diagnosed(capture: Capture, limits: dict[str, float], *, by_columns: bool) -> tuple[Diagnosis, int]:
    reader = ExchangeReader(capture, annotate=False, summary=False)
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name, limits=limits)
    if by_columns:
        columns, indexes = ExchangeColumns(capture, reader.rows), np.arange(len(reader))
        return diagnosis, sum(1 for _ in diagnosis.add_all(reader, columns, indexes))
    for each in reader:
        diagnosis.add(each)
    return diagnosis, len(reader)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_columns_choose_what_decides(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    capture = traffic(rng, tmp_path, 90)
    limits = {name: rng.choice(values) for name, values in LIMITS.items() if rng.random() < 0.7}
    (mine, shown), (theirs, every) = (diagnosed(capture, limits, by_columns=way) for way in (True, False))
    assert shown <= every
    assert mine.findings() == theirs.findings()
    assert mine.findings() == theirs.findings()
    assert mine.blind() == theirs.blind()
    assert not capture.faults


def diagnosed_in_parts(capture: Capture, limits: dict[str, float], edges: list[int]) -> tuple[Diagnosis, int]:
    """Diagnose in several tasks, each of which has the columns of its part of the capture."""
    reader = ExchangeReader(capture, annotate=False, summary=False)
    reader.learn(len(reader))

    def diagnosis() -> Diagnosis:
        return Diagnosis(capture, reader.knowledge.topic_name, limits=limits)

    parts = [np.arange(begin, end) for begin, end in pairwise([0, *edges, len(reader)])]

    def columns_of(part: int, facts: dict[str, Any] | None = None) -> DecisionColumns:
        columns = ExchangeColumns(capture, reader.rows[parts[part]], names=reader.knowledge.topic_name)
        return DecisionColumns(columns, parts[part] + reader.first, part=part, facts=facts)

    found = []
    for part in range(len(parts)):
        rows = columns_of(part)
        diagnosis().wanted(rows)
        found.append(pickle.loads(pickle.dumps(rows.found_facts)))  # pickled as between tasks
    facts, whole, shown = merged_facts(found), diagnosis(), list[tuple[int, bytes]]()
    for part, indexes in enumerate(parts):
        one = diagnosis()
        wanted = one.wanted(columns_of(part, facts[part]))
        whole.merge(one.counted())
        chosen = np.flatnonzero(wanted.any(axis=0))
        shown += zip(indexes[chosen].tolist(), packed(wanted[:, chosen]), strict=True)
    for (_, pattern), exchange in zip(shown, reader.several([index for index, _ in shown]), strict=True):
        whole.add_to(pattern, exchange)
    return whole, len(shown)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_parts_decide_as_the_whole(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    capture = traffic(rng, tmp_path, 90)
    limits = {name: rng.choice(values) for name, values in LIMITS.items() if rng.random() < 0.7}
    whole, every = diagnosed(capture, limits, by_columns=False)
    edges = sorted(rng.sample(range(every + 1), min(rng.randrange(1, 6), every)))
    parts, shown = diagnosed_in_parts(capture, limits, edges)
    assert shown <= every
    assert parts.findings() == whole.findings()
    assert parts.blind() == whole.blind()
    assert parts.groups.result() == whole.groups.result()
    assert not capture.faults


def test_evidence_in_a_later_part_is_not_a_finding(tmp_path: Path) -> None:
    """Only the second part has Produce exchanges, and the first of them has a tiny batch."""
    rng, talk = Random(1), Talk(1)
    for number in range(1, 5):
        committed(rng, talk, number, "app", ())
    for number, count in ((5, 1), (6, 30), (7, 30)):
        partitions = [{"index": 0, "records": batch(count)}]
        request = {
            "transactional_id": None, "acks": -1, "timeout_ms": 1_000,
            "topic_data": [{"name": "orders", "partition_data": partitions}],
        }  # fmt: skip
        talk.call(number, "app", 0, 8, request, {"responses": [], "throttle_time_ms": 0})
    capture = capture_of(tmp_path, packets(talk, rng, most=9_000))
    limits = {"small_batches.requests": 1, "small_batches.rate": 0.5}
    whole, _ = diagnosed(capture, limits, by_columns=False)
    parts, _ = diagnosed_in_parts(capture, limits, [4])
    assert parts.findings() == whole.findings()


def test_failed_commits_do_not_end_a_stay(tmp_path: Path) -> None:
    """Commits of another offset fail at the edge of both parts; the group keeps its offset."""
    rng, talk = Random(1), Talk(1)
    commits = [(4, 0), *[(5, 0)] * 3, (7, 25), (7, 25), *[(5, 0)] * 3, (8, 0)]
    for number, (offset, error) in enumerate(commits, 1):
        fetch(talk, 2 * number, "app", offset=number, end=10 + number)
        asked = {
            "partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": None,
        }  # fmt: skip
        request = {
            "group_id": "billing", "generation_id_or_member_epoch": 1, "member_id": "m", "group_instance_id": None,
            "topics": [{"name": "orders", "partitions": [asked]}],
        }  # fmt: skip
        told = {"name": "orders", "partitions": [{"partition_index": 0, "error_code": error}]}
        talk.call(2 * number + 1, "app", 8, 7, request, {"throttle_time_ms": 0, "topics": [told]})
    capture = capture_of(tmp_path, mixed([packets(talk, rng, most=9_000)], rng))
    limits = {"stuck_position.committed": 20.0}
    whole, _ = diagnosed(capture, limits, by_columns=False)
    parts, _ = diagnosed_in_parts(capture, limits, [10])
    assert "stuck_position" in {finding.rule for finding in whole.findings()}
    assert parts.findings() == whole.findings()


def fetch(talk: Talk, number: int, client: str, *, offset: int | None, end: int) -> None:
    """Send a Fetch of a session that names `offset`, unless it is None."""
    asked = {
        "partition": 0, "current_leader_epoch": -1, "fetch_offset": offset, "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }  # fmt: skip
    request = {
        "replica_id": -1, "max_wait_ms": 1, "min_bytes": 1, "max_bytes": 50_000, "isolation_level": 0,
        "session_id": 0 if number == 1 else 7, "session_epoch": number - 1, "rack_id": "",
        "topics": [] if offset is None else [{"topic": "orders", "partitions": [asked]}], "forgotten_topics_data": [],
    }  # fmt: skip
    told = {
        "partition_index": 0, "error_code": 0, "high_watermark": end, "last_stable_offset": -1,
        "log_start_offset": 0, "aborted_transactions": None, "preferred_read_replica": -1, "records": b"",
    }  # fmt: skip
    responses = [{"topic": "orders", "partitions": [told]}]
    response = {"throttle_time_ms": 0, "error_code": 0, "session_id": 7, "responses": responses}
    talk.call(number, client, 1, 11, request, response)


def test_a_position_may_be_named_again_in_a_later_part(tmp_path: Path) -> None:
    """The second part continues a fetch session, names the same offset once more, and then another one."""
    rng, talk = Random(1), Talk(1)
    for number in range(1, 41):
        fetch(talk, number, "app", offset={1: 5, 21: 5, 31: 7}.get(number), end=10 + number)
    capture = capture_of(tmp_path, mixed([packets(talk, rng, most=9_000)], rng))
    limits = {"stuck_position.fetched": 50.0}
    whole, _ = diagnosed(capture, limits, by_columns=False)
    parts, _ = diagnosed_in_parts(capture, limits, [10])
    assert "stuck_position" in {finding.rule for finding in whole.findings()}
    assert parts.findings() == whole.findings()


def test_parts_of_ordinary_traffic_need_few_exchanges(tmp_path: Path) -> None:
    rng = Random(1)
    talk = Talk(1)
    for number in range(1, 150):
        produced(rng, talk, number, "app", ("compressed",))
    capture = capture_of(tmp_path, mixed([packets(talk, rng, most=9_000)], rng))
    limits = dict.fromkeys(("timestamps_far_off.past", "timestamps_far_off.future"), 1e15)
    diagnosis, shown = diagnosed_in_parts(capture, limits, [50, 100])
    assert shown < 100
    assert diagnosis.findings() == diagnosed(capture, limits, by_columns=False)[0].findings()


def test_parts_of_a_stable_group_need_few_heartbeats(tmp_path: Path) -> None:
    rng, talk = Random(1), Talk(1)
    member = {"group_id": "billing", "member_id": "m", "group_instance_id": None, "generation_id": 1}
    for number in range(1, 150):
        talk.call(number, "app", 12, 3, member, {"throttle_time_ms": 0, "error_code": 0})
    capture = capture_of(tmp_path, mixed([packets(talk, rng, most=9_000)], rng))
    diagnosis, shown = diagnosed_in_parts(capture, {}, [50, 100])
    whole, _ = diagnosed(capture, {}, by_columns=False)
    assert shown < 15
    assert diagnosis.groups.calls == whole.groups.calls
    assert diagnosis.findings() == whole.findings()


def test_ordinary_traffic_needs_few_exchanges(tmp_path: Path) -> None:
    rng = Random(1)
    talk = Talk(1)
    for number in range(1, 150):
        produced(rng, talk, number, "app", ("compressed",))
    capture = capture_of(tmp_path, mixed([packets(talk, rng, most=9_000)], rng))
    limits = dict.fromkeys(("timestamps_far_off.past", "timestamps_far_off.future"), 1e15)
    diagnosis, shown = diagnosed(capture, limits, by_columns=True)
    assert shown < 90
    assert diagnosis.findings() == diagnosed(capture, limits, by_columns=False)[0].findings()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_samples_are_those_that_are_worth_a_look(counts: list[int]) -> None:
    sizes = np.array(counts, np.int64)
    rows, last = np.arange(len(sizes)), np.cumsum(sizes)
    flow = Flow(rows + 1, rows, rows, sizes, sizes)
    expected = [
        row
        for row, end in enumerate(last.tolist())
        if any(map(worth_a_look, range(end - counts[row] + 1, end + 1)))
    ]
    assert flow.sampled(last, sizes).tolist() == expected


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9))), st.integers(0, 30))
def test_what_is_noted_together_counts_as_one_by_one(seen: list[tuple[int, int]], cut: int) -> None:
    seen.sort(key=lambda each: each[0])
    one_by_one, together = Occurrences(), Occurrences()
    for number, time in seen:
        one_by_one.note(number, time)
    for number, time in seen[:cut]:
        together.note(number, time)
    later, apart = Occurrences(), Occurrences()
    for number, time in seen[cut:]:
        later.note(number, time)
    apart.include(together)
    apart.include(later)
    assert (apart.count, apart.first, apart.last) == (one_by_one.count, one_by_one.first, one_by_one.last)
    assert apart.numbers == one_by_one.numbers
    rest = np.array(seen[cut:], np.int64).reshape(-1, 2)
    together.note_all(rest[:, 0], rest[:, 1])
    assert (together.count, together.first, together.last) == (
        one_by_one.count,
        one_by_one.first,
        one_by_one.last,
    )
    assert together.numbers == one_by_one.numbers


def test_a_topic_by_name_and_by_id_is_one_flow(tmp_path: Path) -> None:
    """A producer that is upgraded meanwhile names topics by ID, from Produce v13 on (KIP-516)."""
    topic_id = "X2878PsETp2CpiSRKLPjKA"
    talk = Talk(1)
    metadata = {
        "throttle_time_ms": 0, "brokers": [], "cluster_id": None, "controller_id": 1,
        "topics": [{
            "error_code": 0, "name": "orders", "topic_id": topic_id, "is_internal": False, "partitions": [],
            "topic_authorized_operations": 0,
        }],
    }  # fmt: skip
    wanted = {
        "topics": [{"topic_id": topic_id, "name": None}],
        "allow_auto_topic_creation": False, "include_topic_authorized_operations": False,
    }  # fmt: skip
    talk.call(1, "app", 3, 12, wanted, metadata)
    for number, (version, named) in enumerate(((8, {"name": "orders"}), (13, {"topic_id": topic_id})), 2):
        partitions = [{"index": 0, "records": batch(3)}]
        answer = {
            "index": 0,
            "error_code": 0,
            "base_offset": 0,
            "log_append_time_ms": -1,
            "log_start_offset": 0,
        }
        answer |= {"record_errors": [], "error_message": None}
        request = {
            "transactional_id": None, "acks": -1, "timeout_ms": 1_000,
            "topic_data": [named | {"partition_data": partitions}],
        }  # fmt: skip
        response = {"responses": [named | {"partition_responses": [answer]}], "throttle_time_ms": 0}
        talk.call(number, "app", 0, version, request, response)
    capture = capture_of(tmp_path, mixed([packets(talk, Random(1), most=9_000)], Random(1)))
    sent = DecisionColumns(ExchangeColumns(capture)).produced
    assert [sent.topics[topic] for topic in sent.topic.tolist()] == ["orders", "orders"]
    assert sent.topic[0] == sent.topic[1]


def test_a_part_gets_only_what_it_needs_of_merged_facts() -> None:
    """With the facts of all flows in every task, memory would grow with the square of the capture size."""
    parts = [{"a": (1,), "b": (2,)}, {"b": (3,)}, {"c": (5,)}]
    found = [{"sums": Fact(own, _added, of_own_keys), "any": Fact(bool(own), any)} for own in parts]
    assert [each["sums"] for each in merged_facts(found)] == [{"a": [1], "b": [5]}, {"b": [5]}, {"c": [5]}]
    assert all(each["any"] for each in merged_facts(found))
