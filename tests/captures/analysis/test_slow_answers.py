"""Slow responses."""

from __future__ import annotations

import pytest

from captures.analysis.slow_answers import LEAST, SlowAnswers
from dissectors.api_keys import ApiKey
from tests.captures.analysis.kit import exchange


@pytest.mark.parametrize(
    ("key", "latency", "slow"),
    [
        (ApiKey.HEARTBEAT, LEAST, True),
        (ApiKey.HEARTBEAT, LEAST - 1, False),
        (ApiKey.HEARTBEAT, None, False),
        (ApiKey.CREATE_TOPICS, 5 * LEAST, False),
        (None, 5 * LEAST, False),
    ],
)
def test_what_counts(key: ApiKey | None, latency: int | None, slow: bool) -> None:
    answers = SlowAnswers()
    answers.add(exchange(key, 1, latency=latency))
    assert [each.excess for each in answers.found] == ([latency] if slow else [])


def test_a_long_poll_is_not_late() -> None:
    answers = SlowAnswers()
    for latency in (5 * LEAST, 7 * LEAST):
        answers.add(exchange(ApiKey.FETCH, 4, latency=latency, wait=5 * LEAST))
    assert [each.excess for each in answers.found] == [2 * LEAST]


@pytest.mark.parametrize(
    ("response", "throttled"),
    [({"throttle_time_ms": 1138}, True), ({"throttle_time_ms": 0}, False), (None, False)],
)
def test_an_answer_that_a_quota_delayed_is_marked(response: dict[str, int] | None, throttled: bool) -> None:
    answers = SlowAnswers()
    answers.add(exchange(ApiKey.PRODUCE, 9, request={}, response=response, latency=3 * LEAST))
    assert [each.throttled for each in answers.found] == [throttled]
