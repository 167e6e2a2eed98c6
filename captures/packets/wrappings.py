"""What the bytes of a capture are wrapped in: compression, or a broker's request log.

The content of a feed is recognised by its first bytes, never by a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import msgspec
import zstandard
from isal import igzip_lib

from captures.packets.feeds import Feed, StopSignal
from captures.request_log.captured import CapturedExchanges
from captures.request_log.lines import REQUEST_LOG_MARK
from dissectors.budget import limit, shown

GZIP_MAGIC = b"\x1f\x8b"  # RFC 1952 section 2.3.1
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"  # RFC 8878 section 3.1.1
ZSTD_SKIPPABLE = tuple(bytes([0x50 + n]) + b"\x2a\x4d\x18" for n in range(16))  # RFC 8878 section 3.1.2
MAGIC_SIZE = 4

LEAST_HEADER = 24
"""Bytes of the shortest header of a capture, that of pcap."""

_CHUNK = 1 << 18
_LEAST_STEP = 64
_OUTPUT = 1 << 23  # target output of a step in bytes, by the ratio of the previous one
_PADDING = re.compile(rb"\0*")
_MAX_WRAPPINGS = 4


class _WrappedFeed:
    """A feed that reads from another one."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    @property
    def damage(self) -> str:
        return self._feed.damage

    def consumed(self) -> float | None:
        return self._feed.consumed()


class _ReplayedFeed(_WrappedFeed):
    """A feed that starts with bytes already read for inspection."""

    def __init__(self, head: bytes, rest: Feed) -> None:
        super().__init__(rest)
        self._head = head

    def read(self, size: int) -> bytes:
        if not self._head:
            return self._feed.read(size)
        data, self._head = self._head[:size], self._head[size:]
        return data


class _Decompressor(Protocol):
    """Common interface of both libraries for one gzip member or one zstd frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class Compression(msgspec.Struct, frozen=True):
    """A compression format.

    :ivar name: its name
    :ivar begin: starts a feed; returns a factory of decompressors, one for each member or frame in turn
    :ivar step: bytes decompressed at a time. Their output is held in memory, and lost if they are damaged: deflate
        expands a byte to up to a thousand, zstd to up to 32,000
    """

    name: str
    begin: Callable[[], Callable[[], _Decompressor]]
    step: int


GZIP = Compression("gzip", lambda: partial(igzip_lib.IgzipDecompressor, flag=igzip_lib.DECOMP_GZIP), 1 << 14)
ZSTD = Compression("zstd", lambda: zstandard.ZstdDecompressor().decompressobj, 1 << 12)

_FAULTS: tuple[type[Exception], ...] = (zstandard.ZstdError, igzip_lib.IsalError)  # type: ignore[assignment]  # isal's stub takes the class for an instance


def compression(magic: bytes) -> Compression | None:
    """Return the compression of a feed that starts with these four bytes, None if it is not compressed."""
    if magic.startswith(GZIP_MAGIC):
        return GZIP
    return ZSTD if magic == ZSTD_MAGIC or magic in ZSTD_SKIPPABLE else None


class _CountingFeed(_WrappedFeed):
    """A feed that counts its bytes.

    :ivar given: number of bytes read
    """

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed)
        self.given = 0

    def read(self, size: int) -> bytes:
        data = self._feed.read(size)
        self.given += len(data)
        return data


class _DecompressedFeed(_WrappedFeed):
    """The decompressed content of a feed: all members or frames, one after another.

    Damage ends it and is recorded; the bytes before it are valid. So does output far larger than that of any capture:
    more than ``file_ratio`` times the bytes of the file, once it exceeds ``file_ratio_from``.

    :param file: the bytes of the file, which may be compressed several times
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
        """Decompress the next bytes of the input; the output may be empty."""
        if self._at >= len(self._input):
            self._input, self._at = self._feed.read(_CHUNK), 0
            if not self._input:
                self._end("it ends early" if self._member is not None else "")
                return b""
        if self._member is None:
            rest = _PADDING.match(self._input, self._at)  # gzip(1) accepts padding too
            self._at = rest.end() if rest is not None else self._at
            self._member = self._next_member() if self._at < len(self._input) else None
            return b""
        # smaller steps towards the end: a wrong checksum loses the output of its step
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
        where = (
            f"stopped here: {self._how.name} data, {self._given:,} bytes of the first {self._file.given:,}"
        )
        self._fault = f"{where}, would go over the limit {shown('file_ratio')}"


REQUEST_LOG = "request log"
"""Name of a request log's format."""
HEAD_SIZE = 1 << 16
"""Bytes within which a request log has its first entry; longer than a line."""

_LINE_BEGINS = frozenset(bytes([each]) for each in b"[{0123456789")
_NO_TEXT = re.compile(rb"[\0-\x08\x0e-\x1a]")


def is_request_log(head: bytes) -> bool:
    """Return whether a feed is a request log, judging by its first :data:`HEAD_SIZE` bytes."""
    return REQUEST_LOG_MARK in head and _is_text(head)


def may_become_a_log(head: bytes, *, live: bool) -> bool:
    """Return whether more bytes may show that a feed is a request log; if not, it is treated as a capture.

    :param live: whether reading waits for the bytes, which only a head that looks like log lines justifies
    """
    if len(head) < MAGIC_SIZE:
        return True
    unknown = len(head) < HEAD_SIZE and REQUEST_LOG_MARK not in head and _is_text(head)
    return unknown and (not live or head[:1] in _LINE_BEGINS)


def _is_text(head: bytes) -> bool:
    """Return whether the bytes may be text: all capture files have control characters among their first bytes."""
    return _NO_TEXT.search(head[:LEAST_HEADER]) is None


def is_read_in_place(first: Callable[[int], bytes]) -> bool:
    """Return whether a file is read as it is: neither compressed nor a request log.

    :param first: returns the first n bytes; called for more than a header only if the file may be text
    """
    head = first(LEAST_HEADER)
    return compression(head[:MAGIC_SIZE]) is None and not (
        _is_text(head) and is_request_log(first(HEAD_SIZE))
    )


def unwrapped(feed: Feed, *, live: bool = False) -> tuple[Feed, str]:
    """Return the decompressed feed and its compression; request logs are converted to packets.

    :param live: whether it still grows
    """
    feed, wrappings = decompressed(feed)
    head = b""
    while may_become_a_log(head, live=live) and (more := feed.read(HEAD_SIZE - len(head))):
        head += more
    feed = _ReplayedFeed(head, feed)
    if is_request_log(head):
        return logs_as_packets({"": feed}, live=live), "+".join(filter(None, (wrappings, REQUEST_LOG)))
    return feed, wrappings


def logs_as_packets(
    logs: Mapping[str, Feed],
    *,
    live: bool = False,
    captured: CapturedExchanges | None = None,
    stop: StopSignal | None = None,
) -> Feed:
    """Return the packets made from several request logs together.

    :param logs: their bytes, by path
    :param live: whether they still grow
    :param captured: exchanges that need no packets of the log
    :param stop: given if they are polled while they grow
    """
    # imported here because it imports captures.export, which imports this package
    from captures.request_log.feed import RequestLogFeed

    return RequestLogFeed(logs, live=live, captured=captured, stop=stop)


def decompressed(feed: Feed) -> tuple[Feed, str]:
    """Return the feed, decompressed as often as it was compressed, and its compression: ``gzip``, ``gzip+zstd`` or
    empty.
    """
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
