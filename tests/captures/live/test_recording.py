"""Recordings of another process: its files, their order, and its end. A lock stands for the writer."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from captures.live.recording import is_being_recorded, newest_first, open_recording
from captures.packets import CaptureError, files, read_packets
from tests.captures.packets import kit
from tests.waiting import PATIENCE


@contextmanager
def locked(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(fd)


def write(path: Path, *times: int) -> None:
    """A capture of packets at these times in ms; the payload identifies them."""
    records = [
        kit.Record(
            kit.packet(kit.CLIENT, kit.BROKER, 1 + 4 * at, 1, kit.ACK, b"%4d" % at), kit.T0 + at * kit.MS
        )
        for at in times
    ]
    blocks = [kit.enhanced(record.frame, record.time // 1000) for record in records]
    path.write_bytes(kit.section() + kit.interface() + b"".join(blocks))


def payloads(path: str, first: str = "") -> list[int]:
    with open_recording(path, first=first) as source:
        return [
            int(block.bytes_at(offset, 4))
            for block in read_packets(source)
            for offset in block.offset.tolist()
        ]


def test_the_lock_tells_whether_it_goes_on(tmp_path: Path) -> None:
    for name in ("a-00001.pcapng", "a-00002.pcapng"):
        write(tmp_path / name, 1)
    single, folder, pattern = str(tmp_path / "a-00002.pcapng"), str(tmp_path), str(tmp_path / "a-*.pcapng")
    assert not any(map(is_being_recorded, (single, folder, pattern)))
    with locked(tmp_path / "a-00002.pcapng"):
        assert [*map(is_being_recorded, (single, folder, pattern))] == [True, False, True]
    with locked(tmp_path / "a-00001.pcapng"):
        assert not is_being_recorded(pattern)
    with locked(tmp_path):
        assert is_being_recorded(folder)
    assert not is_being_recorded(str(tmp_path / "nothing"))


def test_files_follow_each_other_by_their_names(tmp_path: Path) -> None:
    """Whatever their times are: what was held is recorded later than it came. Numbers may have any length."""
    write(tmp_path / "a-99998.pcapng", 10, 11, 40)
    write(tmp_path / "a-99999.pcapng", 20, 41)
    write(tmp_path / "a-100000.pcapng", 5, 30)
    pattern = str(tmp_path / "a-*.pcapng")
    assert payloads(pattern) == [10, 11, 40, 20, 41, 5, 30]
    assert payloads(pattern, first="a-99999.pcapng") == [20, 41, 5, 30]
    assert Path(newest_first(pattern)[0]).name == "a-100000.pcapng"


@pytest.mark.slow
def test_the_end_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "1.pcapng", 1)
    found: list[list[int]] = []
    with locked(tmp_path):
        reader = threading.Thread(target=lambda: found.append(payloads(str(tmp_path))))
        reader.start()
        write(tmp_path / "2.pcapng", 2)
        reader.join(0.3)
        assert reader.is_alive()
        write(tmp_path / "3.pcapng", 3)
    reader.join(PATIENCE)
    assert found == [[1, 2, 3]]


def test_a_file_that_comes_while_it_is_opened_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "1.pcapng", 1)
    (tmp_path / "2.pcapng").touch()
    look = files._add_file

    def look_and_go_on(path: str, *arguments: Any, **options: Any) -> bool:
        found = look(path, *arguments, **options)
        if (
            path.endswith("2.pcapng") and not found
        ):  # its writer has just begun: it continues, and another file follows
            write(tmp_path / "2.pcapng", 2)
            write(tmp_path / "3.pcapng", 3)
        return found

    monkeypatch.setattr(files, "_add_file", look_and_go_on)
    assert payloads(str(tmp_path)) == [1, 2, 3]


def test_where_there_is_nothing_yet(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "a-*.pcapng", tmp_path / "a.pcapng"):
        with pytest.raises(CaptureError):
            open_recording(str(path))
