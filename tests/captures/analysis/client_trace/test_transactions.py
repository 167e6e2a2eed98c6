"""Transactions assembled from the requests of synthetic producers."""

from __future__ import annotations

from typing import Any

from captures.analysis.client_trace.transactions import TransactionRequests
from captures.exchanges import Exchange
from tests.captures.analysis.kit import MS, error, exchange


def request(key: int, number: int, client_id: str = "app", **fields: Any) -> Exchange:
    asked = {"transactional_id": "tx", **fields}
    return exchange(
        key, 3, request=asked, response={}, number=number, time=number * 10 * MS, client_id=client_id
    )


def test_those_that_end_alike_are_one_line() -> None:
    seen = TransactionRequests()
    for number in range(1, 9, 2):
        assert seen.add(request(25, number))
        assert seen.add(request(26, number + 1, committed=True))
    (line,) = seen.lines(0)
    assert line.text == "4 transactions of tx committed, 12 ms each"
    assert (line.count, line.numbers, line.last, line.trouble) == (8, list(range(1, 9)), 8, False)


def test_an_abort_is_a_line_of_its_own() -> None:
    seen = TransactionRequests()
    for number, committed in enumerate((True, False, True), 1):
        seen.add(request(26, number, committed=committed))
    assert [line.text.rpartition(",")[0] for line in seen.lines(0)] == [
        "1 transaction of tx committed",
        "1 transaction of tx aborted",
        "1 transaction of tx committed",
    ]
    assert [line.trouble for line in seen.lines(0)] == [False, True, False]


def test_offsets_of_a_group_are_told() -> None:
    seen = TransactionRequests()
    seen.add(request(28, 1, group_id="g"))
    seen.add(request(26, 2, committed=True))
    (line,) = seen.lines(0)
    assert line.text == "1 transaction of tx committed, with offsets of g, 12 ms"
    assert not line.trouble


def test_a_produce_begins_one() -> None:
    seen = TransactionRequests()
    seen.produced(request(0, 1))
    seen.produced(request(0, 2))
    assert seen.add(request(26, 4, committed=True))
    (line,) = seen.lines(0)
    assert line.text == "1 transaction of tx committed, 32 ms"
    assert line.time == 10 * MS


def test_one_without_an_end_is_told_as_open() -> None:
    seen = TransactionRequests()
    seen.add(request(25, 1))
    (line,) = seen.lines(2_010 * MS)
    assert line.text == "transaction of tx begins; its end was not seen in 2 s to the last sign of life"
    assert line.trouble


def test_a_refused_end_ends_it_and_others_are_left_alone() -> None:
    seen = TransactionRequests()
    seen.add(request(25, 1))
    seen.add(request(25, 2, client_id="other"))
    refused = request(26, 3, committed=False)
    refused.errors = [error(90)]
    seen.failed(refused)
    told = {line.client: line.text for line in seen.lines(0)}
    assert told["app"].startswith("1 transaction of tx not ended (PRODUCER_FENCED)")
    assert told["other"].startswith("transaction of tx begins")


def test_what_names_no_transaction_is_none() -> None:
    seen = TransactionRequests()
    assert not seen.add(exchange(26, 3, request={"transactional_id": None}))
    assert not seen.add(exchange(26, 3))
    seen.produced(exchange(0, 9, request={}))
    assert seen.lines(0) == []
