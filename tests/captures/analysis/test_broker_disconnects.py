"""Why brokers closed connections."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from captures.analysis.broker_disconnects import BrokerDisconnect, BrokerDisconnects, Reason
from captures.exchanges import Capture, ExchangeReader
from captures.packets import ACK, FIN, RST, SYN
from tests.captures.exchanges.talk import capture_of
from tests.captures.packets.kit import MS, Conversation
from tests.dissectors.conversation import streams

VERSIONS = streams.request(1, b"", key=18, version=0, client_id="app")
#: ApiVersions v0: no error; Produce 3-9, Metadata 0-12
OFFERED = streams.response(1, b"\0\0" + b"\0\0\0\2" + struct.pack(">6h", 0, 3, 9, 3, 0, 12))


def talk(
    *requests: bytes, answered: int = 0, quiet: int = 1, end: int = FIN, port: int | None = None
) -> Conversation:
    """A connection: ApiVersions, then several requests of which the first are answered, then the broker closes it."""
    made = Conversation() if port is None else Conversation(client=("10.0.0.1", port))
    made.handshake()
    made.send(0, VERSIONS)
    made.send(0, OFFERED, ack=len(VERSIONS), from_client=False)
    sent, received = len(VERSIONS), len(OFFERED)
    for number, request in enumerate(requests):
        made.send(sent, request, ack=received)
        sent += len(request)
        if number < answered:
            response = streams.response(2 + number, b"\0\0\0\0" + b"\0\0\0\1" + b"\0\0\0\0")
            made.send(received, response, ack=sent, from_client=False)
            received += len(response)
    made.now += quiet * MS
    made.put(False, received, sent, end | ACK)
    return made


def asked(number: int = 2, *, key: int = 3, version: int = 1, body: bytes = b"\0\0\0\0") -> bytes:
    return streams.request(number, body, key=key, version=version, client_id="app")


def closings(capture: Capture) -> list[BrokerDisconnect]:
    found = BrokerDisconnects(capture)
    for exchange in ExchangeReader(capture, annotate=False, summary=False):
        found.add(exchange)
    return found.result()


def reason(folder: Path, *conversations: Conversation) -> Reason:
    records = [record for each in conversations for record in each.records]
    return closings(capture_of(folder, sorted(records, key=lambda record: record.time)))[0].reason


def huge(size: int) -> bytes:
    """The beginning of a Produce v9 with this many bytes."""
    return struct.pack(">ihhih", size, 0, 9, 2, 3) + b"app" + b"\0" + b"\0\0\xff\xff" + bytes(1_000)


@pytest.mark.parametrize(
    ("conversation", "expected"),
    [
        (talk(), Reason.ANSWERED),
        (talk(quiet=8_000), Reason.IDLE),
        (talk(asked(), asked(3), answered=1), Reason.UNANSWERED),
        (talk(asked()), Reason.NOT_AUTHENTICATED),
        (talk(asked(), quiet=5_000), Reason.UNANSWERED),  # brokers do not take that long
        (talk(asked(version=13)), Reason.UNSUPPORTED_VERSION),
        (talk(asked(key=60, version=0)), Reason.UNSUPPORTED_VERSION),
        (talk(huge(120 << 20), end=RST), Reason.TOO_LARGE),
        (talk(huge(1 << 20), end=RST), Reason.TOO_LARGE),
        (talk(streams.produce(2, 0, version=9)), Reason.ACKS_0),
    ],
)
def test_reasons(tmp_path: Path, conversation: Conversation, expected: Reason) -> None:
    assert reason(tmp_path, conversation) == expected


def test_a_broker_that_refuses_connections_after_that_has_stopped(tmp_path: Path) -> None:
    again = Conversation(client=("10.0.0.1", 41_000))
    again.now += 3_000 * MS
    again.put(True, -1, 0, SYN)
    again.put(False, 0, 0, RST | ACK)
    assert reason(tmp_path, talk(asked(), asked(3), answered=1), again) == Reason.STOPPED
    assert reason(tmp_path, talk(quiet=8_000), again) == Reason.IDLE  # it was refused before


def test_what_is_answered_before_authentication_is_no_sign_of_it(tmp_path: Path) -> None:
    again = streams.request(2, b"", key=18, version=0, client_id="app")
    assert reason(tmp_path, talk(again)) == Reason.UNANSWERED


def test_a_listener_that_works_without_sasl_does_not_want_it(tmp_path: Path) -> None:
    handshake = streams.request(2, b"\0\5PLAIN", key=17, version=1, client_id="app")
    tries = talk(handshake, port=41_000)
    assert reason(tmp_path, talk(asked()), tries) == Reason.NOT_AUTHENTICATED
    assert reason(tmp_path, talk(asked()), tries, talk(asked(), answered=1, port=42_000)) == Reason.UNANSWERED


def test_a_restart_ends_connections_with_acks_0_too(tmp_path: Path) -> None:
    """Connections without unanswered requests end at the same time: it is not an error of the Produce."""
    failed = talk(streams.produce(2, 0, version=9))
    others = [talk(asked(), answered=1, port=41_000 + each) for each in range(2)]
    assert reason(tmp_path, failed, others[0]) == Reason.ACKS_0
    assert reason(tmp_path, failed, *others) == Reason.ANSWERED
    later = [talk(asked(), answered=1, quiet=5_000, port=42_000 + each) for each in range(2)]
    assert reason(tmp_path, failed, *later) == Reason.ACKS_0


def test_api_versions_without_an_answer(tmp_path: Path) -> None:
    made = Conversation(client=("10.0.0.1", 41_000))
    made.now += 5_000 * MS
    made.handshake()
    made.send(0, VERSIONS)
    made.put(False, 0, len(VERSIONS), FIN | ACK)
    assert reason(tmp_path, made) == Reason.UNSUPPORTED_VERSION
    # a broker that has answered the request before has another reason
    before = talk(asked(), answered=1)
    del before.records[-1]
    assert reason(tmp_path, before, made) == Reason.UNANSWERED


def test_what_clients_end_is_left_out(tmp_path: Path) -> None:
    made = talk()
    del made.records[-1]
    made.put(True, len(VERSIONS), len(OFFERED), FIN | ACK)
    made.put(False, len(OFFERED), len(VERSIONS) + 1, FIN | ACK)
    assert closings(capture_of(tmp_path, made.records)) == []


def test_the_first_request_without_an_answer_is_the_one(tmp_path: Path) -> None:
    (closing,) = closings(
        capture_of(tmp_path, talk(asked(), asked(3), asked(4), answered=1, quiet=20).records)
    )
    assert closing.request is not None
    assert (closing.request.number, closing.request.api, closing.request.version) == (3, "Metadata", 1)
    assert (closing.client, closing.broker, closing.quiet // MS) == ("app", "10.0.0.2:9092", 21)
