"""A capture as a table of exchanges, with access to the bytes of every frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np

from captures.arrays import Bools, Int64s, distinct_values
from captures.exchanges.bulk import Handover
from captures.exchanges.checkpoints import (
    CONNECTION_COLUMNS,
    NOWHERE,
    STREAM_COLUMNS,
    TAIL,
    ConnectionState,
    StreamState,
)
from captures.exchanges.conflicts import Conflicts
from captures.exchanges.decrypt import Decryption
from captures.exchanges.fair_lock import FairLock
from captures.exchanges.logged_exchanges import LoggedExchanges
from captures.exchanges.notes import Notes
from captures.exchanges.pairing import ExchangePairing
from captures.exchanges.reorder_barrier import ReorderBarrier
from captures.exchanges.samples import Samples
from captures.exchanges.single import Skip
from captures.exchanges.table import COLUMNS, ExchangeTable
from captures.faults import TOLD, Faults
from captures.interventions import NO_UPSTREAM, UpstreamBroker
from captures.names import Names
from captures.packets import (
    AddressBook,
    Connections,
    PacketBlock,
    SegmentBlock,
    SegmentIndex,
    Source,
    Statistics,
    TcpAssembler,
    open_files,
    read_packets,
)
from captures.packets.errors import DROPPED
from captures.packets.joined_source import JoinedSource, file_at
from captures.packets.reader import BLOCK_SIZE
from captures.packets.source import KEPT
from captures.packets.spool import DEFAULT_SPOOL
from captures.packets.tls import KeyLog
from dissectors.headers import SIZE_BYTES
from dissectors.sides import Side

if TYPE_CHECKING:
    from captures.exchanges.capture_cache import CaptureCache, ReadCapture
    from captures.exchanges.translated_connections import TranslatedConnections
    from captures.request_log.captured import LoggedExchange

_LATE = 1_000_000_000
#: called with bytes of the capture read so far, and its size or None if unknown
Progress = Callable[[int, int | None], None]


class Packets(Protocol):
    """A reader of the packets of a capture, with the state of :class:`~captures.packets.PacketReader`."""

    @property
    def addresses(self) -> AddressBook: ...

    @property
    def statistics(self) -> Statistics: ...

    @property
    def secrets(self) -> list[bytes]: ...

    @property
    def done(self) -> int: ...

    def __iter__(self) -> Iterator[PacketBlock]: ...


class NoPackets:
    """The packets of a capture that is fed in other ways."""

    def __init__(self, statistics: Statistics | None = None, done: int = 0) -> None:
        self.addresses = AddressBook()
        self.statistics = Statistics() if statistics is None else statistics
        self.secrets: list[bytes] = []
        self.done = done

    def __iter__(self) -> Iterator[PacketBlock]:
        return iter(())


class FrameBytes(msgspec.Struct):
    """The captured bytes of a frame.

    :ivar payload: the bytes after the size field, up to the first gap
    :ivar complete: whether the whole frame was captured
    :ivar have: offset of the first missing byte, from the first byte of the size field
    :ivar reason: why it is incomplete, in words
    """

    payload: bytes
    complete: bool
    have: int
    reason: str = ""


class Capture:
    """One capture file, read as far as the exchange table.

    :param block_size: bytes of the file that are read at a time; the table does not depend on it
    :param packets: reads the packets, if only some packets of the source are to be read
    :ivar table: the exchanges
    :ivar index: where the bytes of the streams are
    :ivar connections: the TCP connections
    :ivar assembler: reassembles their streams
    :ivar in_step: holds back segments that are ahead of the other direction
    :ivar decryption: the TLS connections
    :ivar pairing: pairs the exchanges of their streams
    :ivar notes: marks and comments of exchanges
    :ivar differing: bytes that were captured again with other content, whose exchanges are not complete yet
    :ivar samples: the kernel's TCP statistics of the connections, if a proxy has recorded them
    :ivar names: names of addresses, filled in by the code that shows the capture
    :ivar latest: time of the latest packet in ns since the epoch, 0 before the first
    :ivar faults: errors of this program that something in the capture triggered, noted here where they occur
    :ivar jobs: how many processes may work on the capture at once, once it is read; 1 unless the code that opens it
        says otherwise
    :ivar cache: cache of the finished reading, if there is one
    :ivar turns: held while anything here changes in :meth:`updates`; other threads that look at the capture meanwhile
        take it too
    """

    def __init__(
        self,
        source: Source,
        block_size: int = BLOCK_SIZE,
        *,
        keylog: KeyLog | None = None,
        packets: Packets | None = None,
    ) -> None:
        self.source = source
        self.table = ExchangeTable()
        self.index = SegmentIndex(source)
        self._packets: Packets = read_packets(source, block_size) if packets is None else packets
        self.assembler = TcpAssembler(self.index)
        self.in_step = ReorderBarrier()
        self._keylog = KeyLog() if keylog is None else keylog
        self.decryption = Decryption(source, self.index, self.assembler.connections, self._keylog)
        self.pairing = ExchangePairing(self.table, self.connections, self.decryption, self._note_unread)
        self._secrets = 0
        self._endpoints: dict[int, tuple[str, str]] = {}
        self._seen = 0
        self._unfinished: Int64s = np.empty(0, np.int64)
        self.notes = Notes(self.table, self.pairing.client_stream)
        self.table.intervened = lambda: self.notes.intervened()
        self.table.broker_logs = self.notes.broker_logs
        self.differing = Conflicts(self.table, self.pairing.client_stream)
        self.samples = Samples(self.connections)
        self.names = Names()
        self.latest = 0
        self.faults = Faults()
        self.jobs = 1
        self.cache: CaptureCache | None = None
        self.turns = FairLock()
        self._logged: LoggedExchanges | None = None
        for file in source.files if isinstance(source, JoinedSource) else ():
            if file.captured is not None:
                file.captured.take = self._take_log
                file.captured.released = self._released_logs
                self.table.by_time = True

    @property
    def connections(self) -> Connections:
        """The TCP connections seen so far."""
        return self.assembler.connections

    @property
    def skipped(self) -> list[Skip]:
        """Ranges of streams that belong to no frame, and why."""
        return self.pairing.skipped

    @property
    def foreign(self) -> dict[int, str]:
        """Connections that are not Kafka, and the protocol they resemble."""
        return self.pairing.foreign

    @property
    def addresses(self) -> AddressBook:
        """The endpoints seen so far."""
        return self._packets.addresses

    @property
    def statistics(self) -> Statistics:
        """Statistics of the packet reader so far."""
        return self._packets.statistics

    @property
    def done(self) -> int:
        """Bytes of the capture read so far; :attr:`Source.expected` is its size, if known."""
        return self._packets.done

    def read(self, progress: Progress | None = None) -> None:
        """Read the whole capture into the table, or restore it from the cache (:attr:`cache`).

        :raises CaptureError: if it is not a capture file
        """
        if self._restored():
            return
        for block in self._packets:
            self.take(block)
            if progress is not None:
                progress(self._packets.done, self.source.expected)
        self.end()
        self._store()

    def updates(self) -> Iterator[Int64s]:
        """Continue to read, block by block, and yield the rows of the table that each block completed.

        For captures that still grow: a row is yielded as soon as no expected part is missing; the rows of a block are
        ordered by the first bytes of their requests. At the end the rows that stayed unanswered are yielded. Empty
        arrays are yielded too, so that the caller can check the time. :attr:`turns` is held during each yield, and free
        while packets are awaited. With a request log beside packets all rows are yielded at the end, since the log may
        have exchanges before those of the packets.

        :raises CaptureError: if it is not a capture file
        """
        restored = self._restored()
        for block in () if restored else self._packets:
            with self.turns:
                self.take(block)
                if not self.table.by_time:
                    yield self._completed(int(block.time[-1]) if len(block) else 0)
        with self.turns:
            if not restored:
                self.end()
            yield self.table.in_order(self.unfinished_rows())
            if not restored:
                self._store()

    def _take_log(self, logged: LoggedExchange) -> bool:
        """Add an entry of a request log to its exchange; return whether that was captured."""
        with self.turns:
            if self._logged is None:
                # all packets were read
                self._give_up_missing_bytes()
                self.pairing.close(list(self.pairing.single_connections))
                self._logged = LoggedExchanges(self)
            return self._logged.take(logged)

    def _released_logs(self, ended: bool) -> list[LoggedExchange]:
        with self.turns:
            return [] if self._logged is None else self._logged.released(ended=ended)

    @property
    def translated(self) -> TranslatedConnections | None:
        """Connections of a request log between other addresses than captured ones; None without such a log."""
        return None if self._logged is None else self._logged.translated

    def note_fault(self, error: Exception, doing: str, row: int) -> None:
        """Record an internal error about the exchange in `row` of the table.

        :raises Exception: as :meth:`~captures.faults.Faults.note` does
        """
        number = 0
        # live traffic is numbered by its reader; computing numbers here sorts the whole table
        if not self.source.live and self.faults.count < TOLD:
            number = int(self.table.numbers()[row])
        self.faults.note(error, doing, number)

    def unfinished_rows(self) -> Int64s:
        """Return the rows that :meth:`updates` has not yielded yet: those that may still be answered."""
        return np.append(self._unfinished, np.arange(self._seen, len(self.table)))

    def _completed(self, now: int) -> Int64s:
        rows = self.unfinished_rows()
        done = self.table.is_complete(rows)
        owing = distinct_values(self.table.column("connection")[rows[~done]])
        # no more responses arrive on a closed connection; late packets get some time
        gone = owing[self.connections.closed_before(owing, now - _LATE)]
        if len(gone):
            self.pairing.close(gone.tolist())
            rows = self.unfinished_rows()
            done = self.table.is_complete(rows) | np.isin(self.table.column("connection")[rows], gone)
        self._seen = len(self.table)
        self._unfinished = rows[~done]
        return self.table.in_order(rows[done])

    def forget(self, before: int) -> Int64s | None:
        """Drop exchanges that were complete before `before`, and the places of bytes captured before it.

        For captures that never end. Remaining rows of the table get new indexes: callers must get rows from
        :meth:`updates` and keep none. Connections are kept, at two hundred bytes each.

        :param before: nanoseconds since the epoch
        :returns: for each old row of the table its new index, -1 if it was dropped; None if no row moved
        """
        self.samples.forget(before)
        table = self.table
        kept = np.maximum(table.column("request_last"), table.column("response_last")) >= before
        kept[self.unfinished_rows()] = True
        if kept.all():
            return None
        renumbered = table.keep(kept)
        self._unfinished = renumbered[self._unfinished]
        self._seen = int(np.count_nonzero(kept[: self._seen]))
        self.pairing.renumber(renumbered)
        self.notes.renumber(renumbered)
        self.notes.forget(before)
        self.notes.broker_logs.forget(
            int(table.column("packet").min()) if len(table) else self.statistics.packets
        )
        self.pairing.close_before(before)
        self.index.forget(before)
        self.decryption.forget(before)
        return renumbered

    def take(self, block: PacketBlock) -> None:
        """Process the next packets, as :meth:`read` does with those of the capture."""
        if len(block):
            self.latest = max(self.latest, int(block.time.max()))
        samples = self.notes.read(block.comments, self.latest)
        segments = self.assembler.feed(block)
        self.samples.take(block, samples)
        ending = self.notes.ending(block.comments)
        self.notes.end(connection for _, _, connection in self.samples.connections_of(block, ending))
        while self._secrets < len(self._packets.secrets):
            self._keylog.add(self._packets.secrets[self._secrets])
            self._secrets += 1
        in_step = self.in_step.feed(segments, self.assembler.waiting)
        self._pair(self.decryption.feed(in_step))
        self._mark_conflicts(in_step.stream)

    def end(self) -> None:
        """Finish: no more packets arrive."""
        last = self._give_up_missing_bytes()
        self._pair(self.decryption.finish(last))
        self.pairing.finish()
        if self._logged is not None:
            self._logged.complete()
        self.table.mark_logged()
        self._mark_conflicts(np.arange(len(self.connections.streams)))

    def _give_up_missing_bytes(self) -> SegmentBlock:
        """Pair the segments that waited for missing bytes, and return them."""
        last = self.in_step.feed(self.assembler.finish(), {})
        self._pair(self.decryption.feed(last))
        return last

    def _pair(self, block: SegmentBlock) -> None:
        self.notes.locate(block)
        self.pairing.feed(block)

    def _note_unread(self, connection: int, error: Exception) -> None:
        client, broker = self.endpoints(connection)
        self.faults.note(error, f"reading the connection {client} > {broker} on")

    def _mark_conflicts(self, went_on: Int64s) -> None:
        conflicts, self.assembler.conflicts = self.assembler.conflicts, []
        tls = self.decryption.tls  # positions there count decrypted bytes
        self.differing.mark((each for each in conflicts if each.stream >> 1 not in tls), went_on)

    # ------------------------------------------------------------ state of connections, out and in
    def can_freeze(self) -> Bools:
        """Return a mask of the connections whose state :meth:`freeze` captures completely: all are ordinary.

        Connections that have sent nothing yet are included if both sides of their handshake were captured.
        """
        streams = self.connections.streams
        still: Bools = np.all(((streams.end == 0) & (streams.isn >= 0)).reshape(-1, 2), axis=1)
        still[list(self.pairing.single_connections)] = False
        still[: len(self.pairing.ordinary)] |= self.pairing.ordinary
        still[[stream >> 1 for stream in (*self.assembler.disordered, *self.in_step.holding)]] = False
        still[list(self.decryption.tls)] = False
        return still

    def freeze(self, connection: int) -> ConnectionState:
        """Return the state of a connection for :meth:`thaw` of another capture; this one continues with it.

        For connections that :meth:`can_freeze` excludes, the state has only the columns.
        """
        connections, table, book = self.connections, self.table, self.addresses
        paired = self.pairing.handover(connection)
        single = self.pairing.single_connections.get(connection)
        one, other = (self._freeze_stream(2 * connection + side, paired) for side in (0, 1))
        a, b = (
            (book.address(end), book.port(end)) for end in connections.values(connection, ("a", "b")).values()
        )
        state = ConnectionState(
            a=a,
            b=b,
            **connections.values(connection, CONNECTION_COLUMNS),
            framed=paired is not None,
            client_direction=self.client_stream(connection) & 1,
            whole=single.whole if single is not None else one.syn_seen and other.syn_seen,
            streams=(one, other),
        )
        if paired is not None:
            state.waiting = [table.detached(row) for row in paired.waiting]
            state.silent = [table.detached(row) for row in paired.silent]
            request, answered = (table.detached(row) if row >= 0 else None for row in paired.latest)
            state.latest = request, answered
            texts = (table.client_ids[number] for number in paired.client_ids)
            state.client_ids = [text for text in texts if text is not None]
        return state

    def _freeze_stream(self, stream: int, paired: Handover | None) -> StreamState:
        columns = self.connections.streams.values(stream, STREAM_COLUMNS)
        end = columns["end"]
        frame = end if paired is None else paired.positions[stream & 1]
        needed = frame
        if paired is not None and stream == self.client_stream(paired.connection):
            waiting = self.table.column("request_position")[paired.waiting]
            needed = int(waiting.min(initial=frame))
        first = needed if self._expects_no_more(stream) else max(min(needed, end - TAIL), 0)
        return StreamState(
            **columns,
            frame=frame,
            carry=None if paired is None else paired.carries[stream & 1],
            places=self.index.pieces(stream, first, end) if first < end else NOWHERE,
            needed=needed,
            notes=self.notes.comments_from(stream, needed),
            conflicts=self.differing.open_from(stream, frame),
        )

    def _expects_no_more(self, stream: int) -> bool:
        """Return whether the stream's connection was reset, or closed from both sides."""
        streams, both = self.connections.streams, slice(stream & ~1, (stream | 1) + 1)
        return bool(np.all(streams.fin_time[both] >= 0) or np.any(streams.reset_time[both] >= 0))

    def thaw(self, state: ConnectionState) -> tuple[int, list[int]]:
        """Continue with a connection of another capture.

        Rows are added to the table for the requests in flight, and for others that the state refers to.

        :returns: its id here, and the rows that are only references
        """
        a, b = self.addresses.intern(*state.a), self.addresses.intern(*state.b)
        new = self.assembler.enter(a, b, state.generation, state.first_time, state.first_number)
        self.connections.set(new, {name: getattr(state, name) for name in CONNECTION_COLUMNS})
        for stream, one in enumerate(state.streams, 2 * new):
            self.connections.streams.set(stream, {name: getattr(one, name) for name in STREAM_COLUMNS})
        self.pairing.grow()
        return new, self._thaw_frames(new, state) if state.framed else []

    def _thaw_frames(self, new: int, state: ConnectionState) -> list[int]:
        self.decryption.pass_over(new)
        for stream, one in enumerate(state.streams, 2 * new):
            self.index.put(stream, one.places)
            self.notes.take_over(stream, one.notes)
            self.differing.take_over(stream, one.conflicts)
        rows: dict[int, int] = {}
        for row in (*state.silent, *state.latest, *state.waiting):
            if row is not None and row["request_position"] not in rows:
                rows[row["request_position"]] = self.table.add_detached(row, new)
        request, answered = (-1 if row is None else rows[row["request_position"]] for row in state.latest)
        one, other = state.streams
        paired = Handover(
            new,
            [rows[row["request_position"]] for row in state.waiting],
            (one.frame, other.frame),
            (one.carry, other.carry),
            [rows[row["request_position"]] for row in state.silent],
            (request, answered),
            [self.table.number_of_text(text) for text in state.client_ids],
        )
        self.pairing.resume(paired, state)
        return [row for row in rows.values() if row not in paired.waiting]

    def withdraw(self, connection: int) -> list[int]:
        """Stop reading a connection that another capture continues. Return the rows in flight."""
        waiting = self.pairing.withdraw(connection)
        # the end of the capture then finds no missing bytes
        self.connections.streams.ack[2 * connection : 2 * connection + 2] = -1
        return waiting

    # ------------------------------------------------------------ the whole state, out and in
    def content(self) -> ReadCapture:
        """Return the complete state of a capture that was read to its end."""
        from captures.exchanges.capture_cache import ReadCapture

        connections, book = self.connections, self.addresses
        runs, chunks = self.index.content()
        return ReadCapture(
            table={name: self.table.column(name) for name in COLUMNS},
            client_ids=self.table.client_ids,
            connections=connections.content(),
            streams=connections.streams.content(),
            endpoints=[(book.address(each), book.port(each)) for each in range(len(book))],
            spans=connections.observation.spans,
            links=sorted(connections.observation.links),
            statistics=self.statistics,
            done=self.done,
            latest=self.latest,
            copies=self.source.copies if isinstance(self.source, JoinedSource) else 0,
            swapped=[each for each in range(len(connections)) if self.client_stream(each) & 1],
            skipped=self.skipped,
            foreign=self.foreign,
            runs=runs,
            chunks=chunks,
            notes=self.notes.content(),
            samples=list(self.samples),
            upstreams=self.samples.upstreams,
        )

    def _store(self) -> None:
        """Cache the finished reading, unless some of its data exist only in this process."""
        if self.cache is not None and not (self.faults or self.decryption.tls or self.source.beside):
            self.cache.store(self.content())

    def _restored(self) -> bool:
        """Restore the cached result of an earlier reading; return whether there was one."""
        found = None if self.cache is None else self.cache.capture()
        if found is None:
            return False
        self._packets = NoPackets(found.statistics, found.done)
        self.addresses.restore(found.endpoints)
        self.table.restore(found.table, found.client_ids)
        connections = self.connections
        connections.restore(found.connections)
        connections.streams.restore(found.streams)
        connections.observation.spans, connections.observation.links = found.spans, set(found.links)
        self.index.restore(found.runs, found.chunks)
        self.notes.restore(found.notes)
        self.samples.restore(found.samples, found.upstreams)
        self.pairing.restore(found.swapped, found.skipped, found.foreign)
        self.latest = found.latest
        if isinstance(self.source, JoinedSource):
            self.source.copies, self.source.clocks = found.copies, []
        return True

    # ------------------------------------------------------------ for views
    def upstream_of(self, connection: int) -> UpstreamBroker:
        """Return the broker of a connection, as far as kproxy's proxy has recorded it."""
        return self.samples.upstreams.get(connection, NO_UPSTREAM)

    def observed_until(self, connections: Int64s | int) -> Int64s:
        """Return the time until which connections were observed; see :meth:`Connections.observed_until`."""
        return self.connections.observed_until(connections, self.latest)

    def client_stream(self, connection: int) -> int:
        """Return the stream that carries the requests of a connection."""
        return self.pairing.client_stream(connection)

    def endpoints(self, connection: int) -> tuple[str, str]:
        """Return client and broker of a connection as ``host:port``."""
        found = self._endpoints.get(connection)
        if found is None:
            found = self._endpoints[connection] = self._resolve(connection)
        return found

    def shown_endpoints(self, connection: int) -> tuple[str, str]:
        """Return client and broker like :meth:`endpoints`, with names instead of hosts where known."""
        client, broker = self.endpoints(connection)
        return self.names.shown(client), self.names.shown(broker)

    def _resolve(self, connection: int) -> tuple[str, str]:
        ends = int(self.connections.a[connection]), int(self.connections.b[connection])
        texts = [self._packets.addresses.text(end) for end in ends]
        return (texts[1], texts[0]) if self.client_stream(connection) & 1 else (texts[0], texts[1])

    def frame(self, connection: int, side: Side, position: int, size: int) -> FrameBytes | None:
        """Return the bytes of a frame, None if the frame does not exist (``size`` 0)."""
        if not size:
            return None
        stream = self.client_stream(connection) ^ (side == "response")
        index = self.decryption.index_of(connection)
        payload = index.read_captured(stream, position + SIZE_BYTES, position + size)
        have = SIZE_BYTES + len(payload)
        if have == size:
            return FrameBytes(payload, True, size)
        dropped = index.dropped(stream, position + have)
        why = DROPPED if dropped else "not captured from here on"
        reason = f"{size - have} of {size} bytes were {why}"
        return FrameBytes(payload, False, have, reason)

    def first_byte(self, row: int) -> int:
        """Return the file offset of an exchange's first byte; -1 if it is kept elsewhere, or was dropped."""
        column = self.table.column
        side: Side = "request" if column("request_size")[row] else "response"
        stream = self.client_stream(int(column("connection")[row])) ^ (side == "response")
        begin = int(column(f"{side}_position")[row])
        _, offsets, _ = self.index.pieces(stream, begin, begin + 1)
        return int(offsets[0]) if len(offsets) and offsets[0] < KEPT else -1

    def path_of(self, row: int) -> str:
        """Return the file with an exchange's first byte; empty if the byte is kept elsewhere, or was dropped."""
        offset, source = self.first_byte(row), self.source
        if offset < 0:
            return ""
        return source.files[file_at(offset)].path if isinstance(source, JoinedSource) else source.path


def open_capture(
    paths: str | Sequence[str],
    block_size: int = BLOCK_SIZE,
    *,
    keylog: KeyLog | None = None,
    follow: bool = False,
    spool: int = DEFAULT_SPOOL,
    align_clocks: bool = False,
) -> Capture:
    """Open a capture; only its start is read yet.

    :param paths: a capture file, a folder of them, a pattern, or ``-`` for standard input; or several of these, which
        together are one capture
    :param block_size: bytes of a file that are read at a time
    :param keylog: secrets of TLS connections; those in the capture itself are used too
    :param follow: whether the capture is still being written and is read as it grows
    :param spool: bytes kept of data that cannot be read twice (pipes, compressed files)
    :param align_clocks: bring the times of several files to one clock, by packets that were seen in more than one
    :raises CaptureError: if no capture can be read; if only some fail, they are in ``unreadable``
    """
    names = [paths] if isinstance(paths, str) else paths
    source = open_files(names, follow=follow, spool=spool, align_clocks=align_clocks)
    return Capture(source, block_size, keylog=keylog)
