"""The lock that lets only one run write to a folder of tables; others are refused before they start to work."""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

NAME = ".lock"


class FolderLockError(Exception):
    """Another run has the lock.

    :ivar holder: its process and host, in words; empty if unknown
    """

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class FolderLock:
    """Locks a folder on this machine, or on a network file system, until it is released or the process ends.

    The folder is created if it does not exist, and removed on release if it is still empty.

    :raises FolderLockError: if another run holds the lock
    :raises OSError: if the folder is not writable
    """

    def __init__(self, folder: str) -> None:
        self._place = Path(folder) / NAME
        self._file = -1
        self._made = [each for each in (self._place.parent, *self._place.parent.parents) if not each.exists()]
        self._place.parent.mkdir(parents=True, exist_ok=True)
        while not self._is_held():
            pass

    def release(self) -> None:
        """Release the lock."""
        if self._file < 0:
            return
        with suppress(OSError):  # the folder was removed
            self._place.unlink()
        os.close(self._file)
        self._file = -1
        with suppress(OSError):  # it contains tables
            for each in self._made:
                each.rmdir()

    def __del__(self) -> None:
        self.release()

    def _is_held(self) -> bool:
        """Try to acquire the lock; return False if the previous holder removed the lock file meanwhile."""
        file = os.open(self._place, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 200).decode(errors="replace")
            os.close(file)
            raise FolderLockError(holder) from None
        except OSError:
            pass  # the file system has no locks: the commit detects a second run
        if not self._place.exists() or not os.path.samestat(os.fstat(file), self._place.stat()):
            os.close(file)
            return False
        os.ftruncate(file, 0)
        os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
        self._file = file
        return True
