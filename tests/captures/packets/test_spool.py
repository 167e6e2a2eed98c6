from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from captures.packets import spool as spool_module
from captures.packets.errors import SpoolDropped
from captures.packets.spool import Quota, Spool, spare_bytes, spool_directory

CHUNK = 1 << 16  # the smallest


def numbered(start: int, size: int) -> bytes:
    """Bytes that tell their own offset."""
    first = start // 8
    words = b"".join(number.to_bytes(8, "big") for number in range(first, (start + size) // 8 + 1))
    return words[start - 8 * first :][:size]


Make = Callable[..., Spool]


@pytest.fixture
def make() -> Iterator[Make]:
    """What makes a spool: of a quota, or of so many chunks."""
    made: list[Spool] = []

    def spool(quota: Quota | int, name: str = "pipe") -> Spool:
        made.append(Spool(name, quota if isinstance(quota, Quota) else Quota(quota * CHUNK)))
        return made[-1]

    yield spool
    for each in made:
        each.close()


def test_offsets_stay_whatever_the_chunks_are(make: Make) -> None:
    kept, at = make(100), 0
    for size in (1, 7, CHUNK, 3 * CHUNK + 5, 0, 100_000):
        assert kept.append(numbered(at, size)) == at
        at += size
    assert (kept.begin, kept.size) == (0, at)
    for start, size in ((0, at), (CHUNK - 1, 2), (CHUNK, CHUNK), (2 * CHUNK - 3, 2 * CHUNK), (at - 4, 4)):
        assert kept.read(start, size) == numbered(start, size)
    assert kept.read(at - 4, 100) == numbered(at - 4, 4)
    assert kept.read(at, 5) == kept.read(at + 99, 5) == b""


def test_the_oldest_chunks_are_dropped(make: Make) -> None:
    kept = make(4)
    for at in range(0, 10 * CHUNK, CHUNK // 2):
        kept.append(numbered(at, CHUNK // 2))
    assert (kept.begin, kept.size) == (6 * CHUNK, 10 * CHUNK)
    assert kept.read(6 * CHUNK, 4 * CHUNK) == numbered(6 * CHUNK, 4 * CHUNK)
    for place in (0, 6 * CHUNK - 1):
        with pytest.raises(
            SpoolDropped, match=r"pipe.*: the bytes were dropped from the spool \(--spool"
        ) as caught:
            kept.read(place, 8)
        assert caught.value.offset == place


def test_spools_share_what_they_may_hold(make: Make) -> None:
    quota = Quota(4 * CHUNK)
    one, other = make(quota, "one"), make(quota, "other")
    one.append(numbered(0, 2 * CHUNK))
    other.append(numbered(0, 3 * CHUNK))
    assert (one.begin, other.begin) == (CHUNK, 0)
    one.append(numbered(2 * CHUNK, 2 * CHUNK))
    assert (one.begin, other.begin) == (2 * CHUNK, CHUNK)
    other.close()
    one.append(numbered(4 * CHUNK, 2 * CHUNK))
    assert one.read(2 * CHUNK, 4 * CHUNK) == numbered(2 * CHUNK, 4 * CHUNK)


def test_a_spool_that_lost_all_goes_on(make: Make) -> None:
    quota = Quota(2 * CHUNK)
    one, other = make(quota, "one"), make(quota, "other")
    one.append(numbered(0, 10))
    other.append(numbered(0, 4 * CHUNK))
    assert (one.begin, one.size) == (10, 10)
    assert one.append(numbered(10, 20)) == 10
    assert one.read(10, 20) == numbered(10, 20)
    with pytest.raises(SpoolDropped):
        one.read(9, 2)


def test_the_file_system_is_not_filled(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = make(8)
    kept.append(numbered(0, 3 * CHUNK))
    monkeypatch.setattr(spool_module, "spare_bytes", lambda _: CHUNK - 1)
    kept.append(numbered(3 * CHUNK, CHUNK))
    assert kept.begin == 3 * CHUNK


def test_a_full_file_system_costs_the_oldest_bytes_first(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    room = 2 * CHUNK

    def pwrite(fd: int, data: memoryview, offset: int, real: object = os.pwrite) -> int:
        if room < kept.size - kept.begin + len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        assert callable(real)
        return int(real(fd, data, offset))

    kept = make(8)
    monkeypatch.setattr(os, "pwrite", pwrite)
    kept.append(numbered(0, 5 * CHUNK))
    assert kept.begin == 3 * CHUNK
    room = CHUNK // 2
    with pytest.raises(OSError, match="No space left"):
        kept.append(bytes(CHUNK))


def test_nothing_is_left_in_the_directory(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert spool_directory() == str(tmp_path)
    kept = make(2)
    kept.append(bytes(CHUNK))
    assert not list(tmp_path.iterdir())


def test_large_files_go_where_they_belong(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    assert spool_directory() == "/var/tmp"
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr("tempfile.tempdir", "/elsewhere")
    assert spool_directory() == "/elsewhere"


def test_a_reserve_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class System:
        f_frsize = 4096
        f_blocks = 10 << 20 >> 12
        f_bavail = 3 << 20 >> 12

    monkeypatch.setattr(os, "statvfs", lambda _: System)
    assert spare_bytes("/") == 2 << 20
    System.f_blocks = 100 << 30 >> 12
    assert spare_bytes("/") == (3 << 20) - (1 << 30)
