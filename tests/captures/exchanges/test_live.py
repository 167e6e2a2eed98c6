"""Growing captures: complete exchanges come at once, and old ones can be forgotten."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.packets.table import RST
from tests.captures.exchanges.talk import Talk, packets
from tests.captures.packets.kit import Conversation, pcap
from tests.captures.recorded import CAPTURES, FOLDER
from tests.dissectors.conversation import streams

MS = 1_000_000
RECORDED = [str(FOLDER / name) for name in CAPTURES]

Seen = tuple[int, int, str, int | None, tuple[str, str], list[str]]


def seen(reader: ExchangeReader, capture: Capture, *, forget: bool = False) -> list[Seen]:
    """Every exchange as it arrives, with its bodies decoded, by connection and time."""
    found: list[Seen] = []
    for rows in capture.updates():
        for each in reader.take(rows.tolist()):
            assert each.number == len(found) + 1
            found.append(
                (each.connection, each.time, each.api, each.correlation_id, each.summary, flags(each.flags))
            )
        if forget:
            capture.forget(int(capture.connections.last_time.max()))
    return sorted(found, key=repr)


def flags(names: list[str]) -> list[str]:
    """All flags but NO_RESPONSE_EXPECTED: a live reader does not wait for a broker that answers anyway."""
    return [name for name in names if name != "no_response_expected"]


@pytest.mark.slow
@pytest.mark.parametrize("block_size", [1 << 12, 1 << 22])
@pytest.mark.parametrize("path", RECORDED)
def test_every_exchange_comes_once(path: str, block_size: int) -> None:
    whole, growing, short = open_capture(path), open_capture(path, block_size), open_capture(path, block_size)
    whole.read()
    reader = ExchangeReader(whole)
    expected = [
        (each.connection, each.time, each.api, each.correlation_id, each.summary, flags(each.flags))
        for each in reader
    ]
    assert seen(ExchangeReader(growing), growing) == sorted(expected, key=repr)
    assert seen(ExchangeReader(short), short, forget=True) == sorted(expected, key=repr)
    assert len(short.table) <= len(growing.table) or not len(growing.table)


def written(path: Path, talk: Talk, **handshake: bool) -> str:
    path.write_bytes(pcap(packets(talk, Random(1), **handshake), nano=True))
    return str(path)


def test_what_is_in_flight_is_not_forgotten(tmp_path: Path) -> None:
    talk = Talk(0)
    for correlation_id in range(400):
        talk.exchange(correlation_id)
    capture = open_capture(written(tmp_path / "talk.pcap", talk), 1 << 12)
    most = taken = 0
    for rows in capture.updates():
        taken += len(rows)
        capture.forget(1 << 62)
        most = max(most, len(capture.table))
        assert not np.any(capture.table.is_complete(np.arange(len(capture.table))))
    assert taken == 400
    assert most < 100


def test_a_token_without_an_answer(tmp_path: Path) -> None:
    """A broker that refuses raw SASL just closes: the token is reported once, and reading continues."""
    talk = Talk(0)
    talk.exchange(0, key=17, version=0, body=b"\0\x05PLAIN")
    records = packets(talk, Random(1))
    sent = sum(len(data) for asked, data in talk.messages if asked)
    refused = Conversation(client=("10.0.0.1", 40_000), now=records[-1].time)
    records.append(refused.send(sent, streams.frame(b"\0user\0secret")))
    records.append(refused.put(False, 0, 0, RST))
    other, position = Conversation(client=("10.0.0.1", 40_001), now=refused.now), 0
    for number in range(30):
        other.now += 100 * MS
        records.append(other.send(position, streams.request(number)))
        position += len(streams.request(number))
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap(list(records), nano=True))
    capture = open_capture(str(path), 512)
    apis = [each.api for rows in capture.updates() for each in ExchangeReader(capture, live=True).take(rows)]
    assert apis.count("SaslToken") == 1
    assert len(apis) == 32


@pytest.mark.parametrize("handshake", [True, False])
def test_a_connection_that_closes_owes_nothing(tmp_path: Path, handshake: bool) -> None:
    """Its unanswered request is reported a moment later, not at the end of the capture."""
    talk = Talk(0)
    for correlation_id in range(10):
        talk.exchange(correlation_id)
    talk.ask(10)
    records = packets(talk, Random(1), handshake=handshake)
    owing = Conversation(client=("10.0.0.1", 40_000), now=records[-1].time)
    records.append(owing.put(True, sum(len(data) for asked, data in talk.messages if asked), 0, RST))
    other, position = Conversation(client=("10.0.0.1", 40_001), now=owing.now), 0
    for number in range(30):
        other.now += 100 * MS
        records.append(other.send(position, streams.request(number)))
        position += len(streams.request(number))
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap(list(records), nano=True))
    capture = open_capture(str(path), 512)
    steps = [[int(capture.table.column("correlation_id")[row]) for row in rows] for rows in capture.updates()]
    assert [step for step in steps if step][-2:] == [[10], list(range(30))]
