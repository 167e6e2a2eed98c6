from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.conversation.plausible import IMPLAUSIBLE, STRONG, WEAK, ceilings, judge_request, produce_acks
from tests.dissectors.conversation.streams import VERSIONS, frame, produce, request

KNOWN = {key: last for key, (_, last) in VERSIONS.items()}
BELIEVED = ceilings(VERSIONS)


def judge(data: bytes) -> int:
    return judge_request(data, 0, KNOWN, BELIEVED, 100_000)


@pytest.mark.parametrize(
    ("data", "grade"),
    [
        (request(1), STRONG),
        (request(1, client_id="schön"), STRONG),
        (request(-1, client_id=None), WEAK),
        (request(1, client_id=""), WEAK),
        (request(1, version=14), WEAK),
        (request(1, key=95), WEAK),
        (frame(b"\x00\x07\x00\x00" + bytes(8)), WEAK),
        (request(1, client_id="a\nb"), IMPLAUSIBLE),
        (request(1, version=40), IMPLAUSIBLE),
        (request(1, version=-1), IMPLAUSIBLE),
        (request(1, key=999), IMPLAUSIBLE),
        (request(1, key=-1), IMPLAUSIBLE),
        (b"\x00\x00\x00\x07" + bytes(7), IMPLAUSIBLE),
        (b"\xff\xff\xff\xff" + bytes(20), IMPLAUSIBLE),
        (b"\x00\x02\x00\x00" + bytes(20), IMPLAUSIBLE),
        # client ID of 5 bytes in a frame that has 4 left
        (frame(b"\x00\x03\x00\x01\x00\x00\x00\x01\x00\x05abcd"), IMPLAUSIBLE),
        (frame(b"\x00\x03\x00\x01\x00\x00\x00\x01\xff\xfeabcd"), IMPLAUSIBLE),
    ],
)
def test_grades(data: bytes, grade: int) -> None:
    assert judge(data) == grade


@given(st.one_of(st.binary(max_size=40), st.builds(request, st.integers(-1, 5), key=st.integers(-1, 130))))
def test_more_bytes_never_change_a_judgement(data: bytes) -> None:
    final = judge(data)
    for stop in range(len(data)):
        early = judge(data[:stop])
        if early >= 0:
            assert early == final
        else:
            assert -early > stop


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("transactional_id", [None, "", "tx-1"])
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_acks_of_every_version(version: int, transactional_id: str | None, acks: int) -> None:
    payload = produce(1, acks, version=version, transactional_id=transactional_id)[4:]
    assert produce_acks(payload, version) == acks
    body = len(payload) - 6 if version >= 9 else len(payload) - 8
    assert all(produce_acks(payload[:stop], version) is None for stop in range(body))


def test_acks_behind_a_tagged_field_of_the_header() -> None:
    # one tagged field: tag 5, 3 bytes; then a null transactional_id (KIP-482)
    payload = b"\x00\x00\x00\x09\x00\x00\x00\x01\x00\x01c" + b"\x01\x05\x03abc" + b"\x00" + b"\x00\x00"
    assert produce_acks(payload, 9) == 0
    assert produce_acks(payload[:-1], 9) is None
    assert produce_acks(payload[:14], 9) is None


@given(st.binary(max_size=60), st.integers(0, 13))
def test_any_payload_has_acks_or_none(payload: bytes, version: int) -> None:
    acks = produce_acks(payload, version)
    assert acks is None or -32768 <= acks <= 32767
