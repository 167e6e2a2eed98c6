"""Work on a capture in several processes, with results in order.

An exchange is decoded from its own bytes; what earlier ones reveal about it, such as the names of topic IDs, every
process determines for itself. Processes are forked, so that they have the capture and its table without copying either.
The work is cut in the same shares for any number of processes, so that the results are the same too.

The table is made by one process. Two that read ranges of a capture (:mod:`captures.ranges`) would gain little by it: of
500 MB of steady traffic, one reading takes 1.1 s of the processor, two processes with ranges of 64 MiB 0.85 s each, and
the process that stitches connections 0.15 s, before it has joined the locations of stream bytes.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from captures.arrays import Int64s
from captures.exchanges.capture import Capture
from captures.exchanges.exchange import Exchange, ExchangeReader
from captures.exchanges.exchange_block import ExchangeBlock
from captures.faults import Faults
from captures.packets import CaptureError

E = TypeVar("E", bound=Exchange | ExchangeBlock)
if TYPE_CHECKING:
    from multiprocessing.connection import Connection

S = TypeVar("S")
T = TypeVar("T")

WORTH_PROCESSES = 32 << 20
"""Size of a capture in bytes from which starting several processes pays, unless the user asks for them."""
_SHARE = 1 << 22
"""Size of a share, in bytes of frames."""
_WORTH_IT = 2
"""Number of shares from which starting a process pays."""
_AHEAD = 8 << 20
"""Bytes of results buffered per process while others are awaited; beyond that the process blocks."""
_KILLED = "a process that decoded it was killed, perhaps for want of memory"
_EACH = 1024
"""Fixed cost of an exchange, in bytes of frames with the same cost."""


def in_parallel(
    reader: ExchangeReader,
    indexes: Int64s,
    work: Callable[[Iterable[E]], Iterable[T]],
    several: Callable[[Sequence[int]], Iterable[E]] | None = None,
) -> Generator[T, None, None]:
    """Decode exchanges and yield what ``work`` returns for them, share by share, in order.

    :param indexes: indexes for :meth:`ExchangeReader.exchange`, increasing
    :param several: decodes exchanges, one by one or in blocks; default: :meth:`ExchangeReader.several`
    :param work: called with the exchanges of one share; yields items, which must be picklable
    :raises CaptureError: if a process was killed; exceptions of ``work`` are raised here
    """
    decoded: Callable[[Sequence[int]], Iterable[Any]] = several or reader.several
    shares = shares_of(reader, indexes)
    return in_processes(reader.capture, shares, lambda share: work(decoded(share.tolist())))


def in_processes(
    capture: Capture, shares: Sequence[S], work: Callable[[S], Iterable[T]]
) -> Generator[T, None, None]:
    """Yield what ``work`` returns for the shares of a capture, in order, computed by :attr:`Capture.jobs` processes.

    A few MiB of results per process are buffered, so memory grows neither with the capture nor with a share.

    :param work: called with one share; yields items, which must be picklable
    :raises CaptureError: if a process was killed; exceptions of ``work`` are raised here
    """
    jobs = jobs_for(capture, len(shares))
    if jobs < 2:
        for share in shares:
            yield from work(share)
        return
    from multiprocessing import get_context  # imported late, as one process does not need it

    context = get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(jobs)]
    workers = [
        context.Process(target=_serve, args=(pipes, number, shares[number::jobs], capture, work), daemon=True)
        for number in range(jobs)
    ]
    try:
        for worker in workers:
            worker.start()
        for _, sending in pipes:
            sending.close()
        results = _Results([receiving for receiving, _ in pipes])
        for number in range(len(shares)):
            while True:
                try:
                    pieces, faults, error = results.next(number % jobs)
                except EOFError:
                    raise CaptureError(capture.source.path, 0, _KILLED) from None
                if error is not None:
                    raise error
                if faults is not None:
                    capture.faults.merge(faults)
                    break
                yield from pieces
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def jobs_for(capture: Capture, shares: int) -> int:
    """Return the number of processes for so many shares; 1 if this process does all the work."""
    return max(1, min(capture.jobs, shares // _WORTH_IT)) if hasattr(os, "fork") else 1


class _Results:
    """Buffers the messages of processes, so that none has to wait for its turn."""

    def __init__(self, pipes: list[Connection]) -> None:
        self._pipes = pipes
        self._waiting: list[deque[bytes]] = [deque() for _ in pipes]
        self._sizes = [0] * len(pipes)
        self._ended = [False] * len(pipes)

    def next(self, number: int) -> Any:
        """Return the next message of a process.

        :raises EOFError: if it has ended
        """
        waiting = self._waiting[number]
        while not waiting:
            if self._ended[number]:
                raise EOFError
            self._receive(number)
        data = waiting.popleft()
        self._sizes[number] -= len(data)
        return pickle.loads(data)  # noqa: S301  # from our own processes

    def _receive(self, wanted: int) -> None:
        """Wait for a message of one process; also receive those of others."""
        from multiprocessing.connection import wait

        asked = {
            pipe: number
            for number, pipe in enumerate(self._pipes)
            if not self._ended[number] and (number == wanted or self._sizes[number] < _AHEAD)
        }
        for pipe in wait(list(asked)):
            number = asked[pipe]  # type: ignore[index]
            try:
                data = self._pipes[number].recv_bytes()
            except EOFError:
                self._ended[number] = True
                continue
            self._waiting[number].append(data)
            self._sizes[number] += len(data)


def _serve(
    pipes: list[tuple[Connection, Connection]],
    number: int,
    shares: Sequence[S],
    capture: Capture,
    work: Callable[[S], Iterable[T]],
) -> None:
    """Work on the shares of one process."""
    # Ctrl-C is for the parent process, which terminates the others
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    capture.jobs = 1  # no nested processes
    sending = pipes[number][1]
    for other in (end for pipe in pipes for end in pipe if end is not sending):
        other.close()  # no process may hold a pipe open whose reader is gone
    try:
        for share in shares:
            capture.faults = Faults()
            for piece in work(share):
                sending.send(([piece], None, None))
            sending.send(([], capture.faults, None))
    except BrokenPipeError:
        return
    except Exception as error:
        sending.send(([], None, error))


def shares_of(reader: ExchangeReader, indexes: Int64s) -> list[Int64s]:
    """Split exchanges into shares of about equal decoding cost."""
    costs = np.cumsum(reader.sizes(indexes) + _EACH)
    return np.split(indexes, np.flatnonzero(np.diff(costs // _SHARE)) + 1) if len(indexes) else []


def processors() -> int:
    """Return the number of processors available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
