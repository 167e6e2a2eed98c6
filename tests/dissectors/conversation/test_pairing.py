from __future__ import annotations

import pytest

from dissectors.conversation import FrameExchange, Limits, Outcome, RequestFrame, ResponseFrame
from dissectors.conversation.events import Event
from dissectors.conversation.pairing import Pairing


class Ledger:
    """A pairing and its results: request start or None, response start or None, outcome."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.pairing = Pairing(self.events.append, Limits())
        self.place = 0

    def ask(self, *ids: int) -> None:
        for correlation_id in ids:
            self.place += 1
            self.pairing.expect(RequestFrame(self.place, self.place, b"", correlation_id, 3, 1, "c"))

    def answer(self, correlation_id: int) -> int | None:
        """Return the position of the answered request."""
        found = self.pairing.answer(ResponseFrame(0, 0, b"", correlation_id))
        return found.start if found else None

    def unanswered(self) -> list[int]:
        return [
            event.request.start
            for event in self.events
            if isinstance(event, FrameExchange) and event.request and event.outcome is Outcome.UNANSWERED
        ]


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def test_repeated_ids_pair_by_order(ledger: Ledger) -> None:
    # the Java client on a SASL connection: -1, then 0 twice (LIVE.md, Pairing)
    ledger.ask(-1, 0, 0, 1)
    assert [ledger.answer(correlation_id) for correlation_id in (-1, 0, 0, 1)] == [1, 2, 3, 4]


def test_constant_ids_pair_by_order(ledger: Ledger) -> None:
    ledger.ask(0, 0, 0)
    assert [ledger.answer(0) for _ in range(4)] == [1, 2, 3, None]


def test_a_skipped_request_is_unanswered(ledger: Ledger) -> None:
    ledger.ask(1, 2, 3)
    assert ledger.answer(3) == 3
    assert ledger.unanswered() == [1, 2]


def test_an_id_that_is_twice_in_flight_skips_nothing(ledger: Ledger) -> None:
    ledger.ask(5, 0, 0)
    assert ledger.answer(0) is None
    assert ledger.answer(5) == 1
    assert ledger.answer(0) == 2


def test_an_orphan_leaves_the_queue_as_it_is(ledger: Ledger) -> None:
    ledger.ask(1, 2)
    assert ledger.answer(9) is None
    assert [ledger.answer(1), ledger.answer(2)] == [1, 2]


def test_after_lost_requests_only_new_ids_pair(ledger: Ledger) -> None:
    ledger.ask(4, 5)
    ledger.pairing.lost_requests(5)
    ledger.ask(8, 9)
    assert ledger.answer(4) == 1
    assert ledger.answer(5) == 2
    assert ledger.answer(6) is None
    assert ledger.answer(8) == 3
    assert not ledger.pairing.requests_lost
    assert ledger.answer(9) == 4


def test_after_lost_requests_a_repeated_id_pairs_with_nothing(ledger: Ledger) -> None:
    # all IDs are 0: the response may belong to a request that was lost
    ledger.ask(0)
    ledger.pairing.lost_requests(0)
    ledger.ask(0)
    assert ledger.answer(0) == 1
    assert ledger.answer(0) is None


def test_after_lost_responses_only_unique_ids_pair(ledger: Ledger) -> None:
    ledger.ask(0, 0, 1, 2)
    ledger.pairing.lost_responses()
    assert ledger.answer(0) is None
    assert ledger.answer(2) == 4
    assert ledger.unanswered() == [1, 2, 3]


def test_the_reserved_ids_of_sasl_do_not_spoil_what_follows(ledger: Ledger) -> None:
    # KAFKA-9854: 2147483640 and above
    ledger.pairing.lost_requests(2147483641)
    ledger.ask(3)
    assert ledger.answer(3) == 1


def test_many_orphans_with_a_long_queue_take_no_time(ledger: Ledger) -> None:
    ledger.ask(*range(20_000))
    assert {ledger.answer(-5) for _ in range(20_000)} == {None}
    assert ledger.answer(0) == 1
