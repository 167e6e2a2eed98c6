"""Batches and records larger than the broker accepts."""

from __future__ import annotations

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.refused_records import RecordTooLarge
from tests.captures.analysis.findings.group_kit import of_exchanges
from tests.captures.analysis.findings.record_kit import batch, of_recording, produce


def test_batches_that_the_java_producer_splits() -> None:
    (found,) = of_recording("25_k430_java_too_large", RecordTooLarge)
    assert (found.severity, found.evidence) == (Severity.MEDIUM, (4, 5, 6, 7))
    assert found.subject == "client java-none, topic errs, batches"
    assert "the largest taken afterwards has 37 KiB" in found.sentence  # message.max.bytes was 60000


def test_single_records_are_not_written_at_all() -> None:
    for name in ("30_k0822_errors", "35_k282_errors"):
        (found,) = of_recording(name, RecordTooLarge)
        assert (found.severity, found.count) == (Severity.HIGH, 2)
        assert found.subject == "client java-none, topic j-none, single records"
        assert "were not written" in found.sentence


def test_both_kinds_of_one_client() -> None:
    found = of_exchanges(
        RecordTooLarge,
        produce(batch(1, value=b"x" * 5000), error=10, number=1),
        produce(batch(9), error=18, number=2),
        produce(batch(9), number=3),
        produce(batch(1), error=3, number=4),
    )
    assert [(each.severity, each.count) for each in found] == [(Severity.HIGH, 1), (Severity.MEDIUM, 1)]
    assert "MESSAGE_TOO_LARGE and RECORD_LIST_TOO_LARGE" in found[0].sentence
    assert "is too large for the broker" in found[0].sentence
