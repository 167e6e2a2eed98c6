"""Request logs whose addresses differ from the captured ones, as behind address translation or a load balancer."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest
import zstandard

from captures.exchanges import Capture, ExchangeReader, Flag, open_capture
from captures.exchanges.capture import FrameBytes
from captures.export.capture_file import CaptureFileWriter
from captures.export.selection import Selection
from captures.interventions import BrokerLog
from dissectors.budget import changed
from dissectors.sides import Side
from kproxy.text.summary import notes

DATA = Path(__file__).parents[2] / "data" / "request_log"

_LINE = (
    "[2026-11-27 16:57:{second:06.3f}] DEBUG Completed request:RequestHeader(apiKey=HEARTBEAT, apiVersion=0, "
    "clientId=c, correlationId={number}) -- {{group_id=g,generation_id=1,member_id={member}}},"
    "response:{{error_code=0}} "
    "from connection 10.0.0.1:9092-{client}-0;totalTime:1.0,requestQueueTime:0.0,localTime:{secret}.0,"
    "remoteTime:0.0,throttleTime:0.0,responseQueueTime:0.0,sendTime:0.0\n"
)


def _read(*paths: Path) -> Capture:
    capture = open_capture([str(path) for path in paths])
    capture.read()
    return capture


def _translated(path: Path, broker: str) -> Path:
    log = gzip.decompress((DATA / "kafka_4.3.0.log.gz").read_bytes()).decode()
    ports: dict[str, int] = {}
    path.write_text(
        re.sub(
            r"127\.0\.0\.1:33821-127\.0\.0\.1:(\d+)",
            lambda found: f"{broker}-10.9.9.9:{ports.setdefault(found[1], 20_000 + len(ports))}",
            log,
        )
    )
    return path


@pytest.mark.parametrize("broker", ["127.0.0.1:33821", "10.1.1.1:9092"])
def test_connections_are_matched_by_their_content(tmp_path: Path, broker: str) -> None:
    translated = _translated(tmp_path / "translated.log", broker)
    packets = DATA / "kafka_4.3.0.pcap.zst"
    truth = {
        (each.client, each.correlation_id): each.broker_log
        for each in ExchangeReader(_read(packets, DATA / "kafka_4.3.0.log.gz"), annotate=False)
    }
    capture = _read(packets, translated)
    captured = [
        each
        for each in ExchangeReader(capture, annotate=False)
        if each.broker_log is None or each.broker_log.captured
    ]
    matched = [each for each in captured if each.broker_log is not None]
    assert len(matched) == 130
    assert all(truth[each.client, each.correlation_id] == each.broker_log for each in matched)
    told = "\n".join(notes(capture))
    assert "10 connections of the broker's request log matched by the content" in told
    assert f"{len(captured) - 130} entries of the broker's request log not matched" in told


def test_requests_without_fields_do_not_prevent_a_match(tmp_path: Path) -> None:
    """A log that was switched on while requests waited has no fields of the first request of each connection."""
    translated = _translated(tmp_path / "translated.log", "10.1.1.1:9092")
    packets = DATA / "kafka_4.3.0.pcap.zst"
    whole = _read(packets, translated)
    lines, known = translated.read_text().splitlines(keepends=True), set[str]()
    for number, line in enumerate(lines):
        at, end = line.find("{"), line.rfind("}") + 1
        entry = json.loads(line[at:end])
        if entry["connection"] not in known:
            known.add(entry["connection"])
            lines[number] = (
                f"{line[:at]}{json.dumps(entry | {'request': ''}, separators=(',', ':'))}{line[end:]}"
            )
    translated.write_text("".join(lines))
    late = _read(packets, translated)
    assert whole.translated is not None
    assert late.translated is not None
    assert len(late.translated.ends) > 5
    assert late.translated.ends.items() <= whole.translated.ends.items()
    matched = set(late.translated.ends.values())
    assert _measured(whole, matched) == _measured(late, matched)


def test_a_log_may_begin_before_the_packets(tmp_path: Path) -> None:
    translated = _translated(tmp_path / "translated.log", "10.1.1.1:9092")
    data = zstandard.decompress((DATA / "kafka_4.3.0.pcap.zst").read_bytes())
    at, packets = 24, tmp_path / "late.pcap"
    for _ in range(300):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    packets.write_bytes(data[:24] + data[at:])
    truth = _read(packets, DATA / "kafka_4.3.0.log.gz")
    capture = _read(packets, translated)
    assert capture.translated is not None
    begun = _begun(truth).intersection(capture.translated.ends.values())
    assert len(begun) >= 2
    assert _measured(truth, begun) == _measured(capture, begun)


def _measured(capture: Capture, ends: set[tuple[str, str]]) -> list[BrokerLog]:
    """Return what the log has of the exchanges between some ends whose requests were captured."""
    exchanges = ExchangeReader(capture, annotate=False)
    logs = [
        each.broker_log
        for each in exchanges
        if (each.client, each.broker) in ends and Flag.REQUEST_LOGGED not in each.flag
    ]
    return [each for each in logs if each is not None and each.captured]


def _begun(capture: Capture) -> set[tuple[str, str]]:
    """Return the ends of connections that began before the packets."""
    syn = capture.connections.streams.syn_seen
    found = range(len(capture.connections))
    return {capture.endpoints(each) for each in found if not syn[capture.client_stream(each)]}


def test_entries_beyond_the_limit_are_matched_as_the_ones_before(tmp_path: Path) -> None:
    translated = _translated(tmp_path / "translated.log", "10.1.1.1:9092")
    packets = DATA / "kafka_4.3.0.pcap.zst"
    whole = _read(packets, translated)
    lines = translated.read_text().splitlines(keepends=True)
    with changed(log_waiting_bytes=120 * 4096):
        # released when a chunk of the log was read
        padding = "\n" * (1 << 18)
        translated.write_text("".join(lines[:150]) + padding + "".join(lines[150:]))
        cut = _read(packets, translated)
    assert whole.translated is not None
    assert cut.translated is not None
    assert 0 < len(cut.translated.ends) <= len(whole.translated.ends)
    matched = set(cut.translated.ends.values())
    assert _measured(whole, matched) == _measured(cut, matched)


@pytest.mark.parametrize("seed", range(12))
def test_look_alikes_are_never_confused(tmp_path: Path, seed: int) -> None:
    """Clients with the same ID send the same requests, some of them with a member ID of their own."""
    chance = random.Random(seed)
    clients = range(chance.randint(2, 6))
    own = [chance.random() < 0.5 for _ in clients]
    captured = [chance.random() < 0.8 for _ in clients]
    logged = [chance.random() < 0.8 for _ in clients]
    entries = [
        (10 + number + client * chance.choice([0.001, 0.3]), client, number)
        for client in clients
        for number in range(chance.randint(1, 6))
    ]

    def write(name: str, wanted: list[bool], address: str, ahead: float) -> Path:
        path = tmp_path / name
        path.write_text(
            "".join(
                _LINE.format(
                    second=second + ahead,
                    number=number,
                    member=f"m{client}" if own[client] else "",
                    client=f"{address}:{5000 + client}",
                    secret=client,
                )
                for second, client, number in sorted(entries)
                if wanted[client]
            )
        )
        return path

    alone = _read(write("captured.log", captured, "10.0.0.2", 0.0)) if any(captured) else None
    log = write("broker.log", logged, "10.7.7.7", chance.choice([0.0, 3.0]))
    if alone is None or not any(logged):
        return
    packets = tmp_path / "packets.pcapng"
    with packets.open("wb") as file:
        CaptureFileWriter(file).write(Selection(alone))
    capture = _read(packets, log)
    matched = 0
    for each in ExchangeReader(capture, annotate=False):
        if each.client.startswith("10.0.0.2") and each.broker_log is not None and each.broker_log.captured:
            client = int(each.client.rpartition(":")[2]) - 5000
            assert each.broker_log.local == client * 1_000_000
            matched += 1
    sent = [sum(client == each for _, each, _ in entries) for client in clients]
    sure = [own[each] and captured[each] and logged[each] and sent[each] >= 3 for each in clients]
    assert matched == sum(count for count, each in zip(sent, sure, strict=True) if each)


def test_each_frame_is_read_once_however_many_clients_are_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients, numbers = range(30), range(4)

    def write(name: str, address: str) -> Path:
        path = tmp_path / name
        lines = [
            _LINE.format(
                second=10 + number,
                number=number,
                member=f"m{each}",
                client=f"{address}:{5000 + each}",
                secret=1,
            )
            for number in numbers
            for each in clients
        ]
        path.write_text("".join(lines))
        return path

    packets = tmp_path / "packets.pcapng"
    with packets.open("wb") as file:
        CaptureFileWriter(file).write(Selection(_read(write("captured.log", "10.0.0.2"))))
    read = Counter[tuple[int, str, int]]()
    frame = Capture.frame

    def counted(capture: Capture, connection: int, side: Side, position: int, size: int) -> FrameBytes | None:
        read[connection, side, position] += 1
        return frame(capture, connection, side, position, size)

    monkeypatch.setattr(Capture, "frame", counted)
    capture = _read(packets, write("broker.log", "10.7.7.7"))
    assert capture.translated is not None
    assert len(capture.translated.ends) == len(clients)
    assert set(read.values()) == {1}
    assert len(read) == 2 * len(clients) * len(numbers)
