"""Transactions that stay open."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.findings.rule import RuleContext
from captures.analysis.findings.rules.transactions import HangingTransactions
from captures.exchanges import Exchange
from tests.captures.analysis.findings.group_kit import of_exchanges, unread
from tests.captures.analysis.findings.record_kit import NOW, SECOND, batch, fetch, made, of_recording, produce


def init(timeout: int = 60_000, **fields: Any) -> Exchange:
    request = {"transactional_id": "pay", "transaction_timeout_ms": timeout}
    return made(22, 4, request, {"error_code": 0, "producer_id": 7, "producer_epoch": 1}, **fields)


def add(**fields: Any) -> Exchange:
    return made(
        24, 3, {"v3_and_below_transactional_id": "pay"}, {"results_by_topic_v3_and_below": []}, **fields
    )


def end(error: int = 0, **fields: Any) -> Exchange:
    return made(26, 3, {"transactional_id": "pay", "committed": True}, {"error_code": error}, **fields)


def until(latest: int, *exchanges: Exchange) -> list[Finding]:
    """Return the findings in a capture that lasts until then."""
    capture = unread()
    capture.latest = latest
    rule = HangingTransactions(RuleContext(capture=capture, names=lambda _: None, timelines=list))
    for each in exchanges:
        rule.add(each)
    return list(rule.findings())


def test_a_transaction_that_timed_out() -> None:
    (found,) = of_recording("22_k430_java_timeout", HangingTransactions)
    assert (found.subject, found.evidence) == ("transactional ID tx-tw3, EndTxn", (22,))
    assert "open for 14.1 s, longer than transaction.timeout.ms (3 s)" in found.sentence
    assert found.severity is Severity.MEDIUM


@pytest.mark.parametrize("begins", [add, lambda **fields: produce(batch(1), transaction="pay", **fields)])
def test_a_transaction_that_never_ends(begins: Any) -> None:
    exchanges = init(30_000, number=1), begins(number=2), begins(number=3, time=NOW + SECOND)
    (found,) = until(NOW + 31 * SECOND, *exchanges)
    assert found.evidence == (2,)
    assert "31 s before the end of the capture" in found.sentence
    assert until(NOW + 29 * SECOND, *exchanges) == []
    assert until(NOW + 31 * SECOND, *exchanges, end(time=NOW + 2 * SECOND)) == []
    assert until(NOW + 31 * SECOND, *exchanges, init(time=NOW + 2 * SECOND)) == []


def test_one_that_may_be_open_for_longer_is_low() -> None:
    """Flink's transactions end with its checkpoints, which may be minutes apart."""
    exchanges = init(900_000, number=1), add(number=2)
    (found,) = until(NOW + 300 * SECOND, *exchanges)
    assert found.severity is Severity.LOW
    assert until(NOW + 901 * SECOND, *exchanges)[0].severity is Severity.MEDIUM


def marks(*, commit: bool = False, **fields: Any) -> Exchange:
    row = {"producer_id": 7, "producer_epoch": 2, "transaction_result": commit, "topics": []}
    return made(27, 1, {"markers": [None, row]}, {"markers": []}, **fields)


def test_the_coordinator_aborts_what_is_open_for_too_long() -> None:
    begun = init(5_000, number=1), add(number=2)
    late = NOW + 9 * SECOND
    (found,) = until(NOW + 30 * SECOND, *begun, marks(number=3, time=late))
    assert (found.subject, found.evidence) == ("transactional ID pay, aborted", (3,))
    assert (
        "1 transaction of pay for being open too long: 9 s, with transaction.timeout.ms of 5 s"
        in found.sentence
    )
    assert until(NOW + 10 * SECOND, *begun, marks(time=late, commit=True))[0].subject.endswith(", open")


def test_markers_that_come_as_the_next_transaction_has_begun() -> None:
    assert until(NOW + SECOND, init(), add(), end(), add(), marks()) == []


def test_the_end_may_lie_outside_of_the_capture() -> None:
    """Without the coordinator's connection, the end is unknown."""
    assert until(NOW + 600 * SECOND, produce(batch(1), transaction="pay")) == []


def test_a_transaction_that_took_long_is_low() -> None:
    (found,) = of_exchanges(HangingTransactions, init(900_000), add(), end(number=9, time=NOW + 61 * SECOND))
    assert (found.severity, found.evidence) == (Severity.LOW, (9,))
    settings = {"hanging_transactions.open": 120_000.0}
    assert of_exchanges(HangingTransactions, add(), end(time=NOW + 61 * SECOND), limits=settings) == []


def test_a_last_stable_offset_that_stands_while_records_lie_behind_it() -> None:
    stands = [fetch(end=100 + at, stable=40, number=at, time=NOW + at * SECOND) for at in range(1, 70, 4)]
    (found,) = of_exchanges(HangingTransactions, *stands)
    assert found.subject == "topic orders"
    assert "stood at 40 for 68 s" in found.sentence
    second = [
        fetch(end=100, stable=7, partition=1, number=100 + at, time=NOW + at * SECOND)
        for at in range(1, 90, 4)
    ]
    (found,) = of_exchanges(HangingTransactions, *stands, *second)
    assert (
        "orders-1 (and of 1 other partition) stood at 7 for 88 s while there were records up to 100"
        in found.sentence
    )
    assert found.filter.endswith("partition in {0, 1}")
    moves = [fetch(end=100 + at, stable=40 + at, time=NOW + at * SECOND) for at in range(1, 70, 4)]
    nothing_behind = [fetch(end=40, stable=40, time=NOW + at * SECOND) for at in range(1, 70, 4)]
    assert of_exchanges(HangingTransactions, *moves, *nothing_behind) == []


def test_what_an_admin_was_told() -> None:
    row = {
        "transactional_id": "pay",
        "transaction_state": "Ongoing",
        "transaction_start_time_ms": (NOW - 90 * SECOND) // 1_000_000,
    }
    described = made(65, 0, {"transactional_ids": ["pay"]}, {"transaction_states": [row]})
    (found,) = of_exchanges(HangingTransactions, described)
    assert "had been open for 90 s" in found.sentence
    assert of_exchanges(HangingTransactions, made(65, 0, {}, {"transaction_states": [row | {
        "transaction_state": "Empty"}]})) == []  # fmt: skip
