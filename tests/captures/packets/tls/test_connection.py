"""Connections of Python's ssl module, and recorded ones of OpenSSL, decrypted exactly."""

from __future__ import annotations

import contextlib
import ssl
import struct
from functools import cache
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from captures.packets.tls import (
    Alert,
    DecryptionStopped,
    KeyLog,
    MissingData,
    Plaintext,
    TlsConnection,
)
from captures.packets.tls.ciphers import RecordCipher, expand_label, next_secret, tls13_cipher
from captures.packets.tls.handshake import MessageReader, parse_client_hello, parse_server_hello
from captures.packets.tls.records import RecordReader, TlsRecord, Undecryptable
from captures.packets.tls.suites import suite
from dissectors.budget import changed
from dissectors.conversation import Side
from tests.captures.packets.tls.peers import (
    NO_ENCRYPT_THEN_MAC,
    Flights,
    Peers,
    TlsRecording,
    certificate_der,
    feed,
    keylog_of,
    plain,
    recorded,
)

TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
CLIENT, BROKER = Side.CLIENT, Side.BROKER

TALK = [
    (CLIENT, b"a request"),
    (BROKER, b"a response longer than a record" * 2000),
    (CLIENT, b"another" * 5000),
    (BROKER, b"x"),
]

#: suites of TLS 1.2 by OpenSSL's name; all that OpenSSL has with an RSA certificate and AES or ChaCha20
TLS12_SUITES = {
    "ECDHE-RSA-AES128-GCM-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "ECDHE-RSA-AES128-SHA": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "ECDHE-RSA-AES256-SHA": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "ECDHE-RSA-AES128-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "ECDHE-RSA-AES256-SHA384": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
    "AECDH-AES128-SHA": "TLS_ECDH_anon_WITH_AES_128_CBC_SHA",
    "AES128-GCM-SHA256": "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "AES256-GCM-SHA384": "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "AES128-CCM": "TLS_RSA_WITH_AES_128_CCM",
    "AES256-CCM8": "TLS_RSA_WITH_AES_256_CCM_8",
    "AES128-SHA": "TLS_RSA_WITH_AES_128_CBC_SHA",
    "AES256-SHA256": "TLS_RSA_WITH_AES_256_CBC_SHA256",
}


@cache
def simple(version: ssl.TLSVersion) -> TlsRecording:
    return Peers(version, alpn=("kafka", "h2")).connect(TALK)


def decrypted(made: TlsRecording, keylog: KeyLog | None = None) -> TlsConnection:
    """Check that the output equals the data sent, with nothing missing."""
    tls = TlsConnection(keylog or keylog_of(made.keylog))
    events = feed(tls, made.flights)
    assert plain(events) == made.said
    assert not [each for each in events if isinstance(each, MissingData | DecryptionStopped)]
    assert tls.info.reason == ""
    assert tls.info.notes == []
    assert not tls.waiting
    return tls


def reason_of(made: TlsRecording, keylog: KeyLog | None) -> str:
    tls = TlsConnection(keylog)
    feed(tls, made.flights)
    return tls.info.reason


# -- suites ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [0, NO_ENCRYPT_THEN_MAC], ids=["encrypt-then-mac", "mac-then-encrypt"])
@pytest.mark.parametrize("name", TLS12_SUITES)
def test_tls12(name: str, options: int) -> None:
    if options and "GCM" in name:
        return
    made = Peers(TLS12, name, options).connect(TALK)
    assert made.suite == name
    info = decrypted(made).info
    assert (info.version, info.suite, info.resumed) == ("TLS 1.2", TLS12_SUITES[name], False)
    assert info.server_name == "broker-1.example"
    anonymous = "anon" in info.suite
    assert info.certificate == (() if anonymous else ("broker-1", "broker-1.example", "10.0.0.2"))


def test_tls13() -> None:
    made = simple(TLS13)
    info = decrypted(made).info
    assert (info.version, info.suite, info.resumed) == ("TLS 1.3", "TLS_AES_256_GCM_SHA384", False)
    assert (info.offered_alpn, info.alpn) == (("kafka", "h2"), "kafka")
    assert info.certificate == ("broker-1", "broker-1.example", "10.0.0.2")
    assert [(alert.side, alert.name) for alert in info.alerts] == [
        (CLIENT, "close_notify"),
        (BROKER, "close_notify"),
    ]


@pytest.mark.parametrize(
    "name", ["TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256", "TLS_AES_128_CCM_SHA256"]
)
def test_tls13_suites_protected_by_hand(name: str) -> None:
    """Python's ssl cannot choose TLS 1.3 suites: a connection of OpenSSL is re-encrypted with other suites."""
    made = reprotected(name)
    tls = decrypted(made)
    assert tls.info.suite == name
    assert tls.info.early_data


def test_client_certificate_and_retry() -> None:
    made = Peers(TLS13, client_certificate=True, curve="secp384r1").connect(TALK)
    readers = {side: RecordReader() for side in Side}
    records = [(side, item) for side, data in made.flights for item in readers[side].feed(data)]
    hellos = [
        (side, item.payload[0]) for side, item in records if isinstance(item, TlsRecord) and item.kind == 22
    ]
    # the server rejected the client's key share: HelloRetryRequest
    assert hellos == [(CLIENT, 1), (BROKER, 2), (CLIENT, 1), (BROKER, 2)]
    info = decrypted(made).info
    assert info.client_certificate == ("broker-1", "broker-1.example", "10.0.0.2")


def test_client_certificate_of_tls12() -> None:
    made = Peers(TLS12, client_certificate=True).connect(TALK)
    assert decrypted(made).info.client_certificate == ("broker-1", "broker-1.example", "10.0.0.2")


# -- positions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_positions_are_those_of_records(version: ssl.TLSVersion) -> None:
    made = simple(version)
    events = feed(TlsConnection(keylog_of(made.keylog)), made.flights)
    for side in Side:
        stream = b"".join(data for sender, data in made.flights if sender is side)
        ends = [0]
        for each in events:
            if isinstance(each, Plaintext | Alert) and each.side is side:
                assert each.start >= ends[-1]
                assert stream[each.start + 1 : each.start + 3] == b"\x03\x03"
                assert each.end - each.start == 5 + int.from_bytes(
                    stream[each.start + 3 : each.start + 5], "big"
                )
                ends.append(each.end)
        assert ends[-1] == len(stream)


def test_plain_comes_with_the_last_byte_of_its_record() -> None:
    made = simple(TLS13)
    tls = TlsConnection(keylog_of(made.keylog))
    for at, (side, data) in enumerate(made.flights):
        if at < len(made.flights) - 6:
            tls.receive(side, data)
    side, data = made.flights[-6]
    assert not [e for e in tls.receive(side, data[:-1]) if isinstance(e, Plaintext) and e.end >= len(data)]
    assert [e for e in tls.receive(side, data[-1:]) if isinstance(e, Plaintext)]


# -- resumption --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [TLS12, TLS13])
@pytest.mark.parametrize("options", [0, ssl.OP_NO_TICKET], ids=["ticket", "session-id"])
def test_resumption(version: ssl.TLSVersion, options: int) -> None:
    peers = Peers(version, options=options)
    first = peers.connect(TALK)
    second = peers.connect(TALK, first.session)
    assert second.reused
    assert decrypted(first).info.resumed is False
    assert decrypted(second).info.resumed is True


@pytest.mark.parametrize("options", [0, ssl.OP_NO_TICKET], ids=["ticket", "session-id"])
def test_resumption_of_a_session_seen_before_needs_no_secret_of_its_own(options: int) -> None:
    peers = Peers(TLS12, options=options)
    first = peers.connect(TALK)
    second = peers.connect(TALK, first.session)
    keylog = keylog_of(first.keylog)
    decrypted(first, keylog)
    assert decrypted(second, keylog).info.resumed is True
    assert "no secret" in reason_of(second, keylog_of(first.keylog))


def test_java_agent_key_log() -> None:
    peers = Peers(TLS12, options=ssl.OP_NO_TICKET)
    first = peers.connect(TALK)
    second = peers.connect(TALK, first.session)
    master = first.keylog.split()[-1].decode()
    (hello,) = (r for r in messages(first, BROKER) if r[0] == 2)
    session = parse_server_hello(hello[1]).session_id
    assert len(session) == 32
    keylog = keylog_of(f"RSA Session-ID:{session.hex().upper()} Master-Key:{master.upper()}\n".encode())
    decrypted(first, keylog)
    decrypted(second, keylog)


def messages(made: TlsRecording, side: Side) -> list[tuple[int, bytes]]:
    """The handshake messages of one side up to the first record that must be encrypted."""
    reader, parts = RecordReader(), MessageReader()
    found: list[tuple[int, bytes]] = []
    for sender, data in made.flights:
        for item in reader.feed(data) if sender is side else []:
            if not isinstance(item, TlsRecord) or item.kind != 22:
                return found
            found += parts.feed(item.payload)
    return found


# -- OpenSSL: early data, key updates, renegotiation ---------------------------------------------------------------


def test_early_data_and_key_updates() -> None:
    flights, keys = recorded("openssl_early_data_key_update")
    tls = TlsConnection(keylog_of(keys))
    events = feed(tls, flights)
    assert plain(events) == {
        CLIENT: b"early data of the client\nbefore the update\nafter the update\nthe end\n",
        BROKER: b"answer one\nanswer two\nanswer three\n",
    }
    assert (tls.info.early_data, tls.info.resumed, tls.info.reason) == (True, True, "")


def test_early_data_without_its_secret() -> None:
    flights, keys = recorded("openssl_early_data_key_update")
    lines = [line for line in keys.splitlines(True) if not line.startswith(b"CLIENT_EARLY")]
    tls = TlsConnection(keylog_of(b"".join(lines)))
    events = feed(tls, flights)
    assert plain(events)[CLIENT] == b"before the update\nafter the update\nthe end\n"
    (missing,) = (e for e in events if isinstance(e, MissingData))
    assert missing.position == 0
    assert missing.reason.startswith("no CLIENT_EARLY_TRAFFIC_SECRET in the key log for client random fb42")
    assert events.index(missing) < next(
        i for i, e in enumerate(events) if isinstance(e, Plaintext) and e.side is CLIENT
    )


def test_early_data_that_is_refused() -> None:
    """As after a restart of the broker: it cannot read the ticket, skips the early data, and does a full handshake."""
    flights, keys = recorded("openssl_early_data_key_update")
    refused = refusing(flights, keys)
    tls = TlsConnection(keylog_of(keys))
    events = feed(tls, refused)
    assert plain(events)[CLIENT] == b"before the update\nafter the update\nthe end\n"
    assert not [e for e in events if isinstance(e, MissingData | DecryptionStopped)]
    assert tls.info.early_data is False


def test_handshake_secrets_are_not_needed() -> None:
    made = simple(TLS13)
    lines = [line for line in made.keylog.splitlines(True) if b"HANDSHAKE" not in line]
    tls = TlsConnection(keylog_of(b"".join(lines)))
    events = feed(tls, made.flights)
    assert plain(events) == made.said
    assert not [e for e in events if isinstance(e, MissingData | DecryptionStopped)]
    assert len(tls.info.notes) == 2


def test_renegotiation() -> None:
    flights, keys = recorded("openssl_renegotiation")
    tls = TlsConnection(keylog_of(keys))
    events = feed(tls, flights)
    assert plain(events) == {CLIENT: b"before\nbetween\nthe end\n", BROKER: b"answer one\nanswer two\n"}
    assert tls.info.notes == ["renegotiated"]
    assert tls.info.resumed is False
    assert tls.info.client_random == flights[0][1][11:43]


def test_renegotiation_whose_secret_is_missing() -> None:
    flights, keys = recorded("openssl_renegotiation")
    lines = [line for line in keys.splitlines() if line.startswith(b"CLIENT_RANDOM")]
    tls = TlsConnection(keylog_of(b"\n".join([lines[0], lines[2]])))
    events = feed(tls, flights)
    assert plain(events) == {CLIENT: b"before\n", BROKER: b"answer one\n"}
    second = lines[1].split()[1].decode()
    assert tls.info.reason.startswith(f"no secret in the key log for client random {second}")
    assert "decryption stopped: no secret" in tls.info.summary()


# -- without secrets ---------------------------------------------------------------------------------------------


def test_without_key_log_tls12() -> None:
    made = simple(TLS12)
    tls = TlsConnection()
    events = feed(tls, made.flights)
    assert {type(each) for each in events} == {DecryptionStopped}
    assert tls.info.summary() == (
        "TLS 1.2, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, SNI broker-1.example, ALPN kafka, "
        "certificate broker-1 broker-1.example 10.0.0.2, not decrypted: no key log"
    )
    assert tls.info.offered_alpn == ("kafka", "h2")


def test_without_key_log_tls13() -> None:
    tls = TlsConnection()
    feed(tls, simple(TLS13).flights)
    assert tls.info.summary() == (
        "TLS 1.3, TLS_AES_256_GCM_SHA384, SNI broker-1.example, ALPN offered kafka h2, not decrypted: no key log"
    )


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_secret_of_another_connection(version: ssl.TLSVersion) -> None:
    made = simple(version)
    (hello, *_) = messages(made, CLIENT)
    random = parse_client_hello(hello[1]).random.hex()
    reason = reason_of(made, keylog_of(Peers(version).connect(TALK).keylog))
    assert f"in the key log for client random {random}" in reason


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_wrong_secret(version: ssl.TLSVersion) -> None:
    made = simple(version)
    wrong = b"".join(
        line[:-6] + b"000000\n" for line in made.keylog.splitlines() if not line.startswith(b"#")
    )
    assert reason_of(made, keylog_of(wrong)) == "the secret in the key log does not match the connection"


def test_suite_that_is_not_decrypted() -> None:
    made = Peers(TLS12, "CAMELLIA128-SHA").connect(TALK)
    assert reason_of(made, keylog_of(made.keylog)) == "cipher suite 0x0041 cannot be decrypted"


def test_version_that_is_not_decrypted() -> None:
    made = simple(TLS12)
    flights = [(side, bytearray(data)) for side, data in made.flights]
    flights[1][1][9:11] = b"\x03\x01"  # the version in the ServerHello
    tls = TlsConnection(keylog_of(made.keylog))
    feed(tls, [(side, bytes(data)) for side, data in flights])
    assert tls.info.reason == "TLS 1.0 is not decrypted, only TLS 1.2 and 1.3"
    assert tls.info.certificate[0] == "broker-1"


@pytest.mark.parametrize("keys", [True, False])
def test_capture_that_began_inside(keys: bool) -> None:
    made = simple(TLS13)
    tls = TlsConnection(keylog_of(made.keylog) if keys else None)
    events = feed(tls, made.flights[4:])
    assert {e.reason for e in events if isinstance(e, DecryptionStopped)} == {
        "the ClientHello was not captured",
        "the ServerHello was not captured",
    }


def test_one_direction_only() -> None:
    made = simple(TLS12)
    tls = TlsConnection(keylog_of(made.keylog))
    feed(tls, [(side, data) for side, data in made.flights if side is CLIENT])
    assert tls.info.reason == "the ServerHello was not captured"
    tls = TlsConnection(keylog_of(made.keylog))
    feed(tls, [(side, data) for side, data in made.flights if side is BROKER])
    assert tls.info.reason == "the ClientHello was not captured"
    assert tls.info.certificate[0] == "broker-1"


def test_not_tls() -> None:
    tls = TlsConnection()
    (stopped,) = tls.receive(CLIENT, b"GET / HTTP/1.1\r\n\r\n")
    assert stopped == DecryptionStopped(CLIENT, 0, "the client does not start with a TLS record")


def test_refused_handshake() -> None:
    made = simple(TLS12)
    tls = TlsConnection()
    tls.receive(*made.flights[0])
    (alert,) = tls.receive(BROKER, bytes.fromhex("15030300020228"))  # RFC 5246, section 7.2: fatal, 40
    assert isinstance(alert, Alert)
    assert (
        alert.text
        == "fatal alert handshake_failure from the broker: no common cipher suite, or no client certificate"
    )
    assert alert.text in tls.info.summary()


# -- a key log that grows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_secrets_that_come_late(version: ssl.TLSVersion) -> None:
    made = simple(version)
    keylog = KeyLog(growing=True)
    tls = TlsConnection(keylog)
    for side, data in made.flights:
        assert tls.receive(side, data) == []
    assert tls.waiting
    assert tls.retry() == []
    events = []
    for line in made.keylog.splitlines(True):
        keylog.add(line)
        events += tls.retry()
    assert plain(events) == made.said
    assert not tls.waiting
    assert tls.finish() == []


def by_session(secret: bytes) -> bytes:
    """A line of extract-tls-secrets, with a session ID made up by the client."""
    return b"RSA Session-ID:%s Master-Key:%s\n" % (secret[:32].hex().encode(), secret.hex().encode())


def test_session_that_the_server_left_without_a_name() -> None:
    """OpenSSL issues a ticket and no session ID; a Java client logs the secret under an ID of its own."""
    made = simple(TLS12)
    hello = next(parse_server_hello(body) for kind, body in messages(made, BROKER) if kind == 2)
    assert hello.session_id == b""
    keylog = KeyLog(growing=True)
    tls = TlsConnection(keylog)
    for side, data in made.flights:
        assert tls.receive(side, data) == []
    keylog.add(by_session(bytes(range(48))))
    assert tls.retry() == []
    keylog.add(by_session(bytes.fromhex(made.keylog.split()[-1].decode())))
    assert plain(tls.retry()) == made.said
    assert not tls.waiting


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_key_log_file_is_followed(version: ssl.TLSVersion, tmp_path: Path) -> None:
    """The capture is read faster than the other process writes its key log."""
    made = simple(version)
    path = tmp_path / "keys"
    keylog = KeyLog(path, growing=True)
    tls = TlsConnection(keylog)
    written, events = 0, []
    with path.open("wb") as file:
        for side, data in made.flights:
            events += tls.receive(side, data)
            file.write(made.keylog[written : written + 200])
            file.flush()
            written += 200
            if keylog.refresh():
                events += tls.retry()
        file.write(made.keylog[written:])
    assert keylog.refresh() or not tls.waiting
    events += tls.retry()
    assert plain(events) == made.said


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_secrets_that_never_come(version: ssl.TLSVersion) -> None:
    made = simple(version)
    tls = TlsConnection(KeyLog(growing=True))
    events = feed(tls, made.flights)
    assert {type(e) for e in events} == {DecryptionStopped}
    assert "in the key log for client random" in tls.info.reason
    assert not tls.waiting


def without_client_secrets(made: TlsRecording) -> bytes:
    return b"".join(line for line in made.keylog.splitlines(True) if not line.startswith(b"CLIENT"))


def test_no_response_is_out_before_its_request() -> None:
    """The broker's secrets are there; the client's come later."""
    made = simple(TLS13)
    keylog = KeyLog(growing=True)
    keylog.add(without_client_secrets(made))
    tls = TlsConnection(keylog)
    assert [event for side, data in made.flights for event in tls.receive(side, data)] == []
    keylog.add(made.keylog)
    events = tls.retry()
    assert plain(events) == made.said
    sides = [event.side for event in events]
    assert sides == sorted(sides, key=[CLIENT, BROKER].index)


def test_responses_are_read_if_the_secrets_of_their_requests_never_come() -> None:
    made = simple(TLS13)
    keylog = KeyLog(growing=True)
    keylog.add(without_client_secrets(made))
    assert plain(feed(TlsConnection(keylog), made.flights)) == {CLIENT: b"", BROKER: made.said[BROKER]}


def test_waiting_that_is_given_up() -> None:
    made = simple(TLS12)
    tls = TlsConnection(KeyLog(growing=True))
    assert [event for side, data in made.flights for event in tls.receive(side, data)] == []
    assert tls.held > 0
    assert {type(event) for event in tls.give_up("no more room")} == {DecryptionStopped}
    assert tls.info.reason.endswith("; no more room")
    assert (tls.held, tls.waiting) == (0, False)


def test_what_waits_is_bounded() -> None:
    made = simple(TLS13)
    keylog = KeyLog(growing=True)
    with changed(tls_bytes=50_000):
        tls = TlsConnection(keylog)
    events = [event for side, data in made.flights for event in tls.receive(side, data)]
    assert [type(e) for e in events] == [DecryptionStopped]
    assert tls.info.reason.endswith("no more than 48 KiB of ciphertext are kept waiting")
    keylog.add(made.keylog)
    assert plain(tls.retry())[CLIENT] == made.said[CLIENT]


# -- TLS 1.3 suites that Python's ssl does not negotiate -----------------------------------------------------------


def reprotected(name: str) -> TlsRecording:
    """OpenSSL's recorded connection, its records decrypted and protected again under another suite of the same hash.

    Messages and secrets stay; only the suite in the ServerHello and the protection differ.
    """
    codes = {
        "TLS_AES_128_GCM_SHA256": (0x1301, AESGCM),
        "TLS_CHACHA20_POLY1305_SHA256": (0x1303, ChaCha20Poly1305),
        "TLS_AES_128_CCM_SHA256": (0x1304, AESCCM),
    }
    code, aead = codes[name]
    old, new = suite(0x1301), suite(code)
    assert old is not None
    assert new is not None
    flights, keys = recorded("openssl_early_data_key_update")
    secrets = {
        line.split()[0].decode(): bytes.fromhex(line.split()[2].decode()) for line in keys.splitlines()
    }
    order = {
        CLIENT: ["CLIENT_EARLY_TRAFFIC_SECRET", "CLIENT_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0"],
        BROKER: ["SERVER_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0"],
    }
    epochs = {side: [secrets[label] for label in labels] for side, labels in order.items()}
    sequences = dict.fromkeys(Side, 0)
    readers = {side: RecordReader() for side in Side}
    out = []
    for side, data in flights:
        made = b""
        for item in readers[side].feed(data):
            assert isinstance(item, TlsRecord)
            if item.kind != 23:
                made += (item.header + bytes(item.payload)).replace(
                    b"\x13\x01\0", struct.pack(">HB", code, 0)
                )
                continue
            secret = epochs[side][0]
            kind, content = tls13_cipher(old, secret).open(sequences[side], item)
            key = expand_label(new, secret, "key", new.key_bytes)
            iv = int.from_bytes(expand_label(new, secret, "iv", 12), "big")
            inner = content + bytes((kind, 0, 0))  # and some padding
            header = struct.pack(">BHH", 23, 0x0303, len(inner) + 16)
            made += header + aead(key).encrypt((iv ^ sequences[side]).to_bytes(12, "big"), inner, header)
            sequences[side] += 1
            last = [kind for kind, _ in MessageReader().feed(content)][-1:] if kind == 22 else []
            if last in ([20], [5]):  # Finished, EndOfEarlyData
                epochs[side].pop(0)
                sequences[side] = 0
            elif last == [24]:  # KeyUpdate
                epochs[side] = [next_secret(old, secret)]
                sequences[side] = 0
        out.append((side, made))
    said = {
        CLIENT: b"early data of the client\nbefore the update\nafter the update\nthe end\n",
        BROKER: b"answer one\nanswer two\nanswer three\n",
    }
    return TlsRecording(out, keys, said, name, None, True)


def refusing(flights: Flights, keys: bytes) -> Flights:
    """The recorded connection with EncryptedExtensions that do not accept early data, and no EndOfEarlyData."""
    secrets = {
        line.split()[0].decode(): bytes.fromhex(line.split()[2].decode()) for line in keys.splitlines()
    }
    chosen = suite(0x1301)
    assert chosen is not None

    def sealed(label: str, sequence: int, content: bytes) -> bytes:
        key = expand_label(chosen, secrets[label], "key", 16)
        iv = int.from_bytes(expand_label(chosen, secrets[label], "iv", 12), "big")
        header = struct.pack(">BHH", 23, 0x0303, len(content) + 17)
        return header + AESGCM(key).encrypt((iv ^ sequence).to_bytes(12, "big"), content + b"\x16", header)

    out: Flights = []
    handshake = 0
    for side, data in flights:
        made = b""
        for item in RecordReader().feed(data):
            assert isinstance(item, TlsRecord)
            record = item.header + bytes(item.payload)
            if item.kind == 23:
                label = f"{'CLIENT' if side is CLIENT else 'SERVER'}_HANDSHAKE_TRAFFIC_SECRET"
                early = tls13_cipher(chosen, secrets["CLIENT_EARLY_TRAFFIC_SECRET"])
                try:
                    _, content = tls13_cipher(chosen, secrets[label]).open(handshake, item)
                except Undecryptable:
                    handshake = 0
                    if side is CLIENT and opens(early, item) == 22:
                        continue  # EndOfEarlyData
                else:
                    handshake += 1
                    if content[0] == 8:
                        record = sealed(label, 0, b"\x08\0\0\x02\0\0")  # EncryptedExtensions without any
            made += record
        if made:
            out.append((side, made))
    return out


def opens(cipher: RecordCipher, record: TlsRecord) -> int:
    """The content type of a record among the first two of an epoch, 0 if it does not open."""
    for sequence in range(3):
        with contextlib.suppress(Undecryptable):
            return cipher.open(sequence, record)[0]
    return 0


def test_certificate_in_the_capture_is_the_one_made() -> None:
    (certificate,) = (body for kind, body in messages(simple(TLS12), BROKER) if kind == 11)
    assert certificate_der() in certificate
