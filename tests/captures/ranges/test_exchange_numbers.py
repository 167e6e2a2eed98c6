"""Connections and exchanges counted over all ranges."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from captures.ranges.exchange_numbers import bases
from captures.ranges.jobs import Input, read_here
from captures.ranges.plan import make_plan
from tests.captures.packets.kit import Record, pcap
from tests.captures.ranges.both import in_ranges, one_reading
from tests.captures.ranges.made import stray, traffic

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("size", [3_000, 20_000])
def test_numbers_are_prefix_sums(size: int, tmp_path: Path) -> None:
    rng = Random(31)
    records: list[Record] = []
    for each in traffic(rng, connections=2, trouble=0.02):
        records += [each] if rng.random() < 0.8 else [each, Record(stray(rng).frame, each.time)]
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*records], nano=True))
    read = read_here(Input(make_plan([str(path)], size), buckets=3))
    contexts, connections = read.numbered.contexts, read.numbered.connections
    assert [each.first_packet for each in contexts] == bases([each.mark for each in read.marked])
    first = 1
    for context in contexts:
        assert context.first_number == first
        first += context.count
    assert first - 1 == read.numbered.exchanges == len(one_reading([path]).exchanges)
    begins = [connections[number].first_number for number in range(len(connections))]
    assert begins == sorted(begins)


def test_the_earliest_exchange(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*traffic(Random(32), connections=2, trouble=0)], nano=True))
    _, read = in_ranges([path], 9_000)
    times = []
    for context in read.numbered.contexts:
        times += [each.time for each in context.stitched]
    earliest = [each.mark.first_exchange for each in read.marked if each.mark.first_exchange is not None]
    assert read.numbered.start == min(times + earliest)
