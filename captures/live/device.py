"""What a capture device is. :mod:`captures.live.devices` opens one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

MAX_SNAPSHOT = 262_144
"""Bytes kept of each packet if nothing else is asked for; what libpcap calls MAXIMUM_SNAPLEN."""

WAIT_MS = 100
"""How long packets may wait in the kernel to be handed over together, so that few system calls carry many."""

ANY = "any"
"""All interfaces of a Linux machine together (pcap(3PCAP))."""


class DeviceError(Exception):
    """An interface that cannot be opened, or has gone away; says which, and why."""


class NotPermittedError(DeviceError):
    """The process lacks the privilege to capture."""


class CaptureFilterError(DeviceError):
    """A BPF expression that libpcap does not understand, or cannot be applied here."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What the kernel counted since the device was opened (pcap_stats(3PCAP)).

    :ivar received: packets that passed the capture filter, dropped ones included on Linux
    :ivar dropped: packets lost because they were not read in time
    :ivar interface_dropped: packets lost by the interface or its driver
    """

    received: int = 0
    dropped: int = 0
    interface_dropped: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """How a device is opened.

    :ivar interface: its name, or :data:`ANY`
    :ivar snapshot_length: bytes kept of each packet
    :ivar promiscuous: whether frames for other machines are taken as well
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

    :ivar name: what ``-i`` takes
    :ivar about: its state and description, for people
    """

    name: str
    about: str = ""


class Device(Protocol):
    """An open interface. Packets are written as records of a nanosecond pcap file.

    :ivar warning: what the user should know although the device could be opened, or empty
    """

    warning: str

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when packets are waiting."""

    def write_to(self, descriptor: int) -> None:
        """Begin a pcap file, where the packets go from now on; the one before is ended.

        :param descriptor: of a file opened for writing; it stays the caller's
        :raises OSError: if no file can be made of it
        """

    def pump(self, most: int) -> int:
        """Write the packets that are waiting, `most` at most, without waiting for any; return how many.

        :raises DeviceError: if the interface has gone away
        """

    def flush(self) -> None:
        """See to it that all packets are in the file.

        :raises OSError: if they could not be written; how far the file reaches is then not known
        """

    def end_file(self) -> None:
        """End the file, if there is one; what cannot be written is given up."""

    def counts(self) -> Counts:
        """Return what the kernel counted so far."""

    def close(self) -> None:
        """Give the device back."""
