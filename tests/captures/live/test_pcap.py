"""libpcap's binding on the loopback interface; only what the kernel cannot be made to do is synthetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from captures.live.device import CaptureFilterError, Counts, DeviceError, Settings
from captures.live.pcap import PcapDevice, interfaces, libpcap
from tests.captures.live.kit import (
    as_nobody,
    captured,
    loopback,
    needs_capturing,
    needs_libpcap,
    needs_root,
    send,
)

pytestmark = needs_libpcap
DATA = b"kafka" * 100


@needs_capturing
def test_what_is_sent_is_in_the_file(tmp_path: Path) -> None:
    device = PcapDevice(Settings("lo"))
    with loopback() as (client, broker):
        port = broker.getsockname()[1]
        send(client, broker, DATA)
        reader = captured(device, tmp_path / "lo.pcap", DATA)
    device.close()
    assert (tmp_path / "lo.pcap").read_bytes()[:4] == bytes.fromhex("4d3cb2a1")  # nanoseconds, little-endian
    assert [interface.link_type for interface in reader.interfaces] == [1]
    assert reader.statistics.damage == []
    assert f"127.0.0.1:{port}" in {reader.addresses.text(number) for number in range(len(reader.addresses))}


@needs_capturing
def test_the_capture_filter_lets_through_what_fits(tmp_path: Path) -> None:
    with loopback() as (wanted, broker), loopback() as (other, other_broker):
        port = broker.getsockname()[1]
        device = PcapDevice(Settings("lo", expression=f"tcp port {port}"))
        send(other, other_broker, b"not this one")
        send(wanted, broker, DATA)
        reader = captured(device, tmp_path / "lo.pcap", DATA)
        device.close()
        ends = {reader.addresses.port(number) for number in range(len(reader.addresses))}
        assert ends == {port, wanted.getsockname()[1]}
    assert b"not this one" not in (tmp_path / "lo.pcap").read_bytes()


@needs_capturing
def test_packets_are_cut_to_the_snapshot_length(tmp_path: Path) -> None:
    device = PcapDevice(Settings("lo", snapshot_length=100))
    with loopback() as (client, broker):
        send(client, broker, DATA)
        reader = captured(device, tmp_path / "lo.pcap", DATA[:30])
    device.close()
    assert reader.interfaces[0].snapshot_length == 100
    assert reader.statistics.cut > 0


@needs_capturing
def test_a_capture_filter_with_a_mistake() -> None:
    with pytest.raises(CaptureFilterError, match=r"not understood: tcp prt 9092: .*syntax error"):
        PcapDevice(Settings("lo", expression="tcp prt 9092"))


@needs_capturing
def test_an_interface_that_does_not_exist() -> None:
    with pytest.raises(DeviceError, match="there is no interface eth77; -D lists"):
        PcapDevice(Settings("eth77"))


@needs_root
def test_without_the_privilege() -> None:
    libpcap()
    told = as_nobody(lambda: PcapDevice(Settings("lo")).close())
    assert told.startswith("NotPermittedError: lo: ")


def test_interfaces_have_names() -> None:
    assert "lo" in {interface.name.rstrip("0") for interface in interfaces()}


@needs_capturing
def test_counters_of_32_bits_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    device = PcapDevice(Settings("lo"))
    told = iter([(4_294_967_000, 4_294_967_290, 1), (1_000, 4, 1), (1_001, 4, 2)])

    class MadeUpKernel:
        """libpcap with synthetic counters."""

        def __getattr__(self, name: str) -> Any:
            return getattr(libpcap(), name)

        def pcap_stats(self, _: int, found: Any) -> int:
            counts = found._obj
            counts.received, counts.dropped, counts.interface_dropped = next(told)
            return 0

    monkeypatch.setattr(device, "_library", MadeUpKernel())
    assert device.counts() == Counts(4_294_967_000, 4_294_967_290, 1)
    assert device.counts() == Counts(4_294_968_296, 4_294_967_300, 1)
    assert device.counts() == Counts(4_294_968_297, 4_294_967_300, 2)
    device.close()
