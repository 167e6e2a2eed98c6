"""Random access to the bytes of a capture, wherever they come from.

A plain file is read in place with ``pread``. A compressed file or standard input is first copied,
decompressed, into an unlinked temporary file, so that payload can stay on disk until someone looks. What a
file is, is told by its first bytes, never by its name.

Bytes that exist nowhere in the capture as one piece (a reassembled IP datagram, decrypted TLS) are put
beside it with :meth:`Source.keep`; they get offsets from :data:`KEPT` up and are read like all others.
"""

from __future__ import annotations

import os
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO

import zstandard
from isal import igzip

from captures.packets.errors import CaptureError

KEPT = 1 << 62
"""Offsets from here up address the bytes handed to :meth:`Source.keep`."""

GZIP_MAGIC = b"\x1f\x8b"  # RFC 1952 section 2.3.1
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"  # RFC 8878 section 3.1.1
ZSTD_SKIPPABLE = tuple(bytes([0x50 + n]) + b"\x2a\x4d\x18" for n in range(16))  # RFC 8878 section 3.1.2

_CHUNK = 1 << 20
_MAX_WRAPPINGS = 4


class Source:
    """The bytes of one capture. Takes `file` over; gives all back when closed, or no longer used.

    :ivar path: what the user gave, ``-`` for standard input
    :ivar size: bytes of the (decompressed) capture
    :ivar compression: ``gzip``, ``zstd``, both joined by ``+`` if nested, or empty
    :ivar damage: why decompression ended early, or empty; what came before that point is there
    """

    def __init__(self, path: str, file: IO[bytes], compression: str = "", damage: str = "") -> None:
        self.path = path
        self.compression = compression
        self.damage = damage
        self._fd = os.dup(file.fileno())  # a file of our own: closed with the last user of this source
        file.close()
        self._kept: IO[bytes] | None = None
        self._kept_size = 0
        self._open: list[Callable[[], None]] = [partial(os.close, self._fd)]
        # also at exit, when a __del__ would come too late to close anything
        self._give_back = weakref.finalize(self, _close_all, self._open)
        self.size = os.fstat(self._fd).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end of the capture.

        :raises CaptureError: if the file cannot be read
        """
        if offset >= KEPT:
            return b"" if self._kept is None else os.pread(self._kept.fileno(), size, offset - KEPT)
        try:
            data = os.pread(self._fd, size, offset)
            while len(data) < size:
                more = os.pread(self._fd, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise CaptureError(self.path, offset, error.strerror or str(error)) from error
        return data

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` from `offset`; returns the bytes read, fewer only at the end of the capture.

        :raises CaptureError: if the file cannot be read
        """
        done = 0
        try:
            while done < len(buffer):
                count = os.preadv(self._fd, [buffer[done:]], offset + done)
                if not count:
                    break
                done += count
        except OSError as error:
            raise CaptureError(self.path, offset + done, error.strerror or str(error)) from error
        return done

    def keep(self, data: bytes) -> int:
        """Store `data` beside the capture, in a temporary file; returns its offset for :meth:`read`."""
        if self._kept is None:
            self._kept = tempfile.TemporaryFile(prefix="kproxy-")  # noqa: SIM115  # close() closes it
            self._open.append(self._kept.close)
        place = self._kept_size
        view = memoryview(data)
        while view:
            written = os.pwrite(self._kept.fileno(), view, self._kept_size)
            self._kept_size += written
            view = view[written:]
        return KEPT + place

    def close(self) -> None:
        """Give the file descriptors back. Happens by itself when the source is forgotten."""
        self._give_back()
        self._fd = -1

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close_all(files: list[Callable[[], None]]) -> None:
    while files:
        files.pop()()


def open_source(path: str | os.PathLike[str]) -> Source:
    """Open a capture file, or standard input for ``-``; gzip and zstd are recognised by content.

    :raises CaptureError: if there is no such file, or it cannot be read or spooled
    """
    name = os.fspath(path)
    try:
        file: BinaryIO = sys.stdin.buffer if name == "-" else Path(name).open("rb")  # noqa: SIM115  # Source closes it
    except OSError as error:
        raise CaptureError(name, 0, error.strerror or str(error)) from error
    try:
        if name != "-" and file.seekable():
            spooled: IO[bytes] = file
        else:
            spooled = _copy(iter(lambda: file.read(_CHUNK), b""))
            if name != "-":
                file.close()
        return _unwrap(name, spooled)
    except OSError as error:
        raise CaptureError(name, 0, error.strerror or str(error)) from error


def _unwrap(name: str, file: IO[bytes]) -> Source:
    """Decompress until the content is no longer compressed; a compressed capture may be compressed again."""
    wrappings: list[str] = []
    damage: list[str] = []
    while len(wrappings) < _MAX_WRAPPINGS:
        magic = os.pread(file.fileno(), 4, 0)
        if magic.startswith(GZIP_MAGIC):
            wrappings.append("gzip")
            opened: Any = igzip.open(file, "rb")  # type: ignore[no-untyped-call]  # isal ships no types
        elif magic == ZSTD_MAGIC or magic in ZSTD_SKIPPABLE:
            wrappings.append("zstd")
            opened = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True, closefd=False)
        else:
            break
        file.seek(0)
        spooled = _copy(_chunks(opened, wrappings[-1], damage))
        file.close()
        file = spooled
    return Source(name, file, "+".join(wrappings), "; ".join(damage))


def _chunks(opened: Any, kind: str, damage: list[str]) -> Iterator[bytes]:
    """What `opened` decompresses to. Damage ends it, and is noted: the bytes before are good."""
    while True:
        try:
            chunk = opened.read(_CHUNK)
        except (EOFError, OSError, zlib.error, igzip.BadGzipFile, zstandard.ZstdError) as error:
            damage.append(f"{kind} data is damaged: {error}")
            return
        if not chunk:
            return
        yield chunk


def _copy(chunks: Iterator[bytes]) -> IO[bytes]:
    spool = tempfile.TemporaryFile(prefix="kproxy-")  # noqa: SIM115  # Source closes it
    try:
        for chunk in chunks:
            spool.write(chunk)
        spool.flush()
    except BaseException:
        spool.close()
        raise
    return spool
