"""Producers that send many tiny batches."""

from __future__ import annotations

import pytest

from captures.analysis.findings.common import NO_PRODUCE
from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.batches import SmallBatches
from captures.exchanges import Exchange
from tests.captures.analysis.findings.group_kit import made, of_exchanges
from tests.captures.analysis.findings.record_kit import NOW, SECOND, batch, of_recording, produce


def many(count: int = 300, *, seconds: int = 3, data: bytes = b"") -> list[Exchange]:
    data = data or batch(1)
    return [
        produce(data, number=at + 1, time=NOW + at * seconds * SECOND // (count - 1)) for at in range(count)
    ]


def test_a_client_that_sends_record_by_record() -> None:
    (found,) = of_exchanges(SmallBatches, *many())
    assert "100 Produce requests a second at its peak, with 1.0 records (70 B)" in found.sentence
    assert found.severity is Severity.LOW
    assert (found.count, found.evidence[0], found.evidence[-1]) == (300, 1, 300)


@pytest.mark.parametrize(
    "enough",
    [many(150), many(seconds=9), many(data=batch(4)), many(data=batch(1, value=b"x" * 5000))],
    ids=["few", "slow", "several records", "large records"],
)
def test_what_is_no_trouble(enough: list[Exchange]) -> None:
    assert of_exchanges(SmallBatches, *enough) == []


def test_thresholds_are_named_and_may_be_set() -> None:
    settings = {"small_batches.requests": 100.0, "small_batches.rate": 20.0}
    (found,) = of_exchanges(SmallBatches, *many(150, seconds=5), limits=settings)
    assert found.thresholds["small_batches.rate"] == "20/s"


def test_compressed_message_sets_do_not_tell_their_records() -> None:
    assert of_exchanges(SmallBatches, *many(data=batch(1, magic=1, codec=1))) == []


def test_what_it_cannot_judge() -> None:
    assert made(SmallBatches).blind() == NO_PRODUCE
    assert of_recording("20_k430_java_none", SmallBatches) == []
