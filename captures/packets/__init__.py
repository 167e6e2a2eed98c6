"""Capture files to TCP streams: packets in columns, reassembled segments; payload stays in the file.

The chain works in fixed-size blocks, so that memory does not grow with the file::

    source = open_source("kafka.pcapng.zst")       # or "-" for standard input
    packets = read_packets(source)                 # iterator of PacketBlock, plus counters
    index = SegmentIndex(source)
    assembler = TcpAssembler(index)                # fills the index as it goes
    for block in packets:
        segments = assembler.feed(block)           # SegmentBlock: in-order payload of this block
        memory, places = segments.memory()         # its bytes, in place; row r starts at places[r]
    tail = assembler.finish()                      # SegmentBlock: segments that still waited behind holes

The layer above relies on:

*Rows.* ``PacketBlock``, ``SegmentBlock`` and ``Gaps`` (module :mod:`.table`) are tables of numpy columns;
their docstrings list every column with its type and unit.

*Streams.* ``stream = 2 * connection + direction``. A connection is a pair of endpoints and a generation: a
SYN with a new initial sequence number on a known pair starts a new connection, a repeated SYN does not.
Connection ids are assigned in the order of first packets. Direction 0 is sent by endpoint ``a``. If the handshake
was captured (``client_known``), ``a`` is the client; otherwise ``a`` is the sender of the first
packet, and the layer above has to find the client.

*Positions.* Position 0 is the first byte after the SYN, or, for a stream whose SYN was not captured
(``syn_seen`` false), its first captured byte. Segments and gaps tile each stream without overlap; a segment
block holds, for each stream, the next rows in order. Retransmitted bytes are trimmed: the bytes captured
first win.

*Gaps* are explicit rows (``segments.gaps``) with the number of missing bytes and a cause: not captured (the
peer acknowledged them), cut by the snapshot length, or unknown. ``gaps.segment[g]`` is the row before which
gap ``g`` lies. A hole delays the rows behind it until it is filled or declared lost: when the receiver has
acknowledged past it (or reset) and ``GRACE`` of capture time has passed, when a minute has passed without that, when
more than a bounded amount waits behind it, when a new connection replaces this one, or at ``finish()``.
The packets of all connections advance the clock, so that a silent connection does not wait for its own packets.

*Connections* (``assembler.connections``, module :mod:`.connections`) are columns too, one row per
connection, grown in place: ``a``, ``b`` (endpoint ids), ``generation``, ``first_number``, ``first_time``,
``last_time``, ``client_known``, ``handshake`` (SYN to SYN-ACK in ns, -1 unknown).
``assembler.connections.streams`` has one row per stream: ``syn_seen``, ``end``, ``fin_time``,
``fin_position``, ``reset_time`` (-1 = none), ``packets``, ``retransmitted``, ``reordered``, ``lost``,
``cut``, ``conflicting``, ``outside``, ``zero_windows``. ``assembler.connections[i]`` returns one connection as a plain
object. Column attributes are views of the rows in use: read them again after each block. The address book resolves
endpoint ids: ``packets.addresses.text(id)`` is ``"10.0.0.1:9092"`` or ``"[::1]:9092"``; also
``.host(id)``, ``.port(id)``, ``.address(id)``.

*Bytes on demand.* ``index.read_captured(stream, start, end)`` returns the bytes of a range of a stream, up to the first
gap; ``index.pieces(stream, start, end)`` returns their places in the
file as arrays ``(position, offset, length)``; ``index.pieces_of_many(streams, starts, ends)`` those of many ranges.

*Live captures* (``source.live``: a pipe, or a file opened with ``follow=True``) need nothing else: a block is returned
as soon as there is a whole packet, iterating waits for it, and ``source.stop()``, from any thread or signal handler,
ends it. Bytes that cannot be read twice (pipes, compressed files, decrypted TLS) are kept in a bounded spool; if the
oldest bytes were dropped, ``source.held(offset)`` is false and ``source.read`` raises
:class:`~captures.packets.errors.SpoolDropped`.

*Nothing is dropped silently.* ``packets.statistics`` counts, by reason, every record that did not become a TCP packet,
and lists damaged places of the file. ``packets.secrets`` holds the TLS key logs of pcapng
decryption secrets blocks, ``packets.interfaces`` the interfaces, ``block.comments`` packet comments by packet
number. Only a file that is not a capture at all raises ``CaptureError``.
"""

from __future__ import annotations

from captures.packets.addresses import AddressBook
from captures.packets.connections import Connections
from captures.packets.errors import CaptureError
from captures.packets.index import SegmentIndex
from captures.packets.joined_reader import JoinedReader, open_files, read_packets
from captures.packets.joined_source import JoinedSource
from captures.packets.reader import PacketReader
from captures.packets.source import Source, open_source
from captures.packets.table import (
    ACK,
    FIN,
    PSH,
    RST,
    SYN,
    FileDamage,
    GapCause,
    Gaps,
    Memory,
    PacketBlock,
    SegmentBlock,
    Statistics,
)
from captures.packets.tcp import GRACE, Conflict, TcpAssembler
