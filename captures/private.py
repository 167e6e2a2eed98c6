"""Files with wire data or keys, readable only by their owner.

Recordings contain passwords, tokens and the records themselves. Code that writes them as they arrive, and code that
writes key logs, opens its files here: mode 0600 regardless of the umask, also for an existing file. Symbolic links are
not followed, because any user who may write to the folder could choose their target.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_OTHERS = 0o077


def opened(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, or create it, readable only by its owner; return the descriptor.

    Pipes and devices are opened as they are.

    :param flags: flags of ``os.open``: how to read and write, ``O_TRUNC``, ``O_APPEND``, ``O_EXCL``
    :raises OSError: also if it is a symbolic link, or others may read it and this process cannot change that
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
    """Create a folder accessible only by its owner, and missing parents in the same way.

    :raises OSError: if it exists already, or cannot be created
    """
    missing = [each for each in reversed(path.parents) if not each.exists()]
    for each in missing:
        each.mkdir(mode=0o700, exist_ok=True)
    path.mkdir(mode=0o700)


def reason_of(error: BaseException) -> str:
    """Return why something failed; for a file, its name and the system's message."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
