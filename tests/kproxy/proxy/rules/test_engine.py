from __future__ import annotations

from random import Random

import pytest

from captures.filters import FilterError
from captures.interventions import comment_content
from dissectors import wire
from dissectors.apis import NAMES
from kproxy.proxy.rules.engine import MOST_ENDED, Rules
from kproxy.proxy.rules.errors import ForceNeededError
from kproxy.proxy.rules.topic_names import TopicNames
from kproxy.proxy.verdicts import UNCHANGED, Ending, Frame
from tests.kproxy.proxy.rules.frames import FETCH, SECOND, Clock, request, response, response_bytes

HEARTBEAT = {"group_id": "billing", "generation_id": 3, "member_id": "app-1-x"}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def names() -> TopicNames:
    return TopicNames()


@pytest.fixture
def rules(names: TopicNames, clock: Clock) -> Rules:
    return Rules(names, clock, Random("engine"))


@pytest.fixture
def fetch() -> Frame:
    return request("Fetch", 4, FETCH)


@pytest.fixture
def heartbeat() -> Frame:
    return request("Heartbeat", 3, HEARTBEAT)


def test_nothing_is_wanted_without_rules(rules: Rules, fetch: Frame) -> None:
    assert not rules.active
    assert not rules.wants("request", 1)
    assert rules.decide(fetch) is UNCHANGED


def test_a_rule_decides_about_what_it_matches(rules: Rules, fetch: Frame, heartbeat: Frame) -> None:
    number = rules.add("api == Fetch and topic == orders => delay 200ms")
    assert number == 1
    assert rules.active
    verdict = rules.decide(fetch)
    assert verdict.delay == 200_000_000
    (comment,) = verdict.comments
    said = comment_content(comment)
    assert said is not None
    assert said.rule == "api == Fetch and topic == orders => delay 200ms"
    assert said.action == "delayed by 200ms"
    assert not said.not_forwarded
    assert rules.decide(heartbeat) is UNCHANGED
    (shown,) = rules.to_json()
    assert (shown["hits"], shown["last_hit_ns"], shown["ended"]) == (1, fetch.time, None)


def test_a_request_that_is_not_sent_on_says_so(rules: Rules, fetch: Frame) -> None:
    rules.add("api == Fetch => error 6")
    said = comment_content(rules.decide(fetch).comments[0])
    assert said is not None
    assert said.not_forwarded


def test_only_frames_that_may_match_are_collected(rules: Rules) -> None:
    rules.add("api == Produce => drop")
    rules.add("error == NOT_COORDINATOR and api in {Heartbeat, JoinGroup} => drop")
    unknown = range(len(NAMES), len(NAMES) + 5)  # unknown APIs may have any name
    wanted = {key for key in range(-1, unknown.stop) if rules.wants("request", key)}
    assert wanted == {-1, 0, 11, 12, *unknown}
    assert {key for key in range(unknown.stop) if rules.wants("response", key)} == {11, 12, *unknown}


def test_everything_but_one_api(rules: Rules) -> None:
    rules.add("not api == Fetch and client_id == app-1 => delay 1ms")
    assert not rules.wants("request", 1)
    assert rules.wants("request", 0)


def test_the_first_rule_decides(rules: Rules, fetch: Frame) -> None:
    rules.add("api == Fetch => delay 1ms")
    rules.add("api == Fetch => drop")
    assert rules.decide(fetch).delay == 1_000_000
    assert [rule["hits"] for rule in rules.to_json()] == [1, 0]


def test_what_chance_lets_go_is_left_to_later_rules(rules: Rules, fetch: Frame) -> None:
    rules.add("api == Fetch => drop, p=0.1")
    rules.add("api == Fetch => delay 1ms")
    verdicts = [rules.decide(fetch) for _ in range(2000)]
    dropped = sum(verdict.ending is Ending.CLOSE for verdict in verdicts)
    assert dropped == pytest.approx(200, rel=0.25)
    assert sum(verdict.delay == 1_000_000 for verdict in verdicts) == 2000 - dropped


def test_a_rule_ends_after_its_count(rules: Rules, fetch: Frame) -> None:
    rules.add("api == Fetch => drop, count=2")
    assert [rules.decide(fetch).ending for _ in range(4)] == [
        Ending.CLOSE,
        Ending.CLOSE,
        Ending.NONE,
        Ending.NONE,
    ]
    assert not rules.active
    (shown,) = rules.to_json()
    assert (shown["ended"], shown["left_count"], shown["hits"]) == ("count", 0, 2)


def test_a_rule_ends_after_its_time(rules: Rules, fetch: Frame, clock: Clock) -> None:
    rules.add("api == Fetch => drop, for=2m")
    rules.add("api == Fetch => delay 1ms")
    clock.forward(119)
    assert rules.decide(fetch).ending is Ending.CLOSE
    assert rules.to_json()[0]["left_ns"] == SECOND
    clock.forward(1)
    assert rules.decide(fetch).delay == 1_000_000
    clock.forward(600)
    assert rules.decide(fetch) is UNCHANGED
    assert not rules.active
    assert [rule["ended"] for rule in rules.to_json()] == ["time", "time"]


def test_a_rule_outlives_a_clock_that_is_set(rules: Rules, fetch: Frame, clock: Clock) -> None:
    rules.add("api == Fetch => drop, for=2m")
    for step in (3600, -7200):
        clock.forward(step)
        rules.clock_set(step * SECOND)
        assert rules.to_json()[0]["left_ns"] == 120 * SECOND
        assert rules.decide(fetch).ending is Ending.CLOSE
    clock.forward(120)
    assert rules.decide(fetch) is UNCHANGED


def test_only_some_ended_rules_are_kept(rules: Rules, clock: Clock) -> None:
    for _ in range(MOST_ENDED + 5):
        rules.add("api == Fetch => drop, for=1s")
    clock.forward(1)
    shown = rules.to_json()
    assert [rule["number"] for rule in shown] == list(range(6, MOST_ENDED + 6))


def test_rules_are_removed(rules: Rules, fetch: Frame) -> None:
    rules.add("api == Fetch => drop")
    second = rules.add("api == Fetch => reset")
    rules.remove(1)
    assert rules.decide(fetch).ending is Ending.RESET
    with pytest.raises(LookupError, match="no rule 1"):
        rules.remove(1)
    assert rules.clear() == 1
    assert not rules.active
    assert rules.add("api == Fetch => drop") == second + 1


@pytest.mark.parametrize(
    "text",
    [
        "=> drop",
        "~all => drop",
        "version >= 0 => delay 1ms",
        "response: => drop",
        "request => drop",
        "not topic == orders => drop",
        "api ~ . or client_id == x => drop",
        "response.throttle_time_ms >= 0 or latency >= 0s => drop",
    ],
)
def test_a_rule_for_everything_needs_force(rules: Rules, text: str) -> None:
    with pytest.raises(ForceNeededError, match="concerns every"):
        rules.add(text)
    assert not rules.active
    assert rules.add(text, force=True) == 1


@pytest.mark.parametrize(
    "text",
    [
        "client_id == app => drop",
        "latency > 1s => drop",
        "error => drop",
        "api != Fetch => drop",
        "client == 10.0.0.0/8 => drop",
        "group exists => drop",
    ],
)
def test_a_rule_for_something_needs_none(rules: Rules, text: str) -> None:
    assert rules.add(text) == 1


def test_a_mistake_adds_nothing(rules: Rules) -> None:
    with pytest.raises(FilterError):
        rules.add("api == Fetsch => drop")
    assert rules.to_json() == []


def test_responses_are_matched_with_their_request(rules: Rules, fetch: Frame) -> None:
    rules.add("error == NOT_LEADER_OR_FOLLOWER and request.max_wait_ms == 500 and latency >= 1s => reset")
    partitions = [{"partition_index": 0, "error_code": 6}]
    answer = response("Fetch", 4, {"responses": [{"topic": "orders", "partitions": partitions}]}, to=fetch)
    assert rules.decide(answer).ending is Ending.RESET
    sound = response("Fetch", 4, {"responses": []}, to=fetch)
    assert rules.decide(sound) is UNCHANGED


def test_a_response_without_its_request_is_matched_by_what_it_tells(rules: Rules) -> None:
    rules.add("response.error_code == 27 => drop")
    assert rules.decide(response("Heartbeat", 3, {"error_code": 27})).ending is Ending.CLOSE


def test_topics_known_by_id_are_named(rules: Rules, names: TopicNames) -> None:
    topic_id = wire.uuid_text(bytes(range(16)))
    body = FETCH | {"topics": [{"topic_id": topic_id, "partitions": [{"partition": 0}]}]}
    rules.add("topic == orders => drop")
    assert rules.needs_names
    assert rules.decide(request("Fetch", 13, body)) is UNCHANGED
    told = {"topics": [{"name": "orders", "topic_id": topic_id, "partitions": []}], "brokers": []}
    names.remember(3, 12, response_bytes("Metadata", 12, told))
    assert rules.decide(request("Fetch", 13, body)).ending is Ending.CLOSE


def test_embedded_protocols_are_read_where_they_are_asked_for(rules: Rules) -> None:
    # a ConsumerProtocolSubscription v0 with one topic, by clients/.../ConsumerProtocolSubscription.json
    subscription = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x06orders" + b"\xff\xff\xff\xff"
    body = {
        "group_id": "billing",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription}],
    }
    rules.add("request.protocols.metadata.topics == orders => drop")
    assert rules.decide(request("JoinGroup", 4, body)).ending is Ending.CLOSE


def test_a_rule_that_cannot_be_applied_lets_the_frame_go_to_the_next(rules: Rules) -> None:
    rules.add("api == Metadata => error 5")
    rules.add("api == Metadata => delay 1ms")
    verdict = rules.decide(request("Metadata", 4, {"topics": None, "allow_auto_topic_creation": True}))
    assert verdict.delay == 1_000_000
    shown = rules.to_json()[0]
    assert (shown["hits"], shown["failures"]) == (0, 1)
    assert "names nothing" in shown["failure"]


def test_a_rule_that_fails_never_breaks_traffic(
    rules: Rules, fetch: Frame, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from kproxy.proxy.rules.actions import Drop

    def broken(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(Drop, "apply", broken)
    rules.add("api == Fetch => drop")
    for _ in range(3):
        assert rules.decide(fetch) is UNCHANGED
    shown = rules.to_json()[0]
    assert (shown["failures"], shown["failure"]) == (3, "ZeroDivisionError: on purpose")
    assert len(caplog.records) == 1


@pytest.mark.parametrize("cut", range(4, 60, 5))
def test_malformed_frames_go_on_or_are_matched_but_never_raise(rules: Rules, fetch: Frame, cut: int) -> None:
    rules.add("topic == orders => error 6")
    rules.add("request.topics.partitions.partition == 1 => corrupt")
    fetch.data = fetch.data[:cut]
    rules.decide(fetch)


def test_applications_are_counted_by_rule(rules: Rules, fetch: Frame) -> None:
    rules.add("api == Fetch => delay 1ms")
    rules.decide(fetch)
    rules.decide(fetch)
    assert rules.applications == {"api == Fetch => delay 1ms": 2}
