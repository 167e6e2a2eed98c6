"""Idempotent producers whose sequence numbers the broker does not expect."""

from __future__ import annotations

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.refused_records import SequenceGaps
from tests.captures.analysis.findings.group_kit import of_exchanges
from tests.captures.analysis.findings.record_kit import batch, produce


def numbered(sequence: int, count: int = 5, *, epoch: int = 0) -> bytes:
    return batch(count, producer_id=7, producer_epoch=epoch, base_sequence=sequence)


def test_a_batch_that_was_left_out() -> None:
    (found,) = of_exchanges(
        SequenceGaps,
        produce(numbered(0), number=1),
        produce(numbered(5), number=2),
        produce(numbered(20), error=45, number=3),
        produce(numbered(25), error=45, number=4),
    )
    assert (found.severity, found.evidence) == (Severity.MEDIUM, (3, 4))
    assert "producer 7 epoch 0 sent sequence 20 to partition 0, where 10 was due" in found.sentence


def test_numbers_begin_again_behind_the_highest() -> None:
    (found,) = of_exchanges(
        SequenceGaps, produce(numbered((1 << 31) - 2, 4)), produce(numbered(9), error=45, number=2)
    )
    assert "where 2 was due" in found.sentence


def test_a_duplicate_is_harmless() -> None:
    (found,) = of_exchanges(SequenceGaps, produce(numbered(0), error=46))
    assert found.severity is Severity.LOW
    assert "due" not in found.sentence


def test_other_epochs_have_their_own_numbers() -> None:
    (found,) = of_exchanges(
        SequenceGaps, produce(numbered(0)), produce(numbered(9, epoch=1), error=59, number=2)
    )
    assert (found.subject, found.severity) == (
        "client app, topic orders, UNKNOWN_PRODUCER_ID",
        Severity.MEDIUM,
    )
    assert "due" not in found.sentence


def test_producers_without_an_id_have_no_numbers() -> None:
    (found,) = of_exchanges(SequenceGaps, produce(batch(2), error=59))
    assert found.sentence.endswith("with UNKNOWN_PRODUCER_ID.")
