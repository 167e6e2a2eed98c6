"""Storage of a capture's bytes: a file that is read in place, or the spool of a feed."""

from __future__ import annotations

import os
from typing import Protocol

from captures.packets.feeds import Feed, GrowingFileFeed
from captures.packets.spool import Spool, fill
from captures.packets.wrappings import unwrapped
from captures.request_log.captured import CapturedExchanges

_AT_ONCE = 4 << 20
"""Maximum number of bytes read at once, so that a stop takes effect before the end of a large file."""


class Store(Protocol):
    """Storage of a capture's bytes: unless a class says otherwise, all are there, as they are in the file."""

    @property
    def size(self) -> int:
        """Bytes known so far."""

    @property
    def complete(self) -> bool:
        """Whether no more will arrive."""
        return True

    @property
    def expected(self) -> int | None:
        """Approximate final size in bytes, None if unknown."""
        return self.size

    @property
    def compression(self) -> str:
        """Their compression, or empty."""
        return ""

    @property
    def damage(self) -> str:
        """Why they ended early, or empty."""
        return ""

    def held(self, offset: int) -> bool:
        """Return whether a byte can still be read."""
        return True

    def wait_for(self, size: int) -> bool:
        """Wait until `size` bytes are available; return False if there will never be as many."""
        return self.size >= size

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`, as far as they are known."""

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` with the bytes known from `offset` on; return how many were read."""
        data = self.read(offset, len(buffer))
        buffer[: len(data)] = data
        return len(data)


class LocalFile(Store):
    """A local file read in place.

    :param growing: waits for more of it, None if it is complete
    """

    size = 0
    complete = False

    def __init__(self, fd: int, growing: GrowingFileFeed | None = None) -> None:
        self._fd = fd
        self._growing = growing
        self._first = 0 if growing is None else growing.first
        if growing is None:
            self.complete, self.size = True, os.fstat(fd).st_size

    @property
    def now(self) -> tuple[int, ...]:
        """What tells it from others, and from other versions of itself; the last is the time of its last change."""
        status = os.fstat(self._fd)
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    @property
    def damage(self) -> str:
        return "" if self._growing is None else self._growing.damage

    @property
    def expected(self) -> int | None:
        return self.size if self._growing is None else None

    def wait_for(self, size: int) -> bool:
        while self.size < size and not self.complete and self._growing is not None:
            known = self._growing.wait_beyond(self._first + self.size) - self._first
            self.complete = known == self.size
            self.size = min(known, self.size + _AT_ONCE)
        return self.size >= size

    def read(self, offset: int, size: int) -> bytes:
        offset += self._first
        data = os.pread(self._fd, size, offset)
        while len(data) < size:
            more = os.pread(self._fd, size - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def read_into(self, offset: int, buffer: memoryview) -> int:
        return fill(self._fd, self._first + offset, buffer)


class SpooledFeed:
    """A feed, and the spool that keeps its bytes.

    :param live: whether the feed still grows
    """

    def __init__(self, feed: Feed, spool: Spool, *, live: bool = False) -> None:
        self._feed, self.compression = unwrapped(feed, live=live)
        self._spool = spool
        self.complete = False
        self.read, self.read_into = spool.read, spool.read_into

    @property
    def size(self) -> int:
        return self._spool.size

    @property
    def damage(self) -> str:
        return self._feed.damage

    @property
    def expected(self) -> int | None:
        if self.complete:
            return self.size
        consumed = self._feed.consumed()
        return int(self.size / consumed) if consumed else None

    def match(self, captured: CapturedExchanges) -> None:
        """Match the exchanges of a request log with captured ones."""
        from captures.request_log.feed import (
            RequestLogFeed,
        )  # it imports captures.export, which imports this package

        assert isinstance(self._feed, RequestLogFeed)
        self._feed.match(captured)

    def held(self, offset: int) -> bool:
        return offset >= self._spool.begin

    def wait_for(self, size: int) -> bool:
        while self.size < size and not self.complete:
            data = self._feed.read(_AT_ONCE)
            self.complete = not data
            self._spool.append(data)
        return self.size >= size
