"""Files of a recording: names, limits, retention, appending, and remains after a failure."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from captures.export.pcapng_writer import open_for_append
from captures.packets import open_files, read_packets
from kproxy.proxy import rotation
from kproxy.proxy.recorder import RecordingOptions
from kproxy.proxy.rotation import ChunkFolder, Output, Series, SingleFile
from tests.captures.packets import kit
from tests.kproxy.proxy.recordings import read


def block(number: int, size: int = 1000) -> bytes:
    frame = kit.packet(kit.CLIENT, kit.BROKER, 1 + number * size, 1, kit.ACK, bytes(size))
    return kit.enhanced(frame, kit.T0 // 1000 + number)


def write(output: Output, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        whole = block(number)
        output.write([whole[:10], memoryview(whole)[10:]])


def packets(path: Path | str) -> int:
    reader = read_packets(open_files([str(path)]))
    for _ in reader:
        pass
    assert reader.statistics.damage == []
    return reader.statistics.packets


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_series_by_size(tmp_path: Path) -> None:
    begun: list[Path] = []
    output = Series(tmp_path / "kafka.pcapng", lambda path, _: begun.append(path), size=10_000)
    output.open()
    write(output, 40)
    output.close()
    assert names(tmp_path) == [f"kafka-0000{number}.pcapng" for number in range(1, 5)]
    assert begun == [tmp_path / name for name in names(tmp_path)]
    assert all(10_000 <= path.stat().st_size < 12_000 for path in begun[:-1])
    assert [packets(path) for path in begun] == [10] * 4
    assert packets(tmp_path / "kafka-*.pcapng") == 40


def test_a_series_goes_on_and_keeps_the_newest(tmp_path: Path) -> None:
    for other in ("kafka-7.pcapng", "kafka-00001.pcap", "kafka-00001.pcapng.bak", "nokafka-00001.pcapng"):
        (tmp_path / other).touch()
    others = names(tmp_path)
    for run in range(2):
        output = Series(tmp_path / "kafka.pcapng", lambda *_: None, size=5000, count=3)
        output.open()
        write(output, 20, first=20 * run)
        output.close()
    kept = [name for name in names(tmp_path) if name not in others]
    assert len(kept) == 3
    assert kept[-1] > "kafka-00005.pcapng"
    assert len(names(tmp_path)) == len(others) + 3


def test_a_series_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(rotation.time, "monotonic", lambda: now[0])
    output = Series(tmp_path / "kafka.pcapng", lambda *_: None, seconds=60)
    output.open()
    for number in range(7):
        now[0] = number * 25.0
        write(output, 1, first=number)
    now[0] = 1000.0  # no data, no empty files
    output.close()
    assert [packets(tmp_path / name) for name in names(tmp_path)] == [3, 3, 1]


def test_chunks_within_a_bound(tmp_path: Path) -> None:
    output = ChunkFolder(tmp_path / "spool", lambda *_: None, limit=1 << 20)
    output.open()
    for number in range(3000):
        write(output, 1, first=number)
        if number % 100 == 0:
            assert sum(path.stat().st_size for path in (tmp_path / "spool").iterdir()) <= 1 << 20
    output.close()
    kept = names(tmp_path / "spool")
    assert len(kept) >= 14
    assert kept[0] > "00000020.pcapng"
    assert packets(tmp_path / "spool") > 800
    again = ChunkFolder(tmp_path / "spool", lambda *_: None, limit=1 << 20)
    again.open()
    again.close()
    assert names(tmp_path / "spool")[-1] == f"{int(kept[-1][:8]) + 1:08}.pcapng"


def test_what_was_written_in_part_is_cut_off(tmp_path: Path) -> None:
    output = SingleFile(tmp_path / "a.pcapng", lambda *_: None)
    output.open()
    write(output, 3)
    good = (tmp_path / "a.pcapng").read_bytes()
    was = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(good) + 500, was[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write(output, 1, first=3)
        assert (tmp_path / "a.pcapng").read_bytes() == good
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, was)
    write(output, 2, first=3)
    output.note_lost(3, "kproxy: something happened")
    write(output, 1, first=5)
    output.note_lost(4, "kproxy: and again")
    output.close()
    assert packets(tmp_path / "a.pcapng") == 6
    assert read(tmp_path / "a.pcapng").statistics.dropped == 7


def test_many_pieces_at_once(tmp_path: Path) -> None:
    output = SingleFile(tmp_path / "a.pcapng", lambda *_: None)
    output.open()
    output.write([bytes([each]) for number in range(20) for each in block(number)])
    output.close()
    assert packets(tmp_path / "a.pcapng") == 20


def test_a_full_disk_costs_the_oldest_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = ChunkFolder(tmp_path, lambda *_: None, limit=1 << 22)
    output.open()
    write(output, 200)
    before = names(tmp_path)
    assert len(before) >= 3
    real, failures = os.writev, [2]

    def writev(fd: int, buffers: list[memoryview]) -> int:
        if failures[0]:
            failures[0] -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, buffers)

    monkeypatch.setattr(rotation.os, "writev", writev)
    write(output, 1, first=200)
    assert names(tmp_path) == before[2:]
    failures[0] = 1 << 20
    with pytest.raises(OSError, match="No space left"):
        write(output, 1, first=201)
    failures[0] = 0
    write(output, 1, first=201)
    output.close()


@pytest.mark.slow
def test_one_writer_at_a_time(tmp_path: Path) -> None:
    for kind, path in ((SingleFile, tmp_path / "a.pcapng"), (ChunkFolder, tmp_path / "spool")):
        first, second = kind(path, lambda *_: None), kind(path, lambda *_: None)
        first.open()
        with pytest.raises(OSError, match="another kproxy is recording to it"):
            second.open()
        second.close()
        first.close()
        second.open()
        second.close()


def test_what_readers_open() -> None:
    assert RecordingOptions(folder="/run/x/capture").capture == "/run/x/capture"
    assert RecordingOptions(path="a[1].pcapng").capture == "a[1].pcapng"
    assert RecordingOptions(path="/d/a.pcapng", rotate_time=60).capture == "/d/a-[0-9]*.pcapng"
    assert RecordingOptions(path="/d[1]/a*.pcapng", rotate_size=1).capture == "/d[[]1]/a[*]-[0-9]*.pcapng"


def test_half_a_block_at_the_end_of_a_large_file_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    output = SingleFile(path, lambda *_: None)
    output.open()
    output.write([block(number) for number in range(5000)])
    output.close()
    with path.open("ab") as file:
        file.write(block(0)[:500])
    size = path.stat().st_size
    open_for_append(path).close()
    assert path.stat().st_size == size - 500
    open_for_append(path).close()
    assert path.stat().st_size == size - 500
    assert packets(path) == 5000
