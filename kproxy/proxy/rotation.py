"""The files of a recording: one file, a series of files, or a folder of chunks of limited size.

* An existing file is appended to, as a section of its own. Files are readable only by their owner
  (:mod:`captures.private`), including existing ones.
* Only whole blocks are written. If writing fails, a partial block is cut off again, so that a file is always readable
  to its end; after SIGKILL, up to its last block.
* The writer holds a lock (flock) on the file, or on the folder of chunks, and releases it only when it has the lock of
  the next file. So a second writer is refused, and readers notice that a recording has ended, for whatever reason
  (:mod:`captures.live.recording`). The data plane holds a copy of the descriptor, and so of the lock: for readers the
  recording continues while one recorder replaces another, which gets that copy.
* Every file begins with a section header and an interface, so that each can be read by itself, and all together in
  order of their names.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from struct import Struct
from typing import BinaryIO

from captures.export.pcapng_writer import PcapngWriter, open_for_append
from captures.packets.pcapng import DROPPED_BY_SYSTEM, INTERFACE_STATISTICS
from captures.packets.spool import DEFAULT_SPOOL, spare_bytes

Buffers = Sequence[bytes | memoryview]
Begun = Callable[[Path, int], None]
"""Called with the path of each new file, and its previous size in bytes."""

_MOST_PIECES = os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in os.sysconf_names else 16
_BATCH, _LEAST_BATCH = 1 << 20, 1 << 12
_BATCHES = 16  # at least, in a full file, so that its size is close to the size asked for
_CHUNKS = 64  # in a full folder: a sixty-fourth of it is dropped at a time
_LEAST_CHUNK, _MOST_CHUNK = 1 << 16, 64 << 20
_LOCK_ATTEMPTS, _LOCK_PAUSE = 20, 0.01  # readers hold the lock for a moment to test it


class Output:
    """A recording in consecutive files. Subclasses choose their names.

    :param begun: called with each new file
    :param size: bytes after which another file begins, None for no bound
    :param seconds: after which another file begins, None for no bound
    :ivar batch: bytes to write at a time at most
    :ivar lock_fd: file descriptor that holds the lock; before the first file, that of an earlier recorder of the same
        run, or -1
    """

    def __init__(self, begun: Begun, *, size: int | None = None, seconds: float | None = None) -> None:
        self.lock_fd = -1
        self._begun = begun
        self._size = size
        self._seconds = seconds
        self._file: BinaryIO | None = None
        self._whole_bytes = 0
        self._due = 0.0
        self.batch = _BATCH if size is None else max(min(_BATCH, size // _BATCHES), _LEAST_BATCH)

    def open(self) -> None:
        """Begin the first file.

        :raises OSError: if it cannot be created, or another process writes to it
        :raises ValueError: if it exists and cannot be appended to
        """
        self._begin_file()

    def write(self, buffers: Buffers) -> None:
        """Write whole blocks, all or none of them.

        :raises OSError: if they cannot be written
        """
        if self._file is None or self._full():
            self._begin_file()
        assert self._file is not None
        fd = self._file.fileno()
        try:
            self._whole_bytes += _write_all(fd, buffers)
        except OSError:
            with suppress(OSError):
                os.ftruncate(fd, self._whole_bytes)
            raise

    def note_lost(self, packets: int, text: str) -> None:
        """Begin a section with a comment and the number of packets that were not recorded before it.

        The number is stored as interface statistics (dropped packets), which every reader knows.

        :raises OSError: if it cannot be written
        """
        if self._file is not None:
            self.write([_beginning(text) + _dropped(packets)])

    def close(self) -> None:
        """Close the files and release the lock."""
        self._leave_file()
        if self.lock_fd >= 0:
            os.close(self.lock_fd)
            self.lock_fd = -1

    def _leave_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _next_path(self) -> Path:
        """Return the path of the file to begin."""
        raise NotImplementedError

    def _file_begun(self, path: Path) -> None:
        """React to a new file."""

    def _full(self) -> bool:
        return (self._size is not None and self._whole_bytes >= self._size) or (
            self._seconds is not None and time.monotonic() >= self._due
        )

    def _begin_file(self) -> None:
        path = self._next_path()
        with ExitStack() as undo:
            if path.exists() and not path.is_file():
                raise OSError(errno.EINVAL, "not a regular file", str(path))
            file = undo.enter_context(open_for_append(path))
            self._lock(file, path)
            size = os.fstat(file.fileno()).st_size
            try:
                good = size + _write_all(file.fileno(), [_beginning()])
            except OSError:
                with suppress(OSError):
                    os.ftruncate(file.fileno(), size)
                raise
            undo.pop_all()
        self._leave_file()
        self._file, self._whole_bytes = file, good
        if self._seconds is not None:
            self._due = time.monotonic() + self._seconds
        self._begun(path, size)
        self._file_begun(path)

    def _lock(self, file: BinaryIO, path: Path) -> None:
        """Lock a new file.

        :raises OSError: if another process holds the lock
        """
        self._acquire(file.fileno(), path)

    def _acquire(self, fd: int, path: Path) -> None:
        if self.lock_fd < 0 or not os.path.samestat(os.fstat(self.lock_fd), os.fstat(fd)):
            lock(fd, path)
            self.lock_fd = os.dup(fd) if self.lock_fd < 0 else os.dup2(fd, self.lock_fd, inheritable=False)


class SingleFile(Output):
    """A recording in a single file."""

    def __init__(self, path: Path, begun: Begun) -> None:
        super().__init__(begun)
        self._path = path

    def _next_path(self) -> Path:
        return self._path


class Series(Output):
    """Numbered files: ``kafka.pcapng`` becomes ``kafka-00001.pcapng``, ``kafka-00002.pcapng`` and so on.

    Numbers continue after existing files of the same name.

    :param count: number of files kept: the newest, including those of earlier runs; None for all
    """

    def __init__(
        self,
        path: Path,
        begun: Begun,
        *,
        size: int | None = None,
        seconds: float | None = None,
        count: int | None = None,
    ) -> None:
        super().__init__(begun, size=size, seconds=seconds)
        self._path = path
        self._count = count

    def _next_path(self) -> Path:
        numbers = self._numbers()
        return self._numbered(numbers[-1] + 1 if numbers else 1)

    def _file_begun(self, path: Path) -> None:
        if self._count is not None:
            for number in self._numbers()[: -self._count]:
                self._numbered(number).unlink(missing_ok=True)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.stem}-{number:05}{self._path.suffix}")

    def _numbers(self) -> list[int]:
        name = re.compile(re.escape(self._path.stem) + r"-(\d{5,})" + re.escape(self._path.suffix))
        found = (name.fullmatch(each.name) for each in self._path.parent.iterdir())
        return sorted(int(match[1]) for match in found if match is not None)


class ChunkFolder(Output):
    """A folder of chunk files (``00000001.pcapng`` and so on) of limited total size; the oldest chunk is dropped.

    :param folder: created if it does not exist
    :param limit: bytes of all chunks, None for 8 GiB; at most half of the file system's free space
    """

    def __init__(self, folder: Path, begun: Begun, *, limit: int | None = None) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        room = max(spare_bytes(str(folder)) // 2, _CHUNKS * _LEAST_CHUNK)
        self._limit = min(DEFAULT_SPOOL if limit is None else limit, room)
        size = min(max(self._limit // _CHUNKS, _LEAST_CHUNK), _MOST_CHUNK)
        super().__init__(begun, size=size)
        self._folder = folder
        self._folder_fd = -1
        self._chunks = deque(sorted(folder.glob("*.pcapng")))

    def open(self) -> None:
        """Begin the first chunk.

        :raises OSError: if it cannot be created, or another process writes to the folder
        """
        self._folder_fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        self._acquire(self._folder_fd, self._folder)
        super().open()

    def write(self, buffers: Buffers) -> None:
        """Write whole blocks, dropping the oldest chunks as long as space is missing.

        :raises OSError: if they cannot be written even though all older chunks were dropped
        """
        while True:
            try:
                super().write(buffers)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not self._drop_oldest():
                    raise
            else:
                return

    def close(self) -> None:
        """Close the files and release the lock; the chunks stay."""
        super().close()
        if self._folder_fd >= 0:
            os.close(self._folder_fd)
            self._folder_fd = -1

    def _next_path(self) -> Path:
        assert self._size is not None
        while self._held_bytes() + self._size + self.batch > self._limit and self._drop_oldest():
            pass
        return self._folder / f"{int(self._chunks[-1].stem) + 1 if self._chunks else 1:08}.pcapng"

    def _file_begun(self, path: Path) -> None:
        self._chunks.append(path)

    def _lock(self, file: BinaryIO, path: Path) -> None:
        """Do nothing: the folder is locked."""

    def _held_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._chunks if path.exists())

    def _drop_oldest(self) -> bool:
        """Remove the oldest chunk, unless it is the only one; return whether one was removed."""
        if len(self._chunks) < 2:
            return False
        self._chunks.popleft().unlink(missing_ok=True)
        return True


def lock(fd: int, path: Path) -> None:
    """Lock a file or folder exclusively, until `fd` is closed.

    :raises OSError: if another process holds the lock
    """
    for attempt in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if attempt == _LOCK_ATTEMPTS - 1:
                raise OSError(errno.EBUSY, "another kproxy is recording to it", str(path)) from error
            time.sleep(_LOCK_PAUSE)
        else:
            return


_STATISTICS = Struct("<IIIIIHHQII")
"""An interface statistics block with one option (draft-ietf-opsawg-pcapng, section 4.6)."""
_STATISTICS_HEAD = (
    INTERFACE_STATISTICS,
    _STATISTICS.size,
    0,
    0,
    0,
    DROPPED_BY_SYSTEM,
    8,
)  # interface 0, no time


def _dropped(packets: int) -> bytes:
    return _STATISTICS.pack(*_STATISTICS_HEAD, packets, 0, _STATISTICS.size)


def _beginning(comment: str = "") -> bytes:
    """Return the blocks at the beginning of a section."""
    blocks = io.BytesIO()
    PcapngWriter(blocks, comment=comment).interface(name="kproxy", snapshot_length=0)
    return blocks.getvalue()


def _write_all(fd: int, buffers: Buffers) -> int:
    """Write all buffers; return the number of bytes."""
    rest, total = [memoryview(buffer) for buffer in buffers], 0
    while rest:
        count = os.writev(fd, rest[:_MOST_PIECES])
        total += count
        while rest and count >= len(rest[0]):
            count -= len(rest[0])
            rest.pop(0)
        if count:
            rest[0] = rest[0][count:]
    return total
