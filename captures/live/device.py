"""The interface of a capture device, and how to open the best one available: libpcap's, or else a packet socket."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Protocol

MAX_SNAPSHOT = 262_144
"""Bytes kept of each packet by default; libpcap's MAXIMUM_SNAPLEN."""

WAIT_MS = 100
"""Time that packets may wait in the kernel to be delivered together, which saves system calls."""

ANY = "any"
"""All interfaces of a Linux machine together (pcap(3PCAP))."""


class DeviceError(Exception):
    """An interface cannot be opened, or has disappeared; the message says which, and why."""


class NotPermittedError(DeviceError):
    """The process lacks the privilege to capture."""


class CaptureFilterError(DeviceError):
    """A capture filter is not valid in libpcap, or cannot be applied here."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The kernel's counts since the device was opened (pcap_stats(3PCAP)).

    :ivar received: packets that passed the capture filter, dropped ones included on Linux
    :ivar dropped: packets lost because they were not read in time
    :ivar interface_dropped: packets lost by the interface or its driver
    """

    received: int = 0
    dropped: int = 0
    interface_dropped: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """How to open a device.

    :ivar interface: its name, or :data:`ANY`
    :ivar snapshot_length: bytes kept of each packet
    :ivar promiscuous: whether frames for other machines are captured too
    :ivar buffer_size: bytes of the kernel's buffer
    :ivar expression: capture filter in pcap-filter(7) syntax, empty for none
    """

    interface: str
    snapshot_length: int = MAX_SNAPSHOT
    promiscuous: bool = True
    buffer_size: int = 32 << 20
    expression: str = ""


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """An interface that can be captured on.

    :ivar name: value for ``-i``
    :ivar about: its state and description, for display
    """

    name: str
    about: str = ""


class Device(Protocol):
    """An open interface. Packets are written as records of a nanosecond pcap file.

    :ivar warning: a sentence for the user if the device works with restrictions, else empty
    """

    warning: str

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when packets are waiting."""

    def write_to(self, descriptor: int) -> None:
        """End the current pcap file, if any, and write packets to a new one.

        :param descriptor: of a file opened for writing; the caller keeps owning it
        :raises OSError: if the file cannot be used
        """

    def pump(self, most: int) -> int:
        """Write waiting packets, `most` at most, without blocking; return how many.

        :raises DeviceError: if the interface has disappeared
        """

    def flush(self) -> None:
        """Flush all packets to the file.

        :raises OSError: if they could not be written; how much was written is then unknown
        """

    def end_file(self) -> None:
        """End the file, if there is one; data that cannot be written is discarded."""

    def counts(self) -> Counts:
        """Return the kernel's counts so far."""

    def close(self) -> None:
        """Close the device."""


def open_device(settings: Settings) -> Device:
    """Open an interface with libpcap, or with a packet socket if libpcap is missing.

    :raises NotPermittedError: without the privilege to capture
    :raises CaptureFilterError: if the expression is invalid, or needs libpcap
    :raises DeviceError: if the interface does not exist or cannot be captured on
    """
    from captures.live.packet_socket import PacketSocket
    from captures.live.pcap import PcapDevice, libpcap

    if libpcap() is not None:
        return PcapDevice(settings)
    if sys.platform != "linux":
        raise DeviceError("capturing needs libpcap, which was not found")
    return PacketSocket(settings)


def interfaces() -> list[NetworkInterface]:
    """Return the interfaces that can be captured on.

    :raises DeviceError: if the system does not list them
    """
    from captures.live import packet_socket, pcap

    if pcap.libpcap() is not None:
        return pcap.interfaces()
    return packet_socket.interfaces()
