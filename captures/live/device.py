"""What a capture device is. :mod:`captures.live.devices` opens one."""

from __future__ import annotations

from typing import Protocol

import msgspec

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


class Counts(msgspec.Struct, frozen=True):
    """The kernel's counts since the device was opened (pcap_stats(3PCAP)).

    :ivar received: packets that passed the capture filter, dropped ones included on Linux
    :ivar dropped: packets lost because they were not read in time
    :ivar interface_dropped: packets lost by the interface or its driver
    """

    received: int = 0
    dropped: int = 0
    interface_dropped: int = 0


class Settings(msgspec.Struct, frozen=True):
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


class NetworkInterface(msgspec.Struct, frozen=True):
    """An interface that can be captured on.

    :ivar name: value for ``-i``
    :ivar about: its state and description, for display
    """

    name: str
    about: str = ""


class Device(Protocol):
    """An open interface. Packets are written as records of a nanosecond pcap file.

    :ivar warning: a sentence for the user if the device works with restrictions, else empty
    :ivar delay: seconds until a packet is waiting, at most
    """

    warning: str
    delay: float

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
