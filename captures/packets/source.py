"""Random access to the bytes of a capture, wherever they are stored.

A plain file is read in place with ``pread``, also while it is still being written (``follow``); so is a remote file
(:mod:`~captures.packets.remote`), in ranges. Input that cannot be read twice, a pipe or a compressed file, goes
through a bounded :class:`~captures.packets.spool.Spool`: it is pulled as the packets are read, and stays on disk until
it is needed. The type of a file is recognised by its first bytes, never by its name.

Bytes that exist nowhere in the capture as one piece (a reassembled IP datagram, decrypted TLS) are stored
beside it with :meth:`Source.keep`; they get offsets from :data:`KEPT` up and are read like all others.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from captures.packets import remote
from captures.packets.errors import CaptureError, SpoolDropped
from captures.packets.feeds import Feed, FileFeed, GrowingFileFeed, PipeFeed, PolledFileFeed, StopSignal
from captures.packets.pcap_over_ip import PcapOverIpFeed, is_pcap_over_ip
from captures.packets.spool import DEFAULT_SPOOL, Quota, Spool, spool_directory
from captures.packets.stores import LocalFile, SpooledFeed, Store
from captures.packets.wrappings import (
    HEAD_SIZE,
    MAGIC_SIZE,
    REQUEST_LOG,
    compression,
    decompressed,
    is_read_in_place,
    logs_as_packets,
    may_become_a_log,
)
from captures.request_log.captured import CapturedExchanges

KEPT = 1 << 62
"""Offsets from here up address the bytes stored by :meth:`Source.keep`."""


class Source:
    """The bytes of one capture. Closes its files when closed or garbage-collected.

    :param begin: opens the store of the bytes; for a live source it waits for the first of them
    :param closing: closes the files
    :param stop: ends waiting, None if the source is not live
    :ivar path: path given by the user, ``-`` for standard input
    """

    _store: Store | None = None
    _stop: StopSignal | None = None

    def __init__(
        self,
        path: str,
        begin: Callable[[Source], Store],
        quota: Quota,
        closing: ExitStack,
        stop: StopSignal | None = None,
    ) -> None:
        self.path = path
        self.quota = quota
        self._begin = begin
        self._stop = stop
        self._closing = closing
        self._kept = self._new_spool()
        # also at exit, when a __del__ would run too late to close anything
        self._close_files = weakref.finalize(self, closing.close)
        if not self.live:
            self._started()

    @property
    def live(self) -> bool:
        """Whether bytes arrive while it is read: a pipe, or a followed file."""
        return self._stop is not None

    @property
    def size(self) -> int:
        """Bytes of the (decompressed) capture known so far."""
        return 0 if self._store is None else self._store.size

    @property
    def complete(self) -> bool:
        """Whether no more bytes will arrive."""
        return self._store is not None and self._store.complete

    @property
    def growing(self) -> bool:
        return self.live and not self.complete

    @property
    def expected(self) -> int | None:
        """Approximate size when complete, None if unknown."""
        return None if self._store is None else self._store.expected

    @property
    def compression(self) -> str:
        """``gzip``, ``zstd``, both joined by ``+`` if nested, or empty; for a live source known once it is read."""
        return "" if self._store is None else self._store.compression

    @property
    def is_request_log(self) -> bool:
        """Whether it is a broker's request log; of a live source the beginning is awaited.

        :raises CaptureError: if it cannot be read
        """
        try:
            return self._started().compression.endswith(REQUEST_LOG)
        except OSError as error:
            raise _failure(self.path, 0, error) from error

    def match(self, captured: CapturedExchanges) -> None:
        """Match the exchanges of a request log, of which nothing was read yet, with captured ones."""
        store = self._started()
        assert isinstance(store, SpooledFeed)
        store.match(captured)

    @property
    def damage(self) -> str:
        """Why it ended early, or empty; the bytes before that point are available."""
        return "" if self._store is None or self.stopped else self._store.damage

    @property
    def stopped(self) -> bool:
        """Whether :meth:`stop` ended it, so that it may end anywhere."""
        return self._stop is not None and self._stop.requested

    def stop(self) -> None:
        """End a live source at its current position. Any thread or signal handler may call this."""
        if self._stop is not None and not self.complete:
            self._stop.request()

    def identities(self) -> list[tuple[int, ...]] | None:
        """What tells the files from any others, and from other versions of themselves, now; None if that is not known.

        It is of local files that are read in place. The last of each is the time of its last change, in ns.
        """
        store = self._store
        return [store.now] if isinstance(store, LocalFile) and store.complete and not self.live else None

    @property
    def beside(self) -> bool:
        """Whether some bytes are kept beside the capture."""
        return self._kept.size > 0

    def held(self, offset: int) -> bool:
        """Return whether a byte can still be read: False once its spool has dropped it."""
        if offset >= KEPT:
            return offset - KEPT >= self._kept.begin
        return self._store is None or self._store.held(offset)

    def wait_for(self, size: int) -> bool:
        """Wait until `size` bytes are available; return False if there will never be as many.

        :raises CaptureError: if the file cannot be read, or there is no room for the spool
        """
        return bool(self.read_into(size - 1, memoryview(bytearray(1))))

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer only at the end, or at the known end of a live source.

        Never waits.

        :raises SpoolDropped: if the spool no longer has them
        :raises CaptureError: if the file cannot be read
        """
        try:
            if offset >= KEPT:
                return self._kept.read(offset - KEPT, size)
            store = self._store
            if store is None:
                return b""
            if not store.complete and not self.live:
                store.wait_for(offset + size)
            return store.read(offset, size)
        except OSError as error:
            raise _failure(self.path, offset, error) from error

    def read_or_zeros(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes from `offset`, with zeros for those that can no longer be read.

        :raises CaptureError: if the file cannot be read
        """
        try:
            data = self.read(offset, size)
        except SpoolDropped:
            data = b""
        return data.ljust(size, b"\0")

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` from `offset`; return the number of bytes read.

        There are fewer only at the end of the capture; a live source may return fewer at any time, but waits for
        at least one.

        :raises SpoolDropped: if the spool no longer has them
        :raises CaptureError: if the file cannot be read, or there is no room for the spool
        """
        try:
            store, end = self._started(), offset + len(buffer)
            store.wait_for(offset + 1 if self.live else end)
            return store.read_into(offset, buffer[: max(store.size - offset, 0)])
        except OSError as error:
            raise _failure(self.path, offset, error) from error

    def keep(self, data: bytes) -> int:
        """Store `data` beside the capture, in a spool; return its offset for :meth:`read`.

        :raises CaptureError: if there is no room for it
        """
        try:
            return KEPT + self._kept.append(data)
        except OSError as error:
            raise _failure(self.path, self.size, error) from error

    def close(self) -> None:
        """Close the file descriptors. This also happens when the source is garbage-collected."""
        self._close_files()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _started(self) -> Store:
        if self._store is None:
            self._store = self._begin(self)
        return self._store

    def spooled(self, feed: Feed) -> Store:
        """Return a store of what a feed yields, in spools of this source."""
        return SpooledFeed(feed, self._new_spool(), live=self.live)

    def _new_spool(self) -> Spool:
        spool = Spool(self.path, self.quota)
        self._closing.callback(spool.close)
        return spool


def open_source(
    path: str | os.PathLike[str],
    *,
    follow: bool = False,
    over: Callable[[], bool] | None = None,
    first: int = 0,
    spool: int | Quota = DEFAULT_SPOOL,
) -> Source:
    """Open a capture file, or standard input for ``-``; gzip and zstd are recognised by content.

    :param path: a local path, or one with a scheme (:mod:`~captures.packets.remote`,
        :mod:`~captures.packets.pcap_over_ip`)
    :param follow: whether a regular file is still being written and is to be read as it grows; a pipe always is
    :param over: returns whether nothing more will be written to a followed file, for example because another has
        replaced it; called whenever nothing has arrived
    :param first: byte of a followed file at which the capture starts
    :param spool: number of bytes kept of input that cannot be read twice, or a quota that several sources share
    :raises CaptureError: if there is no such file, or it cannot be read or spooled; a live source is not
        read yet
    """
    name = remote.local(os.fspath(path))
    quota = spool if isinstance(spool, Quota) else Quota(spool)
    if remote.is_remote(name):
        if follow:
            raise CaptureError(name, 0, "a remote file cannot be followed while it is written")
        return _open_remote(name, quota)
    try:
        if is_pcap_over_ip(name):
            return _open_connection(name, quota)
        return _open_local(name, quota, over, follow=follow, first=first)
    except OSError as error:
        raise _failure(name, 0, error) from error


def open_logs(
    paths: Sequence[str], quota: Quota, captured: CapturedExchanges | None = None, *, follow: bool = False
) -> Source:
    """Open request logs of brokers as one capture: connections continue where a log was rotated.

    :param paths: local files
    :param captured: exchanges that need no packets of the logs
    :param follow: whether they are still being written and are to be read as they grow; compressed ones are complete
    :raises CaptureError: if one cannot be read
    """
    closing = ExitStack()
    stop = StopSignal() if follow else None
    if stop is not None:
        closing.callback(stop.close)
    feeds: dict[str, Feed] = {}
    for path in paths:
        try:
            file = closing.enter_context(Path(path).open("rb"))  # noqa: SIM115  # the stack closes it
        except OSError as error:
            closing.close()
            raise _failure(path, 0, error) from error
        feeds[path if len(paths) > 1 else ""] = _log_feed(path, file, stop)
    made = logs_as_packets(feeds, captured=captured, stop=stop)
    return Source(", ".join(paths), lambda source: source.spooled(made), quota, closing, stop)


def _log_feed(path: str, file: BinaryIO, stop: StopSignal | None) -> Feed:
    if stop is not None and compression(os.pread(file.fileno(), MAGIC_SIZE, 0)) is None:
        return PolledFileFeed(file.fileno(), path, stop)
    return decompressed(FileFeed(file, Path(path).stat().st_size))[0]


def _open_local(
    name: str, quota: Quota, over: Callable[[], bool] | None, *, follow: bool, first: int
) -> Source:
    closing = ExitStack()
    file = closing.enter_context(_file(name))
    try:
        fd = file.fileno()
    except io.UnsupportedOperation:  # standard input replaced by an embedding program
        return Source(name, lambda source: source.spooled(FileFeed(file)), quota, closing)
    mode = os.fstat(fd)
    # a file on standard input is read to its end: only of a named file can a reader see that it was replaced
    if stat.S_ISREG(mode.st_mode) and (name == "-" or not follow):
        return Source(name, partial(_read_file, file, mode.st_size), quota, closing)
    stop = StopSignal()
    closing.callback(stop.close)
    if stat.S_ISREG(mode.st_mode):
        growing = GrowingFileFeed(fd, name, stop, over, first)
        return Source(name, partial(_follow, fd, growing), quota, closing, stop)
    return Source(name, lambda source: source.spooled(PipeFeed(fd, stop)), quota, closing, stop)


def _open_connection(name: str, quota: Quota) -> Source:
    with ExitStack() as opened:
        stop = StopSignal()
        opened.callback(stop.close)
        feed = PcapOverIpFeed(name, stop)
        opened.callback(feed.close)
        return Source(name, lambda source: source.spooled(feed), quota, opened.pop_all(), stop)


def _open_remote(name: str, quota: Quota) -> Source:
    size = remote.status(name).size
    closing = ExitStack()

    def begin(source: Source) -> Store:
        store = remote.RemoteFile(name, size)
        if is_read_in_place(partial(store.read, 0)):
            return store
        file = remote.opened(name)
        closing.callback(file.close)
        return source.spooled(FileFeed(file, size))

    try:
        return Source(name, begin, quota, closing)
    except OSError as error:
        closing.close()
        raise _failure(name, 0, error) from error


def _file(name: str) -> BinaryIO:
    """Return the file, to be owned by the source; opening a named pipe does not wait for its writer."""
    if name == "-":
        try:
            return os.fdopen(os.dup(sys.stdin.buffer.fileno()), "rb")
        except io.UnsupportedOperation:
            return sys.stdin.buffer
    if not Path(name).is_fifo():
        return Path(name).open("rb")
    fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(fd, True)
    return os.fdopen(fd, "rb")


def _read_file(file: BinaryIO, size: int, source: Source) -> Store:
    fd = file.fileno()
    if is_read_in_place(lambda size: os.pread(fd, size, 0)):
        return LocalFile(fd)
    file.seek(0)  # another program may have read from standard input
    return source.spooled(FileFeed(file, size))


def _follow(fd: int, growing: GrowingFileFeed, source: Source) -> Store:
    size = growing.first
    while (
        may_become_a_log(head := os.pread(fd, HEAD_SIZE, growing.first), live=True)
        and (more := growing.wait_beyond(size)) > size
    ):
        size = more
    if is_read_in_place(lambda wanted: head[:wanted]):
        return LocalFile(fd, growing)
    return source.spooled(growing)


def _failure(path: str, offset: int, error: OSError) -> CaptureError:
    reason = error.strerror or str(error)
    if error.errno == errno.ENOSPC:
        reason = (
            f"no room for temporary files in {spool_directory()} ({reason}); name another place in TMPDIR"
        )
    return CaptureError(path, offset, reason)
