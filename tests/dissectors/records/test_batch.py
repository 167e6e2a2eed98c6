"""Batch headers, checksums, and reading of damaged batches."""

from __future__ import annotations

import pytest

from dissectors.budget import LimitReached, limit_of, message_budget
from dissectors.budget import changed as limits
from dissectors.codec import KNOWN_CODECS
from dissectors.errors import DecodeError
from dissectors.records import Batch, Codec, Record
from dissectors.records.batch import HEADER
from dissectors.records.build import build_batch
from tests.batches import batches
from tests.dissectors.records.strategies import (
    GZIP_V1_RELATIVE,
    LOG_APPEND_V1,
    LZ4_V0,
    LZ4_V2,
    MARKER,
    RECORDED,
    SNAPPY_V2,
    ZSTD_V2,
)

pytestmark = pytest.mark.quick

ROWS = [Record(n, 1000 + n, b"key", b"value") for n in range(10)]


def only(data: bytes) -> Batch:
    (batch,) = batches(data)
    return batch


def changed(data: bytes, at: int, new: bytes) -> Batch:
    return only(data[:at] + new + data[at + len(new) :])


def test_header_of_a_marker() -> None:
    batch = only(MARKER)
    assert (batch.base_offset, batch.last_offset, batch.count, batch.partition_leader_epoch) == (3, 3, 1, 0)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (2, 1, -1)
    assert batch.base_timestamp == batch.max_timestamp == 1795254547775
    assert (batch.crc, batch.crc_valid, batch.timestamp_type) == (0x893697DF, True, "create")
    assert (batch.control, batch.transactional) == (True, True)
    assert (batch.start, batch.end, batch.size) == (0, 78, 78)
    assert repr(batch) == "<Batch magic=2 codec=none count=1 offsets=3..3 bytes=0..78>"


def test_headers_of_old_messages() -> None:
    plain, wrapper, oldest = only(LOG_APPEND_V1), only(GZIP_V1_RELATIVE), only(LZ4_V0)
    assert (plain.timestamp_type, plain.max_timestamp, plain.count) == ("log_append", 1795254762768, 1)
    assert (wrapper.timestamp_type, wrapper.count, wrapper.last_offset) == ("create", None, 4)
    assert (oldest.timestamp_type, oldest.max_timestamp, oldest.codec) == (None, -1, Codec.LZ4)
    for batch in (plain, wrapper, oldest):
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
        assert (batch.transactional, batch.control, batch.partition_leader_epoch) == (False, False, -1)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (SNAPPY_V2, (0, 1795254498617, b"key13")),
        (LZ4_V2, (0, 1795254560852, b"key13")),
        (ZSTD_V2, (0, 1795253988868, b"key12")),
    ],
)
def test_recorded_batches(data: bytes, expected: tuple[int, int, bytes]) -> None:
    (record,) = only(data).records()
    assert record[:3] == expected
    assert record.value is not None
    assert record.value.startswith(b'{"i":14')
    assert record.value.endswith(b'pp"}')


def test_header_is_read_without_its_records() -> None:
    batch = Batch(memoryview(SNAPPY_V2)[: HEADER.size], 0, len(SNAPPY_V2), 2)
    assert (batch.codec, batch.count) == (Codec.SNAPPY, 1)


@pytest.mark.parametrize("data", RECORDED)
def test_every_flipped_bit_after_the_crc_is_noticed(data: bytes) -> None:
    first = 21 if data[16] == 2 else 17
    for at in range(first, len(data)):
        batch = Batch(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :], 0, len(data), data[16])
        assert not batch.crc_valid
    assert only(data).crc_valid


def test_memoryview_field() -> None:
    batch = batches(memoryview(bytearray(SNAPPY_V2)))[0]
    assert batch.crc_valid
    assert batch.records() == only(SNAPPY_V2).records()


def test_records_before_the_fault_are_kept() -> None:
    data = build_batch(ROWS)
    first = (len(data) - 61) // 10
    batch = changed(data, 61 + 4 * first, b"\x03")  # length -2
    records, problems = batch.read()
    assert records == ROWS[:4]
    (problem,) = problems
    assert (problem.offset, problem.field_path) == (61 + 4 * first + 1, "records[4].length")
    assert not problem.truncated
    with pytest.raises(DecodeError, match="record of -2 bytes"):
        batch.records()


@pytest.mark.parametrize("codec", KNOWN_CODECS[1:])
def test_fault_inside_compressed_records_counts_decompressed_bytes(codec: Codec) -> None:
    data = build_batch(ROWS, codec=codec)
    records, problems = changed(data, 57, (11).to_bytes(4, "big")).read()  # the count
    assert records == ROWS
    assert [problem.reason for problem in problems] == [
        "bytes end after 10 of 11 records (offset in the decompressed bytes)"
    ]


def test_compressed_stream_that_breaks_off_keeps_records() -> None:
    rows = [Record(n, 1000, None, b"%d" % n * 400) for n in range(200)]
    data = bytearray(build_batch(rows, codec=Codec.SNAPPY))
    data[-5:] = b"\xff" * 5
    batch = batches(bytes(data))[0]
    records, problems = batch.read()
    assert 20 < len(records) < 200
    assert records == rows[: len(records)]
    assert len(problems) == 1
    assert "corrupt snappy block" in problems[0].reason


def test_huge_count_allocates_nothing() -> None:
    data = build_batch(ROWS)
    records, problems = changed(data, 57, b"\x7f\xff\xff\xff").read()
    assert records == ROWS
    assert problems[0].reason.startswith("more than the limit") or "bytes end" in problems[0].reason
    records, problems = changed(data, 57, b"\xff\xff\xff\xff").read()
    assert records == []
    assert problems[0].reason == "batch announces -1 records"


def test_bytes_after_the_announced_records() -> None:
    data = build_batch(ROWS)
    records, (problem,) = changed(data, 57, (4).to_bytes(4, "big")).read()
    assert records == ROWS[:4]
    assert "bytes after the last record" in problem.reason
    assert problem.offset == 61 + (len(data) - 61) // 10 * 4


def test_record_limit() -> None:
    with limits(batch_records=3):
        records, (problem,) = only(build_batch(ROWS)).read()
    assert records == ROWS[:3]
    assert isinstance(problem, LimitReached)
    assert problem.limit == "batch_records"
    assert (
        problem.reason
        == "3 records decoded, the next of 10 would go over the limit batch_records (3 records)"
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_batches_of_a_message_share_what_it_may_cost(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    one = only(build_batch(ROWS, codec=codec))
    with limits(message_records=25):
        budget = message_budget()
        read = [one.read(budget) for _ in range(3)]
        monkeypatch.setattr(Batch, "payload", None)  # nothing is decompressed if nothing is left
        read.append(one.read(budget))
    assert [len(records) for records, _ in read] == [10, 10, 5, 0]
    assert [[limit_of(problem) for problem in problems] for _, problems in read] == [
        [],
        [],
        ["message_records"],
        ["message_records"],
    ]
    assert "0 records decoded, the next of 10 would go over the limit" in read[3].problems[0].reason


def test_bomb_is_a_problem() -> None:
    batch = only(build_batch([Record(0, 0, None, bytes(3 << 20))], codec=Codec.ZSTD))
    with limits(batch_bytes=1 << 20):
        records, (problem,) = batch.read()
    assert records == []
    assert isinstance(problem, LimitReached)
    assert problem.offset == 61


def test_unknown_codec_is_a_problem() -> None:
    batch = changed(build_batch(ROWS), 22, b"\x06")
    assert batch.codec.name == "UNKNOWN_6"
    assert batch.read()[1][0].reason == "unknown compression codec 6"


def test_limits_reach_the_codec() -> None:
    batch = only(LZ4_V0)
    assert len(batch.records()[0].value or b"") == 20_000
    with limits(batch_bytes=10_000):
        assert isinstance(batch.read()[1][0], LimitReached)
