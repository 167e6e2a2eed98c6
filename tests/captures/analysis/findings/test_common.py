"""Words and filters shared by rules."""

from __future__ import annotations

from captures.analysis.findings.common import (
    UNNAMED,
    captured_twice,
    consumer,
    on_topics,
    one_of,
    partitions_shown,
    replica_of,
    together,
    topic_of,
    transactional_id,
    unexpected,
    with_errors,
)
from captures.analysis.findings.finding import Occurrences
from captures.analysis.findings.rules.responses import RequestStorms
from captures.filters import compile_filter
from dissectors.units import SECOND
from tests.captures.analysis.findings.cluster_kit import of_exchanges, spoken
from tests.captures.analysis.findings.record_kit import batch, fetch, made, produce
from tests.captures.analysis.kit import error, exchange


def test_what_was_seen_in_several_places() -> None:
    parts = [Occurrences(), Occurrences(), Occurrences()]
    parts[0].note(7, 70)
    parts[2].note(3, 30)
    parts[2].note(9, 90)
    whole = together(parts)
    assert (whole.count, whole.first, whole.last, whole.numbers) == (3, 30, 90, (3, 7, 9))
    assert not together([])


def test_names_from_the_wire_are_fit_to_be_shown() -> None:
    hostile = "\x1b[31mred\r\n\u202egpj.exe" + 40_000 * "x"
    exchanges = [
        spoken(
            3,
            12,
            {},
            {"topics": [{"name": "a\nb", "error_code": 17}]},
            number=at,
            time=SECOND + at,
            client_id=hostile,
        )
        for at in range(1, 200)
    ]
    (found,) = of_exchanges(RequestStorms, *exchanges)
    assert found.sentence.startswith("�[31mred���gpj.exexxx")
    assert (found.sentence + found.subject + found.advice).isprintable()
    assert len(found.sentence) <= 2_000
    compile_filter(found.filter)
    assert 40_000 * "x" in found.filter  # it must name the client verbatim


def test_filters_of_hostile_names_are_filters() -> None:
    for name in ("a b", "q\"uo'te", "x) or (y", "", "\\", "a,b}"):
        compile_filter(one_of("topic", [name]))
        compile_filter(one_of("client_id", [name, "other"]))
        compile_filter(f"error{on_topics([name])}")
    compile_filter(with_errors([3, 6, -1, 999]))


def test_topics_that_are_not_named_are_no_condition() -> None:
    assert on_topics([UNNAMED]) == ""
    assert on_topics(["a", "b", UNNAMED]) == " and topic in {a, b}"
    assert on_topics(["a", "b", "c", "d"]) == ""


def test_expected_errors_do_not_count() -> None:
    normal, trouble = error(79), error(25, "members[0].error_code")
    both = exchange(11, 5, response={}, errors=[normal, trouble], expected=[normal])
    assert unexpected(both) == [trouble]
    assert unexpected(both, {79}) == []


def test_what_an_error_is_about() -> None:
    answer = {"responses": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"error_code": 6}]}]}
    (found,) = unexpected(spoken(1, 13, {}, answer))
    assert topic_of(found, {"AAAAAAAAAAAAAAAAAAAAAQ": "orders"}.get) == "orders"
    assert topic_of(found, lambda _: None) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert topic_of(error(6), lambda _: None) == UNNAMED


def test_who_asks() -> None:
    assert replica_of(exchange(1, 11, request={"replica_id": 3})) == 3
    assert replica_of(exchange(1, 17, request={"replica_state": {"replica_id": 4}})) == 4
    assert replica_of(exchange(1, 17, request={})) == -1
    assert replica_of(exchange(0, 9, request={"replica_id": 3})) == -1


def test_packets_that_come_twice() -> None:
    assert captured_twice(90, 100)
    assert not captured_twice(50, 100)
    assert not captured_twice(0, 0)


def test_who_fetches_and_who_produces() -> None:
    assert (consumer(fetch()), consumer(fetch(replica=3)), consumer(fetch(client_id=None))) == (
        "app",
        "",
        "10.0.0.9",
    )
    assert transactional_id(produce(batch(1), transaction="pay")) == "pay"
    assert transactional_id(made(24, 3, {"v3_and_below_transactional_id": "old"}, {})) == "old"
    assert (partitions_shown([3]), partitions_shown({0, 1, 2})) == ("partition 3", "partitions 0-2")
