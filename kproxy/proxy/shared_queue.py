"""A bounded queue of messages from one process to another, in shared memory, that makes no system call per message.

One process puts, one other takes: no lock is needed, as each position is written by one side only. Positions count
bytes since the beginning and never go back; modulo the size they are places in the area. A message lies in one piece
and begins with its length, a multiple of eight; a length of zero says that the next one is at the beginning of the
area, since it did not fit in what is left.

Publication. The bytes of a message are written first, then the position after them. x86-64 makes stores visible in
the order in which they were made, and loads likewise (Intel SDM volume 3A, "Memory Ordering"; a separate store after a
copy by string instructions is seen after it, "Fast-String Operation and Out-of-Order Stores"), so there nothing else is
needed. Elsewhere both sides pass through the scheduler in between: ``sched_yield`` is a full memory barrier (Linux,
Documentation/scheduler/membarrier.rst). A position is stored as one aligned 64-bit word, never in halves.

Waking. The taking side says at which position it wants to be woken: nowhere while it is busy, at the next message when
it sleeps. Only when a message goes beyond that, one byte is put into a pipe, the bell. A processor may look at that
wish before its own store of the position is visible to others, so that both sides miss each other; the taking side
therefore looks once more a millisecond after it has said so, by when that store cannot still be on its way.

The bell ends when the process that puts has ended, however it did: that is how the taking side learns of it.
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
_SLACK = (
    64  # bytes after the area: a header is read as a whole where there may be nothing but a length of zero
)

_BATCH = 0.001
"""Seconds for which messages gather once the queue is empty, so that a busy sender does not wake the reader for
each."""
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
    """What both ends have: the area and the positions."""

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
    """The end that puts. Its user writes a message at the place that :meth:`reserve` gives, then publishes it.

    :param size: bytes of the area, made a power of two
    :ivar memory: where messages are written, by the places that :meth:`reserve` gives
    :ivar size: bytes of the area
    :ivar fds: what the other process is to be given: the memory, and the bell
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
        self._limit = area  # up to which position there is room, as far as is known

    def reserve(self, length: int, spare: int = 0) -> int:
        """Return the place for a message of so many bytes, -1 if there is no room.

        :param length: a multiple of eight; the message has to begin with it, as a 32-bit number of this machine
        :param spare: bytes that are to stay free
        """
        place = self._put & self._mask
        begin = self._put
        left = self.size - place
        if left < length:
            begin += left
        if begin + length + spare > self._limit:
            self._limit = self._words[_TAKEN] + self.size
            if begin + length + spare > self._limit:
                return -1
        if begin != self._put:
            self.memory[_HEAD + place : _HEAD + place + _LENGTH] = _AT_THE_BEGINNING
            place = 0
        self._next = begin + length
        return _HEAD + place

    def publish(self) -> None:
        """Let the other side have the message that was written."""
        if not _ORDERED:
            os.sched_yield()
        self._put = self._words[_PUT] = self._next
        if not _ORDERED:
            os.sched_yield()
        if self._next >= self._words[_WAKE]:
            self._ring()

    def _ring(self) -> None:
        self._words[_WAKE] = _NOWHERE
        with contextlib.suppress(BlockingIOError):  # it rings already
            os.write(self._ringer, b"\0")

    def close(self) -> None:
        """Say that nothing more will come, and give the memory back."""
        if self._ringer < 0:
            return
        self._unmap()
        for fd in (*self.fds, self._ringer):
            os.close(fd)
        self._ringer = -1


class Receiver(_End):
    """The end that takes.

    :param memory: descriptor of the shared memory
    :param bell: descriptor of the reading end of the pipe
    :ivar memory: where the messages are
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
        """The memory, for slices without a copy; to be released before :meth:`close`."""
        return self._view

    @property
    def ended(self) -> bool:
        """Whether the other process has ended, or closed its end; there may be messages left."""
        if not self._ended:
            self._listen(0)
        return self._ended

    def available(self) -> tuple[int, int]:
        """Return the places from which and up to which there are whole messages, equal if there are none.

        There may be more behind. A length of zero is among them as the last one.
        """
        put = self._words[_PUT]
        if not _ORDERED:
            os.sched_yield()
        place = self._taken % self.size
        return _HEAD + place, _HEAD + min(place + put - self._taken, self.size)

    def take(self, place: int) -> None:
        """Give back the room of what comes before a place that :meth:`available` told, or within them.

        :param place: where a message begins or ends, or where a length of zero is
        """
        self._taken += place - _HEAD - self._taken % self.size
        if not _ORDERED:
            os.sched_yield()
        self._words[_TAKEN] = self._taken

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for a message; returns False at the end: none are left, and no more will come.

        :param seconds: how long at most; then, or sooner, True is returned though there may be no message
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
        """Give the memory back."""
        self._unmap()
        os.close(self._bell)
