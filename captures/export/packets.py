"""Original packets of a selection: copied whole, in order, with their times, link types and comments.

If all exchanges of a connection are selected, all its packets are copied. Otherwise: packets with a byte of a selected
frame (retransmitted or not), packets that acknowledge one, and those that open and close the connection. A packet may
also contain bytes of neighbouring frames: it is copied as it was captured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from captures.arrays import Bools, Int64s
from captures.exchanges import Capture
from captures.exchanges.broker_logs import Lack
from captures.exchanges.exchange import FrameNumbers
from captures.exchanges.notes import Note, parse_comment
from captures.export.passes import UNKNOWN, CaptureReread, FramedBlock, FrameReader, PlacedPackets, is_control
from captures.export.pcapng_writer import Packet
from captures.export.selection import Selection, frame_ranges
from captures.interventions import as_comment
from captures.packets import read_packets
from captures.packets.joined_source import JoinedSource
from captures.packets.reader import BLOCK_SIZE, recognise
from captures.packets.records import Interface
from captures.packets.source import KEPT
from captures.packets.table import PADDING, Statistics
from captures.packets.walk import REACH, resync
from dissectors.sides import SIDES

_TOGETHER = 512
_NEAR = 16 << 20
"""Most bytes of a file that are read for the packets of one exchange."""
_HEADERS = 512
"""Bytes in front of a packet's payload in which its record begins, in any format."""

#: returns the frame to be written for a packet; arguments are the packets and the index of one
Rewrite = Callable[[PlacedPackets, int], bytes]


def original_packets(
    selection: Selection,
    *,
    rewrite: Rewrite | None = None,
) -> Iterator[tuple[list[Interface], list[Packet], int]]:
    """Yield the packets of a selection, some hundreds at a time.

    Each item has the interfaces declared so far, packets, and the bytes of the capture read so far. A block of the file
    without selected packets yields an empty list, so that the caller sees progress.

    Connections in ``selection.elsewhere`` have no packets that could be copied and are skipped. Notes added to
    exchanges since the capture was read are put on the packets with their first bytes.

    :param rewrite: returns the frame to be written instead of the captured one
    """
    notes = _UpdatedComments(selection)
    chosen = _PacketSelection(selection)
    passes = CaptureReread(selection.capture)
    for placed in passes:
        block = placed.packets
        found: list[Packet] = []
        for at in np.flatnonzero(chosen.of(placed)).tolist():
            data = placed.frame(at) if rewrite is None else rewrite(placed, at)
            found.append(
                Packet(
                    int(block.interface[at]),
                    int(block.time[at]),
                    data,
                    int(block.frame_wire[at]),
                    notes.comment(placed, at),
                )
            )
            if len(found) == _TOGETHER:
                yield placed.interfaces, found, passes.done
                found = []
        yield placed.interfaces, found, passes.done


def packet_numbers(capture: Capture, rows: list[int]) -> list[int]:
    """Return the numbers, as in Wireshark, of the packets that carry bytes of the given exchanges.

    Reads the whole capture. Packets whose bytes were decrypted or reassembled from IP fragments are left out.

    :param rows: rows of the exchange table
    """
    selection = Selection(capture, rows)
    found: list[int] = []
    for placed in CaptureReread(capture):
        block = placed.packets
        packets = np.flatnonzero(np.isin(placed.stream >> 1, selection.connections) & (block.offset < KEPT))
        position, length = placed.position[packets], block.length[packets].astype(np.int64)
        touched = selection.ranges.touches(placed.stream[packets], position, position + length)
        found += block.number[packets[touched & (position != UNKNOWN)]].tolist()
    return found


def frame_numbers(capture: Capture, row: int) -> list[int] | None:
    """Return the numbers, as in Wireshark, of the packets from which the bytes of an exchange were taken.

    Reads the file from the first to the last of them.

    :param row: row of the exchange table
    :returns: None if there are more than :data:`_NEAR` bytes between them, if the capture is live or of several files,
        or if the bytes were decrypted or reassembled from IP fragments
    """
    source, lead = capture.source, capture.first_byte(row)
    decrypted = int(capture.table.column("connection")[row]) in capture.decryption.tls
    if source.live or isinstance(source, JoinedSource) or decrypted or lead < 0:
        return None
    found = frame_ranges(capture, np.array([row]))
    stretches = zip(found.stream.tolist(), found.start.tolist(), found.end.tolist(), strict=True)
    offsets = np.concatenate([capture.index.pieces(*stretch)[1] for stretch in stretches])
    low, high = int(offsets.min()), int(offsets.max())
    if high - low > _NEAR:
        return None
    layout = recognise(source, Statistics())
    # from the start if that is near, because a guess is less certain than following the chain
    begin = layout.start if low < BLOCK_SIZE else (low - _HEADERS) & -layout.multiple
    read = source.read(begin, high + REACH - begin)
    data = np.frombuffer(read + bytes(PADDING), np.uint8)
    first = 0 if begin == layout.start else max(resync(data, 0, len(read), layout), 0)
    records = layout.parse(data, first, len(read)).records
    frames = records.frame + begin
    at = np.searchsorted(frames, np.append(offsets, lead), "right") - 1
    if not len(frames) or (at < 0).any() or lead >= frames[at[-1]] + records.captured[at[-1]]:
        return None
    packet = int(capture.table.column("packet")[row])
    return sorted({packet + ahead for ahead in (at[:-1] - at[-1]).tolist()})


class PacketFinder:
    """Finds the packets from which the bytes of exchanges were taken, of many exchanges.

    :param capture: a capture that was read to its end; its packets are read again
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        blocks: list[FramedBlock] = []
        # Wireshark numbers the packets of each file, and a request log has none
        if not (isinstance(capture.source, JoinedSource) or Lack.PACKETS in capture.notes.broker_logs.lacks):
            blocks = [
                block
                for block in read_packets(capture.source, kind=FrameReader)
                if isinstance(block, FramedBlock)
            ]
        self._begins, self._numbers = (
            np.concatenate([np.empty(0, np.int64), *columns])
            for columns in ([each.frame for each in blocks], [each.number for each in blocks])
        )

    def of(self, row: int) -> FrameNumbers:
        """Return the numbers of the packets of an exchange.

        They are unknown if its bytes were decrypted, reassembled from IP fragments or dropped, or if the capture
        has several files or is a request log.

        :param row: row of the exchange table
        """
        column = self._capture.table.column
        connection = int(column("connection")[row])
        client = self._capture.client_stream(connection)
        encrypted = connection in self._capture.decryption.tls
        found: list[list[int] | None] = []
        for direction, side in enumerate(SIDES):
            size, begin = int(column(f"{side}_size")[row]), int(column(f"{side}_position")[row])
            _, offsets, _ = self._capture.index.pieces(client ^ direction, begin, begin + size)
            at = np.searchsorted(self._begins, offsets, "right") - 1
            known = not encrypted and len(offsets) > 0 and int(offsets.max()) < KEPT and int(at.min()) >= 0
            numbers = sorted(set(self._numbers[at].tolist())) if known else None
            found.append(numbers if size else [])
        return FrameNumbers(*found)


class _PacketSelection:
    """Decides which packets belong to a selection."""

    def __init__(self, selection: Selection) -> None:
        size = len(selection.capture.connections)
        self._any = np.zeros(size, np.bool_)
        self._any[selection.connections] = True
        self._any[list(selection.elsewhere)] = False
        self._whole_connections = np.zeros(size, np.bool_)
        self._whole_connections[selection.whole] = True
        self._ranges = selection.ranges
        self._fin: Int64s = selection.capture.connections.streams.fin_position

    def of(self, placed: PlacedPackets) -> Bools:
        """Return a mask over the packets of a block."""
        block, stream, position = placed.packets, placed.stream, placed.position
        connection = stream >> 1
        selectable = self._any[connection] & (block.offset < KEPT)  # the last IP fragment alone is useless
        taken = selectable & (self._whole_connections[connection] | is_control(block.flags))
        rest = np.flatnonzero(selectable & ~taken)
        if len(rest):
            taken[rest] = self._carries(stream[rest], position[rest], block.length[rest].astype(np.int64))
            silent = rest[(block.length[rest] == 0) & (placed.acknowledged[rest] != UNKNOWN)]
            taken[silent] = self._acknowledges(stream[silent], placed.acknowledged[silent])
        return np.asarray(taken, np.bool_)

    def _carries(self, stream: Int64s, position: Int64s, length: Int64s) -> Bools:
        touched: Bools = self._ranges.touches(stream, position, position + length) & (position != UNKNOWN)
        return touched

    def _acknowledges(self, stream: Int64s, acknowledged: Int64s) -> Bools:
        """Return a mask of the bare ACKs that acknowledge selected bytes, the handshake or a FIN."""
        other = stream ^ 1
        touched = self._ranges.touches(other, acknowledged - 1, acknowledged)
        fin = self._fin[other]
        closing: Bools = (fin >= 0) & (acknowledged > fin)
        found: Bools = touched | closing | (acknowledged == 0)
        return found


class _PendingNote(NamedTuple):
    """A note that waits for the packet with the first byte of its exchange.

    :ivar start: stream position of the exchange's first byte
    :ivar end: stream position after its last byte
    """

    start: int
    end: int
    correlation_id: int
    note: Note


def _logs_of_packets(selection: Selection) -> dict[int, str]:
    """Return what a request log says of captured exchanges, as comments by packet.

    A packet in which several requests begin has none: which of them a comment is about could not be told.
    """
    table = selection.capture.table
    if not table.broker_logs.captured:
        return {}
    packets, counts = np.unique(table.column("packet"), return_counts=True)
    alone = set(packets[counts == 1].tolist())
    found = {}
    for row in selection.rows.tolist():
        packet = int(table.column("packet")[row])
        logged = table.broker_logs.of_row(row, packet)
        if logged is not None and logged.captured and packet in alone:
            found[packet] = as_comment(logged)
    return found


class _UpdatedComments:
    """The comments of packets, updated with the notes of this session."""

    def __init__(self, selection: Selection) -> None:
        capture = selection.capture
        self._dropped, notes = capture.notes.changed()
        self._logs = _logs_of_packets(selection)
        self._waiting: dict[int, list[_PendingNote]] = {}
        for index in sorted(notes.keys() & set(selection.rows.tolist())):
            row = capture.table.row(index)
            side = 0 if row["request_size"] else 1
            start, size = row[f"{SIDES[side]}_position"], row[f"{SIDES[side]}_size"]
            waiting = self._waiting.setdefault(capture.client_stream(row["connection"]) ^ side, [])
            waiting.append(_PendingNote(start, start + size, row["correlation_id"], notes[index]))

    def comment(self, placed: PlacedPackets, at: int) -> str:
        """Return the comment of a packet; each note is returned once."""
        number = int(placed.packets.number[at])
        kept = placed.packets.comments.get(number, "")
        if number in self._dropped:  # the proxy's own lines are not a user's note and stay
            kept = "\n".join(parse_comment(kept).lines)
        return "\n".join(filter(None, [kept, self._logs.get(number, ""), *self._take(placed, at)]))

    def _take(self, placed: PlacedPackets, at: int) -> Iterator[str]:
        waiting = self._waiting.get(int(placed.stream[at]))
        start = int(placed.position[at])
        if not waiting or start == UNKNOWN:
            return
        end = start + int(placed.packets.length[at])
        for each in [each for each in waiting if start <= each.start < end]:
            waiting.remove(each)
            alone = start == each.start and end <= each.end
            yield each.note.as_text(None if alone else each.correlation_id)
