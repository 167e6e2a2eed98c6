"""TCP reassembly: packet blocks in, segments in stream order out.

Streams whose packets follow each other without a break, nearly all of them, are handled together with numpy.
The others go through :class:`captures.packets.reorder.StreamOrder`, until nothing of them waits any more. The
outcome does not depend on how the packets are cut into blocks, except for which block a segment comes out of.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np

from captures.packets.addresses import Interner
from captures.packets.connections import Connections
from captures.packets.index import SegmentIndex
from captures.packets.reorder import GRACE, Hole, Repeat, Segment, StreamOrder
from captures.packets.source import Source
from captures.packets.table import (
    ACK,
    FIN,
    RST,
    SYN,
    Bools,
    GapCause,
    Gaps,
    Int64s,
    PacketBlock,
    SegmentBlock,
)

__all__ = ["GRACE", "TcpAssembler"]

_SEQ = 1 << 32
_HALF = 1 << 31
_MAX_TAIL = 1 << 30
_MAX_SYN_DATA = 1 << 16

# how many columns _rows holds of segments and of gaps, in the order of SegmentBlock and Gaps
_SEGMENT_COLUMNS = 8
_GAP_COLUMNS = 4


@dataclass(slots=True)
class _Data:
    """Packets with payload or FIN, sorted by stream, in file order within each.

    ``groups`` rows of the stream-level arrays: ``begin`` is where each stream's packets begin.
    """

    row: Int64s
    stream: Int64s
    begin: Int64s
    count: Int64s


class TcpAssembler:
    """Reassembles the streams of a capture.

    :param index: where to note the place of every segment; needed to compare retransmitted bytes
    :ivar connections: all connections met so far
    """

    def __init__(self, index: SegmentIndex | None = None) -> None:
        self.connections = Connections()
        self._index = index
        self._pairs = Interner()
        self._current = np.empty(0, np.int64)  # latest connection of each endpoint pair
        self._slow: dict[int, StreamOrder] = {}
        self._rows: list[tuple[list[Int64s], list[Int64s]]] = []
        self._repeats: list[tuple[int, Repeat]] = []
        self._source: Source | None = None

    def feed(self, block: PacketBlock) -> SegmentBlock:
        """What the packets of the next block delivered."""
        self._source = block.source
        known = len(self.connections)
        connection, replaced = self._connections_of(block)
        stream = connection * 2 + (block.src != self.connections.a[connection])
        self._rows = []
        data = self._data(block, stream)
        self._reassemble(block, stream, data)
        for old in replaced:
            self._flush(2 * old)
            self._flush(2 * old + 1)
        self._summarise(block, connection, stream)
        return self._result(range(known, len(self.connections)), block)

    def finish(self) -> SegmentBlock:
        """The end of the capture: declare what is missing lost, and hand out what waited for it."""
        self._rows = []
        for stream in list(self._slow):
            self._flush(stream)
        self._tails()
        end = len(self.connections)
        return self._result(range(end, end), None)

    @property
    def waiting(self) -> dict[int, int]:
        """Streams that wait behind a hole, each with the number of the first packet that does."""
        found = {stream: order.first_waiting for stream, order in self._slow.items()}
        return {stream: number for stream, number in found.items() if number is not None}

    # -- connections

    def _connections_of(self, block: PacketBlock) -> tuple[Int64s, list[int]]:
        """The connection of each packet, and the connections that new ones of the same pair replaced."""
        src, dst = block.src.astype(np.int64), block.dst.astype(np.int64)
        pair, fresh = self._pairs.ids(np.minimum(src, dst) << 31 | np.maximum(src, dst))
        self._current = np.append(self._current, np.full(len(fresh), -1, np.int64))
        before = self._current.copy() if len(fresh) else self._current
        syns = np.flatnonzero(block.flags & SYN)
        replaced: list[int] = []
        changes: list[tuple[int, int, int]] = []
        copied = bool(len(fresh))
        for row in np.union1d(fresh, syns).tolist():
            number = int(pair[row])
            old = int(self._current[number])
            new = self._identify(block, row, old)
            if new != old:
                if not copied:
                    before, copied = self._current.copy(), True
                self._current[number] = new
                changes.append((number, row, new))
                if old >= 0:
                    replaced.append(old)
        if not changes:
            return self._current[pair], replaced
        return self._apply_changes(before[pair], pair, changes), replaced

    @staticmethod
    def _apply_changes(connection: Int64s, pair: Int64s, changes: list[tuple[int, int, int]]) -> Int64s:
        """Put each change (pair, row, connection) into effect for that pair, from that row on."""
        table = np.array(sorted(changes), np.int64)
        keys = table[:, 0] << 32 | table[:, 1]
        rows = pair << 32 | np.arange(len(pair))
        place = np.searchsorted(keys, rows, "right") - 1
        applies = (place >= 0) & (table[place, 0] == pair)
        return np.where(applies, table[place, 2], connection)

    def _identify(self, block: PacketBlock, row: int, old: int) -> int:
        """The connection of a packet that has a SYN or is the first of its pair."""
        flags = int(block.flags[row])
        src, dst = int(block.src[row]), int(block.dst[row])
        seq, ack, time = int(block.seq[row]), int(block.ack[row]), int(block.time[row])
        connections, streams = self.connections, self.connections.streams
        is_syn, is_answer = flags & (SYN | ACK) == SYN, flags & (SYN | ACK) == SYN | ACK
        if flags & RST:  # SYN and RST at once is no handshake
            is_syn = is_answer = False
        if old >= 0:
            mine = 2 * old + (src != int(connections.a[old]))
            if not (is_syn or is_answer) or int(streams.isn[mine]) == seq:
                return old
            if self._joins(old, mine, is_answer, ack):
                streams.isn[mine] = seq
                if not self._carried_data(block, row, old, mine):
                    self._begin_stream(mine, seq)
                if is_answer and connections.syn_time[old] >= 0:
                    connections.handshake[old] = time - int(connections.syn_time[old])
                return old
        a, b = (dst, src) if is_answer else (src, dst)
        generation = int(connections.generation[old]) + 1 if old >= 0 else 0
        new = connections.add(a, b, generation, time, int(block.number[row]))
        if is_syn:
            connections.client_known[new] = True
            connections.syn_time[new] = time
            self._begin_stream(2 * new, seq)
        elif is_answer:
            connections.client_known[new] = True
            self._begin_stream(2 * new, (ack - 1) % _SEQ)
            self._begin_stream(2 * new + 1, seq)
        return new

    def _joins(self, connection: int, mine: int, is_answer: bool, ack: int) -> bool:
        """Whether a SYN belongs to a connection whose other side began with another SYN."""
        streams = self.connections.streams
        peer_isn = int(streams.isn[mine ^ 1])
        if peer_isn < 0 or streams.isn[mine] >= 0:
            return False
        if is_answer:
            # it may acknowledge data that came with the SYN (RFC 7413)
            return (ack - peer_isn - 1) % _SEQ < _MAX_SYN_DATA
        # simultaneous open (RFC 9293 section 3.5): both SYNs cross
        return int(self.connections.syn_time[connection]) >= 0

    def _carried_data(self, block: PacketBlock, row: int, connection: int, stream: int) -> bool:
        """Whether data of a stream was captured before `row`: its positions count from there already."""
        if self.connections.streams.next_seq[stream] >= 0:
            return True
        first = int(np.searchsorted(block.number, self.connections.first_number[connection]))
        part = slice(first, row)
        src, dst = block.src[row], block.dst[row]
        carries = (block.length[part] > 0) | (block.flags[part] & FIN != 0)
        return bool(np.any(carries & (block.src[part] == src) & (block.dst[part] == dst)))

    def _begin_stream(self, stream: int, isn: int) -> None:
        streams = self.connections.streams
        streams.isn[stream] = isn
        streams.syn_seen[stream] = True
        streams.next_seq[stream] = (isn + 1) % _SEQ

    # -- reassembly

    def _data(self, block: PacketBlock, stream: Int64s) -> _Data:
        row = np.flatnonzero((block.length > 0) | (block.flags & FIN != 0))
        mine = stream[row]
        # numbered densely, streams fit 16 bits, which numpy sorts by radix
        seen = np.zeros(len(self.connections.streams), bool)
        seen[mine] = True
        present = np.flatnonzero(seen)
        dense = np.empty(len(seen), np.uint16 if len(present) < 1 << 16 else np.int64)
        dense[present] = np.arange(len(present))
        code = dense[mine]
        row = row[np.argsort(code, kind="stable")]
        count = np.bincount(code, minlength=len(present))
        return _Data(row, np.repeat(present, count), np.cumsum(count) - count, count)

    def _reassemble(self, block: PacketBlock, stream: Int64s, data: _Data) -> None:
        streams = self.connections.streams
        slow = self._slow
        busy: list[int] = list(slow)
        if len(data.row):
            ids = data.stream[data.begin]
            seq = (block.seq[data.row].astype(np.int64) + (block.flags[data.row] & SYN != 0)) % _SEQ
            length = block.length[data.row].astype(np.int64)
            unknown = streams.next_seq[ids] < 0
            streams.next_seq[ids[unknown]] = seq[data.begin[unknown]]
            # position of each packet less that of its stream, if all before it were in order
            ahead = np.cumsum(length) - length
            ahead -= np.repeat(ahead[data.begin], data.count)
            expected = np.repeat(streams.next_seq[ids], data.count)
            broken = (expected + ahead) % _SEQ != seq
            clean = np.add.reduceat(broken, data.begin, dtype=np.int64) == 0
            if slow:
                clean &= ~np.isin(ids, busy)
            self._fast(block, data, np.repeat(clean, data.count), ahead, clean)
            for group in np.flatnonzero(~clean).tolist():
                number = int(ids[group])
                if number not in slow:
                    # positions are known only now: the fast path of this block did not touch this stream
                    slow[number] = self._slow_stream(number)
                    busy.append(number)
        if busy:
            self._slowly(block, stream, data, busy)

    def _fast(self, block: PacketBlock, data: _Data, mask: Bools, ahead: Int64s, clean: Bools) -> None:
        """Segments of the streams that are in order; `mask` selects their packets, `clean` the streams."""
        if not clean.any():
            return
        streams = self.connections.streams
        row, stream, relative = (
            column if mask.all() else column[mask] for column in (data.row, data.stream, ahead)
        )
        position = streams.end[stream] + relative
        length, captured = block.length[row].astype(np.int64), block.captured[row].astype(np.int64)
        time, flags = block.time[row], block.flags[row]
        self._add_rows(block, row, stream, position, length, captured)
        ids = data.stream[data.begin[clean]]
        ends = np.cumsum(data.count[clean]) - 1
        streams.end[ids] = position[ends] + length[ends]
        streams.next_seq[ids] = (streams.next_seq[ids] + relative[ends] + length[ends]) % _SEQ
        fins = np.flatnonzero(flags & FIN)
        for index in fins.tolist():
            self._note_fin(int(stream[index]), int(position[index] + length[index]), int(time[index]))

    def _add_rows(
        self,
        block: PacketBlock,
        row: Int64s,
        stream: Int64s,
        position: Int64s,
        length: Int64s,
        captured: Int64s,
    ) -> None:
        """Segments, and gaps for what the snapshot length cut, of packets that are in order."""
        some = captured > 0
        kept = row if some.all() else row[some]
        time = block.time[kept]
        if some.all():
            segments = [stream, position, block.offset[kept], captured]
        else:
            segments = [stream[some], position[some], block.offset[kept], captured[some]]
        segments += [time, time, block.number[kept], block.flags[kept].astype(np.int64)]
        gaps: list[Int64s] = []
        cut = np.flatnonzero(captured < length)
        if len(cut):
            missing = length[cut] - captured[cut]
            cause = np.full(len(cut), GapCause.SNAPLEN)
            gaps = [stream[cut], position[cut] + captured[cut], missing, cause]
            np.add.at(self.connections.streams.cut, stream[cut], missing)
        self._rows.append((segments, gaps))

    def _note_fin(self, stream: int, position: int, time: int) -> None:
        streams = self.connections.streams
        if streams.fin_time[stream] < 0:
            streams.fin_time[stream] = time
            streams.fin_position[stream] = position

    # -- streams out of order

    def _slow_stream(self, stream: int) -> StreamOrder:
        streams = self.connections.streams
        return StreamOrder(
            next_seq=int(streams.next_seq[stream]),
            position=int(streams.end[stream]),
            ack=int(streams.ack[stream ^ 1]),
            reset=bool(streams.reset_time[stream] >= 0 or streams.reset_time[stream ^ 1] >= 0),
        )

    def _slowly(self, block: PacketBlock, stream: Int64s, data: _Data, busy: list[int]) -> None:
        """Take the packets of the busy streams one by one, with the acknowledgments of their peers."""
        is_busy = np.zeros(len(self.connections.streams), bool)
        is_busy[busy] = True
        carries = data.row[is_busy[data.stream]]
        has_ack = block.flags & (ACK | RST) != 0
        acks = np.flatnonzero(is_busy[stream ^ 1] & has_ack)
        resets = np.flatnonzero(is_busy[stream] & (block.flags & RST != 0))
        rows = np.concatenate([carries, acks, resets])
        target = np.concatenate([stream[carries], stream[acks] ^ 1, stream[resets]])
        is_ack = np.arange(len(rows)) >= len(carries)
        order = np.lexsort((is_ack, rows, target))
        rows, target, is_ack = rows[order], target[order], is_ack[order]
        columns = [
            getattr(block, name)[rows].tolist()
            for name in ("seq", "ack", "length", "captured", "offset", "time", "number", "flags")
        ]
        events = zip(target.tolist(), is_ack.tolist(), *columns, strict=True)
        for number, group in groupby(events, key=lambda event: event[0]):
            stream_order = self._slow[number]
            for _, ack_only, seq, ack, length, captured, offset, time, packet, flags in group:
                if ack_only:
                    if flags & RST:
                        stream_order.reset(time)
                    else:
                        stream_order.acknowledge(ack, time)
                    continue
                if flags & SYN:
                    seq += 1
                stream_order.add(seq, Segment(0, length, captured, offset, time, packet, flags))
                if flags & FIN and stream_order.fin_position >= 0:
                    self._note_fin(number, stream_order.fin_position, time)
        for number in busy:
            self._collect(number)

    def _flush(self, stream: int) -> None:
        if stream in self._slow:
            self._slow[stream].flush()
            self._collect(stream)

    def _collect(self, stream: int) -> None:
        """Take what a slow stream has ready, bring its columns up to date, retire it if it is idle."""
        order, streams = self._slow[stream], self.connections.streams
        segments: list[tuple[int, ...]] = []
        gaps: list[tuple[int, ...]] = []
        for item in order.out:
            if isinstance(item, Hole):
                gaps.append((stream, item.position, item.missing, item.cause))
                streams.lost[stream] += item.missing
                continue
            if item.captured:
                place = (stream, item.position, item.offset, item.captured)
                segments.append((*place, item.time, item.delivered, item.number, item.flags))
            if item.captured < item.length:
                missing = item.length - item.captured
                gaps.append((stream, item.position + item.captured, missing, GapCause.SNAPLEN))
                streams.cut[stream] += missing
        order.out.clear()
        if segments or gaps:
            self._rows.append((_transposed(segments), _transposed(gaps)))
        self._repeats += [(stream, repeat) for repeat in order.take_repeats()]
        streams.end[stream], streams.next_seq[stream] = order.position, order.next_seq
        streams.retransmitted[stream] += order.retransmitted
        streams.reordered[stream] += order.reordered
        streams.outside[stream] += order.outside
        order.retransmitted = order.reordered = order.outside = 0
        if order.idle:
            del self._slow[stream]

    def _tails(self) -> None:
        """Bytes that the peer acknowledged, but after which nothing was captured."""
        streams = self.connections.streams
        acked = streams.ack.reshape(-1, 2)[:, ::-1].ravel()
        missing = (acked - streams.next_seq + _HALF) % _SEQ - _HALF
        # the FIN takes a sequence number too; one that was not captured may hide behind the last ACK
        has_fin = streams.fin_position == streams.end
        missing -= has_fin | (missing == 1)
        found = (acked >= 0) & (streams.next_seq >= 0) & (missing > 0) & (missing <= _MAX_TAIL)
        stream = np.flatnonzero(found)
        if len(stream):
            gaps = [stream, streams.end[stream], missing[stream], np.full(len(stream), GapCause.NOT_CAPTURED)]
            self._rows.append(([], gaps))
            streams.lost[stream] += missing[stream]
            streams.end[stream] += missing[stream]
            streams.next_seq[stream] = (streams.next_seq[stream] + missing[stream]) % _SEQ

    # -- what remains of a block

    def _summarise(self, block: PacketBlock, connection: Int64s, stream: Int64s) -> None:
        connections, streams = self.connections, self.connections.streams
        connections.last_time[connection] = block.time
        streams.packets += np.bincount(stream, minlength=len(streams))
        flags = block.flags
        closed = np.flatnonzero((block.window == 0) & (flags & (SYN | RST) == 0))
        if len(closed):
            np.add.at(streams.zero_windows, stream[closed], 1)
        acks = flags & (ACK | RST) == ACK
        if acks.all():
            streams.ack[stream] = block.ack
        else:
            streams.ack[stream[acks]] = block.ack[acks]
        for row in np.flatnonzero(flags & RST).tolist():
            if streams.reset_time[stream[row]] < 0:
                streams.reset_time[stream[row]] = block.time[row]

    def _result(self, connections: range, block: PacketBlock | None) -> SegmentBlock:
        segments = _joined([part for part, _ in self._rows if part], _SEGMENT_COLUMNS)
        gaps = _joined([part for _, part in self._rows if part], _GAP_COLUMNS)
        if len(self._rows) > 1:
            order = np.argsort(segments[0], kind="stable")
            segments = [column[order] for column in segments]
            order = np.lexsort((gaps[1], gaps[0]))
            gaps = [column[order] for column in gaps]
        self._rows = []
        before = _gap_rows(segments, gaps)
        stream, position, offset, length, time, delivered, number, flags = segments
        gap_stream, gap_position, missing, cause = gaps
        result = SegmentBlock(
            stream=stream,
            position=position,
            offset=offset,
            length=length,
            time=time,
            delivered=delivered,
            number=number,
            flags=flags.astype(np.uint8),
            gaps=Gaps(gap_stream, gap_position, missing, cause.astype(np.uint8), before),
            connections=connections,
            source=self._source,
            block=block,
        )
        if self._index is not None:
            self._index.append(result)
            self._compare_repeats(self._index)
        self._repeats = []
        return result

    def _compare_repeats(self, index: SegmentIndex) -> None:
        """Count bytes that came again with other content than at first."""
        for stream, repeat in self._repeats:
            again = index.source.read(repeat.offset, repeat.length)
            for at, offset, length in zip(
                *(
                    part.tolist()
                    for part in index.pieces(stream, repeat.position, repeat.position + repeat.length)
                ),
                strict=True,
            ):
                skip = at - repeat.position
                first, second = index.source.read(offset, length), again[skip : skip + length]
                if first != second:
                    differ = sum(one != other for one, other in zip(first, second, strict=False))
                    self.connections.streams.conflicting[stream] += differ


def _transposed(rows: list[tuple[int, ...]]) -> list[Int64s]:
    return list(np.array(rows, np.int64).T) if rows else []


def _joined(parts: list[list[Int64s]], width: int) -> list[Int64s]:
    """Columns of the parts, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return [np.empty(0, np.int64) for _ in range(width)]
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def _gap_rows(segments: list[Int64s], gaps: list[Int64s]) -> Int64s:
    """For each gap the row of the first segment that is not before it."""
    count = len(gaps[0])
    if not count:
        return np.empty(0, np.int64)
    stream = np.concatenate([gaps[0], segments[0]])
    position = np.concatenate([gaps[1], segments[1]])
    order = np.lexsort((np.arange(len(stream)), position, stream))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[:count] - np.arange(count)
