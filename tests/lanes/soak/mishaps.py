"""Failures of the machine in the soak: changed clocks and full disks."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lanes.tools import CannotRun, run

_LIBRARY = "faketime/libfaketimeMT.so.1"
_PLACES = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
_KEPT = 3  # files of a series that may still be read or written
_MOVE_S = 5.0


class Clock:
    """The wall clock of some processes, set by libfaketime; their monotonic clock is unaffected.

    :param file: file with the offset, which the processes read every second
    :ivar env: environment variables for the processes
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)
        self.env = {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, seconds: int) -> None:
        """Move it by so many seconds."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.rename(self._file)


def _library() -> Path:
    """Return the path of libfaketime.

    :raises CannotRun: if it is not installed
    """
    for place in _PLACES:
        for path in sorted(Path(place).glob(f"**/{_LIBRARY}")):
            return path
    raise CannotRun("libfaketime is not installed (Debian: libfaketime)")


class SmallDisk:
    """A file system in memory whose finished files are continuously moved away, as a context manager.

    :param folder: mount point
    :param shelf: destination of the files
    :raises CannotRun: without the privileges to mount it
    """

    def __init__(self, folder: Path, shelf: Path, size: int) -> None:
        self.folder = folder
        self._shelf = shelf
        folder.mkdir(parents=True)
        shelf.mkdir(parents=True)
        run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0777", "none", folder])
        self._resting = threading.Lock()
        self._ended = threading.Event()
        self._mover = threading.Thread(target=self._move_away, daemon=True)
        self._mover.start()

    def __enter__(self) -> SmallDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Move all files away and unmount it."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._mover.join()
        self._move(0)
        run(["umount", self.folder])

    def _move_away(self) -> None:
        while not self._ended.wait(_MOVE_S):
            with self._resting:
                self._move(_KEPT)

    def _move(self, kept: int) -> None:
        files = sorted(self.folder.glob("*.pcapng"))
        for path in files[: len(files) - kept]:
            run(["mv", path, self._shelf / path.name])

    @contextmanager
    def full(self) -> Iterator[None]:
        """Fill it up during the block."""
        filler = self.folder / "filler"
        with self._resting:
            with filler.open("wb") as file:
                try:
                    while True:
                        os.posix_fallocate(file.fileno(), file.tell(), 1 << 16)
                        file.seek(1 << 16, os.SEEK_CUR)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
            try:
                yield
            finally:
                filler.unlink()
