"""Capturing without libpcap on the loopback interface; the kernel's VLAN notes are synthetic."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from captures.live import packet_socket
from captures.live.device import ANY, CaptureFilterError, DeviceError, Settings
from captures.live.packet_socket import PacketSocket, interfaces
from captures.packets import open_source, read_packets
from tests.captures.live.kit import (
    HEADER,
    as_nobody,
    captured,
    loopback,
    needs_capturing,
    needs_root,
    send,
)
from tests.captures.packets.kit import BROKER, CLIENT, ethernet, ipv4, packet, tcp

DATA = b"kafka" * 100
SOL_PACKET, AUXDATA, SOL_SOCKET, TIMESTAMP_NS = 263, 8, 1, 35


@needs_capturing
@pytest.mark.parametrize(("interface", "link_type"), [("lo", 1), (ANY, 113)])
def test_what_is_sent_is_in_the_file_once(tmp_path: Path, interface: str, link_type: int) -> None:
    device = PacketSocket(Settings(interface))
    with loopback() as (client, broker):
        send(client, broker, DATA)
        reader = captured(device, tmp_path / "lo.pcap", DATA)
        port = broker.getsockname()[1]
    device.close()
    assert [interface.link_type for interface in reader.interfaces] == [link_type]
    assert reader.statistics.damage == []
    assert f"127.0.0.1:{port}" in {reader.addresses.text(number) for number in range(len(reader.addresses))}
    assert (tmp_path / "lo.pcap").read_bytes().count(DATA) == 1  # the kernel delivers it twice


@needs_capturing
def test_packets_are_cut_to_the_snapshot_length(tmp_path: Path) -> None:
    device = PacketSocket(Settings("lo", snapshot_length=100))
    with loopback() as (client, broker):
        send(client, broker, DATA)
        reader = captured(device, tmp_path / "lo.pcap", DATA[:30])
    device.close()
    assert reader.interfaces[0].snapshot_length == 100
    assert reader.statistics.cut > 0


@needs_capturing
def test_what_nobody_takes_in_time_is_counted(tmp_path: Path) -> None:
    device = PacketSocket(Settings("lo", buffer_size=4096))
    with loopback() as (client, broker):
        for _ in range(100):
            send(client, broker, DATA)
    counts = device.counts()
    device.close()
    assert counts.dropped > 0
    assert counts.received > counts.dropped


def test_a_capture_filter_is_refused_with_the_reason() -> None:
    with pytest.raises(CaptureFilterError, match="compiled by libpcap, which was not found: install it"):
        PacketSocket(Settings("lo", expression="tcp port 9092"))


def test_an_interface_that_does_not_exist() -> None:
    with pytest.raises(DeviceError, match="there is no interface eth77; -D lists"):
        PacketSocket(Settings("eth77"))


@needs_root
def test_without_the_privilege() -> None:
    told = as_nobody(lambda: PacketSocket(Settings("lo")).close())
    assert told == "NotPermittedError: lo: Operation not permitted"


def test_interfaces() -> None:
    assert interfaces()[0].name == ANY


# ------------------------------------------------------------ records, without a kernel
def made_up(frame: bytes, *, cooked: bool) -> PacketSocket:
    """A packet socket that has just received a frame."""
    device = PacketSocket.__new__(PacketSocket)
    device._buffer = bytearray(frame)
    device._snapshot_length = 262_144
    device._cooked = cooked
    return device


def auxiliary(number: int, protocol: int) -> tuple[int, int, bytes]:
    """``struct tpacket_auxdata`` of linux/if_packet.h with a VLAN tag."""
    return SOL_PACKET, AUXDATA, struct.pack("@IIIHHHH", 0x51, 0, 0, 0, 0, number, protocol)


TIMESTAMP = (SOL_SOCKET, TIMESTAMP_NS, struct.pack("@ll", 1_700_000_000, 123_456_789))


def test_a_vlan_tag_is_put_back() -> None:
    frame = packet(CLIENT, BROKER, 1, 1, 0x18, DATA)
    device = made_up(frame, cooked=False)
    found = device._record(len(frame), [TIMESTAMP, auxiliary(5, 0x88A8)], ("eth0", 0x0800, 0, 1, b"\2" * 6))
    expected = ethernet(frame[14:], tags=(0x88A8,))
    assert found == struct.pack("=IIII", 1_700_000_000, 123_456_789, len(expected), len(expected)) + expected


@pytest.mark.parametrize("tagged", [False, True])
def test_a_cooked_header(tmp_path: Path, tagged: bool) -> None:
    datagram = ipv4(CLIENT[0], BROKER[0], tcp(CLIENT[1], BROKER[1], 1, 1, 0x18, DATA))
    device = made_up(datagram, cooked=True)
    ancillary = [TIMESTAMP, *([auxiliary(5, 0x8100)] if tagged else [])]
    found = device._record(len(datagram), ancillary, ("eth0", 0x0800, 4, 1, b"\2" * 6))
    path = tmp_path / "cooked.pcap"
    path.write_bytes(HEADER[:20] + struct.pack("<I", packet_socket._LINUX_SLL) + found)
    with open_source(path) as source:
        (block,) = read_packets(source)
        assert source.read(int(block.offset[0]), int(block.length[0])) == DATA
        assert block.time.tolist() == [1_700_000_000_123_456_789]
