"""Filters on exchanges in a stream find the same as filters on whole captures."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.exchanges import ExchangeReader, open_capture
from captures.filters import compile_filter
from captures.filters.filter import LiveFilter

SAMPLE = Path(__file__).parents[3] / "captures" / "samples" / "rebalance.pcap"


@pytest.fixture(scope="module")
def reader() -> ExchangeReader:
    capture = open_capture(str(SAMPLE))
    capture.read()
    return ExchangeReader(capture)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "text",
    ["api == Fetch", "error.any", "~t r2", "latency > 100ms", "time < 5s", "request.topics exists", "group"],
)
def test_as_on_the_whole_capture(reader: ExchangeReader, text: str) -> None:
    wanted = compile_filter(text)
    live = LiveFilter(wanted, reader)
    found = [index for index, exchange in enumerate(reader) if live.fits(exchange)]
    expected = wanted.select(reader).tolist()
    assert 0 < len(found) < len(reader)
    # only later messages of a member reveal the group of its earlier requests
    assert set(found) <= set(expected) if wanted.needs_groups else found == expected


def test_without_a_filter_all_fit(reader: ExchangeReader) -> None:
    live = LiveFilter(None, reader)
    assert all(map(live.fits, reader))
