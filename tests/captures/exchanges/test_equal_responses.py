"""Responses decoded once equal those decoded separately."""

from __future__ import annotations

import pytest

from captures.exchanges.equal_responses import EqualResponses
from dissectors.api_keys import ApiKey
from dissectors.apis import api
from dissectors.frames import decode_response


def _response(correlation_id: int, most: int = 4, rows: int = 1) -> bytes:
    known = api(ApiKey.API_VERSIONS)
    assert known is not None
    row = {"api_key": ApiKey.API_VERSIONS, "min_version": 0, "max_version": most}
    body: bytes = known.response[2].build({"error_code": 0, "api_keys": [row] * rows, "throttle_time_ms": 0})
    return correlation_id.to_bytes(4, "big") + body


def test_equal_responses_share_their_value_but_not_their_correlation_id():
    responses = EqualResponses()
    first, second = (
        responses.decode(_response(number), ApiKey.API_VERSIONS, 2, complete=True) for number in (7, 8)
    )
    assert first.value is second.value
    assert [first, second] == [
        decode_response(_response(number), ApiKey.API_VERSIONS, 2) for number in (7, 8)
    ]


def test_what_no_broker_sends_is_not_kept() -> None:
    responses = EqualResponses()
    first, second = (
        responses.decode(_response(7, rows=3000), ApiKey.API_VERSIONS, 2, complete=True) for _ in range(2)
    )
    assert first == second
    assert first.value is not second.value


@pytest.mark.parametrize(
    ("payload", "asked"),
    [(_response(8, most=3), 2), (_response(8), 0), (_response(8), 1), (_response(8)[:-1], 2), (b"\0\0", 2)],
)
@pytest.mark.parametrize("complete", [True, False])
def test_other_responses_are_decoded_by_themselves(payload: bytes, asked: int, complete: bool):
    responses = EqualResponses()
    responses.decode(_response(7), ApiKey.API_VERSIONS, 2, complete=True)
    found = responses.decode(payload, ApiKey.API_VERSIONS, asked, complete=complete)
    assert found == decode_response(payload, ApiKey.API_VERSIONS, asked, complete=complete)
