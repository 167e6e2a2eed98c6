"""Differences between two sides: recordings known to differ, a recording with itself, and synthetic sides."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from captures.analysis.client_identity import client_name
from captures.analysis.comparison.compare import compare_sides
from captures.analysis.comparison.model import Aspect, Comparison, Difference
from captures.analysis.comparison.side import ErrorKind, Side, Window
from captures.analysis.exchange_groups import ExchangeGroup
from captures.exchanges import Capture, Exchange, ExchangeReader, Flag, open_capture
from captures.json_objects import to_json
from captures.meaning import Names
from tests.captures.analysis.kit import MS, error, exchange, unanswered
from tests.captures.analysis.row_shares import RowShares

DATA = Path(__file__).parents[3] / "data"
SECOND = 1_000 * MS
BEGIN = 1_795_000_000 * SECOND
PRODUCE, METADATA, FETCH = 0, 3, 1


def opened(name: str) -> Capture:
    capture = open_capture(str(DATA / f"{name}.pcap.zst"))
    capture.read()
    return capture


EMPTY = opened("clean/34_k111_java_none")
"""A capture for synthetic sides; nothing of it is read."""


class SideByHand(Side):
    """Adds exchanges one by one: a plain equivalent of :meth:`Side.read`, which reads columns."""

    def take(self, exchange: Exchange) -> None:
        time, number, api = exchange.time, exchange.number, exchange.api
        if time not in self.window:
            return
        self.groups.append(ExchangeGroup.of(exchange))
        self._first = time if self._first is None else min(self._first, time)
        self._last = max(self._last, time)
        for rhythm in (self.requests, self.shares, self.errors, self.unanswered):
            rhythm.cover(time)
        if exchange.request_size:
            self.requests.add(api, time, number)
            self.shares.add((api, client_name(exchange)), time, number)
        if Flag.UNANSWERED in exchange.flag:
            self.unanswered.add(api, time, number)
        expected = {error.path for error in exchange.expected}
        for kind in {ErrorKind(api, each.name, each.path in expected) for each in exchange.errors}:
            self.errors.add(kind, time, number)
        if exchange.latency is not None and not exchange.wait >= max(exchange.latency, 1):
            self.busy.setdefault(api, []).append((exchange.latency - exchange.wait, number))
            self._slowest[api] = tuple(number for _, number in sorted(self.busy[api], reverse=True)[:5])
        self.latency.add(exchange)
        for learner in (self._negotiation, self._clients, self._settings, self._diagnosis, self._time_shares):
            learner.add(exchange)

    def __init__(self, label: str, capture: Capture, names: Names, window: Window | None = None) -> None:
        super().__init__(label, capture, names, window)
        self._time_shares: RowShares = RowShares(capture, names)
        self.busy: dict[str, list[tuple[int, int]]] = {}


def opened_side(kind: type[Side], name: str, window: Window | None = None) -> tuple[Any, ExchangeReader]:
    capture = opened(name)
    reader = ExchangeReader(capture, annotate=False, summary=False)
    return kind(name, capture, reader.knowledge.topic_name, window), reader


def recorded(name: str, window: Window | None = None) -> Side:
    side, reader = opened_side(Side, name, window)
    for _ in side.read(reader):
        pass
    return side


def made(*exchanges: Exchange) -> Side:
    side = SideByHand("by hand", EMPTY, lambda _: None)
    for each in exchanges:
        side.take(each)
    return side


def regular(count: int, *, every: int = SECOND // 10, seed: int = 1, **fields: object) -> list[Exchange]:
    """Make exchanges at random times, `count` of them in ``count * every`` ns."""
    chance = random.Random(seed)
    times = sorted(chance.randrange(count * every) for _ in range(count))
    made = []
    for place, time in enumerate(times):
        latency = fields.get("latency") or int(chance.uniform(1, 3) * MS)
        made.append(
            exchange(METADATA, 12, **fields | {"number": place + 1, "time": BEGIN + time, "latency": latency})
        )
    return made


def of(comparison: Comparison, aspect: Aspect) -> list[Difference]:
    return [each for each in comparison.differences if each.aspect is aspect]


@pytest.mark.slow
def test_a_recording_does_not_differ_from_itself() -> None:
    for name in (
        "clean/26_k430_steady_clients",
        "groups/21_k430_java_sigstop",
        "findings/25_k430_quota_java",
    ):
        comparison = compare_sides(recorded(name), recorded(name))
        assert comparison.differences == []
        assert comparison.sentence == "Nothing differs that the data would prove."


@pytest.mark.parametrize(
    "name",
    [
        "clean/34_k111_java_none",
        pytest.param("findings/25_k430_quota_java", marks=pytest.mark.slow),
        pytest.param("findings/26_k430_broker_sigstop_clients", marks=pytest.mark.slow),
        pytest.param("groups/21_k430_java_sigstop", marks=pytest.mark.slow),
        pytest.param("clean/26_k430_steady_clients", marks=pytest.mark.slow),
    ],
)
def test_columns_tell_the_same_as_one_exchange_after_another(name: str) -> None:
    first = int(opened(name).connections.first_time.min())
    for window in (None, Window(first + SECOND, first + 5 * SECOND)):
        side, reader = opened_side(SideByHand, name, window)
        for each in reader:
            side.take(each)
        by_columns = recorded(name, window)
        assert by_columns.facts() == side.facts()
        for rhythm in ("requests", "shares", "errors", "unanswered"):
            mine, plain = getattr(by_columns, rhythm), getattr(side, rhythm)
            assert mine.kinds() == plain.kinds()
            for key in plain.kinds():
                assert (mine.total(key), mine.examples(key), mine.slices(key)) == (
                    plain.total(key),
                    plain.examples(key),
                    plain.slices(key),
                )
        for api, _ in by_columns.shares.kinds():
            assert by_columns.slowest(api) == side.slowest(api)
        for told in ("clients", "matrix", "findings", "rebalances", "time_shares"):
            mine, plain = getattr(by_columns, told), getattr(side, told)
            assert (mine == plain) if told == "clients" else (mine() == plain())
        assert [(each.name, each.exchanges) for each in by_columns.configured()] == [
            (each.name, each.exchanges) for each in side.configured()
        ]


@pytest.mark.slow
def test_a_broker_that_stood_still() -> None:
    comparison = compare_sides(
        recorded("clean/26_k430_steady_clients"), recorded("findings/26_k430_broker_sigstop_clients")
    )
    top = comparison.differences[0]
    assert (top.aspect, top.certain) == (Aspect.FINDINGS, True)
    assert "Produce answers" in top.sentence
    assert top.bad.examples
    assert not top.good.examples
    assert any(
        "NOT_LEADER_OR_FOLLOWER" in each.subject and each.certain for each in of(comparison, Aspect.ERRORS)
    )
    (produce,) = [each for each in of(comparison, Aspect.LATENCY) if each.subject == "Produce"]
    assert produce.certain
    assert produce.ratio is not None
    assert produce.ratio > 1.5
    assert comparison.sentence.startswith(
        f"{sum(each.certain for each in comparison.differences)} differences"
    )


def test_another_release_of_broker_and_client() -> None:
    comparison = compare_sides(recorded("clean/27_k391_java_zstd"), recorded("clean/20_k430_java_zstd"))
    offered, used = of(comparison, Aspect.VERSIONS)
    assert "they look like Kafka 3.9 with KRaft and Kafka 4.3" in offered.sentence
    assert "Produce v11 to v13" in used.sentence
    (software,) = of(comparison, Aspect.CLIENTS)
    assert (software.good.text, software.bad.text) == ("apache-kafka-java 3.9.1", "apache-kafka-java 4.3.0")
    assert [each.seconds > 1 for each in (comparison.good, comparison.bad)] == [True, True]


@pytest.mark.slow
def test_two_windows_of_one_capture() -> None:
    name = "findings/26_k430_broker_sigstop_clients"
    first = int(opened(name).connections.first_time.min())
    good = recorded(name, Window(None, first + 9 * SECOND))
    bad = recorded(name, Window(first + 9 * SECOND + 1, None))
    comparison = compare_sides(good, bad)
    whole = recorded(name).facts()
    assert comparison.good.exchanges + comparison.bad.exchanges == whole.exchanges
    assert comparison.good.last <= first + 9 * SECOND < (comparison.bad.first or 0)
    assert any("only in good" in each.sentence for each in of(comparison, Aspect.FINDINGS))


# ------------------------------------------------------------ synthetic
def test_chance_is_no_difference() -> None:
    comparison = compare_sides(made(*regular(300, seed=1)), made(*regular(300, seed=2)))
    assert comparison.differences == []


@pytest.mark.slow
def test_more_requests_of_an_api() -> None:
    comparison = compare_sides(made(*regular(200)), made(*regular(1_000, every=SECOND // 50, seed=3)))
    (difference,) = of(comparison, Aspect.RATES)
    assert difference.certain
    assert (difference.subject, difference.what) == ("Metadata", "requests")
    assert difference.ratio is not None
    assert 4.5 < difference.ratio < 5.5
    assert difference.sure is not None
    assert 3 < difference.sure < 5
    assert "5.0 times more requests a second" in difference.sentence.replace("4.9", "5.0").replace(
        "5.1", "5.0"
    )
    assert (difference.good.examples, difference.bad.examples) == ((1, 2, 3, 4, 5), (1, 2, 3, 4, 5))
    assert difference.good.low is not None
    assert difference.good.value is not None
    assert difference.good.low < difference.good.value < (difference.good.high or 0)


def test_a_slower_broker_with_the_slowest_as_examples() -> None:
    slow = regular(200, latency=40 * MS)
    slow[17].latency = 90 * MS
    comparison = compare_sides(made(*regular(200, latency=2 * MS)), made(*slow))
    (difference,) = of(comparison, Aspect.LATENCY)
    assert difference.certain
    assert (difference.what, difference.bad.examples[0]) == ("median", 18)
    assert difference.sentence.endswith("most of it is the broker's own work, on average 2 ms and 40.2 ms")
    assert "20 times longer without designed waiting, 2 ms in good and 40.5 ms in bad" in difference.sentence
    assert difference.sure is not None
    assert 10 < difference.sure <= 20
    # swapping the sides changes only the sign
    (back,) = of(compare_sides(made(*slow), made(*regular(200, latency=2 * MS))), Aspect.LATENCY)
    assert back.score == difference.score
    assert "shorter" in back.sentence


def test_waiting_by_design_is_not_slow() -> None:
    fast = regular(200, latency=2 * MS)
    waiting = [
        exchange(FETCH, 12, number=n, time=BEGIN + n * MS, latency=500 * MS, wait=500 * MS)
        for n in range(200)
    ]
    also = [
        exchange(FETCH, 12, number=n, time=BEGIN + n * MS, latency=10 * MS, wait=10 * MS) for n in range(200)
    ]
    assert of(compare_sides(made(*fast, *waiting), made(*fast, *also)), Aspect.LATENCY) == []


def test_little_data_is_told_last_and_as_such() -> None:
    good = regular(30, latency=2 * MS)
    bad = regular(30, latency=2 * MS)
    for each in bad[:4]:
        each.errors = [error(3)]
    comparison = compare_sides(made(*good), made(*bad))
    (difference,) = comparison.differences
    assert (difference.aspect, difference.certain, difference.sure, difference.ratio) == (
        Aspect.ERRORS,
        False,
        1.0,
        None,
    )
    assert difference.sentence.endswith("too little data to be sure")
    assert comparison.sentence.startswith("Nothing differs that the data would prove; 1 more may differ")
    assert comparison.notes[0] == "good has 30 exchanges: only large differences can be detected"


def test_errors_that_belong_to_a_normal_conversation_weigh_less() -> None:
    def side(expected: bool) -> Side:
        found = regular(200)
        for each in found[::4]:
            each.errors = [error(79)]
            each.expected = each.errors if expected else []
        return made(*found)

    plain = made(*regular(200))
    (normal,), (wrong,) = (
        of(compare_sides(plain, side(expected)), Aspect.ERRORS) for expected in (True, False)
    )
    assert (normal.what, wrong.what) == ("expected_errors", "errors")
    assert normal.score < wrong.score


def test_requests_without_an_answer() -> None:
    bad = [unanswered(number=n, time=BEGIN + n * 100 * MS) for n in range(60)]
    comparison = compare_sides(made(*regular(200)), made(*regular(200), *bad))
    assert "Metadata without an answer" in {each.subject for each in of(comparison, Aspect.ERRORS)}


def test_clients_of_one_side() -> None:
    bad = regular(200, client_id="other")
    comparison = compare_sides(made(*regular(200)), made(*bad))
    assert {each.subject: each.sentence.split(":")[0] for each in of(comparison, Aspect.CLIENTS)} == {
        "app": "client app is in good only",
        "other": "client other is in bad only",
    }


def test_settings_of_a_client_of_both_sides() -> None:
    def joins(timeout: int) -> Exchange:
        request = {
            "group_id": "orders",
            "session_timeout_ms": timeout,
            "rebalance_timeout_ms": 300_000,
            "member_id": "",
        }
        return exchange(
            11, 5, number=201, time=BEGIN + 30 * SECOND, request=request, response={"error_code": 0}
        )

    comparison = compare_sides(made(*regular(200), joins(45_000)), made(*regular(200), joins(6_000)))
    (difference,) = of(comparison, Aspect.SETTINGS)
    assert (difference.subject, difference.what, difference.certain) == ("app", "session.timeout.ms", True)
    assert difference.sentence.startswith("client app: session.timeout.ms is 45000 in good and 6000 in bad")
    assert (difference.good.examples, difference.bad.examples) == ((201,), (201,))


def test_nothing_to_compare() -> None:
    comparison = compare_sides(made(), made(*regular(20)))
    assert comparison.differences == []
    assert comparison.sentence == "There is nothing in by hand, so there is nothing to compare."
    moment = compare_sides(made(exchange(time=BEGIN)), made(exchange(time=BEGIN)))
    assert moment.differences == []
    assert "good is a single moment: no rates can be computed" in moment.notes


def test_garbage_does_no_harm() -> None:
    bad = [
        exchange(None, None, time=BEGIN, flag=Flag.ORPHAN, request_size=0, latency=None),
        exchange(99, 7, time=BEGIN + SECOND, latency=-5),
        exchange(18, 3, time=BEGIN + 2 * SECOND, response={"api_keys": [None, {"api_key": None}]}),
        exchange(
            11, 9, time=BEGIN + 3 * SECOND, request={"protocols": [None], "group_id": None}, response={}
        ),
        exchange(8, 9, time=BEGIN + 4 * SECOND, request={"topics": None}, response={"topics": [None]}),
    ]
    comparison = compare_sides(made(*regular(50)), made(*bad))
    assert comparison.bad.exchanges == 5
    assert to_json(comparison)["bad"]["exchanges"] == 5
