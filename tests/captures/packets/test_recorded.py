"""Every capture of the reference folder is read completely, and gives the same in blocks of any size."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from captures.packets import open_source, read_packets
from tests.captures.packets import kit
from tests.captures.packets.kit import CaptureContent, read
from tests.captures.packets.test_tcp import outcome
from tests.reference import REFERENCE, captures_dir, needs_reference

pytestmark = needs_reference


def names() -> list[str]:
    if REFERENCE is None:
        return []
    return sorted(path.name for path in captures_dir().glob("[0-9]*.pcap*") if path.suffix != ".zst")


def index_rows() -> dict[str, dict[str, str]]:
    with (captures_dir() / "INDEX.tsv").open(encoding="utf-8", newline="") as lines:
        return {row["file"]: row for row in csv.DictReader(lines, delimiter="\t")}


def without_gaps(got: CaptureContent) -> int:
    return sum(int(each.length.sum()) for each in got.segments)


@pytest.mark.parametrize("group", range(8))
def test_every_capture_is_read(group: int) -> None:
    rows = index_rows()
    for name in names()[group::8]:
        path = captures_dir() / name
        with open_source(path) as source:
            reader = read_packets(source)
            blocks = list(reader)
        statistics = reader.statistics
        assert statistics.packets == int(rows[name]["packets"]), name
        assert statistics.tcp == statistics.packets, name
        assert statistics.damage == [], name
        assert all(np.all(each.captured <= each.length) for each in blocks), name


@pytest.mark.parametrize(
    "name",
    [
        "09_any_sll2.pcap",
        "09_ipv6.pcap",
        "09_loss3pct_before_tap.pcap",
        "09_nanosecond.pcap",
        "09_pcapng_dumpcap.pcapng",
        "09_snaplen128.pcap",
        "06_client_sigkill_midstream.pcap",
        "25_k430_broker_sigkill.pcap",
    ],
)
def test_blocks_of_any_size_give_the_same(name: str) -> None:
    whole = read(captures_dir() / name)
    small = read(captures_dir() / name, 3000)
    assert outcome(whole) == outcome(small)
    for stream in range(len(whole.assembler.connections.streams)):
        data = whole.stream(stream)
        if name != "09_snaplen128.pcap":
            assert kit.read_stream(whole.index, stream, 0, len(data)) == data


def test_loss_before_the_tap_is_made_good_by_retransmission() -> None:
    got = read(captures_dir() / "09_loss3pct_before_tap.pcap")
    assert got.gaps() == []
    assert without_gaps(got) == 686_137  # as tshark's tcp.payload, joined by sequence number
    assert int(got.assembler.connections.streams.retransmitted.sum()) == 306


def test_snapshot_length() -> None:
    got = read(captures_dir() / "09_snaplen128.pcap")
    assert {cause for *_, cause in got.gaps()} == {2}
    assert int(got.assembler.connections.streams.cut.sum()) == 657_288


def test_compressed_capture(tmp_path: Path) -> None:
    got = read(captures_dir() / "08_bulk_sample.pcap.zst")
    assert got.reader.source.compression == "zstd"
    assert got.reader.statistics.tcp == 24_001
    assert without_gaps(got) == 21_907_395
