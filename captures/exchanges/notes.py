"""Marks and comments of exchanges, and how they are kept in the packet comments of pcapng.

A comment on a packet, whoever wrote it, is a comment on the exchanges that the packet has bytes of. A mark is a comment
that begins with ``[marked]``; where a packet holds several exchanges, ``[correlation 42]`` says which is meant, and
``[marked, correlation 42] text`` says it all. Each line of a comment that begins like this is a note of its own.

What is noted here goes before what was read. Packets whose comments nobody changed keep them to the letter.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from captures.exchanges.table import ExchangeTable
from captures.packets import SegmentBlock
from captures.packets.table import Int64s

_POSITION_BITS = 42  # 4 TB of one stream, and two million streams
_TAG = re.compile(r"\[(?:(marked)(?:, correlation (-?[0-9]+))?|correlation (-?[0-9]+))\] ?")


class Note(NamedTuple):
    """What is noted of an exchange.

    :ivar comment: text, may have several lines; empty if there is none
    :ivar marked: whether it is marked
    """

    comment: str = ""
    marked: bool = False

    def __bool__(self) -> bool:
        return bool(self.comment or self.marked)

    def as_text(self, correlation_id: int | None = None) -> str:
        """Return the text of a packet comment.

        :param correlation_id: that of the exchange, where its packet holds others too
        """
        tags = ["marked"] if self.marked else []
        if correlation_id is not None:
            tags.append(f"correlation {correlation_id}")
        return " ".join(filter(None, [f"[{', '.join(tags)}]" if tags else "", self.comment]))


NO_NOTE = Note()


class _Part(NamedTuple):
    """One note of a packet comment."""

    note: Note
    correlation_id: int | None


class _Place(NamedTuple):
    """Bytes of a stream that came with a commented packet.

    :ivar start: stream position of the first
    :ivar end: position behind the last
    :ivar packet: number of the packet
    """

    start: int
    end: int
    packet: int


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


class Notes:
    """Notes by row of the exchange table: those of packet comments, and those made here.

    :param table: the exchanges
    :param client_stream: gives the stream with the requests of a connection
    """

    def __init__(self, table: ExchangeTable, client_stream: Callable[[int], int]) -> None:
        self._table = table
        self._client_stream = client_stream
        self._comments: dict[int, list[_Part]] = {}
        self._packets: Int64s = np.empty(0, np.int64)
        self._places: dict[int, list[_Place]] = {}
        self._own: dict[int, Note] = {}

    # ------------------------------------------------------------ reading
    def read(self, comments: Mapping[int, str]) -> None:
        """Take in packet comments, by packet number."""
        if comments:
            self._comments |= {number: parts_of(text) for number, text in comments.items()}
            self._packets = np.sort(np.append(self._packets, list(comments)), kind="stable")

    def place(self, block: SegmentBlock) -> None:
        """Learn where in the streams the bytes of commented packets are."""
        if not len(self._packets) or not len(block):
            return
        low, high = np.searchsorted(self._packets, [block.number.min(), block.number.max() + 1])
        for at in np.flatnonzero(np.isin(block.number, self._packets[low:high])).tolist():
            start = int(block.position[at])
            place = _Place(start, start + int(block.length[at]), int(block.number[at]))
            self._places.setdefault(int(block.stream[at]), []).append(place)

    def renumber(self, rows: Int64s) -> None:
        """Follow the rows of the table to their new indexes, -1 for those that were dropped."""
        self._own = {int(rows[row]): note for row, note in self._own.items() if rows[row] >= 0}

    # ------------------------------------------------------------ asking
    def of(self, row: int) -> Note:
        """Return what is noted of an exchange."""
        if not self._own and not self._places:
            return NO_NOTE
        own = self._own.get(row)
        if own is not None:
            return own
        correlation = int(self._table.column("correlation_id")[row])
        found = [
            part.note
            for packet in self._packets_of(row)
            for part in self._comments[packet]
            if part.correlation_id in (None, correlation)
        ]
        comment = "\n".join(note.comment for note in found if note.comment)
        return Note(comment, any(note.marked for note in found))

    def all(self) -> dict[int, Note]:
        """Return the notes of all exchanges that have one, by row."""
        rows = dict.fromkeys((*self._commented(), *self._own))
        return {row: note for row in rows if (note := self.of(row))}

    def changed(self) -> tuple[set[int], dict[int, Note]]:
        """Return what a copy of the packets must not keep as it was.

        :returns: numbers of the packets whose comments no longer hold, and by row what is noted instead
        """
        rows, packets = set(self._own), set[int]()
        by_row = {row: set(self._packets_of(row)) for row in (*self._commented(), *self._own)}
        while True:
            packets |= {packet for row in rows for packet in by_row[row]}
            more = {row for row, mine in by_row.items() if mine & packets} - rows
            if not more:
                return packets, {row: note for row in sorted(rows) if (note := self.of(row))}
            rows |= more  # they share the comment of a packet with one that was changed

    @property
    def unplaced(self) -> list[int]:
        """Numbers of the packets whose comments belong to no exchange."""
        placed = {packet for row in self._commented() for packet in self._packets_of(row)}
        return sorted(self._comments.keys() - placed)

    def _commented(self) -> list[int]:
        """Return the rows that share bytes with a commented packet."""
        if not self._places:
            return []
        connection = self._table.column("connection").astype(np.int64)
        rows = np.flatnonzero(np.isin(connection, [stream >> 1 for stream in self._places]))
        known, inverse = np.unique(connection[rows], return_inverse=True)
        client = np.array([self._client_stream(each) for each in known.tolist()], np.int64)[inverse]
        places = sorted((stream, *place[:2]) for stream, mine in self._places.items() for place in mine)
        streams, starts, ends = np.array(places, np.int64).reshape(-1, 3).T
        found = np.zeros(len(rows), np.bool_)
        for side, stream in (("request", client), ("response", client ^ 1)):
            position = self._table.column(f"{side}_position")[rows]
            size = self._table.column(f"{side}_size")[rows]
            # packets that delivered bytes do not overlap, so the first that ends behind the frame's start decides
            at = np.searchsorted(_key(streams, ends), _key(stream, position), "right")
            inside = np.minimum(at, len(places) - 1)
            touched = (streams[inside] == stream) & (starts[inside] < position + size)
            found |= touched & (at < len(places)) & (size > 0)
        commented: list[int] = rows[found].tolist()
        return commented

    def _packets_of(self, row: int) -> Iterator[int]:
        """Yield the commented packets that have bytes of an exchange, each once."""
        values = self._table.row(row)
        client = self._client_stream(values["connection"])
        met: set[int] = set()
        for side, stream in (("request", client), ("response", client ^ 1)):
            start, size = values[f"{side}_position"], values[f"{side}_size"]
            places = self._places.get(stream, [])
            # in the order of the stream: payload is delivered like that
            for at in range(bisect_right(places, start, key=attrgetter("end")), len(places)):
                if places[at].start >= start + size:
                    break
                if places[at].packet not in met:
                    met.add(places[at].packet)
                    yield places[at].packet

    # ------------------------------------------------------------ noting
    def comment(self, row: int, text: str) -> None:
        """Comment on an exchange, in place of any comment it has; an empty text takes it away."""
        self._own[row] = self.of(row)._replace(comment=text)

    def mark(self, row: int, *, marked: bool = True) -> None:
        """Mark an exchange, or take its mark away."""
        self._own[row] = self.of(row)._replace(marked=marked)


def _key(stream: Int64s, position: Int64s) -> Int64s:
    """Return numbers that sort by stream, then position."""
    return stream << _POSITION_BITS | position
