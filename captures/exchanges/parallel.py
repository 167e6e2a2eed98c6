"""Exchanges decoded in several processes at once, what is made of them in the right order.

An exchange is decoded from its own bytes; what earlier ones reveal about it, such as the names of topic IDs, every
process reads for itself. Processes are forked, so that they have the capture and its table without copying either.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import numpy as np

from captures.arrays import Int64s
from captures.exchanges.exchange import Exchange, ExchangeReader
from captures.faults import Faults
from captures.packets import CaptureError

T = TypeVar("T")

_SHARE = 1 << 20
"""What one process does before the next has its turn, in bytes of frames."""
_WORTH_IT = 2
"""Shares that make up for the starting of a process."""
_KILLED = "a process that decoded it was killed, perhaps for want of memory"
_EACH = 1024
"""What an exchange costs besides its bytes, in bytes that cost as much."""


def in_parallel(
    reader: ExchangeReader,
    indexes: Int64s,
    work: Callable[[Iterable[Exchange]], Iterable[T]],
    jobs: int | None = None,
) -> Generator[T, None, None]:
    """Decode exchanges and yield what ``work`` makes of them, share after share, in their order.

    No more than one piece for each process is under way, so memory does not grow with the capture, nor with a share.

    :param indexes: as :meth:`ExchangeReader.exchange` takes them, rising
    :param work: called with the exchanges of one share; yields pieces, which have to be picklable
    :param jobs: how many processes; default: one for each processor that this one may use
    :raises CaptureError: if a process was killed; what ``work`` raises is raised here
    """
    shares = _shares(reader, indexes)
    jobs = min(jobs or _processors(), len(shares) // _WORTH_IT)
    if jobs < 2 or "fork" not in get_all_start_methods():
        for share in shares:
            yield from work(reader.several(share.tolist()))
        return
    context = get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(jobs)]
    workers = [
        context.Process(target=_serve, args=(pipes, number, shares[number::jobs], reader, work), daemon=True)
        for number in range(jobs)
    ]
    try:
        for worker in workers:
            worker.start()
        for _, sending in pipes:
            sending.close()
        for number in range(len(shares)):
            yield from _pieces(pipes[number % jobs][0], reader)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _pieces(pipe: Connection, reader: ExchangeReader) -> Iterator[Any]:
    """Yield the pieces of one share."""
    while True:
        try:
            pieces, faults, error = pipe.recv()
        except EOFError:
            raise CaptureError(reader.capture.source.path, 0, _KILLED) from None
        if error is not None:
            raise error
        if faults is not None:
            reader.capture.faults.merge(faults)
            return
        yield from pieces


def _serve(
    pipes: list[tuple[Connection, Connection]],
    number: int,
    shares: list[Int64s],
    reader: ExchangeReader,
    work: Callable[[Iterable[Exchange]], Iterable[T]],
) -> None:
    """Do the shares of one process."""
    # Ctrl-C is for the process that shows the results; it ends the others
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sending = pipes[number][1]
    for other in (end for pipe in pipes for end in pipe if end is not sending):
        other.close()  # no process may keep a pipe open whose reader is gone
    try:
        for share in shares:
            reader.capture.faults = Faults()
            for piece in work(reader.several(share.tolist())):
                sending.send(([piece], None, None))
            sending.send(([], reader.capture.faults, None))
    except BrokenPipeError:
        return
    except Exception as error:
        sending.send(([], None, error))


def _shares(reader: ExchangeReader, indexes: Int64s) -> list[Int64s]:
    """Cut the work into shares of about equal cost."""
    costs = np.cumsum(reader.sizes(indexes) + _EACH)
    return np.split(indexes, np.flatnonzero(np.diff(costs // _SHARE)) + 1) if len(indexes) else []


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
