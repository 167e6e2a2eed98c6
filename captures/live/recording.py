"""A recording made by another process, read as it grows, until that process ends.

A recording continues as long as its writer holds a lock (flock): on the file, on the newest one of a series, or on the
folder of chunks. The system releases it when the writer ends, however it does, so leftovers are never mistaken for a
recording that continues.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from captures.packets.files import FileSeries, by_name, expanded, is_one_file
from captures.packets.joined_reader import open_succession
from captures.packets.source import Source
from captures.packets.spool import DEFAULT_SPOOL


def is_being_recorded(path: str) -> bool:
    """Return whether a process records to a file, a folder of chunks, or the newest file that matches a pattern."""
    names = [path] if is_one_file(path) or Path(path).is_dir() else newest_first(path)[:1]
    return any(_is_locked(name) for name in names)


def newest_first(path: str) -> list[str]:
    """Return the files of a recording, the newest first."""
    return sorted(expanded(path), key=by_name, reverse=True)


def open_recording(path: str, *, first: str = "", begin: int = 0, spool: int = DEFAULT_SPOOL) -> Source:
    """Open a recording; reading waits for more data, and ends when the recorder has ended.

    :param path: a file, a folder of chunks, or a pattern that matches the files of a series
    :param first: name, without its folder, of the first file of a folder or series to read; empty for all. Connections
        that began in an earlier file then lack their beginning
    :param begin: offset in a single file at which the recording begins, if it was appended to an older one
    :param spool: bytes kept of data that cannot be read twice
    :raises CaptureError: if there is nothing yet, or it cannot be read
    """
    return open_succession(
        path, FileSeries(lambda: not is_being_recorded(path), first), begin=begin, spool=spool
    )


def _is_locked(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
