"""Consumers whose fetch size is too small for the batches they read."""

from __future__ import annotations

from captures.analysis.findings.common import NO_FETCH
from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.fetches import TinyFetches
from tests.captures.analysis.findings.group_kit import made, of_exchanges
from tests.captures.analysis.findings.record_kit import batch, fetch, of_recording

LARGE = batch(1, value=b"x" * 5_000)


def test_an_old_consumer_stands_before_a_message_that_is_too_large_for_it() -> None:
    """In this recording, newer requests eventually read partition 0, but never partition 1."""
    (found,) = of_recording("33_k0110_partial", TinyFetches)
    assert (found.severity, found.subject) == (Severity.HIGH, "client raw, topic d-none, cut")
    assert "start of one message (up to 7.4 KiB): it cannot continue in partition 1" in found.sentence


def test_one_that_asks_for_more_in_the_end() -> None:
    (found,) = of_recording("30_k0822_errors", TinyFetches)
    assert (found.severity, found.evidence) == (Severity.MEDIUM, (26, 27))
    assert "(up to 93 B): later it continued" in found.sentence


def test_a_message_cut_off_once_is_nothing() -> None:
    cut, whole = fetch(LARGE[:-9], most=1_000, version=2), fetch(LARGE, version=2)
    assert of_exchanges(TinyFetches, cut, whole, cut, whole, cut) == []
    assert len(of_exchanges(TinyFetches, cut, cut)) == 1


def test_batches_that_come_one_by_one() -> None:
    (found,) = of_exchanges(TinyFetches, *[fetch(LARGE, most=1_000, number=at) for at in range(1, 13)])
    assert (found.severity, found.count) == (Severity.LOW, 12)
    assert (
        "fetches at most 1000 B of a partition of orders, less than one batch (up to 5.0 KiB): 12 of 12"
        in found.sentence
    )
    assert found.filter.endswith("batches == 1 and records.size > 1000")


def test_the_size_of_the_whole_answer_counts_too() -> None:
    whole = [fetch(LARGE) for _ in range(12)]
    for each in whole:
        assert each.request is not None
        each.request.value["max_bytes"] = 2_000
    (found,) = of_exchanges(TinyFetches, *whole)
    assert "fetches at most 2.0 KiB" in found.sentence


def test_within_a_session_the_size_was_told_before() -> None:
    later = [fetch(LARGE) for _ in range(12)]
    for each in later:
        assert each.request is not None
        each.request.value.update(session_id=7, session_epoch=3, topics=[])
    assert len(of_exchanges(TinyFetches, fetch(most=1_000), *later)) == 1
    assert of_exchanges(TinyFetches, *later) == []


def test_what_is_large_enough() -> None:
    assert of_exchanges(TinyFetches, *[fetch(LARGE + LARGE[:-9]) for _ in range(12)]) == []
    assert of_exchanges(TinyFetches, *[fetch(LARGE, most=1_000) for _ in range(9)]) == []
    assert of_exchanges(TinyFetches, *[fetch(LARGE[:-9], most=1_000, replica=1) for _ in range(9)]) == []
    for name in ("20_k430_java_none", "26_k430_steady_clients", "31_k0901_java_lz4"):
        assert of_recording(name, TinyFetches) == []


def test_what_it_cannot_judge() -> None:
    assert made(TinyFetches, exchanges=[fetch(replica=1)]).blind() == NO_FETCH
