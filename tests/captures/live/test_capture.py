"""A live capture; the packets are those of a recorded rebalance."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from captures.exchanges import ExchangeReader, open_capture
from captures.live import capture as capture_module
from captures.live.capture import GrowingCapture, LiveCapture
from captures.live.processes import Process
from captures.live.ring import Ring, ring_source
from captures.names import Names
from captures.packets import Source, open_files
from captures.packets.spool import Quota

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parents[3] / "captures" / "samples" / "rebalance.pcap"
SNIFFER: Any = SimpleNamespace(taken=SimpleNamespace(missing=7))


def nobody(_: Iterable[str]) -> dict[str, Process]:
    return {}


@pytest.fixture
def source() -> Iterator[Source]:
    """The sample, written piece by piece; each piece is read before the next is written."""
    ring = Ring()
    file = ring.new_chunk()
    made = ring_source(ring, ring.finish, Quota(1 << 24))
    rest = memoryview(SAMPLE.read_bytes())
    extend = ring._extend

    def write_and_read() -> None:
        nonlocal rest
        if rest:
            os.write(file, rest[:5000])
            rest = rest[5000:]
            ring.wrote(1)
        else:
            ring.finish()
        extend()

    ring._extend = write_and_read  # type: ignore[method-assign]
    yield made
    made.close()


def apis(capture: LiveCapture) -> list[str]:
    reader = ExchangeReader(capture, live=True)
    return [exchange.api for rows in capture.updates() for exchange in reader.take(rows.tolist())]


def test_it_gives_the_exchanges_of_the_recorded_capture(source: Source) -> None:
    recorded = open_capture(str(SAMPLE))
    recorded.read()
    live = LiveCapture(source, SNIFFER, Names(), nobody)
    assert sorted(apis(live)) == sorted(exchange.api for exchange in ExchangeReader(recorded))
    assert live.statistics.dropped == 7


def test_what_was_shown_is_forgotten(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_module, "_FORGET_EVERY", 0.0)
    monkeypatch.setattr(GrowingCapture, "remembered", 0)
    live = LiveCapture(source, SNIFFER, Names(), nobody)
    reader, most, count = ExchangeReader(live, live=True), 0, 0
    for rows in live.updates():
        count += len(list(reader.take(rows.tolist())))
        most = max(most, len(live.table))
    assert count == 402  # INDEX.tsv of the recordings
    assert most < 60


def _set_back(file: bytes, after: int, seconds: int) -> bytes:
    """Set the clock of a pcap file back after this many packets."""
    data, at, number = bytearray(file), 24, 0
    while at < len(data):
        moment, _, size = struct.unpack_from("<III", data, at)
        if number >= after:
            struct.pack_into("<I", data, at, moment - seconds)
        at, number = at + 16 + size, number + 1
    return bytes(data)


def test_a_clock_that_is_set_back_makes_nothing_new_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "set_back.pcap"
    path.write_bytes(_set_back(SAMPLE.read_bytes(), 1000, 10_000))
    monkeypatch.setattr(capture_module, "_FORGET_EVERY", 0.0)
    growing = GrowingCapture(open_files([str(path)]), 4096)
    reader, count, kept = ExchangeReader(growing, live=True), 0, 0
    for rows in growing.updates():
        count += len(list(reader.take(rows.tolist())))
        kept = max(kept, len(growing.table))
    assert count == 402
    # later packets are no older than the limit: all of them are kept, and none from before
    times = growing.table.column("request_first")
    later = [time for time in times.tolist() if time <= growing.latest]
    assert len(later) == len(times) > 100
    assert kept > len(times)


def test_local_ends_are_named(source: Source) -> None:
    asked: list[str] = []

    def find(endpoints: Iterable[str]) -> dict[str, Process]:
        asked.extend(endpoints)
        return {
            end: Process(4711, "java", "java -jar app.jar") for end in asked if not end.endswith(":10101")
        }

    live = LiveCapture(source, SNIFFER, Names(), find)
    apis(live)
    live._processes.settle(60)
    client, broker = live.shown_endpoints(0)
    assert client.startswith("java[4711]:")
    assert set(asked) >= {*live.endpoints(0)}
    assert broker == live.endpoints(0)[1]
