"""Where the bytes of a capture come from, one after another: files, growing files, pipes, decompression.

A feed is read once, from its beginning. One that is live waits for its writer; a :class:`Stop` ends the waiting. The
first bytes of a feed show what it carries, never a name.
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import BinaryIO, Protocol

import zstandard
from isal import igzip_lib

from dissectors.budget import limit, shown

GZIP_MAGIC = b"\x1f\x8b"  # RFC 1952 section 2.3.1
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"  # RFC 8878 section 3.1.1
ZSTD_SKIPPABLE = tuple(bytes([0x50 + n]) + b"\x2a\x4d\x18" for n in range(16))  # RFC 8878 section 3.1.2
MAGIC_SIZE = 4

GATHER = 0.05
"""Seconds for which a pipe is read on, once bytes came: handling many packets at once costs little more than one."""
GRACE = 0.5
"""Seconds for which a stopped pipe is still read: tcpdump writes its last packets when Ctrl-C ends it too."""
POLL = 0.1
"""Seconds between two looks at a file that is being written."""
GONE = 1.0
"""Seconds without new bytes after which a file that has lost its name counts as finished."""

LEAST_HEADER = 24
"""Bytes of the shortest header of a capture, that of pcap."""

_CHUNK = 1 << 18
_LEAST_STEP = 64
_OUTPUT = 1 << 23  # bytes that a step may make, going by the one before
_PADDING = re.compile(rb"\0*")
_MAX_WRAPPINGS = 4


class Feed(Protocol):
    """Bytes in order."""

    @property
    def damage(self) -> str:
        """Why it ended early, in words, or empty."""

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; waits for the first of them; nothing at the end, or when stopped."""

    def consumed(self) -> float | None:
        """Which share of the bytes at hand has been read, None if their number is not known."""


class Stop:
    """The wish to end a live feed; any thread, or a signal handler, may utter it.

    :ivar requested: whether it was uttered
    """

    def __init__(self) -> None:
        self.requested = False
        self._deadline = 0.0
        self._receiver, self._sender = os.pipe()

    def request(self) -> None:
        """Wake waiting readers, for good."""
        if not self.requested:
            self._deadline = monotonic() + GRACE
            self.requested = True
            os.write(self._sender, b".")

    def sleep(self, seconds: float) -> None:
        """Wait that long, or until stopped."""
        _wait_readable([self._receiver], seconds)

    def wait_readable(self, fd: int) -> bool:
        """Wait until `fd` can be read, or until :data:`GRACE` has passed since the stop; False for that."""
        if not self.requested and fd in _wait_readable([fd, self._receiver], None):
            return True
        return bool(_wait_readable([fd], max(self._deadline - monotonic(), 0)))

    def close(self) -> None:
        """Give the file descriptors back."""
        os.close(self._receiver)
        os.close(self._sender)


def _wait_readable(fds: list[int], seconds: float | None) -> list[int]:
    """Which of the files can be read, or have ended; waits until one can."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(None if seconds is None else seconds * 1000)]


class FileFeed:
    """A file that is complete."""

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
    """A pipe, or anything else that gives its bytes once."""

    damage = ""

    def __init__(self, fd: int, stop: Stop) -> None:
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

    :param path: its name, None if it has none that is known
    :param over: tells whether nothing more will be written to it, as when another file has taken its turn
    :ivar first: the byte at which the feed begins
    """

    damage = ""

    def __init__(
        self, fd: int, path: str | None, stop: Stop, over: Callable[[], bool] | None = None, first: int = 0
    ) -> None:
        self.first = first
        self._fd = fd
        self._path = path
        self._stop = stop
        self._over = over
        self._read = first

    def wait_beyond(self, size: int) -> int:
        """The size of the file, as soon as it is more than `size`; `size` if it will not be."""
        lost_name: float | None = None
        while not self._stop.requested:
            over = self._over is not None and self._over()  # before the size, which then is the last
            now = os.fstat(self._fd).st_size
            if now > size:
                return now
            if over:
                return size
            if now < size:
                self.damage = (
                    f"the file was cut to {now} bytes while it was followed: what stood there can no longer be "
                    "shown, and what is written from now on is not read"
                )
                return size
            if self._has_name():
                lost_name = None
            elif lost_name is None:
                lost_name = monotonic()
            elif monotonic() - lost_name > GONE:
                self.damage = (
                    "the file was moved or deleted, and is no longer written to: following it ended here"
                )
                return size
            self._stop.sleep(POLL)
        return size

    def read(self, size: int) -> bytes:
        known = self.wait_beyond(self._read)
        data = os.pread(self._fd, min(size, known - self._read), self._read)
        self._read += len(data)
        return data

    def consumed(self) -> float | None:
        return None

    def _has_name(self) -> bool:
        if self._path is None:
            return True
        try:
            return os.path.samestat(Path(self._path).stat(), os.fstat(self._fd))
        except OSError:
            return False


class _WrappedFeed:
    """A feed that comes through another one."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    @property
    def damage(self) -> str:
        return self._feed.damage

    def consumed(self) -> float | None:
        return self._feed.consumed()


class _ReplayedFeed(_WrappedFeed):
    """A feed whose first bytes were already looked at."""

    def __init__(self, head: bytes, rest: Feed) -> None:
        super().__init__(rest)
        self._head = head

    def read(self, size: int) -> bytes:
        if not self._head:
            return self._feed.read(size)
        data, self._head = self._head[:size], self._head[size:]
        return data


class _Decompressor(Protocol):
    """What both libraries offer for one gzip member, or one zstd frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Compression:
    """A way to compress.

    :ivar name: what it is called
    :ivar begin: begins a feed; returns what makes a decompressor for each of its members, or frames, in turn
    :ivar step: bytes decompressed at a time. Their output is in memory, and lost where they are damaged: deflate makes
        up to a thousand bytes of one, zstd up to 32,000
    """

    name: str
    begin: Callable[[], Callable[[], _Decompressor]]
    step: int


GZIP = Compression("gzip", lambda: partial(igzip_lib.IgzipDecompressor, flag=igzip_lib.DECOMP_GZIP), 1 << 14)
ZSTD = Compression("zstd", lambda: zstandard.ZstdDecompressor().decompressobj, 1 << 12)

_FAULTS: tuple[type[Exception], ...] = (zstandard.ZstdError, igzip_lib.IsalError)  # type: ignore[assignment]  # isal's stub takes the class for an instance


def compression(magic: bytes) -> Compression | None:
    """How a feed is compressed that begins with these four bytes, None if it is not."""
    if magic.startswith(GZIP_MAGIC):
        return GZIP
    return ZSTD if magic == ZSTD_MAGIC or magic in ZSTD_SKIPPABLE else None


class _CountingFeed(_WrappedFeed):
    """A feed that knows how many bytes it gave.

    :ivar given: how many
    """

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed)
        self.given = 0

    def read(self, size: int) -> bytes:
        data = self._feed.read(size)
        self.given += len(data)
        return data


class _DecompressedFeed(_WrappedFeed):
    """What a compressed feed decompresses to: of all members, or frames, one after another.

    Damage ends it, and is noted: the bytes before are good. So does what decompresses to far more than any capture:
    more than ``file_ratio`` times the bytes of the file, once that is more than ``file_ratio_from``.

    :param file: the bytes of the file, which may be wrapped several times
    """

    def __init__(self, compressed: Feed, how: Compression, file: _CountingFeed) -> None:
        super().__init__(compressed)
        self._how = how
        self._next_member = how.begin()
        self._file = file
        self._given = 0
        self._step = how.step
        self._most = limit("file_ratio_from")
        self._member: _Decompressor | None = None
        self._input = b""
        self._at = 0
        self._output = memoryview(b"")
        self._fault = ""
        self._ended = False

    @property
    def damage(self) -> str:
        return "; ".join(filter(None, (super().damage, self._fault)))

    def read(self, size: int) -> bytes:
        parts: list[memoryview] = []
        while size and (part := self._part(size, wait=not parts)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _part(self, size: int, *, wait: bool) -> memoryview:
        while not self._output and not self._ended and (wait or self._at < len(self._input)):
            self._output = memoryview(self._decompress())
        part, self._output = self._output[:size], self._output[size:]
        return part

    def _decompress(self) -> bytes:
        """What the next bytes of the input decompress to, if anything yet."""
        if self._at >= len(self._input):
            self._input, self._at = self._feed.read(_CHUNK), 0
            if not self._input:
                self._end("it ends too early" if self._member is not None else "")
                return b""
        if self._member is None:
            rest = _PADDING.match(self._input, self._at)  # gzip(1) takes it too
            self._at = rest.end() if rest is not None else self._at
            self._member = self._next_member() if self._at < len(self._input) else None
            return b""
        # smaller towards the end, where a checksum may turn out wrong: what is decompressed with it is lost
        size = max(min(self._step, (len(self._input) - self._at) // 2), _LEAST_STEP)
        step = self._input[self._at : self._at + size]
        try:
            data = self._member.decompress(step)
        except _FAULTS as error:
            self._end(str(error))
            return b""
        self._at += len(step)
        if self._member.eof:
            self._at -= len(self._member.unused_data)
            self._member = None
        self._step = min(self._how.step, _OUTPUT * len(step) // max(len(data), 1))
        self._given += len(data)
        if self._given > self._most:
            self._most = max(limit("file_ratio_from"), limit("file_ratio") * self._file.given)
            if self._given > self._most:
                self._stop()
        return data

    def _end(self, fault: str) -> None:
        self._ended = True
        self._fault = f"{self._how.name} data is damaged: {fault}" if fault else ""

    def _stop(self) -> None:
        self._ended = True
        told = f"stopped here: {self._how.name} data, {self._given:,} bytes of the first {self._file.given:,}"
        self._fault = f"{told}, would go over the limit {shown('file_ratio')}"


REQUEST_LOG_MARK = b"Completed request:"
"""What an entry of a broker's request log begins with (``core/.../network/RequestChannel.scala``)."""
REQUEST_LOG = "request log"
"""What a feed is called that was one."""
HEAD_SIZE = 1 << 16
"""Bytes in which a request log has its first entry, and more than its first line."""

_LINE_BEGINS = frozenset(bytes([each]) for each in b"[{0123456789")
_NO_TEXT = re.compile(rb"[\0-\x08\x0e-\x1a]")


def is_request_log(head: bytes) -> bool:
    """Whether a feed is a request log, by its first :data:`HEAD_SIZE` bytes."""
    return REQUEST_LOG_MARK in head and _is_text(head)


def may_become_a_log(head: bytes, *, live: bool) -> bool:
    """Whether more bytes may show that a feed is a request log, or has to be looked at as a capture.

    :param live: whether they have to be waited for, which only what begins as lines of logs do is worth
    """
    if len(head) < MAGIC_SIZE:
        return True
    unknown = len(head) < HEAD_SIZE and REQUEST_LOG_MARK not in head and _is_text(head)
    return unknown and (not live or head[:1] in _LINE_BEGINS)


def _is_text(head: bytes) -> bool:
    """Whether it may be text: all capture files have control characters among their first bytes."""
    return _NO_TEXT.search(head[:LEAST_HEADER]) is None


def is_read_in_place(first: Callable[[int], bytes]) -> bool:
    """Whether a file is read as it is: neither compressed nor a request log.

    :param first: returns as many of its first bytes; only if it may be text, more than a header is asked for
    """
    head = first(LEAST_HEADER)
    return compression(head[:MAGIC_SIZE]) is None and not (
        _is_text(head) and is_request_log(first(HEAD_SIZE))
    )


def unwrapped(feed: Feed, *, live: bool = False) -> tuple[Feed, str]:
    """The feed decompressed, and how it was compressed; a request log as the packets that it becomes.

    :param live: whether it still grows
    """
    feed, wrappings = decompressed(feed)
    head = b""
    while may_become_a_log(head, live=live) and (more := feed.read(HEAD_SIZE - len(head))):
        head += more
    feed = _ReplayedFeed(head, feed)
    if is_request_log(head):
        return logs_as_packets([feed], live=live), "+".join(filter(None, (wrappings, REQUEST_LOG)))
    return feed, wrappings


def logs_as_packets(logs: Sequence[Feed], *, live: bool = False) -> Feed:
    """The packets that request logs become together.

    :param live: whether they still grow
    """
    # here, as it needs captures.export, which needs this package
    from captures.request_log.feed import RequestLogFeed

    return RequestLogFeed(logs, live=live)


def decompressed(feed: Feed) -> tuple[Feed, str]:
    """The feed decompressed, as often as it was compressed, and how it was: ``gzip``, ``gzip+zstd`` or empty."""
    wrappings: list[str] = []
    feed = file = _CountingFeed(feed)
    while True:
        head = b""
        while len(head) < MAGIC_SIZE and (more := feed.read(MAGIC_SIZE - len(head))):
            head += more
        feed = _ReplayedFeed(head, feed)
        how = compression(head)
        if how is None or len(wrappings) == _MAX_WRAPPINGS:
            return feed, "+".join(wrappings)
        wrappings.append(how.name)
        feed = _DecompressedFeed(feed, how, file)
