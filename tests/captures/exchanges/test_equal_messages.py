"""Messages that are decoded once are those that the decoder makes of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from captures.exchanges.equal_messages import BodyMemo, EqualMessages
from dissectors.api_keys import ApiKey
from dissectors.apis import api
from dissectors.frames import Body, decode_request, decode_response
from tests.kproxy.frames import request_frame


def _response(correlation_id: int, most: int = 4, rows: int = 1) -> bytes:
    known = api(ApiKey.API_VERSIONS)
    assert known is not None
    row = {"api_key": ApiKey.API_VERSIONS, "min_version": 0, "max_version": most}
    body: bytes = known.response[2].build({"error_code": 0, "api_keys": [row] * rows, "throttle_time_ms": 0})
    return correlation_id.to_bytes(4, "big") + body


def _request(correlation_id: int, client_id: str = "app") -> bytes:
    return request_frame(ApiKey.API_VERSIONS, 2, {}, correlation_id, client_id)[4:]


def test_equal_responses_share_their_value_but_not_their_correlation_id():
    messages = EqualMessages()
    first, second = (
        messages.response(_response(number), ApiKey.API_VERSIONS, 2, complete=True) for number in (7, 8)
    )
    assert first.value is second.value
    assert [first, second] == [
        decode_response(_response(number), ApiKey.API_VERSIONS, 2) for number in (7, 8)
    ]


def test_equal_requests_share_their_value_but_not_their_correlation_id():
    messages = EqualMessages()
    first, second = (
        messages.request(_request(number), ApiKey.API_VERSIONS, complete=True) for number in (7, -8)
    )
    assert first.value is second.value
    assert [first, second] == [decode_request(_request(number)) for number in (7, -8)]


def test_very_long_ones_are_not_kept() -> None:
    messages = EqualMessages()
    first, second = (
        messages.response(_response(7, rows=6000), ApiKey.API_VERSIONS, 2, complete=True) for _ in range(2)
    )
    assert first == second
    assert first.value is not second.value


def test_what_is_kept_is_bounded() -> None:
    messages = EqualMessages()
    for most in range(300):
        messages.response(_response(7, most, rows=300), ApiKey.API_VERSIONS, 2, complete=True)
    first, last = (
        messages.response(_response(7, most, rows=300), ApiKey.API_VERSIONS, 2, complete=True)
        for most in (0, 299)
    )
    assert len(messages._known) < 300
    assert [body.value["api_keys"][0]["max_version"] for body in (first, last)] == [0, 299]


@pytest.mark.parametrize(
    ("payload", "asked"),
    [(_response(8, most=3), 2), (_response(8), 0), (_response(8), 1), (_response(8)[:-1], 2), (b"\0\0", 2)],
)
@pytest.mark.parametrize("complete", [True, False])
def test_other_responses_are_decoded_by_themselves(payload: bytes, asked: int, complete: bool):
    messages = EqualMessages()
    messages.response(_response(7), ApiKey.API_VERSIONS, 2, complete=True)
    found = messages.response(payload, ApiKey.API_VERSIONS, asked, complete=complete)
    assert found == decode_response(payload, ApiKey.API_VERSIONS, asked, complete=complete)


@pytest.mark.parametrize(
    "payload",
    [_request(8, "other"), _request(8)[:-1], _request(8) + b"\0", b"\x7f" + _request(8)[1:], b"\0\x12\0\2"],
)
@pytest.mark.parametrize("complete", [True, False])
def test_other_requests_are_decoded_by_themselves(payload: bytes, complete: bool):
    messages = EqualMessages()
    messages.request(_request(7), ApiKey.API_VERSIONS, complete=True)
    found = messages.request(payload, ApiKey.API_VERSIONS, complete=complete)
    assert found == decode_request(payload, complete=complete)


def _memo() -> tuple[BodyMemo[int], list[object]]:
    calls: list[object] = []

    def count(value: Mapping[str, Any]) -> int:
        calls.append(value)
        return len(value["api_keys"])

    return BodyMemo(count), calls


def _body(rows: int = 1) -> Body:
    return decode_response(_response(7, rows=rows), ApiKey.API_VERSIONS, 2)


def test_the_function_is_called_once_for_equal_messages():
    memo, calls = _memo()
    first, second = _body(), _body(2)
    assert [memo(body) for body in (first, second, first, second)] == [1, 2, 1, 2]
    assert calls == [first.value, second.value]


def test_long_messages_are_not_kept_for_the_function():
    memo, calls = _memo()
    long = _body(6000)
    assert [memo(long), memo(long)] == [6000, 6000]
    assert len(calls) == 2
    assert not memo._known


def test_what_is_kept_for_the_function_is_bounded():
    memo, _ = _memo()
    bodies = [_body(300) for _ in range(300)]
    assert [*map(memo, bodies)] == [300] * 300
    assert 0 < len(memo._known) < 300


def test_a_message_without_fields_is_empty():
    body = decode_response(b"\0\0\0\7", 999, 0)
    assert BodyMemo(len)(body) == 0


def test_what_is_kept_of_messages_without_bytes_is_bounded():
    memo = BodyMemo(len)
    assert {memo(decode_request(b"")) for _ in range(10_000)} == {0}
    assert 0 < len(memo._known) < 10_000
