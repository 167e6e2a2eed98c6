"""Bodies of any API and version, whole, truncated, or with holes: there are always words, never an exception."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from captures.meaning import (
    designed_wait_ns,
    errors_in,
    expected_errors,
    groups_in,
    members_in,
    producers_in,
    request_summary,
    response_summary,
    topics_in,
    transactional_ids_in,
)
from dissectors import apis
from dissectors.message_version import MessageVersion
from dissectors.sides import Side
from tests.dissectors.values import Values, label

CUTS = 5


def nameless(_: str) -> None:
    return None


def layouts(key: int, side: Side) -> list[MessageVersion]:
    known = apis.api(key)
    assert known is not None
    message = known.request if side == "request" else known.response
    return [each for version in message.versions for each in (message[version], *message[version].older)]


def partial(layout: MessageVersion, rng: Random) -> list[Any]:
    """The value, the traced value of its first bytes, and the value with holes."""
    value = Values(label(layout)).draw(layout.struct)
    data = layout.build(value)
    cut = [layout.trace(data[: rng.randrange(len(data) + 1)]).root.to_value() for _ in range(CUTS)]
    return [value, *cut, holes(value, rng), {}, None]


def holes(value: Any, rng: Random) -> Any:
    """The value without some of its fields, and with None in place of others."""
    if isinstance(value, dict):
        kept = {name: holes(item, rng) for name, item in value.items() if rng.random() > 0.2}
        return {name: None if rng.random() < 0.1 else item for name, item in kept.items()}
    if isinstance(value, list):
        return [holes(item, rng) for item in value]
    return value


def check(key: int, version: int, request: Any, response: Any) -> None:
    for said in (
        request_summary(key, version, request, nameless),
        response_summary(key, version, request, response, nameless, 600_000_000),
    ):
        assert said.isprintable()
        assert len(said) <= 400
    errors = errors_in(key, version, response)
    assert all(error in errors for error in expected_errors(key, version, request, response))
    wait, _ = designed_wait_ns(key, version, request, response, 600_000_000)
    assert 0 <= wait <= 600_000_000
    for side, body in (("request", request), ("response", response)):
        check_mentions(key, version, body, side)  # type: ignore[arg-type]  # a tuple of literals is of str


def check_mentions(key: int, version: int, body: Any, side: Side) -> None:
    for topic, numbers in topics_in(key, version, body, nameless, side).items():
        assert isinstance(topic, str)
        assert len(set(numbers)) == len(numbers)
    for found in (groups_in, members_in, transactional_ids_in):
        assert all(found(key, version, body, side))
    assert all(producer.producer_id >= 0 for producer in producers_in(key, version, body, side))


@pytest.mark.sample(30)
@pytest.mark.parametrize("key", range(len(apis.NAMES)), ids=apis.NAMES)
def test_any_body_has_words(key: int) -> None:
    rng = Random(key)
    for request_layout in layouts(key, "request"):
        requests = partial(request_layout, rng)
        for response_layout in layouts(key, "response"):
            if response_layout.version != request_layout.version:
                continue
            for request, response in zip(requests, partial(response_layout, rng), strict=True):
                check(key, request_layout.version, request, response)
                check(key, request_layout.version, None, response)
