"""Exchanges of a session written to a file while the session continues.

The engine decodes some exchanges at a time; a separate thread formats them and writes the file, so that neither the
display nor the user's selection waits for a disk. Packets are copied by the engine itself, in steps, since they are
read from the capture again. Nothing here depends on Textual.

The file appears under its name when it is complete; before that, and after a failure, it does not exist.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain, islice, repeat
from pathlib import Path
from typing import BinaryIO

from captures.arrays import Int64s
from captures.exchanges import Exchange
from captures.export.mermaid import MAX_EXCHANGES
from captures.packets import CaptureError
from captures.packets.joined_source import JoinedSource
from captures.private import reason_of
from dissectors.annotate import Annotations
from kproxy.export_files import Layout, WrittenPackets, packet_steps, replacing, write_exchanges
from kproxy.session import Session
from kproxy.session.access import Access
from kproxy.session.engine import ClosedError, Priority

_TOGETHER = 64
"""Exchanges that are decoded together."""
_STEP = 0.01
"""Seconds after which the engine may switch to another job."""


class ExportError(Exception):
    """Exchanges could not be written; the message says why."""


class _CancelledError(Exception):
    """The writing thread was asked to stop."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of an export.

    :ivar exchanges: number of exchanges
    :ivar size: bytes of the file
    :ivar notes: notes for the user
    """

    exchanges: int
    size: int
    notes: tuple[str, ...] = ()


class Export:
    """The export of one file.

    :param session: session of the exchanges
    :param numbers: the exchanges, in order; those no longer kept are left out
    :param path: path of the file, which is replaced if it exists
    :param layout: how they are written
    :param scrub: pcapng: blank what captures must not give away
    :param synthetic: pcapng: write synthetic TCP; always done for a growing capture
    :ivar progress: finished share of the work
    """

    def __init__(
        self,
        session: Session,
        numbers: Int64s,
        path: Path,
        layout: Layout,
        *,
        scrub: bool = False,
        synthetic: bool = False,
    ) -> None:
        self.progress = 0.0
        self._session = session
        self._numbers = numbers
        self._path = path
        self._layout = layout
        self._scrub = scrub
        self._synthetic = synthetic
        self._cancelled = threading.Event()

    async def run(self) -> ExportResult:
        """Write the file. If cancelled, no file remains.

        :raises ExportError: if it cannot be written
        """
        await self._session.run(self._check)
        try:
            if self._layout.format == "pcapng":
                written = await self._session.run(self._packets)
                exchanges, notes = written.exchanges, written.notes
            else:
                exchanges, notes = await asyncio.to_thread(self._write), ()
        except asyncio.CancelledError:
            self._cancelled.set()
            raise
        except (OSError, ImportError, ValueError, CaptureError, ClosedError) as error:
            raise ExportError(reason_of(error)) from error
        self.progress = 1.0
        return ExportResult(exchanges, self._path.stat().st_size, notes)

    def _check(self, access: Access) -> None:
        """Refuse to overwrite a capture that is being read."""
        for name in capture_files(access):
            if self._path.exists() and Path(name).exists() and self._path.samefile(name):
                raise ExportError(f"{self._path} is one of the captures that are shown")

    # ------------------------------------------------------------ exchanges, in a thread of their own
    def _write(self) -> int:
        with replacing(str(self._path)) as file:
            if self._layout.format == "mermaid":
                return self._draw(file)
            capture = self._session.submit(lambda access: access.capture, Priority.ASKED).result()
            return write_exchanges(capture, self._exchanges(), file, self._layout)

    def _draw(self, file: BinaryIO) -> int:
        """Write a diagram. The engine makes it, because it also reads the connections of the capture."""
        rest = max(len(self._numbers) - MAX_EXCHANGES, 0)
        self._numbers = self._numbers[:MAX_EXCHANGES]
        exchanges = [_without_bodies(exchange) for exchange in self._exchanges()]
        # the diagram counts those beyond the limit
        left_out = repeat(exchanges[-1], rest) if exchanges else ()
        out = BytesIO()

        def draw(access: Access) -> int:
            return write_exchanges(access.capture, chain(exchanges, left_out), out, self._layout)

        count = self._session.submit(draw, Priority.ASKED).result()
        file.write(out.getvalue())
        return count

    def _exchanges(self) -> Iterator[Exchange]:
        """Yield the exchanges; while some are written, the next are decoded."""
        done = 0
        numbers = iter(self._numbers.tolist())
        ahead = self._decoded(list(islice(numbers, _TOGETHER)))
        while True:
            made = ahead.result()
            chunk = list(islice(numbers, _TOGETHER))
            if chunk:
                ahead = self._decoded(chunk)
            for exchange in made:
                if self._cancelled.is_set():
                    raise _CancelledError
                yield exchange
            done += _TOGETHER
            self.progress = min(done / max(len(self._numbers), 1), 0.99)
            if not chunk:
                return

    def _decoded(self, numbers: Sequence[int]) -> Future[list[Exchange]]:
        def decode(access: Access) -> Generator[None, None, list[Exchange]]:
            made = []
            began = time.perf_counter()
            for exchange in access.exchanges(numbers, annotated=True):
                made.append(exchange)
                if time.perf_counter() - began > _STEP:
                    yield
                    began = time.perf_counter()
            return made

        return self._session.submit(decode, Priority.ASKED)

    # ------------------------------------------------------------ packets, in the engine
    def _packets(self, access: Access) -> Generator[None, None, WrittenPackets]:
        capture, first = access.capture, access.reader.first
        growing = capture.source.live and not self._session.status.finished
        with replacing(str(self._path)) as file:
            steps = packet_steps(
                capture,
                access.rows(self._numbers),
                file,
                scrub=self._scrub,
                synthetic=self._synthetic or growing,
            )
            began = time.perf_counter()
            while True:
                try:
                    done = next(steps)
                except StopIteration as end:
                    written: WrittenPackets = end.value
                    return written
                self.progress = min(done / max(capture.source.size, 1), 0.99)
                if time.perf_counter() - began > _STEP:
                    yield
                    if access.reader.first != first:
                        raise ExportError(
                            "the oldest exchanges were dropped meanwhile: mark or filter some, and write those"
                        )
                    began = time.perf_counter()


def capture_files(access: Access) -> list[str]:
    """Return the files that a session reads."""
    source = access.capture.source
    return [file.path for file in source.files] if isinstance(source, JoinedSource) else [source.path]


def _without_bodies(exchange: Exchange) -> Exchange:
    """Return an exchange with only what a diagram shows: many bodies would fill the memory."""
    return replace(exchange, request=None, response=None, annotations=Annotations())
