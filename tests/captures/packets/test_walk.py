"""The fast walk against the slow one, on records that contain other records."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest

from captures.arrays import Bytes
from captures.packets import open_source
from captures.packets.pcap import PcapFormat
from captures.packets.pcapng import PcapngFormat
from captures.packets.table import PADDING, Statistics
from captures.packets.walk import RecordLayout, _walk_one_by_one, resync, walk
from tests.captures.packets.kit import MS, T0, Record, enhanced, interface, pcap, section


def padded(data: bytes) -> Bytes:
    return np.frombuffer(data + bytes(PADDING), np.uint8)


def small_records(count: int, seed: int) -> list[Record]:
    """Records of 20 to 400 bytes; some hold pieces of a capture, which look like records themselves."""
    choose = random.Random(seed)
    decoy = pcap([Record(choose.randbytes(30), T0 + n * MS) for n in range(12)])[24:]
    decoy += b"".join(enhanced(choose.randbytes(30), T0 // 1000 + n) for n in range(12))
    records = []
    for number in range(count):
        frame = choose.randbytes(choose.randrange(20, 400))
        if choose.random() < 0.4:
            start = choose.randrange(len(decoy))
            frame = frame[:20] + decoy[start : start + 400]
        records.append(Record(frame, T0 + number * MS))
    return records


def as_layout(kind: str, records: list[Record], tmp: str, order: str) -> tuple[RecordLayout, bytes, int]:
    if kind == "pcap":
        data = pcap(list(records), order=order)
        start = 24
    else:
        head = section(order) + interface(order=order)
        data = head + b"".join(enhanced(each.frame, each.time // 1000, order=order) for each in records)
        start = len(head)
    Path(tmp).write_bytes(data)
    with open_source(tmp) as source:
        layout = PcapFormat(source) if kind == "pcap" else PcapngFormat(source, Statistics())
    return layout, data, start


@pytest.mark.sample(2)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
@pytest.mark.parametrize("damage", ["none", "cut", "broken length"])
def test_fast_walk_finds_what_the_slow_one_finds(
    tmp_path: object, kind: str, order: str, damage: str
) -> None:
    layout, data, start = as_layout(kind, small_records(20_000, 1), f"{tmp_path}/f", order)
    if damage == "cut":
        data = data[:-17]
    truth = _walk_one_by_one(padded(data), start, len(data), len(data), layout)
    if damage == "broken length":
        place = int(truth.offsets[12_345]) + layout.length_field
        data = data[:place] + b"\x7f" * 4 + data[place + 4 :]
        truth = _walk_one_by_one(padded(data), start, len(data), len(data), layout)
    got = walk(padded(data), start, len(data), layout)
    assert np.array_equal(got.offsets, truth.offsets)
    assert (got.end, got.damaged) == (truth.end, truth.damaged)
    assert len(got.offsets) == {"none": 20_000, "cut": 19_999, "broken length": 12_345}[damage]
    assert got.damaged is (damage == "broken length")


def test_walk_starts_anywhere_and_ends_anywhere(tmp_path: object) -> None:
    layout, data, start = as_layout("pcap", small_records(300, 2), f"{tmp_path}/f", "<")
    whole = walk(padded(data), start, len(data), layout).offsets
    for end in range(len(data) - 500, len(data)):
        got = walk(padded(data[:end]), start, end, layout)
        assert np.array_equal(got.offsets, whole[: len(got.offsets)])
        assert got.end == [*whole.tolist(), len(data)][len(got.offsets)]
        assert not got.damaged


@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_resync_finds_the_next_record(tmp_path: object, kind: str) -> None:
    records = [Record(struct.pack("<I", n) * 20, T0 + n * MS) for n in range(50)]
    layout, data, start = as_layout(kind, records, f"{tmp_path}/f", "<")
    offsets = walk(padded(data), start, len(data), layout).offsets.tolist()
    for place in range(offsets[3] + 1, offsets[5] + 1):
        assert resync(padded(data), place, len(data), layout) in (offsets[4], offsets[5])
    assert resync(padded(bytes(100_000)), 0, 100_000, layout) == -1
