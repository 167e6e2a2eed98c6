"""The expected diagnosis of provoked trouble: for the lane that provokes it, and for its recordings.

The scenarios are in :mod:`tests.lanes.findings`; the recordings of one run are ``tests/data/findings/lane_*``. The
expectations follow from what was done, not from the output of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from captures.analysis.findings.all import RULES
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Finding, Severity
from captures.exchanges import ExchangeReader, open_capture


class ExpectedFinding(NamedTuple):
    """A finding that the diagnosis must have.

    :ivar words: parts of the sentence
    """

    rule: str
    severity: Severity
    words: str = ""


LOW, MEDIUM, HIGH = Severity.LOW, Severity.MEDIUM, Severity.HIGH

EXPECTED: dict[str, tuple[ExpectedFinding, ...]] = {
    "retention_was_faster": (
        ExpectedFinding("positions_reset", HIGH, "40 offsets skipped, 40 of them removed"),
    ),
    "new_group_at_the_end": (ExpectedFinding("positions_reset", LOW, "30 offsets skipped"),),
    "offsets_reset_by_admin": (ExpectedFinding("commits_backwards", LOW, "back by 30 offsets in all"),),
    "open_transaction": (
        ExpectedFinding(
            "hanging_transactions", MEDIUM, "The last stable offset of t-open_transaction-0 stood at 1"
        ),
        ExpectedFinding("hanging_transactions", LOW, "were open for up to"),
        ExpectedFinding("stuck_position", MEDIUM, "it reads only committed records"),
    ),
    "two_producers_of_one_id": (ExpectedFinding("producer_fenced", MEDIUM, "client second began"),),
    "fetches_smaller_than_batches": (ExpectedFinding("tiny_fetches", LOW, "had a single batch"),),
    "impatient_consumer": (ExpectedFinding("empty_fetches", LOW, "fetch.max.wait.ms=10"),),
    "patient_consumer": (ExpectedFinding("empty_fetches", LOW, "less than its fetch.min.bytes (9.8 KiB)"),),
    "one_record_a_batch": (ExpectedFinding("small_batches", LOW, "with 1.0 records"),),
    "much_text": (ExpectedFinding("no_compression", LOW, "zstd would have saved about"),),
    "compressed_crumbs": (ExpectedFinding("compression_grows", LOW, "with gzip"),),
    "one_large_record": (ExpectedFinding("record_too_large", HIGH, "1 record of client maker"),),
    "seconds_for_milliseconds": (ExpectedFinding("timestamps_far_off", LOW, "Seconds seem to be given"),),
    "misspelt_topic": (ExpectedFinding("topics_auto_created", LOW, "1 partition, replication factor 1"),),
}
LIMITS = {
    "hanging_transactions.open": 5_000.0,
    "stuck_position.fetched": 5_000.0,
}
"""Thresholds below the defaults, so that scenarios take only seconds."""


def diagnosed(recording: Path) -> list[Finding]:
    """Return the findings in a recording."""
    capture = open_capture(str(recording))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name, limits=LIMITS, rules=RULES)
    for exchange in reader:
        diagnosis.add(exchange)
    return diagnosis.findings()


def differences(found: Sequence[Finding], expected: Sequence[ExpectedFinding]) -> list[str]:
    """Return missing findings, and unexpected ones above severity low, in words."""
    wrong = []
    left = list(found)
    for each in expected:
        fitting = [
            finding
            for finding in left
            if (finding.rule, finding.severity) == each[:2] and each.words in finding.sentence
        ]
        left = [finding for finding in left if finding not in fitting]
        if not fitting:
            wrong.append(f"missing: {each.severity.word} {each.rule} '{each.words}'")
    wrong += [f"not expected: {each.rule}: {each.sentence}" for each in left if each.severity > Severity.LOW]
    return wrong
