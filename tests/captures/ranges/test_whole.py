"""What concerns a capture as a whole, where analyses take a capture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import zstandard

from captures.exchanges import open_capture
from captures.ranges.jobs import Input, read_exchanges, read_here
from captures.ranges.plan import make_plan
from captures.ranges.whole import WholeCapture, whole_of
from tests.captures.exchanges.proxied import rewritten
from tests.captures.packets.kit import rotated

FOLDER = Path(__file__).parents[2] / "data" / "captures"


def whole(path: Path | Sequence[Path], size: int) -> WholeCapture:
    paths = [path] if isinstance(path, Path) else path
    read = read_here(Input(make_plan([*map(str, paths)], size)))
    made = WholeCapture(
        read.given.plan.source(), whole_of(read.numbered, [each.mark for each in read.marked])
    )
    for context in read.numbered.contexts:
        part = read_exchanges(read.given, context, read.numbered.facts)
        made.take(part.capture.table, part.rows, part.connections)
    return made


def test_headers_connections_and_names() -> None:
    path = FOLDER / "06_noida_acks0_java.pcap"
    capture, made = open_capture(str(path)), whole(path, 4_000)
    capture.read()
    order = capture.table.order()
    for name in ("api_key", "version", "correlation_id", "flags", "packet", "response_size", "connection"):
        assert made.table.column(name).tolist() == capture.table.column(name)[order].tolist()
    for number in range(len(capture.connections)):
        assert made.endpoints(number) == capture.endpoints(number)
        assert made.shown_endpoints(number) == capture.endpoints(number)
        assert made.client_stream(number) == capture.client_stream(number)
    assert made.latest == capture.latest
    assert made.statistics.packets == capture.statistics.packets
    assert not len(made.unfinished_rows())


def test_samples_by_connection_and_in_order(tmp_path: Path) -> None:
    path = rewritten(tmp_path / "a.pcapng")
    capture, made = open_capture(str(path)), whole(path, 1_000)
    capture.read()
    assert len(made.samples) == len(capture.samples) == 2
    assert list(made.samples) == list(capture.samples)
    assert made.samples.upstreams == capture.samples.upstreams != {}
    assert made.samples.of(0) == capture.samples.of(0)
    assert not made.samples.of(1)


@pytest.mark.slow
@pytest.mark.parametrize("compressed", [False, True])
def test_connections_are_observed_until_their_files_end(compressed: bool, tmp_path: Path) -> None:
    paths = []
    for name, packets in (("06_noida_acks0_java.pcap", 11), ("22_k430_java_commit_abort.pcap", 60)):
        for number, part in enumerate(rotated((FOLDER / name).read_bytes(), packets)):
            paths.append(tmp_path / f"{name}-{number:03d}")
            paths[-1].write_bytes(zstandard.compress(part) if compressed else part)
    capture, made = open_capture([*map(str, paths)]), whole(paths, 4_000)
    capture.read()
    everything = np.arange(len(capture.connections))
    until = capture.observed_until(everything)
    assert made.observed_until(everything).tolist() == until.tolist()
    assert len(set(until.tolist())) == 2
    assert until.min() < capture.connections.first_time.max()
