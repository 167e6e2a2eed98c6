"""The choice of the device."""

from __future__ import annotations

import sys

import pytest

from captures.live import devices, pcap
from captures.live.device import DeviceError, Settings
from captures.live.devices import interfaces, open_device
from captures.live.packet_socket import PacketSocket
from captures.live.pcap import PcapDevice
from tests.captures.live.kit import needs_capturing, needs_libpcap


@needs_capturing
@needs_libpcap
def test_libpcap_is_taken_where_there_is_one() -> None:
    made = open_device(Settings("lo"))
    made.close()
    assert isinstance(made, PcapDevice)


@needs_capturing
def test_a_packet_socket_takes_its_place_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcap, "libpcap", lambda: None)
    made = open_device(Settings("lo"))
    made.close()
    assert isinstance(made, PacketSocket)
    assert "without libpcap" in made.warning
    assert "lo" in {interface.name for interface in interfaces()}


def test_elsewhere_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcap, "libpcap", lambda: None)
    monkeypatch.setattr(devices, "sys", type(sys)("sys"))
    monkeypatch.setattr(devices.sys, "platform", "darwin", raising=False)
    with pytest.raises(DeviceError, match="capturing needs libpcap"):
        open_device(Settings("lo"))
