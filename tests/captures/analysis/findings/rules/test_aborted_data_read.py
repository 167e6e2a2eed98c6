"""Consumers that read records of aborted transactions."""

from __future__ import annotations

from captures.analysis.findings.common import NO_FETCH
from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.transactions import AbortedDataRead
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.analysis.findings.group_kit import made, of_exchanges
from tests.captures.analysis.findings.record_kit import batch, fetch, of_recording, produce

ABORT, COMMIT = b"\x00\x00\x00\x00", b"\x00\x00\x00\x01"
"""Keys of control records: version 0, type 0 or 1 (``ControlRecordType.java``)."""


def marker(key: bytes, offset: int, producer: int = 7) -> bytes:
    record = Record(offset, 0, key, b"\x00\x00\x00\x00\x00\x01", [])
    return build_batch([record], producer_id=producer, producer_epoch=0, transactional=True, control=True)


def written(count: int, offset: int, producer: int = 7) -> bytes:
    return batch(
        count, offset, producer_id=producer, producer_epoch=0, base_sequence=offset, transactional=True
    )


def test_consumers_that_read_uncommitted() -> None:
    (found,) = of_recording("27_k391_tx_java_eos", AbortedDataRead)
    assert found.subject == "client read_uncommitted, topic o-tx3"
    assert (found.severity, found.count) == (Severity.MEDIUM, 2)
    assert "read 10 records" in found.sentence


def test_a_consumer_that_reads_committed_is_not_meant() -> None:
    """In this recording, one consumer reads committed records, another reads all of them."""
    (found,) = of_recording("22_k430_ck", AbortedDataRead)
    assert (found.subject, found.count) == ("client rdkafka, topic twc", 4)


def test_markers_belong_to_their_producers() -> None:
    (found,) = of_exchanges(
        AbortedDataRead,
        fetch(written(3, 0) + written(4, 3, producer=8), number=1),
        fetch(marker(COMMIT, 7) + written(2, 8) + marker(ABORT, 10, producer=8), number=2),
        fetch(marker(COMMIT, 11), number=3),
    )
    assert (found.count, found.evidence) == (1, (1,))
    assert "read 4 records" in found.sentence


def test_what_is_fetched_twice_counts_once() -> None:
    (found,) = of_exchanges(AbortedDataRead, fetch(written(3, 0)), fetch(written(3, 0) + marker(ABORT, 3)))
    assert "read 3 records" in found.sentence


def test_who_does_not_read_it() -> None:
    aborted = written(3, 0) + marker(ABORT, 3)
    assert of_exchanges(AbortedDataRead, fetch(aborted, committed=True), fetch(aborted, replica=2)) == []
    assert of_exchanges(AbortedDataRead, fetch(marker(ABORT, 3)), fetch(batch(2, 9))) == []
    assert made(AbortedDataRead, exchanges=[fetch(aborted, replica=2)]).blind() == NO_FETCH
    assert made(AbortedDataRead, exchanges=[fetch(), produce(batch(1))]).blind() == ""
