"""A capture for benchmarks of questions: producers, and groups that fetch and commit the producers' records.

Unlike in captures of :mod:`benchmarks.traffic`, every offset is produced once and fetched once, and nothing is
repeated. So an analysis that follows records has as much to remember as in a real cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from benchmarks import traffic
from benchmarks.captures import made
from benchmarks.traffic import FETCH, HEARTBEAT, METADATA, OFFSET_COMMIT, PRODUCE, Ask
from dissectors.records import Record
from dissectors.records.build import build_batch

_PAIRS = 6
_BATCHES_A_FETCH = 4
_BYTES_A_BATCH = 3_300  # about so many bytes in the file, produced and fetched
_MS = 1_000_000
_BEGIN_MS = 1_795_237_401_000


def pipeline(connection: int, batches: int, topics: int) -> Iterator[Ask]:
    """Even connections produce to one partition each; odd ones are group members that fetch these records."""
    pair = connection // 2
    topic, partition = f"orders-{pair % topics}", pair // topics
    yield _metadata(topic)
    said = _consume if connection % 2 else _produce
    yield from said(topic, partition, pair, batches)


def _metadata(topic: str) -> Ask:
    host, _, port = traffic.BROKER.rpartition(":")
    places = {"error_code": 0, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1], "isr_nodes": [1]}
    partitions = [places | {"partition_index": index, "offline_replicas": []} for index in range(_PAIRS)]
    response = {
        "brokers": [{"node_id": 1, "host": host, "port": int(port), "rack": None}],
        "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg",
        "controller_id": 1,
        "topics": [{"error_code": 0, "name": topic, "is_internal": False, "partitions": partitions}],
    }
    return Ask(METADATA, {"topics": [{"name": topic}]}, response, 2 * _MS)


def _records(pair: int, batches: int) -> Iterator[list[Record]]:
    """Yield the records of each batch, one to six with values of several hundred bytes; the same for both sides."""
    rng, offset = Random(pair), 0
    for number in range(batches):
        records = []
        for _ in range(rng.randrange(1, 7)):
            value = rng.randbytes(min(int(rng.lognormvariate(5, 0.8)), 3_000)).hex().encode()
            records.append(Record(offset, _BEGIN_MS + number, b"k%d" % (number % 100), value, ()))
            offset += 1
        yield records


def _batch(records: list[Record], pair: int, base_offset: int) -> bytes:
    first = records[0].offset
    moved = [record._replace(offset=base_offset + record.offset - first) for record in records]
    return build_batch(moved, producer_id=4000 + pair, producer_epoch=0, base_sequence=first)


def _produce(topic: str, partition: int, pair: int, batches: int) -> Iterator[Ask]:
    latencies = Random(-1 - pair)
    for records in _records(pair, batches):
        sent = [{"index": partition, "records": _batch(records, pair, 0)}]
        stored = [{"index": partition, "error_code": 0, "base_offset": records[0].offset}]
        yield Ask(
            PRODUCE,
            {"acks": -1, "timeout_ms": 30_000, "topic_data": [{"name": topic, "partition_data": sent}]},
            {"responses": [{"name": topic, "partition_responses": stored}]},
            latencies.randrange(_MS, 8 * _MS),
        )


def _consume(topic: str, partition: int, pair: int, batches: int) -> Iterator[Ask]:
    latencies, group = Random(-1 - pair), f"group-{pair}"
    fetched: list[list[Record]] = []
    for number, records in enumerate(_records(pair, batches), 1):
        fetched.append(records)
        if number % _BATCHES_A_FETCH:
            continue
        yield _fetch(topic, partition, pair, fetched, latencies.randrange(20 * _MS, 30 * _MS))
        offset = records[-1].offset + 1
        if number % (10 * _BATCHES_A_FETCH) == 0:
            yield _commit(topic, partition, group, offset)
        if number % (40 * _BATCHES_A_FETCH) == 0:
            yield Ask(HEARTBEAT, _member(group, "generation_id"), {"error_code": 0}, _MS)
        fetched.clear()


def _fetch(topic: str, partition: int, pair: int, batches: list[list[Record]], latency: int) -> Ask:
    begin, end = batches[0][0].offset, batches[-1][-1].offset + 1
    asked = [{"partition": partition, "fetch_offset": begin, "partition_max_bytes": 1 << 20}]
    request = {
        "replica_id": -1,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": asked}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    answered = {
        "partition_index": partition,
        "error_code": 0,
        "high_watermark": end,
        "last_stable_offset": end,
        "log_start_offset": 0,
        "aborted_transactions": None,
        "records": b"".join(_batch(records, pair, records[0].offset) for records in batches),
    }
    response = {
        "error_code": 0,
        "session_id": 0,
        "responses": [{"topic": topic, "partitions": [answered]}],
    }
    return Ask(FETCH, request, response, latency)


def _commit(topic: str, partition: int, group: str, offset: int) -> Ask:
    wanted = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": 0,
        "committed_metadata": "",
    }
    request = _member(group, "generation_id_or_member_epoch")
    request["topics"] = [{"name": topic, "partitions": [wanted]}]
    done = [{"name": topic, "partitions": [{"partition_index": partition, "error_code": 0}]}]
    return Ask(OFFSET_COMMIT, request, {"topics": done}, 2 * _MS)


def _member(group: str, generation: str) -> dict[str, Any]:
    return {"group_id": group, generation: 17, "member_id": f"{group}-member", "group_instance_id": None}


def capture(size: int, topics: int) -> Path:
    """Return a capture of about ``size`` bytes; reuse that of an earlier run if the same code made it."""
    batches = max(_BATCHES_A_FETCH, size // _PAIRS // _BYTES_A_BATCH)
    script = partial(pipeline, batches=batches, topics=topics)
    code = sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    make = partial(traffic.write, script=script, connections=2 * _PAIRS)
    return made(f"pipeline-{topics}-{code}", size, make)
