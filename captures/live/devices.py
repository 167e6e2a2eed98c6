"""The interfaces of this machine, opened with libpcap, or with a packet socket where there is no libpcap."""

from __future__ import annotations

import sys

from captures.live import packet_socket, pcap
from captures.live.device import Device, DeviceError, NetworkInterface, Settings


def open_device(settings: Settings) -> Device:
    """Open an interface with libpcap, or with a packet socket if libpcap is missing.

    :raises NotPermittedError: without the privilege to capture
    :raises CaptureFilterError: if the expression is invalid, or needs libpcap
    :raises DeviceError: if the interface does not exist or cannot be captured on
    """
    if pcap.libpcap() is not None:
        return pcap.PcapDevice(settings)
    if sys.platform != "linux":
        raise DeviceError("capturing needs libpcap, which was not found")
    return packet_socket.PacketSocket(settings)


def interfaces() -> list[NetworkInterface]:
    """Return the interfaces that can be captured on.

    :raises DeviceError: if the system does not list them
    """
    if pcap.libpcap() is not None:
        return pcap.interfaces()
    return packet_socket.interfaces()
