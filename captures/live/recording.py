"""What another process is recording, read as it grows, until that process has ended.

The mark of a recording that continues is a lock (flock) that its writer holds: on the file, on the newest one of a
series, or on the folder of chunks. The system takes it away when the writer ends, however it does, so nothing that is
left behind can be taken for a recording that continues.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from captures.packets.files import Succession, by_name, expanded, is_one_file
from captures.packets.joined_reader import open_succession
from captures.packets.source import Source
from captures.packets.spool import DEFAULT_SPOOL


def is_being_recorded(path: str) -> bool:
    """Whether a process is recording to a file, a folder of chunks, or the newest of the files that fit a pattern."""
    names = [path] if is_one_file(path) or Path(path).is_dir() else newest_first(path)[:1]
    return any(_is_locked(name) for name in names)


def newest_first(path: str) -> list[str]:
    """List the files of a recording, the newest first."""
    return sorted(expanded(path), key=by_name, reverse=True)


def open_recording(path: str, *, first: str = "", begin: int = 0, spool: int = DEFAULT_SPOOL) -> Source:
    """Open a recording; reading it waits for more, and ends when the recorder has ended.

    :param path: a file, a folder of chunks, or a pattern that the files of a series fit
    :param first: name of the first file of a folder or series that is to be read, without its folder; empty for all.
        Connections that began in an earlier one are met in their midst then
    :param begin: of a single file, the byte at which the recording begins: it may have been appended to older ones
    :param spool: how many bytes of what cannot be read twice are kept
    :raises CaptureError: if there is nothing yet, or it cannot be read
    """
    return open_succession(
        path, Succession(lambda: not is_being_recorded(path), first), begin=begin, spool=spool
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
