"""The forwarding code's knowledge of frames, checked against the declarations of the full decoder."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.apis import version_limits
from kproxy.proxy.framing import (
    TOKEN,
    InFlight,
    NeedMore,
    TrackedRequest,
    acks_place,
    client_id_of,
    is_request,
)
from tests.kproxy.frames import request_frame

pytestmark = pytest.mark.quick

PRODUCE = 0
VERSIONS = range(version_limits()[PRODUCE][0], version_limits()[PRODUCE][1] + 1)
NAMES = st.none() | st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=300)


@pytest.mark.sample(2)
@pytest.mark.parametrize("version", VERSIONS)
@given(
    client_id=NAMES, transactional_id=NAMES, acks=st.sampled_from([-1, 0, 1]), before=st.binary(max_size=5)
)
def test_acks_are_found_wherever_they_are(
    version: int, client_id: str | None, transactional_id: str | None, acks: int, before: bytes
) -> None:
    body = {"transactional_id": transactional_id, "acks": acks, "timeout_ms": 0, "topic_data": []}
    frame = request_frame(PRODUCE, version, body, client_id=client_id)
    data = before + frame
    place = acks_place(data, len(before), len(data), version)
    assert data[place : place + 2] == acks.to_bytes(2, signed=True)
    assert client_id_of(data, len(before), len(data)) == client_id


@given(version=st.sampled_from(VERSIONS), cut=st.integers(12, 40))
def test_too_few_bytes_are_no_answer(version: int, cut: int) -> None:
    body = {"transactional_id": "t" * 20, "acks": 1, "timeout_ms": 0, "topic_data": []}
    frame = request_frame(PRODUCE, version, body, client_id="c" * 20)
    try:
        place = acks_place(frame[:cut], 0, cut, version)
        assert frame[place : place + 2] == b"\0\1"
    except NeedMore:
        assert cut < len(frame)


@given(st.binary(min_size=1, max_size=60), st.sampled_from(VERSIONS))
def test_whatever_the_bytes_are_it_ends(data: bytes, version: int) -> None:
    frame = bytes(12) + data
    with suppress(NeedMore):
        acks_place(frame, 0, len(frame), version)


@pytest.mark.parametrize(
    "token",
    [
        b"\0alice\0secret",  # PLAIN (RFC 4616)
        b"\0A\0b\0c\0d",
        b"admin\0admin\0x",
        b"n,,n=user,r=fyko",  # SCRAM (RFC 5802)
        b"n,a=user\1auth=B",  # OAUTHBEARER (RFC 7628)
        b"\x60\x82\x02\x8e\x06\x09\x2a\x86",  # GSSAPI, initial token (RFC 2743)
        b"\x60\x48\x06\x09\x2a\x86\x48\x86",
        b"\x05\x04\x04\xff\x00\x0c\x00\x00",  # GSSAPI, wrapped (RFC 4121)
    ],
)
def test_a_raw_sasl_token_is_no_request(token: bytes) -> None:
    assert not is_request(int.from_bytes(token[:2], signed=True), int.from_bytes(token[2:4], signed=True))


@pytest.mark.parametrize(("key", "version"), [(0, 0), (18, 5), (94, 0), (10_000, 3)])
def test_all_apis_are_requests_vendors_too(key: int, version: int) -> None:
    assert is_request(key, version)


class TestInFlight:
    def test_order_decides_and_correlation_ids_check(self) -> None:
        """The Java client sends -1, then 0 twice on a SASL connection."""
        in_flight = InFlight()
        for correlation_id in (-1, 0, 0):
            in_flight.expect(correlation_id)
        assert [in_flight.answered(each) for each in (-1, 0, 0)] == [-1, 0, 0]
        assert not in_flight

    def test_what_was_never_answered_is_passed_over(self) -> None:
        """GSSAPI's last token has no response."""
        in_flight = InFlight()
        due = TrackedRequest(3, 12, 9, None)
        for entry in (TOKEN, TOKEN, due):
            in_flight.expect(entry)
        assert in_flight.answered(0x6082_0100) is TOKEN
        assert in_flight.answered(9) is due
        assert not in_flight

    def test_an_unexpected_correlation_id_goes_by_order(self) -> None:
        in_flight = InFlight()
        due = TrackedRequest(3, 12, 9, None)
        in_flight.expect(due)
        in_flight.expect(10)
        assert in_flight.answered(77) is due
        assert in_flight.answered(10) == 10

    def test_a_response_without_a_request_is_nobodys(self) -> None:
        assert InFlight().answered(4) is TOKEN

    def test_own_answers_come_in_their_turn(self) -> None:
        in_flight = InFlight()
        answered, void = TrackedRequest(3, 12, 2, None), TrackedRequest(3, 12, 3, None)
        answered.answer = b"x"
        void.void = True
        for entry in (1, void, answered, 4):
            in_flight.expect(entry)
        assert in_flight.own_answer() is None
        assert in_flight.answered(1) == 1
        assert in_flight.own_answer() is answered
        assert in_flight.own_answer() is None
        assert in_flight.answered(4) == 4
