"""The records of recorded exchanges, against those that kafka-python reads from the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from captures.analysis.journey import Journeys, RecordQuery
from captures.analysis.journey.log_facts import LogFacts
from captures.analysis.records import CapturedRecord, Origin, RecordListing, RecordSelection
from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture
from captures.meaning.topic_partitions import TopicPartition
from dissectors.api_keys import ApiKey
from dissectors.budget import changed
from dissectors.embedded.topics import CLUSTER_METADATA
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.analysis import kit

DATA = Path(__file__).parents[3] / "data"
TRANSACTIONS = DATA / "captures" / "22_k430_java_commit_abort.pcap"
EOS = DATA / "findings" / "27_k391_tx_java_eos.pcap.zst"
OLD_TRANSACTIONS = DATA / "findings" / "33_k0110_tx.pcap.zst"
ACKS0 = DATA / "captures" / "06_noida_acks0_java.pcap"
CONTROLLER = DATA / "captures" / "26_k430_add_controller_controller.pcap.zst"
REFUSED = DATA / "findings" / "25_k430_java_too_large.pcap.zst"
COMPRESSED = [
    "20_k430_ck_zstd.pcap",
    "09_nanosecond.pcap.zst",
    "09_any_sll2.pcap",
    "09_ipv6.pcap",
    "24_k430_franz_scramsha256.pcap",
    "31_k0901_cluster2.pcap",
    "35_k282_sasl_plain.pcap.zst",
]


def opened(path: Path) -> Capture:
    capture = open_capture(str(path))
    capture.read()
    return capture


def listed(
    path: Path, selection: RecordSelection | None = None, *, facts: bool = True
) -> tuple[list[CapturedRecord], RecordListing]:
    capture = opened(path)
    reader = ExchangeReader(capture, annotate=False, summary=False)
    reader.learn(len(reader))
    names = reader.knowledge.topic_name

    def known() -> LogFacts:
        journeys = Journeys(RecordQuery(), names, capture.table)
        for _ in journeys.read(reader):
            pass
        return journeys.facts()

    listing = RecordListing(selection or RecordSelection(), names, known if facts else None)
    return [record for exchange in reader for record in listing.of(exchange)], listing


# ------------------------------------------------------------ another implementation
def by_kafka_python(path: Path) -> Iterator[tuple[Any, ...]]:
    """Yield exchange, partition, offset, timestamp, key, value and headers, as kafka-python reads them."""
    memory = pytest.importorskip("kafka.record.memory_records")
    capture = opened(path)
    for exchange in ExchangeReader(capture, annotate=False, summary=False):
        request = (exchange.request.value if exchange.request else None) or {}
        response = (exchange.response.value if exchange.response else None) or {}
        produces = exchange.api_key == ApiKey.PRODUCE
        holders = request.get("topic_data", ()) if produces else response.get("responses", ())
        for at, holder in enumerate(holders):
            for place, row in enumerate(holder.get("partition_data") or holder.get("partitions") or ()):
                base = 0
                if produces:
                    answers = response["responses"][at]["partition_responses"]
                    base = answers[place]["base_offset"]
                    assert answers[place]["index"] == row["index"]
                batches = memory.MemoryRecords(row["records"] or b"")
                counted = 0
                while (batch := batches.next_batch()) is not None:
                    for record in batch:
                        offset = base + counted if produces else record.offset
                        counted += 1
                        yield (
                            exchange.number,
                            row.get("index", row.get("partition_index")),
                            offset,
                            -1 if record.timestamp is None else record.timestamp,
                            record.key,
                            record.value,
                            tuple(record.headers),
                        )


@pytest.mark.parametrize("name", COMPRESSED)
def test_records_are_those_that_kafka_python_reads(name: str) -> None:
    path = DATA / "captures" / name
    found, listing = listed(path)
    ours = [
        (
            each.number,
            each.tp.partition,
            each.offset,
            each.record.timestamp,
            each.record.key,
            each.record.value,
            each.record.headers,
        )
        for each in found
    ]
    theirs = list(by_kafka_python(path))
    assert len(theirs) >= 40
    assert ours == theirs
    assert not listing.damaged
    assert not listing.beyond


# ------------------------------------------------------------ beyond the bytes
def test_produced_records_of_an_aborted_transaction_are_marked() -> None:
    found, _ = listed(TRANSACTIONS)
    assert {each.committed for each in found if each.offset is not None and each.offset < 10} == {True}
    assert {each.committed for each in found if each.offset is not None and 11 <= each.offset <= 20} == {
        False
    }
    assert all(each.origin is Origin.PRODUCED for each in found)


def test_without_the_whole_capture_the_end_of_a_transaction_is_not_known() -> None:
    found, _ = listed(TRANSACTIONS, facts=False)
    assert {each.committed for each in found} == {None}


@pytest.mark.parametrize("path", [EOS, OLD_TRANSACTIONS])
def test_a_response_to_read_committed_tells_the_same_as_the_markers(path: Path) -> None:
    alone, _ = listed(path, facts=False)
    whole, _ = listed(path)
    fetched = [
        (one.committed, other.committed)
        for one, other in zip(alone, whole, strict=True)
        if one.origin is Origin.FETCHED and one.batch.transactional and one.control is None
    ]
    assert fetched
    assert all(one in (None, other) for one, other in fetched)
    produced = {(each.tp, each.offset): each.committed for each in whole if each.origin is Origin.PRODUCED}
    both = [
        (each.committed, produced[each.tp, each.offset])
        for each in alone
        if each.committed is not None and produced.get((each.tp, each.offset)) is not None
    ]
    assert both
    assert all(one == other for one, other in both)


def test_markers_are_control_records() -> None:
    found, _ = listed(OLD_TRANSACTIONS)
    markers = [each for each in found if each.control is not None]
    assert {each.control for each in markers} == {"COMMIT", "ABORT"}
    assert all(each.decoded and "coordinator_epoch" in each.decoded for each in markers)


def test_an_answer_that_was_not_asked_for_leaves_the_offset_unknown() -> None:
    found, _ = listed(ACKS0)
    produced = [each for each in found if each.origin is Origin.PRODUCED]
    unknown = [each for each in produced if each.offset is None]
    assert all(each.name.endswith("@?") for each in unknown)
    fetched = {(each.tp, each.record.value): each.offset for each in found if each.origin is Origin.FETCHED}
    for each in produced:
        if each.offset is not None and fetched:
            assert fetched.get((each.tp, each.record.value), each.offset) == each.offset


@pytest.mark.slow
def test_records_of_kafkas_own_topics_are_decoded() -> None:
    found, _ = listed(CONTROLLER)
    own = [each for each in found if each.tp.topic == "__cluster_metadata" and each.control is None]
    assert own
    assert all(each.decoded is not None and "type" in each.decoded for each in own)
    assert all(each.origin in (Origin.REPLICATED, Origin.SNAPSHOT) for each in found)


def test_refused_records_say_why() -> None:
    found, _ = listed(REFUSED)
    refused = [each for each in found if each.error]
    assert {each.error for each in refused} == {"MESSAGE_TOO_LARGE"}
    assert all(each.offset is None for each in refused)


# ------------------------------------------------------------ selection
def test_selection_by_place_offset_timestamp_and_content() -> None:
    every, _ = listed(TRANSACTIONS)
    place = every[0].tp
    for selection, wanted in (
        (RecordSelection(("tw*",), (0,)), every),
        (RecordSelection(("other",)), []),
        (RecordSelection((), (7,)), []),
        (RecordSelection(offsets=(12, 14)), [each for each in every if 12 <= (each.offset or 0) <= 14]),
        (RecordSelection(offsets=(None, 3)), every[:4]),
        (
            RecordSelection(timestamps=(every[5].record.timestamp, None)),
            [each for each in every if each.record.timestamp >= every[5].record.timestamp],
        ),
        (
            RecordSelection(content=RecordQuery(key=b"k3")),
            [each for each in every if each.record.key == b"k3"],
        ),
        (
            RecordSelection(content=RecordQuery(contains=b"v9")),
            [each for each in every if each.record.value == b"v9"],
        ),
    ):
        assert listed(TRANSACTIONS, selection)[0] == wanted, selection
    assert RecordSelection().has_partition(place)
    assert RecordSelection(("tw1",)).has_partition(TopicPartition("tw1", 0))


def test_a_topic_with_brackets_is_found_by_its_name() -> None:
    assert RecordSelection(("orders-[1]",)).has_partition(TopicPartition("orders-[1]", 0))


# ------------------------------------------------------------ limits
def test_what_goes_over_a_limit_is_counted_and_the_rest_is_shown() -> None:
    every, _ = listed(DATA / "captures" / COMPRESSED[0])
    with changed(message_records=2):
        few, listing = listed(DATA / "captures" / COMPRESSED[0])
    assert 0 < len(few) < len(every)
    assert listing.beyond["message_records"] > 0


# ------------------------------------------------------------ secrets
def secret_fetch() -> Exchange:
    """A Fetch of __cluster_metadata with a record of a SCRAM credential (frame version 1, type 11, version 0)."""
    message = CLUSTER_METADATA[11]
    credential = {"name": "alice", "mechanism": 1, "iterations": 4096}
    secrets = {"salt": b"salty-secret", "stored_key": b"stored-secret", "server_key": b"server-secret"}
    value = b"\x01\x0b\x00" + message[0].build({**credential, **secrets})
    data = build_batch([Record(5, 1000, None, value)], base_offset=5)
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 6, "records": data}
    response = {"error_code": 0, "responses": [{"topic": "__cluster_metadata", "partitions": [partition]}]}
    return kit.exchange(ApiKey.FETCH, 12, request={"replica_id": 2, "topics": []}, response=response)


def test_secrets_in_kafkas_own_topics_are_masked() -> None:
    (masked,) = RecordListing(RecordSelection(), lambda _: None).of(secret_fetch())
    assert masked.masked
    assert masked.record.value is None
    assert masked.decoded is not None
    assert masked.decoded["value"]["name"] == "alice"
    assert b"secret" not in repr(masked).encode()
    (open_,) = RecordListing(RecordSelection(), lambda _: None, show_secrets=True).of(secret_fetch())
    assert not open_.masked
    assert open_.decoded is not None
    assert open_.decoded["value"]["salt"] == b"salty-secret"
