"""Batches of a segment, and damage. The bytes are those of a real broker, modified here."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from captures.log_segments import Damage, StoredBatch, read_segment
from captures.log_segments import segment as segment_module
from dissectors import budget
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.log_segments.test_reference import DATA

NAME = f"{0:020}.log"
ORDERS = (DATA / "orders-0" / NAME).read_bytes()


def read(folder: Path, data: bytes) -> tuple[list[StoredBatch], list[Damage]]:
    path = folder / NAME
    path.write_bytes(data)
    parts = list(read_segment(path))
    batches = [part for part in parts if isinstance(part, StoredBatch)]
    return batches, [part for part in parts if isinstance(part, Damage)]


@pytest.fixture(scope="module")
def positions(tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """Positions of the batches in the undamaged segment, and its end."""
    batches, damage = read(tmp_path_factory.mktemp("whole"), ORDERS)
    assert not damage
    return [*(each.position for each in batches), len(ORDERS)]


def changed(at: int, replacement: bytes) -> bytes:
    return ORDERS[:at] + replacement + ORDERS[at + len(replacement) :]


@pytest.mark.parametrize("at", [0, 5, -1])
def test_a_batch_with_a_wrong_checksum_does_not_end_the_rest(
    tmp_path: Path, positions: list[int], at: int
) -> None:
    start, end = positions[:-1][at], positions[1:][at]
    batches, (damage,) = read(tmp_path, changed(end - 1, bytes([ORDERS[end - 1] ^ 1])))
    assert [each.position for each in batches] == [each for each in positions[:-1] if each != start]
    assert (damage.kind, damage.position, damage.size) == ("checksum", start, end - start)
    assert damage.batch is not None
    assert damage.file == tmp_path / NAME


@pytest.mark.parametrize(
    "length", [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\x01\x01", b"\0\0\x10\0", b"\x7f\xff\xff\xff"]
)
def test_after_a_wrong_length_the_next_batch_is_found(
    tmp_path: Path, positions: list[int], length: bytes
) -> None:
    start, end = positions[3:5]
    batches, damage = read(tmp_path, changed(start + 8, length))
    assert [each.position for each in batches] == [each for each in positions[:-1] if each != start]
    assert sum(each.size for each in damage) == end - start
    assert damage[0].position == start


def test_bytes_between_batches_are_skipped(tmp_path: Path, positions: list[int]) -> None:
    at = positions[4]
    batches, (damage,) = read(tmp_path, ORDERS[:at] + b"\xff" * 99 + ORDERS[at:])
    assert len(batches) == len(positions) - 1
    assert (damage.kind, damage.position, damage.size) == ("format", at, 99)


@pytest.mark.parametrize("missing", [1, 70, 5])
def test_a_truncated_tail_is_reported(tmp_path: Path, positions: list[int], missing: int) -> None:
    data = ORDERS[:-missing]
    batches, (damage,) = read(tmp_path, data)
    assert [each.position for each in batches] == positions[:-2]
    assert (damage.kind, damage.position) == ("truncated", positions[-2])
    assert damage.position + damage.size == len(data)


def test_fewer_bytes_than_a_header_are_a_truncated_tail(tmp_path: Path, positions: list[int]) -> None:
    _, (damage,) = read(tmp_path, ORDERS[: positions[3] + 7])
    assert (damage.kind, damage.size) == ("truncated", 7)


def test_zeros_of_a_preallocated_file_are_not_damage(tmp_path: Path, positions: list[int]) -> None:
    batches, (damage,) = read(tmp_path, ORDERS + bytes(10_000))
    assert len(batches) == len(positions) - 1
    assert (damage.kind, damage.position, damage.size) == ("zeros", len(ORDERS), 10_000)
    assert read(tmp_path, b"") == ([], [])


@pytest.mark.parametrize("window", [64, 500, 1000])
def test_the_size_of_windows_changes_nothing(
    tmp_path: Path, positions: list[int], window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = changed(positions[2] + 8, b"\0\0\0\0")[:-3]
    expected = read(tmp_path, damaged)
    monkeypatch.setattr(segment_module, "_WINDOW", window)
    monkeypatch.setattr(segment_module, "_SEARCHED", (64, 2048))
    batches, damage = read(tmp_path, damaged)
    assert [each.position for each in batches] == [each.position for each in expected[0]]
    assert damage == expected[1]


def test_a_limit_bounds_the_damage_that_is_searched(tmp_path: Path, positions: list[int]) -> None:
    data = bytearray(ORDERS)
    for at in positions[1:6]:
        data[at - 1] ^= 1
    with budget.changed(file_damage=2):
        batches, damage = read(tmp_path, bytes(data))
    assert "file_damage" in damage[-1].reason
    assert damage[-1].position + damage[-1].size == len(ORDERS)
    assert all(each.position < damage[-1].position for each in batches)


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_are_read(tmp_path: Path, magic: Literal[0, 1]) -> None:
    records = [Record(at, 1000 + at, b"k", b"v", ()) for at in range(3)]
    data = build_batch(records, magic=magic)
    batches, damage = read(tmp_path, data)
    assert not damage
    assert [each.batch.base_offset for each in batches] == [0, 1, 2]
    broken = data[:-1] + bytes([data[-1] ^ 1])
    batches, damage = read(tmp_path, broken)
    assert len(batches) == 2
    assert [each.kind for each in damage] == ["checksum"]
