from __future__ import annotations

import struct

import pytest

from dissectors.conversation import Limits, Side, State
from dissectors.conversation.foreign import Guess, guess_client, guess_server
from tests.dissectors.conversation.streams import Playbook, brief, frame, noise, request, response


def client_hello(server_name: bytes) -> bytes:
    """RFC 8446, section 4.1.2, with one cipher suite and the server_name extension (RFC 6066, section 3)."""
    names = struct.pack(">HBH", len(server_name) + 3, 0, len(server_name)) + server_name
    extensions = (
        struct.pack(">HHHH", 0xFF01, 1, 0, 0)[:4] + b"\x00" + struct.pack(">HH", 0, len(names)) + names
    )
    body = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00"
    body += struct.pack(">H", len(extensions)) + extensions
    hello = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + struct.pack(">H", len(hello)) + hello


CLIENTS = {
    # written by hand from the protocols' documents
    "TLS, ClientHello (SNI broker-1.example)": client_hello(b"broker-1.example"),
    "TLS, ClientHello": client_hello(b"\xff"),
    "HTTP, GET / HTTP/1.1": b"GET / HTTP/1.1\r\nHost: localhost:9092\r\n\r\n",
    "HTTP, POST /topics HTTP/1.1": b"POST /topics HTTP/1.1\r\n\r\n",
    "HTTP/2, connection preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "SSH, SSH-2.0-OpenSSH_9.0": b"SSH-2.0-OpenSSH_9.0\r\n",
    "ZooKeeper, four-letter command 'ruok'": b"ruok",
    "ZooKeeper, connect request, session timeout 30000 ms": frame(
        struct.pack(">iqiqi", 0, 0, 30_000, 0, 16) + bytes(17)
    ),
    "PostgreSQL, SSLRequest": bytes.fromhex("00000008 04d2162f"),
    "PostgreSQL, StartupMessage 3.0": bytes.fromhex("00000018 00030000") + b"user\0postgres\0\0",
    "Redis, RESP array": b"*1\r\n$4\r\nPING\r\n",
    "AMQP, protocol header": b"AMQP\x00\x00\x09\x01",
    "MQTT, CONNECT": b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04test",
    "MongoDB, OP_MSG": struct.pack("<iiii", 64, 1, 0, 2013) + bytes(48),
    "NATS, CONNECT {}": b"CONNECT {}\r\n",
    # Fetch of topic "events", partition 0, offset 0, maxSize 1 MiB (kafka-0.7.2, FetchRequest.scala)
    "Kafka 0.7, Fetch for topic events": frame(struct.pack(">hh6siqi", 1, 6, b"events", 0, 0, 1 << 20)),
}  # fmt: skip

SERVERS = {
    # a TLS server's answer to a Kafka frame (24_k430_plaintext_to_tls.pcap): alert unexpected_message
    "TLS, alert unexpected_message": bytes.fromhex("15 03 03 00 02 02 0a"),
    "HTTP, HTTP/1.1 400 Bad Request": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "SSH, SSH-2.0-OpenSSH_9.0": b"SSH-2.0-OpenSSH_9.0\r\n",
    "SMTP or FTP, 220 mail.example ESMTP": b"220 mail.example ESMTP\r\n",
    "MySQL, greeting, version 8.0.36": b"\x4a\x00\x00\x00\x0a8.0.36\x00" + bytes(60),
    "Redis, -ERR unknown command": b"-ERR unknown command\r\n",
}  # fmt: skip


@pytest.mark.parametrize(("guess", "data"), CLIENTS.items(), ids=list(CLIENTS))
def test_clients_that_speak_something_else(guess: str, data: bytes) -> None:
    play = Playbook().client(data)
    told = [brief(event) for event in play.conversation.events()]
    if not told:
        play.conversation.finish()
        told = [brief(event) for event in play.conversation.events()][:1]
    assert told == [f"foreign client 0: {guess}"]
    byte_by_byte = Playbook()
    for byte in data:
        byte_by_byte.client(bytes([byte]))
    byte_by_byte.conversation.finish()
    byte_by_byte.expect(f"foreign client 0: {guess}", "finished")


@pytest.mark.parametrize(("guess", "data"), SERVERS.items(), ids=list(SERVERS))
def test_servers_that_speak_something_else(guess: str, data: bytes) -> None:
    play = Playbook().client(request(1)).broker(data[:3]).broker(data[3:])
    play.conversation.finish()
    play.expect("seen 1", f"foreign broker 0: {guess}", "unanswered 1 (the capture ended)", "finished")


def test_a_server_that_speaks_first() -> None:
    Playbook().broker(b"SSH-2.0-OpenSSH_9.0\r\n").expect("foreign broker 0: SSH, SSH-2.0-OpenSSH_9.0")


def test_nothing_is_parsed_after_another_protocol() -> None:
    play = Playbook().client(b"GET / HTTP/1.1\r\n", request(1), request(2)).broker(response(1))
    play.conversation.gap(Side.CLIENT, 100, "lost")
    play.client(request(3), request(4))
    play.conversation.finish()
    play.expect("foreign client 0: HTTP, GET / HTTP/1.1", "finished")
    assert play.conversation.state(Side.BROKER) is State.CLOSED


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (
            b"PROXY TCP4 10.0.0.1 10.0.0.2 50000 9092\r\n",
            "v1 header: PROXY TCP4 10.0.0.1 10.0.0.2 50000 9092",
        ),
        # proxy-protocol.txt, section 2.2: version 2, PROXY, TCP over IPv4
        (
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\x0a\x00\x00\x01\x0a\x00\x00\x02\xc3\x50\x23\x84",
            "v2 header: PROXY 10.0.0.1:50000 10.0.0.2:9092",
        ),
        (b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00", "v2 header: LOCAL"),
        (
            b"\r\n\r\n\0\r\nQUIT\n\x21\x21\x00\x24"
            + bytes(15)
            + b"\x01"
            + bytes(15)
            + b"\x02\xc3\x50\x23\x84",
            f"v2 header: PROXY [{'0000:' * 7}0001]:50000 [{'0000:' * 7}0002]:9092",
        ),
    ],
)
def test_kafka_behind_a_proxy_header(header: bytes, text: str) -> None:
    play = Playbook()
    for byte in header + request(1):
        play.client(bytes([byte]))
    play.broker(response(1))
    play.expect(f"skipped client 0-{len(header)}: PROXY protocol {text}", "seen 1", "answered 1/1")


def test_bytes_that_nobody_knows() -> None:
    play = Playbook().client(b"\xff\xff\xff\xfbabc").expect()
    play.conversation.finish()
    evidence = "neither Kafka nor another known protocol: the connection starts with ff ff ff fb 61 62 63"
    play.expect(f"foreign client 0: unknown protocol, {evidence}", "finished")


def test_an_unknown_protocol_is_given_up_after_the_window() -> None:
    play = Playbook(limits=Limits(foreign_window=1000)).client(b"\xff" + noise(3000))
    assert play.conversation.state(Side.CLIENT) is State.FOREIGN
    play.client(request(1), request(2))
    [event] = play.conversation.events()
    assert brief(event).startswith("foreign client 0: unknown protocol")


def test_kafka_behind_garbage_at_the_start() -> None:
    play = Playbook().client(b"\0\0\0\0", request(1), request(2)).broker(response(1), response(2))
    lines = [brief(event) for event in play.conversation.events()]
    assert lines[0].startswith("skipped client 0-4: neither Kafka")
    assert lines[1:] == ["seen 1", "seen 2", "answered 1/1", "answered 2/2"]


def test_tls_mid_stream() -> None:
    record = b"\x17\x03\x03\x00\x20" + noise(32)
    play = Playbook(midstream=True).client(record * 2).broker(record)
    play.expect("foreign client 0: TLS, application data", "foreign broker 0: TLS, application data")


@pytest.mark.parametrize("guess", [guess_client, guess_server])
def test_kafka_frames_are_no_other_protocol(guess) -> None:  # type: ignore[no-untyped-def]  # two functions of one shape
    for data in (request(1), request(0, key=0, version=0, client_id=""), response(0), response(1, bytes(90))):
        for stop in range(8, len(data) + 1):
            assert not isinstance(guess(data[:stop], final=True), Guess)


def test_a_first_line_that_never_ends() -> None:
    assert isinstance(guess_client(b"GET /" + b"a" * 600), Guess)
    assert guess_client(b"GET /" + b"a" * 100) == 106
    assert guess_client(b"GET /a", final=True) == Guess("HTTP", "GET /a")
    assert guess_client(b"\x16\x03\x01\x02\x00\x01", final=True) == Guess("TLS", "handshake")
    assert guess_client(b"PROXY " + b"x" * 200) is None
