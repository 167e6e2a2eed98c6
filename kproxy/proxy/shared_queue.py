"""A bounded queue of messages from one process to another, in shared memory, that makes no system call per message.

One process puts, one other takes: no lock is needed, as each position is written by one side only. Positions count
bytes since the start and never decrease; modulo the size they are places in the area. A message is contiguous and
begins with its length, a multiple of eight; a length of zero means that the next message is at the start of the area,
because it did not fit into the rest.

Publication. The bytes of a message are written first, then the position after them. x86-64 makes stores visible in
the order in which they were made, and loads are ordered too (Intel SDM volume 3A, "Memory Ordering"; a separate store
after a copy by string instructions is seen after it, "Fast-String Operation and Out-of-Order Stores"), so nothing else
is needed there. Elsewhere both sides pass through the scheduler in between: ``sched_yield`` is a full memory barrier
(Linux, Documentation/scheduler/membarrier.rst). A position is stored as one aligned 64-bit word, never in halves.

Waking. The receiver stores the position at which it wants to be woken: none while it is busy, the next message when it
sleeps. The sender writes a byte into a pipe, the bell, only when a message goes beyond that position. A processor may
read that position before its own store of the put position is visible to others, so that both sides miss each other;
therefore the receiver checks once more a millisecond after it has stored its wish, when any such store is visible.

The bell ends when the sending process ends, however it did: so the receiver learns of it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import platform
import select
import tempfile

_HEAD = 4096  # bytes of positions, before the area
# words of 64 bits, each in a cache line of its own
_PUT, _TAKEN, _WAKE = 0, 8, 16
_NOWHERE = (1 << 64) - 1
_LENGTH = 4
_AT_THE_BEGINNING = bytes(_LENGTH)
_LEAST_SIZE = 1 << 12
_SLACK = 64  # bytes after the area: a whole header is read even if it is only a length of zero

_BATCH = 0.001
"""Seconds during which messages accumulate once the queue is empty, so that a busy sender does not ring for each."""
_STORED = 0.001
"""Seconds after which a store of the other process is certainly visible."""

_ORDERED = platform.machine() in ("x86_64", "AMD64", "i686", "s390x")


def _shared_memory(size: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("kproxy-tee")
    else:
        with tempfile.TemporaryFile(prefix="kproxy-tee-") as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd


class _End:
    """The part common to both ends: the area and the positions."""

    def __init__(self, memory: int) -> None:
        self.memory = mmap.mmap(memory, os.fstat(memory).st_size)
        self.size = len(self.memory) - _HEAD - _SLACK
        self._view = memoryview(self.memory)
        self._words = self._view[:_HEAD].cast("Q")

    @property
    def waiting(self) -> int:
        """Bytes that were put and not yet taken."""
        return self._words[_PUT] - self._words[_TAKEN]

    def _unmap(self) -> None:
        self._words.release()
        self._view.release()
        self.memory.close()


class Sender(_End):
    """The sending end. The caller writes a message at the place returned by :meth:`reserve`, then publishes it.

    :param size: bytes of the area, rounded up to a power of two
    :ivar memory: the shared memory, indexed by the places that :meth:`reserve` returns
    :ivar size: bytes of the area
    :ivar fds: file descriptors for the other process: the memory, and the bell
    """

    def __init__(self, size: int) -> None:
        area = 1 << (max(size, _LEAST_SIZE) - 1).bit_length()
        memory = _shared_memory(_HEAD + area + _SLACK)
        bell, self._ringer = os.pipe()
        os.set_blocking(self._ringer, False)
        os.set_blocking(bell, False)
        self.fds = memory, bell
        super().__init__(memory)
        self._words[_WAKE] = 1
        self._mask = area - 1
        self._put = self._next = 0
        self._limit = area  # position up to which there is known to be room

    def reserve(self, length: int, spare: int = 0) -> int:
        """Return the place for a message of `length` bytes, -1 if there is no room.

        :param length: a multiple of eight; the message has to begin with it, as a 32-bit number in native byte order
        :param spare: bytes that must stay free
        """
        position = self._put & self._mask
        begin = self._put
        left = self.size - position
        if left < length:
            begin += left
        if begin + length + spare > self._limit:
            self._limit = self._words[_TAKEN] + self.size
            if begin + length + spare > self._limit:
                return -1
        if begin != self._put:
            self.memory[_HEAD + position : _HEAD + position + _LENGTH] = _AT_THE_BEGINNING
            position = 0
        self._next = begin + length
        return _HEAD + position

    def publish(self) -> None:
        """Make the message just written visible to the receiver."""
        if not _ORDERED:
            os.sched_yield()
        self._put = self._words[_PUT] = self._next
        if not _ORDERED:
            os.sched_yield()
        if self._next >= self._words[_WAKE]:
            self._ring()

    def _ring(self) -> None:
        self._words[_WAKE] = _NOWHERE
        with contextlib.suppress(BlockingIOError):  # the pipe is full: the bell is ringing already
            os.write(self._ringer, b"\0")

    def close(self) -> None:
        """Signal the end of messages, and release the memory."""
        if self._ringer < 0:
            return
        self._unmap()
        for fd in (*self.fds, self._ringer):
            os.close(fd)
        self._ringer = -1


class Receiver(_End):
    """The receiving end.

    :param memory: descriptor of the shared memory
    :param bell: descriptor of the reading end of the pipe
    :ivar memory: the shared memory, with the messages
    """

    def __init__(self, memory: int, bell: int) -> None:
        super().__init__(memory)
        self._bell = bell
        self._ended = False
        self._taken = self._words[_TAKEN]
        self._poll = select.poll()
        self._poll.register(bell, select.POLLIN)

    @property
    def view(self) -> memoryview:
        """The memory, for slices without a copy; release them before :meth:`close`."""
        return self._view

    @property
    def ended(self) -> bool:
        """Whether the other process has ended, or closed its end; there may be messages left."""
        if not self._ended:
            self._listen(0)
        return self._ended

    def available(self) -> tuple[int, int]:
        """Return the places between which there are whole messages; they are equal if there are none.

        More messages may exist after them. The last message may be a length of zero.
        """
        put = self._words[_PUT]
        if not _ORDERED:
            os.sched_yield()
        position = self._taken % self.size
        return _HEAD + position, _HEAD + min(position + put - self._taken, self.size)

    def take(self, position: int) -> None:
        """Free the room before a place within what :meth:`available` returned.

        :param position: where a message begins or ends, or where a length of zero is
        """
        self._taken += position - _HEAD - self._taken % self.size
        if not _ORDERED:
            os.sched_yield()
        self._words[_TAKEN] = self._taken

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for a message. Return False at the end, when none are left and no more will arrive.

        :param seconds: how long at most; True is returned then, or earlier, even if there is no message
        """
        if self._words[_PUT] != self._taken:
            return True
        if self._ended:
            return False
        self._words[_WAKE] = self._taken + self.size // 4
        self._listen(_BATCH)
        if self._words[_PUT] == self._taken and not self._ended:
            self._words[_WAKE] = self._taken + 1
            self._listen(_STORED)
            if self._words[_PUT] == self._taken and not self._ended:
                self._listen(seconds)
        self._words[_WAKE] = _NOWHERE
        return True

    def _listen(self, seconds: float | None) -> None:
        if self._poll.poll(None if seconds is None else seconds * 1000):
            with contextlib.suppress(BlockingIOError):
                self._ended = not os.read(self._bell, 64)

    def close(self) -> None:
        """Release the memory."""
        self._unmap()
        os.close(self._bell)
