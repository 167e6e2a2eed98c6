"""``kproxy replay --serve`` with clients: a real one, and scripted frames.

``kafka_python.pcapng`` was recorded by ``kproxy proxy -w`` in front of Kafka 4.3.0: :func:`sent_and_received`.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer, KafkaProducer

from captures.exchanges import ExchangeReader, open_capture
from dissectors.frames import decode_response
from kproxy.cli.replay import replay
from kproxy.replay import server
from kproxy.replay.plan import recorded_nodes
from kproxy.replay.recorded_answers import RecordedAnswers
from kproxy.replay.server import RecordedCluster
from tests.kproxy.frames import request_frame
from tests.waiting import PATIENCE

RECORDED = Path(__file__).parents[2] / "data/replay/kafka_python.pcapng"
PRODUCE, FETCH, METADATA, HEARTBEAT, SASL_HANDSHAKE, API_VERSIONS = 0, 1, 3, 12, 17, 18
BEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}


class Running:
    """A recorded cluster in a thread."""

    def __init__(self, path: Path, host: str) -> None:
        capture = open_capture([str(path)])
        capture.read()
        reader = ExchangeReader(capture, annotate=False, summary=False)
        indexes = list(range(len(reader)))
        answers = RecordedAnswers(reader, recorded_nodes(reader.several(indexes)))
        for index, exchange in zip(indexes, reader.several(indexes), strict=True):
            answers.add(index, exchange)
        self.reports: list[str] = []
        self.faults = capture.faults
        self.listening = threading.Event()
        self.cluster = RecordedCluster(
            answers, reader.knowledge.topic_name, (host, 0), self._report, capture.faults
        )

    def _report(self, sentence: str) -> None:
        self.reports.append(sentence)
        self.listening.set()

    @property
    def address(self) -> str:
        return self.reports[0].removeprefix("listening on ")

    def connect(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=PATIENCE)


@contextmanager
def running(path: Path = RECORDED, host: str = "127.0.0.1") -> Iterator[Running]:
    """Serve a capture."""
    made, loop, ended = Running(path, host), asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=[made.cluster.run(ended)])
    thread.start()
    assert made.listening.wait(PATIENCE)
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(PATIENCE)
        loop.close()
    assert not made.faults


def sent_and_received(address: str) -> tuple[list[int], list[tuple[int, bytes, bytes]]]:
    """Run the recorded program; return the offsets of sent records, and the received records."""
    producer = KafkaProducer(bootstrap_servers=address, client_id="shop")
    sent = [producer.send("orders", key=b"%d" % n, value=b"book").get(10).offset for n in range(3)]
    producer.close()
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=address,
        client_id="billing",
        group_id="billing",
        auto_offset_reset="earliest",
    )
    received: list[Any] = []
    while len(received) < len(sent):
        received += [record for records in consumer.poll(1000).values() for record in records]
    consumer.close()
    return sent, [(record.offset, record.key, record.value) for record in received]


def test_the_recorded_client_gets_what_it_got() -> None:
    with running() as served:
        for _ in range(2):  # the second run uses the last recorded responses
            sent, received = sent_and_received(served.address)
            assert sent == [0, 1, 2]
            assert received == [(n, b"%d" % n, b"book") for n in range(3)]
    assert served.cluster.missing == 0
    assert served.cluster.answered > 20
    assert "broker 1, recorded at localhost:46419, is at 127.0.0.1:" in served.reports[1]


def exchanged(client: socket.socket, frame: bytes, key: int, version: int) -> dict[str, Any]:
    client.sendall(frame)
    with client.makefile("rb") as answers:
        payload = answers.read(int.from_bytes(answers.read(4)))
    value = decode_response(payload, key, version).value
    assert value is not None
    return value


def test_clients_get_the_address_to_which_they_connected() -> None:
    capture = open_capture([str(RECORDED)])
    capture.read()
    exchange = next(each for each in ExchangeReader(capture) if each.api_key == METADATA)
    assert exchange.request is not None
    version, value = exchange.request.version, exchange.request.value
    assert version is not None
    assert value is not None
    with running(host="0.0.0.0") as served, closing(served.connect()) as client:
        answer = exchanged(client, request_frame(METADATA, version, value), METADATA, version)
        reached = client.getpeername()[0]
    assert reached == "127.0.0.1"
    assert {broker["host"] for broker in answer["brokers"]} == {reached}


def test_a_request_that_was_not_recorded_gets_an_error_and_is_reported_once() -> None:
    with running() as served, closing(served.connect()) as client:
        for _ in range(2):
            answer = exchanged(client, request_frame(HEARTBEAT, 3, BEAT), HEARTBEAT, 3)
            assert answer["error_code"] == -1
    assert served.cluster.missing == 2
    assert len([each for each in served.reports if "not recorded: Heartbeat v3" in each]) == 1
    assert "sent by app at 127.0.0.1:" in served.reports[-1]


def test_a_version_of_api_versions_that_was_not_recorded_gets_error_35() -> None:
    frame = bytearray(
        request_frame(API_VERSIONS, 4, {"client_software_name": "x", "client_software_version": "1"})
    )
    frame[6:8] = (99).to_bytes(2)
    with running() as served, closing(served.connect()) as client:
        answer = exchanged(client, bytes(frame), API_VERSIONS, 0)
    assert answer["error_code"] == 35
    assert answer["api_keys"][0]["max_version"] == 5


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "it did not send a Kafka request"),
        (b"\0\0\0\x0a\x7f\xff\0\0\0\0\0\1\xff\xff", "not known here"),
        (b"\0\0\0\1x", "not known here"),
        (b"\0\0\0\x11\0\x11\0\7\0\0\0\1\xff\xff\0\5PLAIN", "not known here"),
        (b"\0\0\0\x0c\0\x0c\0\3\0\0\0\1\xff\xff\0\x09", "could not be read"),
    ],
)
def test_what_cannot_be_answered_ends_the_connection(sent: bytes, reason: str) -> None:
    with running() as served, closing(served.connect()) as client:
        client.sendall(sent)
        assert client.recv(1) == b""
    assert reason in served.reports[-1]


def test_idle_and_too_many_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 1)
    with running() as served, closing(served.connect()), closing(served.connect()) as second:
        assert second.recv(1) == b""
        with closing(served.connect()) as third:
            assert third.recv(1) == b""
    assert served.reports[1:] == ["1 connections are open: more are closed at once"]
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0.01)
    with running() as served, closing(served.connect()) as idle:
        assert idle.recv(1) == b""


def test_a_mechanism_that_needs_the_password_is_refused_and_reported() -> None:
    with running() as served, closing(served.connect()) as client:
        frame = request_frame(SASL_HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
        answer = exchanged(client, frame, SASL_HANDSHAKE, 1)
    assert (answer["error_code"], list(answer["mechanisms"])) == (33, ["PLAIN", "OAUTHBEARER"])
    assert (
        "SCRAM-SHA-256 cannot be served: use PLAIN or OAUTHBEARER, or no SASL, sent by app"
        in served.reports[-1]
    )


def test_a_produce_without_acknowledgment_gets_no_answer() -> None:
    body = {"acks": 0, "timeout_ms": 1, "topic_data": []}
    with running() as served, closing(served.connect()) as client:
        client.sendall(request_frame(PRODUCE, 7, body))
        assert exchanged(client, request_frame(HEARTBEAT, 3, BEAT), HEARTBEAT, 3)["error_code"] == -1
    assert served.cluster.missing == 1


# ---------------------------------------------------------------- the command
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "choose the cluster"),
        (["--serve", "127.0.0.1:0", "--yes"], "--serve sends nothing"),
        (["--serve", "127.0.0.1:0", "-b", "h:1"], "--serve sends nothing"),
    ],
)
def test_wrong_usage(arguments: list[str], reason: str) -> None:
    result = CliRunner().invoke(replay, [str(RECORDED), *arguments])
    assert result.exit_code == 2
    assert reason in result.stderr


def test_a_capture_without_responses_is_not_served() -> None:
    encrypted = RECORDED.parents[1] / "captures/tls_kafka_python_13.pcap"
    result = CliRunner().invoke(replay, [str(encrypted), "--serve", "127.0.0.1:0"])
    assert result.exit_code == 4
    assert "encrypted ones need --keylog" in result.stderr


def test_an_address_in_use_is_reported() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(replay, [str(RECORDED), "--serve", f"127.0.0.1:{port}"])
    assert result.exit_code == 1
    assert f"kproxy: --serve: 127.0.0.1:{port}: Address already in use" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("listen", "asked", "code"), [("127.0.0.1:0", False, 0), ("0", True, 3), (":0", False, 0)]
)
def test_the_command_serves_until_it_is_interrupted(listen: str, asked: bool, code: int) -> None:
    command = [sys.executable, "-m", "kproxy", "replay", str(RECORDED), "--serve", listen]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        host, _, port = (
            process.stderr.readline().removeprefix("kproxy: listening on ").strip().rpartition(":")
        )
        assert host == "127.0.0.1"
        if asked:
            with socket.create_connection((host, int(port)), timeout=PATIENCE) as client:
                exchanged(client, request_frame(HEARTBEAT, 3, BEAT), HEARTBEAT, 3)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == code
    assert f"0 requests answered as recorded, {int(asked)} not recorded" in rest
