"""Captures written as pcapng: the same exchanges for our reader, for tshark and for scapy."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP
from scapy.utils import PcapNgReader, RawPcapNgReader, RawPcapReader

from captures.exchanges import Capture
from captures.exchanges.notes import Note
from captures.export.selection import Selection
from captures.packets import read_packets
from captures.packets.source import KEPT, open_source
from tests.captures.export.files import DATA, RECORDED, SAMPLE, exported, needs_tshark, opened, shapes, tshark
from tests.captures.packets import kit
from tests.lanes.hostile.collection import ATTACKS


def texts(shapes: list[dict]) -> str:
    return repr(shapes)  # telemetry has NaN, which is not equal to itself


@pytest.mark.sample(1)
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
@pytest.mark.parametrize("synthetic", [False, True], ids=["original", "synthetic"])
def test_our_reader_sees_the_same_exchanges(path: Path, synthetic: bool, tmp_path: Path) -> None:
    capture, out = opened(path), tmp_path / "out.pcapng"
    writer = exported(capture, out, synthetic=synthetic)
    again = opened(out)
    assert texts(shapes(again)) == texts(shapes(capture))
    assert writer.written.exchanges == len(capture.table) > 0
    assert writer.written.packets == again.statistics.packets
    # a recording has either plain connections or TLS ones with exchanges
    assert writer.written.synthetic == (writer.written.packets if synthetic or _decrypted(capture) else 0)
    assert not again.statistics.damage


def _decrypted(capture: Capture) -> bool:
    return any(
        connection in capture.decryption.tls for connection in capture.table.column("connection").tolist()
    )


def test_packets_are_copied_byte_for_byte_with_their_times(tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    exported(opened(SAMPLE), out)
    with RawPcapReader(str(SAMPLE)) as packets:
        before = [(frame, meta.sec * 10**9 + meta.usec * 1000, meta.wirelen) for frame, meta in packets]
    with RawPcapNgReader(str(out)) as packets:
        after = [(frame, meta.tshigh << 32 | meta.tslow, meta.wirelen) for frame, meta in packets]
    assert after == before
    assert len(after) > 1000


@pytest.mark.parametrize("synthetic", [False, True], ids=["original", "synthetic"])
def test_a_part_of_the_exchanges(tmp_path: Path, synthetic: bool) -> None:
    capture, out = opened(SAMPLE), tmp_path / "out.pcapng"
    rows = np.flatnonzero(capture.table.column("api_key") == 11).tolist()  # JoinGroup
    assert len(rows) == 16
    exported(capture, out, rows, synthetic=synthetic)
    drop = ("connection", "number", "flags", "designed_wait_ns", "decoded")
    wanted = [shape for shape in shapes(capture, drop=drop) if shape["api"] == "JoinGroup"]
    assert shapes(opened(out), drop=drop) == wanted
    assert out.stat().st_size < SAMPLE.stat().st_size / 5


def comments_of(file: Path) -> list[str]:
    return [text for block in read_packets(open_source(file)) for text in block.comments.values()]


@pytest.mark.slow
def test_comments_and_marks_are_kept(tmp_path: Path) -> None:
    first, second, made = (tmp_path / f"{name}.pcapng" for name in ("first", "second", "made"))
    capture = opened(SAMPLE)
    row = int(capture.table.order()[17])
    capture.notes.comment(row, "here the rebalance begins")
    capture.notes.mark(row)
    exported(capture, first)
    exported(opened(first), second)
    exported(opened(second), made, synthetic=True)
    for file in (first, second, made):
        assert comments_of(file) == ["[marked] here the rebalance begins"]
        again = opened(file)
        assert again.notes.all() == {int(again.table.order()[17]): Note("here the rebalance begins", True)}


def test_a_comment_that_was_changed_is_written_in_place_of_the_old_one(tmp_path: Path) -> None:
    first, second = tmp_path / "first.pcapng", tmp_path / "second.pcapng"
    capture = opened(SAMPLE)
    rows = capture.table.order()[[17, 30]].tolist()
    for row in rows:
        capture.notes.comment(row, f"look at {row}")
    exported(capture, first)
    again = opened(first)
    again.notes.comment(rows[0], "look closer")
    again.notes.mark(rows[1])
    exported(again, second)
    assert comments_of(second) == ["look closer", f"[marked] look at {rows[1]}"]


def test_comments_of_other_packets_stay_where_they_are(tmp_path: Path) -> None:
    if shutil.which("editcap") is None:
        pytest.skip("editcap is not installed")
    first, second = tmp_path / "first.pcapng", tmp_path / "second.pcapng"
    # packet 1 is a SYN
    subprocess.run(["editcap", "-a", "1:it opens", SAMPLE, first], check=True)
    capture = opened(first)
    capture.notes.comment(int(capture.table.order()[0]), "mine")
    exported(capture, second)
    assert comments_of(second) == ["it opens", "mine"]


def test_link_types_and_interfaces_of_several_captures(tmp_path: Path) -> None:
    from captures.export.capture_file import CaptureFileWriter

    out = tmp_path / "out.pcapng"
    paths = [DATA / "09_any_sll2.pcap", SAMPLE, DATA / "09_pcapng_dumpcap.pcapng"]
    captures = [opened(path) for path in paths]
    with out.open("wb") as file:
        writer = CaptureFileWriter(file)
        for capture in captures:
            writer.write(Selection(capture))
    reader = read_packets(open_source(out))
    list(reader)
    assert [interface.link_type for interface in reader.interfaces] == [276, 1, 1]
    assert writer.written.exchanges == sum(len(capture.table) for capture in captures)
    assert len(opened(out).table) == writer.written.exchanges


def test_what_is_in_ip_fragments_becomes_synthetic(tmp_path: Path) -> None:
    request = bytes.fromhex(
        "0000000a00120000000000010000"
    )  # ApiVersions v0, correlation ID 1, empty client ID
    response = bytes.fromhex("0000000a00000001000000000000")
    c, b = kit.CLIENT, kit.BROKER
    frames = [
        kit.packet(c, b, 0, 0, kit.SYN),
        kit.packet(b, c, 0, 1, kit.SYN | kit.ACK),
    ]
    segment = kit.tcp(c[1], b[1], 1, 1, kit.ACK, request)
    more, first = 0x2000, segment[:24]  # RFC 791: more fragments; the offset counts 8 bytes
    frames.append(kit.ethernet(kit.ipv4(c[0], b[0], first, fragment=more)))
    frames.append(kit.ethernet(kit.ipv4(c[0], b[0], segment[24:], fragment=3)))
    frames.append(kit.packet(b, c, 1, 15, kit.ACK, response))
    path, out = tmp_path / "in.pcap", tmp_path / "out.pcapng"
    path.write_bytes(kit.pcap([kit.Record(frame, kit.T0 + n * kit.MS) for n, frame in enumerate(frames)]))
    capture = opened(path)
    assert (capture.index.pieces(0, 0, 14)[1] >= KEPT).all()
    writer = exported(capture, out)
    # a recording has either plain connections or TLS ones with exchanges
    assert writer.written.synthetic == writer.written.packets == 5
    assert shapes(opened(out)) == shapes(capture)
    assert len(capture.table) == 1


def test_no_packets_stand_for_gigabytes_that_are_missing_in_a_frame(tmp_path: Path) -> None:
    path, out = ATTACKS["announced-holes"].write(tmp_path, 0.05), tmp_path / "out.pcapng"
    capture = opened(path)
    assert max(capture.table.column("response_size").tolist()) > 1 << 30
    writer = exported(capture, out, synthetic=True)
    assert writer.written.packets < 20
    assert len(opened(out).table) == len(capture.table)


@pytest.mark.slow
def test_scapy_agrees_on_every_checksum(tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    exported(opened(SAMPLE), out, [*range(60)], synthetic=True)
    with PcapNgReader(str(out)) as packets:
        count = 0
        for packet in packets:
            count += 1
            ip, tcp = packet[IP].chksum, packet[TCP].chksum
            del packet[IP].chksum, packet[TCP].chksum
            made = packet.__class__(bytes(packet))
            assert (made[IP].chksum, made[TCP].chksum) == (ip, tcp)
    assert count > 120


@pytest.mark.slow
@needs_tshark
@pytest.mark.parametrize(
    "how", [{}, {"synthetic": True}, {"scrub": True}, {"scrub": True, "synthetic": True}], ids=str
)
def test_tshark_sees_the_same_messages(how: dict, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    exported(opened(SAMPLE), out, **how)
    kafka = ("-d", "tcp.port==10101,kafka")
    ids = ("-T", "fields", "-e", "kafka.correlation_id", "-Y", "kafka")
    count = {path: ",".join(tshark(path, *kafka, *ids)).split(",") for path in (SAMPLE, out)}
    assert sorted(count[out]) == sorted(count[SAMPLE])
    assert len(count[out]) == 803
    # this dissector does not support the newest versions: what it reports as malformed must be the same before and
    # after
    malformed = [len(tshark(path, *kafka, "-Y", "_ws.malformed")) for path in (SAMPLE, out)]
    assert malformed[0] == malformed[1]


@pytest.mark.slow
@needs_tshark
def test_tshark_finds_nothing_wrong_with_synthetic_tcp(tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    exported(opened(SAMPLE), out, synthetic=True)
    checks = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
    assert tshark(out, *checks, "-Y", "tcp.checksum.status==0 || ip.checksum.status==0") == []
    assert tshark(out, "-Y", "tcp.analysis.flags") == []
    assert tshark(out, "-Y", "tcp.flags.syn==1 && tcp.flags.ack==0") != []
