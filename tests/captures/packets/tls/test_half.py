"""Missing bytes affect only the records they touch, for any suite, anywhere in the connection."""

from __future__ import annotations

import ssl
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captures.packets.tls import DecryptionStopped, Event, MissingData, Plaintext, TlsConnection
from dissectors.conversation import Side
from tests.captures.packets.tls.peers import (
    NO_ENCRYPT_THEN_MAC,
    Peers,
    TlsRecording,
    feed,
    keylog_of,
    recorded,
)

TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
CLIENT, BROKER = Side.CLIENT, Side.BROKER

KINDS = {
    "tls13": (TLS13, "", 0),
    "gcm": (TLS12, "ECDHE-RSA-AES128-GCM-SHA256", 0),
    "chacha20": (TLS12, "ECDHE-RSA-CHACHA20-POLY1305", 0),
    "cbc": (TLS12, "ECDHE-RSA-AES128-SHA", NO_ENCRYPT_THEN_MAC),
    "cbc-etm": (TLS12, "ECDHE-RSA-AES256-SHA384", 0),
}


@cache
def conversation(kind: str) -> TlsRecording:
    talk = []
    for number in range(40):
        talk += [(CLIENT, b"request %03d " % number * (1 + number % 7))]
        talk += [(BROKER, b"response %03d " % number * (1 + number % 50))]
    version, suite, options = KINDS[kind]
    return Peers(version, suite, options).connect(talk)


def with_gap(made: TlsRecording, side: Side, start: int, end: int) -> tuple[TlsConnection, list[Event]]:
    """Feed a connection without the bytes [start, end) of one side."""
    tls = TlsConnection(keylog_of(made.keylog))
    events, position = [], 0
    for sender, data in made.flights:
        if sender is not side:
            events += tls.receive(sender, data)
            continue
        low, high = (min(max(each - position, 0), len(data)) for each in (start, end))
        events += tls.receive(side, data[:low]) if low else []
        events += tls.gap(side, high - low)
        events += tls.receive(side, data[high:]) if high < len(data) else []
        position += len(data)
    return tls, events + tls.finish()


@cache
def whole(kind: str) -> dict[Side, list[Plaintext]]:
    made = conversation(kind)
    events = feed(TlsConnection(keylog_of(made.keylog)), made.flights)
    return {side: [e for e in events if isinstance(e, Plaintext) and e.side is side] for side in Side}


def size(made: TlsRecording, side: Side) -> int:
    return sum(len(data) for sender, data in made.flights if sender is side)


def hello_end(made: TlsRecording, side: Side) -> int:
    """Where the record of a side's hello ends."""
    first = next(data for sender, data in made.flights if sender is side)
    return 5 + int.from_bytes(first[3:5], "big")


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_only_records_that_are_touched_are_lost(kind: str, data: st.DataObject) -> None:
    made = conversation(kind)
    side = data.draw(st.sampled_from(list(Side)))
    end_of_stream = size(made, side)
    start = data.draw(st.integers(hello_end(made, side), end_of_stream - 1))
    end = data.draw(st.integers(start + 1, end_of_stream))
    tls, events = with_gap(made, side, start, end)
    for each in Side:
        kept = [e for e in whole(kind)[each] if each is not side or e.end <= start or e.start >= end]
        got = [e for e in events if isinstance(e, Plaintext) and e.side is each]
        assert [(e.start, e.end, e.data) for e in got] == [(e.start, e.end, e.data) for e in kept]
    assert not [e for e in events if isinstance(e, DecryptionStopped)], tls.info.reason
    lost = [e for e in whole(kind)[side] if e.start < end and e.end > start]
    missing = [e for e in events if isinstance(e, MissingData)]
    assert len(missing) <= 1
    if lost:
        assert missing
        assert missing[0].start <= lost[0].start
        assert missing[0].end >= lost[-1].end
        assert missing[0].position == sum(len(e.data) for e in whole(kind)[side] if e.end <= start)


@pytest.mark.parametrize("kind", KINDS)
def test_loss_in_the_handshake_is_no_loss_of_data(kind: str) -> None:
    made = conversation(kind)
    for side in Side:
        first = whole(kind)[side][0].start
        # tickets of TLS 1.3 and Finished of TLS 1.2 are under the application keys: lost, they count as data might
        for start in range(hello_end(made, side), first - 1, 50):
            tls, events = with_gap(made, side, start, start + 20)
            assert [e.data for e in events if isinstance(e, Plaintext)]
            assert not [e for e in events if isinstance(e, DecryptionStopped)]
            assert tls.info.reason == ""


def test_hello_that_is_lost() -> None:
    made = conversation("tls13")
    tls, events = with_gap(made, CLIENT, 0, hello_end(made, CLIENT))
    assert not [e for e in events if isinstance(e, Plaintext)]
    assert tls.info.reason == "the ClientHello was not captured"
    tls, events = with_gap(made, BROKER, 20, 30)
    assert not [e for e in events if isinstance(e, Plaintext)]
    assert tls.info.reason == "the ServerHello was not captured"


def test_key_update_that_is_lost() -> None:
    flights, keys = recorded("openssl_early_data_key_update")
    made = TlsRecording(flights, keys, {}, "", None, True)
    events = feed(TlsConnection(keylog_of(keys)), flights)
    client = [e for e in events if isinstance(e, Plaintext) and e.side is CLIENT]
    before, after = client[1], client[2]
    assert (before.data, after.data) == (b"before the update\n", b"after the update\n")
    _, events = with_gap(made, CLIENT, before.end, after.start)
    assert [e.data for e in events if isinstance(e, Plaintext) and e.side is CLIENT] == [
        e.data for e in client
    ]
    _, events = with_gap(made, CLIENT, before.start + 3, client[3].start)
    got = [e.data for e in events if isinstance(e, Plaintext) and e.side is CLIENT]
    assert got == [b"early data of the client\n", b"the end\n"]


@pytest.mark.parametrize("kind", ["tls13", "gcm"])
def test_thousands_of_records_that_are_lost(kind: str) -> None:
    version, suite, options = KINDS[kind]
    made = Peers(version, suite, options).connect([(BROKER, b"%06d" % number) for number in range(6000)])
    events = feed(TlsConnection(keylog_of(made.keylog)), made.flights)
    every = [e for e in events if isinstance(e, Plaintext)]
    _, events = with_gap(made, BROKER, every[10].start + 1, every[5900].start)
    got = [e.data for e in events if isinstance(e, Plaintext)]
    assert got == [e.data for e in every[:10] + every[5900:]]
    (missing,) = (e for e in events if isinstance(e, MissingData))
    assert (missing.start, missing.end, missing.position) == (every[10].start, every[5900].start, 60)


def test_damaged_record() -> None:
    made = conversation("tls13")
    target = whole("tls13")[BROKER][5]
    changed, position = [], 0
    for sender, data in made.flights:
        if sender is BROKER:
            if position <= target.start < position + len(data):
                at = target.start - position + 10
                data = data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
            position += len(data)
        changed.append((sender, data))
    events = feed(TlsConnection(keylog_of(made.keylog)), changed)
    got = [e.data for e in events if isinstance(e, Plaintext) and e.side is BROKER]
    assert got == [e.data for e in whole("tls13")[BROKER] if e is not target]
    (missing,) = (e for e in events if isinstance(e, MissingData))
    assert (missing.start, missing.end) == (target.start, target.end)
    assert missing.reason == "a record cannot be decrypted"


def test_damage_without_end_stops() -> None:
    made = conversation("gcm")
    target = whole("gcm")[BROKER][3]
    changed, position = [], 0
    for sender, data in made.flights:
        if sender is BROKER:
            if position >= target.start:
                data = data[:20] + bytes(byte ^ 0xFF for byte in data[20:])
            position += len(data)
        changed.append((sender, data))
    tls = TlsConnection(keylog_of(made.keylog))
    events = feed(tls, changed)
    (stopped,) = (e for e in events if isinstance(e, DecryptionStopped))
    assert stopped.side is BROKER
    assert stopped.start == target.start
    assert tls.info.reason == "no more records can be decrypted (a record cannot be decrypted)"
    got = [e.data for e in events if isinstance(e, Plaintext) and e.side is CLIENT]
    assert got == [e.data for e in whole("gcm")[CLIENT]]
