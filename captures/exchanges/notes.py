"""Marks and comments on exchanges, and their storage in the packet comments of pcapng.

A comment on a packet, written by any program, is a comment on the exchanges that have bytes in the packet. A mark is a
comment that begins with ``[marked]``; if a packet has several exchanges, ``[correlation 42]`` selects one. ``[marked,
correlation 42] text`` combines them. Each line of a comment that begins like this is a separate note.

Notes made here take precedence over those read from the file. Unchanged comments are kept verbatim.

Lines in which kproxy's own proxy reports what it did (:mod:`captures.interventions`) are not user comments: they are
stored separately, cannot be changed, and stay on their packets.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, takewhile
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np

from captures.arrays import Int64s
from captures.exchanges.broker_logs import BrokerLogs
from captures.exchanges.table import ExchangeTable
from captures.interventions import (
    PREFIX,
    UNTOUCHED,
    BrokerLog,
    Intervention,
    Interventions,
    TcpSample,
    UpstreamBroker,
    as_comment,
    comment_content,
)
from captures.json_objects import OrNull
from captures.packets import SegmentBlock

_POSITION_BITS = 42  # enough for 4 TB per stream, and two million streams
_TAG = re.compile(r"\[(?:(marked)(?:, correlation (-?[0-9]+))?|correlation (-?[0-9]+))\] ?")


class Note(NamedTuple):
    """The mark and comment of an exchange.

    :ivar comment: text, may have several lines; empty if there is none
    :ivar marked: whether it is marked
    """

    comment: OrNull[str] = ""
    marked: bool = False

    def __bool__(self) -> bool:
        return bool(self.comment or self.marked)

    def as_text(self, correlation_id: int | None = None) -> str:
        """Return the text of a packet comment.

        :param correlation_id: correlation ID of the exchange, if its packet has other exchanges too
        """
        tags = ["marked"] if self.marked else []
        if correlation_id is not None:
            tags.append(f"correlation {correlation_id}")
        return " ".join(filter(None, [f"[{', '.join(tags)}]" if tags else "", self.comment]))


NO_NOTE = Note()
_NEVER = 0, 0, 0


class _Part(NamedTuple):
    """One note of a packet comment."""

    note: Note
    correlation_id: int | None


class _PacketRange(NamedTuple):
    """Bytes of a stream that were in a commented packet.

    :ivar start: stream position of the first byte
    :ivar end: position after the last byte
    :ivar packet: number of the packet
    """

    start: int
    end: int
    packet: int


class CommentedBytes(NamedTuple):
    """Bytes of a stream that were in a commented packet, and the content of the comment."""

    where: _PacketRange
    parts: list[_Part]
    interventions: list[Intervention]

    def moved(self, distance: int, packets: int) -> CommentedBytes:
        """Return it with stream positions shifted by `distance` and the packet's number by `packets`."""
        start, end, packet = self.where
        return self._replace(where=_PacketRange(start + distance, end + distance, packet + packets))


class NotesContent(NamedTuple):
    """The content of all packet comments so far.

    :ivar comments: by number of the packet, as are ``interventions``
    :ivar read_at: when the packets came
    :ivar ranges: by stream
    :ivar ended: connections of which a packet says so that has no bytes of a frame
    """

    comments: dict[int, list[_Part]]
    interventions: dict[int, list[Intervention]]
    read_at: dict[int, int]
    ranges: dict[int, list[_PacketRange]]
    ended: set[int]


def parts_of(text: str) -> list[_Part]:
    """Return the notes in the text of a packet comment."""
    found: list[_Part] = []
    for line in text.split("\n"):
        tag = _TAG.match(line)
        if tag is not None:
            correlation = tag[2] or tag[3]
            note = Note(line[tag.end() :], tag[1] is not None)
            found.append(_Part(note, None if correlation is None else int(correlation)))
        elif found:
            last = found[-1]
            found[-1] = last._replace(note=last.note._replace(comment=f"{last.note.comment}\n{line}"))
        else:
            found.append(_Part(Note(line), None))
    return found


class ParsedComment(NamedTuple):
    """The content of a packet comment by kind.

    :ivar own: what users wrote
    :ivar interventions: what the proxy did to the frame
    :ivar samples: the kernel's TCP statistics of the connection, and its broker
    :ivar broker_logs: entries of the broker's request log
    :ivar lines: the lines of the last three
    """

    own: str
    interventions: list[Intervention]
    samples: list[TcpSample | UpstreamBroker]
    broker_logs: list[BrokerLog]
    lines: list[str]


def parse_comment(text: str) -> ParsedComment:
    """Parse a packet comment: separate the proxy's lines from the user's."""
    found = ParsedComment(text, [], [], [], [])
    if PREFIX not in text:
        return found
    own = []
    for line in text.split("\n"):
        parsed = comment_content(line)
        if parsed is None:
            own.append(line)
            continue
        found.lines.append(line)
        if isinstance(parsed, Intervention):
            found.interventions.append(parsed)
        elif isinstance(parsed, BrokerLog):
            found.broker_logs.append(parsed)
        else:
            found.samples.append(parsed)
    return found._replace(own="\n".join(own))


def without_values(text: str) -> str:
    """Return a packet comment without the values that the proxy replaced, except addresses and versions."""
    if PREFIX not in text:
        return text
    lines = []
    for line in text.split("\n"):
        parsed = comment_content(line)
        lines.append(as_comment(parsed.without_values()) if isinstance(parsed, Intervention) else line)
    return "\n".join(lines)


class Notes:
    """Notes by row of the exchange table: those of packet comments, and those made here.

    :param table: the exchanges
    :param client_stream: returns the stream with the requests of a connection
    """

    def __init__(self, table: ExchangeTable, client_stream: Callable[[int], int]) -> None:
        self._table = table
        self._client_stream = client_stream
        self.broker_logs = BrokerLogs()
        self._comments: dict[int, list[_Part]] = {}
        self._interventions: dict[int, list[Intervention]] = {}
        self._read_at: dict[int, int] = {}
        """Times of the packets with comments, by packet number."""
        self._packets: Int64s = np.empty(0, np.int64)
        self._ranges: dict[int, list[_PacketRange]] = {}
        self._own: dict[int, Note] = {}
        self._intervening: set[int] = set()
        """Packets with frames to which kproxy did more than rewrite addresses."""
        self._intervened: tuple[tuple[int, int, int], dict[int, Interventions]] = _NEVER, {}
        self._ended_otherwise: set[int] = set()
        """Connections that kproxy ended, according to packets without bytes of a frame."""
        self._ended: tuple[tuple[int, int], set[int]] = (-1, -1), set()
        """Cache of :attr:`ended_connections`, with the number of packets and ranges that it was made from."""

    def __bool__(self) -> bool:
        """Whether there are any notes or interventions."""
        return bool(self._own or self._comments or self._interventions)

    # ------------------------------------------------------------ out and in
    def content(self) -> NotesContent:
        """Return the content of all packet comments so far, for :meth:`restore`."""
        return NotesContent(
            self._comments, self._interventions, self._read_at, self._ranges, self._ended_otherwise
        )

    def restore(self, content: NotesContent) -> None:
        """Take the place of other notes, of a capture with the same table."""
        self._comments, self._read_at, self._ranges = content.comments, content.read_at, content.ranges
        for packet, done in content.interventions.items():
            self._intervened_in(packet, done)
        self._ended_otherwise = content.ended
        self._packets = np.array(sorted(self._read_at), np.int64)

    # ------------------------------------------------------------ reading
    def read(self, comments: Mapping[int, str], time: int = 0) -> dict[int, list[TcpSample | UpstreamBroker]]:
        """Add packet comments, by packet number.

        :param time: approximate time of the packets, in ns since the epoch
        :returns: what they say about connections, which are not known here
        """
        samples, known = {}, len(self._read_at)
        logged: list[tuple[int, BrokerLog]] = []
        for number, text in comments.items():
            parsed = parse_comment(text)
            logged += ((number, each) for each in parsed.broker_logs[:1])
            if parsed.own:
                self._comments[number] = parts_of(parsed.own)
            if parsed.interventions:
                self._intervened_in(number, parsed.interventions)
            if parsed.samples:
                samples[number] = parsed.samples
            if parsed.own or parsed.interventions:
                self._read_at[number] = time
        self.broker_logs.add(sorted(logged, key=itemgetter(0)))
        new = list(self._read_at)[known:]
        if new:
            self._packets = np.sort(np.append(self._packets, new), kind="stable")
        return samples

    def _intervened_in(self, packet: int, done: list[Intervention]) -> None:
        self._interventions[packet] = done
        if any(each.intervenes for each in done):
            self._intervening.add(packet)

    def ending(self, packets: Collection[int]) -> list[int]:
        """Return the packets that say that kproxy ended their connection; such a packet may have no payload."""
        candidates = self._intervening.intersection(packets) if self._intervening else ()
        return [packet for packet in candidates if any(each.ended for each in self._interventions[packet])]

    def end(self, connections: Iterable[int]) -> None:
        """Record connections that kproxy ended."""
        self._ended_otherwise.update(connections)

    def locate(self, block: SegmentBlock) -> None:
        """Record the stream positions of the bytes of commented packets."""
        if not len(self._packets) or not len(block):
            return
        low, high = np.searchsorted(self._packets, [block.number.min(), block.number.max() + 1])
        for at in np.flatnonzero(np.isin(block.number, self._packets[low:high])).tolist():
            start = int(block.position[at])
            each = _PacketRange(start, start + int(block.length[at]), int(block.number[at]))
            self._ranges.setdefault(int(block.stream[at]), []).append(each)

    def comments_from(self, stream: int, position: int) -> list[CommentedBytes]:
        """Return the commented packets with bytes of a stream from `position` on."""
        return [
            CommentedBytes(
                each, self._comments.get(each.packet, []), self._interventions.get(each.packet, [])
            )
            for each in self._ranges.get(stream, ())
            if each.end > position
        ]

    def take_over(self, stream: int, comments: list[CommentedBytes]) -> None:
        """Add what another capture knows about a stream."""
        for where, parts, interventions in comments:
            if parts:
                self._comments[where.packet] = parts
            if interventions:
                self._intervened_in(where.packet, interventions)
            self._read_at[where.packet] = 0
            self._ranges.setdefault(stream, []).append(where)
        if comments:
            self._packets = np.union1d(self._packets, [each.where.packet for each in comments])

    def renumber(self, rows: Int64s) -> None:
        """Translate rows of the table to their new indexes, -1 for dropped rows."""
        self._own = {int(rows[row]): note for row, note in self._own.items() if rows[row] >= 0}
        self._intervened = _NEVER, {}

    def forget(self, before: int) -> None:
        """Drop comments of packets that arrived before `before`, unless an exchange in the table has bytes in them."""
        needed = {packet for row in self._commented() for packet in self._packets_of(row)}
        gone = {number for number, time in self._read_at.items() if time < before} - needed
        if not gone:
            return
        for number in gone:
            del self._read_at[number]
            self._comments.pop(number, None)
            self._interventions.pop(number, None)
        self._intervening -= gone
        self._intervened = _NEVER, {}
        self._packets = np.array(sorted(self._read_at), np.int64)
        kept = {
            stream: [each for each in ranges if each.packet not in gone]
            for stream, ranges in self._ranges.items()
        }
        self._ranges = {stream: ranges for stream, ranges in kept.items() if ranges}

    # ------------------------------------------------------------ asking
    def of(self, row: int) -> Note:
        """Return the note on an exchange."""
        if not self._own and not self._comments:
            return NO_NOTE
        own = self._own.get(row)
        if own is not None:
            return own
        correlation = int(self._table.column("correlation_id")[row])
        found = [
            part.note
            for packet in self._packets_of(row)
            for part in self._comments.get(packet, ())
            if part.correlation_id in (None, correlation)
        ]
        comment = "\n".join(note.comment for note in found if note.comment)
        return Note(comment, any(note.marked for note in found))

    def interventions(self, row: int, values: Mapping[str, int] | None = None) -> Interventions:
        """Return what the proxy did to an exchange.

        :param values: the row of the table, if it was read already
        """
        if not self._interventions:
            return UNTOUCHED
        values = self._table.row(row) if values is None else values
        sides = [
            tuple(each for packet in packets for each in self._interventions.get(packet, ()))
            for packets in self._packets_by_side(values)
        ]
        return Interventions(*sides) if any(sides) else UNTOUCHED

    def all_interventions(self) -> dict[int, Interventions]:
        """Return what the proxy did to exchanges, by row; untouched exchanges are left out."""
        if not self._interventions:
            return {}
        return {row: done for row in self._commented() if (done := self.interventions(row))}

    def intervened(self) -> Mapping[int, Interventions]:
        """Return what kproxy did to the exchanges in which it intervened, by row; rewritten addresses do not count."""
        if not self._intervening:
            return {}
        answered = int(np.count_nonzero(self._table.column("response_size")))
        state = len(self._table), answered, len(self._intervening)
        if self._intervened[0] != state:
            touched = ((row, self.interventions(row)) for row in self._commented(self._intervening))
            self._intervened = state, {row: done for row, done in touched if done.intervene}
        return self._intervened[1]

    @property
    def ended_connections(self) -> set[int]:
        """The connections that kproxy closed, reset or let fall silent, for a rule or a user."""
        state = len(self._intervening), sum(map(len, self._ranges.values())) if self._intervening else 0
        if self._ended[0] != state:
            ending = set(self.ending(self._intervening))
            found = {
                stream >> 1
                for stream, ranges in (self._ranges.items() if ending else ())
                if any(each.packet in ending for each in ranges)
            }
            self._ended = state, found
        return self._ended[1] | self._ended_otherwise

    def by_frame(self) -> dict[tuple[int, int], str]:
        """Return complete packet comments by row and side: 0 for the request, 1 for the response."""
        found: dict[tuple[int, int], list[str]] = {}
        asked = self._table.column("request_size")
        for row, note in self.all().items():
            found[row, 0 if asked[row] else 1] = [note.as_text()]
        packets = self._table.column("packet").tolist() if len(self.broker_logs) else []
        for row, packet in enumerate(packets):
            logged = self.broker_logs.of_row(row, packet)
            if logged is not None:
                found.setdefault((row, 0), []).append(as_comment(logged))
        for row, sides in self.all_interventions().items():
            for side, done in enumerate(sides):
                if done:
                    found.setdefault((row, side), []).extend(map(as_comment, done))
        return {frame: "\n".join(lines) for frame, lines in found.items()}

    def all(self) -> dict[int, Note]:
        """Return the notes of all exchanges that have one, by row."""
        rows = dict.fromkeys((*self._commented(), *self._own))
        return {row: note for row in rows if (note := self.of(row))}

    def changed(self) -> tuple[set[int], dict[int, Note]]:
        """Return which packet comments a copy of the packets must replace.

        :returns: numbers of the packets with outdated comments, and the notes that replace them, by row
        """
        rows, packets = set(self._own), set[int]()
        by_row = {row: set(self._packets_of(row)) for row in (*self._commented(), *self._own)}
        while True:
            packets |= {packet for row in rows for packet in by_row[row]}
            more = {row for row, noted in by_row.items() if noted & packets} - rows
            if not more:
                return packets, {row: note for row in sorted(rows) if (note := self.of(row))}
            rows |= more  # they share a packet's comment with a changed one

    def _commented(self, packets: Collection[int] | None = None) -> list[int]:
        """Return the rows that have bytes in a commented packet.

        :param packets: consider only these packets
        """
        noted = self._ranges
        if packets is not None:
            chosen = {
                stream: [each for each in ranges if each.packet in packets]
                for stream, ranges in noted.items()
            }
            noted = {stream: ranges for stream, ranges in chosen.items() if ranges}
        if not noted:
            return []
        connection = self._table.column("connection").astype(np.int64)
        rows = np.flatnonzero(np.isin(connection, [stream >> 1 for stream in noted]))
        known, inverse = np.unique(connection[rows], return_inverse=True)
        client = np.array([self._client_stream(each) for each in known.tolist()], np.int64)[inverse]
        ranges = sorted(
            (stream, *each[:2]) for stream, ranges_of_stream in noted.items() for each in ranges_of_stream
        )
        streams, starts, ends = np.array(ranges, np.int64).reshape(-1, 3).T
        found = np.zeros(len(rows), np.bool_)
        for side, stream in (("request", client), ("response", client ^ 1)):
            position = self._table.column(f"{side}_position")[rows]
            size = self._table.column(f"{side}_size")[rows]
            # packets that delivered bytes do not overlap, so the first that ends after the frame's start decides
            at = np.searchsorted(_key(streams, ends), _key(stream, position), "right")
            inside = np.minimum(at, len(ranges) - 1)
            touched = (streams[inside] == stream) & (starts[inside] < position + size)
            found |= touched & (at < len(ranges)) & (size > 0)
        commented: list[int] = rows[found].tolist()
        return commented

    def _packets_of(self, row: int) -> Iterator[int]:
        """Yield the commented packets with bytes of an exchange, each once."""
        sides = self._packets_by_side(self._table.row(row))
        yield from dict.fromkeys(chain.from_iterable(sides))

    def _packets_by_side(self, values: Mapping[str, int]) -> list[list[int]]:
        """Return the commented packets with bytes of the request, and those with bytes of the response."""
        client = self._client_stream(values["connection"])
        return [
            self._packets_with(stream, values[f"{side}_position"], values[f"{side}_size"])
            for side, stream in (("request", client), ("response", client ^ 1))
        ]

    def _packets_with(self, stream: int, start: int, size: int) -> list[int]:
        ranges = self._ranges.get(stream, [])
        # in stream order, in which payload is delivered
        first = bisect_right(ranges, start, key=attrgetter("end"))
        behind = (ranges[at] for at in range(first, len(ranges)))
        return list(
            dict.fromkeys(each.packet for each in takewhile(lambda each: each.start < start + size, behind))
        )

    # ------------------------------------------------------------ noting
    def comment(self, row: int, text: str) -> None:
        """Set the comment on an exchange; an empty text removes it."""
        self._own[row] = self.of(row)._replace(comment=text)

    def mark(self, row: int, *, marked: bool = True) -> None:
        """Mark an exchange, or remove its mark."""
        self._own[row] = self.of(row)._replace(marked=marked)


def _key(stream: Int64s, position: Int64s) -> Int64s:
    """Return numbers that sort by stream, then position."""
    return stream << _POSITION_BITS | position
