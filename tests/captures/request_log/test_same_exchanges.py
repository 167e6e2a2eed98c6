"""A broker's request log and the packets of the same time give the same exchanges.

``tests/data/request_log`` has both for brokers used by kafka-python 3.0.12: producers, a group with two members, a
transaction, errors. Times in the logs are in UTC. Brokers before 2.8 wrote text, at level TRACE.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import zstandard
from msgspec.structs import replace

from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.groups.history import GroupHistories
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.incidents.model import IncidentKind
from captures.analysis.round_trips import RoundTrips
from captures.analysis.time_shares import TimeShares
from captures.exchanges import NO_ANSWER_SEEN, Capture, Exchange, ExchangeReader, Flag, open_capture
from captures.exchanges.broker_logs import Lack
from captures.exchanges.columns import ExchangeColumns
from captures.export.capture_file import CaptureFileWriter
from captures.export.selection import Selection
from captures.filters import Filter
from captures.filters.table_columns import TableColumns
from captures.interventions import BrokerLog
from dissectors.api_keys import ApiKey
from dissectors.left_out import original_size
from kproxy.text.summary import notes

DATA = Path(__file__).parents[2] / "data" / "request_log"
_OTHERS = [pytest.param(release, marks=pytest.mark.slow) for release in ("2.8.2", "3.9.2")]
RELEASES = (*_OTHERS, "4.3.0")
TEXTS = ("2.7.2", *(pytest.param(release, marks=pytest.mark.slow) for release in ("1.1.1", "0.11.0.3")))
_KEY = tuple[str, str, int | None]


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


@cache
def _capture(name: str) -> Capture:
    capture = open_capture(str(DATA / name))
    capture.read()
    return capture


@cache
def _exchanges(name: str) -> dict[_KEY, Exchange]:
    return {_key(each): each for each in ExchangeReader(_capture(name), annotate=False)}


def _key(exchange: Exchange) -> _KEY:
    return exchange.client, exchange.broker, exchange.correlation_id


def _both(release: str) -> list[tuple[Exchange, Exchange]]:
    wire, log = _exchanges(f"kafka_{release}.pcap.zst"), _exchanges(f"kafka_{release}.log.gz")
    assert wire
    return [(each, log[key]) for key, each in wire.items()]


def _differences(wire: Any, log: Any, path: str) -> Iterator[str]:
    if isinstance(wire, dict) and isinstance(log, dict):
        for name in wire.keys() | log.keys():
            if name != "records":
                yield from _differences(wire.get(name), log.get(name), f"{path}.{name}")
    elif isinstance(wire, list | tuple) and isinstance(log, list | tuple) and len(wire) == len(log):
        for one, other in zip(wire, log, strict=True):
            yield from _differences(one, other, path)
    elif wire != log:
        yield path


def _is_refused(exchange: Exchange) -> bool:
    """Return whether a broker could not read an ApiVersions request, so that its log lacks its fields."""
    return exchange.api_key == ApiKey.API_VERSIONS and bool(exchange.errors)


@pytest.mark.parametrize("release", RELEASES)
def test_every_value_but_records_is_the_same(release: str) -> None:
    for wire, log in _both(release):
        assert (wire.api, wire.version, wire.client_id, wire.flag) == (
            log.api,
            log.version,
            log.client_id,
            log.flag,
        )
        assert [each.code for each in wire.errors] == [each.code for each in log.errors]
        for side in ("request", "response"):
            one, other = getattr(wire, side), getattr(log, side)
            if one is None or (side == "request" and _is_refused(wire)):
                assert (one is None) == (other is None)
                continue
            assert not list(_differences(one.value, other.value, f"{wire.api} {side}"))


def _sent(value: Any) -> Any:
    """Return a value in a form comparable with its text: bytes as their size, lists without their order."""
    if isinstance(value, dict):
        return {name: _sent(each) for name, each in value.items() if name != "transactional_id"}
    if isinstance(value, list | tuple):
        return sorted(map(_sent, value), key=repr)
    return original_size(value) if isinstance(value, bytes) else value


@pytest.mark.parametrize("release", TEXTS)
def test_text_has_every_value_but_the_content_of_bytes(release: str) -> None:
    for wire, log in _both(release):
        assert (wire.api, wire.version, wire.client_id) == (log.api, log.version, log.client_id)
        answered = wire.response is not None and not wire.flag & Flag.RESPONSE_DAMAGED
        for side in ("request", "response"):
            one, other = getattr(wire, side), getattr(log, side)
            if side == "request" and _is_refused(wire):
                continue
            if side == "response" and (not answered or release == "0.11.0.3"):
                assert other is not None or log.flag & (Flag.NOT_RECORDED | Flag.NO_RESPONSE_EXPECTED)
                continue
            if (
                release == "1.1.1" and wire.api == "Fetch" and side == "response"
            ):  # without the size of records
                assert not list(_differences(one.value, other.value, side))
                continue
            assert _sent(one.value) == _sent(other.value), f"{wire.api} {side}"


def test_text_has_the_same_rebalances() -> None:
    wire, log = (
        [(each.trigger, each.generation) for group in groups for each in group.rebalances]
        for groups in (_groups("kafka_2.7.2.pcap.zst"), _groups("kafka_2.7.2.log.gz"))
    )
    assert wire == log
    assert len(log) > 2


def _groups(name: str) -> list[GroupTimeline]:
    return _groups_of(_capture(name))


def _groups_of(capture: Capture) -> list[GroupTimeline]:
    reader = ExchangeReader(capture)
    groups = GroupHistories(reader.knowledge.topic_name, capture)
    for exchange in reader:
        groups.add(exchange)
    return groups.result()


@pytest.mark.parametrize("release", RELEASES)
def test_sizes_are_those_on_the_wire(release: str) -> None:
    for wire, log in _both(release):
        assert log.response_size == wire.response_size
        assert log.request_size == wire.request_size or _is_refused(wire)


@pytest.mark.parametrize("release", RELEASES)
def test_latencies_are_those_at_the_broker(release: str) -> None:
    for wire, log in _both(release):
        if wire.latency is not None:
            assert log.latency is not None
            assert 0 <= log.latency <= wire.latency
            assert (
                abs(log.time - wire.time) < 300_000_000
            )  # a broker that starts reads its first requests late


def test_an_entry_tells_where_the_time_went() -> None:
    log = _exchanges("kafka_4.3.0.log.gz")
    joins = [each.broker_log for each in log.values() if each.api_key == ApiKey.JOIN_GROUP]
    slowest = max((each for each in joins if each is not None), key=lambda each: each.remote)
    assert slowest.remote > 150_000_000  # the group waits for its other member
    assert slowest == BrokerLog(
        **{name: getattr(slowest, name) for name in BrokerLog.__struct_fields__}
        | {"listener": "PLAINTEXT", "principal": "User:ANONYMOUS"}
    )


@pytest.mark.parametrize("name", ["queue", "local", "remote", "throttle", "response_queue", "send"])
def test_filters_on_what_the_broker_measured_agree_with_the_entries(name: str) -> None:
    capture = _capture("kafka_4.3.0.log.gz")
    log = list(ExchangeReader(capture, annotate=False))
    told = "request_queue" if name == "queue" else name
    filter_ = Filter(f"broker.{name} > 1ms")
    mask = filter_.mask(TableColumns.of(capture))
    found = {each.row for each in log if getattr(each.broker_log, told) > 1_000_000}
    assert set(np.flatnonzero(mask[0]).tolist()) == found
    assert {each.row for each in log if filter_.match(each)} == found


@pytest.mark.slow
@pytest.mark.parametrize("release", ["2.8.2", "3.9.2", "4.3.0"])
def test_groups_have_the_same_rebalances(release: str) -> None:
    told = []
    for name in (f"kafka_{release}.pcap.zst", f"kafka_{release}.log.gz"):
        capture = _capture(name)
        reader = ExchangeReader(capture)
        diagnosis = Diagnosis(capture, reader.knowledge.topic_name)
        for exchange in reader:
            diagnosis.add(exchange)
        found = {finding.rule for finding in diagnosis.findings()}
        told.append(
            (
                [
                    (each.trigger, each.generation)
                    for group in diagnosis.groups.result()
                    for each in group.rebalances
                ],
                found,
                [each.kind for each in diagnosis.incidents],
            )
        )
    (rebalances, rules, incidents), of_log = told
    # the broker asked its controller to shut down at the end, on a port that only its own log covers
    assert of_log == (rebalances, rules, [*incidents, IncidentKind.BROKER_OUTAGE])
    assert rebalances


@pytest.mark.parametrize("release", ["2.7.2", pytest.param("4.3.0", marks=pytest.mark.slow)])
def test_packets_and_log_together_are_one_set_of_exchanges(release: str) -> None:
    names = f"kafka_{release}.pcap.zst", f"kafka_{release}.log.gz"
    wire, log = map(_exchanges, names)
    capture = open_capture([str(DATA / name) for name in names])
    [rows] = list(capture.updates())
    both = {_key(each): each for each in ExchangeReader(capture, annotate=False)}
    assert len(rows) == len(_capture(names[1]).table)
    assert both.keys() == wire.keys() | log.keys()
    assert capture.notes.broker_logs.captured == len(wire)
    assert not capture.notes.broker_logs.lacks
    for key, each in both.items():
        alone = wire.get(key) or log[key]
        for name in ("time", "latency", "request_size", "response_size", "flag", "api", "version"):
            assert getattr(each, name) == getattr(alone, name)
        logged = log[key].broker_log
        assert logged is not None
        if key in wire:
            assert [each.request and each.request.value, each.response and each.response.value] == [
                alone.request and alone.request.value,
                alone.response and alone.response.value,
            ]
            logged = replace(logged, request_left_out=0, response_left_out=0, captured=True)
        assert each.broker_log == logged


@pytest.mark.parametrize("piped", ["pcap", "log"])
def test_either_may_come_from_a_pipe(piped: str, tmp_path: Path) -> None:
    contents = {
        "pcap": zstandard.decompress((DATA / "kafka_2.7.2.pcap.zst").read_bytes()),
        "log": gzip.decompress((DATA / "kafka_2.7.2.log.gz").read_bytes()),
    }
    paths = {kind: tmp_path / kind for kind in contents}
    for kind, path in paths.items():
        os.mkfifo(path) if kind == piped else path.write_bytes(contents[kind])
    writer = Thread(target=lambda: paths[piped].write_bytes(contents[piped]))
    writer.start()
    capture = open_capture([str(path) for path in paths.values()])
    capture.read()
    writer.join()
    assert capture.notes.broker_logs.captured == len(_exchanges("kafka_2.7.2.pcap.zst"))
    assert len(capture.table) == len(_exchanges("kafka_2.7.2.log.gz"))


def test_measurements_are_exported_with_the_packets(tmp_path: Path) -> None:
    both = open_capture([str(DATA / f"kafka_2.7.2.{kind}") for kind in ("pcap.zst", "log.gz")])
    both.read()
    exported = tmp_path / "both.pcapng"
    with exported.open("wb") as file:
        CaptureFileWriter(file).write(Selection(both))
    again = open_capture(str(exported))
    again.read()
    logs = [
        [each.broker_log for each in ExchangeReader(capture, annotate=False)] for capture in (both, again)
    ]
    assert logs[0] == logs[1]


def _packets(name: str) -> tuple[bytes, list[bytes]]:
    """Return the header of a capture and its packets, with their headers."""
    data = zstandard.decompress((DATA / name).read_bytes())
    found, at = [], 24
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        found.append(data[at:end])
        at = end
    return data[:24], found


def _later_packets(path: Path) -> Path:
    header, packets = _packets("kafka_2.7.2.pcap.zst")
    path.write_bytes(header + b"".join(packets[-264:]))
    return path


def _payload_of_broker(packet: bytes) -> bool | None:
    """Return whether the broker of kafka_2.7.2 sent a packet; None if it has no payload."""
    ip = packet[16 + 14 :]
    header = (ip[0] & 15) * 4
    size = int.from_bytes(ip[2:4], "big") - header - (ip[header + 12] >> 4) * 4
    return int.from_bytes(ip[header : header + 2], "big") == 37397 if size else None


def _incomplete(kind: str, path: Path) -> Path:
    """Write the packets of one direction, or all but some of the broker's."""
    header, packets = _packets("kafka_2.7.2.pcap.zst")
    sent = [_payload_of_broker(each) for each in packets]
    wanted = {
        "requests": lambda at: sent[at] is not True,
        "responses": lambda at: sent[at] is not False,
        "lossy": lambda at: not (sent[at] and at % 7 == 3),
    }[kind]
    path.write_bytes(header + b"".join(each for at, each in enumerate(packets) if wanted(at)))
    return path


@pytest.mark.parametrize("kind", ["requests", "responses", "lossy"])
def test_what_the_packets_lack_comes_from_the_log(kind: str, tmp_path: Path) -> None:
    packets = _incomplete(kind, tmp_path / "incomplete.pcap")
    capture = open_capture([str(packets), str(DATA / "kafka_2.7.2.log.gz")])
    capture.read()
    log, wire, completed = _exchanges("kafka_2.7.2.log.gz"), _exchanges("kafka_2.7.2.pcap.zst"), 0
    found = {_key(each): each for each in ExchangeReader(capture, annotate=False)}
    assert found.keys() == log.keys()
    for key, each in found.items():
        if each.flag & (Flag.RESPONSE_LOGGED | Flag.REQUEST_LOGGED):
            completed += 1
            side = "response" if Flag.RESPONSE_LOGGED in each.flag else "request"
            assert getattr(each, side).value == getattr(log[key], side).value
            assert (each.api, each.version, each.client_id) == (
                log[key].api,
                log[key].version,
                log[key].client_id,
            )
            seen = wire[key].latency
            assert each.latency is not None
            assert kind == "lossy" or seen is None or each.latency <= seen + 2_000_000
            assert each.latency + 2_000_000 >= (log[key].latency or 0)
    assert completed >= {"requests": 160, "responses": 160, "lossy": 10}[kind]
    # two connections were reset in the middle of their last responses
    unseen = [each for each in found.values() if each.flag & (NO_ANSWER_SEEN | Flag.ORPHAN)]
    assert len(unseen) <= 2
    assert f"{completed} of them lack a request or response" in "".join(notes(capture))
    diagnosis = Diagnosis(capture, lambda _: None)
    for each in ExchangeReader(capture):
        diagnosis.add(each)
    assert "unanswered_requests" not in {finding.rule for finding in diagnosis.findings()}


def test_completed_exchanges_are_exported_as_such(tmp_path: Path) -> None:
    packets = _incomplete("requests", tmp_path / "incomplete.pcap")
    capture = open_capture([str(packets), str(DATA / "kafka_2.7.2.log.gz")])
    capture.read()
    exported = tmp_path / "exported.pcapng"
    with exported.open("wb") as file:
        CaptureFileWriter(file).write(Selection(capture))
    again = open_capture(str(exported))
    again.read()
    found = [
        [(each.flag, each.broker_log, each.summary) for each in ExchangeReader(each)]
        for each in (capture, again)
    ]
    assert found[0] == found[1]


@pytest.fixture
def late(tmp_path: Path) -> Capture:
    """A capture that begins while both members of the group fetch, and the log of the whole time."""
    packets = _later_packets(tmp_path / "late.pcap")
    capture = open_capture([str(packets), str(DATA / "kafka_2.7.2.log.gz")])
    capture.read()
    return capture


def test_exchanges_that_the_packets_lack_are_among_theirs_by_time(late: Capture) -> None:
    found = [each for each in ExchangeReader(late, annotate=False) if each.request_size]
    times = [each.time for each in found]
    assert times == sorted(times)
    assert {_key(each) for each in found} == _exchanges("kafka_2.7.2.log.gz").keys()
    captured = late.notes.broker_logs.captured
    assert 0 < captured < len(found)
    assert np.count_nonzero(late.table.only_logged()) == len(found) - captured
    assert late.notes.broker_logs.lacks == {Lack.RECORDS}


def test_groups_do_not_guess_what_text_left_out_before_the_packets_begin(late: Capture) -> None:
    [billing] = [each for each in _groups_of(late) if each.group == "billing"]
    first, second, third, _ = billing.rebalances
    assert not any((first.assigned, first.moved, second.assigned, second.moved))
    assert [(move.tp.partition, move.before) for move in third.moved] == [(0, None), (1, None)]
    assert not third.stopped  # the fetch sessions in the log go on in the packets


def test_connections_of_a_log_have_no_round_trip(late: Capture) -> None:
    trips = RoundTrips(late)
    connections = late.table.column("connection")
    logged = set(connections[late.table.only_logged()].tolist())
    trips.look_at_acknowledgments(range(len(late.connections)))
    assert {trips.of(each) for each in logged} == {None}
    assert any(trips.of(each) is not None for each in set(connections.tolist()) - logged)


def test_entries_with_one_correlation_id_belong_to_the_nearest_requests(tmp_path: Path) -> None:
    line = (
        "[2026-11-27 16:57:1{},000] DEBUG Completed request:RequestHeader(apiKey=HEARTBEAT, apiVersion=0, "
        "clientId=c, correlationId=5) -- {{group_id=g,generation_id=1,member_id=m}},response:{{error_code=0}} "
        "from connection 10.0.0.1:9092-10.0.0.2:5000-0;totalTime:1{}.0,requestQueueTime:0.0,localTime:{}.0,"
        "remoteTime:0.0,throttleTime:0.0,responseQueueTime:0.0,sendTime:0.0\n"
    )
    log, packets = tmp_path / "requests.log", tmp_path / "packets.pcapng"
    log.write_text("".join(line.format(each, each, each) for each in range(10)))
    alone = open_capture(str(log))
    alone.read()
    with packets.open("wb") as file:
        CaptureFileWriter(file).write(Selection(alone))
    capture = open_capture([str(packets), str(log)])
    capture.read()
    found = [each.broker_log for each in ExchangeReader(capture, annotate=False)]
    assert [each and (each.captured, each.local) for each in found] == [
        (True, each * 1_000_000) for each in range(10)
    ]
    assert "10 captured exchanges, and 0 exchanges" in "".join(notes(capture))


def test_rules_that_need_records_say_that_they_are_blind() -> None:
    capture = _capture("kafka_4.3.0.log.gz")
    diagnosis = Diagnosis(capture, lambda _: None)
    blind = {each.rule.name: each.why for each in diagnosis.blind()}
    assert "not the records" in blind["crc_failures"]
    assert "finished" in blind["unanswered_requests"]


def test_the_time_of_captured_exchanges_is_split_by_the_brokers_measurements() -> None:
    wire, log = (DATA / f"kafka_4.3.0.{kind}" for kind in ("pcap.zst", "log.gz"))
    capture = open_capture([str(wire), str(log)])
    capture.read()
    reader = ExchangeReader(capture)
    shares = TimeShares(capture, lambda _: None)
    shares.add_columns(ExchangeColumns(capture, reader.rows), reader, np.arange(len(reader)))
    found = {row.api: row for row in shares.result()}
    both = [each for each in reader if each.api == "Metadata"]
    outside = [
        each.latency - sum(getattr(each.broker_log, name) for name in BrokerLog.TIMES if name != "send")
        for each in both
    ]
    metadata = found["Metadata"]
    assert metadata.network is not None
    assert metadata.network.total == sum(max(each, 0) for each in outside)
    assert metadata.broker is not None
    assert metadata.broker.total + metadata.network.total == sum(each.latency for each in both)
    assert metadata.in_broker["local"].total == sum(each.broker_log.local for each in both)
    assert found["BrokerHeartbeat"].network is None  # of a connection that only the log has


@pytest.mark.parametrize("sending", [0, 10**12])
def test_findings_of_slow_answers_name_the_part_of_the_broker(sending: int) -> None:
    """The latency ends where sending begins."""
    capture = _capture("kafka_4.3.0.log.gz")
    limits = {"slow_broker.latency": 10.0, "slow_broker.answers": 1.0}
    diagnosis = Diagnosis(capture, lambda _: None, limits=limits)
    for each in ExchangeReader(capture):
        assert each.broker_log is not None
        each.broker_log = replace(each.broker_log, send=sending)
        diagnosis.add(each)
    [found] = [each for each in diagnosis.findings() if each.subject.endswith(", BrokerRegistration")]
    assert "the largest part of it is remote (waiting for others), 201.1 ms on average" in found.sentence
    assert "controller" in found.advice
