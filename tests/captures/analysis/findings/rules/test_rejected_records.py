"""Records that the broker rejects because of their content."""

from __future__ import annotations

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.refused_records import RejectedRecords
from tests.captures.analysis.findings.group_kit import of_exchanges
from tests.captures.analysis.findings.record_kit import batch, of_recording, produce


def test_a_record_without_key_on_a_compacted_topic() -> None:
    (old,) = of_recording("31_k0901_java_compacted_ts", RejectedRecords)
    assert (old.severity, old.evidence) == (Severity.HIGH, (2, 3, 4))
    assert "CORRUPT_MESSAGE" in old.sentence
    (new,) = of_recording("35_k282_java_compacted_ts", RejectedRecords)
    assert (new.subject, new.count) == ("client java-none, topic compacted, INVALID_RECORD", 1)
    assert "One or more records have been rejected" in new.sentence


def test_damaged_batches_are_another_finding() -> None:
    damaged = batch(2)[:-1] + b"\x55"
    found = of_exchanges(
        RejectedRecords,
        produce(damaged, error=2, number=1),
        produce(damaged, error=87, number=2),
        produce(batch(2), error=2, number=3),
        produce(batch(2), error=32, number=4),
        produce(batch(2), error=6, number=5),
    )
    assert [each.evidence for each in found] == [(3,), (4,)]
    assert "message.timestamp.after.max.ms" in found[1].advice
