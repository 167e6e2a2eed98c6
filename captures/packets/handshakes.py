"""Assignment of packets to connections, and the start of each stream."""

from __future__ import annotations

import numpy as np

from captures.arrays import Int64s, distinct_values
from captures.packets.addresses import Interner
from captures.packets.connections import Connections
from captures.packets.table import ACK, FIN, RST, SYN, PacketBlock

_SEQ = 1 << 32
_MAX_SYN_DATA = 1 << 16


class Handshakes:
    """Reads SYNs: each pair of endpoints has one connection at a time, until a handshake starts another.

    :param connections: table to which new ones are added
    """

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self._pairs = Interner()
        self._current = np.empty(0, np.int64)  # latest connection of each endpoint pair
        self._half_open = np.empty(0, np.int64)  # senders of a SYN that have sent nothing else yet
        self._carrying = np.empty(0, np.int64)  # packets of the block with data or FIN, by sender and row

    def connections_of(self, block: PacketBlock) -> tuple[Int64s, list[int]]:
        """Return the connection of each packet, and the connections replaced by new ones of the same pair."""
        src, dst = block.src.astype(np.int64), block.dst.astype(np.int64)
        pair, fresh = self._pairs.ids(np.minimum(src, dst) << 31 | np.maximum(src, dst))
        if len(fresh):
            self._current = np.append(self._current, np.full(len(fresh), -1, np.int64))
        syns = np.flatnonzero(block.flags & SYN)
        rows = distinct_values(np.concatenate((fresh, syns)))
        if len(syns) or len(self._half_open):
            rows = distinct_values(np.append(rows, self._first_acknowledgments(block, pair, syns)))
        if not len(rows):
            return self._current[pair], []
        carrying = np.flatnonzero((block.length > 0) | (block.flags & FIN != 0))
        self._carrying = np.sort(_senders(block, pair)[carrying] << 32 | carrying)
        before, replaced = self._current.copy(), []
        self.connections.reserve(len(rows))
        changes: list[tuple[int, int, int]] = []
        for row in rows.tolist():
            number = int(pair[row])
            old = int(self._current[number])
            new = self._identify(block, row, number, old)
            if new != old:
                self._current[number] = new
                changes.append((number, row, new))
                if old >= 0:
                    replaced.append(old)
        self.connections.trim()
        if not changes:
            return self._current[pair], replaced
        return self._apply_changes(before[pair], pair, changes), replaced

    def enter(self, connection: int) -> None:
        """Assign packets between the endpoints of a connection to it from now on."""
        a, b = int(self.connections.a[connection]), int(self.connections.b[connection])
        pair, fresh = self._pairs.ids(np.array([min(a, b) << 31 | max(a, b)], np.int64))
        if len(fresh):
            self._current = np.append(self._current, np.int64(-1))
        self._current[pair[0]] = connection

    @staticmethod
    def _apply_changes(connection: Int64s, pair: Int64s, changes: list[tuple[int, int, int]]) -> Int64s:
        """Apply each change (pair, row, connection) to that pair, from that row on."""
        table = np.array(sorted(changes), np.int64)
        keys = table[:, 0] << 32 | table[:, 1]
        rows = pair << 32 | np.arange(len(pair))
        positions = np.searchsorted(keys, rows, "right") - 1
        applies = (positions >= 0) & (table[positions, 0] == pair)
        return np.where(applies, table[positions, 2], connection)

    def _first_acknowledgments(self, block: PacketBlock, pair: Int64s, syns: Int64s) -> Int64s:
        """Return the first packet after each SYN with which its sender acknowledges the other side's bytes.

        Remember senders without one so far.
        """
        sender = _senders(block, pair)
        opening = syns[block.flags[syns] & ACK == 0]
        waiting = np.zeros(2 * len(self._pairs), bool)
        waiting[self._half_open] = waiting[sender[opening]] = True
        row = np.flatnonzero(waiting[sender] & (block.flags & (SYN | ACK | RST) == ACK))
        keys = np.sort(sender[row] << 32 | row)
        wanted = np.concatenate([self._half_open << 32, sender[opening] << 32 | opening])
        positions = keys.searchsorted(wanted)
        found = positions < len(keys)
        found[found] = keys[positions[found]] >> 32 == wanted[found] >> 32
        self._half_open = distinct_values(wanted[~found] >> 32)
        return distinct_values(keys[positions[found]] & 0xFFFF_FFFF)

    def _identify(self, block: PacketBlock, row: int, pair: int, old: int) -> int:
        """Return the connection of a packet that has a SYN, is the first of its pair, or the first after a SYN.

        :param old: the latest connection of the pair, -1 if there is none
        """
        flags = int(block.flags[row])
        src, dst = int(block.src[row]), int(block.dst[row])
        seq, ack, time = int(block.seq[row]), int(block.ack[row]), int(block.time[row])
        connections, streams = self.connections, self.connections.streams
        is_syn, is_answer = flags & (SYN | ACK) == SYN, flags & (SYN | ACK) == SYN | ACK
        if flags & RST:  # SYN with RST is not a handshake
            is_syn = is_answer = False
        if old >= 0:
            stream = 2 * old + (src != int(connections.a[old]))
            if not (is_syn or is_answer):
                self._infer(block, row, pair, stream)
                return old
            if int(streams.isn[stream]) == seq:
                return old
            if self._joins(old, stream, is_answer, ack):
                streams.isn[stream] = seq
                if not self._has_begun(block, row, pair, stream):
                    self._begin_stream(stream, seq + 1)
                # a proxy and a request log show no handshake: their recordings have both packets at one time
                if is_answer and 0 <= connections.syn_time[old] < time:
                    connections.handshake[old] = time - int(connections.syn_time[old])
                return old
        a, b = (dst, src) if is_answer else (src, dst)
        generation = int(connections.generation[old]) + 1 if old >= 0 else 0
        new = connections.add(a, b, generation, time, int(block.number[row]))
        if is_syn:
            connections.client_known[new] = True
            connections.syn_time[new] = time
            streams.isn[2 * new] = seq
            self._begin_stream(2 * new, seq + 1)
        elif is_answer:
            connections.client_known[new] = True
            streams.isn[2 * new], streams.isn[2 * new + 1] = (ack - 1) % _SEQ, seq
            self._begin_stream(2 * new, ack)
            self._begin_stream(2 * new + 1, seq + 1)
        return new

    def _joins(self, connection: int, stream: int, is_answer: bool, ack: int) -> bool:
        """Return whether a SYN belongs to a connection whose other side started with another SYN."""
        streams = self.connections.streams
        peer_isn = int(streams.isn[stream ^ 1])
        if peer_isn < 0 or streams.isn[stream] >= 0:
            return False
        if is_answer:
            # it may acknowledge data sent with the SYN (RFC 7413)
            return (ack - peer_isn - 1) % _SEQ < _MAX_SYN_DATA
        # simultaneous open (RFC 9293 section 3.5): both SYNs cross
        return int(self.connections.syn_time[connection]) >= 0

    def _infer(self, block: PacketBlock, row: int, pair: int, stream: int) -> None:
        """Infer the start of the other side's stream if its SYN was not captured.

        The client's first packet after its SYN acknowledges exactly that: Kafka's brokers do not speak first.
        """
        streams = self.connections.streams
        isn = int(streams.isn[stream])
        if isn < 0 or streams.isn[stream ^ 1] >= 0 or int(block.seq[row]) != (isn + 1) % _SEQ:
            return
        if not self._has_begun(block, row, pair, stream ^ 1):
            self._begin_stream(stream ^ 1, int(block.ack[row]))

    def _has_begun(self, block: PacketBlock, row: int, pair: int, stream: int) -> bool:
        """Return whether data of a stream was captured before `row`, so that its positions already count from there."""
        connections, connection = self.connections, stream >> 1
        if connections.streams.next_seq[stream] >= 0:
            return True
        first = int(block.number.searchsorted(connections.first_number[connection]))
        a, b = int(connections.a[connection]), int(connections.b[connection])
        sender = pair << 1 | (b > a if stream & 1 else a > b)
        begin, end = self._carrying.searchsorted((sender << 32 | first, sender << 32 | row))
        return bool(begin < end)

    def _begin_stream(self, stream: int, seq: int) -> None:
        """Set the sequence number of the first byte of a stream."""
        streams = self.connections.streams
        streams.syn_seen[stream] = True
        streams.next_seq[stream] = seq % _SEQ


def _senders(block: PacketBlock, pair: Int64s) -> Int64s:
    """Return a number for each packet: of its pair of endpoints, and which of them sent it."""
    senders: Int64s = pair << 1 | (block.src > block.dst)
    return senders
