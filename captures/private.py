"""Files that hold what was said on the wire, or the keys to it: for their owner alone.

Recordings contain passwords, tokens and the records themselves. What writes them while they come in, and key logs,
opens its files here: mode 0600 whatever the umask is, an existing file is made so, and a symbolic link is not followed,
since any user who may write to the folder chooses where it leads.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_OTHERS = 0o077


def opened(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, or make it, for its owner alone; return the descriptor.

    Pipes and devices are opened as they are.

    :param flags: of ``os.open``: how to read and write, ``O_TRUNC``, ``O_APPEND``, ``O_EXCL``
    :raises OSError: also if it is a symbolic link, or a file that others may read and that is not ours to change
    """
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP and Path(path).is_symlink():
            reason = "it is a symbolic link, and what is secret goes to no place that a link names"
            raise OSError(error.errno, reason, os.fspath(path)) from None
        raise
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_mode & _OTHERS:
            _take_from_others(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _take_from_others(descriptor: int, path: str | os.PathLike[str]) -> None:
    try:
        os.fchmod(descriptor, 0o600)
    except OSError:
        reason = "others may read it, and only its owner can change that: name another file"
        raise OSError(errno.EPERM, reason, os.fspath(path)) from None


def make_folder(path: Path) -> None:
    """Make a folder for its owner alone, and what is missing above it likewise.

    :raises OSError: if it is there already, or cannot be made
    """
    missing = [each for each in reversed(path.parents) if not each.exists()]
    for each in missing:
        each.mkdir(mode=0o700, exist_ok=True)
    path.mkdir(mode=0o700)


def reason_of(error: BaseException) -> str:
    """Return why something failed: of a file, its name and what the system says."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
