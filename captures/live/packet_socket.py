"""Capturing without libpcap: an AF_PACKET socket of Linux (packet(7)), written as a pcap file.

Each packet passes through Python, so this keeps up with some ten thousand packets per second, not with millions.
Capture filters need libpcap's compiler and are refused. Frames are written as libpcap would: VLAN tags, which the
kernel passes beside the frame, are put back, and other link types than Ethernet get a cooked header
(https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL.html).
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any

from captures.live.device import (
    ANY,
    CaptureFilterError,
    Counts,
    DeviceError,
    NetworkInterface,
    NotPermittedError,
    Settings,
)
from captures.live.pcap_output import PcapOutput, pcap_record

_ETHERNET, _LINUX_SLL = 1, 113  # link types of pcap files
_ETHERNET_HARDWARE, _LOOPBACK_HARDWARE = 1, 772  # ARPHRD_ETHER, ARPHRD_LOOPBACK in linux/if_arp.h
_ALL_PROTOCOLS = 0x0003  # ETH_P_ALL
_OUTGOING = 4  # PACKET_OUTGOING

# linux/if_packet.h, asm-generic/socket.h
_SOL_PACKET = 263
_ADD_MEMBERSHIP, _STATISTICS, _AUXDATA = 1, 6, 8
_MEMBERSHIP_PROMISCUOUS = 1
_TIMESTAMP_NS = 35
_BUFFER_FORCE = 33
_VLAN_VALID, _VLAN_PROTOCOL_VALID = 0x10, 0x40

_MEMBERSHIP = Struct("@iHH8s")
_KERNEL_STATISTICS = Struct("@II")
_AUXILIARY = Struct("@IIIHHHH")  # tpacket_auxdata: status, len, snaplen, mac, net, vlan_tci, vlan_tpid
_TIME = Struct("@ll")

_COOKED = Struct(">HHH8sH")
_VLAN_TAG = Struct(">HH")
_ADDRESSES = 12  # bytes of the two addresses at the beginning of an Ethernet frame
_TAG_PROTOCOL = 0x8100
_ANCILLARY = 256


class PacketSocket(PcapOutput):
    """An interface opened with an AF_PACKET socket; see :class:`~captures.live.device.Device`.

    :raises NotPermittedError: without the privilege to capture
    :raises CaptureFilterError: if there is a capture filter
    :raises DeviceError: if the interface does not exist
    """

    def __init__(self, settings: Settings) -> None:
        if settings.expression:
            raise CaptureFilterError(
                "capture filters are compiled by libpcap, which was not found: install it (libpcap0.8 on Debian and "
                "Ubuntu, libpcap elsewhere), or leave the capture filter out; -Y filters what is shown"
            )
        self._interface = settings.interface
        self._counts = Counts()
        self._buffer = bytearray(settings.snapshot_length)
        self.warning = "without libpcap: capturing is slower, and packets may be dropped under load"
        everything = settings.interface == ANY
        hardware = 0 if everything else self._hardware(settings.interface)
        self._loopback = hardware == _LOOPBACK_HARDWARE
        self._cooked = everything or hardware not in (_ETHERNET_HARDWARE, _LOOPBACK_HARDWARE)
        super().__init__(_LINUX_SLL if self._cooked else _ETHERNET, settings.snapshot_length)
        # a socket without a protocol gets no packets before it is bound
        protocol = socket.htons(_ALL_PROTOCOLS) if everything else 0
        self._socket = self._open(socket.SOCK_DGRAM if self._cooked else socket.SOCK_RAW, protocol)
        try:
            self._prepare(settings)
            if not everything:
                self._socket.bind((settings.interface, _ALL_PROTOCOLS))
        except OSError as error:
            self._socket.close()
            raise DeviceError(f"{settings.interface}: {error.strerror}") from error

    @staticmethod
    def _hardware(interface: str) -> int:
        """Return the ARPHRD number of an interface."""
        try:
            return int(Path("/sys/class/net", interface, "type").read_text())
        except (OSError, ValueError):
            raise DeviceError(f"there is no interface {interface}; -D lists the interfaces") from None

    def _open(self, kind: int, protocol: int) -> socket.socket:
        assert sys.platform == "linux"
        try:
            return socket.socket(socket.AF_PACKET, kind, protocol)
        except PermissionError as error:
            raise NotPermittedError(f"{self._interface}: {error.strerror}") from error
        except OSError as error:
            raise DeviceError(f"{self._interface}: {error.strerror}") from error

    def _prepare(self, settings: Settings) -> None:
        made = self._socket
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, _TIMESTAMP_NS, 1)
        made.setsockopt(_SOL_PACKET, _AUXDATA, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.buffer_size)
        with suppress(PermissionError):  # beyond net.core.rmem_max only with CAP_NET_ADMIN
            made.setsockopt(socket.SOL_SOCKET, _BUFFER_FORCE, settings.buffer_size)
        if settings.promiscuous and not self._cooked:
            number = socket.if_nametoindex(settings.interface)
            membership = _MEMBERSHIP.pack(number, _MEMBERSHIP_PROMISCUOUS, 0, b"")
            made.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, membership)

    def fileno(self) -> int:
        return self._socket.fileno()

    def pump(self, most: int) -> int:
        before = len(self._pending)
        for _ in range(most):
            try:
                size, ancillary, _, address = self._socket.recvmsg_into(
                    [self._buffer], _ANCILLARY, socket.MSG_TRUNC
                )
            except BlockingIOError:
                break
            except OSError as error:
                raise DeviceError(f"{self._interface}: {error.strerror}") from error
            # the loopback interface delivers every packet twice, as sent and as received
            if not (address[2] == _OUTGOING and (self._loopback or address[3] == _LOOPBACK_HARDWARE)):
                self._pending.append(self._record(size, ancillary, address))
        return len(self._pending) - before

    def _record(self, size: int, ancillary: list[tuple[int, int, bytes]], address: Any) -> bytes:
        """Return the pcap record of the packet in the buffer.

        :param size: its bytes on the wire
        :param address: interface, protocol, packet type, hardware type, hardware address
        """
        frame = bytes(memoryview(self._buffer)[: min(size, self._snapshot_length)])
        seconds = nanoseconds = 0
        tag = b""
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == _TIMESTAMP_NS:
                seconds, nanoseconds = _TIME.unpack_from(data)
            elif level == _SOL_PACKET and kind == _AUXDATA:
                tag = _vlan_tag(data)
        added = len(tag)
        if self._cooked:
            _, protocol, packet_type, hardware, link_address = address
            if tag:
                # as libpcap does: the tag's protocol in the header, followed by its number and the real protocol
                tag_protocol, number = _VLAN_TAG.unpack(tag)
                frame = _VLAN_TAG.pack(number, protocol) + frame
                protocol = tag_protocol
            header = _COOKED.pack(packet_type, hardware, len(link_address), link_address[:8], protocol)
            frame = header + frame
            added += len(header)
        elif tag:
            frame = frame[:_ADDRESSES] + tag + frame[_ADDRESSES:]
        return pcap_record(seconds, nanoseconds, frame[: self._snapshot_length], size + added)

    def counts(self) -> Counts:
        with suppress(OSError):
            received, dropped = _KERNEL_STATISTICS.unpack(
                self._socket.getsockopt(_SOL_PACKET, _STATISTICS, _KERNEL_STATISTICS.size)
            )  # since the last call; received includes dropped
            self._counts = Counts(self._counts.received + received, self._counts.dropped + dropped)
        return self._counts

    def close(self) -> None:
        self.end_file()
        self._socket.close()


def _vlan_tag(auxiliary: bytes) -> bytes:
    """Return the VLAN tag that the kernel removed from a frame, as encoded there; empty if there was none."""
    status, _, _, _, _, number, protocol = _AUXILIARY.unpack_from(auxiliary)
    if not (status & _VLAN_VALID or number):
        return b""
    return _VLAN_TAG.pack(protocol if status & _VLAN_PROTOCOL_VALID else _TAG_PROTOCOL, number)


def interfaces() -> list[NetworkInterface]:
    """Return the interfaces of the machine, and the name that stands for all of them.

    :raises DeviceError: if the system does not list them
    """
    try:
        names = [name for _, name in socket.if_nameindex()]
    except OSError as error:
        raise DeviceError(f"the interfaces cannot be listed: {error.strerror}") from error
    return [NetworkInterface(ANY, "all of them"), *map(NetworkInterface, names)]
