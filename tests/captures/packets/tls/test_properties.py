"""Any segmentation gives the same, and no input makes a connection raise."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captures.packets.tls import DecryptionStopped, Event, KeyLog, MissingData, Plaintext, TlsConnection
from dissectors.conversation import Side
from tests.captures.packets.tls.peers import Flights, feed, keylog_of, recorded
from tests.captures.packets.tls.test_half import KINDS, conversation

RECORDED = ("openssl_early_data_key_update", "openssl_renegotiation")


def source(name: str) -> tuple[Flights, bytes]:
    if name in RECORDED:
        return recorded(name)
    made = conversation(name)
    return made.flights, made.keylog


def by_side(events: list[Event]) -> dict[Side, list[Event]]:
    return {side: [each for each in events if each.side is side] for side in Side}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*KINDS, *RECORDED])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), largest=st.sampled_from([1, 3, 50, 1448, 100_000]))
def test_any_segmentation_gives_the_same(name: str, seed: int, largest: int) -> None:
    flights, keys = source(name)
    chance, cut = random.Random(seed), []
    for side, data in flights:
        at = 0
        while at < len(data):
            step = chance.randint(1, largest)
            cut.append((side, data[at : at + step]))
            at += step
    assert by_side(feed(TlsConnection(keylog_of(keys)), cut)) == by_side(
        feed(TlsConnection(keylog_of(keys)), flights)
    )


@pytest.mark.parametrize("name", [*KINDS, *RECORDED])
@pytest.mark.parametrize("first", list(Side))
def test_one_side_wholly_before_the_other(name: str, first: Side) -> None:
    flights, keys = source(name)
    sides = {side: b"".join(data for sender, data in flights if sender is side) for side in Side}
    other = Side.BROKER if first is Side.CLIENT else Side.CLIENT
    events = feed(TlsConnection(keylog_of(keys)), [(first, sides[first]), (other, sides[other])])
    assert by_side(events) == by_side(feed(TlsConnection(keylog_of(keys)), flights))


def test_fed_bytes_may_be_reused() -> None:
    flights, keys = source("tls13")
    keylog = KeyLog(growing=True)
    tls = TlsConnection(keylog)
    for side, data in flights:
        buffer = bytearray(data)
        tls.receive(side, memoryview(buffer))
        buffer[:] = bytes(len(buffer))
    keylog.add(keys)
    expected = [e for e in feed(TlsConnection(keylog_of(keys)), flights) if isinstance(e, Plaintext)]
    got = [e for e in tls.retry() if isinstance(e, Plaintext)]
    assert sorted(got, key=repr) == sorted(expected, key=repr)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [*KINDS, *RECORDED])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mutations=st.lists(
        st.tuples(
            st.integers(0, 40), st.integers(0, 5), st.integers(0, 400), st.binary(min_size=1, max_size=20)
        ),
        min_size=1,
        max_size=8,
    ),
    growing=st.sampled_from([None, False, True]),
)
def test_mutations_never_raise(
    name: str, mutations: list[tuple[int, int, int, bytes]], growing: bool | None
) -> None:
    flights, keys = source(name)
    keylog = None if growing is None else keylog_of(keys, growing=growing)
    changed = [(side, bytearray(data)) for side, data in flights]
    for flight, what, at, junk in mutations:
        data = changed[flight % len(changed)][1]
        at = min(at, len(data))
        if what < 3:
            data[at : at + len(junk)] = junk
        elif what == 3:
            data[at:at] = junk
        elif what == 4:
            del data[at : at + len(junk)]
        else:
            data.clear()
    mutated = [(side, bytes(data)) for side, data in changed]
    tls = TlsConnection(keylog)
    events = feed(tls, mutated)
    assert not tls.waiting
    assert tls.info.summary()
    for side, stream in by_side(events).items():
        position = 0
        for each in stream:
            if isinstance(each, Plaintext):
                assert each.position == position
                position += len(each.data)
            if isinstance(each, Plaintext | MissingData):
                assert 0 <= each.start < each.end
        stops = [i for i, each in enumerate(stream) if isinstance(each, DecryptionStopped)]
        assert stops in ([], [len(stream) - 1]), side


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(Side)), st.binary(max_size=80)), max_size=10))
def test_random_bytes_never_raise(pieces: Flights) -> None:
    feed(TlsConnection(KeyLog()), [(side, b"\x16\x03\x03\x00\x40" + data) for side, data in pieces])
    feed(TlsConnection(KeyLog()), pieces)
