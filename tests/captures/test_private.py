"""Files and folders that only their owner can access."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from captures import private
from captures.export.pcapng_writer import open_for_append
from captures.live.ring import Ring

APPEND = os.O_WRONLY | os.O_APPEND


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    os.close(private.opened(tmp_path / "new", APPEND))
    assert mode(tmp_path / "new") == 0o600


def test_a_file_that_is_there_is_made_private_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "there"
    path.write_bytes(b"before")
    path.chmod(0o664)
    descriptor = private.opened(path, APPEND)
    assert mode(path) == 0o600
    os.write(descriptor, b" after")
    os.close(descriptor)
    assert path.read_bytes() == b"before after"


def test_what_cannot_be_made_private_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    path = tmp_path / "theirs"
    path.touch(0o666)
    monkeypatch.setattr(os, "fchmod", refuse)
    with pytest.raises(PermissionError, match="only its owner can change that"):
        private.opened(path, APPEND)
    path.chmod(0o600)
    os.close(private.opened(path, APPEND))


@pytest.mark.parametrize("there", [True, False])
def test_a_symbolic_link_is_not_followed(tmp_path: Path, there: bool) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    if there:
        target.write_bytes(b"victim")
        target.chmod(0o644)
    link.symlink_to(target)
    for flags in (APPEND, os.O_RDWR | os.O_TRUNC):
        with pytest.raises(OSError, match="it is a symbolic link"):
            private.opened(link, flags)
    assert target.exists() is there
    if there:
        assert (target.read_bytes(), mode(target)) == (b"victim", 0o644)


def test_pipes_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path, 0o644)
    os.close(private.opened(path, os.O_RDWR))
    assert mode(path) == 0o644


def test_folders_that_are_missing_are_made_private(tmp_path: Path) -> None:
    private.make_folder(tmp_path / "a" / "b")
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700
    with pytest.raises(FileExistsError):
        private.make_folder(tmp_path / "a")


def test_chunks_of_a_ring_and_recordings_that_are_appended_to(tmp_path: Path) -> None:
    ring = Ring(1 << 20, folder=tmp_path)
    ring.new_chunk()
    (chunk,) = tmp_path.iterdir()
    assert mode(chunk) == 0o600
    ring.finish()
    ring.close()
    path = tmp_path / "there.pcapng"
    path.touch(0o644)
    open_for_append(path).close()
    assert mode(path) == 0o600
