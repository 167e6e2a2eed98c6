"""Message sets of magic 0 and 1: wrappers, relative offsets, timestamps, faults."""

from __future__ import annotations

import zlib

import pytest

from dissectors.budget import LimitReached, limit_of, message_budget
from dissectors.budget import changed as limits
from dissectors.records import Batch, Codec, Record, compress, record_set
from dissectors.records.build import build_batch
from tests.batches import batches
from tests.dissectors.records.strategies import GZIP_V1_RELATIVE, LOG_APPEND_V1, LZ4_V0


def message(
    magic: int,
    offset: int,
    value: bytes | None,
    *,
    attributes: int = 0,
    timestamp: int = 7,
    crc: int | None = None,
) -> bytes:
    """One entry, spelled out (LegacyRecord.java)."""
    body = bytes((magic, attributes)) + (timestamp.to_bytes(8, "big") if magic else b"")
    body += b"\xff\xff\xff\xff"  # null key
    body += b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4, "big") + value
    checksum = zlib.crc32(body) if crc is None else crc
    head = offset.to_bytes(8, "big", signed=True) + (len(body) + 4).to_bytes(4, "big")
    return head + checksum.to_bytes(4, "big") + body


def wrapper(magic: int, offset: int, inner: bytes, *, attributes: int = 0, timestamp: int = 7) -> Batch:
    value = compress(Codec.GZIP, inner)
    (batch,) = batches(message(magic, offset, value, attributes=attributes | 1, timestamp=timestamp))
    return batch


def test_relative_offsets_of_a_broker() -> None:
    (batch,) = batches(GZIP_V1_RELATIVE)
    assert batch.records() == [Record(3, -1, b"k", b"sweep v0"), Record(4, -1, None, None)]


def test_recorded_tombstone_with_log_append_time() -> None:
    assert batches(LOG_APPEND_V1)[0].records() == [Record(3, 1795254762768, b"key3", None)]


def test_lz4_of_an_old_client() -> None:
    assert batches(LZ4_V0)[0].records() == [Record(0, -1, None, b"x" * 20_000)]


def test_magic_0_offsets_are_absolute() -> None:
    inner = message(0, 17, b"a") + message(0, 20, b"b")
    assert [record.offset for record in wrapper(0, 20, inner).records()] == [17, 20]
    # The 0.8.2 producer leaves all inner offsets 0 and sets the wrapper's: nothing is derived from it.
    assert [record.offset for record in wrapper(0, 15, message(0, 0, b"a") * 2).records()] == [0, 0]


def test_magic_1_offsets_count_back_from_the_wrapper() -> None:
    inner = message(1, 0, b"a") + message(1, 1, b"b") + message(1, 5, b"c")  # 2-4 were compacted away
    assert [record.offset for record in wrapper(1, 105, inner).records()] == [100, 101, 105]


def test_wrapper_offset_0_of_old_librdkafka() -> None:
    inner = message(1, 0, b"a") + message(1, 1, b"b")
    assert [record.offset for record in wrapper(1, 0, inner).records()] == [0, 1]


def test_wrapper_offset_below_the_last_inner_one() -> None:
    inner = message(1, 4, b"a") + message(1, 5, b"b")
    records, (problem,) = wrapper(1, 3, inner).read()
    assert [record.offset for record in records] == [4, 5]
    assert "wrapper offset 3 is less" in problem.reason


def test_timestamps_of_create_and_log_append_wrappers() -> None:
    inner = message(1, 0, b"a", timestamp=100) + message(1, 1, b"b", timestamp=200)
    assert [r.timestamp for r in wrapper(1, 1, inner, timestamp=999).records()] == [100, 200]
    assert [r.timestamp for r in wrapper(1, 1, inner, timestamp=999, attributes=8).records()] == [999, 999]


def test_one_level_of_nesting_only() -> None:
    inner = message(1, 0, b"a") + message(1, 1, compress(Codec.GZIP, message(1, 0, b"b")), attributes=1)
    records, problems = wrapper(1, 1, inner).read()
    assert [record.value for record in records] == [b"a"]
    assert "compressed message inside a compressed message" in problems[0].reason
    assert any("offsets are relative" in problem.reason for problem in problems[1:])


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (message(0, 1, b"b"), "magic 0 inside magic 1"),
        (message(1, 1, b"b")[:20], "message announces 23 bytes, 8 left"),
        (message(1, 1, b"b")[:10], "10 bytes left"),
        (bytes(8) + b"\x00\x00\x00\x10" + bytes(4) + b"\x01" + bytes(30), "message of 16 bytes"),
        (message(1, 1, b"b")[:-5] + b"\x00\x00\x00\x09b", "announces 9 bytes, 1 left"),
        (message(1, 1, b"b")[:-5] + b"\xff\xff\xff\xfeb", "length -2 is not allowed"),
        (message(1, 1, b"bc")[:-6] + b"\x00\x00\x00\x01bc", "1 bytes left inside the message"),
    ],
)
def test_inner_faults_keep_what_came_before(tail: bytes, reason: str) -> None:
    records, problems = wrapper(1, 1, message(1, 0, b"a") + tail).read()
    assert [record.value for record in records] == [b"a"]
    assert reason in problems[0].reason
    assert problems[0].offset >= 35
    assert not problems[0].truncated


def test_outer_faults() -> None:
    entry = message(1, 9, b"value")
    for broken, reason in [
        (entry[:-9] + b"\x00\x00\x00\x06value", "announces 6 bytes, 5 left"),
        (entry[:-9] + b"\x00\x00\x00\x04value", "1 bytes left inside the message"),
        (entry[:-9] + b"\xff\xff\xff\xfevalue", "length -2 is not allowed"),
        (entry[:-13] + b"\x7f\xff\xff\xff" + entry[-9:], "announces 2147483647 bytes"),
    ]:
        found = record_set(entry + broken)
        assert len(found) == 2
        records, (problem,) = found.batches[1].read()
        assert records == []
        assert reason in problem.reason
        assert problem.offset >= len(entry) + 26


def test_bad_inner_crc_is_told_and_the_record_kept() -> None:
    inner = message(1, 0, b"a") + message(1, 1, b"b", crc=1)
    batch = wrapper(1, 1, inner)
    assert batch.crc_valid
    records, (problem,) = batch.read()
    assert [record.value for record in records] == [b"a", b"b"]
    assert (problem.field_path, problem.offset) == ("messages[1].crc", 35 + 12)


def test_zstd_is_not_allowed() -> None:
    (batch,) = batches(message(1, 0, compress(Codec.ZSTD, message(1, 0, b"a")), attributes=4))
    records, (problem,) = batch.read()
    assert records == []
    assert problem.reason == "codec zstd is not allowed with magic 1"


def test_wrapper_without_value() -> None:
    (batch,) = batches(message(1, 0, None, attributes=1))
    assert "null value" in batch.read()[1][0].reason


def test_wrapper_whose_stream_is_broken() -> None:
    (batch,) = batches(message(1, 0, b"this is no gzip stream", attributes=1))
    records, (problem,) = batch.read()
    assert records == []
    assert "corrupt gzip data" in problem.reason
    assert (problem.offset, problem.field_path) == (34, "value")


def test_record_limit() -> None:
    data = build_batch([Record(n, n, None, b"v") for n in range(5)], magic=1, codec=Codec.GZIP)
    with limits(batch_records=3):
        records, problems = batches(data)[0].read()
    assert len(records) == 3
    assert isinstance(problems[0], LimitReached)
    assert problems[0].reason.startswith(
        "3 records decoded, the next would go over the limit batch_records (3 records)"
    )


def test_messages_of_a_set_share_what_it_may_cost() -> None:
    old = [Record(n, n, None, b"v") for n in range(5)]
    data = build_batch(old, magic=1) + build_batch(old, magic=1, codec=Codec.GZIP)
    with limits(message_records=7):
        budget = message_budget()
        read = [batch.read(budget) for batch in batches(data)]
        assert [len(records) for records, _ in read] == [1, 1, 1, 1, 1, 2]
        assert [limit_of(problem) for problem in read[-1].problems[:1]] == ["message_records"]
        records, (problem,) = batches(data)[0].read(budget)
    assert (records, limit_of(problem)) == ([], "message_records")
