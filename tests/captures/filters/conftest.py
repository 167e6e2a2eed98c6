"""Recorded exchanges to filter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

import captures
from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture
from captures.exchanges.columns import ExchangeColumns
from captures.filters import Context, TableColumns, context_of

SAMPLES = Path(captures.__file__).parent / "samples"
RECORDED = Path(__file__).resolve().parents[2] / "data" / "captures"


@dataclass
class Recording:
    """A capture with all its exchanges."""

    capture: Capture
    exchanges: list[Exchange]
    bare: list[Exchange]
    context: Context

    @property
    def columns(self) -> TableColumns:
        return TableColumns.of(self.capture)

    @cached_property
    def with_messages(self) -> TableColumns:
        return TableColumns.of(self.capture, ExchangeColumns(self.capture))

    def reader(self) -> ExchangeReader:
        return ExchangeReader(self.capture)


@cache
def load(name: str) -> Recording:
    path = SAMPLES / name
    capture = open_capture(str(path if path.exists() else RECORDED / name))
    capture.read()
    reader = ExchangeReader(capture)
    context = context_of(reader)
    return Recording(capture, list(reader), list(ExchangeReader(capture, annotate=False)), context)


@pytest.fixture(scope="session")
def recording():
    """Load a capture by the name of its file."""
    yield load
    load.cache_clear()


@pytest.fixture(scope="session")
def rebalance(recording) -> Recording:
    """A classic group whose members come and go, and a producer (Kafka 4.3.0, java and librdkafka)."""
    return recording("rebalance.pcap")
