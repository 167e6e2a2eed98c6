"""The out-of-order streams of a capture, block by block.

Two questions are decided for many packets at once: which of them only repeat bytes, and which follow each other without
a break. :class:`captures.packets.reorder.StreamOrder` decides the rest, once per run of packets.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from captures.arrays import Bools, Columns, Int64s, UInt32s
from captures.packets.connections import Streams
from captures.packets.reorder import AHEAD, BEHIND, GRACE, Delivery, LostRange, PeerAcks, StreamOrder
from captures.packets.runs import NEVER, PayloadRun, Rows, payload_of
from captures.packets.table import ACK, FIN, RST, SYN, GapCause, PacketBlock

_Kind = TypeVar("_Kind", bound=np.generic)

Outcome = tuple[list[Int64s], list[Int64s]]
"""Columns of segments and of gaps, as in :class:`captures.packets.table.SegmentBlock` and ``Gaps``, all int64."""

_SPAN = 1 << 34  # more than the distance of any two compared positions


class Groups(msgspec.Struct):
    """Rows of a block sorted by stream, in file order within each.

    :ivar row: rows of the block
    :ivar stream: the stream of each group
    :ivar begin: start of each group in `row`
    :ivar count: number of rows of each group
    """

    row: Int64s
    stream: Int64s
    begin: Int64s
    count: Int64s

    def spread(self, values: NDArray[_Kind]) -> NDArray[_Kind]:
        """Repeat one value per group for each of its rows."""
        return np.repeat(values, self.count)

    def take(self, mask: Bools) -> Groups:
        count = self.count[mask]
        return Groups(
            self.row[np.repeat(mask, self.count)], self.stream[mask], np.cumsum(count) - count, count
        )

    def of(self, stream: int) -> Int64s:
        """Return the rows of one stream."""
        group = int(self.stream.searchsorted(stream))
        if group == len(self.stream) or self.stream[group] != stream:
            return self.row[:0]
        begin = int(self.begin[group])
        return self.row[begin : begin + int(self.count[group])]


def by_stream(row: Int64s, stream: Int64s, streams: int) -> Groups:
    """Sort rows by stream.

    :param stream: the stream of each row
    :param streams: number of streams
    """
    seen = np.zeros(streams, bool)
    seen[stream] = True
    present = np.flatnonzero(seen)
    # dense numbers fit 16 bits, which numpy sorts by radix
    dense = np.empty(streams, np.uint16 if len(present) < 1 << 16 else np.int64)
    dense[present] = np.arange(len(present))
    code = dense[stream]
    count = np.bincount(code, minlength=len(present))
    return Groups(row[np.argsort(code, kind="stable")], present, np.cumsum(count) - count, count)


class Repeats(Columns):
    """Bytes that were captured again, to be compared with the first copy; all int64.

    :ivar stream: the stream
    :ivar position: first byte
    :ivar length: number of bytes in the file
    :ivar offset: offset of the second copy
    """

    stream: Int64s
    position: Int64s
    length: Int64s
    offset: Int64s


class Disorder:
    """Takes the packets of out-of-order streams and delivers them in order.

    :param streams: stream columns to update
    :ivar orders: the streams out of order
    :ivar give_up_per_connection: whether missing bytes are given up only at packets of their own connection
    """

    def __init__(self, streams: Streams) -> None:
        self.orders: dict[int, StreamOrder] = {}
        self.give_up_per_connection = False
        self._streams = streams
        self._held = Rows.none()  # waiting packets of earlier blocks
        self._repeats = Repeats.none()  # repeats whose first copy waits

    @property
    def waiting(self) -> dict[int, int]:
        """Streams that wait behind a hole, each with the number of the first waiting packet."""
        found = {stream: order.first_waiting for stream, order in self.orders.items()}
        return {stream: number for stream, number in found.items() if number is not None}

    def feed(
        self, block: PacketBlock, stream: Int64s, clock: Int64s, data: Groups, ended: list[int]
    ) -> Outcome:
        """Return the payload of out-of-order streams that this block puts in order.

        :param stream: the stream of each packet
        :param clock: reading of the capture clock at each packet
        :param data: packets of out-of-order streams with payload or FIN
        :param ended: streams whose connection was replaced by another
        """
        for number in data.stream.tolist():
            if number not in self.orders:
                self.orders[number] = self._order(number)
        if not self.orders:
            return [], []
        rows, runs = self._runs(block, clock, data)
        witnesses = self._witnesses(block, stream, clock)
        for number, order in self.orders.items():
            order.begin(rows, witnesses[number])
            for run in runs.get(number, ()):
                order.add(run)
            order.end(_last_row(stream, number) if self.give_up_per_connection else len(clock) - 1)
            if number in ended:
                order.flush()
        return self._collect(rows)

    def finish(self) -> Outcome:
        """End the capture: declare missing bytes lost, and return everything that waited for them."""
        for order in self.orders.values():
            order.flush()
        return self._collect(self._held)

    def take_repeats(self) -> Repeats:
        """Return the repeated bytes whose first copy has been delivered."""
        ready = self._repeats.position + self._repeats.length <= self._streams.end[self._repeats.stream]
        taken, self._repeats = self._repeats.take(ready), self._repeats.take(~ready)
        return taken

    def _order(self, stream: int) -> StreamOrder:
        streams = self._streams
        return StreamOrder(
            next_seq=int(streams.next_seq[stream]),
            position=int(streams.end[stream]),
            reset=bool(streams.reset_time[stream] >= 0 or streams.reset_time[stream ^ 1] >= 0),
        )

    # -- input

    def _runs(
        self, block: PacketBlock, clock: Int64s, data: Groups
    ) -> tuple[Rows, dict[int, list[PayloadRun]]]:
        """Return the packets as rows after those that wait, and as runs of each stream."""
        seq = sequence(block, data.row)
        known = self._known(block, data, seq)
        if known.any():
            self._note_repeats(block, data, seq, known)
            stream, seq, row = data.spread(data.stream)[~known], seq[~known], data.row[~known]
        else:
            stream, row = data.spread(data.stream), data.row
        length, flags, reading = block.length[row].astype(np.int64), block.flags[row], clock[row]
        fin = flags & FIN != 0
        begins = np.ones(len(row), bool)
        begins[1:] = seq[1:] != seq[:-1] + length[:-1].astype(np.uint32)
        begins[1:] |= (stream[1:] != stream[:-1]) | (reading[1:] - reading[:-1] >= GRACE)
        begins[1:] |= fin[:-1] | (length[1:] == 0)
        ahead = np.cumsum(length) - length
        rows = Rows(
            ahead=ahead,
            length=length,
            captured=block.captured[row].astype(np.int64),
            offset=block.offset[row],
            time=block.time[row],
            clock=reading,
            number=block.number[row],
            row=row,
            flags=flags,
        )
        low = np.flatnonzero(begins)
        high = np.append(low, len(row))[1:]
        size = ahead[high - 1] + length[high - 1] - ahead[low]
        columns = (stream[low], low, high, ahead[low], size, seq[low], fin[high - 1], row[low], reading[low])
        runs: dict[int, list[PayloadRun]] = {}
        held = len(self._held)
        for number, first, end, before, total, start, last, at, since in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            run = PayloadRun(first + held, end + held, -before, 0, total, start, last, at, since)
            runs.setdefault(number, []).append(run)
        return Rows.concatenated((self._held, rows)), runs

    def _known(self, block: PacketBlock, data: Groups, seq: UInt32s) -> Bools:
        """Return a mask of the packets that contain only bytes captured before.

        A byte was captured before if it lies below the end of all earlier packets, and in no hole that these left.
        """
        streams = self._streams
        base = np.arange(len(data.stream)) * _SPAN
        missing = [self.orders[number].holes for number in data.stream.tolist()]
        ends = streams.end[data.stream]
        reached = np.array([holes[-1][0] for holes in missing], np.int64) - ends
        expected = streams.next_seq[data.stream].astype(np.uint32)
        distance = (seq - data.spread(expected)).view(np.int32)
        start = distance + data.spread(base)
        end = start + block.length[data.row]
        reach = np.empty(len(start), np.int64)
        reach[1:] = end[:-1]
        reach[data.begin] = base + reached
        reach = np.maximum.accumulate(reach)
        known: Bools = (start < reach) & (end <= reach) & (end > start)
        known &= block.flags[data.row] & FIN == 0
        if not known.any():
            return known
        furthest = (
            np.array([self.orders[number].furthest for number in data.stream.tolist()], np.int64) - ends
        )
        highest = np.maximum(np.maximum.reduceat(end, data.begin), base + furthest)
        tame = np.minimum.reduceat(start, data.begin) >= highest - BEHIND
        tame &= np.maximum.reduceat(start, data.begin) <= base + AHEAD
        tame &= np.array([not self.orders[number].has_strays for number in data.stream.tolist()])
        known &= data.spread(tame)
        opens = start > reach
        before = [
            (low + shift, high + shift)
            for holes, shift in zip(missing, (base - ends).tolist(), strict=True)
            for low, high in holes[:-1]
        ]
        earlier = np.array(before, np.int64).reshape(-1, 2)
        low = np.sort(np.concatenate([earlier[:, 0], reach[opens]]))
        high = np.sort(np.concatenate([earlier[:, 1], start[opens]]))
        known &= low.searchsorted(end, "left") == high.searchsorted(start, "right")
        return known

    def _note_repeats(self, block: PacketBlock, data: Groups, seq: UInt32s, known: Bools) -> None:
        streams = self._streams
        stream, row = data.spread(data.stream)[known], data.row[known]
        expected = streams.next_seq[stream].astype(np.uint32)
        position = streams.end[stream] + (seq[known] - expected).view(np.int32)
        length = block.length[row].astype(np.int64)
        np.add.at(streams.retransmitted, stream, length)
        skip = np.maximum(-position, 0)  # negative positions precede the capture
        captured = block.captured[row].astype(np.int64) - skip
        self._remember(length, stream, position + skip, captured, block.offset[row] + skip)

    def _remember(
        self, packet: Int64s, stream: Int64s, position: Int64s, captured: Int64s, offset: Int64s
    ) -> None:
        """Remember repeated bytes.

        :param packet: payload bytes of the whole packet. A single byte is a keep-alive, whose content means nothing
            (RFC 9293 section 3.8.4).
        """
        some = (captured > 0) & (packet > 1)
        more = Repeats(stream, position, captured, offset).take(some)
        self._repeats = Repeats.concatenated((self._repeats, more))

    def _witnesses(self, block: PacketBlock, stream: Int64s, clock: Int64s) -> dict[int, PeerAcks]:
        """Return the ACKs and resets sent by the receivers of out-of-order streams in this block."""
        streams = self._streams
        asked = np.zeros(len(streams), bool)
        asked[list(self.orders)] = True
        row = np.flatnonzero(asked[stream ^ 1] & (block.flags & (ACK | RST) == ACK))
        acks = by_stream(row, stream[row] ^ 1, len(streams))
        resets = np.flatnonzero((block.flags & RST != 0) & (asked[stream ^ 1] | asked[stream]))
        reset_row: dict[int, int] = {}
        for connection, at in zip((stream[resets] >> 1).tolist(), resets.tolist(), strict=True):
            reset_row.setdefault(connection, at)
        found = {}
        for number in self.orders:
            rows = acks.of(number)
            values = block.ack[rows]
            latest = int(streams.ack[number ^ 1])
            if latest >= 0:
                rows, values = np.append(-1, rows), np.append(np.uint32(latest), values)
            found[number] = PeerAcks(clock, block.number, rows, values, reset_row.get(number >> 1, NEVER))
        return found

    # -- output

    def _collect(self, rows: Rows) -> Outcome:
        """Take the deliverable runs, update the stream columns, keep the waiting runs."""
        ready: list[tuple[int, Delivery]] = []
        runs_resent: list[tuple[int, PayloadRun]] = []
        holes: list[tuple[int, int, int, int, int]] = []
        for number, order in list(self.orders.items()):
            for item in order.out:
                if isinstance(item, LostRange):
                    holes.append((number, item.position, item.missing, item.cause, -1))
                else:
                    ready.append((number, item))
            runs_resent += [(number, run) for run in order.repeats]
            order.out.clear()
            order.repeats.clear()
            self._update(number, order)
            if order.idle:
                del self.orders[number]
        if runs_resent:
            payload = payload_of([run for _, run in runs_resent], rows)
            stream = np.array([number for number, _ in runs_resent], np.int64)[payload.run]
            packet = rows.length[payload.row]
            self._remember(packet, stream, payload.position, payload.captured, payload.offset)
        lost = list(np.array(holes, np.int64).reshape(-1, 5).T)
        np.add.at(self._streams.lost, lost[0], lost[2])
        segments, cut = self._hand_out(ready, rows)
        self._keep(rows)
        return segments, [np.concatenate(pair) for pair in zip(lost, cut, strict=True)]

    def _update(self, stream: int, order: StreamOrder) -> None:
        streams = self._streams
        streams.end[stream], streams.next_seq[stream] = order.position, order.next_seq
        streams.retransmitted[stream] += order.retransmitted
        streams.reordered[stream] += order.reordered
        streams.outside[stream] += order.outside
        order.retransmitted = order.reordered = order.outside = 0
        if order.fin_position >= 0 and streams.fin_time[stream] < 0:
            streams.fin_position[stream], streams.fin_time[stream] = order.fin_position, order.fin_time

    def _hand_out(self, ready: list[tuple[int, Delivery]], rows: Rows) -> Outcome:
        """Return segments of the deliverable runs, and gaps for bytes cut by the snapshot length."""
        payload = payload_of([delivery.run for _, delivery in ready], rows)
        time = rows.time[payload.row]
        delivered = time.copy()
        for first, (_, delivery) in zip(payload.first.tolist(), ready, strict=True):
            if delivery.delivered is not None:
                delivered[first : first + len(delivery.delivered)] = delivery.delivered
        stream = np.array([number for number, _ in ready], np.int64)[payload.run]
        segments = [stream, payload.position, payload.offset, payload.captured, time, delivered]
        segments += [rows.number[payload.row], payload.flags]
        return captured_and_cut(segments, payload.length, self._streams)

    def _keep(self, rows: Rows) -> None:
        self._held = rows.of([run for order in self.orders.values() for run in order.kept])
        first = 0
        for order in self.orders.values():
            first = order.moved(self._held, first)


def _last_row(stream: Int64s, number: int) -> int:
    """Return the last packet of the connection of a stream, -1 if there is none."""
    rows = np.flatnonzero(stream >> 1 == number >> 1)
    return int(rows[-1]) if len(rows) else -1


def captured_and_cut(segments: list[Int64s], length: Int64s, streams: Streams) -> Outcome:
    """Return the segments that have bytes, and gaps for bytes cut by the snapshot length, which are counted.

    :param length: payload bytes on the wire
    """
    stream, position, _, captured, _, _, number, _ = segments
    gaps = [length[:0]] * 5
    cut = np.flatnonzero(captured < length)
    if len(cut):
        missing = (length - captured)[cut]
        gaps = [
            stream[cut],
            (position + captured)[cut],
            missing,
            np.full(len(cut), GapCause.SNAPLEN),
            number[cut],
        ]
        np.add.at(streams.cut, stream[cut], missing)
    some = captured > 0
    return segments if some.all() else [column[some] for column in segments], gaps


def sequence(block: PacketBlock, row: Int64s) -> UInt32s:
    """Return the sequence numbers of the first payload bytes: a SYN takes one before them."""
    seq = block.seq[row]
    syn = block.flags[row] & SYN
    return seq + (syn != 0) if syn.any() else seq
