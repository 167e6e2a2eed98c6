"""Fenced producers."""

from __future__ import annotations

from typing import Any

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.transactions import ProducerFenced
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Exchange
from tests.captures.analysis.findings.group_kit import of_exchanges
from tests.captures.analysis.findings.record_kit import NOW, SECOND, batch, made, of_recording, produce


def init(epoch: int, *, timeout: int = 60_000, **fields: Any) -> Exchange:
    request = {"transactional_id": "pay", "transaction_timeout_ms": timeout}
    return made(22, 4, request, {"error_code": 0, "producer_id": 7, "producer_epoch": epoch}, **fields)


def end(error: int = 0, **fields: Any) -> Exchange:
    return made(26, 3, {"transactional_id": "pay", "committed": True}, {"error_code": error}, **fields)


def test_an_old_producer_and_an_admin_who_fences() -> None:
    old, new = of_recording("22_k411_tx_java_fence", ProducerFenced)
    assert (old.subject, old.evidence) == ("client p-old, transactional ID fx-o-tx2", (21, 26))
    assert "client p-new began with the same transactional ID (InitProducerId #20, epoch 2)" in old.sentence
    assert "client adminclient-2 began with the same transactional ID" in new.sentence
    assert (new.severity, new.certainty) == (Severity.MEDIUM, Certainty.OBSERVED)


def test_librdkafka_is_told_the_older_error() -> None:
    (found,) = of_recording("22_k430_ck", ProducerFenced)
    assert (found.subject, found.evidence) == ("client tx-ck, transactional ID tx-twc", (79,))
    assert "INVALID_PRODUCER_EPOCH in 1 response): client tx-ck2 began" in found.sentence


def test_two_producers_of_one_client_id() -> None:
    (found,) = of_recording("33_k0110_tx", ProducerFenced)
    assert found.evidence == (40,)
    assert "another producer began with the same transactional ID (InitProducerId #39" in found.sentence


def test_a_transaction_that_the_coordinator_aborted() -> None:
    (found,) = of_exchanges(
        ProducerFenced,
        init(0, timeout=5_000, number=1),
        produce(batch(1), transaction="pay", number=2),
        end(90, number=3, time=NOW + 9 * SECOND),
    )
    assert "its transaction was open for 9 s, longer than transaction.timeout.ms (5 s)" in found.sentence
    assert found.certainty is Certainty.INFERRED


def test_a_rival_that_was_not_captured() -> None:
    (found,) = of_exchanges(ProducerFenced, init(0, number=1), end(47, number=2))
    assert "neither is in this capture" in found.sentence
    assert found.certainty is Certainty.POSSIBLE


def test_an_id_that_was_forgotten() -> None:
    (found,) = of_exchanges(ProducerFenced, end(49))
    assert found.severity is Severity.HIGH


def test_a_producer_that_begins_anew_fences_nobody() -> None:
    assert of_exchanges(ProducerFenced, init(0), end(), init(1), end(48)) == []


def test_what_brokers_ask_for_their_producers_does_not_count() -> None:
    request = {"transactions": [{"transactional_id": "pay", "verify_only": True, "topics": []}]}
    error = {"transactional_id": "pay", "topic_results": [{"name": "t", "results_by_partition": [
        {"partition_index": 0, "partition_error_code": 90}]}]}  # fmt: skip
    asked = made(24, 4, request, {"error_code": 0, "results_by_transaction": [error]})
    assert asked.errors
    assert of_exchanges(ProducerFenced, asked) == []
