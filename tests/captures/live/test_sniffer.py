"""The thread between device and ring: counts, limits, end, and a full disk. The device is fake."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from captures.live import sniffer as sniffer_module
from captures.live.device import Counts, DeviceError
from captures.live.ring import Ring
from captures.live.sniffer import CaptureCounts, Sniffer
from tests.captures.live.kit import HEADER, record
from tests.waiting import wait_until


class MadeUpDevice:
    """A device whose packets, disk space and drops are set by the test.

    :param packets: number of waiting packets
    :param room: total bytes that fit in files
    """

    warning = ""
    delay = 0.0

    def __init__(self, packets: int, room: int = 1 << 30) -> None:
        self.packets = packets
        self.room = room
        self.failure = ""
        self.kernel = Counts()
        self._number = 0
        self._pending = b""
        self._file = -1
        self._readable, self._other = os.pipe()
        os.write(self._other, b"\0")

    def fileno(self) -> int:
        return self._readable

    def write_to(self, descriptor: int) -> None:
        self.end_file()
        self._file = os.dup(descriptor)
        self._pending = HEADER

    def pump(self, most: int) -> int:
        if not self.packets:
            if self.failure:
                raise DeviceError(self.failure)
            time.sleep(0.005)
            return 0
        count = min(self.packets, most, 100)
        self._pending += b"".join(record(self._number + index) for index in range(count))
        self._number += count
        self.packets -= count
        return count

    def flush(self) -> None:
        data, self._pending = self._pending, b""
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            return
        self.room -= os.write(self._file, data[: self.room])
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def end_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def counts(self) -> Counts:
        return self.kernel

    def close(self) -> None:
        self.end_file()
        os.close(self._readable)
        os.close(self._other)


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Ring]:
    path = tmp_path / "out.pcap"
    made = Ring(1 << 20, first=(path.open("x+b", buffering=0), path))
    yield made
    made.close()


@pytest.mark.slow
def test_all_that_came_is_in_the_file_when_it_was_stopped(
    ring: Ring, notices: list[str], tmp_path: Path
) -> None:
    device = MadeUpDevice(1234)
    sniffer = Sniffer(device, ring, notices.append)
    sniffer.start()
    sniffer.stop()  # at once: waiting packets are still read
    sniffer.join()
    assert (tmp_path / "out.pcap").read_bytes() == HEADER + b"".join(map(record, range(1234)))
    assert sniffer.taken == CaptureCounts(captured=1234)
    assert (sniffer.failure, notices) == ("", [])


def test_a_number_of_packets(ring: Ring, notices: list[str], tmp_path: Path) -> None:
    sniffer = Sniffer(MadeUpDevice(1234), ring, notices.append, most=150)
    sniffer.start()
    sniffer.join()
    assert (tmp_path / "out.pcap").read_bytes() == HEADER + b"".join(map(record, range(150)))


@pytest.mark.slow
def test_what_the_kernel_dropped_is_told(ring: Ring, notices: list[str]) -> None:
    device = MadeUpDevice(0)
    device.kernel = Counts(received=100, dropped=7, interface_dropped=2)
    sniffer = Sniffer(device, ring, notices.append)
    sniffer.start()
    sniffer.stop()
    sniffer.join()
    assert sniffer.taken == CaptureCounts(received=100, dropped=7, interface_dropped=2)
    assert sniffer.taken.missing == 9


def test_an_interface_that_goes_away_ends_it(ring: Ring, notices: list[str], tmp_path: Path) -> None:
    device = MadeUpDevice(10)
    device.failure = "eth7: The interface disappeared"
    sniffer = Sniffer(device, ring, notices.append)
    sniffer.start()
    sniffer.join()
    assert sniffer.failure == "eth7: The interface disappeared"
    assert (tmp_path / "out.pcap").read_bytes() == HEADER + b"".join(map(record, range(10)))
    assert ring.complete or not ring.wait_for(1 << 30)  # the reader does not wait for more


@pytest.mark.slow
def test_a_full_disk_is_said_and_capturing_goes_on_elsewhere(
    ring: Ring, notices: list[str], tmp_path: Path
) -> None:
    device = MadeUpDevice(250, room=150_000)
    sniffer = Sniffer(device, ring, notices.append)
    sniffer.start()
    wait_until(lambda: bool(notices))
    device.room = 1 << 30
    wait_until(lambda: device.packets == 0)
    sniffer.stop()
    sniffer.join()
    assert (tmp_path / "out.pcap").read_bytes() == HEADER + b"".join(map(record, range(100)))
    assert notices[0] == f"{tmp_path / 'out.pcap'}: No space left on device: no more is written there"
    assert sniffer.taken.captured + sniffer.taken.not_written == 250
    assert sniffer.taken.not_written >= 100


@pytest.mark.slow
def test_while_nothing_can_be_written_packets_are_counted(
    ring: Ring, notices: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sniffer_module, "_RETRY_SECONDS", 0.01)
    device = MadeUpDevice(250, room=150_000)
    sniffer = Sniffer(device, ring, notices.append)
    sniffer.start()
    wait_until(lambda: device.packets == 0)
    device.room = 1 << 30
    wait_until(lambda: len(notices) == 3)
    device.packets = 50
    wait_until(lambda: device.packets == 0)
    sniffer.stop()
    sniffer.join()
    assert notices[1:] == [
        "nothing can be recorded for now: No space left on device",
        "recording continues; 150 packets were not recorded",
    ]
    assert sniffer.taken == CaptureCounts(captured=150, not_written=150)


def test_without_a_last_resort_a_full_disk_is_the_end(ring: Ring, notices: list[str], tmp_path: Path) -> None:
    sniffer = Sniffer(MadeUpDevice(250, room=150_000), ring, notices.append, last_resort=False)
    sniffer.start()
    sniffer.join()
    assert sniffer.failure == f"{tmp_path / 'out.pcap'}: No space left on device"


def test_a_disk_that_is_full_from_the_start_is_an_error(ring: Ring, notices: list[str]) -> None:
    device = MadeUpDevice(0, room=10)
    with pytest.raises(OSError, match="No space left"):
        Sniffer(device, ring, notices.append).start()
    device.close()
