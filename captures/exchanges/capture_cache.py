"""Read captures cached in a folder, so that they open at once the next time.

A part is a file: either the exchange table of a capture with everything beside it (:class:`ReadCapture`), or columns of
its messages, as builders export them (:meth:`~captures.exchanges.columns.builders.Builder.content`). Its name is a hash
of its origin: the files (device, inode, size, times of the last change), the version of the program, and its limits. A
part contains no record payload, but names of clients, topics and groups, and addresses; so only the owner may enter the
folder.

Parts are compressed MessagePack with arrays as they are in memory, after a checksum. They cannot contain code; a
corrupt part is removed and made again.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections import Counter
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from time import time_ns
from typing import Any

import msgspec
import numpy as np
import zstandard

from captures.arrays import Int64s
from captures.exchanges.checkpoints import Endpoint
from captures.exchanges.notes import NotesContent
from captures.exchanges.samples import Sample
from captures.exchanges.single import Skip
from captures.exchanges.table import ROW_BYTES
from captures.interventions import UpstreamBroker
from captures.packets import Source, Statistics
from dissectors.budget import IN_FORCE
from dissectors.units import SECOND

MOST_BYTES = 1 << 30
"""Size limit of the folder; the least recently used parts are removed."""
_FORMAT = 3
"""Version of the part format; to be increased with any change of the content."""
_AT_REST = 2 * SECOND
"""ns since the last change of a file after which another change certainly gets another timestamp."""
_LARGE = 4
"""Columns are cached if they cover at least one in so many exchanges; others are quick to compute."""
_ARRAY = 1
_DTYPE = 8
_DIGEST = 16
_SUFFIX = ".part"


class ReadCapture(msgspec.Struct, frozen=True):
    """The complete state of a capture that was read to its end.

    :ivar table: columns of the exchange table
    :ivar endpoints: by their number in the connections
    :ivar spans: of :class:`~captures.packets.observation.Observation`, like ``links``
    :ivar done: bytes that were read
    :ivar swapped: connections whose direction 1 is the client's
    :ivar runs: of the segment index, like ``chunks``
    """

    table: dict[str, Any]
    client_ids: list[str | None]
    connections: dict[str, Any]
    streams: dict[str, Any]
    endpoints: list[Endpoint]
    spans: dict[int, tuple[int, int]]
    links: list[tuple[int, int]]
    statistics: Statistics
    done: int
    latest: int
    copies: int
    swapped: list[int]
    skipped: list[Skip]
    foreign: dict[int, str]
    runs: dict[int, Any]
    chunks: dict[int, tuple[int, bytes]]
    notes: NotesContent
    samples: list[Sample]
    upstreams: dict[int, UpstreamBroker]


class CaptureCache:
    """The cached parts of one capture.

    If a part cannot be read or written, the capture is read as if there were no cache.

    :param folder: contains the parts of all captures; created if it does not exist, accessible only to its owner
    :param version: version of the program
    """

    def __init__(self, folder: Path, source: Source, version: str) -> None:
        self._folder = folder
        self._source = source
        self._exchanges = 0
        """Of the capture, once it was read to its end."""
        self._identities = source.identities()
        made_of = _FORMAT, version, sorted(IN_FORCE.items()), self._identities
        self._name = blake2b(repr(made_of).encode(), digest_size=_DIGEST).hexdigest()

    # ------------------------------------------------------------ captures
    def capture(self) -> ReadCapture | None:
        """Return the cached state of the capture; None if there is none."""
        found: ReadCapture | None = self._load("table", ReadCapture)
        self._exchanges = 0 if found is None else len(found.table["flags"])
        return found

    def store(self, capture: ReadCapture) -> None:
        """Cache a capture that was read to its end."""
        self._exchanges = len(capture.table["flags"])
        if self._exchanges * ROW_BYTES <= MOST_BYTES // 2:
            self._store("table", capture)

    # ------------------------------------------------------------ columns
    def column(self, need: str, rows: Int64s) -> Any:
        """Return the cached columns of a builder for `rows`; None if there are none."""
        return self._load(_of_rows(need, rows), Any) if self._is_large(rows) else None

    def store_column(self, need: str, rows: Int64s, content: Any) -> None:
        """Cache the columns of a builder for `rows` of the table."""
        if self._is_large(rows):
            self._store(_of_rows(need, rows), content)

    def _is_large(self, rows: Int64s) -> bool:
        """Return whether `rows` are a large part of a capture that was read to its end."""
        return 0 < self._exchanges <= _LARGE * len(rows)

    # ------------------------------------------------------------ files
    def _path(self, part: str) -> Path:
        return self._folder / f"{self._name}-{part}{_SUFFIX}"

    def _load(self, part: str, kind: Any) -> Any:
        path = self._path(part)
        if self._identities is None or not self._private():
            return None
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                if not _is_own(os.fstat(file.fileno())):
                    return None
                data = file.read()
            os.utime(path)  # parts in use are kept
        except OSError:
            return None
        try:
            if _digest(part, memoryview(data)[_DIGEST:]) != data[:_DIGEST]:
                raise ValueError
            plain = zstandard.ZstdDecompressor().decompress(memoryview(data)[_DIGEST:])
            return msgspec.msgpack.decode(plain, type=kind, dec_hook=_counter, ext_hook=_array)
        except (ValueError, TypeError, zstandard.ZstdError):  # msgspec raises ValueErrors
            with suppress(OSError):
                path.unlink()
            return None

    def _store(self, part: str, content: Any) -> None:
        if self._identities is None or self._source.identities() != self._identities:
            return
        latest = max(identity[-1] for identity in self._identities)
        if time_ns() - latest < _AT_REST:
            return
        try:
            plain = msgspec.msgpack.encode(content, enc_hook=_plain)
        except (ValueError, OverflowError):  # a comment may contain numbers that MessagePack does not support
            return
        data = zstandard.ZstdCompressor(level=1).compress(plain)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._private():
                return
            handle, name = tempfile.mkstemp(dir=self._folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_digest(part, data))
                    file.write(data)
                Path(name).replace(self._path(part))
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
            _remove_oldest(self._folder)
        except OSError:
            return

    def _private(self) -> bool:
        try:
            status = self._folder.lstat()
        except OSError:
            return False
        return stat.S_ISDIR(status.st_mode) and _is_own(status)


def _is_own(status: os.stat_result) -> bool:
    """Return whether only this user can have written the file or folder."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _remove_oldest(folder: Path) -> None:
    """Remove the least recently used files, including unfinished ones, until the folder is small enough."""
    found = []
    for each in os.scandir(folder):
        try:
            status = each.stat(follow_symlinks=False)
        except FileNotFoundError:  # another process removed it
            continue
        if stat.S_ISREG(status.st_mode):
            found.append((status.st_mtime_ns, status.st_size, each.path))
    size = sum(size for _, size, _ in found)
    for _, less, path in sorted(found):
        if size <= MOST_BYTES:
            break
        Path(path).unlink(missing_ok=True)
        size -= less


def _of_rows(need: str, rows: Int64s) -> str:
    """Return the name of the part with columns of some rows."""
    return f"{need.replace(' ', '-')}-{blake2b(rows.tobytes(), digest_size=_DIGEST).hexdigest()}"


def _digest(part: str, data: Any) -> bytes:
    return blake2b(data, key=part.encode()[:64], digest_size=_DIGEST).digest()


def _plain(value: Any) -> Any:
    """Return the MessagePack form of a numpy array or scalar."""
    if isinstance(value, np.ndarray):
        return msgspec.msgpack.Ext(_ARRAY, value.dtype.str.encode().ljust(_DTYPE) + value.tobytes())
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a cached part cannot contain {type(value).__name__}")


def _array(_: int, data: memoryview) -> Any:
    return np.frombuffer(data, np.dtype(bytes(data[:_DTYPE]).decode().rstrip()), offset=_DTYPE)


def _counter(kind: type, counts: Any) -> Any:
    return Counter(counts)
