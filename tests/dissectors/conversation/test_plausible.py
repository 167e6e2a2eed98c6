from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.apis import NAMES
from dissectors.conversation.plausible import (
    IMPLAUSIBLE,
    STRONG,
    WEAK,
    as_shown,
    decodes,
    highest,
    judge_request,
    produce_acks,
)
from tests.dissectors.conversation.streams import API_VERSIONS, METADATA, VERSIONS, frame, produce, request

KNOWN = {key: last for key, (_, last) in VERSIONS.items()}
BELIEVED = highest(VERSIONS)[1]


def judge(data: bytes, *, in_step: bool = False, odd_ids: tuple[bytes, ...] = ()) -> int:
    return judge_request(data, 0, KNOWN, BELIEVED, 100_000, in_step=in_step, odd_ids=odd_ids)


@pytest.mark.parametrize(
    ("data", "grade"),
    [
        (request(1), STRONG),
        (request(1, client_id="schön"), STRONG),
        (request(-1, client_id=None), WEAK),
        (request(1, client_id=""), WEAK),
        (request(1, version=14), WEAK),
        (request(1, key=len(NAMES)), WEAK),
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


@pytest.mark.parametrize(
    ("data", "in_step", "elsewhere"),
    [
        (request(1, client_id="a\nb"), WEAK, IMPLAUSIBLE),
        (request(1, version=14, client_id="a\nb"), IMPLAUSIBLE, IMPLAUSIBLE),
        (frame(b"\x00\x03\x00\x01\x00\x00\x00\x01\x00\x05Ger\xe4t\0\0\0\0"), WEAK, IMPLAUSIBLE),
        (request(1), STRONG, STRONG),
    ],
    ids=["control character", "newer", "Latin-1", "text"],
)
def test_client_ids_that_are_no_text(data: bytes, in_step: int, elsewhere: int) -> None:
    """In sync, any ID is accepted with a known API and version; elsewhere, only one used on the connection before."""
    assert (judge(data, in_step=True), judge(data)) == (in_step, elsewhere)
    used = (as_shown(b"a\nb"), as_shown(b"Ger\xe4t"))
    assert judge(data, odd_ids=used) == (WEAK if in_step == IMPLAUSIBLE else STRONG)


@pytest.mark.parametrize("client_id", [b"a\0b", b"Ger\xe4t", b"app"], ids=["control", "Latin-1", "text"])
@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (METADATA, 1, b"\xff\xff\xff\xff"),  # MetadataRequest.json: all topics
        (API_VERSIONS, 0, b""),
        # ApiVersionsRequest.json; before it the tagged fields of the header, none here and one of three bytes below
        (API_VERSIONS, 3, b"\0" + b"\x05kgo." + b"\x041.2" + b"\0"),
        (API_VERSIONS, 3, b"\x01\x05\x03abc" + b"\x05kgo." + b"\x041.2" + b"\0"),
    ],
    ids=["classic", "empty", "flexible", "tagged"],
)
def test_requests_that_prove_themselves(key: int, version: int, body: bytes, client_id: bytes) -> None:
    """Every byte belongs to a known layout; with one more or one less, nothing is proven."""
    payload = struct.pack(">hhih", key, version, 7, len(client_id)) + client_id + body
    assert decodes(payload)
    assert not decodes(payload + b"\0")
    assert not decodes(payload[:-1])
    assert not decodes(b"\x7f" + payload[1:])


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(-2, 130), st.integers(-2, 20))
def test_no_request_decodes_with_a_byte_more(raw: bytes, body: bytes, key: int, version: int) -> None:
    payload = struct.pack(">hhih", key, version, 7, len(raw)) + raw + body
    assert not (decodes(payload) and decodes(payload + b"\0"))


@given(
    st.one_of(st.binary(max_size=40), st.builds(request, st.integers(-1, 5), key=st.integers(-1, 130))),
    st.booleans(),
)
def test_more_bytes_never_change_a_judgement(data: bytes, in_step: bool) -> None:
    final = judge(data, in_step=in_step)
    for stop in range(len(data)):
        early = judge(data[:stop], in_step=in_step)
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
