"""Request logs from loggers and containers: layouts, wrappings, cut and mixed lines, growing files."""

from __future__ import annotations

import gzip
import io
import json
import re
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.packets.feeds import FileFeed
from captures.packets.files import find_files
from captures.packets.joined_reader import open_files
from captures.packets.spool import DEFAULT_SPOOL, Quota
from captures.request_log import packets
from captures.request_log.entries import Entry, entry_of
from captures.request_log.feed import RequestLogFeed
from captures.request_log.frames import Frames
from captures.request_log.lines import IncompleteEntry, Line, LogLineReader
from captures.request_log.packets import RequestLogPackets
from dissectors.budget import changed
from tests.waiting import wait_until

DATA = Path(__file__).parents[2] / "data" / "request_log"
_LINES = gzip.decompress((DATA / "kafka_4.3.0.log.gz").read_bytes()).splitlines()[60:90]
_PLAIN = b"".join(line + b"\n" for line in _LINES)
_NS = 1_795_479_922_880_000_000  # 2026-11-24T00:25:22.880Z


def _read(path: Path, log: bytes) -> Capture:
    path.write_bytes(log)
    capture = open_capture(str(path))
    capture.read()
    return capture


def _summaries(capture: Capture) -> list[tuple[str, int, tuple[str, str]]]:
    return [(each.api, each.time, each.summary) for each in ExchangeReader(capture)]


def _message(line: bytes) -> str:
    return line[line.index(b"Completed") : line.rindex(b" (kafka")].decode()


def _docker(lines: list[bytes]) -> bytes:
    """As Docker's json-file driver writes it, which cuts lines at 16 KiB; here sooner."""
    out = []
    for line in lines:
        text = line.decode() + "\n"
        for begin in range(0, len(text), 500):
            part = text[begin : begin + 500]
            out.append(json.dumps({"log": part, "stream": "stdout", "time": "2030-01-01T00:00:00.5Z"}))
    return "\n".join(out).encode() + b"\n"


def _kubernetes(lines: list[bytes]) -> bytes:
    """As the container runtime interface prescribes: P is a part of a line, F its last one."""
    out = []
    for line in lines:
        parts = [line[begin : begin + 500] for begin in range(0, len(line), 500)]
        for number, part in enumerate(parts, 1):
            mark = b"F" if number == len(parts) else b"P"
            out.append(b"2030-01-01T00:00:00.123456789Z stdout " + mark + b" " + part + b"\n")
    return b"".join(out)


def _json_layout(lines: list[bytes]) -> bytes:
    """Log4j 2's JsonTemplateLayout, as a 4.3.0 broker wrote it: time in UTC."""
    told = (
        {
            "@timestamp": line[1:24].decode().replace(" ", "T").replace(",", ".") + "Z",
            "message": _message(line),
        }
        for line in lines
    )
    return b"".join(json.dumps(each).encode() + b"\n" for each in told)


@pytest.mark.parametrize("wrapped", [_docker, _kubernetes, _json_layout])
def test_wrapped_lines_give_the_same_exchanges(
    wrapped: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    assert callable(wrapped)
    plain = _summaries(_read(tmp_path / "plain.log", _PLAIN))
    capture = _read(tmp_path / "wrapped.log", wrapped(_LINES))
    assert len(plain) == len(_LINES)
    assert _summaries(capture) == plain
    assert not capture.statistics.damage


@pytest.mark.parametrize(
    "begin",
    [
        b"[2026-11-24 00:25:22,880+0000] DEBUG ",
        b"2026-11-24T01:25:22.880+01:00 DEBUG kafka.request.logger - ",
        b"2026-11-24 00:25:22.880Z [data-plane-kafka-network-thread] DEBUG ",
        b'{"instant":{"epochSecond":1795479922,"nanoOfSecond":880000000},"message":"',
        b'{"timeMillis":1795479922880,"message":"',
    ],
)
def test_the_time_of_a_line_is_read_with_its_zone(begin: bytes) -> None:
    end = b'"}' if begin.startswith(b"{") else b""
    assert LogLineReader().read(begin + b"Completed request:{}" + end) == Line(_NS, b"{}")


def test_other_lines_are_passed_over_and_cut_ones_told() -> None:
    read = LogLineReader().read
    assert read(b"[2026-11-24 00:25:22,880] INFO started (kafka.server.KafkaServer)") is None
    assert isinstance(read(_LINES[0][-400:]), IncompleteEntry)


def test_lines_cut_and_mixed_are_counted_and_the_others_read(tmp_path: Path) -> None:
    mixed = _LINES[2][:300] + _LINES[3]
    log = b"\n".join([_LINES[0][-300:], _LINES[1], mixed, _LINES[4], _LINES[5][:-200]]) + b"\n"
    capture = _read(tmp_path / "cut.log", log)
    assert len(capture.table) == 2
    [damage] = capture.statistics.damage
    assert "line 1: the beginning is missing, and 2 more" in damage.reason


def test_an_entry_that_is_not_one_of_its_api_is_damage_and_no_fault(tmp_path: Path) -> None:
    log = _PLAIN + _LINES[0].replace(b'"request":{', b'"request":{"noSuchField":1,') + b"\n"
    capture = _read(tmp_path / "other.log", log)
    assert len(capture.table) == len(_LINES)
    assert "nosuchfield" in capture.statistics.damage[0].reason.lower()
    assert not capture.faults


@pytest.mark.parametrize("year", [b"2026", b"2030"], ids=["steady", "a clock that jumps ahead"])
def test_packets_do_not_depend_on_where_reads_end(year: bytes) -> None:
    log = _PLAIN + _LINES[0].replace(b"[2026", b"[" + year) + b"\n" + _PLAIN

    class Small(FileFeed):
        def read(self, size: int) -> bytes:
            return super().read(min(size, 777))

    whole, small = (RequestLogFeed({"": kind(io.BytesIO(log))}) for kind in (FileFeed, Small))
    assert b"".join(iter(partial(whole.read, 9999), b"")) == b"".join(iter(partial(small.read, 77), b""))


def test_connections_go_on_in_the_next_file_of_a_rotated_log(tmp_path: Path) -> None:
    whole = _read(tmp_path / "whole", _PLAIN)
    rotated = tmp_path / "rotated"
    rotated.mkdir()
    (rotated / "kafka-request.log").write_bytes(b"\n".join(_LINES[20:]))
    (rotated / "kafka-request.log.2026-11-24-00.gz").write_bytes(gzip.compress(b"\n".join(_LINES[:20])))
    capture = open_capture(str(rotated))
    capture.read()
    assert _summaries(capture) == _summaries(whole)
    assert len(capture.connections) == len(whole.connections)
    assert not capture.statistics.damage


def test_logs_of_several_brokers_are_one_capture(tmp_path: Path) -> None:
    whole = _read(tmp_path / "whole", _PLAIN)
    brokers = tmp_path / "brokers"
    brokers.mkdir()
    for number in (0, 1):
        (brokers / f"{number}.log").write_bytes(b"\n".join(_LINES[number::2]))
    capture = open_capture(str(brokers))
    capture.read()
    assert _summaries(capture) == _summaries(whole)


def test_logs_of_several_brokers_are_followed_although_one_of_them_is_silent(tmp_path: Path) -> None:
    logs = [tmp_path / "0.log", tmp_path / "1.log"]
    for log, line in zip(logs, _LINES, strict=False):
        log.write_bytes(line + b"\n")
    source = open_files([*map(str, logs)], follow=True)
    capture = Capture(source)
    thread = Thread(target=capture.read)
    thread.start()
    try:
        wait_until(lambda: len(capture.table) == 2)
        with logs[1].open("ab") as log:
            log.write(b"\n".join(_LINES[2:]) + b"\n")
        wait_until(lambda: len(capture.table) == len(_LINES))
    finally:
        source.stop()
        thread.join()
    assert sorted(_summaries(capture)) == sorted(_summaries(_read(tmp_path / "whole", _PLAIN)))


def test_requests_that_arrived_before_the_log_was_switched_on_are_no_damage(tmp_path: Path) -> None:
    """Brokers of 3.9.1 and 4.3.0 log no fields of the request that switches the log on, and of waiting Fetches."""
    early = re.sub(rb'"request":\{.*\},"response"', b'"request":"","response"', _LINES[0])
    assert early != _LINES[0]
    capture = _read(tmp_path / "log", b"\n".join([early, *_LINES[1:]]))
    assert len(capture.table) == len(_LINES) - 1
    assert not capture.statistics.damage


def test_damage_names_the_log(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(_PLAIN)
    (tmp_path / "b.log").write_bytes(_PLAIN + _LINES[0][:200] + b"\n")
    capture = open_capture(str(tmp_path))
    capture.read()
    [damage] = capture.statistics.damage
    assert damage.reason.startswith(
        f"entries of the request log {tmp_path / 'b.log'} that could not be read: line "
    )


def test_text_that_is_no_request_log_is_no_capture(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="not a capture file"):
        _read(tmp_path / "server.log", b"[2026-11-24 00:25:22,880] INFO started\n" * 9)


def test_a_log_beside_packets_that_are_followed_is_named_and_left_out() -> None:
    packets = DATA / "kafka_4.3.0.pcap.zst"
    found = find_files([str(DATA / "kafka_4.3.0.log.gz"), str(packets)], Quota(DEFAULT_SPOOL))
    (left_out,) = found.unreadable
    assert "read it by itself" in str(left_out)
    assert [file.path for file in found.files] == [str(packets)]


@pytest.mark.parametrize(
    "planted",
    [
        (b'"totalTimeMs":', b'"totalTimeMs":1e300,"x":'),
        (b'"sendTimeMs":', b'"sendTimeMs":"NaN","x":'),
        (b'"localTimeMs":', b'"localTimeMs":-1,"x":'),
        (b'"correlationId":', b'"correlationId":99999999999999999999,"x":'),
    ],
)
def test_numbers_that_cannot_be_are_damage_and_no_fault(tmp_path: Path, planted: tuple[bytes, bytes]) -> None:
    capture = _read(tmp_path / "log", b"\n".join([_LINES[0].replace(*planted), *_LINES[1:]]))
    assert len(capture.table) == len(_LINES) - 1
    assert "line 1: " in str(capture.statistics.damage)


@pytest.mark.parametrize(
    "time",
    [
        {"timeMillis": 1e300},
        {"time": -5},
        {"instant": {"epochSecond": 10**40}},
        {"instant": {"epochSecond": 5, "nanoOfSecond": [1]}},
        {"time": "2026-13-45 99:99:99"},
    ],
)
def test_times_that_cannot_be_are_damage_or_taken_as_they_are(
    tmp_path: Path, time: dict[str, object]
) -> None:
    line = json.dumps({**time, "message": _message(_LINES[0])}).encode()
    capture = _read(tmp_path / "log", b"\n".join([line, *_LINES[1:]]))
    assert len(capture.table) >= len(_LINES) - 1


def test_a_line_that_does_not_end_is_dropped_and_told(tmp_path: Path) -> None:
    endless = b"[Completed request:" + bytes(1 << 21).replace(b"\0", b"x")
    with changed(log_line_bytes=1 << 19):
        capture = _read(tmp_path / "log", b"\n".join([*_LINES, endless, *_LINES]))
    assert len(capture.table) == 2 * len(_LINES)
    told = f"line {len(_LINES) + 1}: it would go over the limit log_line_bytes (524,288 bytes)"
    assert told in str(capture.statistics.damage)


def test_a_line_whose_parts_do_not_end_is_dropped_and_told(tmp_path: Path) -> None:
    endless = _kubernetes([b"[Completed request:" + b"x" * 10_000]).replace(b" F ", b" P ")
    with changed(log_line_bytes=5_000):
        capture = _read(tmp_path / "log", endless + _kubernetes([b"other", *_LINES]))
    assert len(capture.table) == len(_LINES)
    assert "its parts would go over the limit log_line_bytes (5,000 bytes)" in str(capture.statistics.damage)


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        ((b'"topics":[', b'"topics":[null,'), "line 1: "),
        ((b'"topics":[', b'"topics":"abc","x":['), "line 1: "),
        ((b'"clientId":', b'"clientId":"' + b"a" * 40_000 + b'","x":'), "line 1: "),
        ((b'"principal":', b'"principal":"' + b"a" * 5_000 + b'","x":'), "line 1: "),
        ((b'"topics":[', b'"' + b"a" * 300 + b'":1,"topics":['), "over 200 characters"),
    ],
)
def test_values_of_another_type_are_damage_and_no_fault(
    tmp_path: Path, planted: tuple[bytes, bytes], told: str
) -> None:
    line = next(line for line in _LINES if planted[0] in line).replace(*planted)
    capture = _read(tmp_path / "log", b"\n".join([line, *_LINES]))
    assert len(capture.table) == len(_LINES)
    assert told in str(capture.statistics.damage)
    assert "fault" not in str(capture.statistics.damage)


@pytest.mark.parametrize(
    "connection",
    [
        "1:1-" * 50_000,
        "::" * 50_000,
        "1.2.3.999:9092-1.2.3.4:1-0",
        "10.0.0.1:99999-10.0.0.2:1-0",
        "%" * 90_000,
    ],
)
def test_a_connection_that_cannot_be_is_damage_and_takes_no_time(tmp_path: Path, connection: str) -> None:
    begin = _LINES[0].index(b'"connection":"') + len(b'"connection":"')
    end = _LINES[0].index(b'"', begin)
    line = _LINES[0][:begin] + connection.encode() + _LINES[0][end:]
    capture = _read(tmp_path / "log", b"\n".join([line, *_LINES[1:]]))
    assert len(capture.table) == len(_LINES) - 1
    assert "fault" not in str(capture.statistics.damage)


def test_a_line_is_unwrapped_a_few_times_only(tmp_path: Path) -> None:
    wrapped = b"2030-01-01T00:00:00.123456789Z stdout F " * 5_000 + _LINES[0]
    capture = _read(tmp_path / "log", b"\n".join([*_LINES, wrapped]))
    assert len(capture.table) == len(_LINES)
    assert f"line {len(_LINES) + 1}: it is wrapped over 3 times" in str(capture.statistics.damage)


def test_a_fault_in_one_line_is_told_and_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = packets.frames_of

    def failing(entry: Entry) -> Frames:
        if entry.request_header.correlation_id == 1:
            raise AssertionError("planted")
        return frames(entry)

    monkeypatch.setattr(packets, "frames_of", failing)
    failed = sum(b'"correlationId":1,' in line for line in _LINES)
    capture = _read(tmp_path / "log", _PLAIN)
    assert failed
    assert len(capture.table) == len(_LINES) - failed
    assert "an internal error in kproxy: AssertionError: planted" in str(capture.statistics.damage)


def test_no_more_waits_than_the_limit() -> None:
    def order(most: int) -> list[int]:
        with changed(log_waiting_bytes=most):
            made = RequestLogPackets()
            times, failures = list[int](), list[Exception]()
            for line in _LINES:
                found = LogLineReader().read(line)
                assert isinstance(found, Line)
                assert found.time is not None
                made.add(found.time, entry_of(found.text[: found.text.rfind(b"}") + 1]), failures.append)
                times += [packet.time for packet in made.ready(all_of_them=False)]
            assert not failures
            return times

    assert not order(1 << 20)
    assert len(order(2_000)) > len(_LINES)
