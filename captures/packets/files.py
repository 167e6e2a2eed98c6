"""The files that paths, patterns and folders stand for, in the order of their packets.

A folder stands for the captures directly in it, a pattern (``/var/tmp/kafka-*.pcap``, quoted so that the shell leaves
it alone) for the matching files; either may be remote (:mod:`~captures.packets.remote`). Both may contain
other files: those that are not captures are skipped and listed. A file named itself is an error if it is not a capture.
Captures are recognised by content, so it does not matter how tcpdump (``-C``, ``-G``, ``-W``) or dumpcap (``-b``)
numbered rotated files: they are ordered by their first packets.
"""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from captures.packets import remote
from captures.packets.clock_offsets import ClockOffset
from captures.packets.errors import CaptureError, NotACapture
from captures.packets.pcap_over_ip import is_pcap_over_ip
from captures.packets.reader import PacketReader, recognise
from captures.packets.source import Source, open_logs, open_source
from captures.packets.spool import Quota
from captures.packets.table import PADDING, Statistics
from captures.packets.wrappings import LEAST_HEADER
from captures.request_log.captured import CapturedExchanges

STANDARD_INPUT = "-"

LOG_SEGMENTS = "[0-9]" * 20 + ".log"
"""Pattern of a broker's log segments, which are not captures (:mod:`captures.log_segments`)."""
_HEAD = 1 << 16
"""Number of bytes first searched for the first packet."""


class CaptureFile(msgspec.Struct):
    """A capture file.

    :ivar path: its path, ``-`` for standard input
    :ivar size: bytes on disk, 0 if it is not a regular file
    :ivar identity: device and inode; for a remote file, an identity of the file and its version
    :ivar first_time: time of its first packet in ns, None if it has none
    :ivar source: the open file, if it is a pipe or followed
    :ivar reopened: whether it can be opened again
    :ivar clock: offsets to subtract from its times, one after another
    :ivar is_log: whether it is a broker's request log
    :ivar captured: for a log beside packets, the exchanges that have both
    :ivar lag: ns by which its packets are delayed in the merge, so that those of another host precede them
    """

    path: str
    size: int
    identity: tuple[int, int]
    first_time: int | None
    source: Source | None = None
    reopened: bool = True
    clock: tuple[ClockOffset, ...] = ()
    lag: int = 0
    is_log: bool = False
    captured: CapturedExchanges | None = None


class FoundFiles(msgspec.Struct):
    """The result of a search for captures.

    :ivar files: the captures, ordered by their first packets; those without packets are last
    :ivar unreadable: why others cannot be read
    :ivar passed_over: files in folders, or matched by patterns, that are not captures
    :ivar known: identities of the captures
    :ivar looked_at: paths that need no further look: captures, and files that have enough bytes for a header but
        are not captures
    """

    files: list[CaptureFile] = []
    unreadable: list[CaptureError] = []
    passed_over: list[str] = []
    known: set[tuple[int, int]] = set()
    looked_at: set[str] = set()


class FileStatus(msgspec.Struct, frozen=True):
    """Status of a file before it is read.

    :ivar size: in bytes
    :ivar changed: modification time in ns since the epoch; 0 if unknown
    :ivar identity: distinguishes it from other files
    :ivar regular: whether it supports random access and repeated reading
    """

    size: int
    changed: int
    identity: tuple[int, int]
    regular: bool

    @classmethod
    def of(cls, path: str) -> FileStatus:
        """Return the status of a file or of standard input.

        :raises OSError: if it does not exist
        :raises CaptureError: the same, for a remote file
        """
        if remote.is_remote(path):
            return cls(*remote.status(path), True)
        if is_pcap_over_ip(path):
            return cls(0, 0, (0, hash(path)), False)
        status = os.fstat(0) if path == STANDARD_INPUT else Path(remote.local(path)).stat()
        regular = path != STANDARD_INPUT and stat.S_ISREG(status.st_mode)
        return cls(status.st_size, status.st_mtime_ns, (status.st_dev, status.st_ino), regular)


def head_of(path: str, size: int) -> str:
    """Return the SHA-256, in hex, of the first bytes of a file, to recognise it again.

    :param size: number of these bytes
    :raises OSError: if it cannot be read
    :raises CaptureError: the same, for a remote file
    """
    if remote.is_remote(path):
        first = remote.RemoteFile(path, size).read(0, size)
    else:
        with Path(path).open("rb") as file:
            first = file.read(size)
    return hashlib.sha256(first).hexdigest()


def is_one_file(path: str) -> bool:
    """Return whether a path names a file itself (or standard input) instead of a folder or a pattern.

    :raises CaptureError: if it is remote and cannot be reached
    """
    return is_readable_once(path) or (not is_folder(path) and not _is_pattern(path))


def is_readable_once(path: str) -> bool:
    """Return whether a path can be read only once: standard input, or a connection."""
    return path == STANDARD_INPUT or is_pcap_over_ip(path)


def is_folder(path: str) -> bool:
    """Return whether a path names a folder.

    :raises CaptureError: if it is remote and cannot be reached
    """
    return remote.is_folder(path) if remote.is_remote(path) else Path(remote.local(path)).is_dir()


class FileSeries(msgspec.Struct, frozen=True):
    """Files that one program writes one after another, under names in the same order.

    :ivar over: returns whether that program has ended, so that nothing more will be written
    :ivar first: name, without its folder, of the first file to read; empty for all
    """

    over: Callable[[], bool]
    first: str = ""

    def wants(self, path: str) -> bool:
        return by_name(path) >= by_name(self.first)


def find_files(
    paths: Sequence[str],
    quota: Quota,
    succession: FileSeries | None = None,
    *,
    logs_beside_packets: bool = False,
    joined: bool = True,
    follow: bool = False,
) -> FoundFiles:
    """Find the captures that paths, patterns and folders stand for. Each file is found once.

    :param quota: storage for the bytes of pipes
    :param succession: given if the files are ordered by name
    :param logs_beside_packets: whether the reader matches request logs with packets; otherwise they are left out there
    :param joined: whether all request logs become one file, for reading
    :param follow: whether these are still being written and are to be read as they grow
    """
    found = FoundFiles()
    for path in map(remote.local, paths):
        try:
            _find(path, found, quota, succession)
        except CaptureError as error:  # a remote path that cannot be reached
            found.unreadable.append(error)
    _reject_logs_beside_packets(found, matched=logs_beside_packets)
    if joined:
        _join_logs(found, quota, follow=follow)
    _sort(found.files, succession)
    return found


def _reject_logs_beside_packets(found: FoundFiles, *, matched: bool) -> None:
    """Reject request logs beside packets: both may contain the same connections, which would be merged.

    :param matched: whether the reader matches them, which it does except with remote files
    """
    logs = [file for file in found.files if file.is_log]
    if all(file.is_log for file in found.files):
        return
    logs = [file for file in logs if not matched or remote.is_remote(file.path)]
    if not logs:
        return
    beside = next(file.path for file in found.files if not file.is_log)
    reason = (
        f"a request log is not read together with packets ({beside}), which may be of the same connections"
    )
    hint = "copy it to this machine" if matched else "read it by itself"
    found.unreadable += [CaptureError(file.path, 0, f"{reason}: {hint}") for file in logs]
    found.files[:] = [file for file in found.files if file not in logs]


def _join_logs(found: FoundFiles, quota: Quota, *, follow: bool) -> None:
    """Join all request logs into one file: where a log was rotated, connections continue in the next one.

    Beside packets it is read last, when captured exchanges are known. A log that can be read only once stays a file of
    its own.
    """
    logs = [file for file in found.files if file.is_log]
    captured = CapturedExchanges() if logs and len(logs) < len(found.files) else None
    for file in logs:
        if file.source is not None:
            if captured is None:
                file.first_time = first_time(file.source)
            else:
                file.captured = captured
                file.source.match(captured)
    logs = [file for file in logs if file.reopened and not remote.is_remote(file.path)]
    if not logs or (len(logs) < 2 and captured is None):
        return
    source = open_logs([file.path for file in logs], quota, captured, follow=follow)
    times = [file.first_time for file in logs if file.first_time is not None and captured is None]
    first = min(times, default=None)
    joined = CaptureFile(
        source.path, 0, logs[0].identity, first, source, reopened=False, is_log=True, captured=captured
    )
    found.files[:] = [file for file in found.files if file not in logs] + [joined]


def _find(path: str, found: FoundFiles, quota: Quota, succession: FileSeries | None) -> None:
    named = is_one_file(path)
    captures = sum(_add_file(name, found, quota, named=named) for name in _wanted_files(path, succession))
    if not captures and not named:
        folder = is_folder(path)
        what = "there is no capture in this folder" if folder else "no capture matches this pattern"
        if folder and any(Path(path).glob(LOG_SEGMENTS)):
            what += ", but log segments: kproxy records reads them"
        found.unreadable.append(CaptureError(path, 0, what))


class Rotation:
    """Folders and patterns to which captures are still added.

    :param paths: paths given by the user
    :param found: captures found so far; new ones are added to it
    :ivar succession: given if one program writes them in the order of their names
    """

    def __init__(
        self, paths: Sequence[str], found: FoundFiles, quota: Quota, succession: FileSeries | None = None
    ) -> None:
        self.succession = succession
        self._paths = [path for path in paths if not is_one_file(path)]
        self._found = found
        self._quota = quota

    def over(self) -> bool:
        """Return whether nothing more is written, neither to the newest file nor to others."""
        return self.succession is not None and self.succession.over()

    def look(self) -> bool:
        """Look for new captures; return whether there are any. A file that has no header yet is left for later."""
        known, looked_at = len(self._found.files), self._found.looked_at
        names = [name for path in self._paths for name in _wanted_files(path, self.succession)]
        for name in names:
            if name not in looked_at and _size(name) >= LEAST_HEADER:
                self._found.known.clear()  # a new file may have the inode of a deleted one
                if _add_file(name, self._found, self._quota, named=False) and name in self._found.passed_over:
                    self._found.passed_over.remove(name)  # it was empty at first
        new = self._found.files[known:]
        _sort(new, self.succession)
        self._found.files[known:] = new
        return bool(new)


def _sort(files: list[CaptureFile], succession: FileSeries | None) -> None:
    if succession is None:
        files.sort(key=lambda file: (file.first_time is None, file.first_time or 0))
        return
    files.sort(key=lambda file: by_name(file.path))
    for file in files:
        file.first_time = None  # it starts where the previous file ends, whatever its times are


def by_name(path: str) -> tuple[int, str]:
    """Return a key that sorts numbered names by their numbers: names with more digits last."""
    name = Path(path).name
    return len(name), name


def _size(path: str) -> int:
    try:
        return FileStatus.of(path).size
    except (OSError, CaptureError):  # deleted since it was listed
        return 0


def first_time(source: Source) -> int | None:
    """Return the time of the first packet of a capture in ns, None if it has none.

    :raises CaptureError: if it is not a capture
    """
    layout = recognise(source, Statistics())
    data, have, position = np.zeros(_HEAD + PADDING, np.uint8), 0, layout.start
    while True:
        count = source.read_into(position + have, data.data[have:-PADDING])
        if not count:
            return None
        have += count
        parsed = layout.parse(data, 0, have)
        if len(parsed.records):
            return int(parsed.records.time[0])
        if parsed.damaged:  # the reader finds packets after the damage
            return next((int(block.time[0]) for block in PacketReader(source, _HEAD) if len(block)), None)
        rest = data[parsed.end : have].copy()
        position, have = position + parsed.end, len(rest)
        if have == len(data) - PADDING:  # a block, such as one of secrets, that exceeds the buffer
            data = np.zeros(2 * have + PADDING, np.uint8)
        data[:have] = rest


def _is_pattern(path: str) -> bool:
    if remote.is_remote(path):
        return remote.is_pattern(path)
    return glob.has_magic(path) and not Path(path).exists()


def expanded(path: str) -> list[str]:
    """Return the files that a path stands for: those in a folder, those that match a pattern, or the one that it names.

    :raises CaptureError: if it is remote and cannot be reached
    """
    path = remote.local(path)
    if is_one_file(path):
        return [path]
    if remote.is_remote(path):
        return remote.listed(path)
    if Path(path).is_dir():
        return sorted(
            str(entry) for entry in Path(path).iterdir() if not entry.name.startswith(".") and entry.is_file()
        )
    names = sorted(glob.glob(path, recursive=True))  # noqa: PTH207  # Path.glob takes no absolute patterns
    return [name for each in names for name in (expanded(each) if Path(each).is_dir() else [each])]


def _wanted_files(path: str, succession: FileSeries | None) -> list[str]:
    """Return the files of a path that are to be read."""
    names = expanded(path)
    return names if succession is None else [name for name in names if succession.wants(name)]


def _add_file(path: str, found: FoundFiles, quota: Quota, *, named: bool) -> bool:
    """Add a file to `found`; return whether it is a capture, as far as known."""
    try:
        status = FileStatus.of(path)
        if status.size >= LEAST_HEADER:
            found.looked_at.add(path)
        if status.identity not in found.known:
            found.files.append(_open_file(path, status, quota))
            found.known.add(status.identity)
        found.looked_at.add(path)
    except NotACapture as error:
        if named:
            found.unreadable.append(error)
        else:
            found.passed_over.append(path)
        return False
    except CaptureError as error:
        return _unreadable(error, found, named=named)
    except OSError as error:
        return _unreadable(CaptureError(path, 0, error.strerror or str(error)), found, named=named)
    return True


def _unreadable(error: CaptureError, found: FoundFiles, *, named: bool) -> bool:
    """Record why a file cannot be read; a file deleted since it was listed is neither an error nor a capture."""
    if not named and not remote.is_remote(error.path) and not os.path.lexists(error.path):
        return False
    found.unreadable.append(error)
    return True


def _open_file(path: str, status: FileStatus, quota: Quota) -> CaptureFile:
    source = open_source(path, spool=quota)
    try:
        is_log = source.is_request_log
        # what was read of a log that can be read only once is no longer matched with packets
        time = None if is_log and not status.regular else first_time(source)
    except CaptureError:
        source.close()
        raise
    if status.regular:
        source.close()
        return CaptureFile(path, status.size, status.identity, time, is_log=is_log)
    return CaptureFile(path, 0, status.identity, time, source, reopened=False, is_log=is_log)
