"""Conversations: steps of exchanges and connections, and folding."""

from __future__ import annotations

import pytest

from captures.analysis.conversation import (
    Kind,
    Outcome,
    Step,
    closing,
    exchange_step,
    folded,
    name_clients,
    opening,
    participants,
)
from captures.exchanges import Exchange, ExchangeReader, Flag
from captures.exchanges.exchange import summary_of
from tests.captures.analysis.kit import error, exchange, unanswered
from tests.captures.export.files import SAMPLE, opened


def step(made: Exchange, request: str = "", response: str = "") -> Step:
    return exchange_step(made, participants(made), (request, response))


def steps(*apis: int, **fields) -> list[Step]:
    made = [exchange(key, 4, number=at, time=at, **fields) for at, key in enumerate(apis, 1)]
    return [step(each, f"request {each.number}", f"at offset {each.number}") for each in made]


def shape(folds) -> list[tuple[int, int]]:
    return [(fold.length, fold.turns) for fold in folds]


PRODUCE, FETCH, METADATA, HEARTBEAT, JOIN = 0, 1, 3, 12, 11


def test_one_exchange_that_repeats() -> None:
    (fold,) = folded(steps(*[PRODUCE] * 14))
    assert (fold.length, fold.turns) == (1, 14)
    assert fold.differ(0) == (True, True)
    assert len(fold.latencies(0)) == 14
    assert [each.number for each in fold.of(0)] == list(range(1, 15))


def test_several_in_turn() -> None:
    (loop,) = folded(steps(*[FETCH, HEARTBEAT] * 5))
    assert (loop.length, loop.turns) == (2, 5)
    assert [each.api for each in loop.steps] == ["Fetch", "Heartbeat"]
    assert [each.number for each in loop.of(1)] == [2, 4, 6, 8, 10]


def test_the_shortest_pattern_first() -> None:
    assert shape(folded(steps(FETCH, FETCH, HEARTBEAT, FETCH, FETCH, HEARTBEAT))) == [
        (1, 2),
        (1, 1),
        (1, 2),
        (1, 1),
    ]


def test_what_a_join_is_made_of_is_never_folded() -> None:
    assert shape(folded(steps(JOIN, JOIN, JOIN))) == [(1, 1)] * 3


def test_numbers_do_not_matter_and_words_do() -> None:
    asked = [exchange(METADATA, number=at, time=at) for at in (1, 2, 3)]
    same = [step(each, f"{each.number} topics", "3 brokers") for each in asked]
    assert shape(folded(same)) == [(1, 3)]
    other = [step(each, "topics", said) for each, said in zip(asked, ("a", "a", "b"), strict=True)]
    assert shape(folded(other)) == [(1, 2), (1, 1)]


def test_singular_and_plural_are_the_same() -> None:
    asked = [exchange(METADATA, number=at, time=at) for at in (1, 2)]
    assert shape(folded([step(asked[0], "1 topic"), step(asked[1], "2 topics")])) == [(1, 2)]


def test_errors_are_not_folded_into_what_went_well() -> None:
    well, failed = steps(PRODUCE), step(exchange(PRODUCE, 4, time=2, errors=[error(6)]), "x", "NOT_LEADER")
    assert shape(folded([*well, failed])) == [(1, 1)] * 2


def test_steps_are_brought_in_order() -> None:
    late, early = step(exchange(time=9)), step(exchange(time=3))
    assert [fold.every[0].time for fold in folded([late, early])][:1] == [3]


@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        (exchange(), Outcome.ANSWERED),
        (exchange(errors=[error(6)]), Outcome.ERROR),
        (exchange(errors=[error(79)], expected=[error(79)]), Outcome.ANSWERED),
        (unanswered(), Outcome.UNANSWERED),
        (exchange(flag=Flag.ORPHAN), Outcome.ORPHAN),
        (exchange(flag=Flag.NO_RESPONSE_EXPECTED, response_size=0, latency=None), Outcome.NONE_DUE),
        (exchange(response_size=0, latency=None), Outcome.IN_FLIGHT),
    ],
)
def test_outcomes(made: Exchange, outcome: Outcome) -> None:
    assert step(made).outcome is outcome


def test_who_takes_part() -> None:
    client, broker = participants(exchange())
    assert (client.is_client, client.name, client.address) == (True, "app", "10.0.0.9")
    assert (broker.is_client, broker.name) == (False, "10.0.0.1:9092")
    nameless, _ = participants(exchange(client_id=None))
    assert nameless.name == "10.0.0.9"


def test_connections_open_and_end() -> None:
    capture = opened(SAMPLE)
    exchanges = list(ExchangeReader(capture))
    first = next(each for each in exchanges if each.connection == 6)
    ends = participants(first)
    opened_, closed = opening(capture, 6, ends), closing(capture, 6, ends)
    assert opened_ is not None
    assert closed is not None
    assert opened_.kind is Kind.OPEN
    assert opened_.request == "TCP connect from port 41104"
    assert opened_.latency == 5_000  # 5 us from SYN to SYN-ACK, as in tshark
    assert opened_.time < first.time < closed.time
    assert closed.kind is Kind.CLOSE
    assert opened_.key is None  # never folded


def test_summaries_are_those_of_the_reader() -> None:
    capture = opened(SAMPLE)
    told = ExchangeReader(capture)
    plain = ExchangeReader(capture, annotate=False, summary=False)
    for one, other in zip(told, plain, strict=True):
        assert summary_of(other, plain.knowledge.topic_name) == one.summary


def test_clients_are_called_by_their_ids_where_these_are_told() -> None:
    token = step(exchange(None, None, client_id=None, flag=Flag.SASL_TOKEN, connection=1))
    other = step(exchange(client_id=None, connection=2))
    named = step(exchange(connection=1))
    assert token.key != named.key
    name_clients([token, other, named])
    assert [each.client.name for each in (token, other, named)] == ["app", "10.0.0.9", "app"]
    assert token.key is not None
    assert token.key[0] == named.client
