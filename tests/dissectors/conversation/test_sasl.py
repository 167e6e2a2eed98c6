from __future__ import annotations

import pytest

from dissectors.conversation import Side, State
from dissectors.conversation.sasl import first_token, handshake_error, handshake_mechanism
from tests.dissectors.conversation.streams import SASL_HANDSHAKE, Playbook, brief, frame, request, response

# 34_k111_sasl_plain.pcap, 127.0.0.1:59724: kafka-clients 0.10.2.2 against Kafka 1.1.1, whole frames
HANDSHAKE = bytes.fromhex("0000001a00110000ffffffff00096a6176612d677a69700005504c41494e")
HANDSHAKE_ANSWER = bytes.fromhex("00000020ffffffff0000000000020005504c41494e000d534352414d2d5348412d323536")
PLAIN = bytes.fromhex("0000001300616c69636500616c6963652d736563726574")
PLAIN_ANSWER = bytes.fromhex("00000000")
API_VERSIONS = bytes.fromhex("00000013001200000000000000096a6176612d677a6970")
# the same connection's Metadata v2 request; answered here with the ID alone
METADATA = bytes.fromhex("0000001e000300020000000100096a6176612d677a69700000000100057361736c31")

# Error 33 (UNSUPPORTED_SASL_MECHANISM) and no mechanisms, SaslHandshakeResponse.json v0
REFUSED = b"\x00\x21\x00\x00\x00\x00"

#: GSS-API InitialContextToken of Kerberos 5: 60, DER length, OID 1.2.840.113554.1.2.2 (RFC 4121, section 4.1)
GSSAPI = bytes.fromhex("60820010 06092a864886f712010202 0100 6e82 00".replace(" ", ""))


def tokens(mechanism: str, *data: bytes) -> list[bytes]:
    return [frame(each) for each in data]


def test_plain_after_handshake_v0() -> None:
    play = Playbook().client(HANDSHAKE).broker(HANDSHAKE_ANSWER).client(PLAIN).broker(PLAIN_ANSWER)
    play.client(API_VERSIONS).broker(response(0)).client(METADATA).broker(response(1)).expect(
        "seen -1",
        "answered -1/-1",
        "token client 30-53 b'\\x00alice\\x00alice-secret' PLAIN",
        "token broker 36-40 b'' PLAIN",
        "seen 0",
        "answered 0/0",
        "seen 1",
        "answered 1/1",
    )


def test_the_order_of_the_two_sides_does_not_matter() -> None:
    sent = HANDSHAKE + PLAIN + API_VERSIONS + METADATA
    answers = HANDSHAKE_ANSWER + PLAIN_ANSWER + response(0) + response(1)
    play = Playbook().client(sent).broker(answers)
    assert [len(each.request.payload) for each in play.exchanges() if each.request] == [26, 19, 30]
    play = Playbook().broker(answers).client(sent)
    assert len([each for each in play.exchanges() if each.response]) == 3


def test_scram_takes_two_rounds() -> None:
    # RFC 7677, section 3
    first, second = (
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF",
    )
    reply, last = (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDp,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    )
    play = Playbook().client(handshake("SCRAM-SHA-256")).broker(response(0, b"\x00\x00\x00\x00\x00\x00"))
    play.client(frame(first)).broker(frame(reply)).client(frame(second)).broker(frame(last))
    play.client(request(1)).broker(response(1))
    lines = [event for event in play.conversation.events() if hasattr(event, "mechanism")]
    assert [line.data for line in lines] == [first, reply, second, last]
    assert {line.mechanism for line in lines} == {"SCRAM-SHA-256"}
    assert play.conversation.state(Side.BROKER) is State.FRAMES


def test_the_last_token_of_gssapi_is_not_answered() -> None:
    play = Playbook().client(handshake("GSSAPI")).broker(response(0, b"\x00\x00\x00\x00\x00\x00"))
    play.client(frame(GSSAPI)).broker(frame(b"\x60reply")).client(frame(b"")).broker(frame(b"\x05\x04layers"))
    play.client(frame(b"\x05\x04choice"), request(1)).broker(response(1))
    *_, seen, answered = play.conversation.events()
    assert not play.conversation._pairing.queue
    assert type(seen).__name__, type(answered).__name__ == ("RequestSeen", "Exchange")


def test_a_refused_handshake_leaves_frames() -> None:
    play = Playbook().client(HANDSHAKE).broker(response(-1, REFUSED)).client(METADATA).broker(response(1))
    play.expect("seen -1", "answered -1/-1", "seen 1", "answered 1/1")


def test_a_handshake_that_is_never_answered() -> None:
    play = Playbook().client(HANDSHAKE, METADATA)
    play.conversation.finish()
    play.expect(
        "seen -1",
        "seen 1",
        "unanswered -1 (the capture ended)",
        "unanswered 1 (the capture ended)",
        "finished",
    )


def test_a_wrong_password_just_closes() -> None:
    play = Playbook().client(HANDSHAKE).broker(HANDSHAKE_ANSWER).client(PLAIN)
    play.conversation.finish("the connection ended")
    play.expect(
        "seen -1", "answered -1/-1", "token client 30-53 b'\\x00alice\\x00alice-secret' PLAIN", "finished"
    )


def test_handshake_v1_and_reauthentication_are_ordinary_frames() -> None:
    # KIP-368: SaslHandshake and SaslAuthenticate between other requests
    play = Playbook().client(
        request(1), handshake("PLAIN", version=1, correlation_id=2), request(3, key=36, version=1)
    )
    play.broker(response(1), response(2, b"\x00\x00\x00\x00\x00\x00"), response(3)).client(request(4)).broker(
        response(4)
    )
    assert [each.outcome.value for each in play.exchanges()] == ["answered"] * 4


@pytest.mark.parametrize("size", [1, 1000])
def test_a_second_handshake_ends_the_tokens_of_the_first(size: int) -> None:
    play = Playbook().client(HANDSHAKE).broker(HANDSHAKE_ANSWER).client(PLAIN).broker(PLAIN_ANSWER)
    unasked = response(7, b"\x01\x00")  # waits for the client to tell what it is
    play.broker(unasked)
    again = handshake("PLAIN", correlation_id=1) + PLAIN
    for at in range(0, len(again), size):
        play.client(again[at : at + size])
    play.conversation.finish()
    told = [brief(event) for event in play.conversation.events()]
    assert told[-3:] == [
        "orphan response 7 (no request with this correlation ID was seen)",
        "unanswered 1 (the capture ended)",
        "finished",
    ]


@pytest.mark.parametrize(
    ("token", "mechanism"),
    [(GSSAPI, "GSSAPI"), (b"\0alice\0alice-secret", "PLAIN"), (b"a\0alice\0s", "PLAIN")],
)
def test_tokens_without_handshake_as_in_0_9(token: bytes, mechanism: str) -> None:
    play = Playbook()
    for byte in frame(token):
        play.client(bytes([byte]))
    play.broker(frame(b"")).client(request(1)).broker(response(1))
    stop = 4 + len(token)
    play.expect(
        f"token client 0-{stop} {token!r} {mechanism}",
        f"token broker 0-4 b'' {mechanism}",
        "seen 1",
        "answered 1/1",
    )


@pytest.mark.parametrize(
    "token",
    [b"hello", b"\x60\x02ab", b"\0\0\0\0", b"\0alice\0", b"\0al\x01ce\0secret", noise := b"\xff" * 20],
)
def test_other_bytes_are_no_first_token(token: bytes) -> None:
    assert first_token(frame(token), 0, 1000) is None


def test_a_token_size_that_cannot_be_loses_step_and_is_reported() -> None:
    play = (
        Playbook()
        .client(HANDSHAKE)
        .broker(HANDSHAKE_ANSWER)
        .client(b"\x7f\xff\xff\xff" + b"x" * 50, METADATA)
    )
    play.client(request(2)).broker(response(1), response(2))
    play.expect(
        "seen -1",
        "answered -1/-1",
        "skipped client 30-84: an impossible size of a SASL token",
        "seen 1",
        "seen 2",
        "answered 1/1",
        "answered 2/2",
    )


def test_reading_the_handshake() -> None:
    assert handshake_mechanism(HANDSHAKE[4:]) == "PLAIN"
    assert [handshake_mechanism(HANDSHAKE[4:stop]) for stop in range(4, 25)] == [""] * 21
    assert handshake_error(HANDSHAKE_ANSWER[4:]) == 0
    assert handshake_error(REFUSED[:1]) is None


def handshake(mechanism: str, *, version: int = 0, correlation_id: int = 0) -> bytes:
    name = mechanism.encode()
    return request(correlation_id, len(name).to_bytes(2, "big") + name, key=SASL_HANDSHAKE, version=version)
