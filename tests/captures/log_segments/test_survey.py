"""Facts about whole logs: of a real broker (see :mod:`.test_reference`), and of batches built here."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from captures.log_segments import Damage, LogSurvey, StoredBatch, partition_logs, read_segment
from captures.log_segments import survey as survey_module
from captures.log_segments.survey import OpenTransaction
from captures.packets import CaptureError
from dissectors.codec import Codec
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.log_segments.test_reference import DATA
from tests.captures.packets.test_files import capture

COMMIT, ABORT = struct.pack(">hh", 0, 1), struct.pack(">hh", 0, 0)
MARKER = struct.pack(">hi", 0, 5)


def survey(path: Path) -> LogSurvey:
    (log,) = partition_logs([str(path)])
    return LogSurvey(log)


def batch(offset: int, count: int = 1, producer: int = 9, **more: Any) -> bytes:
    records = [Record(offset + at, 7, None, b"v", ()) for at in range(count)]
    return build_batch(records, producer_id=producer, producer_epoch=0, transactional=True, **more)


def marker(offset: int, key: bytes, producer: int = 9) -> bytes:
    record = Record(offset, 7, key, MARKER, ())
    return build_batch([record], producer_id=producer, producer_epoch=0, transactional=True, control=True)


def built(folder: Path, *batches: bytes) -> LogSurvey:
    partition = folder / "t-0"
    partition.mkdir(exist_ok=True)
    (partition / f"{0:020}.log").write_bytes(b"".join(batches))
    return survey(partition)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "prices-0", tmp_path / "prices-0"))


# ---------------------------------------------------------------- real logs
def test_a_log_that_was_not_compacted_misses_nothing() -> None:
    found = survey(DATA / "orders-0")
    assert (found.first_offset, found.next_offset, found.records) == (0, 107, 107)
    assert (found.missing, found.gaps, found.empty, found.damage, found.wrong_indexes) == (0, 0, 0, [], [])
    assert (found.committed, found.aborted) == (2, 1)
    (unended,) = found.open_transactions
    assert (unended.first_offset, unended.certain) == (101, True)


def test_what_compaction_left_is_counted() -> None:
    found = survey(DATA / "prices-0")
    assert (found.first_offset, found.next_offset) == (113, 567)
    assert found.records + found.missing == 567 - 113
    assert found.empty == 5
    assert not found.wrong_indexes
    assert [(each.first_offset, each.certain) for each in found.open_transactions] == [(501, True)]


@pytest.mark.parametrize("partition", ["magic0-0", "magic1-0"])
def test_logs_of_old_formats_miss_nothing(partition: str) -> None:
    found = survey(DATA / partition)  # the time index of magic 0 has times that the messages do not have
    assert (found.records, found.next_offset, found.missing, found.wrong_indexes) == (160, 160, 0, [])


def test_without_the_snapshot_an_open_transaction_of_a_compacted_log_is_uncertain(prices: Path) -> None:
    (prices / f"{567:020}.snapshot").unlink()
    assert [(each.first_offset, each.certain) for each in survey(prices).open_transactions] == [(501, False)]


@pytest.mark.parametrize("damage", ["checksum", "short"])
def test_a_damaged_snapshot_is_reported(prices: Path, damage: str) -> None:
    path = prices / f"{567:020}.snapshot"
    data = path.read_bytes()
    path.write_bytes(data[:5] if damage == "short" else data[:-1] + bytes([data[-1] ^ 1]))
    (wrong,) = survey(prices).wrong_indexes
    assert wrong.startswith(f"{path}: not a snapshot")


@pytest.mark.parametrize(
    ("suffix", "entry", "number", "reason"),
    [
        (".index", struct.pack(">ii", 3, 77), 2, "offset 504 at position 77, where no batch begins"),
        (".index", struct.pack(">ii", 900, 0), 2, "offset 1,401 at position 0, where offset 501 begins"),
        (".timeindex", struct.pack(">qi", 5, 4), 1, "timestamp 5 at offset 505, whose batch has "),
        (".timeindex", struct.pack(">qi", 5, 4000), 1, "timestamp 5 at offset 4,501, which is in no batch"),
    ],
)
def test_entries_of_indexes_that_contradict_the_log_are_reported(
    prices: Path, suffix: str, entry: bytes, number: int, reason: str
) -> None:
    path = prices / f"{501:020}{suffix}"
    data = bytearray(path.read_bytes())
    data[number * len(entry) : (number + 1) * len(entry)] = entry
    path.write_bytes(bytes(data) + bytes(1000))  # unused entries are zeros
    (wrong,) = survey(prices).wrong_indexes
    assert wrong.startswith(f"{path}: byte {number * len(entry)}: {reason}")


def test_index_entries_written_while_the_segment_is_read_are_not_reported(
    prices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def appended(segment: Path) -> Iterator[StoredBatch | Damage]:
        yield from read_segment(segment)
        with segment.with_suffix(".index").open("ab") as index:
            index.write(struct.pack(">ii", 70, 1 << 20))

    monkeypatch.setattr(survey_module, "read_segment", appended)
    assert not survey(prices).wrong_indexes


def test_several_wrong_entries_are_counted(prices: Path) -> None:
    path = prices / f"{501:020}.index"
    path.write_bytes(struct.pack(">ii", 3, 77) * 3)
    (wrong,) = survey(prices).wrong_indexes
    assert wrong.endswith("where no batch begins, and 2 more")


# ---------------------------------------------------------------- built logs
def test_offsets_without_a_record_are_counted_between_and_within_batches(tmp_path: Path) -> None:
    found = built(tmp_path, batch(0, 2), batch(5, 2, last_offset=9), batch(10))
    assert (found.missing, found.gaps, found.next_offset) == (3 + 3, 2, 11)


@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_message_sets_are_counted_by_their_records(tmp_path: Path, magic: int) -> None:
    records = [Record(at, 7 if magic else -1, None, b"v" * 50, ()) for at in range(4)]
    sets = build_batch(records, magic=magic, codec=Codec.GZIP)  # type: ignore[arg-type]
    found = built(tmp_path, sets)
    assert (found.batches, found.records, found.first_offset, found.next_offset, found.missing) == (
        1,
        4,
        0,
        4,
        0,
    )


def test_a_record_belongs_to_the_next_marker_of_its_producer(tmp_path: Path) -> None:
    found = built(
        tmp_path,
        *(batch(0), batch(1, producer=8), marker(2, ABORT), batch(3), marker(4, COMMIT), batch(5)),
    )
    assert [found.committed_at(9, offset) for offset in (0, 3, 5)] == [False, True, None]
    assert found.committed_at(8, 1) is None
    assert found.open_transactions == [OpenTransaction(8, 1, True), OpenTransaction(9, 5, True)]
    assert (found.committed, found.aborted) == (1, 1)


def test_an_abort_does_not_count_before_its_transaction_in_the_index(tmp_path: Path) -> None:
    batches = batch(0), batch(4), marker(5, ABORT)  # compaction removed the marker of the first
    assert built(tmp_path, *batches).committed_at(9, 0) is False
    index = tmp_path / "t-0" / f"{0:020}.txnindex"
    index.write_bytes(struct.pack(">hqqqq", 0, 9, 4, 5, 6))
    found = built(tmp_path, *batches)
    assert [found.committed_at(9, offset) for offset in (0, 4)] == [True, False]


def test_a_marker_behind_damage_may_end_another_transaction(tmp_path: Path) -> None:
    damaged = bytearray(marker(1, ABORT))
    damaged[-1] ^= 1
    batches = (
        batch(0),
        bytes(damaged),
        batch(2),
        marker(3, COMMIT),
        batch(4),
        bytes(damaged),
        marker(6, ABORT),
    )
    assert [built(tmp_path, *batches).committed_at(9, offset) for offset in (0, 2, 4)] == [None, True, None]
    index = tmp_path / "t-0" / f"{0:020}.txnindex"
    index.write_bytes(struct.pack(">hqqqq", 0, 9, 4, 6, 7))
    assert built(tmp_path, *batches).committed_at(9, 4) is False


def test_a_marker_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    found = built(tmp_path, batch(0), marker(1, b"\0"))
    assert found.committed_at(9, 0) is None


def test_an_empty_log_has_no_offsets(tmp_path: Path) -> None:
    found = built(tmp_path)
    assert (found.first_offset, found.batches, found.open_transactions) == (None, 0, [])


# ---------------------------------------------------------------- folders
def test_logs_are_found_in_folders_of_partitions() -> None:
    logs = partition_logs([str(DATA)])
    assert [str(log.tp) for log in logs] == [
        "__cluster_metadata-0",
        "__consumer_offsets-0",
        "__transaction_state-0",
        "magic0-0",
        "magic1-0",
        "orders-0",
        "prices-0",
    ]
    assert [len(log.segments) for log in logs] == [1, 1, 1, 1, 1, 1, 4]
    one = str(DATA / "prices-0" / f"{501:020}.log")
    assert partition_logs([one, one]) == partition_logs([one])


@pytest.mark.parametrize(
    ("folder", "partition"),
    [("my-topic-12", "my-topic-12"), ("a-1-7.0123456789abcdef0123456789abcdef-delete", "a-1-7")],
)
def test_a_folder_names_the_partition(tmp_path: Path, folder: str, partition: str) -> None:
    segment = tmp_path / folder / f"{0:020}.log"
    segment.parent.mkdir()
    segment.touch()
    (log,) = partition_logs([str(segment)])
    assert str(log.tp) == partition


def test_the_same_partition_in_several_folders_is_several_logs(tmp_path: Path) -> None:
    for folder in ("b1/orders-0", "b2/orders-0", f"b1/orders-0.{'0' * 32}-future"):
        shutil.copytree(DATA / "orders-0", tmp_path / folder)
    logs = partition_logs([str(tmp_path / "b1"), str(tmp_path / "b2")])
    assert [(str(log.tp), log.folder.name[9:], len(log.segments)) for log in logs] == [
        ("orders-0", "", 1),
        ("orders-0", f".{'0' * 32}-future"[1:], 1),
        ("orders-0", "", 1),
    ]


def test_a_segment_is_found_once_by_different_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shutil.copytree(DATA / "orders-0", tmp_path / "orders-0"))
    (log,) = partition_logs([".", str(tmp_path / "orders-0")])
    assert len(log.segments) == 1


@pytest.mark.parametrize("linked", ["elsewhere/segment", f"orders-0/{0:020}.log"])
def test_links_to_segments_are_followed(tmp_path: Path, linked: str) -> None:
    folder = "orders-0" if linked.startswith("elsewhere") else "elsewhere"
    target, link = tmp_path / linked, tmp_path / folder / f"{0:020}.log"
    target.parent.mkdir()
    target.touch()
    link.parent.mkdir()
    link.symlink_to(target)
    (log,) = partition_logs([str(link)])
    assert str(log.tp) == "orders-0"


def test_a_folder_with_captures_and_logs_is_refused(tmp_path: Path) -> None:
    shutil.copytree(DATA / "orders-0", tmp_path / "orders-0")
    capture(tmp_path / "a.pcap", 1)
    with pytest.raises(CaptureError, match=r"a\.pcap: not a log segment"):
        partition_logs([str(tmp_path)])


def test_other_files_are_no_logs(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.touch()
    assert partition_logs([str(capture), str(tmp_path), "-", "/nowhere"]) == []
    with pytest.raises(CaptureError, match=r"a\.pcap: not a log segment"):
        partition_logs([str(DATA), str(capture)])
    stray = tmp_path / f"{0:020}.log"
    stray.touch()
    with pytest.raises(CaptureError, match="not named after a partition"):
        partition_logs([str(stray)])
