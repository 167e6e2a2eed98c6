"""Sequential byte sources of a capture: files, growing files, pipes.

A feed is read once, from its start. A live feed waits for its writer; a :class:`StopSignal` ends the waiting.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import BinaryIO, Protocol

GATHER = 0.05
"""Seconds to keep reading a pipe after bytes arrive: many packets at once cost little more than one."""
GRACE = 0.5
"""Seconds to keep reading a stopped pipe: tcpdump writes its last packets when Ctrl-C ends it too."""
POLL = 0.1
"""Seconds between checks of a file that is being written."""
GONE = 1.0
"""Seconds without new bytes after which a moved or deleted file counts as finished."""


class Feed(Protocol):
    """A sequential byte source."""

    @property
    def damage(self) -> str:
        """Why it ended early, in words, or empty."""

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; wait for the first of them; return nothing at the end, or when stopped."""

    def consumed(self) -> float | None:
        """Return the fraction of the available bytes that has been read, None if their number is unknown."""


class StopSignal:
    """A request to end a live feed, made by any thread or signal handler.

    :ivar requested: whether the request was made
    """

    def __init__(self) -> None:
        self.requested = False
        self._deadline = 0.0
        self._receiver, self._sender = os.pipe()

    def request(self) -> None:
        """Make the request; waiting readers wake up, and no longer wait."""
        if not self.requested:
            self._deadline = monotonic() + GRACE
            self.requested = True
            os.write(self._sender, b".")

    def sleep(self, seconds: float) -> None:
        """Wait `seconds`, or until stopped."""
        _wait_readable([self._receiver], seconds)

    def wait_readable(self, fd: int) -> bool:
        """Wait until `fd` can be read, or until :data:`GRACE` after the stop; return whether it can be read."""
        if not self.requested and fd in _wait_readable([fd, self._receiver], None):
            return True
        return bool(_wait_readable([fd], max(self._deadline - monotonic(), 0)))

    def close(self) -> None:
        os.close(self._receiver)
        os.close(self._sender)


def _wait_readable(fds: list[int], seconds: float | None) -> list[int]:
    """Return the file descriptors that can be read or have ended; wait for one, at most `seconds`."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(None if seconds is None else seconds * 1000)]


class FileFeed:
    """A complete file."""

    damage = ""

    def __init__(self, file: BinaryIO, size: int | None = None) -> None:
        self._file = file
        self._size = size
        self._read = 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._read += len(data)
        return data

    def consumed(self) -> float | None:
        return self._read / self._size if self._size else None


class PipeFeed:
    """A pipe, or another file that can be read only once."""

    damage = ""

    def __init__(self, fd: int, stop: StopSignal) -> None:
        self._fd = fd
        self._stop = stop

    def read(self, size: int) -> bytes:
        if not self._stop.wait_readable(self._fd):
            return b""
        parts = [os.read(self._fd, size)]
        size -= len(parts[0])
        deadline = monotonic() + GATHER
        while parts[-1] and size and _wait_readable([self._fd], max(deadline - monotonic(), 0)):
            parts.append(os.read(self._fd, size))
            size -= len(parts[-1])
        return b"".join(parts)

    def consumed(self) -> float | None:
        return None


class GrowingFileFeed:
    """A regular file that is still being written, followed by its descriptor as ``tail -f`` does.

    :param path: its name
    :param over: returns whether nothing more will be written to it, for example because another file has replaced it
    :ivar first: the byte at which the feed starts
    """

    damage = ""

    def __init__(
        self, fd: int, path: str, stop: StopSignal, over: Callable[[], bool] | None = None, first: int = 0
    ) -> None:
        self.first = first
        self._fd = fd
        self._path = path
        self._stop = stop
        self._over = over
        self._read = first
        self._lost_name: float | None = None

    def wait_beyond(self, size: int) -> int:
        """Return the size of the file once it exceeds `size`; `size` if it never will."""
        while (now := self._size_beyond(size)) is None:
            self._stop.sleep(POLL)
        return now

    def _size_beyond(self, size: int) -> int | None:
        """Return the size of the file if it exceeds `size`, `size` if it never will, None if it still may."""
        if self._stop.requested:
            return size
        over = self._over is not None and self._over()  # before the size, so that the size is final
        now = os.fstat(self._fd).st_size
        if now > size:
            return now
        if over:
            return size
        if now < size:
            self.damage = (
                f"the file was truncated to {now} bytes while it was followed: its former content can no longer "
                "be shown, and new content is not read"
            )
            return size
        if self._has_name():
            self._lost_name = None
        elif self._lost_name is None:
            self._lost_name = monotonic()
        elif monotonic() - self._lost_name > GONE:
            self.damage = (
                "the file was moved or deleted, and is no longer written to: following it ended here"
            )
            return size
        return None

    def read(self, size: int) -> bytes:
        return self._read_up_to(self.wait_beyond(self._read), size)

    def _read_up_to(self, known: int, size: int) -> bytes:
        data = os.pread(self._fd, min(size, known - self._read), self._read)
        self._read += len(data)
        return data

    def consumed(self) -> float | None:
        return None

    def _has_name(self) -> bool:
        try:
            return os.path.samestat(Path(self._path).stat(), os.fstat(self._fd))
        except OSError:
            return False


class PolledFileFeed(GrowingFileFeed):
    """One of several growing files that are read in turn: :meth:`read` does not wait.

    :ivar waiting: whether it returned nothing because more may still be written
    """

    waiting = False

    def read(self, size: int) -> bytes:
        known = self._size_beyond(self._read)
        self.waiting = known is None
        return b"" if known is None else self._read_up_to(known, size)
