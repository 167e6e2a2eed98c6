"""Where the bytes of a capture lie: in a file that is read in place, or in the spool of a feed."""

from __future__ import annotations

import os
from typing import Protocol

from captures.packets.feeds import Feed, GrowingFileFeed, unwrapped
from captures.packets.spool import Spool, fill


class Store(Protocol):
    """Where the bytes of a capture lie."""

    @property
    def size(self) -> int:
        """Bytes known so far."""

    @property
    def begin(self) -> int:
        """Offset of the first that can still be read."""

    @property
    def complete(self) -> bool:
        """Whether no more will come."""

    @property
    def expected(self) -> int | None:
        """About how many bytes there will be at the end, None if unknown."""

    @property
    def compression(self) -> str:
        """How they were compressed, or empty."""

    @property
    def damage(self) -> str:
        """Why they ended early, or empty."""

    def more(self, wanted: int) -> None:
        """Wait for more bytes, about `wanted` if they are at hand, or for the end."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`, as far as they are known."""

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` from `offset` with what is known; returns the bytes read."""


class InPlace:
    """A file read where it is.

    :param growing: what waits for more of it, None if it is complete
    """

    compression = ""
    begin = 0

    def __init__(self, fd: int, growing: GrowingFileFeed | None = None) -> None:
        self._fd = fd
        self._growing = growing
        self.complete = growing is None
        self.size = 0 if growing is not None else os.fstat(fd).st_size

    @property
    def damage(self) -> str:
        return "" if self._growing is None else self._growing.damage

    @property
    def expected(self) -> int | None:
        return self.size if self._growing is None else None

    def more(self, wanted: int) -> None:
        if self._growing is not None:
            size = min(self._growing.wait_beyond(self.size), self.size + wanted)
            self.complete = size == self.size
            self.size = size

    def read(self, offset: int, size: int) -> bytes:
        data = os.pread(self._fd, size, offset)
        while len(data) < size:
            more = os.pread(self._fd, size - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def read_into(self, offset: int, buffer: memoryview) -> int:
        return fill(self._fd, offset, buffer)


class Rest:
    """What a store holds from a byte on, which becomes the first."""

    def __init__(self, store: Store, first: int) -> None:
        self._store = store
        self._first = first

    @property
    def size(self) -> int:
        return max(self._store.size - self._first, 0)

    @property
    def begin(self) -> int:
        return max(self._store.begin - self._first, 0)

    @property
    def complete(self) -> bool:
        return self._store.complete

    @property
    def expected(self) -> int | None:
        expected = self._store.expected
        return None if expected is None else max(expected - self._first, 0)

    @property
    def compression(self) -> str:
        return self._store.compression

    @property
    def damage(self) -> str:
        return self._store.damage

    def more(self, wanted: int) -> None:
        self._store.more(wanted + max(self._first - self._store.size, 0))

    def read(self, offset: int, size: int) -> bytes:
        return self._store.read(self._first + offset, size)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        return self._store.read_into(self._first + offset, buffer)


class SpooledFeed:
    """A feed, and the spool that keeps what it gave.

    :param live: whether the feed still grows
    """

    def __init__(self, feed: Feed, spool: Spool, *, live: bool = False) -> None:
        self._feed, self.compression = unwrapped(feed, live=live)
        self._spool = spool
        self.complete = False

    @property
    def size(self) -> int:
        return self._spool.size

    @property
    def begin(self) -> int:
        return self._spool.begin

    @property
    def damage(self) -> str:
        return self._feed.damage

    @property
    def expected(self) -> int | None:
        if self.complete:
            return self.size
        consumed = self._feed.consumed()
        return int(self.size / consumed) if consumed else None

    def more(self, wanted: int) -> None:
        data = self._feed.read(wanted)
        self.complete = not data
        self._spool.append(data)

    def read(self, offset: int, size: int) -> bytes:
        return self._spool.read(offset, size)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        return self._spool.read_into(offset, buffer)
