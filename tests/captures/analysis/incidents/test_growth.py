"""The cost of finding incidents is linear in the size of the capture."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from captures.analysis.incidents.history import IncidentHistories
from captures.exchanges import ExchangeReader, open_capture
from tests.lanes.hostile.crowds import broker_restarts, expelled

pytestmark = pytest.mark.slow

FEW, TIMES = 200, 3
"""Few is more than the number of connections checked per silence when several may belong to one process."""


def steps(path: Path, chunks: Iterable[bytes]) -> int:
    """Return how many functions are called and generators resumed to find the incidents of a capture."""
    path.write_bytes(b"".join(chunks))
    capture = open_capture(str(path))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    histories = IncidentHistories(reader.knowledge.topic_name, capture)
    for exchange in reader:
        histories.add(exchange)
    count = 0

    def called(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        histories.result()
    finally:
        sys.setprofile(None)
    assert histories.incidents
    return count


@pytest.mark.parametrize("crowd", [expelled, broker_restarts])
def test_finding_incidents_grows_no_faster_than_what_happened(
    tmp_path: Path, crowd: Callable[[int], Iterable[bytes]]
) -> None:
    few, many = (steps(tmp_path / f"{count}.pcap", crowd(count)) for count in (FEW, TIMES * FEW))
    assert many < 1.2 * TIMES * few
