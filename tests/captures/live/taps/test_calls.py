"""Lines of bpftrace as packets: recorded for kcat (``python -m tests.lanes.taps --record kcat``), and synthetic."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import pytest

from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.export.pcapng_writer import Packet as Written
from captures.export.pcapng_writer import PcapngWriter
from captures.export.segments import ACK, FIN, PSH, SYN
from captures.live.taps.calls import TlsCalls
from captures.packets.tls import KeyLog
from tests.lanes.taps import DATA, difference, exchanges

FAR = 1 << 62
NO_V6 = " 0" * 8


def printed(name: str = "kcat") -> list[str]:
    return gzip.decompress((DATA / f"taps_{name}_13.txt.gz").read_bytes()).decode().splitlines()


def captured(lines: Iterable[str], path: Path) -> TlsCalls:
    """Write the packets of lines to a file."""
    calls = TlsCalls()
    calls.feed(lines)
    calls.feed(["b 0 0", f"b 0 {FAR}", f"b 0 {FAR}"])
    with path.open("wb") as file:
        writer = PcapngWriter(file)
        interface = writer.interface()
        writer.write_packets(Written(interface, *each) for each in calls.packets())
    return calls


def words(data: bytes) -> str:
    return " ".join(f"{int.from_bytes(data[at : at + 8], 'little'):x}" for at in range(0, len(data), 8))


def opened(path: Path) -> Capture:
    capture = open_capture(str(path))
    capture.read()
    return capture


def frames(path: Path) -> list[bytes]:
    """Return the requests and responses of a capture, one after the other."""
    return [
        frame.raw for each in ExchangeReader(opened(path)) for frame in (each.request, each.response) if frame
    ]


@pytest.mark.parametrize("name", ["kcat", "aiokafka", "kafkajs"])
def test_calls_have_the_exchanges_that_packets_have(name: str, tmp_path: Path) -> None:
    captured(printed(name), tmp_path / "calls.pcapng")
    keys = KeyLog(DATA / f"taps_{name}_13.keys")
    there = exchanges(DATA / f"taps_{name}_13.pcap", keys)
    assert len(there) > 10
    assert difference(there, exchanges(tmp_path / "calls.pcapng", None)) == ""


def test_cpus_that_are_read_one_after_the_other_change_nothing(tmp_path: Path) -> None:
    """Calls of one CPU may be printed long before earlier ones of another; each waits for a heartbeat of every CPU."""
    lines = printed()
    threads = sorted({line.split()[2] for line in lines if line.startswith("o ")})
    assert len(threads) > 1
    late = {threads[0]}

    def is_late(line: str) -> bool:
        kind, *values = line.split()
        return (kind == "o" and values[1] in late) or (kind in "wx" and values[0] in late)

    moved = [line for line in lines if not is_late(line)] + [line for line in lines if is_late(line)]
    captured(moved, tmp_path / "moved.pcapng")
    captured(lines, tmp_path / "calls.pcapng")
    assert frames(tmp_path / "moved.pcapng") == frames(tmp_path / "calls.pcapng")


def test_a_call_waits_for_heartbeats_of_all_cpus() -> None:
    calls = TlsCalls()
    calls.feed(
        ["b 0 5", "b 1 5", f"o 9 9 10 w a 0 0 2 2 1000 514 16777343 16777343{NO_V6}", "x 9 10 0 61 62"]
    )
    calls.feed(["b 0 20", "b 0 30"])
    assert list(calls.packets()) == []
    calls.feed(["b 1 20", "b 1 30"])
    (packet,) = calls.packets()
    assert packet[1].endswith(b"ab")


def test_lost_lines_are_a_gap(tmp_path: Path) -> None:
    lines = printed()
    chunks = [number for number, line in enumerate(lines) if line.startswith("w ")]
    assert chunks
    del lines[chunks[0]]
    captured(lines, tmp_path / "lost.pcapng")
    assert opened(tmp_path / "lost.pcapng").connections.streams.lost.sum() == 192
    captured(printed(), tmp_path / "whole.pcapng")
    assert len(set(frames(tmp_path / "whole.pcapng")) - set(frames(tmp_path / "lost.pcapng"))) == 1


def test_lines_that_are_none_change_nothing(tmp_path: Path) -> None:
    lines = printed()
    wrong = [
        "",
        "o",
        "o 1 2",
        "w 1 2 x",
        "w 1 2 3 4",
        "x 1 2 0 zz",
        "f 1",
        "b 1 x",
        "e 1",
        "@ssl[1]: 3",
        "Lost 3 events",
    ]
    mixed = [each for line in lines for each in (line, *wrong)]
    captured(mixed, tmp_path / "mixed.pcapng")
    captured(lines, tmp_path / "calls.pcapng")
    assert (tmp_path / "mixed.pcapng").read_bytes() == (tmp_path / "calls.pcapng").read_bytes()


@pytest.mark.parametrize("size", [192, 193, 500])
def test_the_last_chunk_of_a_call_overlaps_the_one_before(tmp_path: Path, size: int) -> None:
    data = bytes(range(251)) * 2
    data = data[:size]
    starts = [*range(0, size - 191, 192), *([size - 192] if size % 192 else [])]
    lines = [f"w 9 10 {at} {words(data[at : at + 192])}" for at in starts]
    calls = TlsCalls()
    calls.feed([f"o 9 9 10 w a 0 0 {size} 2 1000 514 16777343 16777343{NO_V6}", *lines, "b 0 11", "b 0 12"])
    (packet,) = calls.packets()
    assert packet[1][54:] == data


def test_a_server_and_ipv6(tmp_path: Path) -> None:
    """The peer of a process that accepted the handshake is the client; an object may replace a freed one."""
    # ::1 and ::2, as a little-endian machine reads them
    call = "o 9 9 {} {} a 2 0 2 10 9093 {} 0 0 0 0 0 16777216 0 0 0 33554432"
    ports = [int.from_bytes(port.to_bytes(2), "little") for port in (4000, 4001)]
    lines = []
    for begin, port in zip((10, 20), ports, strict=True):
        lines += [call.format(begin, "r", port), f"x 9 {begin} 0 61 62"]
        lines += [call.format(begin + 1, "w", port), f"x 9 {begin + 1} 0 63 64", f"f 9 {begin + 2} a"]
    captured(lines, tmp_path / "six.pcapng")
    capture = opened(tmp_path / "six.pcapng")
    connections = capture.connections
    texts = [
        (capture.addresses.text(int(connections.a[each])), capture.addresses.text(int(connections.b[each])))
        for each in range(len(connections))
    ]
    assert {frozenset(each) for each in texts} == {
        frozenset(("[::2]:4000", "[::1]:9093")),
        frozenset(("[::2]:4001", "[::1]:9093")),
    }


def test_calls_of_an_unknown_connection_wait_for_it() -> None:
    calls = TlsCalls()
    calls.feed([f"o 9 9 10 w a 0 0 2 0 0 0 0 0{NO_V6}", "x 9 10 0 61 62", "b 0 11", "b 0 12"])
    assert list(calls.packets()) == []
    calls.feed(
        [f"o 9 9 13 w a 0 2 2 2 1000 514 16777343 16777343{NO_V6}", "x 9 13 0 63 64", "b 0 14", "b 0 15"]
    )
    assert [frame[54:] for _, frame in calls.packets()] == [b"ab", b"cd"]
    calls.feed([f"o 9 9 16 w c 0 0 2 0 0 0 0 0{NO_V6}", "x 9 16 0 61 62", "f 9 17 c", "b 0 18", "b 0 19"])
    assert list(calls.packets()) == []
    assert calls.unplaced == 1


def test_more_of_a_write_than_is_printed_is_counted() -> None:
    calls = TlsCalls()
    calls.feed([f"o 9 9 10 w a 0 0 {1 << 20} 2 1000 514 16777343 16777343{NO_V6}"])
    assert calls.cut == 1


def test_calls_before_all_probes_were_set_are_left_out() -> None:
    """Probes are attached one after the other, so parts of these calls may be missing."""
    calls = TlsCalls()
    calls.since = 12
    calls.feed([f"o 9 9 11 w b 1 0 2 2 1001 514 16777343 16777343{NO_V6}", "x 9 11 0 61 62", "f 9 13 b"])
    calls.feed([f"o 9 9 10 w a 1 0 2 2 1000 514 16777343 16777343{NO_V6}", "x 9 10 0 61 62"])
    calls.feed(
        [f"o 9 9 13 w a 1 2 2 2 1000 514 16777343 16777343{NO_V6}", "x 9 13 0 63 64", "b 0 14", "b 0 15"]
    )
    assert [frame[54:] for _, frame in calls.packets()] == [b"cd"]


def test_a_process_that_ends_ends_its_connections() -> None:
    calls = TlsCalls()
    calls.feed([f"o 9 9 10 w a 1 0 2 2 1000 514 16777343 16777343{NO_V6}", "x 9 10 0 61 62"])
    calls.feed(["e 8 11", "e 9 12", "b 0 13", "b 0 14"])
    flags = [frame[47] for _, frame in calls.packets()]
    assert flags == [SYN | ACK, PSH | ACK, FIN | ACK, ACK]


def test_a_cpu_that_is_idle_or_offline_is_not_waited_for() -> None:
    calls = TlsCalls()
    calls.feed(
        ["b 0 1", "b 0 2", f"o 9 9 10 w a 0 0 2 2 1000 514 16777343 16777343{NO_V6}", "x 9 10 0 61 62"]
    )
    calls.feed(["b 1 11", "b 1 12"])
    assert list(calls.packets()) == []
    calls.feed(["b 1 600000000", "b 1 600000001"])
    assert len(list(calls.packets())) == 1


def test_late_lines_of_a_call_are_not_kept() -> None:
    calls = TlsCalls()
    calls.feed([f"o 9 9 10 w a 0 0 400 2 1000 514 16777343 16777343{NO_V6}", f"w 9 10 0 {words(bytes(192))}"])
    calls.feed(["b 0 9000000000", "b 0 9000000001"])
    assert len(list(calls.packets())) == 1
    assert not calls._open


def test_of_a_connection_whose_both_ends_are_read_one_is_taken() -> None:
    """Their positions differ if it was open before. The server's socket is IPv6, with a mapped address."""
    ports = [int.from_bytes(port.to_bytes(2), "little") for port in (1000, 514)]
    client = f"o 9 9 10 w a 0 0 2 2 1000 {ports[1]} 16777343 33554559{NO_V6}"
    mapped = "0 0 4294901760 33554559 0 0 4294901760 16777343"
    server = f"o 8 8 {{}} r c 1 {{}} 2 10 514 {ports[0]} 33554559 16777343 {mapped}"
    calls = TlsCalls()
    calls.feed([client, "x 9 10 0 61 62", server.format(11, 0), "x 8 11 0 61 62"])
    calls.feed(["f 9 14 a", server.format(15, 2), "x 8 15 0 63 64", "f 8 16 c", "b 0 17", "b 0 17"])
    assert [frame[54:] for _, frame in calls.packets()] == [b"ab", b"", b""]
    calls.feed([server.format(18, 0), "x 8 18 0 65 66", "b 0 19", "b 0 20"])
    syn, data = [frame for _, frame in calls.packets()]
    assert (syn[47], data[54:]) == (SYN | ACK, b"ef")
    assert calls.unplaced == 0


def test_a_call_may_be_printed_after_the_end_of_its_connection() -> None:
    calls = TlsCalls()
    calls.feed(
        [f"o 9 9 10 w a 0 0 2 2 1000 514 16777343 16777343{NO_V6}", "x 9 10 0 61 62", "f 9 30 a", "e 9 31"]
    )
    calls.feed([f"o 9 9 20 w a 0 2 2 2 1000 514 16777343 16777343{NO_V6}", "x 9 20 0 63 64"])
    calls.feed(["b 0 0", f"b 0 {FAR}", f"b 0 {FAR}"])
    times = [time for time, _ in calls.packets()]
    assert times == [10, 20, 30, 30]
